#!/usr/bin/env python3
"""The kernel refuses access to a process. Checks what Lockstep prints, and what the recorder's helper in the process reports."""

import ctypes
import glob
import os
import random
import shutil
import signal
import struct
import subprocess
import unittest

from support import BIN, LIBRARY, STANDIN, FolderTest, clean_environment, wait_for

NOBODY = 65534
PYTHON = "/usr/bin/python3"  # a Python that other users can run
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 4, 38, 22
SYS = {"x86_64": (0xC000003E, 101, 310), "aarch64": (0xC00000B7, 117, 270)}  # AUDIT_ARCH number, ptrace, process_vm_readv

# One rank creates a communicator and makes its process inaccessible. Then it sums numbers in C without releasing the interpreter lock.
RANK = '''
import ctypes, sys
P, I = ctypes.c_void_p, ctypes.c_int
class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
nccl = ctypes.CDLL(sys.argv[1])
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(P), I, UniqueId, I]
unique, comm = UniqueId(), P()
nccl.ncclGetUniqueId(ctypes.byref(unique))
nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0)
if "hide" in sys.argv[2:]:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)

def load_batch():
    print("ready", flush=True)
    return sum(range(10 ** 16))

def step():
    load_batch()

step()
'''


def become_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def forbid_by_seccomp():
    """Makes ptrace and process_vm_readv fail with EPERM from now on."""
    machine, ptrace, readv = SYS[os.uname().machine]
    allow, deny = 0x7FFF0000, 0x00050000 | 1
    # Jumps are relative to the next instruction.
    code = [(0x20, 0, 0, 4), (0x15, 0, 3, machine), (0x20, 0, 0, 0), (0x15, 2, 0, ptrace), (0x15, 1, 0, readv), (0x06, 0, 0, allow), (0x06, 0, 0, deny)]
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(program)

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    rules = Filter(len(code), ctypes.addressof(buffer))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(rules), 0, 0) != 0:
        os._exit(77)


def forbid_as_nobody():
    become_nobody()
    forbid_by_seccomp()


