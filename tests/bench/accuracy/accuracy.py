#!/usr/bin/env python3
"""Scores the analyzer on the labeled corpus. Generates each case with lockstep-corpus, or plays it with real processes (trainsim under lockstep run), runs
lockstep-analyze on it and compares the verdict with the case's truth. Prints how often the verdicts were right, and how confident they were. An
interrupted run can be started again: it skips cases that the same programs already scored. Deletes the files of each case after scoring."""

import argparse
import collections
import concurrent.futures
import datetime
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import played  # noqa: E402
import scoring  # noqa: E402
import tables  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
VARIANTS = ("plain", "missing1", "missing10", "overwritten", "skew", "skewstep", "cut", "shuffled", "nostart", "firstfile", "rank0",
            "lastrank", "twofaults", "shared")
FORMATS = ("lsd", "fr", "run")
SCALES = (8, 16, 64, 1024, 24576)  # 16 ranks only for played cases
ONE_PERCENT = 20  # number of ranks below which missing1 and missing10 both remove one rank
# From this number of ranks, a case takes gigabytes, so at most two run at a time.
LARGE = 4096
NOT_APPLICABLE = 4  # exit status of lockstep-corpus if the scenario does not exist in this format or variant

Case = collections.namedtuple("Case", "scenario ranks seed format variant depth", defaults=(0,))


def name_of(case):
    deep = f".deep{case.depth}" if case.depth else ""
    return f"{case.scenario:02d}.{case.ranks}.{case.format}.{case.variant}.{case.seed}{deep}"


def numbers(text):
    """"1,4-6" -> [1, 4, 5, 6]"""
    chosen = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            chosen += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{part}' is neither a number nor a range")
    return chosen


