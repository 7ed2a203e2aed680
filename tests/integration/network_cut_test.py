#!/usr/bin/env python3
"""Runs collector and agents in separate network namespaces, connected by a cable that is pulled and plugged in again. Uses keys, because the cable is no
loopback. The machine's own network stays unchanged. Skips if namespaces cannot be created."""

import os
import signal
import subprocess
import sys
import unittest

from cluster import Cluster, ledger
from support import BIN, read_json, wait_for

STALL = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--fault", "rank=2,step=40,kind=stall-host,comm=dp"]
HERE, THERE = "10.77.0.1", "10.77.0.2"


class Namespace:
    """A network namespace that exists as long as its holder process."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        own = os.readlink("/proc/self/ns/net")

        def entered():
            try:
                return os.readlink(f"/proc/{self.holder.pid}/ns/net") != own
            except OSError:
                return False

        self.there = wait_for(lambda: entered() or self.holder.poll() is not None, 20) and self.holder.poll() is None
        self.prefix = ["nsenter", "-t", str(self.holder.pid), "-n"]

    def run(self, *command):
        return subprocess.run([*self.prefix, *command], capture_output=True, text=True)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class NetworkCutTest(unittest.TestCase):
    def setUp(self):
        try:
            self.root, self.nodes = Namespace(), Namespace()
        except OSError as error:
            self.skipTest(f"no unshare: {error}")
        for namespace in (self.root, self.nodes):
            self.addCleanup(namespace.close)
        if not self.root.there or not self.nodes.there:
            self.skipTest("this machine does not allow network namespaces")
        steps = [(self.root, "ip", "link", "add", "name", "cablehere", "type", "veth", "peer", "name", "cablethere", "netns", str(self.nodes.holder.pid)),
                 (self.root, "ip", "addr", "add", HERE + "/24", "dev", "cablehere"), (self.root, "ip", "link", "set", "cablehere", "up"),
                 (self.root, "ip", "link", "set", "lo", "up"), (self.nodes, "ip", "addr", "add", THERE + "/24", "dev", "cablethere"),
                 (self.nodes, "ip", "link", "set", "cablethere", "up"), (self.nodes, "ip", "link", "set", "lo", "up")]
        for namespace, *command in steps:
            try:
                done = namespace.run(*command)
            except OSError as error:
                self.skipTest(f"no {command[0]} or nsenter: {error}")
            if done.returncode != 0:
                self.skipTest(f"{' '.join(command)}: {done.stderr.strip()}")

    def cable(self, state):
        # Packets are lost silently: neither end notices.
        done = self.nodes.run("ip", "link", "set", "cablethere", state)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_gathering_continues_after_a_cable_was_pulled_and_put_back(self):
        made = Cluster()
        self.addCleanup(made.close)
        keys = made.path("keys")
        for role in ("collector", "agent"):
            subprocess.run([os.path.join(BIN, "lockstep-keygen"), "--role", role, keys], check=True, capture_output=True)
        endpoint = f"tcp://{HERE}:{made.port}"
        made.collector = made.start("lockstep-collector", "collector", "--listen", endpoint, "--keys", keys, "--out", made.out, "--late-after", "1",
                                    prefix=self.root.prefix)
        self.assertTrue(wait_for(lambda: "listens on" in made.log("collector"), 60), made.logs())
        made.prefix = self.nodes.prefix
        for host in range(made.hosts):
            made.start_agent(host, endpoint, "--key", os.path.join(keys, "agent.key"), "--server-key", os.path.join(keys, "collector.pub"))
        made.start_ranks(*STALL)
        self.assertTrue(wait_for(lambda: "new job " in made.log("collector"), 120), made.logs())
        wait_for(lambda: False, 3)  # waits for heartbeats of both hosts, because only a host that has reported a rank can become silent
        self.cable("down")
        self.assertTrue(wait_for(lambda: made.log("collector").count("gone silent") >= 1, 60), made.logs())
        wait_for(lambda: made.log("collector").count("gone silent") >= 2, 5)
        silent = made.log("collector").count("gone silent")
        self.cable("up")
        self.assertTrue(wait_for(lambda: made.log("collector").count("is reporting again") >= silent, 180), made.logs())
        folders = wait_for(made.incidents, 240)
        self.assertTrue(folders, made.logs())
        self.cable("down")  # cuts the cable during gathering
        wait_for(lambda: False, 7)
        self.cable("up")
        self.assertTrue(wait_for(lambda: made.incidents() and len(made.whole()) == len(made.incidents()), 300), made.logs())
        for folder in made.whole():
            verdict = read_json(folder, "verdict.json")
            # An incident that was declared during the cut names the unreachable hosts or the stalled rank, never another rank.
            culprits = verdict["findings"][0]["culprit_ranks"] if verdict["findings"] else []
            self.assertTrue(not culprits or 2 in culprits or verdict["findings"][0]["kind"] == "RANK_NO_DATA", made.logs())
            ids, problems = ledger(folder)
            self.assertEqual(problems, [])
            self.assertEqual(len(ids), len(set(ids)))

    def test_without_keys_nothing_starts(self):
        made = Cluster(keys=False)
        self.addCleanup(made.close)
        refused = self.root.run(os.path.join(BIN, "lockstep-collector"), "--listen", f"tcp://{HERE}:{made.port}", "--out", made.out)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("key", refused.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cleanup kills the holders of the namespaces
    unittest.main(verbosity=2)
