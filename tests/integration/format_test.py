#!/usr/bin/env python3
"""Checks that clang-format leaves every C++ file unchanged. Skips unless the version is 14 (Debian 12), because others format differently."""

import os
import re
import shutil
import subprocess
import unittest

import no_skip

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("analyzer", "collector", "gui", "packaging", "recorder", "tests")


def files():
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(SOURCE, folder)):
            yield from (os.path.join(where, name) for name in names if name.endswith((".cpp", ".h")))


class FormatTest(unittest.TestCase):
    def test_every_file_is_formatted(self):
        tool = shutil.which("clang-format-14") or shutil.which("clang-format")
        if tool is None:
            self.skipTest("clang-format is not installed")
        version = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        if not re.search(r"version 14\.", version):
            self.skipTest("not clang-format 14: " + version.strip())
        found = sorted(files())
        self.assertGreater(len(found), 500)
        done = subprocess.run([tool, "--dry-run", *found], capture_output=True, text=True, timeout=110)
        wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "-Wclang-format-violations" in line})
        self.assertEqual(wrong, [], "run: clang-format -i " + " ".join(os.path.relpath(path, SOURCE) for path in wrong))


if __name__ == "__main__":
    no_skip.main()
