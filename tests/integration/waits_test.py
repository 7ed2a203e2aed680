#!/usr/bin/env python3
"""Ranks wait for their own GPUs in calls that do not synchronize explicitly: a copy to pageable memory, and a launch into a full queue. These ranks have
not reached the call in which others wait. The verdict must name only the rank that delays them, whether the waits spin or sleep."""

import glob
import json
import subprocess
import time
import unittest

from support import LOCKSTEP, TRAINSIM, FolderTest, clean_environment, read_json

SHAPES = {4: ["--tp", "2", "--dp", "2"], 8: ["--tp", "2", "--pp", "2", "--dp", "2"]}
STALLED_HOST = "rank=3,step=30,kind=stall-host,comm=dp"
STALLED_GPU = "rank=1,step=30,kind=stall-gpu,comm=tp"
# The limit for a stalled host is 9 s, but a machine with fewer cores than ranks needs longer.
LONGEST_S = 15


class WaitsTest(FolderTest):
    def hang(self, name, ranks, wait, fault, *arguments, gpu=()):
        """Returns the verdict, and the decision that the job is hung."""
        environment = clean_environment(LOCKSTEP_DIR=self.rings, STANDIN_WAIT=wait)
        out = self.path(f"incident-{name}-{ranks}-{wait}")
        began = time.monotonic()
        run = subprocess.run([LOCKSTEP, "run", "-n", str(ranks), "--kill-on-hang", *gpu, "--out", out, "--", TRAINSIM, *SHAPES[ranks], "--steps",
                              "100000", "--pace-ms", "5", "--fault", fault, *arguments], env=environment, cwd=self.folder,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        took = time.monotonic() - began
        self.assertEqual(run.returncode, 90, run.stderr)
        verdict = read_json(f"{out}/verdict.json")
        hung = []
        for path in glob.glob(f"{out}/decisions.jsonl"):
            with open(path, encoding="utf-8") as file:
                hung += [line for line in map(json.loads, file) if line["decision"] == "hung"]
        self.assertEqual(len(hung), 1, hung)
        self.assertLessEqual(hung[0]["age_s"], LONGEST_S, f"{took:.1f} s in all\n{run.stderr}")
        return verdict, hung[0]

    def check(self, *arguments):
        for ranks in (4, 8):
            for wait in ("yield", "block"):
                with self.subTest(ranks=ranks, wait=wait):
                    verdict, _ = self.hang(arguments[0], ranks, wait, STALLED_HOST, *arguments)
                    findings = [(finding["kind"], finding["culprit_ranks"]) for finding in verdict["findings"]]
                    self.assertEqual(findings[0], ("HOST_STALL", [3]))

    def test_ranks_waiting_in_a_copy_to_pageable_memory_are_not_named(self):
        self.check("--sync", "copy")

    def test_ranks_waiting_for_a_full_launch_queue_are_not_named(self):
        self.check("--launches", "3000")

    def test_a_job_that_waits_in_launches_only_is_hung(self):
        # With `off` and `profiler`, only stacks show the waits, not rings.
        for gpu in (("--gpu", "off"), ("--gpu", "done"), ("--gpu", "full"), ("--profiler",)):
            for wait in ("yield", "block"):
                with self.subTest(gpu=gpu, wait=wait):
                    _, hung = self.hang(gpu[-1].strip("-"), 4, wait, STALLED_GPU, "--launches", "3000", gpu=gpu)
                    self.assertIn(hung["rule"], ("gpu stall", "collective stuck"))


if __name__ == "__main__":
    unittest.main()
