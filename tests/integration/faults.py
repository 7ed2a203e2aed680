#!/usr/bin/env python3
"""Runs every fault of trainsim under `lockstep run`, many times. Checks that the verdict names the right rank for the right reason and no healthy rank,
that nothing is left behind, and that healthy jobs are called healthy."""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from support import kill_marked, marked_processes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORLD = 8
RANKS = (0, 5, 7)
ALL_COMMS = ("world", "tp", "pp", "dp")
COLLECTIVE_COMMS = ("world", "tp", "dp")
MARK = "LOCKSTEP_FAULTS_RUN"

# kind -> (communicators, finding kinds, verdicts, text that the finding must contain, exit statuses of lockstep run); None: any
Expected = collections.namedtuple("Expected", "comms kinds verdicts text statuses")
HUNG = (90,)
DIFFER = (91, 90, 0)  # lockstep ended the job, or the job exited with wrong data
FAULTS = {
    "stall-host": Expected(ALL_COMMS, ("HOST_STALL",), ("HUNG",), None, HUNG),
    "stall-gpu": Expected(ALL_COMMS, ("GPU_STALL",), ("HUNG",), None, HUNG),
    "kill": Expected(ALL_COMMS, ("RANK_DEAD",), ("CRASHED", "HUNG"), r"SIGKILL|signal 9\b", None),
    "segv": Expected(ALL_COMMS, ("RANK_DEAD",), ("CRASHED", "HUNG"), r"SIGSEGV|signal 11\b", None),
    "stop": Expected(ALL_COMMS, ("HOST_STALL",), ("HUNG",), r"\bT\b", HUNG),
    "skip": Expected(ALL_COMMS, ("RANK_NOT_ARRIVED",), ("HUNG",), None, HUNG),
    "extra": Expected(ALL_COMMS, ("RANK_AHEAD",), ("DESYNC", "HUNG"), None, (90, 91)),
    "wrong-count": Expected(ALL_COMMS, ("MISMATCH_COUNT",), ("DESYNC",), None, DIFFER),
    "wrong-datatype": Expected(ALL_COMMS, ("MISMATCH_DATATYPE",), ("DESYNC",), None, DIFFER),
    "wrong-reduction": Expected(COLLECTIVE_COMMS, ("MISMATCH_REDUCTION",), ("DESYNC",), None, DIFFER),
    "wrong-root": Expected(COLLECTIVE_COMMS, ("MISMATCH_ROOT",), ("DESYNC",), None, DIFFER),
    "wrong-op": Expected(COLLECTIVE_COMMS, ("MISMATCH_KIND",), ("DESYNC",), None, DIFFER),
    "exit-early": Expected(ALL_COMMS, ("RANK_DEAD",), ("CRASHED", "HUNG"), r"exited with status 0\b", None),
    # The rank destroys its communicators and exits, so lockstep may find it in either state.
    "exception": Expected(ALL_COMMS, ("RANK_DEAD", "RANK_NOT_ARRIVED", "HOST_STALL"), ("CRASHED", "HUNG"), None, None),
}
SKIPPED_OPERATION = {"world": "AllReduce", "tp": "AllReduce", "dp": "AllReduce", "pp": "Send"}
HEALTHY = {
    "plain": [],
    "checkpoint": ["--checkpoint", "step=20,seconds=8,rank=0"],
    "evaluation": ["--evaluate", "step=20,seconds=8"],
    "slow-start": ["--slow-start", "10"],
    "paced": ["--pace-ms", "20"],
}

Case = collections.namedtuple("Case", "name kind rank comm arguments")
Result = collections.namedtuple("Result", "case error seconds command")


