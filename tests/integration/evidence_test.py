#!/usr/bin/env python3
"""Checks what the report of a hung job shows about the culprit: native and Python stacks, even if the process holds the interpreter lock."""

import json
import os
import subprocess
import sys
import unittest

from support import BUILD, LOCKSTEP, STANDIN, FolderTest, clean_environment

# Two ranks all-reduce through ctypes. Then rank 1 sums numbers in C without releasing the interpreter lock.
RANK = '''
import ctypes, os, sys, time
P, Z, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
nccl, cuda = (ctypes.CDLL(path) for path in sys.argv[1:3])
folder, rank = sys.argv[3], int(os.environ["RANK"])
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(P), I, UniqueId, I]
nccl.ncclAllReduce.argtypes = [P, P, Z, I, I, P, P]
cuda.cudaMalloc.argtypes = [ctypes.POINTER(P), Z]
cuda.cudaStreamCreate.argtypes = [ctypes.POINTER(P)]
cuda.cudaStreamSynchronize.argtypes = [P]
unique, name = UniqueId(), os.path.join(folder, "unique")
if rank == 0:
    nccl.ncclGetUniqueId(ctypes.byref(unique))
    with open(name + ".part", "wb") as file:
        file.write(bytes(unique))
    os.rename(name + ".part", name)
while not os.path.exists(name):
    time.sleep(0.01)
with open(name, "rb") as file:
    ctypes.memmove(ctypes.byref(unique), file.read(), 128)
comm, stream, buffer = P(), P(), P()
cuda.cudaSetDevice(rank)
cuda.cudaStreamCreate(ctypes.byref(stream))
cuda.cudaMalloc(ctypes.byref(buffer), 4096)
nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, rank)

def load_batch():
    return sum(range(10 ** 16))

def step(number):
    if number == 20 and rank == 1:
        load_batch()
    nccl.ncclAllReduce(buffer, buffer, 1024, 7, 0, comm, stream)
    cuda.cudaStreamSynchronize(stream)

for number in range(40):
    step(number)
'''


class EvidenceTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.environment = clean_environment()
        self.environment["LOCKSTEP_DIR"] = os.path.join(self.folder, "rings")
        self.environment["LD_LIBRARY_PATH"] = STANDIN
        os.mkdir(self.environment["LOCKSTEP_DIR"])

    def run_job(self, ranks, *command):
        """Runs a job that hangs. Returns the report as text, HTML and JSON."""
        out = os.path.join(self.folder, "out")
        result = subprocess.run([LOCKSTEP, "run", "-n", str(ranks), "--out", out, "--hang-after", "15", "--kill-on-hang", "--", *command],
                                env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, 90, result.stderr)
        again = subprocess.run([LOCKSTEP, "analyze", "--full", out], capture_output=True, text=True, timeout=60)
        with open(os.path.join(out, "verdict.txt")) as text, open(os.path.join(out, "report.html")) as html, \
                open(os.path.join(out, "verdict.json")) as verdict:
            self.assertIn("  stack ", again.stdout)
            return " ".join(text.read().split()), html.read(), json.load(verdict)

    def test_the_native_stack_of_the_culprit_is_in_the_report(self):
        text, html, verdict = self.run_job(8, os.path.join(BUILD, "bin/trainsim"), "--tp", "2", "--pp", "2", "--dp", "2", "--steps", "200",
                                           "--fault", "rank=5,step=20,kind=stall-host,comm=dp")
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [5])
        self.assertIn("trainsim::FaultPlan::Play (faults.cpp:", text)
        self.assertIn("main (trainsim.cpp:", text)
        self.assertIn("same frame in both samples", text)
        self.assertIn("All threads", html)

    def test_the_python_stack_of_a_culprit_with_the_interpreter_lock_is_in_the_report(self):
        script = os.path.join(self.folder, "rank.py")
        with open(script, "w") as file:
            file.write(RANK)
        text, html, verdict = self.run_job(2, sys.executable, script, os.path.join(STANDIN, "libnccl.so.2"),
                                           os.path.join(STANDIN, "libcudart.so.13"), self.folder)
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [1])
        lines = {word: number + 1 for number, line in enumerate(RANK.split("\n"))
                 for word in ("sum(range", "        load_batch()") if word in line}
        self.assertIn(f"load_batch ({script}:{lines['sum(range']}) < step ({script}:{lines['        load_batch()']}) < <module> ({script}:", text)
        self.assertIn("load_batch", html)


if __name__ == "__main__":
    unittest.main(verbosity=2)
