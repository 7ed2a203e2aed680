#!/usr/bin/env python3
"""Tests `lockstep attach --agents`: agents examine a job that runs without the recorder. All hosts are this machine."""

import os
import shutil
import subprocess
import unittest

import no_skip
from at_rest import at_rest
from cluster import Cluster
from support import BIN, STANDIN, free_port, read_json, tool, wait_for


class ExamineTest(unittest.TestCase):
    def make(self, relays=0):
        """Starts two hosts, each with two ranks of a job. Rank 3 stops."""
        made = Cluster(relays=relays)
        self.addCleanup(made.close)
        subprocess.run([os.path.join(BIN, "lockstep-keygen"), "--role", "reader", made.keys], stdout=subprocess.DEVNULL, check=True)
        port = free_port()
        for rank in range(4):
            made.ranks.append(made.start(
                "trainsim", f"rank{rank}", "--tp", "2", "--dp", "2", "--steps", "1000000", "--fault", "rank=3,step=20,kind=stall-host", RANK=str(rank),
                WORLD_SIZE="4", LOCAL_RANK=str(rank % 2), LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), STANDIN_WAIT="block",
                LD_LIBRARY_PATH=STANDIN))
        made.start_collector()
        for relay in range(relays):
            made.start_relay(relay)
        for host in range(2):
            self.start_agent(made, host)
        self.assertTrue(wait_for(lambda: "fault" in made.log("rank3"), 60), made.logs())
        self.assertTrue(wait_for(at_rest([made.ranks[rank].pid for rank in range(3)]), 60), made.logs())
        self.assertTrue(wait_for(lambda: all("connected to a collector" in made.log(os.path.join(f"spool{host}", "agent")) for host in range(2)), 60), made.logs())
        return made

    @staticmethod
    def start_agent(made, host):
        """Starts an agent whose lockstep-attach sees only the ranks of this host."""
        folder = made.path(f"programs{host}")
        os.mkdir(folder)
        shutil.copy(os.path.join(BIN, "lockstep-agent"), folder)
        with open(os.path.join(folder, "lockstep-attach"), "w") as file:
            file.write(f'#!/bin/sh\nexec {BIN}/lockstep-attach "$@" {made.ranks[2 * host].pid} {made.ranks[2 * host + 1].pid}\n')
        os.chmod(os.path.join(folder, "lockstep-attach"), 0o700)
        start = made.start
        made.start = lambda program, *words, **more: start(os.path.join(folder, program), *words, **more)
        made.start_agent(host)
        made.start = start

    def attach(self, made, out, *arguments, **environment):
        return tool(made, "lockstep-attach", "--agents", "--collector", f"tcp://127.0.0.1:{made.port}", "--out", made.path(out), *arguments, **environment)

    def name(self, made):
        result = self.attach(made, "incident")
        self.assertEqual(result.returncode, 1, result.stderr + made.logs())
        verdict = read_json(made.path("incident", "verdict.json"))
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[3]], result.stdout)
        self.assertEqual((verdict["findings"][0]["culprits"][0]["host"], verdict["ranks_read"]), ("node1", 4))
        self.assertIn("examine the processes of job ''", made.log("collector"))
        for host in range(2):
            self.assertIn("examining the processes of job ''", made.log(os.path.join(f"spool{host}", "agent")) + made.log(f"agent{host}"))

    def test_agents_examine_a_job_for_an_operator_and_for_nobody_else(self):
        made = self.make()
        self.assertEqual(self.attach(made, "none", "--job=--help; reboot").returncode, 3)
        os.rename(os.path.join(made.keys, "operator.key"), made.path("operator.key"))
        for key, word in (("reader", "role reader"), ("agent", "role agent"), (None, "key")):
            arguments = ["--key", os.path.join(made.keys, key + ".key")] if key else ["--insecure"]
            result = self.attach(made, "refused", *arguments, LOCKSTEP_KEYS=made.keys if key else made.path("no-keys"))
            self.assertEqual((result.returncode, os.path.exists(made.path("refused"))), (3, False), (key, result.stderr))
        self.assertEqual(made.log("collector").count("examine the processes"), 1, made.logs())
        os.rename(made.path("operator.key"), os.path.join(made.keys, "operator.key"))
        self.assertTrue(wait_for(lambda: "the examination ended" in made.log("collector"), 60))
        result = self.attach(made, "early")
        if result.returncode == 3:
            self.assertIn("the last examination began", result.stderr)
        self.assertTrue(wait_for(lambda: self.attach(made, "any").returncode == 1, 60), made.logs())

    def test_the_answers_make_one_incident(self):
        self.name(self.make())

    def test_agents_behind_a_relay_are_asked(self):
        self.name(self.make(relays=1))


if __name__ == "__main__":
    no_skip.main()
