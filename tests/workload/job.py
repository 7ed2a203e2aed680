"""Starts the ranks of a job on this machine and observes them. Used by test drivers."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

POLL_S = 0.02
# A job hangs if, for this long, it prints no step, no rank exits, and it uses almost no CPU. A step takes milliseconds.
QUIET_S = 1.5
QUIET_TICKS = 3
# Therefore CPU threads must not spin while they wait for the stand-in's device, as they do by default.
QUIET_WAITS = {"STANDIN_WAIT": "block"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, timeout_s):
    """Polls until condition() is true or the time is over. Returns the condition's last value."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value or time.monotonic() >= deadline:
            return value
        time.sleep(POLL_S)


def shared_memory():
    """Returns the stand-in's files in /dev/shm, because other programs' files may come and go."""
    return set(glob.glob("/dev/shm/lockstep-standin-*"))


def used(path):
    """Returns whether a living process maps the file or has it open; always true for a folder."""
    if os.path.isdir(path):
        return True
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps", errors="replace") as maps:
                if any(line.rstrip().endswith(path) for line in maps):
                    return True
            if any(os.readlink(f"/proc/{pid}/fd/{fd}") == path for fd in os.listdir(f"/proc/{pid}/fd")):
                return True
        except OSError:
            continue
    return False


def process_state(pid):
    """Returns (state letter, CPU ticks) of a process, or None if it has exited."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except OSError:
        return None
    return fields[0].decode(), int(fields[11]) + int(fields[12])


class Job:
    """`world` processes of one command, each with its rank in the environment. Use it as a context manager, which kills the remaining processes at the
    end."""

    def __init__(self, command, world, environment=None, per_rank=None):
        self.command = command
        self.world = world
        self.environment = environment or {}
        self.per_rank = per_rank or {}  # rank -> additional arguments of this rank
        self.folder = tempfile.mkdtemp(prefix="trainsim-test-")
        self.ranks = []

    def __enter__(self):
        try:
            port = str(free_port())
            for rank in range(self.world):
                environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(self.world), LOCAL_RANK=str(rank),
                                   MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **{**QUIET_WAITS, **self.environment})
                with open(self.path(rank, "out"), "wb") as out, open(self.path(rank, "err"), "wb") as err:
                    self.ranks.append(subprocess.Popen(self.command + self.per_rank.get(rank, []), env=environment,
                                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in self.ranks:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for process in self.ranks:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, rank, what):
        return os.path.join(self.folder, f"{rank}.{what}")

    def text(self, rank, what):
        with open(self.path(rank, what), errors="replace") as file:
            return file.read()

    def errors(self):
        return "".join(f"[{rank}] {line}\n" for rank in range(len(self.ranks))
                       for line in self.text(rank, "err").splitlines())

    def exits(self):
        """Returns {rank: exit status} of the ranks that have exited; negative: a signal."""
        return {rank: process.poll() for rank, process in enumerate(self.ranks) if process.poll() is not None}

    def last_step(self):
        steps = re.findall(r"^step (\d+)/", self.text(0, "out"), re.MULTILINE)
        return int(steps[-1]) if steps else 0

    def states(self):
        found = {rank: process_state(process.pid) for rank, process in enumerate(self.ranks) if process.poll() is None}
        return {rank: state for rank, state in found.items() if state is not None}

    def wait_for_exit(self, timeout_s):
        """Returns whether all ranks exited in time."""
        return wait_for(lambda: len(self.exits()) == self.world, timeout_s)

    def settle(self, timeout_s):
        """Waits until the job has ended or is stuck. Returns "ended", "hung" or "running" (timed out)."""
        deadline = time.monotonic() + timeout_s
        mark, since = None, time.monotonic()
        while time.monotonic() < deadline:
            exits = self.exits()
            if len(exits) == self.world:
                return "ended"
            states = self.states()
            ticks = {rank: state[1] for rank, state in states.items()}
            busy = any(state[0] in "RD" for state in states.values())
            moved = mark is None or mark[:2] != (len(exits), self.last_step()) or busy or any(
                ticks[rank] - mark[2].get(rank, 0) > QUIET_TICKS for rank in ticks)
            if moved:
                mark, since = (len(exits), self.last_step(), ticks), time.monotonic()
            elif time.monotonic() - since > QUIET_S:
                return "hung"
            time.sleep(POLL_S)
        return "running"
