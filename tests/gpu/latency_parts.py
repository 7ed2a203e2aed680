"""Parts that time jobs with and without the recorder. Each round runs every configuration in random order, and results are compared within rounds."""
import os
import random
import socket
import time

from machine import HERE, Failed, end, finish, start
from results import FAIL, NOT_MEASURED, PASS
from session import AUTO, MARKS, MODES
from stats import judge, median, quantile, ratio

GOAL = 1.003  # ratio of step times, in the default mode
BARE, AGAIN = "none", "none again"  # both run in every round without the recorder; their difference is noise


class Job:
    """A program that prints samples. `launch(mode, connections, rings)` runs the program and returns its JSON lines."""

    def __init__(self, name, launch, modes, connections=(None, 1)):
        self.name, self.launch, self.modes, self.connections = name, launch, modes, connections
        self.runs = {}    # (connections, mode, phase) -> {round: (median, p99)}
        self.samples = {}
        self.operations = {}
        self.broken = {}  # (connections, mode) -> reason
        self.taken_as = {}


def measure(session, part, jobs, seconds):
    """Runs rounds until the time is used up; each runs every configuration once, in random order."""
    chance = random.Random(7)
    stop = time.monotonic() + min(seconds, session.left() - 5)
    turns = [(job, connections, mode) for job in jobs for connections in job.connections for mode in job.modes]
    most = 3 if session.options.quick else 40
    longest, done = 0.0, 0
    while done < most and (done == 0 or time.monotonic() + longest < stop):
        begin = time.monotonic()
        chance.shuffle(turns)
        for job, connections, mode in turns:
            if (connections, mode) in job.broken or time.monotonic() > stop + 60:
                continue
            once(session, job, connections, mode, done)
        longest = max(longest, time.monotonic() - begin)
        done += 1
    for job in jobs:
        for (connections, mode), why in job.broken.items():
            part.line(FAIL if mode not in (BARE, AGAIN) else NOT_MEASURED,
                      f"{job.name}, recorder {mode}, CONNECTIONS {connections or 'not set'}", why)
    return done


def once(session, job, connections, mode, number):
    recorded = None if mode in (BARE, AGAIN) else mode
    folder = session.ring_folder() if recorded else None
    try:
        lines = job.launch(recorded, connections, folder)
        if recorded:
            rings = session.read_rings(folder)
            if not rings or not any(sum(r["issued"]) for r in rings):
                raise Failed("nothing was recorded")
            expected = (AUTO[connections] if mode == "auto" else mode).partition("/")[0]
            inside = {MARKS.get(r["marks"], "?") for r in rings}
            if inside != {expected}:
                job.taken_as[(connections, mode)] = ", ".join(sorted(inside))
    except Failed as error:
        job.broken[(connections, mode)] = error
        return
    finally:
        if folder:
            for path in session.ring_files(folder):
                os.unlink(path)
    for line in lines:
        if line["what"] not in ("latency", "issue", "tp", "dp"):
            continue
        phase = line["what"] + (f" {line['bytes']} B" if "bytes" in line else "")
        job.operations[phase] = line.get("operations", 1)
        job.runs.setdefault((connections, mode, phase), {})[number] = median(line["us"]), quantile(line["us"], 0.99)


def compare(job, connections, mode, phase, which=0):
    """Returns (ratio, low, high) relative to the runs without the recorder in the same rounds."""
    bare, again = (job.runs.get((connections, other, phase), {}) for other in (BARE, AGAIN))
    mine = job.runs.get((connections, mode, phase), {})
    pairs = []
    for number, value in mine.items():
        if number not in bare:
            continue
        before = bare[number][which]
        if mode != AGAIN and number in again:
            before = (before + again[number][which]) / 2
        pairs.append((before, value[which]))
    return ratio(pairs)


def percent(measured):
    if measured is None:
        return "-"
    mean, low, high = measured
    if low is None:
        return f"{(mean - 1) * 100:+.2f} % (too few rounds)"
    return f"{(mean - 1) * 100:+.2f} % ({(low - 1) * 100:+.2f} to {(high - 1) * 100:+.2f})"


def tables(job, part):
    for phase in job.operations:
        rows = []
        for connections in job.connections:
            for mode in job.modes:
                runs = job.runs.get((connections, mode, phase))
                if not runs:
                    continue
                middle, tail = median([r[0] for r in runs.values()]), median([r[1] for r in runs.values()])
                measured = compare(job, connections, mode, phase) if mode != BARE else None
                bare = job.runs.get((connections, BARE, phase), {})
                more = "-"
                if measured and bare:
                    more = f"{(measured[0] - 1) * median([r[0] for r in bare.values()]) / job.operations[phase] * 1e3:+.0f}"
                label = mode + (f" (in use: {job.taken_as[(connections, mode)]})" if (connections, mode) in job.taken_as else "")
                tail_ratio = compare(job, connections, mode, phase, 1) if mode != BARE else None
                rows.append((connections or "not set", label, len(runs), f"{middle:.2f}", percent(measured), more, f"{tail:.2f}",
                             percent(tail_ratio)))
        part.table(f"{job.name}, {describe(phase, job.operations[phase])}.",
                   ("connections", "recorder", "runs", "us, median", "against none", "ns an operation", "p99", "against none"), rows)