def cases(options):
    chosen = []
    for kind, expected in FAULTS.items():
        ranks = RANKS + ((4,) if kind == "skip" else ())  # on rank 5 of the same pair, the fault looks like `extra`
        for comm in expected.comms:
            for rank in ranks:
                fault = f"rank={rank},step={options.fault_step},kind={kind},comm={comm}"
                chosen.append(Case(f"{kind} {comm} rank {rank}", kind, rank, comm, ["--fault", fault]))
    # Operations of several chunks hang if the lengths differ between ranks.
    for kind, comm, rank in (("wrong-count", "tp", 5), ("wrong-datatype", "tp", 7), ("wrong-count", "pp", 0)):
        fault = f"rank={rank},step={options.fault_step},kind={kind},comm={comm}"
        chosen.append(Case(f"{kind} {comm} rank {rank} large", kind, rank, comm, ["--elements", "65536", "--fault", fault]))
    chosen += [Case(f"healthy {name}", "healthy", None, None, arguments) for name, arguments in HEALTHY.items()]
    if options.streams != "own" and not options.sample:
        chosen = [share(case) for case in chosen] + (chosen if options.streams == "both" else [])
    if options.only:
        known = set(FAULTS) | {"healthy"}
        unknown = sorted(set(options.only) - known)
        if unknown:
            sys.exit(f"faults: unknown kind {unknown[0]}; kinds: {', '.join(sorted(known))}")
        chosen = [case for case in chosen if case.kind in options.only]
    if options.rank is not None:
        chosen = [case for case in chosen if case.rank in (None, options.rank)]
    if options.comm:
        chosen = [case for case in chosen if case.comm in (None, options.comm)]
    if options.sample:
        chosen = sample(chosen)
    return chosen


def share(case):
    return case._replace(name=case.name + " shared stream", arguments=case.arguments + ["--shared-stream"])


def sample(chosen):
    """Returns one case of each kind, with varying ranks and communicators; every second case runs operations on the computation's stream. Also returns all
    healthy and all large cases."""
    picked, kinds = [], []
    for case in chosen:
        if case.kind == "healthy" or "large" in case.name:
            picked.append(case)
        elif case.kind not in kinds:
            same = [other for other in chosen if other.kind == case.kind and "large" not in other.name]
            case = same[(5 * len(kinds)) % len(same)]
            picked.append(share(case) if len(kinds) % 2 else case)
            kinds.append(case.kind)
    return picked


def all_text(value):
    """Returns every string inside a JSON value, one per line."""
    if isinstance(value, str):
        return value + "\n"
    if isinstance(value, dict):
        return "".join(all_text(each) for each in value.values())
    if isinstance(value, list):
        return "".join(all_text(each) for each in value)
    return ""


def describe(verdict):
    findings = [f"{finding.get('kind')} {finding.get('culprit_ranks')}" for finding in verdict.get("findings", [])]
    return f"{verdict.get('verdict')}: {'; '.join(findings) or 'no finding'}"


def judge_healthy(verdict, status):
    if verdict.get("verdict") != "HEALTHY":
        return "a healthy job was not called HEALTHY"
    if verdict.get("findings"):
        return "a healthy job has findings"
    if status != 0:
        return f"exit status {status}, expected 0"
    return None


def judge_fault(case, verdict, status):
    """Returns what is wrong with a verdict, or None. `status` is the exit status of lockstep run, or None without lockstep run."""
    expected = FAULTS[case.kind]
    findings = verdict.get("findings") or []
    if not findings:
        return "no finding"
    first = findings[0]
    if first.get("kind") not in expected.kinds:
        return f"first finding is {first.get('kind')}, expected {' or '.join(expected.kinds)}"
    if first.get("culprit_ranks") != [case.rank]:
        return f"culprits {first.get('culprit_ranks')}, expected [{case.rank}]"
    for finding in findings[1:]:
        others = [rank for rank in finding.get("culprit_ranks") or [] if rank != case.rank]
        if others:
            return f"{finding.get('kind')} blames healthy ranks {others}"
    if verdict.get("verdict") not in expected.verdicts:
        return f"verdict {verdict.get('verdict')}, expected {' or '.join(expected.verdicts)}"
    if expected.text and not re.search(expected.text, all_text(first)):
        return f"nothing in the first finding says '{expected.text}'"
    if case.kind == "skip" and SKIPPED_OPERATION[case.comm].lower() not in str(first.get("operation", "")).lower():
        return f"operation '{first.get('operation')}', expected the skipped {SKIPPED_OPERATION[case.comm]}"
    if None not in (expected.statuses, status) and status not in expected.statuses:
        return f"exit status {status}, expected one of {expected.statuses}"
    return None


