#!/usr/bin/env python3
"""Checks that no two types in different files have the same name. A program that links both would use one destructor for both, without a compiler warning."""

import collections
import os
import re
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("analyzer", "collector", "gui", "recorder", "tests/corpus", "tests/jobmodel", "tests/support")


def types_in(path):
    """Yields the qualified names of the types that the file defines outside anonymous namespaces."""
    names = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if opened := re.match(r"namespace ([\w:]*) ?\{", line):
                names.append(opened.group(1))
            elif line.startswith("}  // namespace") and names:
                names.pop()
            elif "" not in names and (found := re.match(r"(?:class|struct|enum class) (\w+)(?: final)?(?: ?:[^:].*)? ?\{", line)):
                yield "::".join([*names, found.group(1)])


class TypeNamesTest(unittest.TestCase):
    def test_no_name_is_used_twice(self):
        files = collections.defaultdict(set)
        for folder in FOLDERS:
            for where, _, names in os.walk(os.path.join(SOURCE, folder)):
                for name in names:
                    path = os.path.join(where, name)
                    if name.endswith((".cpp", ".h")):
                        for found in types_in(path):
                            files[found].add(os.path.relpath(path, SOURCE))
        self.assertGreater(len(files), 500, "the sources were not read")
        # NCCL's names may be defined twice, because a stub of NCCL and its caller are never linked together.
        twice = {name: sorted(paths) for name, paths in files.items() if len(paths) > 1 and name.startswith("lockstep::")}
        self.assertEqual(twice, {})


if __name__ == "__main__":
    unittest.main()
