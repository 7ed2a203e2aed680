#!/usr/bin/env python3
"""Runs collector, relay, agents and ranks as real processes on the loopback. The verdict must name the culprit."""

import json
import os
import signal
import subprocess
import unittest

from cluster import ClusterCase, Proxy, ledger
from support import BIN, explore_data, read_json, tool, wait_for

STALL = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--fault", "rank=2,step=40,kind=stall-host,comm=dp"]
RUNS = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000"]


class ClusterTest(ClusterCase):
    def wait_for_all(self, made):
        """Waits until the collector knows every rank of every host. The line "new job" already appears with the first rank."""
        def known():
            jobs = [json.loads(line) for line in tool(made, "lockstep-top", "--json").stdout.splitlines()]
            return jobs and jobs[0].get("ranks") == made.world and jobs[0].get("agents") == made.hosts

        self.assertTrue(wait_for(known, 120), made.logs())

    def verdict(self, made, folder, rank):
        verdict = read_json(folder, "verdict.json")
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [rank], made.logs())
        return verdict

    def test_digests_and_the_whole_incident_name_a_stalled_rank(self):
        made = self.make()
        made.start_all(*STALL)
        folders = wait_for(made.incidents, 180)
        self.assertTrue(folders, made.logs())
        self.assertTrue(wait_for(lambda: os.path.exists(os.path.join(folders[0], "verdict.json"))))
        verdict = self.verdict(made, folders[0], 2)
        self.assertEqual(verdict["verdict"], "HUNG")
        self.assertEqual(verdict["findings"][0]["culprits"][0]["host"], "node1")
        self.assertTrue(wait_for(made.whole, 180), made.logs())
        self.verdict(made, folders[0], 2)
        self.assertTrue(read_json(folders[0], "manifest.json")["whole"], made.logs())
        for host in ("node0.lsd", "node1.lsd"):
            self.assertTrue(os.path.exists(os.path.join(folders[0], host)), made.logs())
        self.assertEqual(explore_data(folders[0])["findings"][0]["ranks"], [2, 2])
        self.assertIn(f"{folders[0]}/explore.html: open it in any browser", made.log("collector"))
        ids, problems = ledger(folders[0])
        self.assertEqual(problems, [])
        self.assertEqual(len(ids), len(set(ids)))
        analysed = tool(made, "lockstep-analyze", folders[0], "--format", "json")
        self.assertEqual(analysed.returncode, 1, analysed.stderr)
        self.assertEqual(json.loads(analysed.stdout)["findings"][0]["culprit_ranks"], [2])

    def test_a_manual_dump_through_a_relay_reads_every_rank(self):
        made = self.make(relays=1)
        made.start_all(*RUNS)
        found = wait_for(lambda: "train" in made.log("collector"), 120)
        self.assertTrue(found, made.logs())

        def dumped():
            result = tool(made, "lockstep-dump", "train", "--everything", "--json")
            return result if result.returncode in (0, 1) and json.loads(result.stdout)["ranks_read"] == 4 else None

        result = wait_for(dumped, 240)
        self.assertTrue(result, made.logs())
        self.assertIn("incident in", result.stderr)
        self.assertTrue(wait_for(made.whole, 60), made.logs())

    def test_a_dead_rank_is_the_cause(self):
        made = self.make()
        made.start_all(*RUNS)
        self.assertTrue(wait_for(lambda: "new job " in made.log("collector"), 120), made.logs())
        wait_for(lambda: False, 3)
        made.kill(made.ranks[3])
        folders = wait_for(made.incidents, 120)
        self.assertTrue(folders, made.logs())
        self.assertTrue(wait_for(lambda: os.path.exists(os.path.join(folders[0], "verdict.json"))))
        verdict = self.verdict(made, folders[0], 3)
        self.assertEqual(verdict["findings"][0]["kind"], "RANK_DEAD")

    def test_a_lost_host_does_not_delay_the_verdict(self):
        made = self.make()
        made.start_all(*STALL)
        self.wait_for_all(made)
        made.agents[0].send_signal(signal.SIGSTOP)
        folders = wait_for(made.incidents, 240)
        self.assertTrue(folders, made.logs())
        path = os.path.join(folders[0], "verdict.json")
        self.assertTrue(wait_for(lambda: os.path.exists(path)))

        def text():
            with open(path) as file:
                return file.read()

        # The first verdict comes from digests, before the collector knows that the host is lost. A minute after the host's last message, the verdict on the
        # complete incident replaces it.
        self.assertTrue(wait_for(lambda: "node0" in text(), 180), "the ranks without data must be named: " + text())
        made.agents[0].send_signal(signal.SIGCONT)

    def test_gathering_recovers_after_a_cut_network(self):
        made = self.make()
        made.start_collector()
        proxy = Proxy(made.port)
        self.addCleanup(proxy.close)
        for host in range(made.hosts):
            made.start_agent(host, f"tcp://127.0.0.1:{proxy.port}")
        made.start_ranks(*STALL)

        self.wait_for_all(made)
        proxy.shut = True
        self.assertTrue(wait_for(lambda: made.log("collector").count("gone silent") >= 2, 60), made.logs())
        proxy.shut = False
        self.assertTrue(wait_for(lambda: made.log("collector").count("is reporting again") >= 2, 120), made.logs())
        folders = wait_for(made.incidents, 240)
        self.assertTrue(folders, made.logs())
        proxy.stalled = True  # cuts the network while the incident is gathered
        wait_for(lambda: False, 7)
        proxy.stalled = False
        self.assertTrue(wait_for(lambda: len(made.whole()) == len(made.incidents()), 240), made.logs())
        ids, problems = ledger(made.whole()[-1])
        self.assertEqual(problems, [])
        self.assertEqual(len(ids), len(set(ids)))

    def test_a_full_disk_is_reported_and_gathering_continues(self):
        made = self.make()
        os.mkdir(made.out)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", made.out], capture_output=True).returncode != 0:
            self.skipTest("this machine does not allow mounting a tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", made.out], capture_output=True)
        made.start_all(*STALL)
        self.assertTrue(wait_for(lambda: "is full" in made.log("collector"), 240), made.logs())
        self.assertIn("rank 2", made.log("collector"), "the verdict must still be reported")
        folder = made.incidents()[0]
        self.assertEqual(ledger(folder)[0], [], "no chunk may be acknowledged")
        self.assertEqual(made.log("collector").count("is full"), 1, "the full disk must be reported once")
        subprocess.run(["mount", "-o", "remount,size=512m", made.out], check=True)
        self.assertTrue(wait_for(lambda: ledger(folder)[0], 120), made.logs())
        self.assertTrue(wait_for(made.whole, 240), made.logs())
        self.assertEqual(ledger(folder)[1], [])

    def test_run_connects_a_job_to_the_collector(self):
        made = self.make()
        made.start_collector()
        self.assertTrue(wait_for(lambda: "listens on" in made.log("collector"), 60), made.logs())
        environment = {"LD_LIBRARY_PATH": os.path.join(os.path.dirname(BIN), "standin/lib")}
        ran = tool(made, "lockstep-run", "-n", "4", "--late-after", "1", "--kill-on-hang", "--collector", f"tcp://127.0.0.1:{made.port}", "--",
                   os.path.join(BIN, "trainsim"), *STALL, timeout=300, **environment)
        self.assertEqual(ran.returncode, 90, ran.stderr + made.logs())
        self.assertIn("rank 2", ran.stderr)
        self.assertIn("incident in", ran.stderr)
        self.assertEqual(len(made.incidents()), 1)
        healthy = tool(made, "lockstep-run", "-n", "4", "--collector", f"tcp://127.0.0.1:{made.port}", "--", os.path.join(BIN, "trainsim"), "--tp", "2",
                       "--pp", "1", "--dp", "2", "--steps", "20", timeout=300, **environment)
        self.assertEqual(healthy.returncode, 0, healthy.stderr)
        self.assertEqual(len(made.incidents()), 1)

    def test_a_second_collector_on_the_same_folder_is_refused_with_the_reason(self):
        made = self.make()
        made.start_collector()
        self.assertTrue(wait_for(lambda: "listens on" in made.log("collector"), 60), made.logs())
        second = tool(made, "lockstep-collector", "--listen", "tcp://127.0.0.1:0", "--out", made.out)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another collector uses", second.stderr)
        outside = tool(made, "lockstep-collector", "--listen", "tcp://0.0.0.0:0", "--out", made.path("other"), LOCKSTEP_KEYS="")
        self.assertEqual(outside.returncode, 1)
        self.assertIn("key", outside.stderr)
        nobody = tool(made, "lockstep-dump", "nothing")
        self.assertEqual(nobody.returncode, 3)
        self.assertIn("nothing", nobody.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
