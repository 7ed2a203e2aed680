#!/usr/bin/env python3
"""Checks the JSON of `lockstep analyze` against `--json-schema` for many kinds of corpus cases. The schema allows no other keys."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
import no_skip  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

BUILD = os.path.abspath(os.environ.get("LOCKSTEP_BUILD", "build"))
ANALYZE = os.path.join(BUILD, "bin/lockstep-analyze")
CORPUS = os.path.join(BUILD, "bin/lockstep-corpus")
# A skipped call, another kind of call, another reduction, a checkpoint, a dead rank, a GPU error, a stuck process, a
# cycle, damaged files, a slow host.
SCENARIOS = (1, 3, 5, 8, 14, 17, 21, 23, 30, 42)


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)


@unittest.skipUnless(jsonschema, "the Python package jsonschema is missing")
class VerdictSchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schema = json.loads(run(ANALYZE, "--json-schema").stdout)
        jsonschema.Draft7Validator.check_schema(cls.schema)
        cls.validator = jsonschema.Draft7Validator(cls.schema)
        cls.verdicts = []
        with tempfile.TemporaryDirectory(prefix="lockstep-schema-test-") as folder:
            for number in SCENARIOS:
                for form in ("lsd", "fr"):
                    out = os.path.join(folder, f"{number}.{form}")
                    made = run(CORPUS, "generate", "--scenario", str(number), "--ranks", "8", "--format", form, "--out", out)
                    if made.returncode == 0:  # some scenarios exist in only one format
                        cls.verdicts.append(json.loads(run(ANALYZE, "--format", "json", out + "/data").stdout))

    def errors(self, verdict):
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in self.validator.iter_errors(verdict)]

    def test_verdicts_match_the_schema(self):
        self.assertGreaterEqual(len(self.verdicts), len(SCENARIOS))
        findings = [finding for verdict in self.verdicts for finding in verdict["findings"]]
        self.assertGreaterEqual(len({finding["kind"] for finding in findings}), 5)
        self.assertIn("STACK", {evidence["kind"] for finding in findings for evidence in finding["evidence"]})
        for verdict in self.verdicts:
            self.assertEqual(self.errors(verdict), [])
            self.assertEqual(verdict["schema_version"], 6)

    def test_unknown_and_missing_keys_are_errors(self):
        whole = next(verdict for verdict in self.verdicts if any(finding["evidence"] for finding in verdict["findings"]))
        for path in ((), ("findings", 0), ("findings", 0, "evidence", 0), ("start_up",)):
            for change in (lambda part: part.update(unheard_of=1), lambda part: part.pop(next(iter(part)))):
                changed = copy.deepcopy(whole)
                part = changed
                for step in path:
                    part = part[step]
                change(part)
                self.assertNotEqual(self.errors(changed), [], path)


if __name__ == "__main__":
    no_skip.main()
