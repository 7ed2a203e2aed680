#!/usr/bin/env python3
"""Runs the programs of one host as users do: an agent alone, and clocks that jump by hours."""

import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import unittest

from cluster import Cluster, ledger
from support import BIN, BUILD, read_json, tool, wait_for

RUNS = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "1000000"]
SHIM = os.path.join(BUILD, "tests/libclock_shim.so")
HOUR = 3600 * 10 ** 9


class SetClocks(Cluster):
    """A cluster whose agents and collector have settable wall clocks."""

    def __init__(self, **options):
        super().__init__(**options)
        self.clocks = {}

    def start(self, program, name, *arguments, **environment):
        if program in ("lockstep-agent", "lockstep-collector"):
            path = self.path(name + ".clock")
            if not os.path.exists(path):
                self.clocks[name] = path
                self.set_clock(name, 0)
            environment.update(LD_PRELOAD=SHIM, CLOCK_SHIM=path)
        return super().start(program, name, *arguments, **environment)

    def set_clock(self, name, offset_ns):
        fd = os.open(self.clocks[name], os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(fd, struct.pack("<q", offset_ns), 0)
        os.close(fd)


class ClockTest(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(SHIM), "the clock shim was not built")
    def test_clock_jumps_neither_cause_nor_hide_a_hang(self):
        made = SetClocks()
        self.addCleanup(made.close)
        made.start_all(*RUNS)

        def healthy():
            result = tool(made, "lockstep-dump", "train", "--json")
            if result.returncode not in (0, 1):
                return None
            verdict = json.loads(result.stdout)
            return verdict if verdict["ranks_read"] == 4 and verdict["verdict"] in ("HEALTHY", "SLOW") else None

        self.assertTrue(wait_for(healthy, 120), made.logs())
        for steps in ({"agent0": 6}, {"agent1": -9}, {"collector": 30}, {"agent0": -48, "agent1": 48, "collector": -2}):
            for name, hours in steps.items():
                made.set_clock(name, hours * HOUR)
            # Lasts longer than an agent may be silent. Each dump requests digests from every agent.
            for _ in range(3):
                self.assertTrue(wait_for(healthy, 60), f"{steps}\n{made.logs()}")
        days = {os.path.basename(folder).rsplit("-", 2)[1] for folder in made.incidents()}
        self.assertGreaterEqual(len(days), 2, f"the collector's clock was not set: {days}")
        self.assertNotIn("silent", made.log("collector"))
        self.assertNotRegex(made.log("collector"), r"\bhung\b")
        # Spooled data survives if the clock changes between two runs of the agent.
        made.kill(made.agents[1])
        made.set_clock("agent1", -72 * HOUR)
        made.start_agent(1)
        self.assertTrue(wait_for(healthy, 60), made.logs())
        before = set(made.incidents())
        made.set_clock("collector", 5 * HOUR)
        os.kill(made.ranks[2].pid, signal.SIGSTOP)

        def named():
            for folder in set(made.incidents()) - before:
                path = os.path.join(folder, "verdict.json")
                if os.path.exists(path):
                    verdict = read_json(path)
                    if verdict["findings"] and verdict["findings"][0]["culprit_ranks"] == [2]:
                        return folder
            return None

        made.set_clock("agent0", 3 * HOUR)
        folder = wait_for(named, 120)
        self.assertTrue(folder, made.logs())
        self.assertTrue(wait_for(lambda: folder in made.whole(), 120), made.logs())
        ids, problems = ledger(folder)
        self.assertEqual(problems, [])
        self.assertEqual(len(ids), len(set(ids)))


class AloneTest(unittest.TestCase):
    def setUp(self):
        self.made = Cluster(hosts=1, per_host=4, keys=False)
        self.addCleanup(self.made.close)

    def start_agent(self, *arguments):
        made = self.made
        rings = os.path.join(made.rings, "node0")
        os.makedirs(rings, exist_ok=True)
        made.agents[0] = made.start("lockstep-agent", "agent0", "--alone", "--rings", rings, "--spool", made.path("spool"), "--late-after", "1",
                                    *arguments, LOCKSTEP_HOST="node0")

    def test_an_agent_alone_answers_the_tools_and_finds_a_hang(self):
        made = self.made
        self.start_agent()
        made.start_ranks(*RUNS)

        def dumped():
            result = tool(made, "lockstep-dump", "train", "--json")
            return result if result.returncode in (0, 1) and json.loads(result.stdout)["ranks_read"] == 4 else None

        self.assertTrue(wait_for(dumped, 120), made.logs())
        folder = made.path("runtime")
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
        self.assertTrue(os.path.exists(os.path.join(folder, "agent.sock")))
        shown = tool(made, "lockstep-top", "--once", "train")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("train", shown.stdout)
        self.assertIn("moving", shown.stdout.lower())
        os.kill(made.ranks[1].pid, signal.SIGSTOP)
        incidents = made.path("incidents")

        def hung():
            for name in os.listdir(incidents):
                path = os.path.join(incidents, name, "verdict.json")
                if os.path.exists(path):
                    verdict = read_json(path)
                    if verdict["verdict"] == "HUNG":
                        return verdict
            return None

        verdict = wait_for(hung, 120)
        self.assertTrue(verdict, made.logs())
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [1])

    def test_rings_of_dead_processes_are_deleted_and_others_stay(self):
        made = self.made
        self.start_agent()
        made.start_ranks(*RUNS)
        rings = lambda: glob.glob(os.path.join(made.rings, "node0", "*", "*.ring"))
        self.assertTrue(wait_for(lambda: len(rings()) == 4 and "new job " in made.log("spool/collector"), 120), made.logs())
        for rank in made.ranks[1:]:
            made.kill(rank)
        saved = lambda: glob.glob(made.path("spool/rings/*.ring"))
        self.assertTrue(wait_for(lambda: len(saved()) == 3, 60), made.logs())
        self.assertEqual(len(rings()), 4, "rings younger than a week must stay")
        made.kill(made.agents[0], signal.SIGTERM)
        looked = ("lockstep-clean", "--dir", os.path.join(made.rings, "node0"), "--older-than", "1s", "--dry-run")
        self.assertTrue(wait_for(lambda: "would remove 3 rings" in tool(made, *looked).stdout, 30), made.logs())
        self.start_agent("--keep-rings", "1")
        self.assertTrue(wait_for(lambda: len(rings()) == 1, 60), made.logs())
        self.assertIn(f".{made.ranks[0].pid}.", rings()[0])
        self.assertEqual(len(saved()), 3)
        self.assertTrue(wait_for(lambda: "removed 3 rings of processes that are gone" in made.log("spool/agent"), 30), made.logs())

    def test_the_agents_own_collector_gets_collector_settings_from_the_files(self):
        made = self.made
        config = made.path("lockstep.conf")
        with open(config, "w") as file:
            file.write("[common]\nkeep = 3d\nredact = paths\n[collector]\nkeep-bytes = 123M\nhang-after = 77\nlisten = tcp://127.0.0.1:1\n"
                       f"runtime-dir = {made.path('elsewhere')}\n")
        os.chmod(config, 0o600)
        rings = os.path.join(made.rings, "node0")
        os.makedirs(rings)

        def collector():
            for name in os.listdir("/proc"):
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        words = file.read().decode().split("\0")[:-1]
                    with open(f"/proc/{name}/stat") as file:
                        parent = int(file.read().rpartition(")")[2].split()[1])
                except (OSError, ValueError, IndexError):
                    continue
                if parent == made.agents[0].pid and "--listen" in words:
                    return words
            return None

        for more, expected in (([], {"--keep": "3d", "--keep-bytes": "123M", "--hang-after": "77"}), (["--no-config"], {})):
            made.agents[0] = made.start("lockstep-agent", "agent0", "--alone", *more, "--rings", rings, "--spool", made.path("spool"), LOCKSTEP_CONFIG=config)
            words = wait_for(collector, 60)
            self.assertTrue(words, made.logs())
            for option in ("--keep", "--keep-bytes", "--hang-after"):
                self.assertEqual(words[words.index(option) + 1] if option in words else None, expected.get(option), words)
            self.assertEqual(words.count("--listen"), 1)
            self.assertIn(f"ipc://{made.path('runtime')}/agent.sock", words)
            made.kill(made.agents[0], signal.SIGTERM)

    def test_the_agents_own_collector_ends_with_the_agent(self):
        made = self.made
        self.start_agent()

        def collector():
            listed = subprocess.run(["pgrep", "-P", str(made.agents[0].pid), "-f", "lockstep-collector"], capture_output=True, text=True)
            return [int(word) for word in listed.stdout.split()]

        self.assertTrue(wait_for(collector, 60), made.logs())
        first = collector()[0]
        os.kill(first, signal.SIGKILL)
        self.assertTrue(wait_for(lambda: collector() and collector()[0] != first, 60), made.logs())
        second = collector()[0]
        made.kill(made.agents[0])  # SIGKILL, so that the agent cannot stop its collector
        self.assertTrue(wait_for(lambda: not os.path.exists(f"/proc/{second}") or open_state(second) == "Z", 60), made.logs())
        self.start_agent()
        self.assertTrue(wait_for(collector, 60), made.logs())
        third = collector()[0]
        other = tool(made, "lockstep-agent", "--alone", "--rings", made.rings, "--spool", made.path("other"), timeout=60)
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertIn("another agent --alone", other.stderr)
        self.assertEqual(collector(), [third])
        made.agents[0].terminate()
        self.assertEqual(made.agents[0].wait(60), 0)
        self.assertFalse(os.path.exists(f"/proc/{third}"))

    def test_wrong_arguments_are_refused(self):
        for words in (["--alone", "--collector", "tcp://127.0.0.1:1"], ["--out", "/tmp"]):
            result = tool(self.made, "lockstep-agent", *words, timeout=30)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertRegex(result.stderr, re.escape(words[0]))


