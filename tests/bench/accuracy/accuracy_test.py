#!/usr/bin/env python3
"""Tests the scorer with verdicts that have an obvious score, and whole runs with programs that print prepared answers."""

import contextlib
import io
import json
import os
import stat
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import accuracy  # noqa: E402
import played  # noqa: E402
import scoring  # noqa: E402
import tables  # noqa: E402


def finding(kind="HOST_STALL", ranks=(3,), confidence=0.95, host=None, **more):
    return {"kind": kind, "culprit_ranks": list(ranks), "confidence": confidence,
            "culprits": [{"rank": rank, "host": host or f"node{rank // 8}", "gpu": rank % 8} for rank in ranks], **more}


def verdict(*findings, word=None):
    return {"verdict": word or ("HUNG" if findings else "HEALTHY"), "findings": list(findings)}


def truth(**more):
    return {"scenario": 7, "ranks": 64, "healthy": False, "identifiable": True, "verdicts_allowed": ["HUNG"], "culprit_ranks": [3],
            "culprit_hosts": [], "set_allowed": [], "kinds_allowed": ["HOST_STALL"], "second_fault": None, **more}


class Scoring(unittest.TestCase):
    def outcome(self, what, *findings, word=None):
        return scoring.score(what, verdict(*findings, word=word))["outcome"]

    def test_one_named_rank_is_scored(self):
        self.assertEqual(self.outcome(truth(), finding()), "right")
        self.assertEqual(self.outcome(truth(), finding(kind="RANK_DEAD")), "kind")
        self.assertEqual(self.outcome(truth(), finding(ranks=(4,))), "blame")
        self.assertEqual(self.outcome(truth()), "missed")
        self.assertEqual(self.outcome(truth(culprit_ranks=[3, 4]), finding()), "partial")

    def test_only_the_first_finding_counts(self):
        marks = scoring.score(truth(), verdict(finding(ranks=(4,)), finding()))
        self.assertTrue(marks["false_blame"])
        self.assertFalse(marks["right_culprit"])
        marks = scoring.score(truth(), verdict(finding(), finding(ranks=(4,))))
        self.assertTrue(marks["right_culprit"])
        self.assertFalse(marks["false_blame"])
        self.assertTrue(marks["blame_behind"])
        self.assertFalse(scoring.score(truth(), verdict(finding(), finding(ranks=(4,), confidence=0.5)))["blame_behind"])

    def test_named_sets_are_scored(self):
        self.assertEqual(self.outcome(truth(), finding(ranks=(3, 9))), "set")
        self.assertEqual(self.outcome(truth(), finding(ranks=range(8))), "set", "one host")
        self.assertEqual(self.outcome(truth(), finding(ranks=range(9))), "blame", "two hosts")
        self.assertEqual(self.outcome(truth(ranks=8), finding(ranks=(1, 3, 5))), "blame", "there is no other host")
        self.assertEqual(self.outcome(truth(), finding(ranks=(8, 9))), "blame", "the set does not contain the culprit")
        switch = {"kind": "switch", "name": "leaf3", "culprits": 16, "members": 16}
        self.assertEqual(self.outcome(truth(), finding(ranks=range(16), common_factor=switch)), "set")
        self.assertEqual(self.outcome(truth(set_allowed=[[3, 9, 20]]), finding(ranks=(20, 9, 3))), "right")
        self.assertEqual(self.outcome(truth(set_allowed=[[3, 9]]), finding(ranks=(9,))), "blame", "only the culprit's partner")

    def test_named_hosts_are_scored(self):
        host = truth(culprit_ranks=list(range(8, 16)), culprit_hosts=["node1"], host_is_culprit=True)
        self.assertEqual(self.outcome(host, finding(ranks=range(8, 16))), "right")
        self.assertEqual(self.outcome(host, finding(ranks=range(7, 16))), "blame")
        self.assertEqual(self.outcome(host, finding(ranks=(8,))), "partial", "a rank is not the host")
        factor = {"kind": "host", "name": "node1"}
        self.assertEqual(self.outcome(host, finding(ranks=(8, 9), common_factor=factor)), "right", "the host is named")
        self.assertEqual(self.outcome(host, finding(ranks=(7, 8, 9), common_factor=factor)), "blame")
        # One rank is the culprit, so naming another rank of its host is wrong.
        self.assertEqual(self.outcome(truth(culprit_hosts=["node0"]), finding(ranks=(5,))), "blame")

    def test_verdicts_on_healthy_jobs_are_scored(self):
        healthy = truth(healthy=True, culprit_ranks=[], verdicts_allowed=["HEALTHY"])
        self.assertEqual(self.outcome(healthy), "right")
        self.assertEqual(self.outcome(healthy, finding(), word="HUNG"), "blame")
        self.assertEqual(self.outcome(healthy, word="LATE"), "kind")

    def test_answers_without_an_identifiable_culprit_are_scored(self):
        blind = truth(identifiable=False, verdicts_allowed=["HUNG", "HEALTHY"])
        self.assertEqual(self.outcome(blind), "silent", "the record does not identify the culprit")
        self.assertFalse(scoring.score(blind, verdict())["abstained_well"], "silence is not an abstention")
        self.assertEqual(self.outcome(truth(identifiable=False, verdicts_allowed=["HUNG"])), "missed")
        self.assertEqual(self.outcome(blind, finding(ranks=range(64), confidence=0.6)), "wide")
        self.assertEqual(self.outcome(blind, finding(ranks=range(64), confidence=0.95)), "blame")
        self.assertEqual(self.outcome(blind, finding(ranks=range(64), confidence=0.6, kind="RANK_DEAD")), "blame")
        self.assertEqual(self.outcome(blind, finding(ranks=(5,), confidence=0.6)), "blame")
        self.assertEqual(self.outcome(truth(), finding(ranks=range(64), confidence=0.6)), "blame", "the record identifies the culprit")

    def test_a_wide_set_counts_if_the_record_hides_the_fault(self):
        two = truth(identifiable=False, second_fault={"culprit_ranks": [9], "kinds_allowed": ["RANK_DEAD"]})
        self.assertEqual(self.outcome(two, finding(ranks=range(64), confidence=0.6)), "wide")
        self.assertEqual(self.outcome(two, finding(ranks=range(4, 64), confidence=0.6)), "blame", "the set contains only the other culprit")
        self.assertFalse(scoring.score(two, verdict(finding(ranks=range(64), confidence=0.6)))["right_culprit"])

    def test_unseen_ranks_may_be_named_with_low_confidence(self):
        blind = truth(identifiable=False, verdicts_allowed=["HUNG", "INCOMPLETE_DATA"], unseen_ranks=[7, 9])
        no_data = dict(kind="RANK_NO_DATA", confidence=0.5)
        self.assertEqual(self.outcome(blind, finding(ranks=(9,), **no_data)), "wide", "says that nothing is known about rank 9")
        self.assertEqual(self.outcome(blind, finding(ranks=(8, 9), **no_data)), "blame", "rank 8 has data, or no rank waits for it")
        self.assertEqual(self.outcome(blind, finding(ranks=(9,), kind="RANK_NO_DATA", confidence=0.95)), "blame")
        self.assertEqual(self.outcome(blind, finding(ranks=(9,), kind="RANK_NOT_ARRIVED", confidence=0.5)), "blame")
        self.assertEqual(self.outcome(truth(unseen_ranks=[9]), finding(ranks=(9,), **no_data)), "blame", "the record identifies the culprit")

    def test_the_second_of_two_faults_is_scored_separately(self):
        two = truth(second_fault={"culprit_ranks": [9], "kinds_allowed": ["RANK_DEAD"]})
        marks = scoring.score(two, verdict(finding(kind="RANK_DEAD", ranks=(9,)), finding()))
        self.assertEqual((marks["outcome"], marks["second_found"], marks["blame_behind"]), ("right", True, False))
        marks = scoring.score(two, verdict(finding()))
        self.assertEqual((marks["outcome"], marks["second_found"]), ("right", False))
        marks = scoring.score(two, verdict(finding(ranks=(3, 9))))
        self.assertEqual((marks["outcome"], marks["second_found"], marks["findings"]), ("right", True, [(0.95, True)]))
        self.assertFalse(scoring.score(two, verdict(finding(ranks=(3, 9, 17))))["second_found"], "a set with an innocent rank finds no culprit")
        self.assertEqual(scoring.score(two, verdict(finding(), finding(ranks=(17,))))["blame_behind"], True)

    def test_the_hidden_fault_of_two_may_be_named_first(self):
        two = truth(unseen_ranks=[7, 9], second_fault={"culprit_ranks": [9], "kinds_allowed": ["RANK_DEAD"], "identifiable": False})
        hidden = finding(kind="RANK_NO_DATA", ranks=(7, 9), confidence=0.5)
        marks = scoring.score(two, verdict(hidden, finding()))
        self.assertEqual((marks["outcome"], marks["right_culprit"], marks["false_blame"]), ("right", True, False))
        self.assertEqual(scoring.score(two, verdict(hidden, finding(ranks=(4,))))["outcome"], "set", "no finding names the other culprit")
        self.assertEqual(scoring.score(two, verdict(finding(ranks=(17,)), finding()))["outcome"], "blame")

    def test_activity_of_the_culprit_is_scored(self):
        seen = truth(activity_allowed=["data loading"], moving_allowed=["not moving"])
        right = finding(activity="data loading", moving="not moving")
        self.assertIs(scoring.score(seen, verdict(right))["activity_right"], True)
        self.assertIs(scoring.score(seen, verdict(finding(activity="storage", moving="not moving")))["activity_right"], False)
        self.assertIs(scoring.score(seen, verdict(finding(activity="data loading")))["activity_right"], False)
        self.assertIsNone(scoring.score(truth(), verdict(right))["activity_right"], "the truth states no activity")
        self.assertIsNone(scoring.score(seen, verdict(finding(ranks=(4,))))["activity_right"], "another rank's")

    def test_sets_without_a_distinguishing_fact_are_counted(self):
        def of(*findings):
            marks = scoring.score(truth(), verdict(*findings))
            return marks["sets"], marks["no_hint"]
        self.assertEqual(of(finding(ranks=(3, 4), confidence=0.6), finding(ranks=(3, 4), confidence=0.6, tells_apart="Xid errors")), (2, 1))
        self.assertEqual(of(finding(ranks=(3, 4))), (0, 0), "the finding is sure of both ranks")
        self.assertEqual(of(finding(ranks=(3, 4), confidence=0.6, common_factor={"kind": "host", "name": "node0"})), (0, 0))

    def test_calibration_counts_findings_by_confidence(self):
        marks = [scoring.score(truth(), verdict(finding(confidence=0.95))), scoring.score(truth(), verdict(finding(ranks=(4,))))]
        self.assertEqual([row[2:] for row in scoring.calibration(marks)], [(0, 0)] * 5 + [(2, 1)])
        pair = [scoring.score(truth(), verdict(finding(ranks=(3, 9), confidence=sure))) for sure in (0.95, 0.6)]
        self.assertEqual([marks["findings"] for marks in pair], [[(0.95, False)], [(0.6, True)]], "a finding with high confidence does not abstain")


