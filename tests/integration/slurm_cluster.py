"""A real Slurm on one machine during a test: munged, slurmctld and several slurmd with one host name. All run as the test's user in one folder, with ports
only on the loopback."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "sinfo", "scontrol", "scancel")
SBIN = ["/usr/sbin", "/usr/local/sbin", "/sbin"]


def missing():
    """Returns the names of programs that are not installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *SBIN])
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


class SlurmCluster:
    """A Slurm cluster with nodes n1 to nN. `extra` has more lines of slurm.conf (Prolog=..., TaskProlog=...)."""

    def __init__(self, folder, nodes=4, first_port=17000, extra=()):
        self.folder, self.nodes, self.first_port, self.extra = folder, nodes, first_port, extra
        self.environment = {**os.environ, "PATH": os.pathsep.join([os.environ.get("PATH", ""), *SBIN]),
                            "SLURM_CONF": os.path.join(folder, "slurm.conf")}
        self.daemons = []

    def node_names(self):
        return [f"n{n + 1}" for n in range(self.nodes)]

    def configuration(self):
        host, user, folder = socket.gethostname().split(".")[0], pwd.getpwuid(os.getuid()).pw_name, self.folder
        lines = [
            "ClusterName=lockstep", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={self.first_port}", f"SlurmUser={user}",
            f"SlurmdUser={user}", "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge.sock", "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/spool/%n", f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={folder}/slurmctld.log", f"SlurmdLogFile={folder}/slurmd-%n.log", "ReturnToService=2", "KillWait=5",
            "MpiDefault=none", "SlurmdParameters=config_overrides", *self.extra]
        for n, name in enumerate(self.node_names()):
            lines.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.first_port + 1 + n} CPUs=8 State=UNKNOWN")
        lines.append(f"PartitionName=all Nodes={','.join(self.node_names())} Default=YES MaxTime=INFINITE State=UP")
        return "\n".join(lines) + "\n"

    def start(self):
        for name in ("state", "spool"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        key = os.path.join(self.folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(128))
        with open(os.path.join(self.folder, "slurm.conf"), "w") as file:
            file.write(self.configuration())
        self.spawn("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.sock",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed")
        self.wait(lambda: os.path.exists(f"{self.folder}/munge.sock"), "munged's socket")
        self.spawn("slurmctld", "-D", "-c")
        for name in self.node_names():
            self.spawn("slurmd", "-D", "-N", name)
        self.wait(self.all_idle, "all nodes idle")

    def spawn(self, *command):
        log = open(os.path.join(self.folder, "daemons.log"), "ab")
        self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             start_new_session=True))
        log.close()

    def output(self, *command, timeout=30):
        return subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                              check=False).stdout

    def all_idle(self):
        return self.output("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * self.nodes

    def wait(self, condition, what, seconds=90):
        end = time.monotonic() + seconds
        while not condition():
            for daemon in self.daemons:
                if daemon.poll() is not None:
                    raise RuntimeError(f"{daemon.args[0]} ended with {daemon.returncode}:\n{self.logs()}")
            if time.monotonic() > end:
                raise RuntimeError(f"Slurm: {what} did not happen within {seconds} s:\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), errors="replace") as file:
                    text += f"--- {name}\n" + "".join(file.readlines()[-25:])
        return text

    def stop(self):
        self.output("scancel", "--full", "--state=RUNNING")
        for number in (signal.SIGTERM, signal.SIGKILL):
            for daemon in reversed(self.daemons):
                if daemon.poll() is None:
                    try:
                        os.killpg(daemon.pid, number)
                    except ProcessLookupError:
                        pass
            end = time.monotonic() + 15
            while any(daemon.poll() is None for daemon in self.daemons) and time.monotonic() < end:
                time.sleep(0.05)
        self.daemons = []
