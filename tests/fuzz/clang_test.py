#!/usr/bin/env python3
"""What the fuzzers are made of is C++ that Clang takes, too: everything else compiles it with the system's compiler only."""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import unittest

SOURCE, BUILD = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, os.path.join(SOURCE, "tests/integration"))
import no_skip  # noqa: E402

# What the fuzzers are linked from.
FOLDERS = ("analyzer", "recorder/ring", "collector/common", "collector/wire", "tests/fuzz")


def units():
    """The units of those folders as this build compiles them: most hold several sources."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        entries = json.load(file)
    for path in sorted({entry["file"] for entry in entries}):
        where = os.path.relpath(path, BUILD if path.startswith(BUILD + "/") else SOURCE)
        if where.startswith(FOLDERS) and "_test" not in where and "testing" not in where and \
                os.path.basename(where) != "notes_fuzz.cpp":  # needs Qt's flags
            yield path


def check(clang, path):
    command = [clang, "-fsyntax-only", "-std=c++20", "-Wall", "-Wextra", "-DLOCKSTEP_VERSION=\"0\"", "-I", SOURCE, "-isystem",
               os.path.join(BUILD, "proto/generated"), path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return "" if done.returncode == 0 else f"{path}:\n{done.stderr[:4000]}"


class ClangTest(unittest.TestCase):
    def test_compiles(self):
        clang = shutil.which("clang++")
        if clang is None:
            self.skipTest("no clang++ on this machine")
        files = list(units())
        self.assertGreater(len(files), 20)
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            wrong = [text for text in pool.map(lambda path: check(clang, path), files) if text]
        self.assertEqual(wrong, [], "\n".join(wrong))


if __name__ == "__main__":
    no_skip.main()
