#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy on every product source, or on the given ones. Exits with status 1 if there is a problem. Sources are
compiled together in units, so a unit shows the problems of all its sources.

lint.py --build build [FILE...]"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("recorder", "analyzer", "collector", "gui")


def sources_of(unit):
    """Returns the sources that a unity file includes, or the unit itself."""
    if not os.path.basename(unit).startswith("unity_"):
        return [unit]
    with open(unit) as file:
        return re.findall(r'#include "([^"]+\.cpp)"', file.read())


def is_product(path):
    name = os.path.relpath(path, SOURCE)
    return name.split("/")[0] in FOLDERS and "/testing/" not in name and not name.endswith("_test.cpp") and "/tests/" not in name


def tidy(build, unit):
    command = ["clang-tidy", "--quiet", "-p", build, "--header-filter", f"^{SOURCE}/({'|'.join(FOLDERS)})/", "--extra-arg=-Wno-unknown-warning-option",
               "--extra-arg=-Qunused-arguments", unit]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if re.match(r"^/.*: (warning|error): ", line)]
    if done.returncode != 0 and not lines:
        lines = [f"{unit}: clang-tidy failed: {done.stderr[-400:]}"]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    wanted = {os.path.abspath(path) for path in options.files}
    with open(os.path.join(options.build, "compile_commands.json")) as file:
        units = sorted({entry["file"] for entry in json.load(file)})
    chosen = []
    for unit in units:
        sources = [source for source in sources_of(unit) if is_product(source)]
        if sources and (not wanted or wanted & set(sources)):
            chosen.append(unit)
    if not chosen:
        parser.error("none of these files is compiled in " + options.build)
    found = set()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for lines in pool.map(lambda unit: tidy(options.build, unit), chosen):
            for line in lines:
                if line not in found:
                    found.add(line)
                    print(os.path.relpath(line, SOURCE) if line.startswith(SOURCE) else line, flush=True)
    print(f"{len(found)} findings in {len(chosen)} units", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
