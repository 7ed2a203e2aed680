#!/usr/bin/env python3
"""Runs Lockstep with a real Slurm of four nodes and a collector with keys. In some tests, the prolog starts the agents and the task prolog preloads the
library. In others, the nodes have no installation, and srun starts lockstep run on each node. A rank stops, and the collector's verdict must name the rank
and its node. LOCKSTEP_HEALTHY_JOBS is the number of healthy jobs before the requeued one (1)."""

import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

import no_skip

import slurm_cluster

from at_rest import at_rest
from support import BUILD, LOCKSTEP, SOURCE, TRAINSIM, FolderTest, free_port, read_json

MISSING = slurm_cluster.missing()
FIRST_PORT = 17000
HEALTHY_JOBS = int(os.environ.get("LOCKSTEP_HEALTHY_JOBS", "1"))


def ports_taken():
    for port in range(FIRST_PORT, FIRST_PORT + 5):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                return True
    return False


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class SlurmTest(FolderTest):
    def setUp(self):
        if ports_taken():
            self.skipTest(f"ports {FIRST_PORT} to {FIRST_PORT + 4} are in use")
        super().setUp()
        os.chmod(self.folder, 0o755)
        os.chmod(self.rings, 0o755)
        self.processes = []
        self.cluster = None

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self.cluster is not None:
            for name in self.cluster.node_names():
                try:
                    with open(os.path.join(self.folder, "run", name, "agent.pid")) as file:
                        os.kill(int(file.read()), signal.SIGTERM)
                except (OSError, ValueError):
                    pass
            self.cluster.stop()

    def keys(self):
        folder = os.path.join(self.folder, "keys")
        for role in ("collector", "agent", "operator"):
            subprocess.run([LOCKSTEP, "keygen", "--role", role, folder], stdout=subprocess.DEVNULL, check=True)
        return folder

    def start(self, scripts=True, collector=()):
        """Starts a collector with these options, and Slurm. With `scripts`, Slurm uses packaging/slurm."""
        keys = self.keys()
        port = free_port()
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self.out = os.path.join(self.folder, "incidents")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("LOCKSTEP_", "SLURM_"))}
        self.environment = {**clean, "LOCKSTEP_RUNTIME_DIR": os.path.join(self.folder, "runtime"), "LOCKSTEP_KEYS": keys}
        self.log = os.path.join(self.folder, "collector.log")
        with open(self.log, "wb") as log:
            self.processes.append(subprocess.Popen(
                [LOCKSTEP, "collector", "--listen", self.endpoint, "--keys", keys, "--out", self.out, *collector], env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True))
        if not scripts:
            self.cluster = slurm_cluster.SlurmCluster(os.path.join(self.folder, "slurm"), first_port=FIRST_PORT)
            os.makedirs(self.cluster.folder, mode=0o755)
            self.cluster.start()
            return
        scripts = os.path.join(self.folder, "scripts")
        shutil.copytree(os.path.join(SOURCE, "packaging/slurm"), scripts)
        with open(os.path.join(scripts, "environment"), "w") as file:
            file.write(f"LOCKSTEP_COLLECTOR={self.endpoint}\nLOCKSTEP_KEYS={keys}\nLOCKSTEP_PROGRAM={LOCKSTEP}\n"
                       f"LOCKSTEP_LIBRARY={BUILD}/lib/liblockstep.so\nLOCKSTEP_SLURM_RUN={self.folder}/run\nLOCKSTEP_SLURM_RINGS={self.rings}\n")
        self.cluster = slurm_cluster.SlurmCluster(os.path.join(self.folder, "slurm"), first_port=FIRST_PORT, extra=(
            f"Prolog={scripts}/prolog.sh", f"Epilog={scripts}/epilog.sh", f"TaskProlog={scripts}/task-prolog.sh", "PrologFlags=Alloc"))
        os.makedirs(self.cluster.folder, mode=0o755)
        self.cluster.start()

    def srun(self, *arguments):
        script = ("export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID MASTER_ADDR=127.0.0.1 "
                  f"MASTER_PORT={free_port()} LOCKSTEP_GPU=full STANDIN_WAIT=block; exec {TRAINSIM} " + " ".join(arguments))
        environment = {**self.cluster.environment, "TMPDIR": "/tmp"}
        for name in [name for name in environment if name.startswith("LOCKSTEP_")]:
            del environment[name]
        with open(os.path.join(self.folder, "srun.log"), "wb") as log:
            process = subprocess.Popen(["srun", "-N4", "-n8", "--ntasks-per-node=2", "--job-name=pretrain", "bash", "-c", script],
                                       env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        self.processes.append(process)
        return process

    def ranks(self):
        """Returns the PIDs of this test's jobs."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = self.folder.encode() in file.read()
                if ours and os.readlink(f"/proc/{pid}/exe") == os.path.realpath(TRAINSIM):
                    found.append(int(pid))
            except OSError:
                continue
        return found

    def story(self):
        text = "".join(f"{path}\n" for path in sorted(glob.glob(f"{self.out}/**", recursive=True))) + self.cluster.logs()
        for path in [self.log, os.path.join(self.folder, "srun.log"), *sorted(glob.glob(f"{self.folder}/run/*/agent.out") + glob.glob(f"{self.folder}/run/*/spool/agent.log"))]:
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    text += f"--- {path}\n" + "".join(file.readlines()[-30:])
        return text

    def wait(self, condition, what, seconds=120):
        end = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                self.fail(f"{what} did not happen within {seconds} s:\n{self.story()}")
            time.sleep(0.2)

    def verdict(self):
        """Returns the folder and contents of the newest verdict with a finding; None if there is none."""
        for path in sorted(glob.glob(f"{self.out}/**/verdict.json", recursive=True), key=os.path.getmtime, reverse=True):
            try:
                verdict = read_json(path)
            except (OSError, ValueError):
                continue
            if verdict.get("findings"):
                return os.path.dirname(path), verdict
        return None

    def test_a_stalled_rank_on_four_nodes_is_named(self):
        self.start()
        job = self.srun("--tp", "2", "--dp", "4", "--steps", "1000000", "--fault", "rank=5,step=20,kind=stall-host,comm=dp")
        folder, verdict = self.wait(self.verdict, "a verdict")
        finding = verdict["findings"][0]
        self.assertEqual(finding["culprit_ranks"], [5], self.story())
        self.assertEqual([culprit["host"] for culprit in finding["culprits"]], ["n3"])
        self.assertEqual((verdict["verdict"], verdict["ranks_expected"], verdict["ranks_read"]), ("HUNG", 8, 8))
        self.assertIsNone(job.poll(), "observing is the default, so nothing may end the job")
        # Takes a dump from a shell that has only the keys, and compares the analyzer's verdict on the dump's files.
        dump = subprocess.run([LOCKSTEP, "dump", "--collector", self.endpoint, "--everything", "--json"], env=self.environment, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual(dump.returncode, 1, dump.stderr + self.story())
        self.assertEqual(json.loads(dump.stdout)["findings"][0]["culprit_ranks"], [5])
        self.wait(lambda: len(glob.glob(f"{folder}/n?.lsd")) == 4, "a file of every node", 60)
        analyzed = subprocess.run([LOCKSTEP, "analyze", folder, "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=60, check=False)
        self.assertEqual(json.loads(analyzed.stdout)["findings"][0]["culprit_ranks"], [5])
        top = subprocess.run([LOCKSTEP, "top", "--collector", self.endpoint], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(top.returncode, 0, top.stderr)
        self.assertIn("hung", top.stdout)
        # The epilog ends the agents when the job ends.
        job.send_signal(signal.SIGINT)
        job.send_signal(signal.SIGINT)
        self.cluster.output("scancel", "--full", "--signal=KILL", "--name=pretrain")
        self.wait(lambda: not glob.glob(f"{self.folder}/run/*/agent.pid"), "the epilogs", 60)
        self.wait(lambda: not glob.glob(f"{self.rings}/*/*/*.ring"), "the end of the job's rings", 30)


    def test_attach_runs_on_the_nodes_through_srun(self):
        """All nodes are this machine, so one node sees the whole job, which runs without the recorder."""
        self.start(scripts=False)
        self.srun("--tp", "2", "--dp", "4", "--steps", "1000000", "--fault", "rank=5,step=20,kind=stall-host,comm=dp")
        self.wait(lambda: "fault" in "".join(self.lines("srun.log")), "the fault")
        self.wait(at_rest(self.ranks()), "the waits of the other ranks", 60)
        with open(os.path.join(self.folder, "nodes"), "w") as file:
            file.write("n2\n")
        result = subprocess.run([LOCKSTEP, "attach", "--hosts", "nodes", "--launch", "srun --overlap --jobid=1 -N1 -n1 -w",
                               "--remote", LOCKSTEP, "--slurm", "1", "--out", "attached"], env=self.cluster.environment, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 1, result.stderr + self.story())
        verdict = read_json(self.folder, "attached", "verdict.json")
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[5]], result.stdout)
        self.cluster.output("scancel", "--full", "--signal=KILL", "1")

    def batch(self, name, steps, fault):
        """Starts a batch job with two ranks on each of three nodes. Only its first start has the fault."""
        script = os.path.join(self.folder, name + ".sh")
        with open(script, "w") as file:
            file.write(f"""#!/bin/bash
export MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()} LOCKSTEP_GPU=full TMPDIR=/tmp LD_LIBRARY_PATH={BUILD}/standin/lib
export WORLD_SIZE=6
fault=; [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] && fault="{fault}"
echo "$SLURM_JOB_ID ${{SLURM_RESTART_COUNT:-0}} $(date +%s.%N) $(scontrol show hostnames | tr '\\n' ' ')" >>{self.folder}/starts
srun --ntasks=$WORLD_SIZE --ntasks-per-node=2 bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID; exec "$@"' rank \\
  {TRAINSIM} --tp 2 --dp 3 --pace-ms 20 --steps {steps} $fault >{self.folder}/{name}.log 2>&1
