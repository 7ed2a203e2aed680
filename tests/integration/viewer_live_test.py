#!/usr/bin/env python3
"""The viewer's window follows a real collector. It opens an incident that the user requests, and one that the collector reports, and shows what `lockstep
analyze` prints about the same folder."""

import json
import os
import queue
import subprocess
import sys
import threading
import unittest

from cluster import Cluster
from support import BIN, BUILD, wait_for

STORY = os.path.join(BUILD, "tests", "viewer_story")
STALL = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--fault", "rank=2,step=40,kind=stall-host,comm=dp"]


class Viewer:
    """The viewer's window without a screen, which reports its state as JSON."""

    def __init__(self, made):
        environment = made.environment(QT_QPA_PLATFORM="offscreen", XDG_CACHE_HOME=made.path("cache"), XDG_RUNTIME_DIR=made.folder, LC_ALL="C.UTF-8")
        self.log = open(made.path("viewer.log"), "ab")
        self.process = subprocess.Popen([STORY, "--live", BIN, f"tcp://127.0.0.1:{made.port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env=environment)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=lambda: [self.lines.put(json.loads(line)) for line in self.process.stdout], daemon=True)
        self.reader.start()

    def press(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def next_story(self, seconds):
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self):
        self.process.stdin.close()
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join(10)
        self.process.stdout.close()
        self.log.close()
        return status


def hung(folder):
    with open(os.path.join(folder, "verdict.txt"), encoding="utf-8") as file:
        return "HUNG" in file.read()


def analyzed(made, folder):
    return subprocess.run([os.path.join(BIN, "lockstep-analyze"), "--full", folder], capture_output=True, text=True, env=made.environment()).stdout


class Live(unittest.TestCase):
    def test_requested_and_automatic_incidents_open(self):
        made = Cluster()
        self.addCleanup(made.close)
        made.start_all(*STALL)
        self.assertTrue(wait_for(lambda: "train" in made.log("collector"), 120), made.logs())
        viewer = Viewer(made)
        self.addCleanup(lambda: viewer.process.poll() is None and viewer.process.kill())

        # The button has no effect until the job is in the table.
        def by_the_button():
            viewer.press()
            return viewer.next_story(10)

        story = wait_for(by_the_button, 180)
        self.assertTrue(story, made.log("viewer") + made.logs())
        # Rank 2 hangs, and the collector captures an incident. The window opens the incident, and opens it again when it is complete.
        whole = lambda: [folder for folder in made.whole() if hung(folder)]
        self.assertTrue(wait_for(whole, 240), made.logs())
        heard = [story]

        def hung_and_whole():
            heard.append(viewer.next_story(5) or heard[-1])
            return heard[-1]["verdict"] == "HUNG" and heard[-1]["ranks"] == [2] and len(heard[-1]["report"]) > 0

        self.assertTrue(wait_for(hung_and_whole, 120), (heard[-1], made.log("viewer")))

        # The button may have captured an incident after the start of the hang. The window shows the newest incident.
        def as_analyzed():
            reports = [analyzed(made, folder) for folder in whole()]
            if heard[-1]["report"] in reports:
                return True
            heard.append(viewer.next_story(5) or heard[-1])
            return False

        self.assertTrue(wait_for(as_analyzed, 60), (heard[-1]["report"], [analyzed(made, folder) for folder in whole()]))
        self.assertEqual(viewer.close(), 0, made.log("viewer"))


if __name__ == "__main__":
    missing = [path for path in (STORY, os.path.join(BIN, "lockstep-collector"), os.path.join(BIN, "lockstep-top"), os.path.join(BIN, "lockstep-dump"),
                                 os.path.join(BIN, "lockstep-agent"), os.path.join(BIN, "trainsim")) if not os.path.exists(path)]
    if missing:
        print("skipped: not built: " + ", ".join(missing))
        sys.exit(0)
    unittest.main()
