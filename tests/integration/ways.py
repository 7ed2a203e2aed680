#!/usr/bin/env python3
"""Runs every fault of trainsim that leaves ranks waiting, with every recording method, under `lockstep run` with default options. Measures how long it
takes to declare the hang or the end, and whether the verdict names the right rank. Prints the two tables of results/detection-times.md: faults in step 20,
when gaps are learned, and some faults in the first steps. --sample runs a part of both, and healthy jobs with a slow start, which must never be declared
hung."""

import argparse
import concurrent.futures
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORLD = 4
RANK = 1
LIMIT_S = 15.0
# A launcher that records every rank in a different way.
MIXED = 'case $RANK in 0) g=off;; 1) g=done;; 2) g=full;; *) g=events;; esac; LOCKSTEP_GPU=$g exec "$@"'
WAYS = ("off", "done", "full", "events", "profiler", "graphs", "mixed")
TP_DP = ("--tp", "2", "--dp", "2")
PIPELINE = ("--pp", "4")
# More small operations than the launch queue holds, so that ranks wait for their GPUs in launches.
LAUNCHES = (*TP_DP, "--launches", "3000")
STEP = 20
FIRST_STEPS = (1, 2, 3)
IN_FIRST_STEPS = ("stall-host", "stall-gpu", "stall-gpu launches", "stop", "skip")

# fault -> (arguments of trainsim, communicator, whether the fault can occur in a graph)
FAULTS = {
    "stall-host": (TP_DP, "comm=tp", True),
    "stall-host dp": (TP_DP, "comm=dp", True),
    "stall-host launches": (LAUNCHES, "comm=dp", False),
    "stall-host pp": (PIPELINE, "comm=pp", True),
    "stall-loader": (TP_DP, "", True),
    "stall-gpu": (TP_DP, "comm=tp", True),
    "stall-gpu world": (TP_DP, "comm=world", True),
    "stall-gpu launches": (LAUNCHES, "comm=tp", False),
    "stop": (TP_DP, "comm=tp", True),
    "kill": (TP_DP, "comm=tp", True),
    "segv": (TP_DP, "comm=dp", True),
    "exit-early": (TP_DP, "comm=tp", True),
    "exception": (TP_DP, "comm=tp", True),
    "never-init": (TP_DP, "comm=world", True),
    "never-init pp": (PIPELINE, "comm=pp", True),
    "skip": (TP_DP, "comm=tp", False),
    "skip pp": (PIPELINE, "comm=pp", False),
    "extra": (TP_DP, "comm=dp", False),
    "extra pp": (PIPELINE, "comm=pp", False),
    "wrong-count": ((*TP_DP, "--elements", "65536"), "comm=tp", False),
    "wrong-datatype": ((*TP_DP, "--elements", "65536"), "comm=tp", False),
    "wrong-root": (TP_DP, "comm=tp", False),
    "wrong-op": (TP_DP, "comm=tp", False),
    "wrong-peer": (PIPELINE, "comm=pp", False),
    "swap-order": (TP_DP, "comm=dp", False),
    "open-group": (TP_DP, "comm=tp", False),
}
# With only two members, it is unclear which one is wrong. With two communicators in opposite orders, no rank is wrong.
PAIRS = {"skip pp", "extra", "extra pp", "skip", "wrong-count", "wrong-datatype", "wrong-root", "wrong-op", "wrong-peer", "swap-order"}
# Without a marker before the work, nothing shows which GPU does not start it. Without any marker, nothing shows which work a GPU waits for.
STALLED_GPUS = ("stall-gpu", "stall-gpu world", "stall-gpu launches")
SETS = {(way, fault) for way in ("done", "mixed") for fault in STALLED_GPUS}
UNMARKED = {(way, fault) for way in ("off",) for fault in (*STALLED_GPUS, "skip", "swap-order")}
# The cases of --sample: each method, each of the first three steps, each kind of cause.
SAMPLE = [("off", "stall-host", 1), ("off", "stall-gpu", 1), ("off", "stall-gpu launches", 2), ("off", "wrong-peer", 20), ("off", "skip", 20),
          ("done", "stall-host", 2), ("done", "stall-gpu", 20), ("full", "stall-host", 3),
          ("full", "stall-gpu", 1), ("events", "stall-host", 20), ("events", "stall-gpu", 2), ("profiler", "stall-gpu", 20),
          ("profiler", "stall-host", 1), ("graphs", "stall-host", 20), ("graphs", "stall-gpu", 20), ("graphs", "stall-loader", 3),
          ("mixed", "stall-host", 20), ("mixed", "stop", 2), ("full", "stall-loader", 1), ("full", "never-init", 1), ("full", "never-init pp", 1),
          ("full", "kill", 1), ("off", "exit-early", 2)]


