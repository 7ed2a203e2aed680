"""Keeps signals for a test's process group away from other tests."""

import os
import sys


def own_group():
    """Moves this process to a new process group. Otherwise all tests of one ctest share a group. If that group is orphaned while one of its processes is
    stopped, the kernel sends SIGHUP to all of them: one test's stopped rank and another test's killed parent would end both tests. With a terminal, the
    test stays in the terminal's group, because Ctrl-C must reach it."""
    if os.getpgrp() != os.getpid() and not sys.stdin.isatty():
        os.setpgid(0, 0)
