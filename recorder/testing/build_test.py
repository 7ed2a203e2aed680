#!/usr/bin/env python3
"""Checks that a compiler and CMake are enough to build the recorder. Builds
it for 64-bit ARM too, and runs it in an emulator.

build_test.py SOURCE BUILD_FOLDER RING_PRINT CXX
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

SOURCE, FOLDER, RING_PRINT, CXX = sys.argv[1:5]
ALONE = ["-DLOCKSTEP_ANALYZER=OFF", "-DLOCKSTEP_COLLECTOR=OFF", "-DLOCKSTEP_TESTS=OFF", "-DLOCKSTEP_WERROR=ON"]
ARM_ROOT = "/usr/aarch64-linux-gnu"
ARM_CXX = "aarch64-linux-gnu-g++"


def run(*command, **more):
    result = subprocess.run(command, capture_output=True, text=True, timeout=500, **more)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} gave {result.returncode}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return result.stdout


def generator():
    return ["-G", "Ninja"] if shutil.which("ninja") else []


def library_test(library):
    return run(sys.executable, f"{SOURCE}/recorder/testing/library_test.py", library, f"{SOURCE}/recorder/exports.txt")


class AloneTest(unittest.TestCase):
    def test_a_compiler_and_cmake_are_enough(self):
        """Removes every other tool from the PATH, and hides every package
        that CMake could find."""
        top = pathlib.Path(FOLDER, "alone")
        tools = top / "tools"
        shutil.rmtree(tools, ignore_errors=True)
        tools.mkdir(parents=True)
        build_tool = "ninja" if shutil.which("ninja") else "make"
        for name in ("cmake", build_tool, "as", "ld", "ar", "ranlib", "sh"):
            path = shutil.which(name)
            if path is None:
                self.skipTest(f"no {name} here")
            # Links the real program: a version manager's wrapper would need the PATH.
            (tools / name).symlink_to(os.path.realpath(path))
        (tools / "c++").symlink_to(os.path.realpath(shutil.which(CXX) or CXX))
        environment = {"PATH": str(tools), "HOME": "/nonexistent", "LC_ALL": "C"}
        without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in
                   ("Protobuf", "absl", "GTest", "benchmark", "PkgConfig", "nlohmann_json", "Python3", "Threads", "CUDAToolkit")]
        build = top / "build"
        run("cmake", "-S", SOURCE, "-B", str(build), "-G", "Ninja" if build_tool == "ninja" else "Unix Makefiles",
            "-DCMAKE_CXX_COMPILER=c++", *ALONE, *without, env=environment)
        run("cmake", "--build", str(build), env=environment)
        self.assertTrue((build / "lib" / "liblockstep.so").is_file())
        library_test(build / "lib" / "liblockstep.so")


class ArmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in (ARM_CXX, "qemu-aarch64"):
            if shutil.which(tool) is None:
                raise unittest.SkipTest(f"no {tool} here (packages g++-aarch64-linux-gnu, qemu-user)")
        cls.top = pathlib.Path(FOLDER, "aarch64")
        cls.top.mkdir(parents=True, exist_ok=True)
        build = cls.top / "build"
        run("cmake", "-S", SOURCE, "-B", str(build), *generator(), "--toolchain", f"{SOURCE}/cmake/aarch64-linux-gnu.cmake", *ALONE)
        run("cmake", "--build", str(build))
        cls.library = build / "lib" / "liblockstep.so"
        nccl = cls.top / "nccl"
        nccl.mkdir(exist_ok=True)
        cls.nccl = nccl / "libnccl.so.2"
        cls.host = cls.top / "arm_host"
        run(ARM_CXX, "-std=c++20", "-O2", "-fPIC", "-shared", "-I", SOURCE, "-Wl,-soname,libnccl.so.2", "-o", cls.nccl,
            f"{SOURCE}/tests/bench/recorder_idle_nccl.cpp")
        run(ARM_CXX, "-std=c++20", "-O2", "-pthread", "-I", SOURCE, "-o", cls.host, f"{SOURCE}/recorder/testing/arm_host.cpp", cls.nccl)

    def host_says(self, *arguments, recorded=True, kib=512, program=None):
        rings = self.top / "rings"
        shutil.rmtree(rings, ignore_errors=True)
        variables = [f"LD_LIBRARY_PATH={self.nccl.parent}"]
        if recorded:
            variables += [f"LD_PRELOAD={self.library}", f"LOCKSTEP_DIR={rings}", f"LOCKSTEP_RING_KIB={kib}"]
        command = ["qemu-aarch64", "-L", ARM_ROOT]
        for variable in variables:
            command += ["-E", variable]
        return run(*command, program or str(self.host), *arguments)

    def ring(self):
        files = list(self.top.glob("rings/*/*.ring"))
        self.assertEqual(len(files), 1)
        return dict(line.split() for line in run(RING_PRINT, str(files[0])).splitlines())

    def check_whole(self, ring):
        self.assertEqual(ring["ticks"], "3", "cntvct")
        self.assertGreater(int(ring["hz"]), 1_000_000)
        self.assertEqual(ring["state"], "2", "a clean exit")
        for nothing in ("lost", "problems", "without_site", "wrong_seq", "unfinished", "backwards"):
            self.assertEqual(ring[nothing], "0", nothing)

    def test_the_arm_library_loads_everywhere_and_exports_only_the_wrapped_names(self):
        library_test(self.library)

    def test_a_linked_program_is_recorded_on_arm(self):
        said = self.host_says("linked")
        ring = self.ring()
        self.check_whole(ring)
        self.assertEqual((ring["AllReduce"], ring["Send"], ring["Recv"]), ("100", "40", "40"))
        self.assertEqual((ring["comm0.issued"], ring["comm0.rank"], ring["comm0.size"]), ("100", "2", "4"))
        self.assertEqual(said, self.host_says("linked", recorded=False))

    def test_a_program_that_looks_functions_up_is_recorded_on_arm(self):
        said = self.host_says("by-hand", str(self.nccl))
        ring = self.ring()
        self.check_whole(ring)
        self.assertEqual(ring["AllReduce"], "50")
        self.assertEqual((ring["comm0.issued"], ring["comm0.rank"]), ("50", "1"))
        self.assertEqual(said, self.host_says("by-hand", str(self.nccl), recorded=False))

    def test_lookups_on_arm_answer_as_without_the_recorder(self):
        twins = []
        for twin in (1, 2):
            folder = self.top / f"twin{twin}"
            folder.mkdir(exist_ok=True)
            twins.append(str(folder / "libnccl.so.2"))
            run(ARM_CXX, "-std=c++20", "-O2", "-fPIC", "-shared", f"-DLOCKSTEP_TWIN={twin}", "-Wl,-soname,libnccl.so.2",
                "-o", twins[-1], f"{SOURCE}/recorder/testing/twin_nccl.cpp")
        plugin = str(self.top / "plugin.so")
        run(ARM_CXX, "-std=c++20", "-O2", "-fPIC", "-shared", f"-Wl,-rpath,{self.top}/twin1", "-o", plugin,
            f"{SOURCE}/recorder/testing/plugin.cpp", twins[0])
        host = str(self.top / "lookup_host")
        run(ARM_CXX, "-std=c++20", "-O2", "-pthread", "-o", host, f"{SOURCE}/recorder/testing/lookup_host.cpp")
        for arguments in (["probe", *twins, plugin], ["two", *twins], ["default-first", twins[0]], ["second-names", twins[0]],
                          ["plugin-default", plugin], ["race", *twins]):
            said = self.host_says(*arguments, program=host)
            recorded = len(list(self.top.glob("rings/*/*.ring")))
            self.assertEqual(recorded, 0 if arguments[0] == "probe" else 1, arguments)
            self.assertEqual(said, self.host_says(*arguments, program=host, recorded=False))

    def test_threads_are_recorded_on_arm(self):
        self.assertEqual(self.host_says("threads", kib=4096), "0\n")
        ring = self.ring()
        self.check_whole(ring)
        self.assertEqual([ring[f"comm{i}.issued"] for i in range(8)], ["2000"] * 8)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
