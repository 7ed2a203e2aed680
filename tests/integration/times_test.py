#!/usr/bin/env python3
"""Follows times from GPU events, or from markers that are read every 10 ms, to the verdict. The GPU of one rank of the job is slower."""

import csv
import io
import json
import os
import shutil
import subprocess
import unittest

from cluster import Cluster
from support import LOCKSTEP, TRAINSIM, FolderTest, clean_environment, wait_for

RANKS = 4
JOB = [TRAINSIM, "--tp", "1", "--dp", str(RANKS), "--layers", "1", "--micro-batches", "1"]


class TimesTest(FolderTest):
    def times(self, path, folder):
        """Returns the number of completed GPU operations in a dump, and the rows of those that have an end time."""
        written = subprocess.run([LOCKSTEP, "export", path, "--csv", "-"], cwd=folder, capture_output=True, text=True, timeout=120)
        self.assertEqual(written.returncode, 0, written.stderr)
        done = [row for row in csv.DictReader(io.StringIO(written.stdout)) if row["state"] == "completed" and row["stream"] != ""]
        return len(done), [row for row in done if row["completed_ns"] != ""]

    def run_job(self, *arguments, gpu="events", **more):
        environment = clean_environment()
        environment.update(LOCKSTEP_DIR=self.rings, **more)
        command = [LOCKSTEP, "run", "-n", str(RANKS), "--gpu", gpu, "--out", "out", "--", *JOB, *arguments]
        result = subprocess.run(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        # Analyzes the incident folder again.
        analyzed = subprocess.run([LOCKSTEP, "analyze", "out", "--format", "json"], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=120)
        return json.loads(analyzed.stdout)

    def test_the_straggler_of_a_recorded_job_is_named(self):
        for sample in ("1", "3"):
            with self.subTest(sample=sample):
                shutil.rmtree(os.path.join(self.folder, "out"), ignore_errors=True)
                reply = self.run_job("--steps", "40", "--straggle", "rank=2,ms=60", LOCKSTEP_GPU_SAMPLE=sample)
                stragglers = [finding for finding in reply["findings"] if finding["kind"] == "STRAGGLER"]
                self.assertEqual([finding["culprit_ranks"] for finding in stragglers], [[2]], json.dumps(reply, indent=1)[:4000])
                self.assertEqual(reply["verdict"], "SLOW")

    def test_polled_markers_give_times(self):
        for gpu in ("full", "done"):
            with self.subTest(gpu=gpu):
                shutil.rmtree(os.path.join(self.folder, "out"), ignore_errors=True)
                reply = self.run_job("--steps", "40", "--straggle", "rank=2,ms=60", gpu=gpu)
                done, timed = self.times("out", self.folder)
                self.assertGreater(len(timed), done / 2, f"{len(timed)} of {done}")
                for row in timed:
                    self.assertGreaterEqual(int(row["completed_ns"]), int(row["enter_ns"]))
                    if row["started_ns"] != "":
                        self.assertLessEqual(int(row["started_ns"]), int(row["completed_ns"]))
                # The operation that ran when the markers were first read has only an end time.
                begun = len([row for row in timed if row["started_ns"] != ""])
                self.assertTrue(begun == 0 if gpu == "done" else begun > len(timed) * 0.8, f"{begun} of {len(timed)}")
                if gpu == "done":
                    continue  # end times alone do not show which rank was late
                stragglers = [finding for finding in reply["findings"] if finding["kind"] == "STRAGGLER"]
                self.assertEqual([finding["culprit_ranks"] for finding in stragglers], [[2]], json.dumps(reply, indent=1)[:4000])

    def test_the_dumps_of_agents_have_times(self):
        made = Cluster()
        self.addCleanup(made.close)
        made.start_all("--tp", "2", "--pp", "1", "--dp", "2", "--steps", "1000000")
        self.assertTrue(wait_for(lambda: "train" in made.log("collector"), 120), made.logs())

        def dumped():
            # At the first dump, ranks may be missing, or their markers may not have been read.
            before = set(made.whole())
            result = subprocess.run([LOCKSTEP, "dump", "train", "--everything", "--json"], env=made.environment(), capture_output=True,
                                    text=True, timeout=120)
            new = wait_for(lambda: set(made.whole()) - before, 30)
            dumps = [os.path.join(folder, f"node{host}.lsd") for folder in new for host in range(2)]
            if result.returncode not in (0, 1) or len(dumps) != 2 or not all(os.path.exists(path) for path in dumps):
                return None
            found = [self.times(path, made.folder) for path in dumps]
            return found if all(len(timed) > done / 2 and done > 100 for done, timed in found) else None

        found = wait_for(dumped, 120)
        self.assertTrue(found, made.logs())
        for _, timed in found:
            self.assertEqual({row["rank"] for row in timed if row["started_ns"]}, {row["rank"] for row in timed})
            for row in timed:
                self.assertGreaterEqual(int(row["completed_ns"]), max(int(row["enter_ns"]), int(row["started_ns"] or 0)))

    def test_a_healthy_job_with_equal_ranks_has_no_straggler(self):
        reply = self.run_job("--steps", "40", "--jitter", "2")
        self.assertEqual([finding for finding in reply["findings"] if finding["kind"] == "STRAGGLER"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
