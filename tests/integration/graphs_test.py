#!/usr/bin/env python3
"""Tests CUDA graphs from the training loop to the verdict: ranks replay a captured step, and one rank stops."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from support import LOCKSTEP, TRAINSIM, FolderTest, clean_environment, read_json

JOB = [TRAINSIM, "--tp", "2", "--dp", "2", "--layers", "1", "--micro-batches", "2"]


class GraphsTest(FolderTest):
    def run_job(self, *arguments, marks="done", kill=True):
        environment = clean_environment()
        environment.update(LOCKSTEP_DIR=self.rings, LOCKSTEP_GPU=marks)
        command = [LOCKSTEP, "run", "-n", "4", "--out", "out"] + (["--kill-on-hang"] if kill else [])
        result = subprocess.run([*command, "--", *JOB, *arguments], cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=300)
        return result, read_json(self.folder, "out/verdict.json")

    def analyze(self):
        result = subprocess.run([LOCKSTEP, "analyze", "out", "--format", "json"], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=120)
        return json.loads(result.stdout)

    def test_a_job_with_replays_is_healthy_and_computes_the_right_results(self):
        result, verdict = self.run_job("--graph", "--steps", "30", kill=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((verdict["verdict"], verdict["findings"]), ("HEALTHY", []))

    def test_a_rank_that_stops_between_replays_is_named_with_the_replay(self):
        for marks in ("done", "full"):
            with self.subTest(marks=marks):
                shutil.rmtree(os.path.join(self.folder, "out"), ignore_errors=True)
                # Step 1 runs normally; step 9 is replay 8.
                result, verdict = self.run_job("--graph", "--steps", "1000000", "--fault", "rank=2,step=9,kind=stall-host,comm=tp", marks=marks)
                self.assertEqual(result.returncode, 90, result.stderr)
                for reply in (verdict, self.analyze()):
                    finding = reply["findings"][0]
                    self.assertIn(finding["kind"], ("HOST_STALL", "RANK_NOT_ARRIVED"))
                    self.assertEqual(finding["culprit_ranks"], [2])
                    self.assertEqual((finding["graph_replay"]["graph"], finding["graph_replay"]["number"]), (1, 8))
                    self.assertGreater(finding["graph_replay"]["operation"], 0)
                    self.assertIn("replay 8 of graph 1", finding["summary"])
                    evidence = " ".join(item["text"] for item in finding["evidence"])
                    self.assertIn("last as replay 7", evidence)

    def test_other_work_before_a_replay_is_reported(self):
        result, verdict = self.run_job("--graph", "--steps", "1000000", "--fault", "rank=1,step=6,kind=stall-gpu,comm=tp", marks="full")
        self.assertEqual(result.returncode, 90, result.stderr)
        finding = verdict["findings"][0]
        self.assertEqual((finding["kind"], finding["culprit_ranks"]), ("GPU_STALL", [1]))
        self.assertEqual(finding["graph_replay"]["number"], 5)
        self.assertIn("an earlier kernel does not finish", finding["summary"])

    def test_other_work_before_a_collective_is_reported(self):
        result, verdict = self.run_job("--steps", "1000000", "--fault", "rank=3,step=6,kind=stall-gpu,comm=dp", marks="full")
        self.assertEqual(result.returncode, 90, result.stderr)
        finding = verdict["findings"][0]
        self.assertEqual((finding["kind"], finding["culprit_ranks"]), ("GPU_STALL", [3]))
        self.assertEqual(finding["graph_replay"]["number"], 0)
        self.assertIn("an earlier kernel does not finish", finding["summary"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