CORPUS = """#!{python}
import json, os, sys
if sys.argv[1] == "list":
    print(json.dumps({{"scenarios": [{{"scenario": 7, "name": "data loader"}}, {{"scenario": 36, "name": "idle by design"}}]}}))
    sys.exit(0)
given = dict(zip(sys.argv[2::2], sys.argv[3::2]))
os.makedirs(os.path.join(given["--out"], "data"))
json.dump(given, open(os.path.join(given["--out"], "data", "given"), "w"))
healthy = given["--scenario"] == "36"
if given["--format"] == "fr" and healthy:
    sys.exit(4)
json.dump({{"healthy": healthy, "identifiable": True, "culprit_ranks": [] if healthy else [3], "kinds_allowed": ["HOST_STALL"],
           "verdicts_allowed": ["HEALTHY" if healthy else "HUNG"]}}, open(os.path.join(given["--out"], "truth.json"), "w"))
"""
ANALYZE = """#!{python}
import json, os, sys
given = json.load(open(os.path.join(sys.argv[-1], "given")))
if given["--variant"] == "cut":
    sys.exit(139)
if given["--scenario"] == "36":
    print(json.dumps({{"verdict": "HEALTHY", "findings": []}}))
    sys.exit(0)
rank = 5 if given["--variant"] == "skew" else 3
print(json.dumps({{"verdict": "HUNG", "findings": [{{"kind": "HOST_STALL", "culprit_ranks": [rank], "confidence": 0.95}}]}}))
sys.exit(1)
"""