class Campaign:
    def __init__(self, options):
        self.options = options
        self.build = os.path.abspath(options.build)
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.marks = set()
        self.counter = 0
        self.done = 0
        self.total = 0

    def command(self, case, out):
        return [os.path.join(self.build, "bin/lockstep"), "run", "-n", str(WORLD), "--out", out, "--kill-on-hang",
                *self.options.run_option, "--", os.path.join(self.build, "bin/trainsim"), "--tp", "2", "--pp", "2", "--dp", "2",
                # The job synchronizes like training loops that read their loss.
                "--sync", "copy", "--steps", str(self.options.steps), *case.arguments]

    def run_once(self, case):
        with self.lock:
            self.counter += 1
            mark = f"{os.getpid()}.{self.counter}"
            self.marks.add(mark)
        folder = tempfile.mkdtemp(prefix="lockstep-faults-")
        rings = f"/dev/shm/lockstep-faults-{mark}"
        os.mkdir(rings, 0o700)
        command = self.command(case, os.path.join(folder, "incident"))
        began = time.monotonic()
        try:
            error = self.play(case, command, folder, rings, mark)
        finally:
            kill_marked(MARK, mark)
            shutil.rmtree(rings, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
            with self.lock:
                self.marks.discard(mark)
        return Result(case, error, time.monotonic() - began, command)

    def play(self, case, command, folder, rings, mark):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(self.build, "standin/lib"), LOCKSTEP_DIR=rings,
                           TMPDIR=folder)
        environment[MARK] = mark
        log_path = os.path.join(folder, "log")
        if self.stopping.is_set():
            return "interrupted"
        with open(log_path, "wb") as log:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(self.options.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"still running after {self.options.timeout:.0f} s{self.tail(log_path)}"
        if self.stopping.is_set():
            return "interrupted"
        error = self.judge(case, folder, status)
        if error is None:
            # The ranks have exited with the run, but their parents need a moment to reap them.
            deadline = time.monotonic() + 5
            while (left := marked_processes(MARK, mark)) and time.monotonic() < deadline:
                time.sleep(0.05)
            files = [os.path.join(path, name) for path, _, names in os.walk(rings) for name in names]
            if left:
                error = f"processes left behind: {left}"
            elif files:
                error = f"files left in the ring folder: {files[:3]}"
        if error is not None:
            error += self.tail(log_path)
            if self.options.keep:
                kept = os.path.join(self.options.keep, f"{case.name.replace(' ', '-')}.{mark}")
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                error += f"\n    kept in {kept}"
        return error

    def judge(self, case, folder, status):
        found = sorted(glob.glob(os.path.join(folder, "incident*", "**", "verdict.json"), recursive=True))
        if not found:
            return f"no verdict.json, exit status {status}"
        verdicts = []
        for path in found:
            try:
                with open(path) as file:
                    verdicts.append(json.load(file))
            except (OSError, ValueError) as error:
                return f"{os.path.basename(path)} cannot be read: {error}"
        # If a run has several incidents, all must blame the same ranks.
        for verdict in verdicts:
            error = judge_healthy(verdict, status) if case.kind == "healthy" else judge_fault(case, verdict, status)
            if error is not None:
                return f"{error} ({describe(verdict)})"
        return None

    def tail(self, path):
        try:
            with open(path, errors="replace") as file:
                lines = file.read().splitlines()[-self.options.tail:] if self.options.tail else []
        except OSError:
            lines = []
        return "".join(f"\n    | {line}" for line in lines)

    def report(self, result):
        with self.lock:
            self.done += 1
            word = "ok" if result.error is None else "FAIL"
            first_line = "" if result.error is None else ": " + result.error.splitlines()[0]
            print(f"[{self.done}/{self.total}] {word:4} {result.case.name} ({result.seconds:.1f} s){first_line}", flush=True)

    def run_all(self, chosen):
        # Every round has all cases, so a shortened run has seen each of them.
        plan = [case for _ in range(self.options.repeat) for case in chosen]
        self.total = len(plan)
        results = []
        pool = concurrent.futures.ThreadPoolExecutor(self.options.jobs)
        futures = [pool.submit(self.run_once, case) for case in plan]
        try:
            for future in concurrent.futures.as_completed(futures):
                result = future.result()
                results.append(result)
                self.report(result)
        except KeyboardInterrupt:
            # A second Ctrl-C must not leave ranks behind; killing them takes only a moment.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("\nfaults: interrupted, ending the running jobs", flush=True)
            self.stopping.set()
            for future in futures:
                future.cancel()
            while True:
                with self.lock:
                    marks = list(self.marks)
                if not marks:
                    break
                for mark in marks:
                    kill_marked(MARK, mark)
                time.sleep(0.05)
            pool.shutdown(wait=True, cancel_futures=True)
            return results, True
        pool.shutdown(wait=True)
        return results, False


def print_summary(results, chosen):
    passed = collections.Counter(result.case.name for result in results if result.error is None)
    ran = collections.Counter(result.case.name for result in results)
    print("\n" + "kind".ljust(18) + "".join(column.rjust(14) for column in ALL_COMMS + ("-",)))
    for kind in [*FAULTS, "healthy"]:
        cells = []
        for comm in ALL_COMMS + (None,):
            names = {case.name for case in chosen if case.kind == kind and case.comm == comm}
            total = sum(ran[name] for name in names)
            cells.append(f"{sum(passed[name] for name in names)}/{total}" if total else "")
        if any(cells):
            print(kind.ljust(18) + "".join(cell.rjust(14) for cell in cells))
    failed = [result for result in results if result.error is not None]
    if failed:
        print("\nFailures:")
        seen = collections.Counter()
        for result in failed:
            seen[result.case.name] += 1
            if seen[result.case.name] == 1:
                count = sum(1 for other in failed if other.case.name == result.case.name)
                print(f"- {result.case.name} ({count} of {ran[result.case.name]}): {result.error}\n    {shlex.join(result.command)}")
    seconds = sorted(result.seconds for result in results)
    if seconds:
        print(f"\n{len(results) - len(failed)} of {len(results)} runs passed; seconds per run: median {seconds[len(seconds) // 2]:.1f}, "
              f"longest {seconds[-1]:.1f}")
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (build)")
    parser.add_argument("--repeat", type=int, default=20, help="how often each case runs (20)")
    parser.add_argument("--only", action="append", metavar="KIND", help="only this kind, or healthy; may be given several times")
    parser.add_argument("--rank", type=int, help="faults on this rank only")
    parser.add_argument("--comm", choices=ALL_COMMS, help="faults in this communicator only")
    parser.add_argument("--streams", choices=("own", "shared", "both"), default="both",
                        help="each communicator on its own stream, or world, tp and ep on the stream of the computation (both)")
    parser.add_argument("--sample", action="store_true", help="one case of each kind instead of all")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (1)")
    parser.add_argument("--steps", type=int, default=200, help="steps of a job (200)")
    parser.add_argument("--fault-step", type=int, default=20, help="step of the fault (20)")
    parser.add_argument("--timeout", type=float, default=180, help="seconds a run may take (180)")
    parser.add_argument("--run-option", action="append", default=[], help="option passed to lockstep run, e.g. --run-option=--late-after=2")
    parser.add_argument("--tail", type=int, default=12, help="lines of output shown for each failure (12)")
    parser.add_argument("--keep", metavar="DIR", help="keep the folders of failed runs here")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    options = parser.parse_args()
    if options.repeat < 1 or options.jobs < 1:
        parser.error("--repeat and --jobs must be at least 1")
    chosen = cases(options)
    if not chosen:
        sys.exit("faults: --only, --rank and --comm leave no case")
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    for program in ("bin/lockstep", "bin/trainsim", "standin/lib/libnccl.so.2"):
        if not os.path.exists(os.path.join(options.build, program)):
            sys.exit(f"faults: {os.path.join(options.build, program)} is missing; run ./dev build")
    print(f"faults: {len(chosen)} cases, {options.repeat} times each", flush=True)
    results, interrupted = Campaign(options).run_all(chosen)
    good = print_summary(results, chosen)
    if interrupted:
        return 130
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
