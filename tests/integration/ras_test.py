#!/usr/bin/env python3
"""Queries the RAS of the stand-in, like ncclras, about jobs with a fault: in text, in JSON, and with members that do not answer or have exited. lockstep
attach then uses the same answers."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

from at_rest import at_rest
from support import LOCKSTEP, STANDIN, TRAINSIM, FolderTest, clean_environment, free_port, read_json, wait_for


class RasTest(FolderTest):
    def start(self, fault, ranks=4, layout=("--tp", "4")):
        self.port, self.processes = free_port(), []
        master = str(free_port())
        for rank in range(ranks):
            environment = clean_environment(("LOCKSTEP", "NCCL"), RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                                            MASTER_PORT=master, STANDIN_WAIT="block", LD_LIBRARY_PATH=STANDIN, NCCL_RAS_ADDR=f"localhost:{self.port}", NCCL_DEBUG="INFO")
            with open(self.path(f"{rank}.log"), "wb") as log:
                process = subprocess.Popen([TRAINSIM, "--steps", "1000000", *layout, "--fault", fault], env=environment, stdin=subprocess.DEVNULL,
                                           stdout=log, stderr=log)
            self.processes.append(process)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        self.job = f"port-{master}"

        def struck():
            return any("fault" in pathlib.Path(self.path(f"{rank}.log")).read_text() for rank in range(ranks))
        self.assertTrue(wait_for(struck, 60))
        self.assertTrue(wait_for(at_rest([process.pid for process in self.processes]), 60))

    def ask(self, *commands):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.sendall("".join(command + "\n" for command in commands).encode())
            answer = b""
            while data := client.recv(65536):
                answer += data
        return answer.decode()

    def ras_status(self):
        return json.loads(self.ask("set format json", "timeout 1", "status").removeprefix("OK\nOK\n"))

    def attach(self):
        shutil.rmtree(self.path("incident"), ignore_errors=True)
        result = subprocess.run([LOCKSTEP, "attach", self.job, "--out", "incident"], cwd=self.folder, env=clean_environment(), capture_output=True,
                              text=True, timeout=120)
        return result.stdout, read_json(self.path("incident", "verdict.json"))

    def test_the_counts_of_a_rank_that_skipped_a_call_are_lower(self):
        self.start("rank=2,step=20,kind=skip")
        text = self.ask("client protocol 2", "bogus", "verbose status")
        self.assertTrue(text.startswith("SERVER PROTOCOL 2\nERROR: Unknown command 'bogus'\nNCCL version "), text)
        self.assertRegex(text, r"(?m)^ +0 +\d +1 +4 +4 +4 +RUNNING +MISMATCH$")
        self.assertRegex(text, r"#0-0 \(\w+\) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
                               r"  3 ranks have launched up to operation \d+\n"
                               r"  Rank 2 has launched up to operation \d+ -- GPU 2 managed by process " + str(self.processes[2].pid))
        counts = [[rank["collective_counts"]["AllReduce"] for rank in comm["ranks"]] for comm in self.ras_status()["communicators"]]
        self.assertEqual([[count - min(of) for count in of] for of in counts if len(set(of)) > 1], [[1, 1, 0, 1]])
        text, verdict = self.attach()
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], text)
        self.assertTrue(os.path.exists(self.path("incident", "logs", "ncclras.json")))

    def test_a_member_of_a_pair_is_not_taken_for_the_rank_with_its_number(self):
        self.start("rank=3,step=20,kind=skip", layout=("--tp", "2", "--dp", "2"))
        text, verdict = self.attach()
        self.assertEqual(verdict["findings"], [], text)
        self.assertIn("ranks 2 and 3 launched different calls", " ".join(text.split()))

    def test_members_that_do_not_answer_or_have_ended_are_reported(self):
        self.start("rank=1,step=20,kind=stall-host")
        # Not the process that answers for all.
        victim = next(process for rank, process in enumerate(self.processes)
                      if "RAS client listening" not in pathlib.Path(self.path(f"{rank}.log")).read_text())
        victim.send_signal(signal.SIGSTOP)
        text = self.ask("timeout 1", "status")
        self.assertIn("INCOMPLETE\n  Missing communicator data from 1 job process\n", text)
        missing = [rank for comm in self.ras_status()["communicators"] for rank in comm["missing_ranks"]]
        self.assertEqual({(rank["pid"], rank["status"]["unresponsive"], rank["status"]["considered_dead"]) for rank in missing},
                         {(victim.pid, True, False)})
        victim.kill()
        victim.wait()
        self.assertIn("DEAD\n  1 job process is considered dead", self.ask("timeout 1", "status"))
        missing = [rank for comm in self.ras_status()["communicators"] for rank in comm["missing_ranks"]]
        self.assertEqual({rank["status"]["considered_dead"] for rank in missing}, {True})


if __name__ == "__main__":
    unittest.main()
