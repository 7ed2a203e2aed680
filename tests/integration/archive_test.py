#!/usr/bin/env python3
"""Tests lockstep archive with a real clickhouse-server: every row arrives exactly once, even if programs are killed, restarted or run in parallel."""

import glob
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import no_skip
from clickhouse import PASSWORD, of_module, until
from support import BUILD, FolderTest, clean_environment

ARCHIVE = os.path.join(BUILD, "bin/lockstep-archive")
TABLES = ("incidents", "findings", "culprits", "creations", "links", "speeds")

server = None


def setUpModule():
    global server
    server = of_module(ARCHIVE)


def finding(host, rank, place):
    return {"kind": "GPU_STALL", "culprit_ranks": [rank], "culprits": [{"rank": rank, "host": host, "gpu": 1, "state": "stuck"}], "operation": "AllReduce",
            "communicator": {"id": "00000000000000ff", "name": "dp_3", "size": 4}, "sequence": 41, "victim_count": 6, "confidence": 0.9,
            "evidence": [{"text": f"rank {rank} stack: read < {place} < main (train.py:9)", "place": place}], "summary": "its GPU did not end \u00e9 \U0001f600"}


class ArchiveTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.database = "fleet_" + self.id().rsplit(".", 1)[1]
        self.environment = clean_environment()
        self.environment |= {"HOME": self.folder, "LOCKSTEP_ARCHIVE": f"http://127.0.0.1:{server.port}/{self.database}"}
        self.now_ns = int(time.time()) * 10**9
        if not server.answers():
            server.start()

    def incident(self, number, host="n17", root="incidents", finished=True):
        """Makes a folder like a collector's, for a job that hung `number` hours ago."""
        folder = os.path.join(self.folder, root, f"lockstep-incident-{number}")
        os.makedirs(folder, exist_ok=True)
        verdict = {"verdict": "HUNG", "findings": [finding(host, number % 8, "save (train.py:88)")], "ranks_expected": 8, "ranks_read": 8,
                   "bandwidths": [{"communicator": {"id": "ff", "name": "dp_3", "size": 4}, "operation": "AllReduce", "bytes": 1 << 20, "operations": 9,
                                   "bus_bytes_per_s": 1e9, "peer_bus_bytes_per_s": 4e9, "clock": "gpu marks"}],
                   "speeds": [{"operation": "AllReduce", "bytes": 1 << 20, "ranks": 4, "hosts": 2, "communicators": 2, "operations": 9,
                               "bus_bytes_per_s": 1e9 * (1 + number)}],
                   "start_up": {"total_ns": 5 * 10**9, "creations_total": 1, "creations": [{"communicator": {"id": "1", "name": "world", "size": 8}}]}}
        with open(os.path.join(folder, "verdict.json"), "w") as file:
            json.dump(verdict, file)
        if finished:
            with open(os.path.join(folder, "manifest.json"), "w") as file:
                json.dump({"format": 1, "job": f"job-{number % 5}'", "captured_real_ns": self.now_ns - number * 3600 * 10**9, "tool_version": "test"}, file)
        return folder

    def start(self, *arguments, **environment):
        return subprocess.Popen([ARCHIVE, *arguments], env=self.environment | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE,
                                text=True)

    def run_it(self, *arguments, stdin="", **environment):
        process = self.start(*arguments, **environment)
        out, err = process.communicate(stdin, timeout=100)
        return process.returncode, out, err

    def spool(self, folder="spool"):
        return glob.glob(os.path.join(self.folder, folder, "*"))

    def arguments(self, *folders, spool="spool"):
        return ["--spool", os.path.join(self.folder, spool), *folders]

    def assert_once(self, incidents):
        """Checks that every row was stored and that readers see each row once."""
        for table in TABLES:
            self.assertEqual(int(server.ask(f"SELECT count() FROM {table} FINAL", self.database)), incidents, table)

    def test_rows_arrive_once_however_often_they_are_sent(self):
        folders = [self.incident(number) for number in range(12)]
        status, _, err = self.run_it(*self.arguments(*folders))
        self.assertEqual(status, 0, err)
        self.assertIn("sent 12 incidents", err)
        status, _, err = self.run_it(*self.arguments(*folders))
        self.assertEqual(status, 0, err)
        self.assertIn("sent 0 incidents, 12 were already there", err)
        self.assert_once(12)
        self.assertEqual(self.spool(), [])
        days = int(server.ask("SELECT uniqExact(partition) FROM system.parts WHERE active AND database = "
                              f"'{self.database}' AND table = 'incidents'"))
        self.assertLessEqual(days, 2)
        # A copy of the folder is the same incident.
        copy = os.path.join(self.folder, "copy")
        shutil.copytree(folders[0], copy)
        self.assertIn("1 were already there", self.run_it(*self.arguments(copy))[2])

    def test_rows_of_simultaneous_senders_arrive_once(self):
        folders = [self.incident(number) for number in range(10)]
        # Two senders share a spool, and one has its own. The first one creates the tables.
        running = [self.start(*self.arguments(*folders, spool=spool)) for spool in ("a", "b", "b")]
        for process in running:
            _, err = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 0, err)
        self.assert_once(10)
        self.assertEqual(self.spool("a") + self.spool("b"), [])

    def test_a_sender_killed_in_the_middle_loses_nothing(self):
        folders = [self.incident(number) for number in range(40)]
        process = self.start(*self.arguments(*folders))

        def some():
            try:
                return int(server.ask("SELECT count() FROM culprits", self.database)) >= 3
            except OSError:
                return False  # the table does not exist yet
        self.assertTrue(until(some))
        process.kill()
        process.communicate(timeout=100)
        status, _, err = self.run_it(*self.arguments(*folders))
        self.assertEqual(status, 0, err)
        self.assert_once(40)
        self.assertEqual([path for path in self.spool() if path.endswith(".rows")], [])

    def test_sending_continues_when_the_server_returns(self):
        folders = [self.incident(number) for number in range(6)]
        self.assertEqual(self.run_it(*self.arguments(folders[0]))[0], 0)
        server.stop()
        status, _, err = self.run_it("--retry-for", "0", *self.arguments(*folders[:3]))
        self.assertEqual(status, 3, err)
        self.assertIn("send retries", err)
        self.assertEqual(len(self.spool()), 3)
        # A process that waits for the server continues when the server returns. `send` then sends the spool.
        process = self.start("--retry-for", "90", *self.arguments(*folders[3:]))
        self.assertIn("retrying", process.stderr.readline())
        server.start()
        _, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(self.run_it(*self.arguments(), "send")[0], 0)
        self.assert_once(6)
        self.assertEqual(self.spool(), [])

    def test_follow_sends_finished_incidents(self):
        root = os.path.join(self.folder, "root")
        first = self.incident(1, root="root")
        self.incident(2, root="root", finished=False)
        gathering = self.incident(3, root="root")
        with open(os.path.join(gathering, ".gathering.json"), "w") as file:
            file.write("{}")
        process = self.start("--follow", root, "--every", "0.1", *self.arguments())
        sent = lambda: server.ask("SELECT count() FROM system.tables WHERE name = 'incidents' AND database = '%s'" % self.database) == "1\n" and int(
            server.ask("SELECT count() FROM incidents FINAL", self.database))
        self.assertTrue(until(lambda: sent() == 1))
        self.incident(2, root="root")
        self.assertTrue(until(lambda: sent() == 2))
        server.stop(signal.SIGTERM)
        os.unlink(os.path.join(gathering, ".gathering.json"))
        shutil.rmtree(first)
        server.start()
        self.assertTrue(until(lambda: sent() == 3))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assert_once(3)

    def test_queries_find_culprits_hangs_and_links(self):
        for number in range(5):
            self.incident(number, "n17" if number < 3 else "n18")
        folders = sorted(glob.glob(os.path.join(self.folder, "incidents/*")))
        self.assertEqual(self.run_it(*self.arguments(*folders))[0], 0)
        begin = self.now_ns // 10**9 // 86400 * 86400
        for _ in range(2):
            self.assertEqual(self.run_it("jobs", "-", stdin=f"x|{begin}|{begin + 43200}|8\ny|{begin - 43200}|{begin}|8\nz|{begin - 86400}|{begin}|\n")[0], 0)

        def ask(*arguments):
            status, out, err = self.run_it("query", "--json", *arguments)
            self.assertEqual(status, 0, err)
            return json.loads(out)
        culprits = ask("culprits")
        self.assertEqual([(row["what"], row["name"], row["culprit_of"], row["of_incidents"]) for row in culprits],
                         [("code place", "save (train.py:88)", 5, 5), ("host", "n17", 3, 5), ("host", "n18", 2, 5)])
        self.assertEqual(ask("culprits", "--host", "n18")[0]["culprit_of"], 2)
        self.assertEqual(ask("culprits", "--host", "' OR 1=1 -- \\"), [])
        hangs = ask("hangs")
        self.assertEqual((hangs[0]["kind"], hangs[0]["incidents"], hangs[0]["per_thousand_job_days"]), ("GPU_STALL", 5, "2500"))
        self.assertEqual(ask("links")[0]["of_peers"], 0.25)
        self.assertEqual((ask("startup")[0]["ranks_up_to"], ask("startup")[0]["median_s"]), (8, 5))
        self.assertEqual(len(ask("list", "--limit", "2")), 2)
        self.assertEqual(ask("operations"), [])
        status, out, _ = self.run_it("query", "list")
        self.assertEqual(status, 0)
        self.assertIn("\u00e9 \U0001f600", out)
        self.assertEqual(self.run_it("query", "nothing")[0], 2)
        # Incidents after the queried time do not count.
        question = {"hosts": ["n17", "n1'x"], "places": [], "until_real_ns": self.now_ns - 3600 * 10**9}
        status, out, _ = self.run_it("before", stdin=json.dumps(question))
        self.assertEqual((status, [(b["name"], b["culprit_of"], b["incidents"]) for b in json.loads(out)["before"]]), (0, [("n17", 1, 3)]))

    def ask(self, *arguments):
        status, out, err = self.run_it("query", "--json", *arguments)
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def test_clusters_share_an_archive(self):
        """Hosts with the same name in two clusters are different hosts, and jobs with the same name are different jobs."""
        for number, cluster in enumerate(("east", "east", "west")):
            self.assertEqual(self.run_it("--cluster", cluster, *self.arguments(self.incident(number)))[0], 0)
        begin = self.now_ns // 10**9 // 86400 * 86400
        for cluster in ("east", "west"):
            self.assertEqual(self.run_it("jobs", "-", stdin=f"17|{begin}|{begin + 43200}|8\n", LOCKSTEP_CLUSTER=cluster)[0], 0)
        self.assertEqual([(row["cluster"], row["incidents"], row["job_days"], row["per_thousand_job_days"]) for row in self.ask("clusters")],
                         [("east", 2, 0.5, "4000"), ("west", 1, 0.5, "2000")])
        self.assertEqual([(row["cluster"], row["name"], row["culprit_of"], row["of_incidents"]) for row in self.ask("culprits", "--host", "n17")],
                         [("east", "n17", 2, 2), ("west", "n17", 1, 1)])
        for query in ("list", "links", "hangs"):
            self.assertEqual(len(self.ask(query, "--cluster", "north")), 0, query)
            self.assertGreater(len(self.ask(query, "--cluster", "west")), 0, query)
        # The best speed of all clusters is 100 %.
        self.assertEqual([(row["cluster"], row["percent_of_best"]) for row in self.ask("speed")], [("east", 50), ("west", 100)])
        question = json.dumps({"hosts": ["n17"], "places": [], "until_real_ns": 0})
        status, out, _ = self.run_it("before", stdin=question, LOCKSTEP_CLUSTER="west")
        self.assertEqual((status, [(b["culprit_of"], b["incidents"]) for b in json.loads(out)["before"]]), (0, [(1, 1)]))
        question = json.dumps({"speeds": [{"operation": "AllReduce", "bytes": (1 << 20) + 5, "ranks": 4, "hosts": 2}, {"operation": "AllReduce", "bytes": 8}]})
        status, out, _ = self.run_it("best", stdin=question)
        self.assertEqual((status, [(b["bus_bytes_per_s"], b["incidents"]) for b in json.loads(out)["best"]]), (0, [(3e9, 3)]))

    def test_tables_of_the_first_version_are_extended(self):
        server.ask(f"CREATE DATABASE {self.database}")
        with open(os.path.join(os.path.dirname(__file__), "../../collector/tools/archive/sql/schema_1.sql")) as file:
            tables = file.read().split(";\n")
        for table in tables:
            if table.strip():
                server.ask(table, self.database)
        server.ask("CREATE TABLE lockstep_schema (version UInt32, made DateTime) ENGINE = ReplacingMergeTree ORDER BY version", self.database)
        server.ask("INSERT INTO lockstep_schema (version) VALUES (1)", self.database)
        server.ask("INSERT INTO incidents (day, at, job, incident, kind, verdict, hosts) VALUES (today(), now(), 'old', 'old', 'GPU_STALL', 'HUNG', ['n17'])", self.database)
        # As if a program was killed after its first statement.
        server.ask("ALTER TABLE incidents ADD COLUMN cluster String AFTER at", self.database)
        status, _, err = self.run_it("--cluster", "east", *self.arguments(self.incident(1)))
        self.assertEqual(status, 0, err)
        self.assertEqual([(row["cluster"], row["culprit_of"]) for row in self.ask("culprits", "--host", "n17")], [("", 1), ("east", 1)])
        self.assertEqual(server.ask("SELECT max(version) FROM lockstep_schema", self.database), "2\n")

    def test_each_user_can_do_only_what_it_needs(self):
        folder = self.incident(1)
        target = f"http://writer@127.0.0.1:{server.port}/{self.database}"
        secret = os.path.join(self.folder, "secret")
        with open(secret, "w") as file:
            file.write(PASSWORD + "\n")
        status, _, err = self.run_it("--to", target, *self.arguments(folder), LOCKSTEP_ARCHIVE_PASSWORD="wrong")
        self.assertEqual(status, 1, err)
        self.assertNotIn("wrong", err.replace("Wrong password", ""))
        self.assertEqual(self.run_it("--to", target, "--password-file", secret, *self.arguments(folder))[0], 0)
        self.assertEqual(self.run_it("query", "--to", target, "list", LOCKSTEP_ARCHIVE_PASSWORD=PASSWORD)[0], 0)
        self.assertEqual(self.run_it("--password", "x", folder)[0], 2)
        self.assertEqual(self.run_it("--to", f"http://writer:x@127.0.0.1:{server.port}/x", folder)[0], 2)
        status, _, err = self.run_it("--to", "http://ch.example.org/x", folder)
        self.assertEqual(status, 2)
        self.assertIn("https", err)
        for mode, answer in (("before", "error"), ("best", "best")):
            status, out, _ = self.run_it(mode, "--to", "http://ch.example.org/x", told="{}")
            self.assertEqual(status, 2)
            self.assertIn(answer, json.loads(out))
        # Tables of a later version stay unchanged.
        server.ask("INSERT INTO lockstep_schema (version) VALUES (99)", self.database)
        status, _, err = self.run_it(*self.arguments(self.incident(2)))
        self.assertEqual(status, 1)
        self.assertIn("newer Lockstep", err)

    def test_a_user_who_may_only_read_loses_nothing(self):
        inserts = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                statement = self.path + self.rfile.read(int(self.headers["Content-Length"])).decode()
                inserts.extend([statement] * ("INSERT" in statement))
                self.send_response(403 if "INSERT" in statement else 200)
                self.end_headers()
                value = 2 if "max(version)" in statement else 0
                self.wfile.write(b"Code: 497" if "INSERT" in statement else json.dumps({"meta": [{"name": "n", "type": "UInt64"}], "data": [[value]]}).encode())

            def log_message(self, *_):
                pass
        reader = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=reader.serve_forever, daemon=True).start()
        self.addCleanup(reader.server_close)
        self.addCleanup(reader.shutdown)
        folders = [self.incident(1), self.incident(2)]
        status, _, err = self.run_it("--to", f"http://127.0.0.1:{reader.server_address[1]}/x", *self.arguments(*folders))
        self.assertEqual(status, 1, err)
        self.assertNotIn("set aside", err)
        self.assertEqual(err.count("Code: 497"), 1, err)
        self.assertIn("2 are waiting in", err)
        self.assertEqual(len(inserts), 1, "after a refusal, no other incident is tried")
        self.assertEqual(self.run_it("send", *self.arguments())[0], 0)
        self.assert_once(2)

    def test_hostile_folders_are_reported_and_others_are_sent(self):
        bad = os.path.join(self.folder, "bad")
        os.mkdir(bad)
        good = self.incident(1)
        with open(os.path.join(bad, "manifest.json"), "w") as file:
            json.dump({"job": "\x1b[31m", "captured_real_ns": self.now_ns}, file)
        os.mkfifo(os.path.join(bad, "verdict.json"))
        status, _, err = self.run_it(*self.arguments("/nonexistent", bad, good))
        self.assertEqual(status, 1)
        self.assertNotIn("\x1b", err)
        self.assert_once(1)

    def test_hostile_servers_do_not_delay_a_verdict(self):
        """A server that answers with garbage, endlessly, slowly or not at all must not delay a verdict."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"garbage\r\n\r\n", b"", None, "endless",
                   b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps({"meta": [{"name": "x", "type": "String"}] * 5, "data": [[[]] * 5]}).encode()]
        held = []

        def serve():
            for answer in answers:
                try:
                    one, _ = listener.accept()
                except OSError:
                    return
                held.append(one)
                try:
                    one.recv(65536)
                    if answer == "endless":
                        one.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                        while True:
                            one.sendall(b"x" * 65536)
                    if answer is not None:
                        one.sendall(answer)
                        one.close()
                except OSError:
                    pass
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        for answer in answers:
            status, out, _ = self.run_it("before", "--time-limit-ms", "300", "--to", f"http://127.0.0.1:{listener.getsockname()[1]}/x", stdin='{"hosts":["a"]}')
            output = json.loads(out)
            self.assertTrue(output.get("error") or output.get("before") == [], (answer, out))
            self.assertIn(status, (0, 1))
        thread.join(30)
        listener.close()
        for one in held:
            one.close()


if __name__ == "__main__":
    no_skip.main()