@unittest.skipUnless(os.geteuid() == 0, "needs root, as whom the agent runs")
class OtherUsersTest(unittest.TestCase):
    """The host's agent runs as root; the programs that query the agent run as another user."""

    USER = 65534

    def setUp(self):
        self.made = Cluster(hosts=1, per_host=4, keys=False)
        self.addCleanup(self.made.close)
        os.chmod(self.made.folder, 0o755)
        os.mkdir(self.made.path("runtime"), 0o755)  # systemd or root's agent creates this folder
        if self.ask("lockstep-top", "--help").returncode != 0:
            self.skipTest("other users cannot run programs in the build folder")

    def ask(self, *words, **environment):
        programs = os.path.join(BIN, words[0])
        return subprocess.run(["setpriv", "--reuid", str(self.USER), "--regid", str(self.USER), "--clear-groups", programs, *words[1:]],
                              env=self.made.environment(HOME=self.made.path("home"), **environment), capture_output=True, text=True, timeout=120,
                              check=False)

    def keys(self, role, folder, owner=0):
        os.makedirs(folder, exist_ok=True)
        subprocess.run([os.path.join(BIN, "lockstep-keygen"), "--role", role, folder], check=True, capture_output=True, timeout=30)
        os.chown(os.path.join(folder, role + ".key"), owner, owner)

    def test_a_reader_may_view_and_an_operator_may_take_dumps(self):
        made = self.made
        known, reader, operator = made.path("known"), made.path("reader"), made.path("operator")
        self.keys("collector", known)
        self.keys("agent", known)
        self.keys("reader", reader, self.USER)
        self.keys("operator", operator, self.USER)
        for folder, role in ((reader, "reader"), (operator, "operator")):
            shutil.copy(os.path.join(folder, role + ".pub"), known)
        made.start_collector("--keys", known)
        self.assertTrue(wait_for(lambda: os.path.exists(made.path("runtime/collector"))), made.logs())
        made.start_agent(0, None, "--key", known + "/agent.key", "--server-key", known + "/collector.pub")
        made.start_ranks(*RUNS)

        def shown():
            result = self.ask("lockstep-top", "--once", "train", LOCKSTEP_KEYS=reader)
            return result if "train" in result.stdout else None

        self.assertTrue(wait_for(shown, 60), f"{self.ask('lockstep-top', '--once', LOCKSTEP_KEYS=reader)}\n{made.logs()}")
        refused = self.ask("lockstep-dump", "train", LOCKSTEP_KEYS=reader)
        self.assertNotIn(refused.returncode, (0, 1), refused.stdout)
        self.assertIn("operator", refused.stderr)
        self.assertEqual(self.ask("lockstep-top", "--once", "train").returncode, 1, "without a key")
        self.assertTrue(wait_for(lambda: self.ask("lockstep-dump", "train", LOCKSTEP_KEYS=operator).returncode in (0, 1), 60), made.logs())
        result = self.ask("lockstep-doctor", "--json", LOCKSTEP_KEYS=reader)
        check = next(check for check in json.loads(result.stdout)["checks"] if check["name"] == "collector")
        self.assertEqual(check["health"], "ok", check)

    def test_an_agent_alone_answers_only_its_own_user_and_says_so(self):
        made = self.made
        rings = os.path.join(made.rings, "node0")
        os.makedirs(rings)
        made.agents[0] = made.start("lockstep-agent", "agent0", "--alone", "--rings", rings, "--spool", made.path("spool"), LOCKSTEP_HOST="node0")
        self.assertTrue(wait_for(lambda: os.path.exists(made.path("runtime/collector"))), made.logs())
        for words in (("lockstep-top", "--once"), ("lockstep-dump", "train")):
            result = self.ask(*words)
            self.assertIn("answers only user 0", result.stderr)
            self.assertNotEqual(result.returncode, 0)


def open_state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


if __name__ == "__main__":
    unittest.main(verbosity=2)
