#!/usr/bin/env python3
"""Simulates faults of a cluster with real processes on the loopback: a host disappears with all its processes, a relay hangs, connections to a relay break
during gathering, and two processes claim the same rank."""

import json
import os
import signal
import unittest

from cluster import ClusterCase, Proxy
from support import read_json, wait_for

STALL = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--fault", "rank=2,step=40,kind=stall-host,comm=dp"]
RUNS = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--pace-ms", "5"]


def decisions(made):
    try:
        with open(os.path.join(made.out, "decisions.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return []


class ClusterFaultsTest(ClusterCase):
    def verdict(self, made, seconds=120):
        folders = wait_for(made.incidents, seconds)
        self.assertTrue(folders, made.logs())
        path = os.path.join(folders[0], "verdict.json")
        self.assertTrue(wait_for(lambda: os.path.exists(path), 30), made.logs())
        return read_json(path)

    def test_a_lost_host_is_the_cause(self):
        made = self.make()
        made.start_all(*RUNS)
        self.assertTrue(wait_for(lambda: len(made.log("collector")) and "new job " in made.log("collector"), 120), made.logs())
        wait_for(lambda: False, 3)  # gives the job some history
        # node1 loses power: no process remains that could report an exit.
        for process in (made.agents[1], made.ranks[2], made.ranks[3]):
            process.send_signal(signal.SIGKILL)
        verdict = self.verdict(made)
        hung = [decision for decision in decisions(made) if decision["decision"] == "hung"]
        self.assertEqual([decision["rule"] for decision in hung], ["lost host"], made.logs())
        first = verdict["findings"][0]
        self.assertTrue(first["culprit_ranks"] and set(first["culprit_ranks"]) <= {2, 3}, f"{first} {made.logs()}")
        self.assertIn("node1", json.dumps(verdict["problems"]) + first["summary"], "the verdict must name the host")

    def test_a_hung_relay_does_not_delay_the_other_relays_messages(self):
        made = self.make(relays=2)  # node0 uses relay 0; node1 with rank 2 uses relay 1
        made.start_all(*STALL)
        self.assertTrue(wait_for(lambda: "new job " in made.log("collector"), 120), made.logs())
        self.assertTrue(wait_for(lambda: "relay is connected" in made.log("relay0") and "relay is connected" in made.log("relay1"), 60), made.logs())
        made.relays[0].send_signal(signal.SIGSTOP)
        try:
            verdict = self.verdict(made)
            self.assertEqual(verdict["findings"][0]["culprit_ranks"], [2], made.logs())
            hung = [decision for decision in decisions(made) if decision["decision"] == "hung"][0]
            self.assertLessEqual(hung["age_s"] - hung["limit_s"], 15, f"{hung} {made.logs()}")
        finally:
            made.relays[0].send_signal(signal.SIGCONT)

    def test_ranks_that_wait_in_launches_without_marks_are_hung(self):
        made = self.make(late_after=5)
        made.start_collector()
        for host in range(made.hosts):
            made.start_agent(host)
        # Before the collector has learned the job's gaps, it declares such a wait hung only after 60 s.
        made.start_ranks("--tp", "2", "--dp", "2", "--steps", "100000", "--pace-ms", "20", "--launches", "3000",
                         "--fault", "rank=1,step=150,kind=stall-gpu,comm=tp",
                         claim=lambda rank: {"RANK": str(rank), "LOCKSTEP_GPU": "off"})
        self.verdict(made)
        hung = [decision for decision in decisions(made) if decision["decision"] == "hung"]
        self.assertEqual([decision["rule"] for decision in hung], ["gpu stall"], made.logs())
        self.assertLessEqual(hung[0]["age_s"], 15, made.logs())

    def test_agents_are_still_asked_after_their_relay_connection_breaks(self):
        made = self.make(relays=1)
        proxy = Proxy(made.relay_ports[0])
        self.addCleanup(proxy.close)
        made.start_collector()
        made.start_relay(0)
        for host in range(made.hosts):
            made.start_agent(host, f"tcp://127.0.0.1:{proxy.port}")
        made.start_ranks(*STALL)
        self.verdict(made)
        # The digests have shown the route to each agent. Now this route breaks.
        proxy.shut = True
        self.assertTrue(wait_for(lambda: not proxy.pairs, 10))
        proxy.shut = False
        self.assertTrue(wait_for(made.whole, 120), made.logs())
        self.assertTrue(read_json(made.whole()[0], "manifest.json")["whole"], made.logs())
        self.assertNotIn("received nothing more from", made.log("collector"))

    def test_a_rank_claimed_by_two_processes_is_reported(self):
        made = self.make()
        made.start_collector()
        for host in range(made.hosts):
            made.start_agent(host)
        # This happens if mpirun runs inside srun: the job uses the rank numbers of one launcher, and the numbers of the other differ.
        claims = [0, 1, 1, 3]
        made.start_ranks(*STALL, claim=lambda rank: {"OMPI_COMM_WORLD_RANK": str(rank), "SLURM_PROCID": str(claims[rank])})
        self.assertTrue(wait_for(lambda: "are reported by both" in made.log("collector"), 120), made.logs())
        verdict = self.verdict(made)
        self.assertIn("ranks 1 are reported by several hosts", json.dumps(verdict["problems"]), made.logs())
        self.assertTrue(wait_for(made.whole, 120), made.logs())
        for process in [made.collector, *made.agents, *made.ranks]:
            self.assertIsNone(process.poll(), made.logs())


if __name__ == "__main__":
    unittest.main(verbosity=2)
