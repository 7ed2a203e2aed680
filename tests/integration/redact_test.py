#!/usr/bin/env python3
"""Checks that redacted text appears nowhere. A job with secret names of folders, files, functions, open files and threads hangs under `lockstep run`, and
under an agent with a collector. The test searches every byte that is stored or sent. The verdict must not change."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from cluster import Cluster
from evidence_test import RANK
from support import LIBRARY, LOCKSTEP, STANDIN, free_port, read_json, wait_for

FOLDER, SCRIPT, FUNCTION, OPEN, THREAD = "Qvfolder", "Qvscript", "Qvfunction", "Qvopenfile", "Qvthread"
MAGIC = b"\x28\xb5\x2f\xfd"
# Words that may still appear at each level.
STAYS = {"no": {FOLDER, SCRIPT, FUNCTION, OPEN, THREAD}, "paths": {SCRIPT, FUNCTION, OPEN, THREAD}, "stacks": set()}

JOB = RANK.replace("load_batch", FUNCTION).replace("nccl, cuda = ", f'''
libc = ctypes.CDLL(None)
libc.prctl(15, b"{THREAD}")
written = open(os.path.join(os.path.dirname(__file__), "{OPEN}.bin"), "w")
nccl, cuda = ''', 1)


def unpacked(text):
    """Returns the decompressed contents of all zstd frames in the data."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_findFrameCompressedSize.restype = zstd.ZSTD_decompress.restype = ctypes.c_size_t
    out, at = [], text.find(MAGIC)
    while at >= 0:
        frame = text[at:]
        size = zstd.ZSTD_findFrameCompressedSize(frame, ctypes.c_size_t(len(frame)))
        if not zstd.ZSTD_isError(ctypes.c_size_t(size)):
            room = ctypes.create_string_buffer(16 << 20)
            got = zstd.ZSTD_decompress(room, ctypes.c_size_t(len(room)), frame, ctypes.c_size_t(size))
            if not zstd.ZSTD_isError(ctypes.c_size_t(got)):
                out.append(room.raw[:got])
        at = text.find(MAGIC, at + 1)
    return b"".join(out)


def hits(path):
    """Returns (secret word, path) for every secret word in the bytes or names of a file, or of the files below a folder."""
    found = set()
    names = [path] if os.path.isfile(path) else [os.path.join(folder, name) for folder, _, files in os.walk(path) for name in files]
    for name in names:
        with open(name, "rb") as file:
            text = file.read()
        text += unpacked(text) + os.path.relpath(name, os.path.dirname(path)).encode()
        found |= {(word, os.path.relpath(name, os.path.dirname(path))) for word in STAYS["no"] if word.encode() in text}
    return found


def whole_incidents(out):
    """Returns the folders of hangs whose gathering has completed."""
    def contents(*names):
        with open(os.path.join(*names)) as file:
            return file.read()
    return [folder for folder, _, files in os.walk(out) if "manifest.json" in files and '"whole": true' in contents(folder, "manifest.json")
            and "HUNG" in contents(folder, "verdict.json")]


