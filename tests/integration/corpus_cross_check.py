#!/usr/bin/env python3
"""Runs the same scenarios twice at 8 ranks: simulated (lockstep-corpus), and with real processes (trainsim under `lockstep run`), with the same layout,
culprits and kind of communicator. The analyzer must give the same kind, culprits and communicator role for both. This keeps simulator and stand-in
libraries consistent."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/bench/accuracy"))
import played  # noqa: E402

RANKS = 8
ROLES = {"TENSOR_MODEL": "tp", "PIPELINE": "pp", "DATA_PARALLEL": "dp", "EXPERT": "ep", "default_pg": "world"}


def role_of(name):
    """Returns the role of a communicator from its name: "tp" for "tp_3" and "TENSOR_MODEL_PARALLEL_GROUP"."""
    return next((role for word, role in ROLES.items() if word in name), re.match(r"[a-z]*", name).group())


def gist(verdict):
    """Returns what two verdicts of one scenario must have in common: (verdict,) without a finding, otherwise (kind, culprits, role, size)."""
    findings = verdict.get("findings") or []
    if not findings:
        return (verdict.get("verdict"),)
    first = findings[0]
    return first["kind"], tuple(first["culprit_ranks"]), role_of(first["communicator"]["name"]), first["communicator"]["size"]


def same(first, second, role):
    """Returns whether two gists agree. `role` is the role of the faulty communicator, or "" if the fault is not in a communicator. Simulated communicators
    may have no name; then only the sizes are compared."""
    if first[:2] != second[:2]:
        return False
    if len(first) < 4 or not role:
        return True
    return first[2:] == second[2:] if first[2] and second[2] else first[3] == second[3]


def words(gist_):
    if len(gist_) == 1:
        return gist_[0]
    kind, ranks, role, size = gist_
    return f"{kind} {','.join(map(str, ranks))} on {role or 'one without a name'} of {size}"


class Check:
    def __init__(self, options):
        self.options = options
        self.build = os.path.abspath(options.build)

    def program(self, name):
        return os.path.join(self.build, "bin", name)

    def simulate(self, number, folder):
        layout = played.SCENARIOS[number].layouts[RANKS]
        command = [self.program("lockstep-corpus"), "generate", "--scenario", str(number), "--ranks", str(RANKS), "--seed",
                   str(self.options.seed), "--format", "lsd", "--marks", "full", "--variant", "plain", "--layout", layout, "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "truth.json")) as file:
            return json.load(file)

    def analyze(self, folder):
        done = subprocess.run([self.program("lockstep-analyze"), "--format", "json", os.path.join(folder, "data")],
                              stdout=subprocess.PIPE, check=False)
        return gist(json.loads(done.stdout))

    def run(self, number):
        folder = tempfile.mkdtemp(prefix="lockstep-cross-check-")
        try:
            simulated, real = os.path.join(folder, "simulated"), os.path.join(folder, "played")
            os.mkdir(simulated)
            os.mkdir(real)
            truth = self.simulate(number, simulated)
            scenario = played.SCENARIOS[number]
            role = truth.get("communicator") or ""
            if scenario.roles and role not in scenario.roles:
                role = ""
            error = played.run_job(self.build, number, RANKS, truth.get("culprit_ranks") or [0], role, real)
            first, second = self.analyze(simulated), (error,) if error else self.analyze(real)
        finally:
            if self.options.keep:
                kept = os.path.join(self.options.keep, str(number))
                shutil.rmtree(kept, ignore_errors=True)
                shutil.move(folder, kept)
            shutil.rmtree(folder, ignore_errors=True)
        equal = same(first, second, role)
        print(f"{'ok  ' if equal else 'FAIL'} {number:2} {scenario.name}: {words(first)}" + ("" if equal else f" simulated, {words(second)} played"),
              flush=True)
        return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (build)")
    parser.add_argument("--scenarios", help="scenarios, e.g. 1,7,13 (all that both can show)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the simulated case, which chooses the culprits (1)")
    parser.add_argument("--keep", metavar="DIR", help="keep the recorded data in this folder")
    options = parser.parse_args()
    chosen = [int(part) for part in options.scenarios.split(",")] if options.scenarios else sorted(played.SCENARIOS)
    unknown = [number for number in chosen if number not in played.SCENARIOS]
    if unknown:
        parser.error(f"no cross-check of scenario {unknown[0]}; there are {', '.join(map(str, played.SCENARIOS))}")
    check = Check(options)
    failed = [number for number in chosen if not check.run(number)]
    print(f"{len(chosen) - len(failed)} of {len(chosen)} scenarios get equal verdicts")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
