#!/usr/bin/env python3
"""Runs every fuzzer for its share of the time, starting from the seeds and the stored inputs. If a fuzzer finds a fault, prints the path of the input and
exits with status 1.

run.py --build build-fuzz [--minutes 10] [--within MINUTES] [--keep FOLDER] [NAME...]"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def fuzz(program, name, seeds, keep, seconds):
    """Runs one fuzzer. Returns whether it found no fault, and a line about the run."""
    found = os.path.join(keep, name)
    os.makedirs(found, exist_ok=True)
    inputs = [folder for folder in (os.path.join(seeds, name), os.path.join(HERE, "corpus", name)) if os.path.isdir(folder)]
    command = [program, f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=60", "-rss_limit_mb=4096",
               f"-artifact_prefix={keep}/fault-{name}-", found, *inputs]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    counts = re.findall(r"cov: (\d+) ft: (\d+)", done.stderr)
    executed = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    edges, features = counts[-1] if counts else ("?", "?")
    line = f"{name}: {executed.group(1) if executed else '?'} executions in {seconds} s, {edges} edges, {features} features"
    if done.returncode != 0:
        line += f"; FAULT (exit status {done.returncode}, inputs in {keep})\n" + "\n".join(done.stderr.splitlines()[-60:])
    return done.returncode == 0, line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--within", type=float, help="minutes for everything including the build; the fuzzers get the rest")
    parser.add_argument("--keep", help="folder for new inputs; without it, the inputs of fuzzers that found nothing are deleted")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    began = time.monotonic()
    known = sorted(name[:-len("_fuzz.cpp")] for name in os.listdir(HERE) if name.endswith("_fuzz.cpp"))
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no fuzzer is called {unknown[0]}; there are {', '.join(known)}")
    names = options.names or known
    workers = min(len(names), len(os.sched_getaffinity(0)))
    subprocess.run(["cmake", "--build", options.build, "--target", "fuzz_seeds", *(name + "_fuzz" for name in names)], check=True)
    minutes = options.minutes
    if options.within is not None:
        minutes = min(minutes, options.within - (time.monotonic() - began) / 60)
    seconds = max(10, int(minutes * 60 * workers / len(names)))
    keep = options.keep or tempfile.mkdtemp(prefix="lockstep-fuzz-")
    seeds = os.path.join(keep, "seeds")
    subprocess.run([os.path.join(options.build, "fuzz/fuzz_seeds"), seeds], check=True, stdout=subprocess.DEVNULL)
    well = True
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        started = [pool.submit(fuzz, os.path.join(options.build, "fuzz", name + "_fuzz"), name, seeds, keep, seconds) for name in names]
        for each in concurrent.futures.as_completed(started):
            good, line = each.result()
            well &= good
            print(line, flush=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
