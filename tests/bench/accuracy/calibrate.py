#!/usr/bin/env python3
"""Makes analyzer/engine/calibration/confidence_table.inc: how often findings of each grade and reason named the ranks at fault.

    calibrate.py --build build-release --out TABLE RESULTS.jsonl FOLDER...

RESULTS.jsonl is the output of ./dev accuracy or bench/slow_table --graded. A FOLDER contains labeled cases of other origin: each is a folder with
truth.json (culprit_ranks, healthy) and the dumps in in/ or data/. --check compares the table instead of writing it. The exit status is 1 if the
stated confidence of a band with at least 30 findings is more than three standard deviations from its share of right findings. Use other seeds for
--check than for the table."""

import argparse
import collections
import concurrent.futures
import datetime
import json
import math
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scoring  # noqa: E402

ENOUGH = 30


def cases_below(folder):
    for here, folders, files in sorted(os.walk(folder)):
        data = next((name for name in ("in", "data") if name in folders), None)
        if "truth.json" in files and data:
            yield os.path.join(here, "truth.json"), os.path.join(here, data)


def analyzed(analyze, case):
    """Returns [[grade, reason, several, framework, confidence, right]] for the findings of a labeled folder."""
    truth_path, data = case
    with open(truth_path) as file:
        truth = json.load(file)
    framework = not any(name.endswith((".lsd", ".ring")) for _, _, names in os.walk(data) for name in names)
    done = subprocess.run([analyze, "--format", "json", data], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        return []
    return scoring.graded(truth, verdict, framework)


def table(rows):
    counted = collections.defaultdict(lambda: [0, 0])
    for grade, reason, several, framework, _, right in rows:
        if grade == "UNSPECIFIED":
            continue
        each = counted[grade, reason, several, framework]
        each[0] += 1
        each[1] += right
    flag = {False: "false", True: "true"}
    lines = [f"// Made by calibrate.py, {datetime.date.today()}, from {sum(n for n, _ in counted.values())} findings: grade, reason, several"
             " ranks, framework's records, findings, right."]
    order = ("GUESS", "OPEN", "WEAK", "FAIR", "GOOD", "STRONG", "RECORDED")
    for (grade, reason, several, framework), (n, right) in sorted(counted.items(), key=lambda item: (order.index(item[0][0]), *item[0][1:])):
        lines.append(f"    {{GRADE_{grade}, REASON_{reason}, {flag[several]}, {flag[framework]}, {n}, {right}}},")
    return "\n".join(lines) + "\n"


def check(rows):
    """Prints the stated confidence and the share of right findings. Returns whether they agree in every band with enough findings."""
    good = True
    for low in range(0, 100, 10):
        band = [(confidence, right) for *_, confidence, right in rows if low <= round(confidence * 100) < low + 10]
        if not band:
            continue
        n = len(band)
        stated = sum(confidence for confidence, _ in band) / n
        right = sum(right for _, right in band) / n
        spread = math.sqrt(stated * (1 - stated) / n)
        off = n >= ENOUGH and right < stated - 3 * spread
        good = good and not off
        print(f"{low / 100:.2f} to {low / 100 + .1:.2f}: {n:5} findings, stated {stated:.2f}, right {right:.3f}{'  OFF' if off else ''}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--out", help="write the table to this file (default: standard output)")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("inputs", nargs="+", metavar="RESULTS.jsonl|FOLDER")
    options = parser.parse_args()
    analyze = os.path.join(options.build, "bin/lockstep-analyze")
    rows = []
    for path in options.inputs:
        if os.path.isdir(path):
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                for each in pool.map(lambda case: analyzed(analyze, case), cases_below(path)):
                    rows += each
        else:
            with open(path) as file:
                rows += [row for line in file for row in json.loads(line).get("graded", [])]
    if options.check:
        sys.exit(0 if check(rows) else 1)
    text = table(rows)
    if options.out:
        with open(options.out, "w") as file:
            file.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
