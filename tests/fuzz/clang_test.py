#!/usr/bin/env python3
"""What the fuzzers are made of is C++ that Clang takes, too: everything else compiles it with the system's compiler only."""

import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys
import unittest

SOURCE, GENERATED = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, os.path.join(SOURCE, "tests/integration"))
import no_skip  # noqa: E402

# As tests/fuzz/CMakeLists.txt has them.
FOLDERS = ("analyzer", "recorder/ring", "tests/fuzz")
OTHERS = ("collector/common/rank_set.cpp", "collector/wire/frame.cpp", "collector/wire/shape.cpp")


def sources():
    found = [path for folder in FOLDERS for path in sorted(glob.glob(os.path.join(SOURCE, folder, "**/*.cpp"), recursive=True))]
    return [path for path in found if not path.endswith(("_test.cpp", "_main.cpp", "_test_preload.cpp")) and "/testing/" not in path] + [os.path.join(SOURCE, path) for path in OTHERS]


def check(clang, path):
    command = [clang, "-fsyntax-only", "-std=c++20", "-Wall", "-Wextra", "-DLOCKSTEP_VERSION=\"0\"", "-I", SOURCE, "-isystem", GENERATED, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return "" if done.returncode == 0 else f"{path}:\n{done.stderr[:4000]}"


class ClangTest(unittest.TestCase):
    def test_compiles(self):
        clang = shutil.which("clang++")
        if clang is None:
            self.skipTest("no clang++ on this machine")
        files = sources()
        self.assertGreater(len(files), 100)
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            wrong = [text for text in pool.map(lambda path: check(clang, path), files) if text]
        self.assertEqual(wrong, [], "\n".join(wrong))


if __name__ == "__main__":
    no_skip.main()
