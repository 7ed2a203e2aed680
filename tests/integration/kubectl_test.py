#!/usr/bin/env python3
"""Runs lockstep attach with the real kubectl, on the pods of a small API server (kubernetes_api.py). Each pod has half of a job."""

import os
import shutil
import subprocess
import unittest

import kubernetes_api
import no_skip
from at_rest import at_rest
from support import LOCKSTEP, STANDIN, TRAINSIM, FolderTest, clean_environment, free_port, read_json, wait_for

KUBECTL = shutil.which("kubectl")


@unittest.skipUnless(KUBECTL, "kubectl is not installed")
class KubectlTest(FolderTest):
    def start(self):
        """Starts two ranks in each of two pods. Rank 2 stops. Returns {pod: PIDs}."""
        port, pids = free_port(), {"train-0": [], "train-1": []}
        for rank in range(4):
            environment = clean_environment(RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank % 2), LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                            MASTER_PORT=str(port), STANDIN_WAIT="block", LD_LIBRARY_PATH=STANDIN)
            with open(self.path(f"{rank}.log"), "wb") as log:
                process = subprocess.Popen([TRAINSIM, "--steps", "1000000", "--tp", "2", "--dp", "2", "--fault", "rank=2,step=20,kind=stall-host"],
                                           env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            pids[f"train-{rank // 2}"].append(str(process.pid))

        def struck():
            with open(self.path("2.log")) as log:
                return "fault" in log.read()
        self.assertTrue(wait_for(struck, 60))
        self.assertTrue(wait_for(at_rest(pids["train-0"] + pids["train-1"]), 60))
        return pids

    def serve(self, labels, pods):
        server = kubernetes_api.Server("ml", labels, pods)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with open(self.path("config"), "w") as file:
            file.write(server.kubeconfig())
        return server

    def attach(self, *arguments):
        return subprocess.run([LOCKSTEP, "attach", "--namespace", "ml", "--kubectl", KUBECTL, *arguments], cwd=self.folder,
                              env=clean_environment(KUBECONFIG=self.path("config"), HOME=self.folder), capture_output=True, text=True, timeout=120)

    def test_the_rank_of_a_job_in_pods_is_named(self):
        pids = self.start()

        def pod(name):
            return lambda command: ["env", f"LOCKSTEP_HOST={name}", LOCKSTEP, *command[1:], *pids[name]] if command[0] == "lockstep" else None
        server = self.serve({"job-name": "train"}, {"train-0": ("Running", pod("train-0")), "train-1": ("Running", pod("train-1")),
                                                    "bare": ("Running", lambda command: None), "late": ("Pending", None)})
        result = self.attach("--kubernetes", "job-name=train", "--out", "incident")
        self.assertEqual(result.returncode, 1, result.stderr)
        verdict = read_json(self.path("incident", "verdict.json"))
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], result.stdout)
        self.assertEqual(verdict["findings"][0]["culprits"][0]["host"], "train-1")
        self.assertEqual(sorted(name for name in os.listdir(self.path("incident")) if name.endswith(".lsd")), ["train-0.lsd", "train-1.lsd"])
        self.assertIn("bare was not examined: image registry/torch:2.9 has no lockstep", result.stderr)
        self.assertIn("late was not examined: the pod is pending", result.stderr)
        commands = [query["command"] for path, query in server.asked if path.endswith("/exec")]
        self.assertEqual(commands, [["lockstep", "attach", "--stream", "attached", "--redact", "no"]] * 3)

    def test_the_agents_pods_see_the_job_of_their_nodes(self):
        """The pods of packaging/kubernetes have hostPID, so lockstep in them sees the processes of the job."""
        pids = self.start()
        names = {"lockstep-agent-a": "train-0", "lockstep-agent-b": "train-1"}

        def agent(name):
            return lambda command: ["env", f"LOCKSTEP_HOST={name}", LOCKSTEP, *command[1:], *pids[names[name]]]
        self.serve({"app": "lockstep-agent"}, {name: ("Running", agent(name)) for name in names})
        result = self.attach("--kubernetes", "app=lockstep-agent", "--out", "incident")
        self.assertEqual(result.returncode, 1, result.stderr)
        verdict = read_json(self.path("incident", "verdict.json"))
        self.assertEqual([finding["culprit_ranks"] for finding in verdict["findings"]], [[2]], result.stdout)
        self.assertEqual(verdict["findings"][0]["culprits"][0]["host"], "lockstep-agent-b")

    def test_what_kubectl_and_the_command_say_is_passed_on(self):
        self.serve({"job-name": "train"}, {"train-0": ("Running", lambda command: ["sh", "-c", "echo lockstep: no such job >&2; exit 3"])})
        result = self.attach("--kubernetes", "job-name=train")
        self.assertEqual(result.returncode, 3)
        self.assertIn("train-0: it exited with status 3: ", result.stderr)
        result = self.attach("--kubernetes", "job-name=other")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no pod has the labels job-name=other in namespace ml", result.stderr)


if __name__ == "__main__":
    no_skip.main()
