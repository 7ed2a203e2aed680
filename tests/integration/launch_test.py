#!/usr/bin/env python3
"""Runs jobs as launchers start them. With Open MPI's mpirun, lockstep is in the launch line or the library is exported, and ranks come only from mpirun's
variables. torchrun with an elastic restart is simulated with the variables that it sets for workers, and real if installed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

import no_skip

from cluster import Cluster
from support import BUILD, LIBRARY, LOCKSTEP, TRAINSIM, FolderTest, free_port, read_json, wait_for

STALL = [TRAINSIM, "--tp", "2", "--dp", "2", "--steps", "100000", "--pace-ms", "20", "--fault", "rank=2,step=20,kind=stall-host,comm=dp"]

# Imitates torchrun's agent on one host. It starts the workers. When a worker fails, it ends the others and restarts all with the next restart count. The
# variables are those of torchrun (torch/distributed/elastic/agent/server/local_elastic_agent.py).
ELASTIC = """
import os, signal, subprocess, sys
workers, restarts, port, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
for restart in range(restarts + 1):
    started = []
    for rank in range(workers):
        started.append(subprocess.Popen(words, env=dict(
            os.environ, LOCAL_RANK=str(rank), RANK=str(rank), GROUP_RANK="0", ROLE_RANK=str(rank), ROLE_NAME="default",
            LOCAL_WORLD_SIZE=str(workers), WORLD_SIZE=str(workers), GROUP_WORLD_SIZE="1", ROLE_WORLD_SIZE=str(workers), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(int(port) + restart), TORCHELASTIC_RESTART_COUNT=str(restart), TORCHELASTIC_MAX_RESTARTS=str(restarts),
            TORCHELASTIC_RUN_ID="pretrain", NCCL_ASYNC_ERROR_HANDLING="1")))
    left = list(started)
    while left and all(worker.poll() in (None, 0) for worker in started):
        left = [worker for worker in left if worker.poll() is None]
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT) if left else None
    if all(worker.poll() == 0 for worker in started):
        sys.exit(0)
    for worker in started:
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
    for worker in started:
        worker.wait()
