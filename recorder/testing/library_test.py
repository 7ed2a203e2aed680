#!/usr/bin/env python3
"""Checks liblockstep.so's bytes, so that it loads everywhere and shows only the wrapped names.

library_test.py LIBRARY GOLDEN_EXPORTS [REAL_NCCL]
"""

import glob
import pathlib
import re
import subprocess
import sys
import unittest

LIBRARY, GOLDEN, REAL_NCCL = (sys.argv[1:] + [None, None, None])[:3]
FLOOR = (2, 17)
# The lists of NCCL's functions, and the golden list.
NAMES = re.sub(r"\\\n", " ", (pathlib.Path(__file__).parent.parent / "abi/nccl_names.h").read_text(encoding="ascii"))


def listed(which):
    body = re.search(r"#define LOCKSTEP_%s_NAMES\(X\)(.*)" % which, NAMES).group(1)
    return re.findall(r"X\((\w+)", body)


RECORDED = listed("RECORDED")
OF_NCCL = set(RECORDED) | {"p" + name for name in RECORDED} | set(listed("FORWARDED") + listed("TEXT") + listed("SEEN"))
# NCCL exports this function, but no header declares it, so it is not public.
LEFT_ALONE = {"ncclResetDebugInitInternal"}


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def exported(path, of=lambda name: True):
    names = set()
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND" and fields[6] != "ABS":
            if of(fields[7]):
                names.add(fields[7].split("@")[0])
    return names


class LibraryTest(unittest.TestCase):
    def test_the_library_needs_only_libc(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", LIBRARY)))
        # Not even glibc's loader is needed, whose file name musl would not recognize.
        self.assertEqual(needed, {"libc.so.6"})

    def test_no_symbol_needs_a_newer_glibc(self):
        versions = set(re.findall(r"GLIBC_(\d+)\.(\d+)", readelf("-V", LIBRARY)))
        self.assertTrue(versions)
        newest = max((int(a), int(b)) for a, b in versions)
        self.assertLessEqual(newest, FLOOR)
        self.assertNotIn("GLIBC_PRIVATE", readelf("-V", LIBRARY))

    def test_every_needed_symbol_has_an_allowed_version(self):
        # Exceptions are symbols that every linked object references weakly, and symbols that other C libraries do not
        # have.
        unversioned = set()
        for line in readelf("--dyn-syms", LIBRARY).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[6] == "UND" and "@GLIBC_" not in fields[7]:
                unversioned.add((fields[4], fields[7]))
        self.assertLessEqual(unversioned, {("WEAK", "_ITM_deregisterTMCloneTable"), ("WEAK", "_ITM_registerTMCloneTable"),
                                           ("WEAK", "__gmon_start__"), ("WEAK", "_r_debug")})

    def test_all_symbols_are_bound_at_the_start(self):
        self.assertRegex(readelf("-d", LIBRARY), r"FLAGS.*NOW|BIND_NOW")

    def test_exports_match_the_golden_list(self):
        with open(GOLDEN, encoding="ascii") as file:
            self.assertEqual(sorted(exported(LIBRARY)), sorted(OF_NCCL | set(file.read().split())))

    def test_the_linker_sees_the_nccl_names_and_dlsym_does_not(self):
        # "@VERSION" is a hidden symbol. References without a version use only the first symbol that a library
        # defines.
        hidden = exported(LIBRARY, lambda name: name.endswith("@LOCKSTEP") and "@@" not in name)
        self.assertEqual(hidden, OF_NCCL)
        plain = exported(LIBRARY, lambda name: "@" not in name)
        self.assertEqual(plain | hidden, exported(LIBRARY))
        versions = re.findall(r"Index: (\d+) .*Name: (\S+)", readelf("-V", LIBRARY))
        self.assertIn(("2", "LOCKSTEP"), versions)

    def test_the_file_contains_its_version(self):
        with open(LIBRARY, "rb") as file:
            self.assertEqual(len(re.findall(rb"\0liblockstep \d+\.\d+\.\d+\0", file.read())), 1)

    def test_no_constructor_does_any_work(self):
        # The only entry is crt's own frame_dummy.
        match = re.search(r"\(INIT_ARRAYSZ\)\s+(\d+)", readelf("-d", LIBRARY))
        self.assertEqual(int(match.group(1)), 8)

    def test_text_is_not_relocated_and_the_stack_is_not_executable(self):
        self.assertNotIn("TEXTREL", readelf("-d", LIBRARY))
        self.assertRegex(readelf("-l", LIBRARY), r"GNU_STACK.*RW ")

    def test_every_function_of_the_real_nccl_is_wrapped(self):
        if not REAL_NCCL:
            self.skipTest("no real libnccl.so.2 on this machine")
        real = {name for name in exported(REAL_NCCL) if name.startswith("nccl")}
        self.assertGreater(len(real), 30)
        self.assertEqual(sorted(real - exported(LIBRARY) - LEFT_ALONE), [])

    def test_the_real_cuda_runtime_has_all_wrapped_names_and_twins(self):
        found = sorted(path for folder in ("/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/lib/x86_64-linux-gnu")
                       for path in glob.glob(folder + "/libcudart.so.*"))
        if not found:
            self.skipTest("no real libcudart.so on this machine")
        real = {name for name in exported(found[-1]) if name.startswith("cuda")}
        wrapped = {name for name in exported(LIBRARY) if name.startswith("cuda")}
        self.assertGreater(len(wrapped), 50)
        newer = {"cudaMemcpyWithAttributesAsync", "cudaMemcpy3DWithAttributesAsync"}  # since CUDA 13.2
        self.assertEqual(sorted(wrapped - real - newer - {name + "_ptsz" for name in newer}), [])
        twins = {name + twin for name in wrapped for twin in ("_ptsz", "_ptds")}
        self.assertEqual(sorted((twins & real) - wrapped), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
