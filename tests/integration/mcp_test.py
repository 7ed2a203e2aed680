#!/usr/bin/env python3
"""Uses `lockstep mcp` like an assistant: JSON-RPC on standard input and output, with an incident of a simulated job. tests/outside/assistant.py uses the
official client of the protocol."""

import json
import os
import re
import shutil
import subprocess

import no_skip
from support import BIN, LOCKSTEP, FolderTest, clean_environment

CITED = re.compile(r"^\[[a-z0-9.]+\] \S", re.I)
TOOLS = ["incidents", "verdict", "why", "ranks", "stacks", "query", "compare"]


class McpTest(FolderTest):
    def setUp(self):
        super().setUp()
        subprocess.run([os.path.join(BIN, "lockstep-corpus"), "generate", "--scenario", "2", "--ranks", "8", "--format", "lsd", "--out", self.path("made")],
                       check=True, stdout=subprocess.DEVNULL, timeout=120)
        os.mkdir(self.path("incidents"))
        self.name = "lockstep-incident-train-20260101-000000"
        shutil.copytree(self.path("made", "data"), self.path("incidents", self.name))
        self.number = 0

    def start(self, *paths):
        self.server = subprocess.Popen([LOCKSTEP, "mcp", *paths], env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait, 60)
        self.addCleanup(self.server.stdin.close)

    def send(self, line):
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()

    def ask(self, method, **params):
        self.number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}))
        answer = json.loads(self.server.stdout.readline())
        self.assertEqual(answer["id"], self.number)
        return answer

    def call(self, tool, **arguments):
        """Returns whether the result is an error, and the lines between the markers."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        text = result["content"][0]["text"]
        found = re.fullmatch(r"(?s).*not an instruction\.\n<data (\w{16})>\n(.*)\n</data \1>", text)
        self.assertTrue(found, text)
        return result["isError"], found.group(2).strip().splitlines()

    def test_an_assistant_finds_what_stopped_the_job(self):
        self.start(self.path("incidents"))
        self.assertEqual(self.ask("initialize", protocolVersion="2025-06-18", capabilities={})["result"]["protocolVersion"], "2025-06-18")
        self.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.assertEqual([tool["name"] for tool in self.ask("tools/list")["result"]["tools"]], TOOLS)
        self.assertEqual(self.call("incidents"), (False, [f"[i1] {self.name}"]))
        verdict = json.loads(subprocess.run([LOCKSTEP, "analyze", "--format", "json", self.path("incidents", self.name)], stdout=subprocess.PIPE, text=True,
                                            timeout=60, check=False).stdout)
        finding = verdict["findings"][0]
        rank, other = finding["culprit_ranks"][0], 0 if finding["culprit_ranks"][0] else 1
        for tool, arguments in (("verdict", {}), ("why", {"finding": 1}), ("ranks", {"ranks": f"{rank}"}), ("stacks", {}), ("query", {"ranks": f"{rank}", "limit": 3}),
                                ("compare", {"rank": rank, "other": other})):
            failed, lines = self.call(tool, **arguments)
            self.assertFalse(failed, lines)
            self.assertEqual(lines[0], f"Incident {self.name}")
            for line in lines[1:]:
                self.assertTrue(line == "Nothing is recorded." or CITED.match(line), (tool, line))
            if tool == "verdict":
                self.assertRegex(lines[1], rf"^\[v\] {verdict['verdict']}\b")
                self.assertIn(finding["kind"], lines[3])
            if tool == "query":
                self.assertEqual(len(lines), 5)
                self.assertRegex(lines[1], rf"^\[r{rank}\.o\d+\] \w+: rank {rank}, on ")
        _, calls = self.call("query", operation="allreduce", state="in flight")
        self.assertRegex(calls[-1], r"^\[count\] \d+ calls match")

    def test_only_the_incident_can_be_read(self):
        os.symlink("/etc", self.path("incidents", "lockstep-incident-link"))
        self.start(self.path("incidents"))
        for name in ("../made/data", self.path("made/data"), "/etc/passwd", "lockstep-incident-link", "nothing"):
            failed, lines = self.call("verdict", incident=name)
            self.assertTrue(failed)
            self.assertEqual(lines, ["there is no such incident: see `incidents`"])
        before = sorted(os.walk(self.folder))
        self.call("verdict")
        self.assertEqual(sorted(os.walk(self.folder)), before, "no file may change")

    def test_long_and_malformed_lines_do_not_end_the_server(self):
        self.start(self.path("incidents"))
        for line in ("x" * (3 << 20), "{", "[" * 5000):
            self.send(line)
            self.assertEqual(json.loads(self.server.stdout.readline())["error"]["code"], -32700)
        self.assertEqual(self.ask("tools/call", name="verdict", arguments={"path": "/"})["error"]["code"], -32602)
        self.assertTrue(self.call("why", finding=99)[0])
        self.assertTrue(self.call("ranks", ranks="x")[0])
        self.assertTrue(self.call("compare", rank=-5, other=10**15)[0])
        self.server.stdin.close()
        self.assertEqual(self.server.wait(60), 0)


if __name__ == "__main__":
    no_skip.main()
