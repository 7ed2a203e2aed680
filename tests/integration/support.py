"""What the integration tests share: the programs of the build, folders that go at the end, an environment without settings of the machine."""

import os
import shutil
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
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where rings go


def wait_for(condition, seconds=120):
    """What the condition gave when it came true, else its last value."""
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > until:
            return value
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def clean_environment(names=("LOCKSTEP",), **more):
    """The environment without variables whose names begin so, and with some more."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(names)}, **more}


def tool(made, program, *arguments, prefix=(), timeout=300, **environment):
    """Runs a program of the build beside a cluster."""
    return subprocess.run([*prefix, os.path.join(BIN, program), *arguments], env=made.environment(**environment), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout, check=False)


class FolderTest(unittest.TestCase):
    """A test with a folder of its own, and one in memory for rings."""

    def setUp(self):
        self.folder = self.temporary()
        self.rings = self.temporary(MEMORY)

    def temporary(self, parent=None):
        folder = tempfile.mkdtemp(prefix="lockstep-test-", dir=parent)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def path(self, *names):
        return os.path.join(self.folder, *names)
