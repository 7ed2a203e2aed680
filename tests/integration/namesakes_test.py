#!/usr/bin/env python3
"""Runs two jobs with the same name, user and ranks at the same time on the same hosts, behind one relay, and one stalls. Every report, display, file and
action must concern the stalled job, and the other job continues."""

import json
import os
import subprocess
import unittest

from cluster import ClusterCase
from support import BIN, read_json, tool, wait_for

RUNS = ["--tp", "2", "--pp", "1", "--dp", "2", "--pace-ms", "20", "--steps", "1000000"]
STALLS = RUNS + ["--fault", "rank=2,step=150,kind=stall-host,comm=dp"]


class NamesakesTest(ClusterCase):
    def test_two_jobs_with_one_name_behind_one_relay_stay_separate(self):
        made = self.make(hosts=2, per_host=2, relays=1)
        made.start_collector()
        made.start_relay(0)
        for host in range(made.hosts):
            made.start_agent(host)
        made.start_ranks(*RUNS)
        runs = list(made.ranks)
        self.assertTrue(wait_for(lambda: "job train of user" in made.log("collector"), 120), made.logs())
        made.start_ranks(*STALLS)
        stalls = made.ranks[len(runs):]
        self.assertTrue(wait_for(lambda: "job train#2 of user" in made.log("collector"), 120), made.logs())

        def shown():
            lines = tool(made, "lockstep-top", "--json").stdout.splitlines()
            return {job["job"]["job"]: job for job in map(json.loads, lines)}

        self.assertTrue(wait_for(lambda: all(job.get("ranks") == 4 for job in shown().values()) and len(shown()) == 2, 60), made.logs())
        folders = wait_for(made.incidents, 240)
        self.assertTrue(folders, made.logs())
        self.assertTrue(wait_for(made.whole, 240), made.logs())
        verdict = read_json(folders[0], "verdict.json")
        self.assertEqual(verdict["verdict"], "HUNG", made.logs())
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [2], made.logs())
        self.assertEqual((verdict["ranks_read"], verdict["ranks_expected"]), (4, 4), made.logs())
        with open(os.path.join(folders[0], "verdict.txt")) as file:
            self.assertIn(f"PID {stalls[2].pid}", file.read())
        manifest = read_json(folders[0], "manifest.json")
        self.assertTrue(manifest["whole"], f"missing {manifest['missing']}: " + "\n".join(
            line for line in (made.log("collector") + made.log("relay0") + made.log("spool0/agent") + made.log("spool1/agent")).splitlines()
            if not any(word in line for word in ("late:", "recovered after", "digests of"))))
        # The rings on disk belong to the processes of the stalled job.
        analysed = tool(made, "lockstep-analyze", folders[0], "--format", "json")
        self.assertEqual(json.loads(analysed.stdout)["findings"][0]["culprit_ranks"], [2])
        self.assertEqual(json.loads(analysed.stdout)["ranks_read"], 4)
        states = {name: job["state"] for name, job in shown().items()}
        self.assertEqual(states["train#2"], "hung", made.logs())
        self.assertTrue(wait_for(lambda: shown()["train#1"]["state"] == "moving", 60), made.logs())  # on a busy machine, this job is sometimes late
        self.assertEqual(len(made.incidents()), 1)
        self.assertNotIn("reported by both", made.log("collector"))
        for rank in runs:
            self.assertIsNone(rank.poll())

        # A dump must name one of the two jobs.
        which = tool(made, "lockstep-dump", "train")
        self.assertEqual(which.returncode, 3, which.stderr)
        self.assertIn("train#1, train#2", which.stderr)
        dumped = tool(made, "lockstep-dump", "train#1", "--everything", "--json", timeout=300)
        self.assertEqual(dumped.returncode, 0, dumped.stderr + made.logs())
        self.assertEqual(json.loads(dumped.stdout)["verdict"], "HEALTHY")
        self.assertEqual(json.loads(dumped.stdout)["ranks_read"], 4)

        # When all processes of the stalled job have ended, the name alone identifies the other job.
        for rank in stalls:
            made.kill(rank)
        self.assertTrue(wait_for(lambda: list(shown()) == ["train"], 60), made.logs())
        self.assertTrue(wait_for(lambda: shown()["train"]["state"] == "moving", 60), made.logs())
        self.assertIn(tool(made, "lockstep-dump", "train", timeout=300).returncode, (0, 1))

    def test_run_ends_only_its_own_job(self):
        made = self.make(hosts=0)
        made.start_collector()
        self.assertTrue(wait_for(lambda: "listens on" in made.log("collector"), 60), made.logs())
        environment = made.environment(LD_LIBRARY_PATH=os.path.join(os.path.dirname(BIN), "standin/lib"), LOCKSTEP_JOB="train")
        command = [os.path.join(BIN, "lockstep-run"), "-n", "4", "--late-after", "1", "--kill-on-hang", "--collector", f"tcp://127.0.0.1:{made.port}", "--",
                   os.path.join(BIN, "trainsim")]

        def start(*job):
            process = subprocess.Popen([*command, *job], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True)
            made.ranks.append(process)
            self.addCleanup(process.stdout.close)
            return process

        runs = start(*RUNS)
        self.assertTrue(wait_for(lambda: "job train of user" in made.log("collector"), 120), made.logs())
        stalls = start(*STALLS)
        output, _ = stalls.communicate(timeout=300)
        self.assertEqual(stalls.returncode, 90, output + made.logs())
        self.assertIn("rank 2", output)
        self.assertIsNone(runs.poll(), "the other job goes on: " + made.logs())
        self.assertEqual(len(made.incidents()), 1, made.logs())


if __name__ == "__main__":
    unittest.main(verbosity=2)
