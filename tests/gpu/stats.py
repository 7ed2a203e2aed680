"""Medians, percentiles, and ratios of interleaved runs with confidence intervals."""
import math
import random


def quantile(values, q):
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there are no values")
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def ratio(pairs, resamples=2000, seed=1):
    """Returns the geometric mean of after/before over rounds, with its 95 % bootstrap interval; (ratio, None, None) for fewer than three rounds, None for
    none. Each pair is (before, after) of one round, so drift between rounds cancels out."""
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
    """Returns whether a ratio is within `goal` (1.003 for 0.3 %); None if the interval contains `goal` or is missing."""
    if measured is None or measured[1] is None:
        return None
    _, low, high = measured
    if high <= goal:
        return True
    return False if low > goal else None
