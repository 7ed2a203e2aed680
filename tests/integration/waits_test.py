#!/usr/bin/env python3
"""Ranks that wait for their own GPUs in calls that are no synchronisation by name: a copy to pageable memory, a launch whose queue is
full. They have not come to what others wait for, either. The rank that holds them up is named alone, whether the waits spin or sleep."""

import glob
import json
import subprocess
import time
import unittest

from support import LOCKSTEP, TRAINSIM, FolderTest, clean_environment

SHAPES = {4: ["--tp", "2", "--dp", "2"], 8: ["--tp", "2", "--pp", "2", "--dp", "2"]}
FAULT = "rank=3,step=30,kind=stall-host,comm=dp"
# The limit for a stalled host is 9 s. A machine with fewer processors than ranks takes its time.
LONGEST_S = 15


class WaitsTest(FolderTest):
    def hang(self, ranks, wait, *arguments):
        environment = clean_environment(LOCKSTEP_DIR=self.rings, STANDIN_WAIT=wait)
        out = self.path(f"incident-{ranks}-{wait}")
        began = time.monotonic()
        run = subprocess.run([LOCKSTEP, "run", "-n", str(ranks), "--kill-on-hang", "--out", out, "--", TRAINSIM, *SHAPES[ranks], "--steps",
                              "100000", "--pace-ms", "5", "--fault", FAULT, *arguments], env=environment, cwd=self.folder,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        took = time.monotonic() - began
        self.assertEqual(run.returncode, 90, run.stderr)
        with open(f"{out}/verdict.json", encoding="utf-8") as file:
            verdict = json.load(file)
        findings = [(finding["kind"], finding["culprit_ranks"]) for finding in verdict["findings"]]
        self.assertEqual(findings[0], ("HOST_STALL", [3]), run.stderr)
        hung = []
        for path in glob.glob(f"{out}/decisions.jsonl"):
            with open(path, encoding="utf-8") as file:
                hung += [line for line in map(json.loads, file) if line["decision"] == "hung"]
        self.assertEqual(len(hung), 1, hung)
        self.assertLessEqual(hung[0]["age_s"], LONGEST_S, f"{took:.1f} s in all\n{run.stderr}")

    def check(self, *arguments):
        for ranks in (4, 8):
            for wait in ("yield", "block"):
                with self.subTest(ranks=ranks, wait=wait):
                    self.hang(ranks, wait, *arguments)

    def test_a_copy_to_pageable_memory(self):
        self.check("--sync", "copy")

    def test_a_full_launch_queue(self):
        self.check("--launches", "3000")


if __name__ == "__main__":
    unittest.main()
