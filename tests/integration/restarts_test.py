#!/usr/bin/env python3
"""Tests consecutive runs of one job: restarted inside the same processes, and requeued under the same name. Each run is judged separately, and their data
is never merged. (launch_test covers elastic restarts.)"""

import json
import os
import subprocess
import sys
import unittest

from cluster import Cluster
from support import BIN, LIBRARY, STANDIN, read_json, wait_for

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "restart_job.py")
WORLD = 4


class RestartsTest(unittest.TestCase):
    def setUp(self):
        self.made = Cluster(hosts=2, per_host=2)
        self.addCleanup(self.made.close)

    def shown(self):
        done = subprocess.run([os.path.join(BIN, "lockstep-top"), "--json"], env=self.made.environment(), capture_output=True, text=True, timeout=120)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def verdict(self, folder):
        return read_json(folder, "verdict.json")

    def incident(self, number):
        """Returns the newest incident when `number` incidents are complete."""
        self.assertTrue(wait_for(lambda: len(self.made.whole()) >= number, 240), self.made.logs())
        folders = self.made.incidents()
        self.assertEqual(len(folders), number, self.made.logs())
        return max(folders, key=os.path.getctime) if number > 1 else folders[0]

    def start_python(self, rank):
        made = self.made
        with open(made.path(f"rank{rank}.log"), "ab") as log:
            made.ranks.append(subprocess.Popen(
                [sys.executable, JOB, os.path.join(STANDIN, "libnccl.so.2"), os.path.join(STANDIN, "libcudart.so.13"), made.folder, str(rank), str(WORLD)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=made.environment(LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=STANDIN, LOCKSTEP_DIR=os.path.join(made.rings, f"node{rank // 2}"),
                                     LOCKSTEP_HOST=f"node{rank // 2}", LOCKSTEP_JOB="train", LOCKSTEP_GPU="full", LOCKSTEP_RING_KIB="1024",
                                     RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank % 2), LOCAL_WORLD_SIZE="2")))

    def test_a_restart_inside_the_processes_is_counted(self):
        made = self.made
        made.start_collector()
        for host in range(made.hosts):
            made.start_agent(host)
        for rank in range(WORLD):
            self.start_python(rank)
        first = self.verdict(self.incident(1))
        self.assertEqual((first["verdict"], first["findings"][0]["culprit_ranks"]), ("HUNG", [1]), made.logs())
        # All ranks abort and create a new communicator.
        open(made.path("restart.0"), "w").close()
        self.assertTrue(wait_for(lambda: "restarted inside their processes" in made.log("collector"), 120), made.logs())
        shown = self.shown()
        self.assertEqual([(job["job"]["job"], job["state"]) for job in shown if job["state"] == "hung"], [], made.logs())
        self.assertEqual([job.get("restarts_inside") for job in shown], [1], made.logs())
        # The second run hangs elsewhere, and the data of the first run does not count.
        second = self.verdict(self.incident(2))
        self.assertEqual((second["verdict"], second["findings"][0]["culprit_ranks"]), ("HUNG", [2]), made.logs())
        self.assertEqual(len(second["findings"]), 1, made.logs())
        old, new = (verdict["findings"][0]["communicator"]["id"] for verdict in (first, second))
        self.assertNotEqual(old, new)
        self.assertNotIn(old, json.dumps(second["findings"]), made.logs())
        self.assertEqual((second["ranks_read"], second["ranks_expected"]), (WORLD, WORLD))
        for rank in made.ranks:
            self.assertIsNone(rank.poll(), made.logs())

    def test_a_requeued_job_has_an_incident_for_each_start(self):
        made = self.made
        runs = ["--tp", "2", "--pp", "1", "--dp", "2", "--pace-ms", "20", "--steps", "1000000"]
        made.start_collector()
        for host in range(made.hosts):
            made.start_agent(host)

        def life(count, culprit):
            made.start_ranks(*runs, "--fault", f"rank={culprit},step=100,kind=stall-host,comm=dp",
                             claim=lambda rank: {"RANK": str(rank), "SLURM_RESTART_COUNT": str(count)})
            verdict = self.verdict(self.incident(count + 1))
            self.assertEqual((verdict["verdict"], verdict["findings"][0]["culprit_ranks"]), ("HUNG", [culprit]), made.logs())
            self.assertEqual((verdict["ranks_read"], verdict["ranks_expected"]), (WORLD, WORLD))

        life(0, 1)
        # Slurm's requeue kills the job and starts it again with the same number on the same hosts.
        for rank in made.ranks:
            made.kill(rank)
        life(1, 2)
        manifests = []
        for folder in made.incidents():
            manifests.append(read_json(folder, "manifest.json")["restart_count"])
        self.assertEqual(sorted(manifests), [0, 1])
        self.assertTrue(wait_for(lambda: sorted((job["job"].get("restart_count", 0), job["state"]) for job in self.shown() if job["state"] != "ended") == [(1, "hung")], 60),
                        made.logs())


if __name__ == "__main__":
    unittest.main(verbosity=2)
