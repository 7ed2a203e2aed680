#!/usr/bin/env python3
"""Tests the programs of packaging/notify: what they send, when they act, and that no hostile name gets into a command. Also tests the --on-verdict
command of `lockstep run`. Slurm's programs, sendmail and kubectl are stand-ins that record their arguments."""

import http.server
import json
import os
import subprocess
import threading
import unittest

import no_skip
from support import BUILD, LOCKSTEP, SOURCE, STANDIN, TRAINSIM, FolderTest, clean_environment

NOTIFY = os.path.join(SOURCE, "packaging/notify")
STAND_IN = """#!/bin/sh
{ printf '%s' "${0##*/}"; for word; do printf '\\t%s' "$word"; done; printf '\\n'; } >>"$CALLS"
case ${0##*/} in sendmail | kubectl) [ "$1" = taint ] || cat >>"$CALLS.input" ;; squeue) case $3 in *%T) echo PENDING ;; *) echo n9 ;; esac ;; esac
[ ! -e "$CALLS.fail" ]
"""


def verdict(action="exclude", hosts=("n3",), confidence=0.97, job="17", why="rank 5 (n3, GPU 1) is stuck."):
    return {"schema_version": 2, "verdict": "HUNG", "job": job, "findings": [{"kind": "HOST_STALL"}],
            "recommended": {"action": action, "hosts": list(hosts), "ranks": [5], "why": why, "confidence": confidence}}


class NotifyTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.calls = self.path("calls")
        os.mkdir(self.path("bin"))
        for name in ("scontrol", "squeue", "sendmail", "kubectl"):
            with open(self.path("bin", name), "w") as file:
                file.write(STAND_IN)
            os.chmod(self.path("bin", name), 0o755)

    def run_program(self, name, told, *options):
        environment = clean_environment(PATH=self.path("bin") + os.pathsep + os.environ["PATH"], CALLS=self.calls, LOCKSTEP_INCIDENT="/incidents/one")
        return subprocess.run([os.path.join(NOTIFY, name), *options], input=told if isinstance(told, str) else json.dumps(told), env=environment,
                              capture_output=True, text=True, timeout=60, check=False)

    def act(self, name, told, *options):
        return self.run_program(name, told, "--state", self.path("state"), *options)

    def called(self):
        """Returns the recorded calls, without queries about the job."""
        if not os.path.exists(self.calls):
            return []
        with open(self.calls) as file:
            lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("squeue")]
        os.remove(self.calls)
        return lines

    def record(self):
        with open(self.path("state/actions.jsonl")) as file:
            return [json.loads(line) for line in file]

    def test_without_do_it_the_programs_only_log(self):
        done = self.act("slurm", verdict())
        self.assertEqual((done.returncode, self.called()), (0, []), done.stderr)
        self.assertIn("would requeue job 17 without n3", done.stderr)
        self.assertEqual([line["state"] for line in self.record()], ["dry run"])

    def test_slurm_requeues_without_the_node(self):
        self.assertEqual(self.act("slurm", verdict(), "--do").returncode, 0)
        self.assertEqual(self.called(), [["scontrol", "requeuehold", "17"], ["scontrol", "update", "JobId=17", "ExcNodeList=n9,n3", "StartTime=now+5"],
                                         ["scontrol", "release", "17"]])
        self.assertEqual([line["state"] for line in self.record()], ["begun", "done"])
        self.act("slurm", verdict(job="18/0/0"), "--do", "--mode", "drain")
        self.assertEqual(self.called(), [["scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=lockstep: HUNG HOST_STALL of job 18"],
                                         ["scontrol", "requeue", "18"], ["scontrol", "update", "JobId=18", "StartTime=now+5"]])

    def test_uncertain_or_too_many_actions_are_refused(self):
        for told, word in ((verdict(confidence=0.6), "confidence"), (verdict(job="pretrain"), "no Slurm job id"),
                           (verdict(hosts=["n3", "n4", "n5"]), "--most-nodes"), (verdict(action="ask"), "person"), (verdict(action="wait"), "wait"),
                           (verdict(hosts=["n3", "$(reboot)"]), "no node")):
            done = self.act("slurm", told, "--do")
            self.assertEqual((done.returncode, self.called()), (0, []), done.stderr)
            self.assertIn(word, done.stderr)
        for job, node in (("1", "n1"), ("2", "n2"), ("3", "n1")):
            self.act("slurm", verdict(job=job, hosts=[node]), "--do")
            self.assertEqual(len(self.called()), 3, "two nodes a day, one of them twice")
        self.assertIn("2 nodes were taken", self.act("slurm", verdict(job="4", hosts=["n3"]), "--do").stderr)
        for number in range(4):
            done = self.act("slurm", verdict("requeue", hosts=[], job="9", why=f"attempt {number}"), "--do")
            self.assertEqual(len(self.called()), 2 if number < 3 else 0, done.stderr)
        self.assertIn("--most-requeues 3", done.stderr)

    def test_a_failed_action_is_retried_and_counts_once(self):
        open(self.calls + ".fail", "w").close()
        told = verdict("requeue", hosts=[])
        for _ in range(5):
            self.assertEqual(self.act("slurm", told, "--do").returncode, 1)
        os.remove(self.calls + ".fail")
        done = self.act("slurm", told, "--do")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_hostile_names_reach_no_command(self):
        for host in ("-n3", "n3;reboot", "n3 State=DOWN", "n3\nn4", "../n3", "", "n" * 300, "$(id)"):
            for name in ("slurm", "kubernetes"):
                self.act(name, verdict(hosts=[host]), "--do")
                self.assertEqual(self.called(), [], (name, host))
        for job in ("17;reboot", "17 18", "-17", "17\n18"):
            self.act("slurm", verdict(job=job), "--do")
            self.assertEqual(self.called(), [], job)
        self.act("slurm", verdict(why="'; reboot; \x1b[2J"), "--do")
        self.assertNotIn("reboot", str(self.called()))

    def test_input_that_is_not_a_verdict_is_refused(self):
        for told in ("", "{", "[]", "null", "[" * 100000, json.dumps({**verdict(), "recommended": 7}), json.dumps(verdict(confidence=float("nan"))),
                     json.dumps(verdict(action="reboot"))):
            done = self.act("slurm", told, "--do")
            self.assertEqual((done.returncode, self.called()), (0, []), done.stderr)
            self.assertRegex(done.stderr, "^lockstep slurm: standard input is no verdict")

    def test_kubernetes_writes_events_and_taints(self):
        self.assertEqual(self.act("kubernetes", verdict()).returncode, 0)
        self.assertEqual(self.called(), [["kubectl", "create", "--filename=-"]])
        with open(self.calls + ".input") as file:
            event = json.load(file)
        self.assertEqual((event["kind"], event["involvedObject"]["name"], event["reason"]), ("Event", "n3", "LockstepHung"))
        self.assertIn("rank 5", event["message"])
        self.act("kubernetes", verdict(), "--do")
        self.assertEqual(self.called()[1:], [["kubectl", "taint", "nodes", "n3", "lockstep=suspect:NoSchedule", "--overwrite"]])

    def test_mail_has_the_recommendation_and_no_injected_header(self):
        done = self.run_program("mail", verdict(job="train\nBcc: all@example.org"), "--to", "oncall@example.org", "--sendmail", self.path("bin/sendmail"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.called(), [["sendmail", "-i", "--", "oncall@example.org"]])
        with open(self.calls + ".input") as file:
            head, text = file.read().split("\n\n", 1)
        self.assertNotRegex(head, "(?m)^Bcc")
        self.assertIn("rank 5 (n3, GPU 1) is stuck.\nRecommended: start the job again without n3 (confidence 0.97).\nIncident: /incidents/one", text)

    def serve(self, status=200):
        taken = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_address[1]}/hooks/T0KEN"
        with open(self.path("secret"), "w") as file:
            file.write(url + "\n")
        return url, taken

    def test_webhook_and_pagerduty_get_escaped_texts(self):
        url, taken = self.serve()
        told = verdict(why="rank 5 <!channel> & <https://example.org|more>")
        self.assertEqual(self.run_program("webhook", told, "--url-file", self.path("secret")).returncode, 0)
        self.assertEqual(list(taken[0]), ["text"])
        self.assertIn("rank 5 &lt;!channel&gt; &amp; ", taken[0]["text"])
        self.run_program("webhook", told, "--url-file", self.path("secret"), "--form", "json")
        self.assertEqual((taken[1]["recommended"], taken[1]["incident"]), (told["recommended"], "/incidents/one"))
        done = self.run_program("pagerduty", told, "--url", url, "--key-file", self.path("secret"))
        self.assertEqual((done.returncode, taken[2]["event_action"], taken[2]["payload"]["severity"]), (0, "trigger", "critical"), done.stderr)
        printed = json.loads(self.run_program("pagerduty", told, "--print").stdout)
        self.assertEqual((printed["routing_key"], printed["payload"]["source"]), ("", "n3"))

    def test_a_refusing_server_is_a_failure_and_its_address_is_not_printed(self):
        self.serve(503)
        done = self.run_program("webhook", verdict(), "--url-file", self.path("secret"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("503", done.stderr)
        self.assertNotIn("T0KEN", done.stderr)


class RunTest(FolderTest):
    def test_the_command_of_lockstep_run_gets_hangs_and_crashes(self):
        for fault, status, kinds in (("stall-host", 90, {"HUNG"}), ("exit-early", None, {"CRASHED"})):
            out = self.path(fault)
            done = subprocess.run(
                [LOCKSTEP, "run", "-n", "4", "--late-after", "1", "--kill-on-hang", "--out", out, "--on-verdict",
                 f"sleep 0.3; cat >{out}.told; echo $LOCKSTEP_INCIDENT >{out}.incident", "--", TRAINSIM, "--tp", "2", "--dp", "2", "--steps",
                 "100000", "--fault", f"rank=1,step=20,kind={fault}"],
                env=clean_environment(LOCKSTEP_DIR=self.rings, LD_LIBRARY_PATH=STANDIN), capture_output=True, text=True, timeout=240, check=False)
            if status is not None:
                self.assertEqual(done.returncode, status, done.stderr)
            with open(out + ".told") as file:
                told = json.load(file)
            self.assertIn(told["verdict"], kinds)
            self.assertIn(1, told["recommended"]["ranks"], told["recommended"])
            with open(out + ".incident") as file:
                self.assertEqual(file.read().strip(), out)
            self.assertIn("accepted the verdict", done.stderr)


if __name__ == "__main__":
    no_skip.main()
