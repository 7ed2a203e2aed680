"""Medians, percentiles, and ratios with a confidence interval, of interleaved runs."""
import math
import random


def quantile(values, q):
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def ratio(pairs, resamples=2000, seed=1):
    """Geometric mean of after/before over rounds, with its 95 % bootstrap interval; (ratio, None, None) below three rounds.

    Each pair is one round's (before, after), so what drifts between rounds drops out.
    """
    logs = [math.log(after / before) for before, after in pairs if before > 0 and after > 0]
    if not logs:
        return None
    mean = math.exp(sum(logs) / len(logs))
    if len(logs) < 3:
        return mean, None, None
    chance = random.Random(seed)
    means = sorted(sum(chance.choices(logs, k=len(logs))) / len(logs) for _ in range(resamples))
    return mean, math.exp(quantile(means, 0.025)), math.exp(quantile(means, 0.975))


def judge(measured, goal):
    """Is a ratio within `goal` (1.003 for 0.3 %)? True, False, or None where the interval holds both or there is none."""
    if measured is None or measured[1] is None:
        return None
    _, low, high = measured
    if high <= goal:
        return True
    return False if low > goal else None
