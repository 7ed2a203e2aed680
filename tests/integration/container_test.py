#!/usr/bin/env python3
"""Runs jobs in containers made of real namespaces, with an agent outside. Also checks the reason that is printed for every way in which recording can
fail."""

import glob
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import unittest

from support import BIN, BUILD, LIBRARY, LOCKSTEP, TRAINSIM, FolderTest, clean_environment, namespaces_refused, read_json, wait_for

try:
    import yaml
except ImportError:
    yaml = None

STALL = [TRAINSIM, "--tp", "2", "--pp", "1", "--dp", "2", "--steps", "1000000", "--pace-ms", "20", "--fault", "rank=2,step=20,kind=stall-host,comm=dp"]
# The launcher inside the container, which has its own network.
RANKS = 'for rank in 0 1 2 3; do RANK=$rank LOCAL_RANK=$rank "$@" & done; wait'
INSIDE = "LOCKSTEP_CONTAINER_TEST_FOLDER"
NAMES = ("LOCKSTEP", "SLURM", "OMPI", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LD_PRELOAD")


class ContainerTest(FolderTest):
    """Each test simulates a host in separate namespaces, so that an agent finds only this test's jobs, with a container inside."""

    def play(self, options, setup, drop=True, agent=()):
        reason = namespaces_refused("-m", "-p", "-f", "-i", "-n", "--mount-proc", "true")
        if reason is None:
            reason = namespaces_refused("-m", "-p", "-f", "--mount-proc", *options, "--kill-child", "true")
        if reason is not None:
            self.skipTest("cannot create namespaces here: " + reason)
        if drop and shutil.which("setpriv") is None:
            self.skipTest("no setpriv")
        folder = self.temporary()
        done = subprocess.run(["unshare", "-m", "-p", "-f", "-i", "-n", "--mount-proc", "--kill-child", sys.executable, os.path.abspath(__file__), "--as-host",
                               json.dumps({"options": options, "setup": setup, "drop": drop, "agent": list(agent)})],
                              env=clean_environment(NAMES, LOCKSTEP_BUILD=BUILD, **{INSIDE: folder}), capture_output=True, text=True, timeout=280)
        logs = ""
        for path in glob.glob(folder + "/*.log"):
            with open(path, errors="replace") as file:
                logs += f"--- {path}\n{file.read()[-3000:]}\n"
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + logs)
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(result["culprits"], [2], logs)
        # The PID is that of the host's namespace, not the container's.
        self.assertEqual(result["rank_of_pid"], 2, result)
        self.assertNotEqual(result["pid"], result["inner_pid"], result)
        return result

    def test_a_rank_in_a_container_with_private_memory_and_no_capabilities_is_named(self):
        result = self.play(["-i"], "mount -t tmpfs -o size=64m tmpfs /dev/shm && mount -t tmpfs tmpfs /tmp && mount -o remount,bind,ro / && ! touch /usr/x 2>/dev/null")
        self.assertEqual(result["host_rings"], 0, "rings are in the container's shared memory, not in the host's")

    def test_a_rank_in_a_container_with_the_hosts_memory_is_named(self):
        result = self.play(["-i"], "true")
        self.assertGreater(result["host_rings"], 0)

    def test_a_rank_in_a_container_without_space_for_rings_is_named(self):
        """The rings are in the memory of processes; their PIDs inside and outside differ."""
        result = self.play(["-i"], "mount -t tmpfs -o size=16m tmpfs /dev/shm && head -c 13000000 /dev/zero >/dev/shm/other")
        self.assertEqual(result["host_rings"], 0)
        self.assertTrue(any("in its process's memory" in line for line in result["blind"]), result)

    def test_a_rank_in_a_user_namespace_is_named(self):
        self.play(["-i", "-U", "-r"], "mount -t tmpfs -o size=64m tmpfs /dev/shm", drop=False)


    @unittest.skipIf(yaml is None, "python3-yaml is not installed")
    def test_an_agent_with_the_capabilities_of_the_manifest_names_the_rank(self):
        """The DaemonSet's agent shares only the host's PID namespace, and has only the capabilities of the runtime and the manifest."""
        with open(os.path.join(os.path.dirname(__file__), "../../packaging/kubernetes/lockstep.yaml")) as file:
            pod = next(document for document in yaml.safe_load_all(file) if document["kind"] == "DaemonSet")["spec"]["template"]["spec"]
        self.assertTrue(pod["hostPID"])
        security = pod["containers"][0]["securityContext"]
        self.assertEqual(security["runAsUser"], 0)
        granted = [name.lower() for name in security["capabilities"]["add"]]
        usual = ["chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service", "sys_chroot", "mknod", "audit_write",
                 "setfcap"]  # container runtimes give root these capabilities
        bounds = ",".join(["-all", *("+" + name for name in usual + granted)])
        self.play(["-i"], "mount -t tmpfs -o size=64m tmpfs /dev/shm", agent=[
            "unshare", "-m", "-i", "sh", "-c", f'mount -t tmpfs tmpfs /dev/shm && exec setpriv --bounding-set={bounds} --inh-caps=-all "$0" "$@"'])


