#!/usr/bin/env python3
"""Checks docs/how-it-reasons.md: runs the examples of its table and compares verdict, kind and culprits."""
import json
import re
import shlex
import subprocess
import sys
import tempfile

ROW = re.compile(r"^\| (\S+) \| `([^`]+)` \| (\w+) \| (\w+) \| ([\d ]+) \|$")


def main():
    corpus, analyze, page = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        rows = [match.groups() for match in map(ROW.match, file) if match]
    if len(rows) < 3:
        sys.exit(f"{page}: found {len(rows)} examples, expected at least 3")
    wrong = 0
    for name, scenario, verdict, kind, culprits in rows:
        with tempfile.TemporaryDirectory(prefix="lockstep-example.") as folder:
            subprocess.run([corpus, "generate", *shlex.split(scenario), "--out", folder], check=True, stdout=subprocess.DEVNULL)
            run = subprocess.run([analyze, "--format", "json", folder + "/data"], stdout=subprocess.PIPE, check=False)
            said = json.loads(run.stdout)
            with open(folder + "/truth.json", encoding="utf-8") as file:
                truth = set(json.load(file)["culprit_ranks"])
        first = said["findings"][0] if said["findings"] else {"kind": "", "culprit_ranks": []}
        named = [int(rank) for rank in culprits.split()]
        if (said["verdict"], first["kind"], first["culprit_ranks"]) != (verdict, kind, named) or not truth <= set(named):
            wrong += 1
            print(f"example {name}: the page says {verdict} {kind} {named}, the analyzer {said['verdict']} {first['kind']} "
                  f"{first['culprit_ranks']}, the truth is {sorted(truth)}")
    sys.exit(1 if wrong else 0)


main()
