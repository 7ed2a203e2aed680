"""Keeps signals for a test's process group away from other tests."""

import os
import sys


def own_group():
    """Moves this process to its own process group. Otherwise, all tests of one ctest share a group, and the kernel sends SIGHUP to a group that is
    orphaned while one of its processes is stopped: one test's stopped rank and another one's killed parent would end both tests. A terminal's
    Ctrl-C must reach the test, so it stays in the terminal's group."""
    if os.getpgrp() != os.getpid() and not sys.stdin.isatty():
        os.setpgid(0, 0)
