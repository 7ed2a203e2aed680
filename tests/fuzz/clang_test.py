#!/usr/bin/env python3
"""Checks that Clang compiles the fuzzers' sources; everything else is compiled only with the system's compiler."""

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

# The folders that the fuzzers link.
FOLDERS = ("analyzer", "recorder/ring", "collector/common", "collector/wire", "tests/fuzz")


def units():
    """Yields the compilations of those folders in this build. Most contain
    several sources."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        entries = json.load(file)
    for path in sorted({entry["file"] for entry in entries}):
        where = os.path.relpath(path, BUILD if path.startswith(BUILD + "/") else SOURCE)
        if where.startswith(FOLDERS) and "_test" not in where and "testing" not in where and \
                os.path.basename(where) != "notes_fuzz.cpp":  # this source needs Qt's flags
            yield path


def check(clang, path):
    command = [clang, "-fsyntax-only", "-std=c++20", "-Wall", "-Wextra", "-DLOCKSTEP_VERSION=\"0\"", "-I", SOURCE, "-isystem",
               os.path.join(BUILD, "proto/generated"), path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return "" if done.returncode == 0 else f"{path}:\n{done.stderr[:4000]}"


class ClangTest(unittest.TestCase):
    def test_clang_accepts_every_source(self):
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