class Redact(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(hosts=1, per_host=2, keys=False)
        self.secret = self.cluster.path(FOLDER)
        os.mkdir(self.secret)
        self.script = os.path.join(self.secret, SCRIPT + ".py")
        with open(self.script, "w") as file:
            file.write(JOB)
        self.shared = self.cluster.path("shared")
        os.mkdir(self.shared)

    def tearDown(self):
        self.cluster.close()

    def command(self):
        return [sys.executable, self.script, os.path.join(STANDIN, "libnccl.so.2"), os.path.join(STANDIN, "libcudart.so.13"), self.shared]

    def check(self, level, incident, others):
        verdict = read_json(incident, "verdict.json")
        self.assertEqual(verdict["verdict"], "HUNG")
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [1])
        self.assertEqual(read_json(incident, "manifest.json").get("redacted", "no"), level)
        found = set().union(*(hits(path) for path in [incident, *others]))
        words = {word for word, _ in found}
        self.assertEqual({(word, path) for word, path in found if word not in STAYS[level]}, set())
        # Checks the search itself: it must find the words that may appear.
        self.assertLessEqual(STAYS[level] - {THREAD, FOLDER, OPEN} | ({FOLDER, THREAD} & STAYS[level]), words)
        with open(os.path.join(incident, "verdict.txt")) as file:
            text = file.read()
        self.assertEqual("--redact" in text, level != "no", text)
        return verdict

    def run_job(self, level):
        out = self.cluster.path("out-" + level)
        shutil.rmtree(self.shared)
        os.mkdir(self.shared)
        environment = self.cluster.environment(LD_LIBRARY_PATH=STANDIN, LOCKSTEP_DIR=self.cluster.rings, LOCKSTEP_JOB="train")
        result = subprocess.run([LOCKSTEP, "run", "-n", "2", "--out", out, "--hang-after", "8", "--kill-on-hang", "--redact", level, "--", *self.command()],
                                env=environment, cwd=self.cluster.folder, capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, 90, result.stderr)
        path = self.cluster.path("said-" + level)
        with open(path, "w") as file:
            file.write(result.stderr)
        return self.check(level, out, [path])

    def test_an_incident_of_run_is_redacted(self):
        whole = self.run_job("no")
        for level in ("paths", "stacks"):
            with self.subTest(level=level):
                verdict = self.run_job(level)
                for key in ("kind", "culprit_ranks", "operation", "sequence", "victim_count", "activity", "confidence"):
                    self.assertEqual(verdict["findings"][0].get(key), whole["findings"][0].get(key), key)
                # Redaction on output has the same effect on an unredacted incident.
                for form in ("text", "json", "html", "explore"):
                    report = self.cluster.path(f"report-{level}.{form}")
                    subprocess.run([LOCKSTEP, "analyze", "--redact", level, "--format", form, "--output", report, self.cluster.path("out-no")],
                                   env=self.cluster.environment(), timeout=60, check=False)
                    self.assertEqual({hit for hit in hits(report) if hit[0] not in STAYS[level]}, set())

    def test_an_incident_of_agent_and_collector_is_redacted(self):
        for level in ("paths", "stacks"):
            with self.subTest(level=level):
                self.agent_and_collector(level)

    def test_an_incident_of_an_agent_alone_is_redacted(self):
        for level in ("paths", "stacks"):
            with self.subTest(level=level):
                self.agent_alone(level)

    def start_rank(self, rank, rings):
        environment = self.cluster.environment(LD_LIBRARY_PATH=STANDIN, LD_PRELOAD=LIBRARY, LOCKSTEP_DIR=rings, LOCKSTEP_JOB="train", RANK=str(rank),
                                               WORLD_SIZE="2", LOCAL_RANK=str(rank))
        return subprocess.Popen(self.command(), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def agent_alone(self, level):
        """Returns incident, spool and logs of an agent with its own collector, which only this host can reach through a socket."""
        cluster = self.cluster
        shutil.rmtree(self.shared)
        os.mkdir(self.shared)
        rings, out, spool = (cluster.path(f"{name}-alone-{level}") for name in ("rings", "incidents", "spool"))
        os.mkdir(rings)
        config = cluster.path("lockstep.conf")
        with open(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("[collector]\nhang-after = 8\n")
        agent = cluster.start("lockstep-agent", "alone-" + level, "--alone", "--out", out, "--rings", rings, "--spool", spool, "--late-after", "1",
                              "--redact", level, LOCKSTEP_CONFIG=config)
        ranks = []
        try:
            ranks += [self.start_rank(rank, rings) for rank in range(2)]
            found = wait_for(lambda: whole_incidents(out))
            self.assertTrue(found, cluster.log("alone-" + level))
        finally:
            for process in [*ranks, agent]:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM if process is agent else signal.SIGKILL)
                process.wait(30)
        self.check(level, found[0], [out, spool, cluster.path(f"alone-{level}.log")])

    def agent_and_collector(self, level):
        cluster = self.cluster
        wire = cluster.path("wire-" + level)
        # Without keys, so that the recorded bytes between agent and collector are readable.
        target, port = free_port(), free_port()
        shutil.rmtree(self.shared)
        os.mkdir(self.shared)
        rings = os.path.join(cluster.rings, level)
        os.mkdir(rings)
        tap = Tap(port, target, wire)
        out, spool = cluster.path("incidents-" + level), cluster.path("spool-" + level)
        collector = cluster.start("lockstep-collector", "collector-" + level, "--listen", f"tcp://127.0.0.1:{target}", "--insecure", "--out", out,
                                  "--late-after", "1", "--hang-after", "8")
        agent = cluster.start("lockstep-agent", "agent-" + level, "--collector", f"tcp://127.0.0.1:{port}", "--insecure", "--rings", rings,
                              "--spool", spool, "--late-after", "1", "--redact", level)
        ranks = []
        try:
            ranks += [self.start_rank(rank, rings) for rank in range(2)]
            found = wait_for(lambda: whole_incidents(out))
            self.assertTrue(found, open(cluster.path(f"collector-{level}.log")).read())
            # A crashed rank leaves its ring in the spool.
            for rank in ranks:
                rank.kill()
                rank.wait()
            self.assertTrue(wait_for(lambda: os.path.isdir(os.path.join(spool, "rings")) and len(os.listdir(os.path.join(spool, "rings"))) == 2))
        finally:
            for process in [agent, collector, *ranks]:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                process.wait(30)
            tap.close()
        self.assertGreater(sum(os.path.getsize(os.path.join(wire, name)) for name in os.listdir(wire)), 1000)
        self.check(level, found[0], [out, spool, wire, cluster.path(f"agent-{level}.log"), cluster.path(f"collector-{level}.log")])


class Tap:
    """Forwards and records what agents send."""

    def __init__(self, port, target, path):
        self.path, self.target = path, target
        self.listener = socket.create_server(("127.0.0.1", port))
        self.closing = False
        os.mkdir(path)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.closing:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                time.sleep(0.05)
                continue
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    def copy(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                with open(f"{self.path}/{source.fileno()}", "ab") as file:
                    file.write(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def close(self):
        self.closing = True
        self.listener.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
