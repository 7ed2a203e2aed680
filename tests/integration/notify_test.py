#!/usr/bin/env python3
"""Tests the programs of packaging/notify: what they send, when they act, and that hostile names cannot get into commands. Also tests the --on-verdict
command of `lockstep run`. Slurm's programs, sendmail and kubectl are stand-ins that record their arguments."""

import http.server
import json
import os
import shutil
import subprocess
import threading

import no_skip
from support import LOCKSTEP, SOURCE, STANDIN, TRAINSIM, FolderTest, clean_environment, read_json

NOTIFY = os.path.join(SOURCE, "packaging/notify")
# The programs also need the site's own commands and, to post, curl.
TOOLS = ("awk", "cat", "cut", "date", "dirname", "fold", "head", "mkdir", "od", "readlink", "sed", "sha256sum", "sleep", "sync", "timeout", "tr")
STAND_IN = """#!/bin/sh
{ printf '%s' "${0##*/}"; for word; do printf '\\t%s' "$word"; done; printf '\\n'; } >>"$CALLS"
case ${0##*/} in curl) exec "$CURL" "$@" ;; sendmail | kubectl) [ "$1" = taint ] || cat >>"$CALLS.input" ;; squeue) case $3 in *%T) echo PENDING ;; *) echo n9 ;; esac ;; esac
[ ! -e "$CALLS.fail" ]
"""


def verdict(action="exclude", hosts=("n3",), confidence=0.97, job="17", why="rank 5 (n3, GPU 1) is stuck."):
    return {"schema_version": 2, "verdict": "HUNG", "job": job, "findings": [{"kind": "HOST_STALL"}],
            "recommended": {"action": action, "hosts": list(hosts), "ranks": [5], "why": why, "confidence": confidence}}


def variables(verdict_json, **more):
    """Returns the variables that Lockstep derives from a verdict, without its checks of names (verdict_hook_test)."""
    recommended = verdict_json["recommended"]
    about = {"": verdict_json["verdict"], "_FINDING": verdict_json["findings"][0]["kind"], "_JOB": verdict_json["job"], "_JOB_ID": verdict_json["job"].split("/")[0],
             "_ACTION": recommended["action"], "_CONFIDENCE": f"{recommended['confidence']:.4f}", "_HOSTS": " ".join(recommended["hosts"]),
             "_HOSTS_LEFT_OUT": "0", "_RANKS": " ".join(map(str, recommended["ranks"])), "_WHY": recommended["why"]}
    return {f"LOCKSTEP_VERDICT{name}": value for name, value in {**about, **more}.items()}


