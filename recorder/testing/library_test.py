#!/usr/bin/env python3
"""What must hold of liblockstep.so's bytes so that it loads everywhere and shows nothing but the wrapped names.

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
# The lists of NCCL's functions beside the golden one.
NAMES = re.sub(r"\\\n", " ", (pathlib.Path(__file__).parent.parent / "abi/nccl_names.h").read_text(encoding="ascii"))


def listed(which):
    body = re.search(r"#define LOCKSTEP_%s_NAMES\(X\)(.*)" % which, NAMES).group(1)
    return re.findall(r"X\((\w+)", body)


RECORDED = listed("RECORDED")
OF_NCCL = set(RECORDED) | {"p" + name for name in RECORDED} | set(listed("FORWARDED") + listed("TEXT") + listed("SEEN"))
# Exported by an NCCL but not public: no header declares it.
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
    def test_needs_libc_alone(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", LIBRARY)))
        # Nor glibc's loader, by whose file name musl would not know itself.
        self.assertEqual(needed, {"libc.so.6"})

    def test_no_symbol_version_above_the_floor(self):
        versions = set(re.findall(r"GLIBC_(\d+)\.(\d+)", readelf("-V", LIBRARY)))
        self.assertTrue(versions)
        newest = max((int(a), int(b)) for a, b in versions)
        self.assertLessEqual(newest, FLOOR)
        self.assertNotIn("GLIBC_PRIVATE", readelf("-V", LIBRARY))

    def test_every_symbol_it_needs_has_such_a_version(self):
        # But those that every linked object asks for weakly, and what other C libraries than glibc lack.
        unversioned = set()
        for line in readelf("--dyn-syms", LIBRARY).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[6] == "UND" and "@GLIBC_" not in fields[7]:
                unversioned.add((fields[4], fields[7]))
        self.assertLessEqual(unversioned, {("WEAK", "_ITM_deregisterTMCloneTable"), ("WEAK", "_ITM_registerTMCloneTable"),
                                           ("WEAK", "__gmon_start__"), ("WEAK", "_r_debug")})

    def test_binds_whole_at_start(self):
        self.assertRegex(readelf("-d", LIBRARY), r"FLAGS.*NOW|BIND_NOW")

    def test_exports_are_the_golden_list(self):
        with open(GOLDEN, encoding="ascii") as file:
            self.assertEqual(sorted(exported(LIBRARY)), sorted(OF_NCCL | set(file.read().split())))

    def test_dlsym_does_not_see_the_names_of_nccl_and_the_linker_sees_all(self):
        # "@VERSION" is a hidden one; only the first that a library defines is taken for references without a version.
        hidden = exported(LIBRARY, lambda name: name.endswith("@LOCKSTEP") and "@@" not in name)
        self.assertEqual(hidden, OF_NCCL)
        plain = exported(LIBRARY, lambda name: "@" not in name)
        self.assertEqual(plain | hidden, exported(LIBRARY))
        versions = re.findall(r"Index: (\d+) .*Name: (\S+)", readelf("-V", LIBRARY))
        self.assertIn(("2", "LOCKSTEP"), versions)

    def test_its_file_tells_its_version(self):
        with open(LIBRARY, "rb") as file:
            self.assertEqual(len(re.findall(rb"\0liblockstep \d+\.\d+\.\d+\0", file.read())), 1)

    def test_has_no_constructor_that_does_work(self):
        # crt's own frame_dummy is the one entry.
        match = re.search(r"\(INIT_ARRAYSZ\)\s+(\d+)", readelf("-d", LIBRARY))
        self.assertEqual(int(match.group(1)), 8)

    def test_text_is_not_relocated_and_stack_not_executable(self):
        self.assertNotIn("TEXTREL", readelf("-d", LIBRARY))
        self.assertRegex(readelf("-l", LIBRARY), r"GNU_STACK.*RW ")

    def test_every_function_of_the_real_nccl_is_wrapped(self):
        if not REAL_NCCL:
            self.skipTest("no real libnccl.so.2 on this machine")
        real = {name for name in exported(REAL_NCCL) if name.startswith("nccl")}
        self.assertGreater(len(real), 30)
        self.assertEqual(sorted(real - exported(LIBRARY) - LEFT_ALONE), [])

    def test_the_real_cuda_runtime_has_the_wrapped_names_and_all_their_twins(self):
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
