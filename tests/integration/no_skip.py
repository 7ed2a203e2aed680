"""unittest.main() for tests that skip if a tool is missing. LOCKSTEP_NO_SKIP=SCRIPT,SCRIPT.CLASS,.. lists tests for which a skip is a failure, for
machines that must have the tools."""

import os
import sys
import unittest


def forbidden(script, skipped, names):
    """Returns a line for each of `skipped` (pairs of test ID and reason) that `names` forbids to skip."""
    lines = []
    for test, reason in skipped:
        full = test.replace("__main__", script)
        whole = any(name == script for name in names)
        if whole or any("." in name and (full + ".").startswith(name + ".") for name in names):
            lines.append(f"{full} was skipped ({reason}), which LOCKSTEP_NO_SKIP forbids")
    return lines


def main(**options):
    script = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    names = [name for name in os.environ.get("LOCKSTEP_NO_SKIP", "").split(",") if name]
    result = unittest.main(exit=False, **options).result
    lines = forbidden(script, [(test.id(), reason) for test, reason in result.skipped], names)
    for line in lines:
        print(line, file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() and not lines else 1)
