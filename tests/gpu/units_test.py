"""Unit tests of the script's arithmetic and pages."""
import os
import random
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import job_parts  # noqa: E402
import latency_parts  # noqa: E402
import results  # noqa: E402
import stats  # noqa: E402
from machine import Finished, run  # noqa: E402


class Statistics(unittest.TestCase):
    def test_quantiles_of_small_samples_are_right(self):
        self.assertEqual(stats.median([3, 1, 2]), 2)
        self.assertEqual(stats.median([1, 2, 3, 4]), 2.5)
        self.assertEqual(stats.quantile(range(101), 0.99), 99)
        self.assertEqual(stats.quantile([7], 0.99), 7)
        with self.assertRaises(ValueError):
            stats.median([])

    def test_the_ratio_is_right_despite_drift(self):
        # The machine slows down during the measurement, which the pairs cancel out.
        chance = random.Random(3)
        pairs = []
        for i in range(30):
            drift = 1 + i / 60
            pairs.append((100 * drift * chance.uniform(0.999, 1.001), 101 * drift * chance.uniform(0.999, 1.001)))
        mean, low, high = stats.ratio(pairs)
        self.assertAlmostEqual(mean, 1.01, delta=0.0005)
        self.assertLess(low, 1.01)
        self.assertGreater(high, 1.01)
        self.assertLess(high - low, 0.001)

    def test_few_rounds_give_no_interval(self):
        self.assertEqual(stats.ratio([(1, 2), (1, 2)]), (2.0, None, None))
        self.assertIsNone(stats.ratio([]))

    def test_a_ratio_is_compared_with_the_goal(self):
        self.assertTrue(stats.judge((1.001, 1.0, 1.002), 1.003))
        self.assertFalse(stats.judge((1.01, 1.005, 1.02), 1.003))
        self.assertIsNone(stats.judge((1.003, 1.001, 1.005), 1.003))
        self.assertIsNone(stats.judge((1.0, None, None), 1.003))
        self.assertIsNone(stats.judge(None, 1.003))


class Rounds(unittest.TestCase):
    def job(self, done, auto, events):
        """Returns a job with rounds in which runs without the recorder take 1000 us, and the others take the given times."""
        job = latency_parts.Job("job", None, (latency_parts.BARE, latency_parts.AGAIN, "done", "events/61", "auto"))
        job.operations = {"tp": 10, "dp": 10}
        for connections in (None, 1):
            for phase in ("tp", "dp"):
                for number in range(5):
                    wobble = 1 + (number - 2) * 1e-4
                    for mode, took in ((latency_parts.BARE, 1000), (latency_parts.AGAIN, 1000), ("done", done), ("events/61", events), ("auto", auto)):
                        job.runs.setdefault((connections, mode, phase), {})[number] = (took * wobble, took * wobble * 2)
        return job

    def part_for(self, job, standin=None):
        part = results.Part("latency")
        session = types.SimpleNamespace(setup=types.SimpleNamespace(standin=standin))
        latency_parts.tables(job, part)
        latency_parts.goals(session, job, part)
        latency_parts.automatic(session, [job], part)
        return part

    def test_markers_without_cost_are_chosen_for_auto(self):
        part = self.part_for(self.job(1001, 1001, 1050))
        self.assertEqual([line["status"] for line in part.lines[:4]], ["PASS"] * 4)
        auto = part.lines[4:]
        self.assertTrue(auto[0]["status"] == "PASS" and auto[0]["text"].startswith("done"))
        # With one connection, even cheap writes delay other streams.
        self.assertTrue(auto[1]["status"] == "PASS" and auto[1]["text"].startswith("off"))

    def test_events_without_cost_are_preferred(self):
        # events/61 would be a better choice than what auto chooses, so the result is not PASS.
        for line in self.part_for(self.job(1001, 1001, 1001)).lines[4:]:
            self.assertTrue(line["status"] == "FAIL" and line["text"].startswith("events/61"))

    def test_expensive_markers_are_not_chosen(self):
        part = self.part_for(self.job(1050, 1050, 1050))
        self.assertEqual([line["status"] for line in part.lines[:4]], ["FAIL"] * 4)
        self.assertTrue(part.lines[4]["status"] == "FAIL" and part.lines[4]["text"].startswith("off"))
        self.assertTrue(part.lines[5]["status"] == "PASS" and part.lines[5]["text"].startswith("off"))

    def test_added_time_is_given_per_operation(self):
        table = self.part_for(self.job(1050, 1000, 1000)).tables[0]
        row = next(r for r in table["rows"] if r[:2] == ("not set", "done"))
        self.assertEqual(row[5], "+5000")  # 50 us over 10 operations, in ns
        self.assertEqual(row[4][:7], "+5.00 %")

    def test_the_stand_in_decides_nothing(self):
        self.assertEqual({line["status"] for line in self.part_for(self.job(1000, 1000, 1000), standin="x").lines}, {"NOT MEASURED"})


class Pages(unittest.TestCase):
    def test_the_results_page_escapes_its_tables(self):
        part = results.Part("driver")
        part.line(results.PASS, "a | name", "two\nlines")
        part.line(results.FAIL, "b", "why")
        part.table("Title.", ("x", "y"), [(1, "a|b")])
        found = {"standin": False, "machine": [("date", "2026-01-02 03:04 UTC"), ("GPU", "1 x H100, compute 9.0")],
                 "parts": {"driver": part.as_json()}}
        page = results.markdown(found, "tests/gpu/run.py")
        self.assertTrue(page.startswith("## On a GPU (1 x H100, 2026-01-02)\n"))
        self.assertIn("| PASS | a \\| name | two lines |", page)
        self.assertIn("| 1 | a\\|b |", page)
        self.assertEqual(results.counts(found), {"PASS": 1, "FAIL": 1, "NOT MEASURED": 0})

    def test_results_of_several_calls_are_merged(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.json")
            self.assertEqual(results.load(path)["parts"], {})
            results.save(path, {"standin": True, "machine": [], "parts": {"marks": {"lines": [], "tables": [], "seconds": 1}}})
            self.assertEqual(list(results.load(path)["parts"]), ["marks"])
            with open(path, "w", encoding="utf-8") as file:
                file.write("no json")
            self.assertEqual(results.load(path)["parts"], {})


class Programs(unittest.TestCase):
    def test_finds_samples_among_other_output(self):
        done = Finished(0, 'NCCL INFO x\n{"what": "tp", "us": [1.5]}\n{broken\nentered\n', "", False)
        self.assertEqual(done.lines(), [{"what": "tp", "us": [1.5]}])

    def test_a_program_that_exceeds_its_limit_is_killed_with_its_children(self):
        done = run(["/bin/sh", "-c", "echo begun; sleep 1000 & sleep 1000"], timeout=0.5)
        self.assertTrue(done.timed_out)
        self.assertIn("begun", done.out)
        self.assertIn("time limit", done.why())

    def test_a_missing_program_has_status_127(self):
        self.assertEqual(run(["/no/such/program"]).status, 127)

    def test_an_empty_folder_fails_the_judgment(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
                file.write('{"name": "x", "findings": [["GPU_STALL", [0]]]}')
            part = results.Part("judge")
            job_parts.judge("/bin/true", folder, part)
            self.assertEqual(part.lines[0]["status"], "FAIL")


if __name__ == "__main__":
    unittest.main()