sys.exit(1)
"""
# The first generation loses rank 1; the second succeeds.
WORKER = f"""#!/bin/sh
fault=
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && fault="--fault rank=1,step=40,kind=kill,comm=dp"
exec {TRAINSIM} --tp 2 --dp 2 --steps 80 --pace-ms 50 $fault
"""


class LaunchTest(FolderTest):
    def setUp(self):
        super().setUp()
        names = ("LOCKSTEP", "SLURM", "OMPI", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        self.environment |= {"LD_LIBRARY_PATH": os.path.join(BUILD, "standin/lib"), "LOCKSTEP_DIR": self.rings, "TMPDIR": self.folder}

    def program(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def analyzed(self, *arguments):
        done = subprocess.run([LOCKSTEP, "analyze", "--format", "json", "--late-after", "0.5", *arguments], capture_output=True, text=True, timeout=120, check=False)
        return json.loads(done.stdout) if done.stdout else {}


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
class MpirunTest(LaunchTest):
    def setUp(self):
        super().setUp()
        # Test machines run as root and have few cores. mpirun must start all ranks on this host.
        self.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                             "OMPI_MCA_plm_rsh_agent": "false", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}

    def test_a_rank_below_mpirun_is_named_with_lockstep_in_the_launch_line(self):
        done = subprocess.run([LOCKSTEP, "run", "--kill-on-hang", "--late-after", "2", "--out", self.path("incident"), "--", "mpirun", "-n", "4", *STALL],
                              env=self.environment, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 90, done.stderr)
        verdict = read_json(self.path("incident", "verdict.json"))
        self.assertEqual((verdict["findings"][0]["kind"], verdict["findings"][0]["culprit_ranks"]), ("HOST_STALL", [2]), done.stderr)
        self.assertEqual((verdict["ranks_expected"], verdict["ranks_read"]), (4, 4))

    def test_a_rank_below_mpirun_is_named_with_the_library_exported(self):
        log = self.path("log")
        with open(log, "wb") as file:
            job = subprocess.Popen(["mpirun", "-n", "4", "-x", f"LD_PRELOAD={LIBRARY}", "-x", "LOCKSTEP_GPU=full", "-x", "LOCKSTEP_JOB=mpi", *STALL],
                                   env=self.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        try:
            def named():
                findings = self.analyzed(self.rings).get("findings")
                return findings if findings and findings[0]["culprit_ranks"] == [2] else None

            findings = wait_for(lambda: job.poll() is not None or named(), 120)
            with open(log) as file:
                self.assertIsNone(job.poll(), file.read())
            self.assertTrue(findings, self.analyzed(self.rings))
        finally:
            # mpirun forwards the signal to the ranks, which have their own sessions.
            job.send_signal(signal.SIGTERM)
            try:
                job.wait(60)
            except subprocess.TimeoutExpired:
                job.kill()
                job.wait()
        left = self.analyzed(self.rings)
        self.assertEqual((left["job"], left["ranks_expected"], left["ranks_read"]), ("mpi", 4, 4), left)

    def test_a_healthy_job_below_mpirun_is_healthy(self):
        done = subprocess.run([LOCKSTEP, "run", "--out", self.path("incident"), "--", "mpirun", "-n", "4", TRAINSIM, "--tp", "2", "--dp", "2", "--steps", "30"],
                              env=self.environment, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        verdict = read_json(self.path("incident", "verdict.json"))
        self.assertEqual((verdict["verdict"], verdict["ranks_read"]), ("HEALTHY", 4))


class TorchrunTest(LaunchTest):
    def launcher(self):
        return [sys.executable, self.program("elastic.py", ELASTIC), "4", "1", str(free_port()), self.program("worker", WORKER)]

    def under_a_collector(self, launcher, job):
        """Checks that the generation that lost a rank is reported, and that the next generation is a separate, healthy job."""
        made = Cluster(hosts=1, per_host=4)
        self.addCleanup(made.close)
        made.start_collector()
        made.start_agent(0)
        self.assertTrue(wait_for(lambda: "watching" in made.log("agent0"), 60), made.logs())
        environment = {**self.environment, "LD_PRELOAD": LIBRARY, "LOCKSTEP_DIR": os.path.join(made.rings, "node0"), "LOCKSTEP_HOST": "node0", "LOCKSTEP_GPU": "full"}
        done = subprocess.run(launcher, env=environment, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr + made.logs())
        folders = wait_for(made.whole, 180)
        self.assertEqual(len(made.incidents()), 1, made.logs())
        self.assertTrue(folders, made.logs())
        manifest = read_json(folders[0], "manifest.json")
        self.assertEqual((manifest["job"], manifest["restart_count"]), (job, 0))
        verdict = read_json(folders[0], "verdict.json")
        self.assertEqual((verdict["findings"][0]["kind"], verdict["findings"][0]["culprit_ranks"]), ("RANK_DEAD", [1]), made.logs())
        # The rings of both generations exist. The analyzer analyzes only the newer one.
        newest = self.analyzed(os.path.join(made.rings, "node0"))
        self.assertEqual(newest["findings"], [], newest)

    def test_a_collector_separates_the_generations_of_an_elastic_restart(self):
        self.under_a_collector(self.launcher(), "pretrain")

    def test_lockstep_run_reports_a_restarted_job_as_healthy(self):
        done = subprocess.run([LOCKSTEP, "run", "--out", self.path("incident"), "--", *self.launcher()], env=self.environment, capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, "the restart saved the job: " + done.stderr)
        verdict = read_json(self.path("incident", "verdict.json"))
        self.assertEqual((verdict["verdict"], verdict["ranks_read"]), ("HEALTHY", 4), verdict)
        self.assertTrue(any("restart 0 were omitted" in problem["text"] for problem in verdict["problems"]), verdict)

    @unittest.skipUnless(shutil.which("torchrun"), "torchrun is not installed")
    def test_a_collector_separates_the_generations_of_torchrun(self):
        # Debian's torchrun 1.13 fails with Python 3.11 before it starts a program.
        if subprocess.run(["torchrun", "--nproc_per_node", "1", "--no_python", "true"], capture_output=True, timeout=120, check=False).returncode != 0:
            self.skipTest("the installed torchrun cannot start a program")
        self.under_a_collector(["torchrun", "--nnodes", "1", "--nproc_per_node", "4", "--max_restarts", "1", "--rdzv_id", "pretrain", "--rdzv_backend", "c10d",
                                "--rdzv_endpoint", f"127.0.0.1:{free_port()}", "--no_python", self.program("worker", WORKER)], "pretrain")


class KilledTest(LaunchTest):
    def test_a_run_that_is_killed_leaves_no_agent(self):
        made = Cluster(hosts=1)
        self.addCleanup(made.close)
        made.start_collector()
        self.assertTrue(wait_for(lambda: "listens on" in made.log("collector"), 60), made.logs())
        run = subprocess.Popen([LOCKSTEP, "run", "--collector", f"tcp://127.0.0.1:{made.port}", "-n", "2", "--", TRAINSIM, "--tp", "2", "--steps", "100000000"],
                               env=self.environment | {"LOCKSTEP_RUNTIME_DIR": made.path("runtime"), "LOCKSTEP_KEYS": made.keys}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)

        def agent():
            done = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(run.pid)], stdout=subprocess.PIPE, text=True, check=False)
            return [int(line.split()[0]) for line in done.stdout.splitlines() if "lockstep-agent" in line]

        try:
            self.assertTrue(wait_for(lambda: "new job " in made.log("collector"), 120), made.logs())
            agents = agent()
            self.assertEqual(len(agents), 1)
        finally:
            run.kill()
            run.wait()
        self.assertTrue(wait_for(lambda: not os.path.exists(f"/proc/{agents[0]}"), 60), "the agent still runs")


if __name__ == "__main__":
    no_skip.main(verbosity=2)