class RefusalTest(FolderTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        self.children = []
        self.addCleanup(self.close)

    def close(self):
        for child in self.children:
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()

    def rank(self, *arguments, become=become_nobody, **environment):
        made = clean_environment()
        made.update(LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=STANDIN, LOCKSTEP_DIR=os.path.join(self.folder, "rings"), HOME="/",
                    PYTHONDONTWRITEBYTECODE="1", **environment)
        child = subprocess.Popen([PYTHON, "-c", RANK, os.path.join(STANDIN, "libnccl.so.2"), *arguments], env=made, cwd="/",
                                 stdout=subprocess.PIPE, text=True, preexec_fn=become, start_new_session=True)
        self.children.append(child)
        if child.stdout.readline() != "ready\n":
            self.skipTest(f"{PYTHON} does not run here as another user")
        rings = glob.glob(os.path.join(self.folder, "rings/*/*.ring"))
        self.assertEqual(len(rings), 1)
        return child.pid, rings[0]

    def look(self, pid, ring, become=become_nobody, before=()):
        arguments = [*before, os.path.join(BIN, "lockstep-evidence"), *(["--ring", ring] if ring else []), str(pid)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, preexec_fn=become, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, text):
        lines = [line for line in text.splitlines() if "ptrace refused" in line]
        self.assertTrue(lines, text)
        return lines[0]

    def test_a_process_that_cannot_be_read_reports_through_its_recorder(self):
        pid, ring = self.rank("hide", LOCKSTEP_HELPER="on")
        text = self.look(pid, ring)
        self.assertIn("undumpable", self.refused(text))
        self.assertIn("the recorder's helper", self.refused(text))
        self.assertIn("load_batch (<string>:", text)
        self.assertIn("step (<string>:", text)
        self.assertIn("holds the interpreter lock", text)
        # The helper answers two simultaneous requests.
        asking = [subprocess.Popen([os.path.join(BIN, "lockstep-evidence"), "--ring", ring, str(pid)], stdout=subprocess.PIPE, text=True,
                                   preexec_fn=become_nobody, cwd="/") for _ in range(2)]
        for one in asking:
            self.assertIn("load_batch", one.communicate(timeout=60)[0])

    def test_the_helper_masks_all_signals_and_survives_any_request(self):
        pid, ring = self.rank(LOCKSTEP_HELPER="on")

        def threads():
            blocked = {}
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/status") as file:
                    fields = dict(line.split(":", 1) for line in file)
                blocked[fields["Name"].strip()] = int(fields["SigBlk"], 16)
            return blocked

        self.assertTrue(wait_for(lambda: "lockstep-help" in threads(), 30))
        blocked = threads()
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                self.assertTrue(blocked["lockstep-help"] >> (number - 1) & 1, number)
        with open(ring, "r+b", buffering=0) as file:
            header = os.pread(file.fileno(), 4096, 0)
            sections = [struct.unpack_from("<IIQQQ", header, 1288 + 32 * i) for i in range(16)]
            place = [section[2] for section in sections if section[0] == 13][0]
            generator = random.Random(7)
            for asked in range(1, 2000):
                line = struct.pack("<IQQi", generator.choice([1, 1, 2, 3, 4, 9, 2 ** 32 - 1]),
                                   generator.choice([0, 1, 4096, generator.getrandbits(47), generator.getrandbits(64)]),
                                   generator.choice([0, 1, 65536, 65537, generator.getrandbits(64)]), generator.getrandbits(31))
                os.pwrite(file.fileno(), line, place + 4)
                os.pwrite(file.fileno(), struct.pack("<I", asked), place)
        self.assertTrue(wait_for(lambda: "load_batch" in self.look(pid, ring, forbid_as_nobody), 60))
        self.assertIsNone(self.children[0].poll())

    def test_without_the_helper_the_message_says_what_would_help(self):
        pid, ring = self.rank("hide")
        line = self.refused(self.look(pid, ring))
        self.assertIn("undumpable", line)
        self.assertIn("CAP_SYS_PTRACE", line)
        self.assertIn("LOCKSTEP_HELPER=on", line)
        names = subprocess.run(["cat", *glob.glob(f"/proc/{pid}/task/*/comm")], capture_output=True, text=True).stdout.split()
        self.assertNotIn("lockstep-help", names)

    def test_a_helper_that_does_not_answer_causes_no_delay(self):
        pid, ring = self.rank("hide", LOCKSTEP_HELPER="on")
        os.kill(pid, signal.SIGSTOP)
        text = self.look(pid, ring)
        self.assertIn("undumpable", self.refused(text))
        os.kill(pid, signal.SIGCONT)
        self.assertTrue(wait_for(lambda: "load_batch" in self.look(pid, ring), 30))

    def test_under_seccomp_the_recorders_helper_gives_the_stacks(self):
        pid, ring = self.rank(LOCKSTEP_HELPER="on")
        line = self.refused(self.look(pid, None, forbid_as_nobody))
        self.assertIn("seccomp", line)
        text = self.look(pid, ring, forbid_as_nobody)
        self.assertIn("load_batch", text)
        self.assertIn("the recorder's helper", self.refused(text))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to act as two users")
    def test_a_job_of_another_user_is_refused_with_advice(self):
        pid, _ = self.rank(become=None)
        line = self.refused(self.look(pid, None))
        self.assertIn(f"the process runs as user 0, Lockstep as user {NOBODY}", line)
        self.assertIn("--cap-add SYS_PTRACE", line)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_foreign_files_are_not_read_with_the_rights_of_root(self):
        """A root process that cannot become another user (a service without CAP_SETUID) reads the memory of that user's process, but no files of the user."""
        pid, _ = self.rank()
        text = self.look(pid, None, None)
        native = r"(?m)^ +#\d+ +(?!.*(<string>|\.py):\d).+$"  # any native frame
        self.assertRegex(text, native, "the observer has all rights")
        text = self.look(pid, None, None, ["setpriv", "--bounding-set", "-setuid,-setgid", "--inh-caps", "-setuid,-setgid"])
        self.assertRegex(text, rf"native stacks were not unwound: root cannot become user {NOBODY} .*CAP_SETUID")
        self.assertIn("the interpreter's file may be read only as the process's user", text)
        self.assertNotIn("load_batch", text)
        self.assertNotRegex(text, native)

    def test_a_job_in_another_user_namespace_is_refused_with_advice(self):
        pid, _ = self.rank()
        inside = ["unshare", "--user", "--map-current-user"]
        if subprocess.run([*inside, "true"], capture_output=True, preexec_fn=become_nobody, cwd="/").returncode != 0:
            self.skipTest("cannot create a user namespace here")
        line = self.refused(self.look(pid, None, become_nobody, inside))
        self.assertIn("in another user namespace", line)
        self.assertIn("as root on the host", line)

    def test_an_observer_with_fewer_capabilities_than_the_process_is_refused(self):
        inside = ["unshare", "--user", "--map-root-user"]
        if subprocess.run([*inside, "true"], capture_output=True, preexec_fn=become_nobody, cwd="/").returncode != 0 or not shutil.which("setpriv"):
            self.skipTest("cannot create a user namespace here, or setpriv is missing")
        # Observer and process share a namespace in which the process is root. The observer has dropped its capabilities.
        script = os.path.join(self.folder, "inside.sh")
        with open(script, "w") as file:
            file.write('sleep 1000 & target=$!\n'
                       f'setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all --no-new-privs --securebits=+noroot '
                       f'{os.path.join(BIN, "lockstep-evidence")} $target\nkill $target\n')
        done = subprocess.run([*inside, "sh", script], capture_output=True, text=True, timeout=60, preexec_fn=become_nobody, cwd="/")
        line = self.refused(done.stdout + done.stderr)
        self.assertIn("more capabilities than Lockstep", line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
