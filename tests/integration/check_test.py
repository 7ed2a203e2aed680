#!/usr/bin/env python3
"""Tests `lockstep check`. A healthy job has no fault. If one rank skips a call or makes it with other arguments, the report shows the call with its source
line, even if the job survives the fault."""

import json
import os
import signal
import subprocess
import time
import unittest

from support import LOCKSTEP, TRAINSIM, FolderTest, clean_environment, wait_for

JOB = [TRAINSIM, "--tp", "2", "--pp", "2", "--dp", "2", "--steps", "4"]


class CheckTest(FolderTest):
    def check(self, options, command):
        return subprocess.run([LOCKSTEP, "check", *options, "--", *command], cwd=self.folder, capture_output=True, text=True, timeout=120, check=False,
                              env=clean_environment(TMPDIR=self.folder, LOCKSTEP_DIR=self.rings))

    def faulty(self, *faults, options=()):
        words = [word for fault in faults for word in ("--fault", fault)]
        run = self.check(["-n", "8", "--rounds", "1", "--late-after", "1", *options], JOB + words)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        return run.stdout

    def assert_site(self, text):
        self.assertRegex(text, r"trainer\w*\.cpp:\d+")

    def test_nothing_is_found_in_a_healthy_job(self):
        run = self.check(["-n", "8"], JOB)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"^nothing found in [\d,]+ calls of 8 ranks in \d+ communicators, 2 rounds\n$")
        self.assertEqual(os.listdir(self.folder), [], "check must remove its files")

    def test_a_wrong_count_is_found_and_printed_as_json(self):
        found = json.loads(self.faulty("rank=3,step=3,kind=wrong-count,comm=tp", options=["--format", "json"]))
        self.assertEqual((found["result"], found["ranks"], found["rounds"], found["could_not"]), ("found", 8, 1, ""))
        fault = found["faults"][0]
        self.assertEqual((fault["kind"], fault["ranks"]), ("MISMATCH_COUNT", [3]))
        self.assert_site(" ".join(call["site"] for call in fault["calls"]))

    def test_a_skipped_call_is_found(self):
        text = self.faulty("rank=3,step=3,kind=skip,comm=tp")
        self.assertIn("RANK_NOT_ARRIVED: rank 3", text)
        self.assert_site(text)

    def test_swapped_calls_are_found(self):
        text = self.faulty("rank=3,step=3,kind=swap-order")
        self.assertIn("ORDER_INVERSION: rank 3", text)
        self.assert_site(text)

    def test_sends_that_need_buffers_are_found(self):
        text = self.faulty("rank=0,step=3,kind=no-group,comm=pp", "rank=4,step=3,kind=no-group,comm=pp")
        self.assertIn("POSSIBLE_CYCLE: ranks 0, 4", text)
        self.assert_site(text)

    def test_the_reason_is_given_if_nothing_can_be_checked(self):
        run = self.check(["--rounds", "1"], ["no-such-command"])
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertIn("could not check: 'no-such-command' could not be started", run.stdout)
        run = self.check(["--rounds", "1", "--own-libraries"], ["true"])
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertIn("could not check: no call was recorded", run.stdout)
        self.assertIn("libraries: this machine's NCCL and CUDA", run.stdout)

    def test_wrong_arguments_are_refused(self):
        os.makedirs(self.path("used/older"))
        for options, command in ((["--rounds", "0"], ["true"]), (["-n", "x"], ["true"]), ([], []), (["--out", "used"], ["true"])):
            run = self.check(options, command)
            self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
        self.assertIn("--out: used is not empty", run.stderr)

    def test_64_ranks(self):
        run = self.check(["-n", "64"], [TRAINSIM, "--tp", "4", "--pp", "4", "--dp", "4", "--steps", "10"])
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_a_killed_check_leaves_no_rank(self):
        """Kills the check while a rank is briefly stopped, which happens from the second round on."""
        job = [TRAINSIM, "--dp", "4", "--steps", "1000000", "--pace-ms", "10"]
        check = subprocess.Popen([LOCKSTEP, "check", "-n", "4", "--seconds", "3", "--rounds", "9", "--", *job], cwd=self.folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment(TMPDIR=self.folder, LOCKSTEP_DIR=self.rings))
        self.addCleanup(check.kill)
        self.assertTrue(wait_for(lambda: "T" in self.ranks().values(), 60))
        check.kill()
        check.wait()
        self.assertTrue(wait_for(lambda: not self.ranks(), 30), self.ranks())

    def test_an_interrupted_check_ends_its_job_at_once(self):
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            check = subprocess.Popen([LOCKSTEP, "check", "--rounds", "1", "--", "sleep", "600"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env=clean_environment(TMPDIR=self.folder, LOCKSTEP_DIR=self.rings))
            self.addCleanup(check.kill)
            self.assertTrue(wait_for(self.ranks, 60))
            check.send_signal(signal_number)
            check.wait(15)
            self.assertTrue(wait_for(lambda: not self.ranks(), 5), self.ranks())

    def ranks(self):
        """Returns {PID: state} of the job's processes."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as environment, open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                    if f"LOCKSTEP_CHECK_DUMPS={self.folder}" in environment.read():
                        found[pid] = stat.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue  # the process exited
        return found

    def test_records_can_be_kept(self):
        run = self.check(["--rounds", "1", "--out", "kept", "-n", "2"], [TRAINSIM, "--tp", "2", "--steps", "2"])
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("records: " + os.path.realpath(self.path("kept/round-1")), run.stdout)
        self.assertTrue(os.path.isdir(self.path("kept/round-1/incident")))


if __name__ == "__main__":
    unittest.main()
