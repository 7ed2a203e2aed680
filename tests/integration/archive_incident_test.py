#!/usr/bin/env python3
"""Sends incidents of real jobs to a real ClickHouse over https. Checks that the archive's counts match the dumps, and that a collector's next verdict
mentions the previous one."""

import bisect
import collections
import csv
import io
import json
import os
import re
import shutil
import subprocess
import urllib.error

import no_skip
from clickhouse import PASSWORD, of_module
from cluster import Cluster
from support import BIN, BUILD, MEMORY, FolderTest, clean_environment, read_json, wait_for

ARCHIVE = os.path.join(BIN, "lockstep-archive")
TABLES = ("incidents", "findings", "culprits", "creations", "links", "operations")
JOB = ["--tp", "2", "--dp", "2", "--steps", "100000", "--pace-ms", "5"]
STOP = ["--fault", "rank=2,step=25,kind=stall-host"]

server = None


def setUpModule():
    global server
    server = of_module(ARCHIVE, tls=True)


def place(name):
    return os.path.join(server.folder, name)


class IncidentTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.database = "fleet_" + self.id().rsplit(".", 1)[1]
        secret = os.path.join(self.folder, "password")
        with open(secret, "w") as file:
            file.write(PASSWORD + "\n")
        self.archive = {"LOCKSTEP_ARCHIVE": f"https://writer@127.0.0.1:{server.tls_port}/{self.database}", "LOCKSTEP_ARCHIVE_CA": place("ca.pem"),
                        "LOCKSTEP_ARCHIVE_PASSWORD_FILE": secret}
        self.environment = clean_environment()
        self.environment |= {"HOME": self.folder, "LOCKSTEP_RUNTIME_DIR": os.path.join(self.folder, "runtime"), **self.archive}

    def run_it(self, program, *arguments, status=0, **environment):
        done = subprocess.run([os.path.join(BIN, program), *arguments], env=self.environment | environment, capture_output=True, text=True, timeout=150,
                              check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{program} {arguments}: {done.stdout}{done.stderr}")
        return done

    @staticmethod
    def json_of(folder, name):
        return read_json(folder, name)

    def rows(self, table, columns="*"):
        answer = server.ask(f"SELECT {columns} FROM {table} FINAL FORMAT JSON", self.database)
        return [{name: int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else value for name, value in row.items()}
                for row in json.loads(answer)["data"]]

    def counts(self):
        found = {}
        for table in TABLES:
            try:
                found[table] = int(server.ask(f"SELECT count() FROM {table} FINAL", self.database))
            except urllib.error.HTTPError:  # the table does not exist yet
                found[table] = 0
        return found

    def hung(self, name, *arguments):
        """Returns the incident of a job that hangs under lockstep run."""
        folder = os.path.join(self.folder, name)
        rings = self.temporary(MEMORY)
        self.run_it("lockstep-run", "-n", "4", "--kill-on-hang", "--late-after", "1", "--out", folder, "--", os.path.join(BIN, "trainsim"), *JOB, *arguments,
                    status=90, LOCKSTEP_DIR=rings, LOCKSTEP_GPU="full", LOCKSTEP_JOB=name, LOCKSTEP_HOST="n17", LD_LIBRARY_PATH=os.path.join(BUILD, "standin/lib"))
        return folder

    def test_the_counts_match_the_dumps(self):
        folder = self.hung("train", *STOP)
        self.assertIn("sent 1 incident", self.run_it("lockstep-archive", folder).stderr)
        once = self.counts()
        self.assertGreater(min(once[table] for table in ("incidents", "findings", "culprits", "creations", "operations")), 0, once)
        self.run_it("lockstep-archive", folder)
        # A sender that lost its spool sends data again that the server has only in part.
        shutil.rmtree(os.path.join(self.folder, ".local"), ignore_errors=True)
        server.ask("TRUNCATE TABLE incidents", self.database)
        self.assertIn("sent 1 incident", self.run_it("lockstep-archive", folder).stderr)
        self.assertEqual(self.counts(), once)

        verdict = self.json_of(folder, "verdict.json")
        incident = self.rows("incidents")[0]
        first = verdict["findings"][0]
        self.assertEqual((incident["job"], incident["verdict"], incident["kind"], incident["hosts"], incident["ranks_read"], incident["summary"]),
                         ("train", "HUNG", first["kind"], ["n17"], 4, first["summary"]))
        self.assertEqual([(row["rank"], row["host"]) for row in self.rows("culprits") if row["finding"] == 0], [(2, "n17")])
        self.assertEqual((self.rows("findings")[0]["comm_name"], self.rows("findings")[0]["sequence"]),
                         (first["communicator"]["name"], first["sequence"]))

        # lockstep export lists the individual operations of the same dumps.
        result = list(csv.DictReader(io.StringIO(self.run_it("lockstep-export", folder, "--csv", "-").stdout)))
        calls, gpu, host = collections.Counter(), collections.defaultdict(list), collections.defaultdict(list)
        for row in result:
            if not row["communicator_id"]:
                continue
            key = (re.sub(r"\d+", "*", row["communicator"]) or f"of {row['communicator_size']}", row["operation"])
            calls[key] += 1
            if row["started_ns"] and row["completed_ns"] and int(row["completed_ns"]) >= int(row["started_ns"]):
                gpu[key].append(int(row["completed_ns"]) - int(row["started_ns"]))
            if row["return_ns"] and int(row["return_ns"]) >= int(row["enter_ns"]):
                host[key].append(min(int(row["return_ns"]) - int(row["enter_ns"]), 65_534_000))  # the index stores no longer times
        kept, measured = collections.Counter(), collections.Counter()
        rows = self.rows("operations")
        for row in rows:
            self.assertEqual((row["host"], row["job"], row["incident"]), ("n17", "train", incident["incident"]))
            kept[row["comm_class"], row["operation"]] += row["operations"]
            measured[row["comm_class"], row["operation"]] += row["measured"]
        self.assertEqual(kept, calls)
        self.assertGreater(sum(kept.values()), 4 * 25)
        self.assertEqual({key: count for key, count in measured.items() if count}, {key: len(times) for key, times in gpu.items()})
        self.assertGreater(sum(measured.values()), 0)
        # If a class and function has only one size, its quantiles are those of all its calls. The quantiles may differ by one step of the histogram and by a
        # microsecond, the resolution of the index.
        checked = 0
        for row in rows:
            key = row["comm_class"], row["operation"]
            if row["operations"] != calls[key]:
                continue
            for times, median, high in ((gpu[key], "median_ns", "p95_ns"), (host[key], "host_median_ns", "host_p95_ns")):
                times.sort()
                for quantile, name in ((0.5, median), (0.95, high)):
                    want = times[bisect.bisect_left(range(1, len(times) + 1), quantile * len(times))] if times else -1
                    self.assertAlmostEqual(row[name], want, delta=abs(want) * 0.041 + 1000, msg=f"{key} {name} of {len(times)}")
                    checked += 1
        self.assertGreater(checked, 4)
        answer = json.loads(self.run_it("lockstep-archive", "query", "--json", "operations").stdout)
        self.assertEqual(sum(row["calls"] for row in answer), sum(calls.values()))
        # `lockstep analyze` prints a line about the earlier incident with this culprit.
        later = self.hung("again", *STOP)
        text = self.run_it("lockstep-analyze", later, status=1).stdout
        self.assertRegex(text, r"before +host n17 was the culprit of 1 of the only earlier incident|before +host n17 was the culprit of the only earlier incident")
        # The archive distinguishes jobs by name.
        self.run_it("lockstep-archive", later)
        for table in TABLES:
            server.ask(f"ALTER TABLE {table} DELETE WHERE job = 'train'", self.database)
        self.assertTrue(wait_for(lambda: not int(server.ask("SELECT count() FROM operations WHERE job = 'train'", self.database)), 60))
        self.assertGreater(int(server.ask("SELECT count() FROM operations WHERE job = 'again'", self.database)), 0)

    def test_unknown_and_wrong_certificates_are_refused(self):
        folder = self.hung("train", *STOP)
        refused = self.run_it("lockstep-archive", "--retry-for", "0", "--ca", place("other.pem"), folder, status=1)
        self.assertIn("certificate", refused.stderr)
        self.assertNotIn(PASSWORD, refused.stderr)
        # The system's certificates do not include the server's CA.
        self.assertIn("certificate", self.run_it("lockstep-archive", "--retry-for", "0", folder, status=1, LOCKSTEP_ARCHIVE_CA="").stderr)
        self.assertEqual(server.ask(f"SELECT count() FROM system.databases WHERE name = '{self.database}'"), "0\n")
        # The server's certificate does not contain this name.
        other = self.archive["LOCKSTEP_ARCHIVE"].replace("127.0.0.1", "localhost")
        self.run_it("lockstep-archive", "--retry-for", "0", "--to", other, folder, status=1)
        self.run_it("lockstep-archive", "--ca", place("ca.pem"), folder, LOCKSTEP_ARCHIVE_CA="")
        self.assertEqual(self.counts()["incidents"], 1)
        # If the archive cannot be queried, the verdict says so and does not change.
        text = self.run_it("lockstep-analyze", folder, status=1, LOCKSTEP_ARCHIVE_CA=place("other.pem")).stdout
        self.assertRegex(text, r"before +unknown: .*certificate")

    def test_a_collector_remembers_the_previous_verdict(self):
        made = Cluster()
        self.addCleanup(made.close)
        plain = made.environment
        made.environment = lambda **more: {**plain(**more), **{k: v for k, v in self.archive.items() if k != "LOCKSTEP_ARCHIVE"}}
        made.start_collector("--archive", self.archive["LOCKSTEP_ARCHIVE"])
        for index in range(made.hosts):
            made.start_agent(index)

        def incident_of(job):
            made.start_ranks(*JOB, *STOP, job=job)

            def found():
                return [folder for folder in made.whole() if self.json_of(folder, "manifest.json")["job"] == job]
            self.assertTrue(wait_for(found, 120), made.logs())
            for rank in made.ranks:
                made.kill(rank)
            made.ranks.clear()
            return found()[0]

        first = incident_of("monday")
        sender = made.start("lockstep-archive", "archive", "--follow", made.out, "--every", "0.2", "--spool", made.path("archive"),
                            "--to", self.archive["LOCKSTEP_ARCHIVE"])
        made.relays.append(sender)  # the cleanup ends this process together with the relays
        sent = f"SELECT count() FROM system.tables WHERE database = '{self.database}' AND name = 'incidents'"
        self.assertTrue(wait_for(lambda: server.ask(sent) == "1\n" and self.counts()["incidents"] == 1, 60), made.logs())
        with open(os.path.join(first, "verdict.txt")) as file:
            self.assertNotIn("was the culprit of", file.read())
        second = incident_of("tuesday")

        def before():
            return self.json_of(second, "verdict.json").get("before")

        self.assertTrue(wait_for(before, 30), made.logs())
        hosts = [item for item in before() if item["what"] == "host"]
        self.assertEqual([(item["name"], item["culprit_of"], item["incidents"]) for item in hosts], [("node1", 1, 1)])
        with open(os.path.join(second, "verdict.txt")) as file:
            self.assertRegex(file.read(), r"(?m)^ *before +host node1 was the culprit of")
        with open(os.path.join(second, "report.html")) as file:
            self.assertIn("host node1 was the culprit of", file.read())
        self.assertTrue(wait_for(lambda: self.counts()["incidents"] == 2, 60), made.logs())


if __name__ == "__main__":
    no_skip.main()