def words(allowed):
    def parse(text):
        chosen = text.split(",")
        unknown = [word for word in chosen if word not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown '{unknown[0]}'; there are {', '.join(allowed)}")
        return chosen
    return parse


def default_set(scenario, ranks, form, variant):
    """Returns whether a full run has this case. At 8 and 64 ranks: all. At 1,024 ranks: every scenario plain, and with every second variant in alternating
    formats. Above 1,024: every scenario plain in our own format, and with one other variant in alternating formats."""
    if form == "run":
        return True
    if ranks <= 64:
        return True
    if ranks <= 1024:
        if variant == "plain":
            return True
        turn = scenario + VARIANTS.index(variant)
        return turn % 2 == 0 and form == ("lsd", "fr")[turn // 2 % 2]
    if variant == "plain":
        return form == "lsd"
    others = len(VARIANTS) - 1
    return VARIANTS.index(variant) - 1 == scenario % others and form == ("lsd", "fr")[scenario // others % 2]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


class Run:
    def __init__(self, options):
        self.options = options
        self.corpus = os.path.join(options.build, "bin/lockstep-corpus")
        self.analyze = os.path.join(options.build, "bin/lockstep-analyze")
        # The programs that determine a case's result; the key is whether the case is played.
        programs = {False: [self.corpus, self.analyze],
                    True: [self.analyze, played.__file__, *(os.path.join(options.build, name) for name in
                           ("bin/lockstep", "bin/lockstep-run", "bin/trainsim", "standin/lib/libnccl.so.2"))]}
        self.versions = {}
        for is_played in {form == "run" for form in options.formats}:
            for program in programs[is_played]:
                if not os.path.exists(program):
                    sys.exit(f"accuracy: {program} is missing; run ./dev build")
            self.versions[is_played] = ".".join(map(digest, programs[is_played]))
        self.lock = threading.Lock()
        self.large = threading.BoundedSemaphore(2)
        self.known = {}
        self.store = None
        self.scenarios = {number: {"name": scenario.name, "formats": []} for number, scenario in played.SCENARIOS.items()}
        if False in self.versions:
            listing = json.loads(self.call([self.corpus, "list", "--json"]))
            entries = listing["scenarios"] if isinstance(listing, dict) else listing
            self.scenarios.update({int(entry.get("scenario", entry.get("number", 0))): entry for entry in entries})
        self.names = {number: entry.get("name", "") for number, entry in self.scenarios.items()}

    def call(self, command, statuses=(0,)):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in statuses:
            sys.exit(f"accuracy: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def cases(self):
        options = self.options
        chosen = []
        for ranks in options.scales:
            for variant in options.variants:
                for form in options.formats:
                    for scenario in options.scenarios or sorted(self.scenarios):
                        if scenario not in self.scenarios:
                            sys.exit(f"accuracy: lockstep-corpus knows no scenario {scenario}")
                        entry = self.scenarios[scenario]
                        if form == "run":
                            if scenario not in played.SCENARIOS or ranks not in played.SCALES or variant != "plain":
                                continue
                        elif ranks == 16:
                            continue
                        elif form not in entry.get("formats", FORMATS) or variant not in entry.get("variants", VARIANTS):
                            continue
                        if variant == "missing1" and ranks < ONE_PERCENT:
                            continue
                        if not options.all and options.depth == 0 and not default_set(scenario, ranks, form, variant):
                            continue
                        for seed in range(options.seeds):
                            chosen.append(Case(scenario, ranks, options.seed_base + 1000 * seed + scenario, form, variant,
                                               0 if form == "run" else options.depth))
        return chosen

    def open_store(self):
        path = os.path.join(self.options.out, "results.jsonl")
        os.makedirs(self.options.out, exist_ok=True)
        if self.options.fresh and os.path.exists(path):
            os.unlink(path)
        if os.path.exists(path):
            with open(path) as file:
                for line in file:
                    try:
                        result = json.loads(line)
                    except ValueError:
                        continue  # the run was killed while it wrote this line
                    if result.get("version") == self.versions.get(result.get("format") == "run"):
                        self.known[result["case"], result["marks"]] = result
        self.store = open(path, "a", buffering=1)

    def generate_command(self, case, folder):
        options = self.options
        command = [self.corpus, "generate", "--scenario", str(case.scenario), "--ranks", str(case.ranks), "--seed", str(case.seed),
                   "--format", case.format, "--marks", options.marks, "--variant", case.variant, "--out", folder]
        return command + (["--depth", str(case.depth)] if case.depth else [])

    def run_case(self, case):
        known = self.known.get((name_of(case), self.options.marks))
        if known is not None:
            return known
        if case.ranks >= LARGE:
            with self.large:
                return self.score_case(case)
        return self.score_case(case)

    def score_case(self, case):
        folder = tempfile.mkdtemp(prefix=f"case-{name_of(case)}-", dir=self.options.scratch)
        keep = self.options.keep
        result = {"case": name_of(case), "version": self.versions[case.format == "run"], "marks": self.options.marks, **case._asdict(), "identifiable": True,
                  "needs": "", "outcome": "error", "seconds": 0.0, "rss_mib": 0, "findings": []}
        try:
            began = time.monotonic()
            status, text = self.generate(case, folder)
            result["generate_seconds"] = time.monotonic() - began
            if status != 0:
                result["text"] = text
                if status == NOT_APPLICABLE:
                    result["outcome"] = "not a case"
            else:
                with open(os.path.join(folder, "truth.json")) as file:
                    truth = json.load(file)
                self.judge(case, folder, truth, result)
            if self.options.keep_wrong and result["outcome"] not in ("right", "set", "silent", "wide", "not a case"):
                keep = True
        finally:
            if keep:
                kept = os.path.join(self.options.out, "kept", name_of(case))
                shutil.rmtree(kept, ignore_errors=True)
                os.makedirs(os.path.dirname(kept), exist_ok=True)
                shutil.move(folder, kept)
                result["kept"] = kept
            else:
                shutil.rmtree(folder, ignore_errors=True)
        with self.lock:
            self.store.write(json.dumps(result) + "\n")
        return result

    def generate(self, case, folder):
        """Returns the exit status and the error text."""
        if case.format == "run":
            text = played.generate(self.options.build, case.scenario, case.ranks, case.seed, folder, marks=self.options.marks)
            return int(bool(text)), text
        made = subprocess.run(self.generate_command(case, folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        return made.returncode, f"lockstep-corpus ended with {made.returncode}: {made.stderr.strip()[-300:]}"

    def judge(self, case, folder, truth, result):
        report = os.path.join(folder, "verdict.json")
        errors = os.path.join(folder, "analyze.err")
        command = [self.analyze, "--format", "json", *self.options.analyze_option, os.path.join(folder, "data")]
        began = time.monotonic()
        with open(report, "wb") as out, open(errors, "wb") as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        watch = threading.Timer(self.options.timeout, process.kill)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        result["seconds"] = time.monotonic() - began
        result["cpu_seconds"] = usage.ru_utime + usage.ru_stime
        result["rss_mib"] = usage.ru_maxrss // 1024
        result["identifiable"] = scoring.identifiable(truth)
        result["needs"] = truth.get("needs") or ""
        result["truth"] = truth
        try:
            with open(report) as file:
                verdict = json.load(file)
        except ValueError:
            with open(errors, errors="replace") as file:
                result["text"] = f"lockstep-analyze ended with {process.returncode}: {file.read().strip()[-300:]}"
            return
        result.update(scoring.score(truth, verdict))
        result["graded"] = scoring.graded(truth, verdict, case.format == "fr")
        if process.returncode != (0 if verdict.get("verdict") == "HEALTHY" else 1):
            result["outcome"] = "error"
            result["text"] = f"exit status {process.returncode} with the verdict {verdict.get('verdict')}"
        result["verdict"] = verdict.get("verdict")
        first = (verdict.get("findings") or [{}])[0]
        result["activity"] = [first.get("activity", ""), first.get("moving", "")]
        result["said"] = [finding_text(finding) for finding in verdict.get("findings") or []]


def ranks_text(ranks, most=8):
    return ",".join(map(str, ranks[:most])) + (f",.. ({len(ranks)})" if len(ranks) > most else "")


def finding_text(finding):
    return (f"{finding.get('kind')} [{ranks_text(finding.get('culprit_ranks') or [])}] {finding.get('confidence', 0):.2f} "
            f"on {(finding.get('communicator') or {}).get('name', '')}")


def truth_text(truth):
    if truth.get("healthy"):
        return "healthy"
    text = f"{'|'.join(truth.get('kinds_allowed') or [])} [{ranks_text(truth.get('culprit_ranks') or [])}]"
    if truth.get("culprit_hosts"):
        text += f" hosts {ranks_text(truth['culprit_hosts'], 3)}"
    if truth.get("set_allowed"):
        text += " or " + " or ".join(f"[{ranks_text(each)}]" for each in truth["set_allowed"][:3])
    if truth.get("second_fault"):
        text += " and " + truth_text(truth["second_fault"])
    return text


def line_of(result):
    text = f"{result['outcome']:6} {result['case']}"
    if result["outcome"] == "right" and result.get("second_found") is not False and acceptable(result):
        return text
    if result["outcome"] == "right" and result.get("activity_right") is False:
        first = result.get("activity", ["", ""])
        text += f": seen in {first[0] or 'nothing'}, {first[1] or 'moving or not is not said'}"
    if "truth" not in result:
        return f"{text}: {result.get('text', '')}"
    if result.get("text"):
        text += f": {result['text']}"
    return f"{text}\n    said  {result.get('verdict')}: {'; '.join(result.get('said', [])[:4]) or 'nothing'}\n    truth {truth_text(result['truth'])}"


def machine():
    name = platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), name)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {name}, {platform.system()} {platform.release()}"


def commit():
    try:
        text = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout.strip()
    except OSError:
        text = ""
    return text or "unknown"


def heading(results, options, arguments):
    ended = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    seeds = sorted({result["seed"] for result in results})
    deep = f"; rings of {options.depth:,} records" if options.depth else ""
    return [f"As printed by `tests/bench/accuracy/accuracy.py {' '.join(arguments)}`, {ended}, commit {commit()}, {machine()}.",
            f"{len(results)} cases, seeds {seeds[0]} to {seeds[-1]}; GPU marks: {options.marks}{deep}."]


def known_wrong(path):
    """Returns {(scenario, format, variant): reason}; "*" matches any."""
    known = {}
    with open(path) as file:
        for number, line in enumerate(file, 1):
            fields = line.split(None, 3)
            if not fields or fields[0].startswith("#"):
                continue
            if len(fields) < 4:
                raise argparse.ArgumentTypeError(f"{path}:{number}: expected SCENARIO FORMAT VARIANT REASON")
            known[tuple(fields[:3])] = fields[3].strip()
    return known


def why_known(result, known):
    return next((reason for (scenario, form, variant), reason in known.items()
                 if scenario in ("*", str(result["scenario"])) and form in ("*", result["format"]) and variant in ("*", result["variant"])), None)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (build)")
    parser.add_argument("--scenarios", type=numbers, help="only these scenarios, e.g. 1,4-6")
    parser.add_argument("--scales", type=lambda text: [int(part) for part in text.split(",")], default=list(SCALES),
                        help="ranks, e.g. 8,64 (%s)" % ",".join(map(str, SCALES)))
    parser.add_argument("--variants", type=words(VARIANTS), default=list(VARIANTS), help=f"some of {', '.join(VARIANTS)} (all)")
    parser.add_argument("--formats", type=words(FORMATS), default=list(FORMATS), help="lsd (own dumps), fr (Flight Recorder), run (real processes) (all)")
    parser.add_argument("--marks", choices=("off", "done", "full", "timed"), default="full",
                        help="GPU marks of own dumps; timed: and with the times of each operation, as from events or the profiler (full)")
    parser.add_argument("--depth", type=int, default=0, help="records per ring, with enough steps to fill it (default: depends on the scale)")
    parser.add_argument("--seed-base", type=int, default=1, help="scenario N is generated with the seed BASE + N (1)")
    parser.add_argument("--seeds", type=int, default=1, help="cases of each kind, with different seeds (1)")
    parser.add_argument("--all", action="store_true", help="run every variant and format at 1,024 ranks and more, too")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="cases at the same time (one per core)")
    parser.add_argument("--play-jobs", type=int, default=2, help="jobs of real processes at the same time (2)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds an analysis may take (300)")
    parser.add_argument("--out", default=None, help="results and kept cases (BUILD/accuracy)")
    parser.add_argument("--scratch", default=None, help="where cases are generated (OUT/scratch)")
    parser.add_argument("--fresh", action="store_true", help="discard earlier results")
    parser.add_argument("--keep", action="store_true", help="keep the files of every case")
    parser.add_argument("--keep-wrong", action="store_true", help="keep the files of cases with wrong answers")
    parser.add_argument("--analyze-option", action="append", default=[], help="option passed to lockstep-analyze")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables to FILE (-: standard output, without progress)")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    parser.add_argument("--check", action="store_true",
                        help="fail (status 1) on false blame, where a culprit that the record identifies is not named, or "
                             "where the verdict's word or what the culprit is seen in is wrong")
    parser.add_argument("--known-wrong", metavar="FILE", type=known_wrong, default={},
                        help="with --check: cases that may be wrong, one per line: SCENARIO FORMAT VARIANT REASON (* for any)")
    options = parser.parse_args(arguments)
    if min(options.jobs, options.play_jobs, options.seeds) < 1:
        parser.error("--jobs, --play-jobs and --seeds must be at least 1")
    if options.depth and not 16 <= options.depth <= 65536:
        parser.error("--depth must be 16 to 65536")
    options.build = os.path.abspath(options.build)
    options.out = os.path.abspath(options.out or os.path.join(options.build, "accuracy"))
    options.scratch = os.path.abspath(options.scratch or os.path.join(options.out, "scratch"))
    return options


def acceptable(result):
    """Returns whether --check accepts the result."""
    if result["outcome"] in ("right", "kind"):
        return not result.get("blame_behind") and result.get("verdict_right", True) and result.get("activity_right") is not False
    return result["outcome"] in ("set", "silent", "wide")


def main(arguments):
    options = parse(arguments)
    run = Run(options)
    cases = run.cases()
    if options.list:
        print("\n".join(name_of(case) for case in cases))
        return 0
    if not cases:
        sys.exit("accuracy: the filters leave no case")
    run.open_store()
    # Removes what a killed run left.
    shutil.rmtree(options.scratch, ignore_errors=True)
    os.makedirs(options.scratch)
    progress = sys.stderr if options.markdown == "-" else sys.stdout
    results, began = [], time.monotonic()
    # Played jobs mostly wait for timeouts, so they run in parallel with the other cases.
    pools = {False: concurrent.futures.ThreadPoolExecutor(options.jobs), True: concurrent.futures.ThreadPoolExecutor(options.play_jobs)}
    futures = [pools[case.format == "run"].submit(run.run_case, case) for case in cases]
    interrupted = False
    try:
        for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
            result = future.result()
            if result["outcome"] == "not a case":
                continue
            results.append(result)
            if result["outcome"] not in ("right", "set", "silent", "wide") or not acceptable(result) or result.get("second_found") is False or result.get("blame_behind"):
                print(f"[{done}/{len(cases)}] {line_of(result)}", file=progress, flush=True)
    except KeyboardInterrupt:
        interrupted = True
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        print("\naccuracy: interrupted; start it again to continue", file=sys.stderr)
    for pool in pools.values():
        pool.shutdown(wait=True)
    shutil.rmtree(options.scratch, ignore_errors=True)
    if not results:
        print("accuracy: no case matches the options", file=sys.stderr)
        return 1
    results.sort(key=lambda result: (result["ranks"], result["format"], result["scenario"], VARIANTS.index(result["variant"])))
    if options.markdown:
        text = tables.markdown(results, run.names, VARIANTS, heading(results, options, arguments))
        if options.markdown == "-":
            sys.stdout.write(text)
        else:
            with open(options.markdown, "w") as file:
                file.write(text)
    print(f"\n{len(results)} cases in {time.monotonic() - began:.0f} s\n", file=progress)
    rows = [[f"{scale:,}", form, *tables.totals_row(here)] for scale in options.scales for form in options.formats
            if (here := [r for r in results if r["ranks"] == scale and r["format"] == form])]
    print(tables.table(["ranks", "format", *tables.TOTALS], [*rows, ["all", "", *tables.totals_row(results)]], left=2), file=progress)
    print("\n" + tables.calibration_table(results), file=progress)
    if interrupted:
        return 130
    wrong = [result for result in results if not acceptable(result) and why_known(result, options.known_wrong) is None]
    if options.check and wrong:
        print(f"\naccuracy: {len(wrong)} of {len(results)} cases are wrong", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
