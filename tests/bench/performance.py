#!/usr/bin/env python3
"""Measures results/analysis-speed.md: writes dumps of large jobs, analyzes them, and prints the cost as Markdown tables.

performance.py --build build-release [--runs 5] [--folder build-release/bench/data] [--only own|growth|flight-recorder] [--smaller N]

Needs the targets fr_dumps, scale_dumps and lockstep-analyze (LOCKSTEP_BENCH=ON), and 1.5 GB in the folder at a time: each kind of dumps is removed before
the next is written. --smaller divides the number of ranks, for a quick trial.
"""
import argparse
import datetime
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

HEAD = ("| dumps | files | data | wall, best (median) | user + system | peak memory | bytes a second | reading / analyzing / reporting |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def warm(folder):
    """Reads all files into the page cache. Returns their number and total bytes."""
    files = size = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(here, name), "rb") as file:
                while part := file.read(1 << 20):
                    size += len(part)
            files += 1
    return files, size


def measured(name, command, runs, files, size):
    """Returns a table row for the fastest of several runs."""
    taken = []
    for _ in range(runs):
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        timing = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            sys.exit(f"performance.py: {name}: lockstep-analyze failed: {timing}")
        taken.append((time.monotonic() - began, usage, [float(wall) for wall in re.findall(r": ([\d.]+) s, CPU", timing)]))
    wall, usage, stages = min(taken, key=lambda run: run[0])
    median = statistics.median(run[0] for run in taken)
    memory = max(run[1].ru_maxrss for run in taken) / 1024
    shares = " / ".join(f"{100 * stage / sum(stages):.0f}" for stage in stages)
    return (f"| {name} | {files} | {size / 1e6:.0f} MB | {wall:.2f} s ({median:.2f} s) | {usage.ru_utime:.2f} + {usage.ru_stime:.2f} s "
            f"| {memory:.0f} MiB | {size / wall / 1e6:.0f} MB/s | {shares} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder")
    parser.add_argument("--only", choices=("own", "growth", "flight-recorder"))
    parser.add_argument("--smaller", type=int, default=1)
    args = parser.parse_args()
    bench = os.path.join(args.build, "bench")
    folder = os.path.join(args.folder or os.path.join(bench, "data"), "performance")
    analyze = os.path.join(args.build, "bin", "lockstep-analyze")

    def row(name, write):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        subprocess.run([os.path.join(bench, write[0]), *write[1:]], check=True, stdout=subprocess.DEVNULL)
        sys.stdout.flush()
        print(measured(name, [analyze, "--timing", folder], args.runs, *warm(folder)), flush=True)
        shutil.rmtree(folder, ignore_errors=True)

    def own(ranks, records, *more):
        ranks = max(128, ranks // args.smaller // 128 * 128)
        return f"{ranks:,} ranks x {records:,} records", ["scale_dumps", "--out", folder, "--ranks", str(ranks), "--records", str(records), *more]

    def flight_recorder(ranks, entries, *more):
        ranks = max(8, ranks // args.smaller)
        return f"{ranks:,} ranks x {entries:,} entries", ["fr_dumps", "--ranks", str(ranks), "--entries", str(entries), *more, folder]

    commit = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always", "--dirty"], check=False,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"{datetime.date.today()}, commit {commit}, {os.cpu_count()} processors ({processor()}), load {os.getloadavg()[0]:.1f} at the start;  "
          f"best and median of {args.runs} runs, files in the page cache.")
    if args.only in (None, "flight-recorder"):
        print("\n" + HEAD)
        row(*flight_recorder(1024, 2000))
        name, write = flight_recorder(64, 2000, "--json")
        row(name + ", JSON", write)
    if args.only in (None, "own"):
        print("\n" + HEAD)
        row(*own(24576, 2048))
        name, write = own(24576, 2048, "--fault", "mismatch")
        row(name + ", one call with another count 1,500 records ago", write)
    if args.only in (None, "growth"):
        print("\n" + HEAD)
        for ranks in (8192, 24576, 65536, 131072):
            row(*own(ranks, 256))
    return 0


if __name__ == "__main__":
    sys.exit(main())