def describe(phase, operations):
    texts = {"issue": "host time of a call in a burst", "tp": f"a step of {operations} kernels and collectives that wait for each other",
             "dp": f"a step of {operations} kernels with collectives beside them"}
    if phase.startswith("latency"):
        return f"one all-reduce of {phase.split()[1]} bytes, waited for"
    return texts[phase]


def goals(session, job, part):
    for phase in ("tp", "dp"):
        if phase not in job.operations:
            continue
        for connections in job.connections:
            measured = compare(job, connections, "auto", phase)
            noise = compare(job, connections, AGAIN, phase)
            verdict = judge(measured, GOAL)
            status = {True: PASS, False: FAIL, None: NOT_MEASURED}[verdict]
            reason = "" if verdict is not None else "; not decided: the interval holds both, run longer"
            if session.setup.standin:
                status, reason = NOT_MEASURED, "; the stand-in measures nothing"
            part.line(status, f"< 0.3 % of step time in the default mode: {job.name}, {phase}, CONNECTIONS {connections or 'not set'}",
                      f"{percent(measured)}; without recorder against itself {percent(noise)}{reason}")


def automatic(session, jobs, part):
    """Decides what LOCKSTEP_GPU=auto should be: the first mode that meets the goal in all jobs. With one connection, even a cheap write delays other
    streams."""
    for connections in (None, 1):
        name, now = f"what auto should be, CONNECTIONS {connections or 'not set'}", AUTO[connections]
        found = {mode: [judge(compare(job, connections, mode, phase), GOAL) for job in jobs for phase in ("tp", "dp") if phase in job.operations]
                 for mode in (("events/61",) if connections else ("events/61", "done"))}
        if session.setup.standin or not all(found.values()) or any(None in verdicts for verdicts in found.values()):
            part.line(NOT_MEASURED, name, f"not decided here; it is {now} until it is (recorder/base/environment.cpp, ReadGpuMode)")
            continue
        best = next((mode for mode, verdicts in found.items() if all(verdicts)), "off")
        text = ", ".join(f"{mode} is {'within' if all(verdicts) else 'above'} 0.3 %" for mode, verdicts in found.items())
        part.check(best == now, name, f"{best}: in the steps measured {text}; it is {now} (recorder/base/environment.cpp, ReadGpuMode)")


def chosen(session, modes):
    wanted = session.options.modes.split(",") if session.options.modes else modes
    return (BARE, AGAIN, *(mode for mode in modes if mode in wanted))


def part_latency(session, part):
    quick = session.options.quick
    sizes = ["--gemm", "64", "--bucket", "65536", "--layers", "4", "--steps", "8", "--iterations", "60"] if quick else []
    modes = chosen(session, ("done", "auto") if quick else MODES)
    jobs = []
    for name, _, processes, arguments, env in session.worlds():
        def launch(mode, connections, rings, processes=processes, arguments=arguments, env=env):
            return session.run_ranks(processes, [*arguments, *sizes, "latency", "issue", "tp", "dp"],
                                     lambda rank: session.environment(mode, connections, rings, **env), 60).lines()
        jobs.append(Job(f"C++ on NCCL {session.nccl_version}, {name}", launch, modes))
    finish_part(session, part, jobs, session.options.seconds or 420)


def part_torch(session, part):
    found = session.torch_version()
    gpus = session.facts["gpus"]
    sizes = ["--steps", "5", "--iterations", "50", "--width", "256"] if session.options.quick else []

    def launch(mode, connections, rings):
        started = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for rank in range(gpus):
            env = session.torch_environment(mode, connections, rings, RANK=str(rank), WORLD_SIZE=str(gpus), LOCAL_RANK=str(rank),
                                            MASTER_PORT=str(port))
            started.append(start([session.setup.python, os.path.join(HERE, "torch_job.py"), *sizes, "latency", "dp"], env))
        give_up = time.monotonic() + min(120, session.left())
        try:
            done = [finish(process, give_up - time.monotonic()) for process in started]
        finally:
            for process in started:
                end(process)
        for rank, one in enumerate(done):
            if one.status != 0:
                raise Failed(f"rank {rank} of torch_job.py " + one.why())
        return done[0].lines()

    nccl = ".".join(str(n) for n in found[2])
    modes = chosen(session, tuple(mode for mode in MODES if mode != "profiler"))
    job = Job(f"PyTorch {found[0]}, NCCL {nccl}, {gpus} rank{'s' if gpus > 1 else ''}", launch, modes)
    finish_part(session, part, [job], session.options.seconds or 420)


def finish_part(session, part, jobs, seconds):
    rounds = measure(session, part, jobs, seconds)
    part.line(PASS, "rounds", f"{rounds}, each configuration once in each, in random order")
    for job in jobs:
        for key, inside in job.taken_as.items():
            part.line(FAIL, f"{job.name}, LOCKSTEP_GPU={key[1]}, CONNECTIONS {key[0] or 'not set'}",
                      f"the ring says that {inside} was in use")
        tables(job, part)
        goals(session, job, part)
    automatic(session, jobs, part)
