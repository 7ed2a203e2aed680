#!/usr/bin/env python3
"""Checks that no program prints control characters from files or file names."""

import json
import os
import pickle
import re
import subprocess
import unittest

import no_skip
from support import BIN, FolderTest, LOCKSTEP, clean_environment

EVIL = "\x1b]0;owned\x07\x1b[31m\u202e\x9b31m"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def write_incident(folder):
    os.mkdir(folder)
    entry = {"profiling_name": "nccl:" + EVIL, "process_group": (EVIL, EVIL), "state": EVIL, "pg_id": 0, "collective_seq_id": 1, "record_id": 1,
             "input_sizes": [[1]], "output_sizes": [[1]], "frames": [{"name": EVIL, "filename": EVIL, "line": 3}]}
    dump = {"version": "2.9" + EVIL, "nccl_version": EVIL, "pg_status": {}, "entries": [entry], "pg_config": {"0": {"name": EVIL, "desc": EVIL, "ranks": "[0, 1]" + EVIL}}}
    finding = {"summary": EVIL, "culprits": [{"host": EVIL}], "culprit_ranks": [1]}
    files = {"rank_1" + EVIL: pickle.dumps(dump, protocol=2), "rank_0" + EVIL + ".log": b"nothing\n", "bad" + EVIL + ".lsd": b"LSKD", "bad" + EVIL + ".ring": b"LSRING"}
    texts = {"manifest.json": {"job": EVIL, "format": EVIL}, "verdict.json": {"job": EVIL, "verdict": EVIL, "findings": [finding]},
             "stacks.json": {"format": 1, "nodes": [{}, {"parent": 0, "frame": EVIL, "ranks": [[0, 1]]}]}}
    files.update((name, json.dumps(content).encode()) for name, content in texts.items())
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    os.symlink("/etc/" + EVIL, os.path.join(folder, "link" + EVIL))


def write_logs(folder):
    os.mkdir(folder)
    for rank in range(2):
        lines = ("Traceback (most recent call last):", f'  File "{EVIL}", line 3, in {EVIL}', f"ValueError: {EVIL}", f"h{EVIL}:1:1 [0] NCCL WARN {EVIL}",
                 f"[E1120 10:00:01.1 P] [PG ID 0 PG GUID 0({EVIL}) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType={EVIL}, "
                 "NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 18000 milliseconds")
        with open(os.path.join(folder, f"rank_{rank}.log"), "w", encoding="utf-8") as file:
            file.writelines(f"[rank{rank}]: {line}\n" for line in lines)


class TerminalTest(FolderTest):
    def check(self, *command):
        done = subprocess.run([LOCKSTEP, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              env=clean_environment(QT_QPA_PLATFORM="offscreen"), check=False)
        text = done.stdout.decode(errors="replace").replace("\r\n", "\n")  # lines of CSV
        self.assertNotRegex(text, RAW, command)
        self.assertNotEqual(text, "", command)

    def test_names_and_contents_of_files_are_made_printable(self):
        incident, logs, missing = (os.path.join(self.folder, name + EVIL) for name in ("incident", "logs", "missing"))
        write_incident(incident)
        write_logs(logs)
        for path in (incident, logs, missing):
            for verb in (["analyze"], ["analyze", "--full"], ["analyze", "--json"], ["export", "--csv", "-"], ["export", "--perfetto", "/"], ["replay"], ["archive"], ["clean", "--incidents"]):
                self.check(*verb, path)
            self.check("top", "--collector", "ipc://" + path)
        # With a wildcard in a hostile folder, hostile file names reach any program.
        file = os.path.join(incident, "manifest.json")
        self.check("config", "--config", file)
        self.check("serve", file)
        self.check("serve", "--readers", file, "--add-reader", "alice")
        self.check("serve", "--tls-cert", file, "--tls-key", file, "--readers", file, self.folder)
        self.check("collector", "--listen", "ipc://" + file + "/socket", "--out", file)
        self.check("agent", "--collector", "ipc://" + incident, "--spool", file)
        self.check("keygen", "--role", "agent", incident + ".keys")
        self.check("keygen", "--role", "agent", file + "/keys")

    @unittest.skipUnless(os.path.exists(os.path.join(BIN, "lockstep-view")), "the viewer is not built")
    def test_the_viewer_names_paths_printably(self):
        self.check("view", "--screenshot", os.path.join(self.folder, "x.png"), os.path.join(self.folder, "missing" + EVIL))


if __name__ == "__main__":
    no_skip.main()