def as_host(plan):
    """Runs inside the namespaces: mounts the host's shared memory, starts an agent alone and a container with the job. Prints which rank the verdict
    names."""
    folder = os.environ.pop(INSIDE)  # read before clean_environment removes the variables of Lockstep
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    environment = clean_environment(NAMES, LOCKSTEP_RUNTIME_DIR=folder + "/runtime")

    def start(name, words, **more):
        with open(f"{folder}/{name}.log", "ab") as log:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**environment, **more}, start_new_session=True)

    agent = start("agent", [*plan["agent"], os.path.join(BIN, "lockstep-agent"), "--alone", "--spool", folder + "/spool", "--out", folder + "/incidents", "--late-after", "1"])
    drop = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs " if plan["drop"] else ""
    job = start("job", ["unshare", "-m", "-p", "-f", *plan["options"], "--mount-proc", "--kill-child", "sh", "-c",
                        f'{plan["setup"]} && export LD_PRELOAD={LIBRARY} && exec {drop}sh -c "$0" sh "$@"', RANKS, *STALL],
                LOCKSTEP_JOB="boxed", WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")

    def verdict():
        for path in glob.glob(folder + "/incidents/*/verdict.json"):
            output = read_json(path)
            if output["verdict"] == "HUNG" and output["findings"] and output["findings"][0]["culprits"]:
                return output
        return None

    output = wait_for(lambda: verdict() or job.poll() is not None or agent.poll() is not None, 150)
    if not isinstance(output, dict):
        print(f"no verdict: job {job.poll()}, agent {agent.poll()}", file=sys.stderr)
        return 1
    finding = output["findings"][0]
    pid = finding["culprits"][0].get("pid", 0)
    with open(f"/proc/{pid}/status") as file:
        inner = int(re.search(r"^NSpid:.*?(\d+)$", file.read(), re.M).group(1))
    # The ring's name contains the PID in the container's namespace.
    rank = None
    for path in glob.glob(f"/proc/{pid}/root/dev/shm/lockstep-*/boxed.*/*.{inner}.*.ring"):
        if os.path.islink(path):
            path = f"/proc/{pid}/fd/{os.path.basename(os.readlink(path))}"
        with open(path, "rb") as file:
            rank = rank_of(file.read(4096))
    host_rings = len(glob.glob("/dev/shm/lockstep-*/boxed.*/*.ring"))
    print(json.dumps({"culprits": finding["culprit_ranks"], "pid": pid, "inner_pid": inner, "rank_of_pid": rank, "host_rings": host_rings,
                      "blind": output.get("blind", [])}))
    job.kill()  # this also ends all processes of the job
    job.wait(60)
    agent.terminate()
    agent.wait(60)
    return 0


def rank_of(header):
    """Returns the rank from a ring's first page: PID, restart and rank are at byte 192 (docs/ring-file.md)."""
    return struct.unpack_from("<iIi", header, 192)[2]


class UnrecordedTest(FolderTest):
    """Checks that "0 ranks recorded" always comes with a reason."""

    def messages(self, *command, **environment):
        """Returns what lockstep run prints about a job that runs long enough to be examined."""
        done = subprocess.run([LOCKSTEP, "run", "--", *command], env=clean_environment(NAMES, **environment), cwd=self.folder, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_a_dropped_ld_preload_is_reported(self):
        self.assertRegex(self.messages("env", "-u", "LD_PRELOAD", "sleep", "1.5"), "not loaded in 1 process: something on the way to the process removed LD_PRELOAD")

    def test_a_missing_or_static_nccl_is_reported(self):
        self.assertRegex(self.messages("sleep", "1.5"), r"no NCCL library was loaded in 1 process \(no NCCL call, or NCCL is linked statically\)")

    def test_a_setuid_program_is_reported(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        program = os.path.join(self.folder, "sleeper")
        shutil.copy(shutil.which("sleep"), program)
        os.chown(program, 12345, 12345)
        os.chmod(program, 0o4755)
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the temporary folder is mounted nosuid")
        os.chmod(self.folder, 0o755)
        self.assertRegex(self.messages(program, "1.5"), "set-user-ID program")

    def test_what_switched_recording_off_is_reported(self):
        for value in ("0", "off", "no"):
            self.assertIn(f"LOCKSTEP={value} is set", self.messages("sleep", "0.5", LOCKSTEP=value))
        conf = os.path.join(self.folder, "lockstep.conf")
        with open(conf, "w") as file:
            file.write("[recorder]\nrecord = off\n")
        self.assertIn(f"recording is off (record = off in {conf}, line 2)", self.messages("sleep", "0.5", LOCKSTEP_CONFIG=conf))

    def test_missing_space_for_rings_is_reported(self):
        self.assertRegex(self.messages("sleep", "0.5", LOCKSTEP_DIR="/proc/nowhere"), "cannot create a folder for rings")

    def test_a_library_for_another_architecture_is_reported(self):
        other = os.path.join(self.folder, "liblockstep.so")
        with open(LIBRARY, "rb") as file:
            data = bytearray(file.read())
        data[18:20] = b"\xb7\x00" if data[18:20] != b"\xb7\x00" else b"\x3e\x00"
        with open(other, "wb") as file:
            file.write(data)
        os.chmod(other, stat.S_IRUSR | stat.S_IXUSR)
        self.assertRegex(self.messages("sleep", "1.5", LOCKSTEP_LIBRARY=other), "different architectures")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-host"]:
        sys.exit(as_host(json.loads(sys.argv[2])))
    unittest.main(verbosity=2)