class NotifyTest(FolderTest):
    SHELL = ("dash",)

    def setUp(self):
        super().setUp()
        if not shutil.which(self.SHELL[0]):
            self.skipTest(f"no {self.SHELL[0]} here")
        self.calls = self.path("calls")
        os.mkdir(self.path("bin"))
        for name in TOOLS:
            os.symlink(shutil.which("busybox" if self.SHELL[0] == "busybox" else name), self.path("bin", name))
        for name in ("curl", "scontrol", "squeue", "sendmail", "kubectl"):
            with open(self.path("bin", name), "w") as file:
                file.write(STAND_IN)
            os.chmod(self.path("bin", name), 0o755)

    def run_program(self, name, verdict_json, *options):
        environment = {"PATH": self.path("bin"), "CURL": shutil.which("curl"), "CALLS": self.calls, "LOCKSTEP_INCIDENT": "/incidents/one"}
        environment.update(variables(verdict_json) if "recommended" in verdict_json else verdict_json)
        return subprocess.run([shutil.which(self.SHELL[0]), *self.SHELL[1:], os.path.join(NOTIFY, name), *options], stdin=subprocess.DEVNULL,
                              env=environment, capture_output=True, text=True, timeout=60, check=False)

    def act(self, name, verdict_json, *options):
        return self.run_program(name, verdict_json, "--state", self.path("state"), *options)

    def called(self):
        """Returns the recorded calls, except queries about the job."""
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
        for verdict_json, word in ((verdict(confidence=0.6), "confidence"), (verdict(job="pretrain"), "no Slurm job id"),
                           (verdict(hosts=["n3", "n4", "n5"]), "--most-nodes"), (verdict(action="ask"), "person"), (verdict(action="wait"), "wait"),
                           (variables(verdict(), _HOSTS_LEFT_OUT="1"), "no node")):
            done = self.act("slurm", verdict_json, "--do")
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
        verdict_json = verdict("requeue", hosts=[])
        for _ in range(5):
            self.assertEqual(self.act("slurm", verdict_json, "--do").returncode, 1)
        os.remove(self.calls + ".fail")
        done = self.act("slurm", verdict_json, "--do")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_programs_that_start_together_share_the_limit(self):
        tasks = [threading.Thread(target=self.act, args=("slurm", verdict(job=str(at), hosts=[f"n{at}"]), "--do")) for at in range(1, 7)]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        self.assertIn(len({call[2] for call in self.called() if call[1] == "requeuehold"}), (1, 2))

    def test_hostile_names_reach_no_command(self):
        for host in ("-n3", "n3;reboot", "n3 State=DOWN", "n3\nn4", "../n3", "*", "n" * 300, "$(id)"):
            for name in ("slurm", "kubernetes"):
                self.act(name, verdict(hosts=[host]), "--do")
                self.assertEqual(self.called(), [], (name, host))
        for job in ("17;reboot", "17 18", "-17", "17\n18"):
            self.act("slurm", verdict(job=job), "--do")
            self.assertEqual(self.called(), [], job)
        self.act("slurm", verdict(why="'; reboot; \x1b[2J"), "--do")
        self.assertNotIn("reboot", str(self.called()))

    def test_an_environment_without_a_verdict_is_refused(self):
        for verdict_json in ({"LOCKSTEP_VERDICT": ""}, {"LOCKSTEP_VERDICT": "HUNG"}, *(
                {**variables(verdict()), f"LOCKSTEP_VERDICT{name}": value}
                for name, value in (("", "HUNG\n"), ("_ACTION", "reboot"), ("_CONFIDENCE", "nan"), ("_CONFIDENCE", "1e300"), ("_RANKS", '5"'),
                                    ("_FINDING", "A'"), ("_HOSTS", "n3 *")))):
            done = self.act("slurm", verdict_json, "--do")
            self.assertEqual((done.returncode, self.called()), (0, []), done.stderr)
            self.assertRegex(done.stderr, "^lockstep slurm: the environment has no verdict")

    def test_wrong_usage_is_reported(self):
        for options in (("--most-nodes", "two"), ("--most-nodes",), ("--state",), ("--mode=reboot",), ("--do=1",), ("--$(id)", "1"), ("--least-confidence", "2"), ("x",)):
            done = self.run_program("slurm", verdict(), *options)
            self.assertEqual(done.returncode, 2, (options, done.stderr))
        self.assertIn("--most-requeues N", self.run_program("slurm", verdict(), "--help").stdout)

    def test_kubernetes_writes_events_and_taints(self):
        self.assertEqual(self.act("kubernetes", verdict()).returncode, 0)
        self.assertEqual(self.called(), [["kubectl", "create", "--filename=-"]])
        event = read_json(self.calls + ".input")
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

    def test_a_record_that_cannot_be_kept_stops_every_action(self):
        os.remove(self.path("bin/awk"))
        self.assertEqual((self.act("slurm", verdict(), "--do").returncode, self.called()), (1, []))
        done = self.run_program("slurm", verdict(), "--do", "--state", "/proc/none")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.called(), [])

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
        verdict_json = verdict(why="rank 5 <!channel> & <https://example.org|more>")
        done = self.run_program("webhook", verdict_json, "--url-file", self.path("secret"))
        self.assertEqual((done.returncode, list(taken[0])), (0, ["text"]), done.stderr)
        self.assertIn("rank 5 &lt;!channel&gt; &amp; ", taken[0]["text"])
        verdict_json = verdict(why="rank 5 \"\\\" é €\U0001f600 \n\x1b[2J \udcff\udcc3 %s\\u0041", job="17\"}/$(id)`id`")
        self.run_program("webhook", verdict_json, "--url-file", self.path("secret"), "--form", "json")
        seen = verdict_json["recommended"]["why"].replace("\udcff", "\ufffd").replace("\udcc3", "\ufffd")
        self.assertEqual(taken[1]["recommended"], {**verdict_json["recommended"], "why": seen})
        self.assertEqual((taken[1]["incident"], taken[1]["job"]), ("/incidents/one", verdict_json["job"]))
        self.assertIn(seen, taken[1]["text"])
        done = self.run_program("pagerduty", verdict_json, "--url", url, "--key-file", self.path("secret"))
        self.assertEqual((done.returncode, taken[2]["event_action"], taken[2]["payload"]["severity"]), (0, "trigger", "critical"), done.stderr)
        self.assertNotIn("T0KEN", str(self.called()), "a secret on a command line")
        printed = json.loads(self.run_program("pagerduty", verdict(why="w" * 2000), "--print").stdout)
        self.assertEqual((printed["routing_key"], printed["payload"]["source"]), ("", "n3"))
        self.assertEqual((len(printed["payload"]["summary"]), printed["payload"]["summary"][-4:]), (1024, "w..."))

    def test_an_address_cannot_be_an_option_of_curl(self):
        for address in ('http://127.0.0.1/"\noutput = /tmp/x', "file:///etc/passwd", "-o/tmp/x"):
            with open(self.path("secret"), "w") as file:
                file.write(address.replace("\n", "\\n"))
            done = self.run_program("webhook", verdict(), "--url-file", self.path("secret"))
            self.assertEqual((self.called(), done.returncode), ([], 0), done.stderr)

    def test_a_refusing_server_is_a_failure_and_its_address_is_not_printed(self):
        self.serve(503)
        done = self.run_program("webhook", verdict(), "--url-file", self.path("secret"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("503", done.stderr)
        self.assertNotIn("T0KEN", done.stderr)


class BusyboxTest(NotifyTest):
    SHELL = ("busybox", "sh")


class RunTest(FolderTest):
    def test_the_command_of_lockstep_run_gets_hangs_and_crashes(self):
        for fault, status, kinds in (("stall-host", 90, {"HUNG"}), ("exit-early", None, {"CRASHED"})):
            out = self.path(fault)
            done = subprocess.run(
                [LOCKSTEP, "run", "-n", "4", "--late-after", "1", "--kill-on-hang", "--out", out, "--on-verdict",
                 f"sleep 0.3; cat >{out}.told; echo $LOCKSTEP_INCIDENT >{out}.incident; {NOTIFY}/slurm --state {out}.state", "--", TRAINSIM, "--tp", "2", "--dp", "2", "--steps",
                 "100000", "--fault", f"rank=1,step=20,kind={fault}"],
                env=clean_environment(LOCKSTEP_DIR=self.rings, LD_LIBRARY_PATH=STANDIN, LOCKSTEP_JOB="17"), capture_output=True, text=True, timeout=240, check=False)
            if status is not None:
                self.assertEqual(done.returncode, status, done.stderr)
            verdict_json = read_json(out + ".told")
            self.assertIn(verdict_json["verdict"], kinds)
            self.assertIn(1, verdict_json["recommended"]["ranks"], verdict_json["recommended"])
            with open(out + ".incident") as file:
                self.assertEqual(file.read().strip(), out)
            self.assertIn("accepted the verdict", done.stderr)
            with open(out + ".state/actions.jsonl") as file:
                record = json.loads(file.read())
            self.assertEqual((record["job"], record["nodes"]), ("17", verdict_json["recommended"]["hosts"] if verdict_json["recommended"]["action"] == "exclude" else []))


if __name__ == "__main__":
    no_skip.main()