class Runs(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.build = self.temporary.name
        os.mkdir(os.path.join(self.build, "bin"))
        for name, text in (("lockstep-corpus", CORPUS), ("lockstep-analyze", ANALYZE)):
            path = os.path.join(self.build, "bin", name)
            with open(path, "w") as file:
                file.write(text.format(python=sys.executable))
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def tearDown(self):
        self.temporary.cleanup()

    def play(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = accuracy.main(["--build", self.build, "--scales", "8", "--formats", "lsd,fr", *arguments])
        return status, out.getvalue()

    def test_check_fails_on_a_wrong_answer_or_a_crash(self):
        self.assertEqual(self.play("--variants", "plain,shuffled", "--check")[0], 0)
        status, out = self.play("--variants", "skew", "--check")
        self.assertEqual(status, 1)
        self.assertIn("said  HUNG: HOST_STALL [5] 0.95", out)
        status, out = self.play("--variants", "cut", "--check")
        self.assertEqual(status, 1)
        self.assertIn("ended with 139", out)

    def test_known_wrong_answers_pass_the_check(self):
        known = os.path.join(self.build, "known")
        with open(known, "w") as file:
            file.write("# SCENARIO FORMAT VARIANT REASON\n7 lsd skew the clock is ignored\n")
        self.assertEqual(self.play("--variants", "skew", "--formats", "lsd", "--check", "--known-wrong", known)[0], 0)
        self.assertEqual(self.play("--variants", "skew", "--check", "--known-wrong", known)[0], 1)

    def test_resumes_and_leaves_nothing(self):
        store = os.path.join(self.build, "accuracy/results.jsonl")
        self.play("--variants", "plain")
        with open(store) as file:
            first = file.read()
        self.assertEqual(first.count("\n"), 4)  # one of the five is no case
        with open(store, "a") as file:
            file.write('{"case": "torn')
        self.play("--variants", "plain")
        with open(store) as file:
            self.assertEqual(file.read(), first + '{"case": "torn')
        self.play("--variants", "plain", "--fresh")
        with open(store) as file:
            self.assertEqual(file.read().count("\n"), 4)
        self.assertEqual(os.listdir(os.path.join(self.build, "accuracy")), ["results.jsonl"])

    def test_keeps_wrongly_answered_cases(self):
        self.play("--variants", "plain,skew", "--formats", "lsd", "--keep-wrong")
        self.assertEqual(os.listdir(os.path.join(self.build, "accuracy/kept")), ["07.8.lsd.skew.8"])

    def test_one_percent_of_eight_ranks_equals_ten_percent(self):
        self.play("--variants", "missing1,missing10", "--formats", "lsd")
        with open(os.path.join(self.build, "accuracy/results.jsonl")) as file:
            self.assertEqual({json.loads(line)["variant"] for line in file}, {"missing10"})

    def test_each_depth_is_a_separate_case(self):
        self.play("--variants", "plain", "--formats", "lsd")
        status, out = self.play("--variants", "plain", "--formats", "lsd", "--depth", "2048", "--keep", "--markdown", "-")
        self.assertEqual(status, 0)
        self.assertIn("rings of 2,048 records", out)
        with open(os.path.join(self.build, "accuracy/kept/07.8.lsd.plain.8.deep2048/data/given")) as file:
            self.assertEqual(json.load(file)["--depth"], "2048")

    def test_each_kind_of_marks_is_a_separate_case(self):
        self.play("--variants", "plain", "--formats", "lsd")
        status, out = self.play("--variants", "plain", "--formats", "lsd", "--marks", "timed", "--keep", "--markdown", "-")
        self.assertEqual(status, 0)
        self.assertIn("GPU marks: timed", out)
        with open(os.path.join(self.build, "accuracy/kept/07.8.lsd.plain.8/data/given")) as file:
            self.assertEqual(json.load(file)["--marks"], "timed")
        with open(os.path.join(self.build, "accuracy/results.jsonl")) as file:
            self.assertEqual(sorted(json.loads(line)["marks"] for line in file), ["full", "full", "timed", "timed"])

    def test_played_cases_name_marks_as_lockstep_run_does(self):
        for marks, word in (("off", "off"), ("done", "done"), ("full", "full"), ("timed", "events")):
            command = played.command_of("build", 36, 8, [0], "", "here", marks)
            self.assertEqual(command[command.index("--gpu") + 1], word)

    def test_names_what_a_played_case_needs(self):
        with self.assertRaises(SystemExit) as ended:
            self.play("--scales", "8", "--formats", "run")
        self.assertRegex(str(ended.exception), r"bin/lockstep is missing; run ./dev build")

    def test_silence_and_a_named_set_are_different_outcomes(self):
        blind = truth(identifiable=False, verdicts_allowed=["HUNG", "HEALTHY"])
        results = [{"identifiable": False, "seconds": 1.0, "cpu_seconds": 2.5, "rss_mib": 7, **scoring.score(blind, answer)}
                   for answer in (verdict(), verdict(finding(ranks=(3, 9), confidence=0.6)), verdict(finding(ranks=(3, 9), confidence=0.6)))]
        row = dict(zip(tables.TOTALS, tables.totals_row(results)))
        self.assertEqual((row["silent"], row["abstained"], row["right"], row["right word"]), (1, 2, 0, "3/3"))
        times = dict(zip(tables.TIMES, tables.times_row(results)))
        self.assertEqual((times["s most"], times["CPU s median"], times["CPU s most"], times["MiB most"]), ("1.00", "2.50", "2.50", 7))

    def test_a_wrong_verdict_word_counts_as_wrong(self):
        self.assertFalse(accuracy.acceptable({"outcome": "right", "verdict_right": False}))
        self.assertTrue(accuracy.acceptable({"outcome": "right", "verdict_right": True, "activity_right": None}))
        self.assertFalse(accuracy.acceptable({"outcome": "right", "verdict_right": True, "activity_right": False}))

    def test_rows_add_up(self):
        text = self.play("--variants", "plain,skew,cut", "--markdown", "-")[1]
        row = next(line for line in text.splitlines() if line.startswith("| all"))
        cells = [cell.strip() for cell in row.split("|")[3:-1]]
        parts = dict(zip(tables.TOTALS, cells))
        self.assertEqual(int(parts["cases"]), sum(int(parts[name]) for name in ("right", "abstained", "silent", "wide", "partial", "none", "false blame")))

    def test_tables_are_written_as_markdown(self):
        status, out = self.play("--variants", "plain,skew,cut", "--markdown", "-")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"\| +7 +\| data loader +\| ok +\| BLAME +\| ERROR")
        self.assertRegex(out, r"0.90 and above \| +4 +\| +2")
        self.assertIn("### 8 ranks, Flight Recorder dumps", out)


if __name__ == "__main__":
    unittest.main()
