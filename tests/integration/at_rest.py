"""Detects that all processes of a job wait."""

import re
import time


def at_rest(pids, but=0):
    """Returns a function that returns whether no main thread of these processes has run for half a second, except in at most `but` processes. A process
    that has exited counts as waiting."""
    seen, since = {}, {}

    def condition():
        now = time.monotonic()
        for pid in pids:
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
                    switches = re.findall(r"ctxt_switches:\s+(\d+)", file.read())
            except OSError:
                switches = []
            if pid not in seen or seen[pid] != switches:
                seen[pid], since[pid] = switches, now
        return sum(now - since[pid] < 0.5 for pid in pids) <= but
    return condition