class Case:
    def __init__(self, way, fault, step):
        self.way, self.fault, self.step = way, fault, step
        self.seconds, self.named, self.error, self.line = None, None, None, ""

    def command(self, build, out):
        shape, comm, _ = FAULTS[self.fault]
        option = ",".join(part for part in (f"rank={RANK},step={self.step},kind={self.fault.split()[0]}", comm) if part)
        job = [os.path.join(build, "bin/trainsim"), *shape, "--steps", "200", "--fault", option]
        command = [os.path.join(build, "bin/lockstep"), "run", "-n", str(WORLD), "--kill-on-hang", "--out", out]
        if self.way == "profiler":
            command.append("--profiler")
        elif self.way in ("off", "done", "full", "events"):
            command += ["--gpu", self.way]
        if self.way == "graphs":
            job.append("--graph")
        if self.way == "mixed":
            job = ["sh", "-c", MIXED, "sh", *job]
        return [*command, "--", *job]

    def run(self, build, timeout):
        folder = tempfile.mkdtemp(prefix="lockstep-ways-")
        rings = tempfile.mkdtemp(prefix="lockstep-ways-", dir="/dev/shm")
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(build, "standin/lib"), LOCKSTEP_DIR=rings, TMPDIR=folder)
        for name in ("LOCKSTEP_GPU", "LOCKSTEP_JOB"):
            environment.pop(name, None)
        out = os.path.join(folder, "out")
        process = subprocess.Popen(self.command(build, out), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            self.watch(process, time.monotonic() + timeout)
            self.judge(out)
        finally:
            # When `lockstep run` is killed, its ranks end, too.
            process.kill()
            process.wait()
            process.stdout.close()
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.2)
            shutil.rmtree(rings, ignore_errors=True)
        return self

    def watch(self, process, deadline):
        began = None
        os.set_blocking(process.stdout.fileno(), False)
        held = ""
        while time.monotonic() < deadline:
            select.select([process.stdout], [], [], 0.2)
            try:
                held += process.stdout.read() or ""
            except (BlockingIOError, TypeError):
                pass
            *lines, held = held.split("\n")
            for line in lines:
                if began is None and ": fault " in line:
                    began = time.monotonic()
                if self.seconds is None and re.match(r"(HUNG|CRASHED|DESYNC|ENDED EARLY)\b", line):
                    self.seconds = time.monotonic() - (began or 0)
                    self.line = line
            if process.poll() is not None:
                return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        self.error = "not declared"

    def judge(self, out):
        try:
            with open(os.path.join(out, "verdict.json")) as file:
                findings = json.load(file)["findings"]
        except (OSError, ValueError, KeyError) as error:
            self.error = self.error or f"no verdict: {error}"
            return
        self.named = findings[0]["culprit_ranks"] if findings else []
        if self.error is None and self.seconds is None:
            self.error = "not declared"
        place = (self.way, self.fault)
        if self.error is None and RANK not in self.named and place not in UNMARKED:
            self.error = f"ranks {self.named} are named"
        if self.error is None and self.named != [RANK] and self.fault not in PAIRS and place not in SETS | UNMARKED:
            self.error = f"ranks {self.named} are named"
        if self.error is None and self.seconds > LIMIT_S:
            self.error = f"after {self.seconds:.1f} s"

    def again(self):
        return Case(self.way, self.fault, self.step)

    def cell(self):
        if self.seconds is None:
            return "no"
        rank = "" if self.named == [RANK] else f" ({', '.join(str(rank) for rank in self.named or []) or 'nobody'})"
        return f"{self.seconds:.0f} s{rank}"


