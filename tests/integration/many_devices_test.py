#!/usr/bin/env python3
"""Tests one process that drives several devices, alone and under `lockstep run`. Verdicts name the rank in the communicator and its GPU."""

import json
import os
import subprocess
import sys
import time
import unittest

from support import BUILD, LOCKSTEP, STANDIN, FolderTest, clean_environment, read_json


def host(mode):
    return [os.path.join(BUILD, "tests/recorder_lives_host"), mode, os.path.join(STANDIN, "libnccl.so.2"),
            os.path.join(STANDIN, "libcudart.so.13")]


class ManyDevicesTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.environment = clean_environment()
        self.environment["LOCKSTEP_DIR"] = os.path.join(self.folder, "rings")
        os.mkdir(self.environment["LOCKSTEP_DIR"])

    def check(self, verdict, devices):
        self.assertEqual(verdict["ranks_read"], devices)
        finding = verdict["findings"][0]
        # No thread issued the operation for this rank.
        self.assertIn(finding["kind"], ("RANK_NOT_ARRIVED", "HOST_STALL"), verdict)
        self.assertEqual(finding["culprit_ranks"], [devices - 1])
        self.assertEqual(finding["culprits"][0]["gpu"], devices - 1)
        self.assertEqual(finding["sequence"], 6)
        self.assertEqual(finding["victim_count"], devices - 1)
        self.assertEqual(len(verdict["findings"]), 1)

    def stalled(self, mode):
        """Returns the analyzer's verdict on the program's ring as soon as it has a finding."""
        environment = dict(self.environment, LD_PRELOAD=os.path.join(BUILD, "lib/liblockstep.so"))
        environment["LOCKSTEP_DIR"] = os.path.join(self.folder, mode)
        process = subprocess.Popen(host(mode), env=environment, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(process.stdout.readline(), "stalled\n")
            until = time.monotonic() + 60
            while True:
                result = subprocess.run([LOCKSTEP, "analyze", environment["LOCKSTEP_DIR"], "--format", "json"],
                                        capture_output=True, text=True, timeout=60)
                verdict = json.loads(result.stdout)
                if verdict.get("findings") or time.monotonic() > until:
                    break
                time.sleep(1)
        finally:
            process.kill()
            process.communicate()
        self.assertEqual(result.returncode, 1, result.stderr)
        return verdict

    def test_a_ring_of_several_ranks_is_read_as_several_ranks(self):
        for devices in (2, 8):
            self.check(self.stalled(f"stall{devices}"), devices)

    def test_a_missing_signal_blames_its_sender(self):
        verdict = self.stalled("signal-lost")
        self.assertEqual(verdict["findings"][0]["kind"], "P2P_UNMATCHED", verdict)
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [0])
        self.assertEqual(verdict["findings"][0]["operation"], "WaitSignal")
        self.assertIn("sent 3 of the 4 signals", verdict["findings"][0]["summary"])
        self.assertEqual(len(verdict["findings"]), 1)

    def test_lockstep_run_ends_the_job_and_names_the_rank(self):
        # CUDA's waits spin, unless the program selects another mode.
        for wait in ("spin", "block"):
            with self.subTest(wait=wait):
                self.environment["STANDIN_WAIT"] = wait
                self.ended_by_lockstep_run(os.path.join(self.folder, wait))

    def ended_by_lockstep_run(self, out):
        result = subprocess.run([LOCKSTEP, "run", "-n", "1", "--out", out, "--kill-on-hang", "--", *host("stall8")],
                                env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=180)
        self.assertEqual(result.returncode, 90, result.stderr)
        self.check(read_json(out, "verdict.json"), 8)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
