#!/usr/bin/env python3
"""Runs lockstep attach on jobs that started without Lockstep. It must name the right rank or no rank, and write a normal incident folder."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

from own_group import own_group
from support import LIBRARY, LOCKSTEP, STANDIN, TRAINSIM, FolderTest, clean_environment, explore_data, free_port, read_json, wait_for

FOUR = ["--tp", "2", "--dp", "2"]
# Name, ranks, arguments, fault, culprit.
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
# In these jobs, all ranks look the same: they wait for their GPUs.
OPEN = [("gpu", 4, FOUR, "rank=1,step=20,kind=stall-gpu"), ("skip", 4, FOUR, "rank=1,step=20,kind=skip,comm=tp"), ("healthy", 4, FOUR, None)]

# A program with two or more ranks. One rank waits for a lock that another thread of the same process holds.
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


# A program whose ranks all wait in the same place. Rank 0 answers as NCCL's RAS does, and reports that rank 3 launched fewer operations.
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

# A program whose ranks all wait in the same place. A thread of each rank creates a pipe and answers as PyTorch's thread does. Rank 2 has not made the last
# call.
WATCHED = '''
import os, pickle, threading, time
RANK = int(os.environ["RANK"])
NOW = time.time_ns()

def entry(number, state, at):
    return {"record_id": number - 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number, "p2p_seq_id": 0,
            "op_id": number, "profiling_name": "nccl:all_reduce", "time_created_ns": at, "input_sizes": [[64]], "output_sizes": [[64]],
            "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": state, "retired": state == "completed",
            "time_discovered_started_ns": None, "time_discovered_completed_ns": at + 1000000 if state == "completed" else None,
            "timeout_ms": 600000, "is_p2p": False, "frames": [{"name": "forward", "filename": "train.py", "line": 12}]}

def dump():
    entries = [entry(number, "completed", NOW - (400 - number) * 1000000000) for number in range(1, 6)]
    if RANK != 2:
        entries.append(entry(6, "scheduled", NOW - 394 * 1000000000))
    ranks = str(list(range(int(os.environ["WORLD_SIZE"]))))
    status = {"last_enqueued_collective": len(entries), "last_started_collective": -1, "last_completed_collective": 5}
    return {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}, "pg_status": {"0": status},
            "entries": entries, "comm_lib_version": "2.27.3", "nccl_comm_state": {}}

def watch():
    path = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + str(RANK) + ".pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    print("ready", flush=True)
    while True:
        time.sleep(0.2)
        if os.read(pipe, 128):
            with open(os.environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] + str(RANK), "wb") as file:
                file.write(pickle.dumps(dump(), 2))

def block_until_ready():
    time.sleep(1000)

threading.Thread(target=watch, daemon=True).start()
block_until_ready()
'''


class AttachTest(FolderTest):
    def start(self, ranks, command, address="127.0.0.1", **more):
        port = free_port()
        processes = []
        for rank in range(ranks):
            environment = clean_environment(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR=address,
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

    def printed(self, job, what, ranks=1):
        """Returns whether at least `ranks` ranks of the job printed `what`."""
        port = job.split("-")[1]
        logs = [pathlib.Path(self.folder, name).read_text() for name in os.listdir(self.folder) if name.startswith(port + ".")]
        return sum(what in log for log in logs) >= ranks

    def attach(self, *arguments, **more):
        began = time.monotonic()
        result = subprocess.run([LOCKSTEP, "attach", *arguments], cwd=self.folder, env=clean_environment(**more), capture_output=True, text=True,
                              timeout=120)
        self.took = time.monotonic() - began
        return result

    def verdict(self, job, *arguments):
        shutil.rmtree(self.path("incident"), ignore_errors=True)
        result = self.attach("--job", job, "--out", "incident", *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        return result, read_json(self.path("incident", "verdict.json"))

    def train(self, ranks, arguments, fault):
        command = [TRAINSIM, "--steps", "1000000", *arguments, *(["--fault", fault] if fault else [])]
        job, processes = self.start(ranks, command)
        # The fault prints a line when it starts. Then the other ranks start to wait.
        self.assertTrue(wait_for(lambda: self.printed(job, "fault" if fault else "step 20/"), 60))
        time.sleep(1.5)
        return job, processes

    def test_it_names_the_right_rank_or_none(self):
        for name, ranks, arguments, fault, culprit in FAULTS:
            with self.subTest(name):
                job, processes = self.train(ranks, arguments, fault)
                result, verdict = self.verdict(job)
                self.stop(processes)
                self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[culprit]], result.stdout)
                self.assertLess(self.took, 60)

    def test_no_rank_is_named_if_nothing_distinguishes_them(self):
        for name, ranks, arguments, fault in OPEN:
            with self.subTest(name):
                job, processes = self.train(ranks, arguments, fault)
                result, verdict = self.verdict(job)
                self.stop(processes)
                self.assertEqual(verdict["findings"], [], result.stdout)
                self.assertEqual(verdict["verdict"], "INCOMPLETE_DATA")

    def test_the_folder_is_a_normal_incident_folder(self):
        job, processes = self.train(4, FOUR, "rank=1,step=20,kind=stall-host")
        result, verdict = self.verdict(job)
        self.assertIn("their NCCL calls were not recorded", " ".join(result.stdout.split()))
        again = subprocess.run([LOCKSTEP, "analyze", "--format", "json", "incident"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(json.loads(again.stdout)["findings"], verdict["findings"], again.stderr)
        self.assertTrue(os.path.exists(self.path("incident", "report.html")))
        self.assertIn("lockstep: incident/explore.html: open it in any browser\n", result.stderr)
        self.assertEqual(explore_data(self.path("incident"))["findings"][0]["ranks"], [1, 1])
        with open(self.path("incident", "logs", "output-of-rank_1.log")) as log:
            self.assertIn("fault", log.read())
        # The job is undisturbed, and a second run gives the same verdict.
        self.assertEqual([process.poll() for process in processes], [None] * 4)
        other, same = self.verdict(job, "--redact", "stacks")
        self.assertEqual(same["findings"][0]["culprit_ranks"], [1], other.stdout)
        self.assertFalse(os.path.exists(self.path("incident", "logs")))
        # The folder is written even if the output pipe is closed.
        shutil.rmtree(self.path("incident"))
        read, write = os.pipe()
        os.close(read)
        subprocess.run([LOCKSTEP, "attach", "--job", job, "--out", "incident"], cwd=self.folder, env=clean_environment(), stdout=write, stderr=write,
                       timeout=120)
        os.close(write)
        self.assertTrue(os.path.exists(self.path("incident", "verdict.json")))

    def test_attach_points_to_the_rings_of_a_recorded_job(self):
        os.mkdir(self.path("rings"))
        job, processes = self.start(2, [TRAINSIM, "--steps", "1000000", "--dp", "2"], LD_PRELOAD=LIBRARY, LOCKSTEP_DIR=self.path("rings"))
        self.assertTrue(wait_for(lambda: self.printed(job, "step 20/"), 60))
        result = self.attach("--job", job, "--out", "incident")
        self.stop(processes)
        self.assertIn(f"this job is recorded, and its rings show more: lockstep analyze {self.path('rings')}\n", result.stderr)
        with open(self.path("incident", "manifest.json")) as file:
            self.assertIn("taken by lockstep attach, without the recorder's rings", file.read())

    def test_attach_mentions_no_rings_if_the_recorder_wrote_none(self):
        job, processes = self.start(2, [sys.executable, "-c", "import time; time.sleep(1000)"], LD_PRELOAD=LIBRARY, LOCKSTEP_DIR=self.folder)
        result = self.attach("--job", job, "--out", "incident")
        self.stop(processes)
        self.assertIn(f"examining {job}", result.stderr)
        self.assertNotIn("this job is recorded", result.stderr)

    def test_commands_on_other_hosts_run_through_ssh_and_kubectl(self):
        """Without options, attach uses ssh and kubectl from PATH."""
        path = os.pathsep.join((self.folder, os.environ["PATH"]))
        self.script("ssh", '#!/bin/sh\necho "asked: $*" >&2\nexit 9\n')
        self.script("kubectl", '#!/bin/sh\necho "asked: $*" >&2\nexit 9\n')
        with open(self.path("hosts"), "w") as file:
            file.write("node7\n")
        result = self.attach("--hosts", "hosts", "--slurm", "4711", "--ask-torch", PATH=path)
        self.assertEqual(result.returncode, 3)
        self.assertIn("asked: -o BatchMode=yes node7 lockstep attach --stream 4711 --redact no --slurm 4711 --ask-torch\n", result.stderr)
        result = self.attach("--hosts", "hosts", "--remote", "/opt/lockstep", PATH=path)
        self.assertIn("node7 /opt/lockstep attach", result.stderr)
        result = self.attach("--kubernetes", "a=b", PATH=path)
        self.assertEqual(result.returncode, 3)
        self.assertIn("kubectl: it exited with status 9: asked: get pods --output=json --selector=a=b\n", result.stderr)
        # Here, the remote lockstep ran and failed for another reason.
        self.script("ssh", '#!/bin/sh\necho "lockstep: x: No such file or directory" >&2\nexit 3\n')
        self.assertIn("node7: it exited with status 3: lockstep: x: No such file", self.attach("--hosts", "hosts", PATH=path).stderr)
        self.script("kubectl", "#!/bin/sh\necho cut off\n")
        self.assertEqual(self.attach("--kubernetes", "a=b", PATH=path).returncode, 3)
        self.script("ssh", '#!/bin/sh\necho "bash: line 1: lockstep: command not found" >&2\nexit 127\n')
        self.assertIn("node7: lockstep is not on its PATH; give its path with --remote", self.attach("--hosts", "hosts", PATH=path).stderr)

    def halves(self):
        """Starts a job with half of its ranks on each of two simulated hosts. A file named after each host has the PIDs. Rank 6 stops."""
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
        self.assertTrue(wait_for(lambda: self.printed(f"port-{port}", "fault"), 60))
        time.sleep(1.5)
        for half, processes in enumerate(halves):
            with open(self.path(f"node{half}"), "w") as file:
                file.write(" ".join(str(process.pid) for process in processes))

    def script(self, name, text):
        with open(self.path(name), "w") as script:
            script.write(text)
        os.chmod(self.path(name), 0o700)
        return self.path(name)

    def test_attach_names_the_rank_of_a_job_on_several_hosts(self):
        """The fake ssh examines only one host's half of the job."""
        self.halves()
        over = self.script("over", '#!/bin/sh\nhost=$1; shift\n[ -f "$host" ] || { echo "no route to $host" >&2; exit 255; }\n'
                           f'shift; LOCKSTEP_HOST=$host exec {LOCKSTEP} "$@" $(cat "$host")\n')
        with open(self.path("hosts"), "w") as file:
            file.write("node0\n# the other half\nnode1\n")
        result = self.attach("--hosts", "hosts", "--launch", over, "--out", "all")
        self.assertEqual(result.returncode, 1, result.stderr)
        verdict = read_json(self.path("all", "verdict.json"))
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[6]], result.stdout)
        self.assertEqual(verdict["findings"][0]["culprits"][0]["host"], "node1")
        self.assertEqual(sorted(name for name in os.listdir(self.path("all")) if name.endswith(".lsd")), ["node0.lsd", "node1.lsd"])
        # A host without an answer is reported.
        with open(self.path("hosts"), "w") as file:
            file.write("node1\nnode7\n")
        result = self.attach("--hosts", "hosts", "--launch", over, "--out", "part")
        self.assertIn("no route to node7", " ".join(result.stdout.split()))
        with open(self.path("hosts"), "w") as file:
            file.write("-oProxyCommand=x\n")
        result = self.attach("--hosts", "hosts")
        self.assertEqual(result.returncode, 2)
        self.assertIn("is not a host name", result.stderr)

    def test_attach_names_the_rank_of_a_job_in_pods(self):
        """The fake kubectl lists four pods: two have half of the ranks each, one has no lockstep, one is not running."""
        self.halves()
        pods = [{"metadata": {"name": name, "namespace": "ml"}, "status": {"phase": phase},
                 "spec": {"nodeName": f"gpu-{name}", "containers": [{"name": "main", "image": "registry/torch:2.9"}]}}
                for name, phase in (("node0", "Running"), ("node1", "Running"), ("bare", "Running"), ("late", "Pending"))]
        with open(self.path("pods"), "w") as file:
            json.dump({"kind": "List", "items": pods}, file)
        kubectl = self.script("kubectl", '#!/bin/sh\necho "$*" >>calls\n[ $1 = exec ] || exec cat pods\npod=$3; shift 6\n'
                              '[ -f "$pod" ] || { echo \'OCI runtime exec failed: exec: "lockstep": executable file not found in $PATH\' >&2; '
                              'echo "command terminated with exit code 127" >&2; exit 127; }\n'
                              f'LOCKSTEP_HOST=$pod exec {LOCKSTEP} "$@" $(cat "$pod")\n')
        result = self.attach("--kubernetes", "job-name=train", "--namespace", "ml", "--kubectl", kubectl, "--out", "all")
        self.assertEqual(result.returncode, 1, result.stderr)
        verdict = read_json(self.path("all", "verdict.json"))
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[6]], result.stdout)
        self.assertEqual(verdict["findings"][0]["culprits"][0]["host"], "node1")
        self.assertIn(f"node1 is a pod on node gpu-node1; instead of ssh: {kubectl} exec --namespace=ml node1 --container=main --", result.stderr)
        self.assertIn("bare was not examined: image registry/torch:2.9 has no lockstep. Copy the static build in", result.stderr)
        self.assertIn("late was not examined: the pod is pending", result.stderr)
        with open(self.path("calls")) as file:
            calls = file.read().splitlines()
        self.assertEqual(calls[0], "get pods --output=json --selector=job-name=train --namespace=ml")
        self.assertEqual(sorted(call.split(" attach ")[0] for call in calls[1:]),
                         [f"exec --namespace=ml {name} --container=main -- lockstep" for name in ("bare", "node0", "node1")])
        # No name from kubectl or the user can become an option or several words.
        pods[0]["metadata"]["name"] = "--as=admin"
        with open(self.path("pods"), "w") as file:
            json.dump({"kind": "List", "items": pods}, file)
        result = self.attach("--kubernetes", "a=b", "--kubectl", kubectl)
        self.assertIn("--as=admin was not examined: '--as=admin' is not a valid name of a pod", result.stderr)
        result = self.attach("--kubernetes", "a=b", "--namespace", "x --as=admin", "--kubectl", kubectl)
        self.assertEqual(result.returncode, 2)
        self.assertIn("is not a valid name of a namespace", result.stderr)
        result = self.attach("--kubernetes", "a=b", "--kubectl", "false")
        self.assertEqual(result.returncode, 3)
        self.assertIn("false: it exited with status 1", result.stderr)
        self.assertEqual(self.attach("--kubernetes", "a=b", "--hosts", "x").returncode, 2)

    def test_a_python_rank_that_waits_for_a_lock_is_named(self):
        job, _ = self.start(4, [sys.executable, "-c", LOCKED, os.path.join(STANDIN, "libnccl.so.2")])
        self.assertTrue(wait_for(lambda: self.printed(job, "ready", 4), 60))
        result, verdict = self.verdict(job)
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], result.stdout)
        self.assertIn("log_metrics() at <string>:", " ".join(result.stdout.split()))

    def test_counts_from_nccls_ras_name_the_rank(self):
        job, _ = self.start(4, [sys.executable, "-c", COUNTED], NCCL_RAS_ADDR=f"localhost:{free_port()}")
        self.assertTrue(wait_for(lambda: self.printed(job, "ready", 4), 60))
        result, verdict = self.verdict(job)
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[3]], result.stdout)
        self.assertTrue(os.path.exists(self.path("incident", "logs", "ncclras.txt")))

    def test_pytorchs_dumps_name_the_rank(self):
        job, _ = self.start(4, [sys.executable, "-c", WATCHED], TORCH_NCCL_DEBUG_INFO_PIPE_FILE=self.path("pipe"),
                            TORCH_NCCL_DEBUG_INFO_TEMP_FILE=self.path("trace_rank_"))
        self.assertTrue(wait_for(lambda: self.printed(job, "ready", 4), 60))
        result, verdict = self.verdict(job)
        self.assertEqual(verdict["findings"], [], result.stdout)
        self.assertIn("--ask-torch asks this job's PyTorch for Flight Recorder dumps", result.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("trace_rank_")], [], "unasked")
        # With --ask-torch, the dumps show which rank missed the last call. Attach itself observes the duration and the location.
        result, verdict = self.verdict(job, "--ask-torch")
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], result.stdout)
        self.assertLess(self.took, 60)
        self.assertIn("train.py:12", result.stdout)
        for rank in range(4):
            self.assertEqual(pathlib.Path(self.path("incident", "torch", f"torch_rank_{rank}")).read_bytes(),
                             pathlib.Path(self.path(f"trace_rank_{rank}")).read_bytes())
        # The incident contains the dumps already, so the analyzer must not count them twice.
        again = subprocess.run([LOCKSTEP, "analyze", "--format", "json", "incident"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(json.loads(again.stdout)["findings"], verdict["findings"], again.stderr)
        # The dumps are recent. Files are not stored if something must be redacted.
        result, verdict = self.verdict(job, "--redact", "stacks")
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], result.stdout)
        self.assertFalse(os.path.exists(self.path("incident", "torch")))

    def test_pytorchs_dumps_of_several_hosts_name_the_rank(self):
        _, processes = self.start(4, [sys.executable, "-c", WATCHED], address="node0", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=self.path("pipe"),
                                  TORCH_FR_DUMP_TEMP_FILE=self.path("trace_rank_"), TORCH_NCCL_DEBUG_INFO_TEMP_FILE=self.path("trace_rank_"))
        self.assertTrue(wait_for(lambda: all(os.path.exists(self.path(f"pipe{rank}.pipe")) for rank in range(4)), 60))
        with open(self.path("hosts"), "w") as file:
            file.write("node0\nnode1\n")
        for half in range(2):
            with open(self.path(f"node{half}"), "w") as file:
                file.write(" ".join(str(process.pid) for process in processes[2 * half:2 * half + 2]))
        over = self.script("over", f'#!/bin/sh\nhost=$1; shift 2\nLOCKSTEP_HOST=$host exec {LOCKSTEP} "$@" $(cat "$host")\n')
        result = self.attach("--hosts", "hosts", "--launch", over, "--ask-torch", "--out", "all")
        self.assertEqual(result.returncode, 1, result.stderr)
        verdict = read_json(self.path("all", "verdict.json"))
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], result.stdout)
        self.assertIn("ranks 0, 1, 3 wait for rank 2 in all_reduce #6 on default_pg", " ".join(result.stdout.split()))

    def test_one_of_several_jobs_must_be_chosen(self):
        first, processes = self.start(2, ["sleep", "1000"])
        second, others = self.start(2, ["sleep", "1000"])
        result = self.attach()
        self.assertEqual(result.returncode, 2, result.stdout)
        for job in (first, second):
            self.assertIn(f"  {job}: 2 processes, rank 0, 1 of 2 (sleep, PID ", result.stderr)
        result = self.attach("--out", "chosen", *(str(process.pid) for process in others))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(second, result.stderr)
        result = self.attach(first, "--out", "named")
        self.assertIn(f"examining {first}: 2 processes", result.stderr)
        self.stop(processes + others)
        result = self.attach("--slurm", "4711")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no process on this host matches the request", result.stderr)
        result = self.attach("x")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no process on this host matches the request", result.stderr)
        result = self.attach("12", "x")
        self.assertEqual(result.returncode, 2)
        self.assertIn("'x' is no PID", result.stderr)

    def test_an_unwritable_folder_is_reported(self):
        job, _ = self.start(2, ["sleep", "1000"])
        with open(self.path("file"), "w"):
            pass
        result = self.attach("--job", job, "--out", "file/incident")
        self.assertEqual(result.returncode, 3)
        self.assertIn("choose another with --out FOLDER", result.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_another_users_job_is_not_found(self):
        job, processes = self.start(2, ["sleep", "1000"])
        def nobody(*arguments):
            return subprocess.run([LOCKSTEP, "attach", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60,
                                  preexec_fn=lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534)))

        result = nobody("--job", job)
        self.assertEqual(result.returncode, 3)
        self.assertIn("run this as root (sudo lockstep attach), or as the job's user", result.stderr)
        # Another user sees only that the processes exist, and the message says what to do.
        os.chmod(self.folder, 0o777)
        result = nobody("--out", "incident", *(str(process.pid) for process in processes))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("the process runs as user 0, Lockstep as user 65534; run Lockstep as that user or as root", " ".join(result.stdout.split()))


if __name__ == "__main__":
    own_group()
    unittest.main()
