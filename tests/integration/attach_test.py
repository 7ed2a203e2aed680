#!/usr/bin/env python3
"""lockstep attach on jobs that were started without Lockstep: the right rank or none, and what becomes of the folder."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

from support import LOCKSTEP, STANDIN, TRAINSIM, FolderTest, clean_environment, free_port, wait_for

FOUR = ["--tp", "2", "--dp", "2"]
# Name, ranks, arguments, the fault, who is to be named.
FAULTS = [
    ("sleep", 4, FOUR, "rank=1,step=20,kind=stall-host", 1),
    ("pipeline", 8, ["--tp", "2", "--pp", "2", "--dp", "2"], "rank=5,step=20,kind=stall-host,comm=pp", 5),
    ("loader", 4, FOUR, "rank=3,step=20,kind=stall-loader", 3),
    ("start", 4, FOUR, "rank=2,step=1,kind=never-init,comm=world", 2),
    ("compute", 4, FOUR, "rank=1,step=20,kind=spin-host", 1),
    ("stop", 4, FOUR, "rank=3,step=20,kind=stop", 3),
    ("kill", 4, FOUR, "rank=2,step=20,kind=kill", 2),
    ("exit", 4, FOUR, "rank=0,step=20,kind=exit-early", 0),
]
# Nothing tells ranks apart: all wait for their GPUs.
OPEN = [("gpu", 4, FOUR, "rank=1,step=20,kind=stall-gpu"), ("skip", 4, FOUR, "rank=1,step=20,kind=skip,comm=tp"), ("healthy", 4, FOUR, None)]

# Two ranks and more; one waits for a lock that another of its threads holds.
LOCKED = '''
import ctypes, os, sys, threading, time
nccl = ctypes.CDLL(sys.argv[1])
rank, lock = int(os.environ["RANK"]), threading.Lock()

def hold():
    with lock:
        time.sleep(1000)

def log_metrics():
    with lock:
        pass

def block_until_ready():
    time.sleep(1000)

if rank == 2:
    threading.Thread(target=hold, daemon=True).start()
    while not lock.locked():
        time.sleep(0.01)
print("ready", flush=True)
log_metrics() if rank == 2 else block_until_ready()
'''


# All wait in the same place; rank 0 listens as NCCL's RAS does, and says that rank 3 launched fewer operations.
COUNTED = '''
import os, socket, time
REPORT = """
    0         1         1         4         4         4   RUNNING  MISMATCH
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 64
  Rank 3 has launched up to operation 60 -- GPU 3 managed by process 165 on node node1