echo "$SLURM_JOB_ID ended $?" >>{self.folder}/ends
""")
        environment = {key: value for key, value in self.cluster.environment.items() if not key.startswith(("LOCKSTEP_", "SLURM_J"))}
        done = subprocess.run(["sbatch", "--parsable", "--requeue", "--nodes=3", "--ntasks-per-node=2", "--output=/dev/null", script],
                              env=environment, cwd=self.folder, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def lines(self, *names):
        path = os.path.join(self.folder, *names)
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return file.read().splitlines()

    def test_a_hung_job_runs_again_without_the_node_and_a_healthy_one_continues(self):
        program = os.path.join(SOURCE, "packaging/notify/slurm")
        hook = f"tee -a {self.folder}/told | SLURM_CONF={self.folder}/slurm/slurm.conf {program} --do --least-confidence 0.8 --state {self.folder}/state"
        self.start(collector=("--late-after", "2", "--on-verdict", hook))
        for count in range(HEALTHY_JOBS):
            healthy = self.batch("healthy", 60, "")
            self.wait(lambda: f"{healthy} ended 0" in self.lines("ends"), "the end of the healthy job")
            self.assertEqual((self.lines("state", "actions.jsonl"), len(self.lines("starts"))), ([], count + 1), self.story())
        print(f"{HEALTHY_JOBS} healthy jobs: no action")
        with open(self.log) as log:
            self.assertNotIn("has gone silent", log.read(), "each epilog ends an agent whose ranks have just ended")
        job = self.batch("stalled", 1000000, "--fault rank=3,step=50,kind=stall-host,comm=dp")
        self.wait(lambda: self.lines("state", "actions.jsonl"), "an action")
        again = self.wait(lambda: [line.split() for line in self.lines("starts") if line.startswith(f"{job} 1 ")], "another start", 150)[0]
        self.assertEqual(again[3:], ["n1", "n3", "n4"], self.story())
        record = [json.loads(line) for line in self.lines("state", "actions.jsonl")]
        self.assertEqual([(line["job"], line["state"], line["nodes"]) for line in record], [(job, "begun", ["n2"]), (job, "done", ["n2"])])
        print(f"verdict to the job's next start: {float(again[2]) - record[0]['time']:.0f} s")
        self.assertLess(float(again[2]) - record[0]["time"], 60)
        self.cluster.output("scancel", "--full", "--signal=KILL", job)
        self.cluster.output("scancel", job)

    def test_srun_exports_the_library_to_a_job_with_an_agent(self):
        """Only Slurm's variables number the ranks. All nodes are this machine, so one agent stands for all nodes."""
        self.start(scripts=False)
        with open(os.path.join(self.folder, "agent.log"), "wb") as log:
            self.processes.append(subprocess.Popen(
                [LOCKSTEP, "agent", "--collector", self.endpoint, "--rings", self.rings, "--spool", os.path.join(self.folder, "spool")],
                env=self.environment | {"LOCKSTEP_RUNTIME_DIR": os.path.join(self.folder, "agent-runtime")}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True))
        exports = f"ALL,LD_PRELOAD={BUILD}/lib/liblockstep.so,LOCKSTEP_JOB=$SLURM_JOB_ID,LOCKSTEP_DIR={self.rings},LOCKSTEP_GPU=full"
        script = (f"srun --export={exports} --ntasks-per-node=2 {TRAINSIM} --tp 2 --dp 4 --pace-ms 50 --steps 1000000 "
                  "--fault rank=5,step=50,kind=stall-host,comm=dp")
        environment = {**self.cluster.environment, "TMPDIR": "/tmp", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                       "LD_LIBRARY_PATH": f"{BUILD}/standin/lib"}
        with open(os.path.join(self.folder, "srun.log"), "wb") as log:
            job = subprocess.Popen(["salloc", "-N4", "-n8", "bash", "-c", script], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, start_new_session=True)
        self.processes.append(job)
        folder, verdict = self.wait(self.verdict, "a verdict")
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [5], self.story())
        self.assertEqual((verdict["ranks_expected"], verdict["ranks_read"]), (8, 8))
        self.assertEqual(verdict["job"].split("/")[0], "1", folder)  # 1 is the first job of this Slurm
        self.cluster.output("scancel", "--full", "--signal=KILL", "1")

    def test_srun_starts_lockstep_run_on_each_node(self):
        self.start(scripts=False)
        # Two ranks per node, as torchrun starts them.
        worker = (f"export MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()} WORLD_SIZE=8 LD_LIBRARY_PATH={BUILD}/standin/lib; for local in 0 1; do "
                  f"RANK=$((2 * SLURM_PROCID + local)) LOCAL_RANK=$local {TRAINSIM} --tp 2 --dp 4 --pace-ms 50 --steps 1000000 "
                  "--fault rank=5,step=50,kind=stall-host,comm=dp & done; wait")
        # All nodes are this machine; LOCKSTEP_HOST distinguishes them.
        script = f"export LOCKSTEP_HOST=$SLURMD_NODENAME; exec {LOCKSTEP} run --kill-on-hang --collector {self.endpoint} -- bash -c '{worker}'"
        environment = {**self.cluster.environment, **{name: self.environment[name] for name in ("LOCKSTEP_KEYS", "LOCKSTEP_RUNTIME_DIR")},
                       "TMPDIR": "/tmp", "LOCKSTEP_DIR": self.rings}
        with open(os.path.join(self.folder, "srun.log"), "wb") as log:
            job = subprocess.Popen(["srun", "-N4", "-n4", "--ntasks-per-node=1", "bash", "-c", script], env=environment, cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(job)
        folder, verdict = self.wait(self.verdict, "a verdict")
        finding = verdict["findings"][0]
        self.assertEqual(finding["culprit_ranks"], [5], self.story())
        self.assertEqual([culprit["host"] for culprit in finding["culprits"]], ["n3"], folder)
        # When the collector declares the job hung, each lockstep run ends its own ranks and exits with the status of a hang.
        self.wait(lambda: job.poll() is not None, "the end of the job", 90)
        self.assertEqual(job.returncode, 90, self.story())
        self.assertEqual(len(glob.glob(f"{self.out}/lockstep-incident-*")), 1, self.story())


if __name__ == "__main__":
    no_skip.main()
