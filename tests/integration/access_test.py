#!/usr/bin/env python3
"""Tests the access control of real programs: keys, ports in the test's own network namespace, and the socket of a host."""

import os
import re
import socket
import subprocess
import unittest
import urllib.request

from cluster import ClusterCase
from network_cut_test import Namespace
from support import BIN, free_port, wait_for

RUNS = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--pace-ms", "5"]


class AccessTest(ClusterCase):
    def tool(self, made, name, *arguments, prefix=()):
        return subprocess.run([*prefix, os.path.join(BIN, name), *arguments], env=made.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)

    def keygen(self, made, folder, role, name=None):
        done = self.tool(made, "lockstep-keygen", "--role", role, *(["--name", name] if name else []), made.path(folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        return made.path(folder, (name or role) + ".key")

    def test_every_key_allows_only_what_its_role_permits(self):
        made = self.make()
        for role in ("collector", "agent", "operator", "reader"):
            self.keygen(made, "keys", role)
        stranger = self.keygen(made, "elsewhere", "agent")
        outsider = self.keygen(made, "elsewhere", "operator")
        metrics = f"127.0.0.1:{free_port()}"
        made.start_collector("--keys", made.path("keys"), "--metrics", metrics)
        self.assertTrue(wait_for(lambda: "listens on" in made.log("collector"), 60), made.logs())
        server = ["--server-key", made.path("keys", "collector.pub")]
        made.start_agent(0, None, "--key", made.path("keys", "agent.key"), *server)
        made.start_agent(1, None, "--key", stranger, *server)
        made.start_ranks(*RUNS)

        def refused():
            try:
                with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=5) as page:
                    found = re.search(r"^lockstep_wire_refused_keys\S* ([0-9.e+]+)$", page.read().decode(), re.M)
                    return float(found[1]) if found else 0
            except OSError:
                return 0

        self.assertTrue(wait_for(refused, 60), "the refusal must be counted: " + made.logs())
        reach = ["--collector", f"tcp://127.0.0.1:{made.port}", *server]

        def shown():
            done = self.tool(made, "lockstep-top", *reach, "--key", made.path("keys", "reader.key"))
            return done.stdout if done.returncode == 0 and "job train" in done.stdout and "agents 1 " in done.stdout else None

        self.assertTrue(wait_for(shown, 120), "a reader must see the one accepted agent: " + made.logs())
        denied = self.tool(made, "lockstep-dump", "train", *reach, "--key", made.path("keys", "reader.key"))
        self.assertNotIn(denied.returncode, (0, 1))
        self.assertIn("is read-only", denied.stderr)
        unknown = self.tool(made, "lockstep-top", *reach, "--key", outsider)
        self.assertEqual(unknown.returncode, 1)
        self.assertNotIn("job train", unknown.stdout)
        agents = self.tool(made, "lockstep-top", *reach, "--key", made.path("keys", "agent.key"))
        self.assertEqual(agents.returncode, 1, "an agent's key must not allow queries: " + agents.stdout)
        self.assertEqual(made.incidents(), [])
        dumped = self.tool(made, "lockstep-dump", "train", *reach, "--key", made.path("keys", "operator.key"))
        self.assertIn(dumped.returncode, (0, 1), dumped.stderr + made.logs())
        self.assertEqual(len(made.incidents()), 1)
        self.assertIsNone(made.agents[1].poll(), "who is not let in goes on trying: " + made.logs())

    def test_a_collector_that_does_not_answer_is_reported_before_the_timeout(self):
        made = self.make()
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            endpoint = f"tcp://127.0.0.1:{nobody.getsockname()[1]}"  # bound, but nobody listens
            waiting = subprocess.Popen([os.path.join(BIN, "lockstep-dump"), "--collector", endpoint, "train"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=made.environment())
            self.addCleanup(waiting.communicate)
            self.addCleanup(waiting.kill)
            result = waiting.stderr.readline()
            for part in ("no response from the collector at " + endpoint, "--collector", "retrying", "lockstep doctor"):
                self.assertIn(part, result)
            self.assertIsNone(waiting.poll(), "the tool keeps trying")
            done = self.tool(made, "lockstep-dump", "--collector", endpoint, "--timeout", "1", "train")
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertIn("no response within 1.0 s", done.stderr)

    def test_a_key_that_others_may_read_is_refused(self):
        made = self.make()
        key = self.keygen(made, "keys", "collector")
        os.chmod(key, 0o644)
        done = self.tool(made, "lockstep-collector", "--listen", "tcp://127.0.0.1:0", "--keys", made.path("keys"), "--out", made.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn("collector.key", done.stderr)
        os.chmod(key, 0o600)
        os.chmod(self.keygen(made, "keys", "agent"), 0o640)
        done = self.tool(made, "lockstep-agent", "--collector", f"tcp://127.0.0.1:{made.port}", "--key", made.path("keys", "agent.key"), "--server-key",
                         made.path("keys", "collector.pub"), "--rings", made.rings, "--spool", made.path("spool"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("agent.key", done.stderr)

    def test_nothing_listens_on_a_port_without_keys_unless_the_user_asks(self):
        try:
            namespace = Namespace()
        except OSError as error:
            self.skipTest(f"no unshare: {error}")
        self.addCleanup(namespace.close)
        if not namespace.there or namespace.run("ip", "link", "set", "lo", "up").returncode != 0:
            self.skipTest("this machine does not allow network namespaces")
        added = namespace.run("ip", "addr", "add", "10.77.1.1/24", "dev", "lo")
        self.assertEqual(added.returncode, 0, added.stderr)
        made = self.make(keys=False)
        made.prefix = namespace.prefix
        endpoint = f"tcp://10.77.1.1:{made.port}"
        for program, arguments in (("lockstep-collector", ["--listen", endpoint, "--out", made.out]),
                                   ("lockstep-collector", ["--listen", "tcp://0.0.0.0:0", "--out", made.out]),
                                   ("lockstep-collector", ["--listen", "tcp://127.0.0.1:0", "--out", made.out]),
                                   ("lockstep-collector", ["--listen", f"ipc://{made.path('relay.sock')}", "--upstream", endpoint]),
                                   ("lockstep-agent", ["--collector", endpoint, "--rings", made.rings, "--spool", made.path("spool")]),
                                   ("lockstep-top", ["--collector", endpoint]),
                                   ("lockstep-dump", ["--collector", endpoint, "train"])):
            done = self.tool(made, program, *arguments, prefix=namespace.prefix)
            self.assertNotEqual(done.returncode, 0, program)
            self.assertIn("key", done.stderr, program)
        made.collector = made.start("lockstep-collector", "collector", "--listen", endpoint, "--out", made.out, "--insecure")
        self.assertTrue(wait_for(lambda: "listens on" in made.log("collector"), 60), made.logs())
        self.assertIn("WARNING: --insecure", made.log("collector"), "loudly")
        for host in range(made.hosts):
            made.start_agent(host, endpoint, "--insecure")
        made.start_ranks(*RUNS)

        def shown():
            done = self.tool(made, "lockstep-top", "--collector", endpoint, "--insecure", prefix=namespace.prefix)
            return done.returncode == 0 and "agents 2 " in done.stdout and "ranks 4 of 4" in done.stdout

        self.assertTrue(wait_for(shown, 120), made.logs())

    def test_a_users_programs_meet_on_a_socket_without_options(self):
        made = self.make(hosts=1, per_host=4, keys=False)
        made.collector = made.start("lockstep-collector", "collector", "--out", made.out, "--late-after", "1")
        self.assertTrue(wait_for(lambda: "listens on ipc://" in made.log("collector"), 60), made.logs())
        socket_file = made.path("runtime", "collector.sock")
        self.assertEqual(os.stat(socket_file).st_mode & 0o077, 0)
        self.assertEqual(os.stat(made.path("runtime")).st_mode & 0o077, 0)
        second = self.tool(made, "lockstep-collector", "--out", made.path("other"))
        self.assertEqual(second.returncode, 1)
        self.assertIn("another process already listens", second.stderr)
        rings = os.path.join(made.rings, "node0")
        os.makedirs(rings)
        made.agents[0] = made.start("lockstep-agent", "agent0", "--rings", rings, "--spool", made.path("spool0"), LOCKSTEP_HOST="node0")
        made.start_ranks(*RUNS)

        def shown():
            done = self.tool(made, "lockstep-top", "--once", "train")
            return done.returncode == 0 and "ranks 4 of 4" in done.stdout

        self.assertTrue(wait_for(shown, 120), made.logs())
        if os.geteuid() != 0:
            return
        # The socket excludes other users even if its folder does not.
        os.chmod(made.folder, 0o755)
        os.chmod(made.path("runtime"), 0o755)
        reach = ("import socket, sys\n"
                 "try:\n    socket.socket(socket.AF_UNIX).connect(sys.argv[1])\nexcept OSError as error:\n    print(error.strerror)")
        stranger = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "python3", "-c", reach, socket_file],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(stranger.stdout, "Permission denied\n", stranger.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
