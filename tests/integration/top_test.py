#!/usr/bin/env python3
"""Runs lockstep top in a real terminal (tmux) of 80 and other numbers of columns. Checks what it draws, what the keys do, and how it exits."""

import json
import os
import shutil
import subprocess
import time
import unittest

from support import BUILD, LOCKSTEP, FolderTest, clean_environment

STUB = os.path.join(BUILD, "tests/lockstep_top_stub")


def ranks(*runs):
    return {"first": [run[0] for run in runs], "last": [run[1] for run in runs]}


def hung_job(communicators):
    """Returns a hung job of 4,096 ranks with `communicators` communicators; the first one waits for rank 1736."""
    now = time.time_ns()
    listed = [{"id": 1, "name": "tp_217", "size": 8, "in": 7, "started": 6, "issuedMax": 9001423, "ageNs": 14 * 10**9, "limitNs": 5 * 10**9,
               "doing": "Broadcast #9,001,423", "missing": ranks((1736, 1736)), "standing": "root"}]
    listed += [{"id": n + 2, "name": f"dp_{n}", "size": 512, "in": 511, "ageNs": 13 * 10**9, "alike": communicators // 255,
                "doing": "AllReduce #9,001,420", "standing": "victim of tp_217"} for n in range(255)]
    return {"job": {"job": "llama-70b"}, "state": "hung", "sinceRealNs": now - 14 * 10**9, "ranks": 4088, "ranksExpected": 4096,
            "agents": 512, "agentsSilent": 1, "stopped": ranks((1736, 1736)), "communicators": listed,
            "communicatorsTotal": communicators, "blind": ["dgx0391: agent silent"],
            "lateArrivals": ["12 s ago: tp_217 #9,001,423: rank 1736 missing for 5.1 s (limit 5.0 s)"],
            "hardware": ["30 s ago: dgx0217: Xid 79 on GPU 0: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."],
            "stages": [{"stage": stage, "ranks": ranks((stage * 2048, stage * 2048 + 2047))} for stage in range(2)],
            "hosts": [{"host": "dgx0217", "ranks": ranks((1736, 1743)), "troubled": 1}], "hostsTotal": 512,
            "lastIncident": {"path": "/incidents/llama", "text": "HUNG: rank 1736 never called Broadcast\nwhy: it is stopped"}}


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class TopTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.tmux = ["tmux", "-S", os.path.join(self.folder, "tmux"), "-f", "/dev/null"]
        self.write("status", jobs=[hung_job(10000)])
        self.write("rank", lines=["rank 7 = dgx0000 GPU 7, in AllReduce #4"])
        self.write("stacks", lines=["rank 1736", "  read"])
        self.write("dump", progress="asking 4,096 ranks", incident={"path": "/incidents/now", "text": "HUNG: as before"})
        self.stub = subprocess.Popen([STUB, self.folder], stdout=subprocess.PIPE, text=True)
        self.endpoint = self.stub.stdout.readline().strip()

    def tearDown(self):
        subprocess.run([*self.tmux, "kill-server"], stderr=subprocess.DEVNULL, check=False)
        self.stub.kill()
        self.stub.wait()
        self.stub.stdout.close()

    def write(self, name, **reply):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w") as file:
            json.dump(reply, file)
        os.rename(path + ".new", path)

    def start(self, columns=80, lines=24):
        command = f"{LOCKSTEP} top --collector {self.endpoint}; echo ENDED $?; exec cat"
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(lines), command], env=environment, check=True)

    def press(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def screen(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout

    def see(self, *texts, gone=()):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            screen = self.screen()
            if all(text in screen for text in texts) and not any(text in screen for text in gone):
                return screen
            time.sleep(0.05)
        self.fail(f"not seen: {texts} without {gone} in:\n{screen}")

    def test_10_000_communicators_fit_in_80_columns(self):
        self.start()
        screen = self.see("llama-70b", "hung for", "ranks 4,088 of 4,096", "stopped 1 (1736)", "tp_217", "7/8", "Broadcast #9,001,423", "1736 [root]", "511/512",
                          "[victim of tp_217]", "q quit")
        self.assertTrue(all(len(line) <= 80 for line in screen.splitlines()))
        self.assertEqual(len(screen.splitlines()), 24)
        self.press("G")  # `G` has no function
        for _ in range(20):
            self.press("NPage")
        screen = self.see("dgx0391: agent silent", "/incidents/llama", "30 s ago: dgx0217: Xid 79 on GPU 0:", gone=("[root]",))
        self.assertIn("  12 s ago: tp_217 #9,001,423: rank 1736 missing for 5.1 s (limit 5.0 s)\n", screen)
        self.assertTrue(all(len(line) <= 80 for line in screen.splitlines()))
        for _ in range(20):
            self.press("PPage")
        self.see("tp_217")

    def test_each_key_has_its_effect(self):
        self.start(columns=100, lines=30)
        self.see("tp_217")
        self.press("w")
        self.see("rank 1736 never called Broadcast", "why: it is stopped")
        self.press("s")
        self.see("STACKS", "  read")
        self.press("f", "7", "Enter")
        self.see("rank 7 = dgx0000 GPU 7")
        self.press("Escape")
        self.see("tp_217", gone=("dgx0000",))
        self.press("g")
        self.see("1736 dgx0217", "stopped", "MISSING FROM", "group: ranks")
        self.press("g")
        self.see("dp_*", "group: roles")
        self.press("g")
        self.see("dgx0217", "and 511 more hosts")
        self.press("g")
        self.see("RAIL", "group: rails")
        self.press("g")
        self.see("STAGE", "2,048", "1736", "group: stages")
        self.press("d")
        self.see("request a dump of llama-70b now? y/n")
        self.press("n")
        self.see("q quit")
        self.press("d", "y")
        self.see("asking 4,096 ranks", "incident: /incidents/now")
        self.press("?")
        self.see("KEYS", "the next job")
        self.press("q")
        self.see("ENDED 0")

    def test_a_resized_window_and_a_dead_collector_are_shown(self):
        self.start(columns=120, lines=40)
        self.see("tp_217")
        subprocess.run([*self.tmux, "resize-window", "-x", "60", "-y", "15"], check=True)
        screen = self.see("tp_217", "llama-70b")
        self.assertTrue(all(len(line) <= 60 for line in screen.splitlines()))
        self.stub.kill()
        self.see("NO RESPONSE for")
        self.press("q")
        self.see("ENDED 0")

    def test_the_first_screen_lists_all_jobs(self):
        healthy = {"job": {"job": "eval"}, "state": "moving", "ranks": 8, "ranksExpected": 8, "communicators": [{"id": 9, "name": "dp_eval", "size": 8}]}
        self.write("status", jobs=[healthy, hung_job(10)])
        self.start()
        self.see("2 jobs", "> eval", "moving", "  llama-70b", "hung", "4,088/4,096", "1736 in tp_217", "    HUNG: rank 1736 never called Broadcast")
        self.press("Down")
        self.see("  eval", "> llama-70b")
        self.press("d")
        self.see("request a dump of llama-70b now? y/n")
        self.press("n")
        self.write("status", jobs=[hung_job(10)] + [{**healthy, "job": {"job": f"more{n}"}} for n in range(3)])
        self.see("4 jobs", "> llama-70b", "  more2")  # the selection stays with its job
        self.press("Enter")
        self.see("COMMUNICATOR", "1736 [root]", "[1/4]")
        self.press("Escape")
        self.see("4 jobs", "> llama-70b")

    def test_output_without_a_terminal_is_plain_text(self):
        result = subprocess.run([LOCKSTEP, "top", "--collector", self.endpoint], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("job llama-70b", result.stdout)
        self.assertIn("1736 [root]", result.stdout)
        self.assertNotIn("\x1b", result.stdout)


class UsageTest(FolderTest):
    def top(self, *arguments, **environment):
        folder = self.temporary()
        try:
            clean = clean_environment()
            return subprocess.run([LOCKSTEP, "top", *arguments], env={**clean, "LOCKSTEP_RUNTIME_DIR": folder, **environment},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def test_wrong_arguments_are_refused(self):
        for arguments, word in ((["--bad"], "unknown option '--bad'"), (["a", "b"], "unexpected argument 'b'"), (["--key"], "--key takes a value")):
            result = self.top(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(word, result.stderr)
        self.assertEqual(self.top("--help").returncode, 0)

    def test_a_missing_collector_is_reported(self):
        result = self.top()
        self.assertEqual(result.returncode, 1)
        self.assertIn("found no collector", result.stderr)
        result = self.top("--collector", "tcp://10.0.0.1:9470")
        self.assertEqual(result.returncode, 1)
        self.assertIn("key", result.stderr)


if __name__ == "__main__":
    unittest.main()
