#!/usr/bin/env python3
"""Tests HangBench: cases are reproducible, Lockstep reads each form, and scores follow the rules of scoring.py.

    hangbench_test.py BUILD"""

import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults  # noqa: E402
import forms  # noqa: E402
import hangbench  # noqa: E402
import jobs  # noqa: E402
import readers  # noqa: E402
import reports  # noqa: E402
import scoring  # noqa: E402
import simulate  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))


def job_of(family, fault, seeds=range(200)):
    """Returns (seed, truth, simulation) of the first job of the family that hangs because of the fault, or does not hang for "none"; None if no seed gives
    one."""
    for seed in seeds:
        job = jobs.make(family, seed)
        truth = faults.break_job(job, fault, seed)
        if truth is None:
            continue
        simulation = simulate.Simulation(job, seed)
        if (fault != "none") != all(ended == "done" for ended in simulation.ended):
            return seed, truth, simulation
    return None


class Cases(unittest.TestCase):
    def test_a_healthy_job_ends_and_a_faulty_job_hangs(self):
        for family in jobs.FAMILIES:
            seed, truth, simulation = job_of(family, "none")
            self.assertEqual(truth["culprits"], [])
            for records in simulation.records:
                self.assertTrue(all(record.completed is not None for record in records), (family, seed))
            _, truth, simulation = job_of(family, "stopped")
            self.assertEqual(simulation.ended[truth["culprits"][0]], "stall")
            self.assertTrue(any(record.completed is None for records in simulation.records for record in records))

    def test_each_fault_occurs(self):
        for fault in faults.FAULTS:
            self.assertTrue(any(job_of(family, fault) for family in jobs.FAMILIES), fault)

    def test_a_seed_repeats_the_files_and_a_secret_changes_them(self):
        def made(*arguments):
            with tempfile.TemporaryDirectory() as folder:
                hangbench.make(hangbench.parse(["make", folder, "--count", "6", *arguments]))
                return {str(path.relative_to(folder)): path.read_bytes() for path in pathlib.Path(folder).rglob("*") if path.is_file()}
        first = made("--seed", "5")
        self.assertEqual(first, made("--seed", "5"))
        self.assertNotEqual(first.keys(), made("--seed", "6").keys())
        self.assertEqual(made("--secret", "a"), made("--secret", "a"))
        self.assertNotEqual(made("--secret", "a").keys(), made("--secret", "b").keys())

    def test_a_seal_hides_the_secret_and_fits_no_other(self):
        self.assertEqual(len(hangbench.seal("a")), 64)
        self.assertNotEqual(hangbench.seal("a"), hangbench.seal("b"))


class Reading(unittest.TestCase):
    def test_lockstep_names_a_stopped_rank_in_every_form(self):
        reader = readers.Lockstep(BUILD)
        seed, truth, simulation = job_of("data parallel", "stopped")
        for form, write in forms.WRITERS.items():
            with tempfile.TemporaryDirectory() as folder, self.subTest(form=form, seed=seed):
                write(simulation, folder)
                answer = reader.read(folder, form)
                self.assertEqual(answer.error, "")
                self.assertEqual(list(answer.ranks), truth["culprits"])

    def test_no_form_of_a_healthy_job_blames_a_rank(self):
        reader = readers.Lockstep(BUILD)
        for family in jobs.FAMILIES:
            _, _, simulation = job_of(family, "none")
            for form, write in forms.WRITERS.items():
                if form == "watchdog log":
                    continue  # a watchdog log has no line of this rank
                with tempfile.TemporaryDirectory() as folder, self.subTest(form=form, family=family):
                    write(simulation, folder)
                    self.assertEqual(list(reader.read(folder, form).ranks), [])

    def test_the_ras_rule_names_the_rank_that_launched_least(self):
        _, truth, simulation = job_of("data parallel", "stopped")
        with tempfile.TemporaryDirectory() as folder:
            forms.write_ras(simulation, folder)
            self.assertEqual(list(readers.RasRule().read(folder, "ras").ranks), truth["culprits"])


class Reports(unittest.TestCase):
    def test_each_names_its_thread_and_repeats_its_files(self):
        for name in reports.REPORTS:
            with self.subTest(report=name):
                truth, files = reports.make(name, 3)
                self.assertEqual((truth, files), reports.make(name, 3))
                self.assertNotEqual(files, reports.make(name, 4)[1] if truth["culprits"] else None)
                self.assertTrue(truth["provenance"].startswith("https://"))
                self.assertEqual(truth["licence"], hangbench.LICENCE)
                self.assertLessEqual(set(truth["culprits"]), set(range(truth["ranks"])))

    def test_lockstep_answers_each_well(self):
        reader = readers.Lockstep(BUILD)
        for name in reports.REPORTS:
            with tempfile.TemporaryDirectory() as folder, self.subTest(report=name):
                truth, files = reports.make(name, 3)
                reports.write(files, folder)
                answer = reader.read(folder, truth["form"])
                self.assertIn(scoring.grade(truth, answer), scoring.GOOD, answer)


class Scores(unittest.TestCase):
    def grade(self, culprits, named, sure=None, error="", **facts):
        truth = dict({"culprits": culprits, "accept": [], "identifiable": True, "ranks": 16}, **facts)
        return scoring.grade(truth, readers.Answer(tuple(named), sure, "", error=error))

    def test_answers_get_their_grades(self):
        self.assertEqual(self.grade([3], [3]), "right")
        self.assertEqual(self.grade([3], [2, 3], accept=[[2, 3]]), "right")
        self.assertEqual(self.grade([3], [1, 2, 3]), "set")
        self.assertEqual(self.grade([3], [1, 2, 3], sure=0.95), "wrong")
        self.assertEqual(self.grade([3], range(8)), "wide")
        self.assertEqual(self.grade([3], [2]), "wrong")
        self.assertEqual(self.grade([3, 4], [3]), "part")
        self.assertEqual(self.grade([3, 4], [3, 5]), "wrong")
        self.assertEqual(self.grade([3], []), "silent")
        self.assertEqual(self.grade([3], [], identifiable=False), "open")
        self.assertEqual(self.grade([3], [2], sure=0.5, identifiable=False), "open")
        self.assertEqual(self.grade([3], [2], sure=0.8, identifiable=False), "wrong")
        self.assertEqual(self.grade([3], [2], identifiable=False), "wrong")
        self.assertEqual(self.grade([], []), "right")
        self.assertEqual(self.grade([], [2]), "false alarm")
        self.assertEqual(self.grade([3], [], error="KeyError"), "no answer")

    def test_bands_count_only_findings_with_a_confidence(self):
        self.assertEqual(scoring.bands([("right", 0.95), ("wrong", 0.91), ("right", None), ("silent", 0.95)]), [(0.9, 1.0, 2, 50.0)])


if __name__ == "__main__":
    unittest.main()
