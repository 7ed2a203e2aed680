"""Shared by the integration tests: the programs of the build, folders that are removed at the end, and an environment without the settings of this
machine."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("LOCKSTEP_BUILD", "build"))
BIN = os.path.join(BUILD, "bin")
LIBRARY = os.path.join(BUILD, "lib/liblockstep.so")
STANDIN = os.path.join(BUILD, "standin/lib")
LOCKSTEP = os.path.join(BIN, "lockstep")
TRAINSIM = os.path.join(BIN, "trainsim")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # folder for rings


def wait_for(condition, seconds=120):
    """Waits until the condition is true or the time is over. Returns the condition's last value."""
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > until:
            return value
        time.sleep(0.05)


def free_port():
    """Returns a free port below those that the kernel assigns to outgoing connections of other tests."""
    while True:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def clean_environment(names=("LOCKSTEP",), **more):
    """Returns the environment without variables that have these prefixes, plus `more`."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(names)}, **more}


def namespaces_refused(*words):
    """Returns why this machine cannot run `unshare` with these words, or None if it can."""
    if shutil.which("unshare") is None:
        return "no unshare"
    done = subprocess.run(["unshare", *words], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip() or "unshare fails"


def marked_processes(name, value):
    """Returns the living processes with this environment variable."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"{name}={value}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/stat", "rb") as file:
                if file.read().rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X"):
                    found.append(int(pid))
        except OSError:
            continue
    return found


def kill_marked(name, value):
    for pid in marked_processes(name, value):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def tool(made, program, *arguments, prefix=(), timeout=300, **environment):
    """Runs a program of the build in the environment of a cluster."""
    return subprocess.run([*prefix, os.path.join(BIN, program), *arguments], env=made.environment(**environment), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout, check=False)


def read_json(*names):
    """Returns the contents of the file with this path."""
    with open(os.path.join(*names), encoding="utf-8") as file:
        return json.load(file)


def explore_data(incident):
    """Returns the data that explore.html of an incident folder shows."""
    with open(os.path.join(incident, "explore.html"), encoding="utf-8") as page:
        return json.loads(re.search(r'id="data">(.*?)</script>', page.read(), re.S).group(1))


class FolderTest(unittest.TestCase):
    """A test with its own folder, and a folder in memory for rings."""

    def setUp(self):
        self.folder = self.temporary()
        self.rings = self.temporary(MEMORY)

    def temporary(self, parent=None):
        folder = tempfile.mkdtemp(prefix="lockstep-test-", dir=parent)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def path(self, *names):
        return os.path.join(self.folder, *names)
