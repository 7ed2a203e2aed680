#!/usr/bin/env python3
"""Checks that the library changes nothing if it is preloaded into an image with musl
(Alpine).

musl_test.py SOURCE LIBRARY RING_PRINT CXX
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, LIBRARY, RING_PRINT, CXX = sys.argv[1:5]


@unittest.skipUnless(shutil.which("musl-gcc"), "no musl-gcc here (package musl-tools)")
class MuslTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-musl-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.nccl, self.host = self.folder / "libnccl.so.2", self.folder / "host"
        # This library needs no other library, so any compiler can build it for any loader.
        subprocess.run([CXX, "-O2", "-fPIC", "-shared", "-nostdlib", "-fno-exceptions", "-I", SOURCE, "-Wl,-soname,libnccl.so.2", "-o", self.nccl,
                        f"{SOURCE}/tests/bench/recorder_idle_nccl.cpp"], check=True, timeout=60)
        subprocess.run(["musl-gcc", "-O2", "-o", self.host, f"{SOURCE}/recorder/testing/musl_host.c", self.nccl, f"-Wl,-rpath,{self.folder}"],
                       check=True, timeout=60)

    def run_host(self, *what, **environment):
        done = subprocess.run([self.host, *what], capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": os.environ["PATH"], "LOCKSTEP_DIR": str(self.folder / "rings"), **environment})
        return done.returncode, done.stdout, done.stderr

    def test_a_preloaded_program_behaves_as_before(self):
        plain = self.run_host("plain")
        self.assertEqual((plain[0], plain[2]), (0, ""))
        self.assertEqual(self.run_host("plain", LD_PRELOAD=LIBRARY), plain)
        self.assertFalse((self.folder / "rings").exists())

    def test_a_program_that_links_nccl_behaves_as_before(self):
        # musl ignores names with a hidden version, which the wrapped names have, so nothing is recorded.
        before = self.run_host("linked")
        self.assertEqual(before, (0, "0 77 0\n", ""))
        self.assertEqual(self.run_host("linked", LD_PRELOAD=LIBRARY), before)

    def test_a_program_that_looks_nccl_up_is_recorded_and_its_child_is_not(self):
        before = self.run_host("by-hand", str(self.nccl))
        self.assertEqual(before, (0, "0 77 0\n", ""))
        self.assertEqual(self.run_host("by-hand", str(self.nccl), LD_PRELOAD=LIBRARY), before)
        rings = list(self.folder.glob("rings/*/*.ring"))
        self.assertEqual(len(rings), 1)
        said = subprocess.run([RING_PRINT, rings[0]], check=True, capture_output=True, text=True, timeout=60).stdout
        ring = dict(line.split() for line in said.splitlines())
        self.assertEqual((ring["AllReduce"], ring["comm0.issued"], ring["comm0.rank"], ring["lost"], ring["problems"]), ("200", "200", "1", "0", "0"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
