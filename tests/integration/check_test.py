#!/usr/bin/env python3
"""Tests `lockstep check`. A healthy job has no fault. If one rank skips a call or makes it with other arguments, the report shows the call with its source
line, even if the job survives the fault."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

from support import LOCKSTEP, TRAINSIM, FolderTest, clean_environment, wait_for

# Records calls like PyTorch with gloo, without PyTorch. The first argument says what each rank does after the first call, separated by commas.
TORCH_JOB = """import os, pickle, signal, sys, time, types

rank, ranks, entries = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), []


def dump(*options):
    status = {}
    for entry in entries:
        status[str(entry["pg_id"])] = {"last_enqueued_collective": entry["op_id"], "last_started_collective": -1,
                                       "last_completed_collective": entry["op_id"] if entry["retired"] else entry["op_id"] - 1}
    members = [r for r in range(ranks) if len(status) < 2 or sys.argv[1].split(",")[r] == does]
    return pickle.dumps({"version": "2.10", "comm_lib_version": "", "entries": entries, "pg_status": status,
                         "pg_config": {"": {"name": "", "desc": "", "ranks": str(members)}}})


def call(kind, group=("0", "default_pg")):
    for entry in entries:
        entry["retired"] = True
    number = sum(entry["process_group"] == group for entry in entries) + 1
    entries.append({"record_id": len(entries), "pg_id": int(group[0]), "process_group": group, "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number,
                    "profiling_name": "gloo:" + kind, "time_created_ns": time.time_ns(), "input_sizes": [], "input_dtypes": [], "output_sizes": [],
                    "output_dtypes": [], "state": "scheduled", "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False,
                    "timeout_ms": 1800000, "is_p2p": False, "frames": [{"filename": "job.py", "line": 7, "name": "train"}]})


torch, distributed = types.ModuleType("torch"), types.ModuleType("torch.distributed")
torch._C = types.SimpleNamespace(_distributed_c10d=types.SimpleNamespace(_dump_fr_trace=dump))
distributed.is_initialized = lambda: True
does = sys.argv[1].split(",")[rank]
if does != "setup":
    sys.modules.update({"torch": torch, "torch.distributed": distributed})
if does not in ("setup", "nothing"):
    call("all_reduce")
if does == "wait":
    call("barrier")
elif does != "setup":
    [entry.update(retired=True) for entry in entries]
if does == "killed":
    time.sleep(4)
    os.kill(os.getpid(), signal.SIGKILL)
while does == "compute":
    sum(range(1000))
while does == "calls":
    time.sleep(0.1)
    call("all_reduce", ("1", "undefined"))
time.sleep(600 if does != "ends" else 0)
"""
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

    def torch(self, what, status, seconds="8", rounds="1"):
        """Checks a job on gloo whose ranks do this, and returns the report."""
        with open(self.path("job.py"), "w", encoding="utf-8") as file:
            file.write(TORCH_JOB)
        run = self.check(["-n", str(len(what.split(","))), "--rounds", rounds, "--seconds", seconds, "--late-after", "2", "--own-libraries"],
                         [sys.executable, "job.py", what])
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return re.sub(r"\s+", " ", run.stdout)

    def test_ranks_that_move_when_the_time_is_over_are_not_at_fault(self):
        for does, did in (("calls", "made calls"), ("compute", "worked")):
            text = self.torch(f"{does},wait,{does}", 3)
            self.assertIn("could not check: the job had not finished after 8 s; its calls until then show no fault", text)
            self.assertIn("UNFINISHED_CALL: rank 1 waits for ranks 0, 2 rank 1: barrier #2 on default_pg, job.py:7 train", text)
            self.assertRegex(text, rf"NOT_FINISHED: ranks 0, 2 were elsewhere ranks 0, 2: {did}, <module> at job.py:\d+")

    def test_a_rank_that_does_not_move_is_at_fault(self):
        text = self.torch("wait,sleep,wait", 1)
        self.assertIn("; the job had not finished", text)
        self.assertRegex(text, r"RANK_NOT_ARRIVED: rank 1 .* rank 1: <module> at job.py:\d+")

    def test_a_job_that_runs_on_has_no_fault(self):
        self.assertRegex(self.torch("compute,compute", 0), "^nothing found in 2 calls of 2 ranks in 1 communicator, 1 round; the job had not finished ")

    def test_ranks_survive_that_they_are_briefly_stopped(self):
        self.assertIn(", 3 rounds; the job had not finished", self.torch("compute,compute", 0, rounds="3"))

    def test_a_job_that_stands_still_without_a_call_is_not_called_healthy(self):
        text = self.torch("sleep,sleep", 3)
        self.assertRegex(text, r"NOT_FINISHED: ranks 0, 1 had not finished ranks 0, 1: did not move, <module> at job.py:\d+")
        text = self.torch("nothing,nothing", 3)
        self.assertIn("8 s; no collective was recorded (PyTorch does not record gloo's sends and receives)", text)
        text = self.torch("setup,setup", 3)
        self.assertIn("8 s; no call was recorded: no rank called NCCL, or finished init_process_group of torch.distributed", text)

    def test_a_killed_rank_is_named(self):
        self.assertIn("rank 1 was killed by signal 9 (Killed)", self.torch("ends,killed", 3, seconds="60"))

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

    def test_a_job_with_pytorchs_dumps_counts_as_recorded(self):
        for script, said in (("exit 1", True), ("echo > $LOCKSTEP_CHECK_DUMPS/dump", False)):
            run = self.check(["--rounds", "1", "-n", "1", "--own-libraries"], ["sh", "-c", script])
            self.assertEqual("nothing was recorded" in run.stderr, said, run.stderr)

    def test_records_can_be_kept(self):
        run = self.check(["--rounds", "1", "--out", "kept", "-n", "2"], [TRAINSIM, "--tp", "2", "--steps", "2"])
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("records: " + os.path.realpath(self.path("kept/round-1")), run.stdout)
        self.assertTrue(os.path.isdir(self.path("kept/round-1/incident")))


if __name__ == "__main__":
    unittest.main()
