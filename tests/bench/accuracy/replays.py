#!/usr/bin/env python3
"""Counts how many right verdicts `lockstep replay` proves, and checks that it proves no wrong one.
Generates and scores each case as accuracy.py does (same options), then replays it. Then replays it with --falsify innocent ranks in place of the culprit
(--suspect); half of these wait for the culprit. No replay may prove an innocent rank. --cases FOLDER reads labeled cases from folders instead: truth.json
next to `in`, `data` or `d`."""

import collections
import concurrent.futures
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import accuracy  # noqa: E402
import tables  # noqa: E402

RESULTS = {"PROVED": "proved", "NOT_PROVED": "not proved", "NOT_JUDGED": "not judged"}
# Findings about the network or speed, which no change of calls can prove.
OTHERWISE = {"COLLECTIVE_STUCK", "STRAGGLER", "SLOW_HOST", "SLOW_LINK"}
GROUPS = {"right": "right", "kind": "kind", "set": "set", "wide": "set", "blame": "wrong", "partial": "wrong", "missed": "nobody", "silent": "nobody"}


class Run(accuracy.Run):
    def __init__(self, options, falsify):
        super().__init__(options)
        self.replay = os.path.join(options.build, "bin/lockstep-replay")
        self.falsify = falsify

    def ask(self, data, suspects=()):
        command = [self.replay, "--format", "json", *(["--suspect", ",".join(map(str, suspects))] if suspects else []), data]
        began = time.monotonic()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            watch = threading.Timer(300, process.kill)
            watch.start()
            _, status, usage = os.wait4(process.pid, 0)
            watch.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            cost = {"seconds": time.monotonic() - began, "cpu": usage.ru_utime + usage.ru_stime, "mib": usage.ru_maxrss // 1024}
            out.seek(0), err.seek(0)
            try:
                return {**json.load(out), **cost}
            except ValueError:
                return {"result": "error", "why_not": err.read().strip()[-200:], **cost, "kind": "", "culprit_ranks": []}

    def judge(self, case, folder, truth, result):
        super().judge(case, folder, truth, result)
        try:
            with open(os.path.join(folder, "verdict.json")) as file:
                findings = json.load(file).get("findings") or []
        except ValueError:
            findings = []
        self.examine(os.path.join(folder, "data"), truth, result, case.seed, findings)

    def examine(self, data, truth, result, seed, findings):
        result["replay"] = self.ask(data)
        result["falsified"] = []
        named = result["replay"]["culprit_ranks"]
        guilty = set(named).union(truth.get("culprit_ranks") or [], (truth.get("second_fault") or {}).get("culprit_ranks") or [],
                                  *(truth.get("set_allowed") or []), *(truth.get("accept") or []))
        innocents = [rank for rank in range(truth.get("ranks") or result.get("ranks") or 0) if rank not in guilty]
        if named and result["outcome"] == "right" and not truth.get("healthy"):
            # The first half waits for the culprit, if such ranks are known: these look most guilty.
            near = [rank for link in findings[0].get("chain", [])[:2] for rank in link["ranks"] if rank in innocents]
            chance = random.Random(seed)
            chosen = set(chance.sample(near, min((self.falsify + 1) // 2, len(near))))
            rest = [rank for rank in innocents if rank not in chosen]
            chosen.update(chance.sample(rest, min(self.falsify - len(chosen), len(rest))))
            result["falsified"] += [(rank, self.ask(data, [rank])) for rank in sorted(chosen)]


def labelled(run, folders):
    """Yields cases of other generators, with the outcome in the terms of scoring.py."""
    for folder in sorted({d for top in folders for d, _, files in os.walk(top) if "truth.json" in files}):
        data = next((os.path.join(folder, name) for name in ("in", "data", "d") if os.path.isdir(os.path.join(folder, name))), None)
        if data is None:
            continue
        with open(os.path.join(folder, "truth.json")) as file:
            truth = json.load(file)
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copytree(data, f"{scratch}/dumps")
            for name, ns in truth.get("file_times_ns", {}).items():
                if os.path.exists(f"{scratch}/dumps/{name}"):
                    os.utime(f"{scratch}/dumps/{name}", ns=(ns, ns))
            printed = subprocess.run([run.analyze, "--format", "json", f"{scratch}/dumps"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            try:
                findings = json.loads(printed).get("findings") or []
            except ValueError:
                continue
            named = sorted(findings[0]["culprit_ranks"]) if findings else []
            want = sorted(truth.get("culprit_ranks") or [])
            right = [want] + [sorted(each) for each in (truth.get("accept") or []) + (truth.get("set_allowed") or [])]
            outcome = "blame"
            if not findings:
                outcome = "silent"
            elif named and named in right or (truth.get("two") and named and set(named) <= set(want)):
                kinds = truth.get("kinds_allowed")
                outcome = "right" if not kinds or findings[0]["kind"] in kinds else "kind"
            elif want and set(want) <= set(named) or named in [sorted(each) for each in truth.get("accept_low", [])]:
                outcome = "set"
            result = {"case": os.path.relpath(folder, folders[0] if len(folders) == 1 else "/"), "outcome": outcome, "truth": truth, "ranks": truth.get("ranks") or 0,
                      "scenario": 0, "format": os.path.basename(os.path.dirname(folder)), "said": [accuracy.finding_text(f) for f in findings]}
            if not result["ranks"]:
                result["ranks"] = max([-1, *want, *named, *(link for f in findings for c in f.get("chain", []) for link in c["ranks"])]) + 1
            run.examine(f"{scratch}/dumps", truth, result, 1, findings)
            yield result


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def rows_of(names, results, key):
    """Returns a row for each name: the number of cases, and how often the replay had each result."""
    counts = collections.Counter((key(r), r["replay"]["result"]) for r in results)
    rows = []
    for name in names:
        row = [counts[name, result] for result in RESULTS]
        rows.append([name, sum(row), *row, share(row[0], row[0] + row[1]), share(row[0], sum(row))])
    return rows


def report(results, least, heading):
    """Returns the tables, and whether the results are as expected."""
    replayed = [r for r in results if "replay" in r]
    named = [r for r in replayed if r["replay"]["culprit_ranks"] or r["replay"]["result"] == "error"]
    right = [r for r in named if r["outcome"] == "right"]
    calls = [r for r in right if r["replay"]["kind"] not in OTHERWISE]
    header = [*RESULTS.values(), "proved of judged", "proved of all"]
    text = [heading]
    rows = rows_of(("right", "kind", "set", "wrong"), named, lambda r: GROUPS.get(r["outcome"], r["outcome"]))
    rows += rows_of(("right, without network and speed",), calls, lambda r: "right, without network and speed")
    text.append(tables.table(["verdicts that name a rank", "cases", *header], rows))
    text.append(tables.table(["kind, where right", "cases", *header], rows_of(sorted({r["replay"]["kind"] for r in right}), right, lambda r: r["replay"]["kind"])))
    why = collections.Counter(r["replay"]["why_not"] for r in right if r["replay"]["result"] != "PROVED")
    text.append(tables.table(["why not, where right", "cases"], why.most_common()))
    costs = []
    for ranks in sorted({r["ranks"] for r in replayed if r["scenario"]}):
        of = [r["replay"] for r in replayed if r["ranks"] == ranks]
        costs.append([ranks, len(of), *(f"{f(o[key] for o in of):.2f}" for key in ("seconds", "cpu") for f in (tables.median, max)), max(o["mib"] for o in of)])
    if costs:
        text.append("Time and memory of `lockstep-replay`, reading and analysis included.")
        text.append(tables.table(["ranks", "cases", "s median", "s most", "CPU s median", "CPU s most", "MiB most"], costs))
    false = [answer for r in replayed for _, answer in r["falsified"]]
    wrong = [r["case"] for r in replayed if GROUPS.get(r["outcome"]) == "wrong" and r["replay"]["result"] == "PROVED"]
    proved = [f"{r['case']} with rank {rank}" for r in replayed for rank, answer in r["falsified"] if answer["result"] == "PROVED"]
    errors = [r["case"] for r in replayed if r["replay"]["result"] == "error" or any(answer["result"] == "error" for _, answer in r["falsified"])]
    text.append(f"wrong verdicts proved: {len(wrong)}; innocents in the culprit's place: {len(false)}, of these proved: {len(proved)}; errors: {len(errors)}")
    for name, cases in (("wrong and proved", wrong), ("innocent and proved", proved), ("error", errors)):
        text += [f"{name}: {case}" for case in cases]
    judged = [r for r in right if r["replay"]["result"] in ("PROVED", "NOT_PROVED")]
    enough = 100 * sum(r["replay"]["result"] == "PROVED" for r in judged) >= least * len(judged)
    return "\n\n".join(text) + "\n", not wrong and not proved and not errors and enough


def main(arguments):
    own = accuracy.argparse.ArgumentParser(description=__doc__, formatter_class=accuracy.argparse.RawDescriptionHelpFormatter, add_help=False)
    own.add_argument("--falsify", type=int, default=2, help="innocent ranks that replace the culprit in each case (2)")
    own.add_argument("--cases", action="append", default=[], metavar="FOLDER", help="use the labeled cases of this folder instead of the corpus")
    own.add_argument("--least", type=float, default=0, metavar="PERCENT", help="fail if a smaller share of the judged correct verdicts is proved")
    own.add_argument("--markdown", metavar="FILE", help="append the tables to FILE")
    own.add_argument("--show", action="store_true", help="print each correct verdict that is not proved, and each wrong verdict")
    mine, rest = own.parse_known_args(arguments)
    if "-h" in rest or "--help" in rest:
        own.print_help()
    options = accuracy.parse(rest)
    options.formats = [form for form in options.formats if form != "run"]
    options.out += "-replay"
    options.scratch = os.path.join(options.out, "scratch")
    run = Run(options, mine.falsify)
    shutil.rmtree(options.out, ignore_errors=True)
    os.makedirs(options.scratch)
    run.open_store()
    if mine.cases:
        results = list(labelled(run, mine.cases))
    else:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = [r for r in pool.map(run.run_case, run.cases()) if r["outcome"] != "not a case"]
    shutil.rmtree(options.scratch, ignore_errors=True)
    for r in results if mine.show else []:
        replay = r.get("replay", {})
        if (r["outcome"] == "right" and replay.get("result") != "PROVED" and replay.get("culprit_ranks")) or GROUPS.get(r["outcome"]) == "wrong":
            print(f"{r['outcome']:6} {replay.get('result')} {r['case']}: {replay.get('kind')} {replay.get('culprit_ranks')[:6]}: {replay.get('text')}")
    private = {i for i, argument in enumerate(arguments) if argument in ("--build", "--out", "--markdown", "--show")}
    private |= {i + 1 for i in private if arguments[i] != "--show"}
    shown = " ".join(argument for i, argument in enumerate(arguments) if i not in private)
    heading = f"As printed by `tests/bench/accuracy/replays.py {shown}`, {datetime.date.today()}, commit {accuracy.commit()}, {accuracy.machine()}."
    if mine.cases:
        heading = (f"Labelled cases of other generators and of real jobs ({', '.join(os.path.basename(folder) for folder in mine.cases)}), "
                   f"{datetime.date.today()}, commit {accuracy.commit()}.")
    text, sound = report(results, mine.least, heading)
    print(text)
    if mine.markdown:
        with open(mine.markdown, "a") as file:
            file.write(text + "\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
