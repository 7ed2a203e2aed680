#!/usr/bin/env python3
"""From events on the streams to the verdict: a recorded job whose operations are timed, and in which one rank's GPU is slower."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.path.abspath(os.environ.get("LOCKSTEP_BUILD", "build"))
LOCKSTEP = os.path.join(BUILD, "bin/lockstep")
TRAINSIM = os.path.join(BUILD, "bin/trainsim")
RANKS = 4
JOB = [TRAINSIM, "--tp", "1", "--dp", str(RANKS), "--layers", "1", "--micro-batches", "1"]


class TimesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-times-test-")
        self.rings = tempfile.mkdtemp(prefix="lockstep-times-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.rings, ignore_errors=True)

    def run_job(self, *arguments, **more):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LOCKSTEP_")}
        environment.update(LOCKSTEP_DIR=self.rings, **more)
        command = [LOCKSTEP, "run", "-n", str(RANKS), "--gpu", "events", "--out", "out", "--", *JOB, *arguments]
        result = subprocess.run(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        # What was written can be read again by itself.
        analyzed = subprocess.run([LOCKSTEP, "analyze", "out", "--format", "json"], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=120)
        return json.loads(analyzed.stdout)

    def test_the_straggler_of_a_recorded_job_is_named(self):
        for sample in ("1", "3"):
            with self.subTest(sample=sample):
                shutil.rmtree(os.path.join(self.folder, "out"), ignore_errors=True)
                told = self.run_job("--steps", "40", "--straggle", "rank=2,ms=60", LOCKSTEP_GPU_SAMPLE=sample)
                stragglers = [finding for finding in told["findings"] if finding["kind"] == "STRAGGLER"]
                self.assertEqual([finding["culprit_ranks"] for finding in stragglers], [[2]], json.dumps(told, indent=1)[:4000])
                self.assertEqual(told["verdict"], "SLOW")

    def test_a_healthy_job_of_equal_ranks_has_no_straggler(self):
        told = self.run_job("--steps", "40", "--jitter", "2")
        self.assertEqual([finding for finding in told["findings"] if finding["kind"] == "STRAGGLER"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
