"""Lockstep for Python programs: the recorder, the `lockstep` command, and verdicts as dictionaries.

    import lockstep
    verdict = lockstep.verdict("incident")
    if verdict["verdict"] == "HUNG":
        print(verdict["findings"][0]["culprit_ranks"])

`python -m lockstep run -- torchrun ...` and `lockstep run` start the command."""

import json
import os
import subprocess

__all__ = ["Error", "library", "program", "verdict"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class Error(Exception):
    """Raised if there is no verdict. The text explains why."""


def program():
    """Returns the path of the `lockstep` program."""
    return os.path.join(_FOLDER, "bin", "lockstep")


def library():
    """Returns the path of the recorder, for LD_PRELOAD if `lockstep run` does not start the job."""
    return os.path.join(_FOLDER, "lib", "liblockstep.so")


def verdict(*paths, timeout=None):
    """Returns the verdict of `lockstep analyze` on these incidents, rings, dumps and logs of one job. docs/verdict.md describes the JSON.

    If the analysis takes longer than `timeout` seconds, subprocess.TimeoutExpired is raised. If no file is readable, Error is raised."""
    if not paths:
        raise TypeError("verdict() needs a path")
    command = [program(), "analyze", "--format", "json", *(os.path.abspath(os.fspath(path)) for path in paths)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)
    if done.returncode not in (0, 1):
        raise Error(done.stderr.decode(errors="replace").strip() or "lockstep analyze ended with %d" % done.returncode)
    return json.loads(done.stdout)