class Healthy(Case):
    """Healthy jobs in which some ranks prepare for a step while the others wait."""
    def __init__(self, way, name, *preparations):
        super().__init__(way, "healthy " + name, preparations[0][0])
        self.preparations = preparations

    def command(self, build, out):
        job = [os.path.join(build, "bin/trainsim"), *TP_DP, "--steps", str(self.step + 10)]
        for step, rank, seconds, how in self.preparations:
            job += ["--prepare", f"step={step},rank={rank},seconds={seconds},how={how}"]
        return [os.path.join(build, "bin/lockstep"), "run", "-n", str(WORLD), "--gpu", self.way, "--out", out, "--", *job]

    def judge(self, out):
        try:
            with open(os.path.join(out, "verdict.json")) as file:
                verdict = json.load(file)["verdict"]
        except (OSError, ValueError, KeyError) as error:
            verdict = str(error)
        self.error = None if verdict == "HEALTHY" else f"{verdict}: {self.line}"

    def cell(self):
        return "healthy" if self.error is None else "called a hang"

    def again(self):
        return Healthy(self.way, self.fault.split(" ", 1)[1], *self.preparations)


HEALTHY = [("full", "compiles", (0, 1, 40, "compile")), ("full", "compiles later", (2, 3, 25, "compile")),
           ("full", "has a thread that computes", (1, 1, 25, "thread")), ("full", "reads", (0, 2, 25, "read")),
           ("full", "waits for a server", (0, 1, 30, "service")),
           ("full", "waits for another rank", (0, 0, 25, "compile"), (0, 2, 25, "lock")),
           ("off", "compiles", (0, 1, 40, "compile")), ("off", "has a thread that computes", (1, 1, 25, "thread")),
           ("off", "reads", (2, 2, 25, "read"))]


def cases(options):
    if options.sample:
        return [Healthy(*entry) for entry in HEALTHY] + [Case(*entry) for entry in SAMPLE]
    if options.step:
        places = [(fault, step) for fault in FAULTS for step in options.step]
    else:
        places = [(fault, STEP) for fault in FAULTS] + [(fault, step) for fault in IN_FIRST_STEPS for step in FIRST_STEPS]
    return [Case(way, fault, step) for fault, step in places for way in WAYS
            if (way != "graphs" or FAULTS[fault][2]) and (not options.way or way in options.way) and (not options.fault or fault in options.fault)]


def table(done, first):
    """Returns the table of the cases in the first steps, or of the other cases."""
    by_place = {(case.fault, case.step, case.way): case for case in done if (case.step in FIRST_STEPS) == first}
    ways = [way for way in WAYS if any(way == key[2] for key in by_place)]
    places = sorted({key[:2] for key in by_place}, key=lambda place: (list(FAULTS).index(place[0]), place[1]))
    lines = ["| fault | step | " + " | ".join(ways) + " |", "| --- |" + " --- |" * (len(ways) + 1)]
    for fault, step in places:
        cells = [by_place[fault, step, way].cell() if (fault, step, way) in by_place else "" for way in ways]
        lines.append(f"| {fault} | {step} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n" if places else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (build)")
    parser.add_argument("--sample", action="store_true", help="run only a representative part")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this way of recording; may be given several times")
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="only this fault; may be given several times")
    parser.add_argument("--step", type=int, action="append", help=f"step of the fault, from 1 ({STEP}, and the first three for some faults)")
    parser.add_argument("--jobs", type=int, default=4, help="runs at the same time (4)")
    parser.add_argument("--timeout", type=float, default=150, help="seconds a run may take (150)")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    chosen = cases(options)
    done = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(case.run, build, options.timeout) for case in chosen]):
            case = future.result()
            if case.error is not None and options.sample:
                case = case.again().run(build, options.timeout)  # the machine may have been busy
            done.append(case)
            word = "ok" if case.error is None else "FAIL"
            print(f"{word:4} {case.way} {case.fault} in step {case.step}: {case.cell()}{'' if case.error is None else ': ' + case.error} "
                  f"{case.line[:100]}", file=sys.stderr, flush=True)
    if not options.sample:
        print("\n".join(filter(None, (table(done, False), table(done, True)))), end="")
    return 0 if all(case.error is None for case in done) else 1


if __name__ == "__main__":
    sys.exit(main())