"""

def block_until_ready():
    if os.environ["RANK"] != "0":
        print("ready", flush=True)
        time.sleep(1000)
    with socket.create_server(("127.0.0.1", int(os.environ["NCCL_RAS_ADDR"].split(":")[1]))) as server:
        print("ready", flush=True)
        while True:
            client = server.accept()[0]
            client.recv(100)
            client.sendall(REPORT.encode())
            client.close()

block_until_ready()
'''


class AttachTest(FolderTest):
    def start(self, ranks, command, **more):
        port = free_port()
        processes = []
        for rank in range(ranks):
            environment = clean_environment(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                                            MASTER_PORT=str(port), STANDIN_WAIT="block", LD_LIBRARY_PATH=STANDIN, **more)
            with open(self.path(f"{port}.{rank}.log"), "wb") as log:
                processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        self.addCleanup(self.stop, processes)
        return f"port-{port}", processes

    @staticmethod
    def stop(processes):
        for process in processes:
            if process.poll() is None:
                process.kill()
        for process in processes:
            process.wait()

    def said(self, job, what, ranks=1):
        """So many ranks of the job printed it."""
        port = job.split("-")[1]
        logs = [pathlib.Path(self.folder, name).read_text() for name in os.listdir(self.folder) if name.startswith(port + ".")]
        return sum(what in log for log in logs) >= ranks

    def attach(self, *arguments):
        began = time.monotonic()
        told = subprocess.run([LOCKSTEP, "attach", *arguments], cwd=self.folder, env=clean_environment(), capture_output=True, text=True,
                              timeout=120)
        self.took = time.monotonic() - began
        return told

    def verdict(self, job, *arguments):
        shutil.rmtree(self.path("incident"), ignore_errors=True)
        told = self.attach("--job", job, "--out", "incident", *arguments)
        self.assertEqual(told.returncode, 1, told.stderr)
        with open(self.path("incident", "verdict.json")) as file:
            return told, json.load(file)

    def train(self, ranks, arguments, fault):
        command = [TRAINSIM, "--steps", "1000000", *arguments, *(["--fault", fault] if fault else [])]
        job, processes = self.start(ranks, command)
        # The fault is told when it strikes; then the others come to wait.
        self.assertTrue(wait_for(lambda: self.said(job, "fault" if fault else "step 20/"), 60))
        time.sleep(1.5)
        return job, processes

    def test_the_right_rank_or_none(self):
        for name, ranks, arguments, fault, culprit in FAULTS:
            with self.subTest(name):
                job, processes = self.train(ranks, arguments, fault)
                told, verdict = self.verdict(job)
                self.stop(processes)
                self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[culprit]], told.stdout)
                self.assertLess(self.took, 60)

    def test_nobody_is_named_where_nothing_tells_ranks_apart(self):
        for name, ranks, arguments, fault in OPEN:
            with self.subTest(name):
                job, processes = self.train(ranks, arguments, fault)
                told, verdict = self.verdict(job)
                self.stop(processes)
                self.assertEqual(verdict["findings"], [], told.stdout)
                self.assertEqual(verdict["verdict"], "INCOMPLETE_DATA")

    def test_the_folder_is_one_like_any_other(self):
        job, processes = self.train(4, FOUR, "rank=1,step=20,kind=stall-host")
        told, verdict = self.verdict(job)
        self.assertIn("nothing recorded their NCCL calls", " ".join(told.stdout.split()))
        again = subprocess.run([LOCKSTEP, "analyze", "--format", "json", "incident"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(json.loads(again.stdout)["findings"], verdict["findings"], again.stderr)
        self.assertTrue(os.path.exists(self.path("incident", "report.html")))
        with open(self.path("incident", "logs", "output-of-rank_1.log")) as log:
            self.assertIn("fault", log.read())
        # The job is left as it was, and a second look says the same.
        self.assertEqual([process.poll() for process in processes], [None] * 4)
        other, same = self.verdict(job, "--redact", "stacks")
        self.assertEqual(same["findings"][0]["culprit_ranks"], [1], other.stdout)
        self.assertFalse(os.path.exists(self.path("incident", "logs")))

    def test_several_hosts(self):
        """Each `host` is half of the ranks; what stands for ssh looks at those alone."""
        port = free_port()
        halves = []
        for half in range(2):
            processes = []
            for local in range(4):
                environment = clean_environment(RANK=str(4 * half + local), WORLD_SIZE="8", LOCAL_RANK=str(local), LOCAL_WORLD_SIZE="4",
                                                MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), STANDIN_WAIT="block", LD_LIBRARY_PATH=STANDIN)
                with open(self.path(f"{port}.{half}{local}.log"), "wb") as log:
                    processes.append(subprocess.Popen(
                        [TRAINSIM, "--steps", "1000000", "--tp", "2", "--pp", "2", "--dp", "2", "--fault", "rank=6,step=20,kind=stall-host"],
                        env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            self.addCleanup(self.stop, processes)
            halves.append(processes)
        self.assertTrue(wait_for(lambda: self.said(f"port-{port}", "fault"), 60))
        time.sleep(1.5)
        for half, processes in enumerate(halves):
            with open(self.path(f"node{half}"), "w") as file:
                file.write(" ".join(str(process.pid) for process in processes))
        with open(self.path("over"), "w") as script:
            script.write('#!/bin/sh\nhost=$1; shift\n[ -f "$host" ] || { echo "no route to $host" >&2; exit 255; }\n'
                         f'shift; LOCKSTEP_HOST=$host exec {LOCKSTEP} "$@" $(cat "$host")\n')
        os.chmod(self.path("over"), 0o700)
        with open(self.path("hosts"), "w") as file:
            file.write("node0\n# the other half\nnode1\n")
        told = self.attach("--hosts", "hosts", "--launch", self.path("over"), "--out", "all")
        self.assertEqual(told.returncode, 1, told.stderr)
        with open(self.path("all", "verdict.json")) as file:
            verdict = json.load(file)
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[6]], told.stdout)
        self.assertEqual(verdict["findings"][0]["culprits"][0]["host"], "node1")
        self.assertEqual(sorted(name for name in os.listdir(self.path("all")) if name.endswith(".lsd")), ["node0.lsd", "node1.lsd"])
        # One that does not answer is said.
        with open(self.path("hosts"), "w") as file:
            file.write("node1\nnode7\n")
        told = self.attach("--hosts", "hosts", "--launch", self.path("over"), "--out", "part")
        self.assertIn("no route to node7", " ".join(told.stdout.split()))
        with open(self.path("hosts"), "w") as file:
            file.write("-oProxyCommand=x\n")
        told = self.attach("--hosts", "hosts")
        self.assertEqual(told.returncode, 2)
        self.assertIn("is no name of a host", told.stderr)

    def test_a_python_rank_that_waits_for_a_lock(self):
        job, _ = self.start(4, [sys.executable, "-c", LOCKED, os.path.join(STANDIN, "libnccl.so.2")])
        self.assertTrue(wait_for(lambda: self.said(job, "ready", 4), 60))
        told, verdict = self.verdict(job)
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], told.stdout)
        self.assertIn("log_metrics (<string>:", " ".join(told.stdout.split()))

    def test_nccls_own_counts(self):
        job, _ = self.start(4, [sys.executable, "-c", COUNTED], NCCL_RAS_ADDR=f"localhost:{free_port()}")
        self.assertTrue(wait_for(lambda: self.said(job, "ready", 4), 60))
        told, verdict = self.verdict(job)
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[3]], told.stdout)
        self.assertTrue(os.path.exists(self.path("incident", "logs", "ncclras.txt")))

    def test_several_jobs_and_none(self):
        first, processes = self.start(2, ["sleep", "1000"])
        second, others = self.start(2, ["sleep", "1000"])
        told = self.attach()
        self.assertEqual(told.returncode, 2, told.stdout)
        for job in (first, second):
            self.assertIn(f"  {job}: 2 processes, rank 0, 1 of 2 (sleep, PID ", told.stderr)
        told = self.attach("--out", "chosen", *(str(process.pid) for process in others))
        self.assertEqual(told.returncode, 1, told.stderr)
        self.assertIn(second, told.stderr)
        self.stop(processes + others)
        told = self.attach("--slurm", "4711")
        self.assertEqual(told.returncode, 3)
        self.assertIn("no process of this host is what was asked for", told.stderr)
        told = self.attach("x")
        self.assertEqual(told.returncode, 2)
        self.assertIn("'x' is no PID", told.stderr)

    def test_a_folder_that_cannot_be_written(self):
        job, _ = self.start(2, ["sleep", "1000"])
        with open(self.path("file"), "w"):
            pass
        told = self.attach("--job", job, "--out", "file/incident")
        self.assertEqual(told.returncode, 3)
        self.assertIn("choose another with --out FOLDER", told.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_another_users_job_is_not_seen(self):
        job, _ = self.start(2, ["sleep", "1000"])
        told = subprocess.run([LOCKSTEP, "attach", "--job", job], cwd="/", capture_output=True, text=True, timeout=60,
                              preexec_fn=lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534)))
        self.assertEqual(told.returncode, 3)
        self.assertIn("run as root, or as the user of the job", told.stderr)


if __name__ == "__main__":
    unittest.main()
