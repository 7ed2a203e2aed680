#!/usr/bin/env python3
"""Opens every fault of the corpus in the viewer and presses the key for the next anomaly. The selection must be the verdict's culprits, and the text that
of `lockstep analyze`."""

import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", "build"))
CORPUS, ANALYZE = BUILD / "bin" / "lockstep-corpus", BUILD / "bin" / "lockstep-analyze"
STORY, VIEW = BUILD / "tests" / "viewer_story", BUILD / "bin" / "lockstep-view"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **more)


class Stories(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-stories-")
        root = pathlib.Path(cls.folder.name)
        cls.environment = dict(os.environ, QT_QPA_PLATFORM="offscreen", XDG_CACHE_HOME=str(root / "cache"), XDG_CONFIG_HOME=str(root / "config"),
                               XDG_RUNTIME_DIR=str(root), LC_ALL="C.UTF-8")
        scenarios = [entry["scenario"] for entry in json.loads(run(CORPUS, "list", "--json").stdout)]
        jobs = [(number, "lsd") for number in scenarios] + [(number, "fr") for number in scenarios[::6]]
        # Here the calls differ on one stream, and the CPU thread waits for another.
        jobs.append((1, "lsd fsdp"))

        def make(job):
            number, source = job
            source, _, layout = source.partition(" ")
            folder = root / f"{number}-{source}{layout}"
            made = run(CORPUS, "generate", "--scenario", number, "--format", source, "--layout", layout or "auto", "--depth", 256, "--out", folder)
            text, facts = run(ANALYZE, "--full", folder / "data"), run(ANALYZE, "--format", "json", folder / "data")
            return job, folder / "data", made, text, facts

        with ThreadPoolExecutor(2) as pool:
            cls.made = list(pool.map(make, jobs))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_key_for_the_next_anomaly_selects_the_culprits(self):
        for job, _, made, text, facts in self.made:
            self.assertEqual(made.returncode, 0, (job, made.stderr))
            self.assertIn(text.returncode, (0, 1), (job, text.stderr))
        story = run(STORY, *[data for _, data, _, _, _ in self.made], env=self.environment)
        self.assertEqual(story.returncode, 0, story.stderr)
        result = [json.loads(line) for line in story.stdout.splitlines()]
        self.assertEqual(len(result), len(self.made))
        named = 0
        for (job, data, _, text, facts), output in zip(self.made, result):
            with self.subTest(scenario=job[0], source=job[1]):
                verdict = json.loads(facts.stdout)
                culprits = verdict["findings"][0]["culprit_ranks"] if verdict["findings"] else []
                # Without a culprit, another conspicuous rank may be selected.
                if culprits:
                    self.assertEqual(output["ranks"], culprits)
                    named += 1
                    if verdict["verdict"] in ("HUNG", "DESYNC", "CRASHED", "LATE"):
                        self.leads_to(culprits, output["wait_for"])
                self.assertEqual(output["verdict"], verdict["verdict"])
                self.assertEqual(output["report"], text.stdout)
        self.assertGreaterEqual(named, 30)

    def leads_to(self, culprits, graph):
        """Checks the wait-for graph: it shows a culprit as a cause, in a cycle or without data, and it has arrows if a rank waits."""
        blamed, waiting, arrows = set(), 0, 0
        for line in graph.splitlines():
            if line.startswith("    "):
                arrows += 1
                continue
            waiting += line.startswith("waits: ")
            if line.startswith(("CAUSE: ", "IN A CYCLE: ", "no data: ")):
                for run_of in re.search(r".*\(ranks ([^)]*)\)", line).group(1).split(", "):
                    first, _, last = run_of.partition("-")
                    blamed.update(range(int(first), int(last or first) + 1))
        self.assertTrue(blamed & set(culprits), graph)
        self.assertTrue(arrows > 0 or waiting == 0, graph)

    def test_the_viewer_prints_the_selection_and_the_report(self):
        job, data, _, text, facts = self.made[0]
        culprits = json.loads(facts.stdout)["findings"][0]["culprit_ranks"]
        for _ in range(2):  # the second run uses the index
            done = run(VIEW, "--print-selection", "--select-anomaly", 1, data, env=self.environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            output = json.loads(done.stdout)
            self.assertEqual((output["ranks"], output["report"]), (culprits, text.stdout))
        picture = pathlib.Path(self.folder.name) / "window.png"
        done = run(VIEW, "--screenshot", picture, "--size", "1280x800", "--theme", "dark", data, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        # Simulates a file system that accepts only the first bytes of a file.
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        done = run(VIEW, "--screenshot", picture, data, env=self.environment, preexec_fn=limit, restore_signals=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("cannot be written", done.stderr)
        done = run(VIEW, "--exit-after-first-paint", data, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"first paint: \d+ ms after main, \d+ ms after exec\nVmHWM: \d+ kB\nRssAnon: \d+ kB\n")

    # Both viewers find no index and create one. Neither may see a half-written index.
    def test_two_viewers_may_open_one_folder_at_once(self):
        _, data, _, text, _ = self.made[1]
        if (data / "index.lsi").exists():
            (data / "index.lsi").unlink()
        words = [str(VIEW), "--print-selection", "--select-anomaly", "1", str(data)]
        for _ in range(3):
            both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment) for _ in range(2)]
            result = [one.communicate(timeout=120) for one in both]
            self.assertEqual([one.returncode for one in both], [0, 0], result)
            self.assertEqual(result[0][0], result[1][0])
            self.assertEqual(json.loads(result[0][0])["report"], text.stdout)
            self.assertEqual([name for name in os.listdir(data) if name.startswith(".lockstep.")], [], "something was left behind")
            (data / "index.lsi").unlink()

    # The file system has no space for the index, the notes, the cache and the session's state.
    def test_a_full_disk_does_not_stop_the_viewer(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-full-") as place:
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True).returncode != 0:
                self.skipTest("this machine does not allow mounting a tmpfs")
            try:
                full = pathlib.Path(place)
                _, data, _, text, _ = self.made[1]
                (full / "incident").mkdir()
                for file in data.iterdir():
                    if file.name != "index.lsi":
                        (full / "incident" / file.name).write_bytes(file.read_bytes())
                try:
                    with open(full / "rest", "wb") as rest:
                        while True:
                            rest.write(b"x" * 4096)
                            rest.flush()
                except OSError:
                    pass
                environment = dict(self.environment, XDG_CACHE_HOME=str(full / "cache"), XDG_CONFIG_HOME=str(full / "config"), TMPDIR=str(full))
                done = run(VIEW, "--print-selection", "--select-anomaly", 1, full / "incident", env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                output = json.loads(done.stdout)["report"]
                self.assertEqual(output.split("  files ")[0], text.stdout.split("  files ")[0], "only the folder's name may differ")
                self.assertEqual([name for name in os.listdir("/dev/shm") if name.startswith("lockstep-view-")], [], "the index in memory must have no name left")
                # A closing window cannot save its state there, but no message may keep it open.
                done = run(STORY, full / "incident", env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
            finally:
                subprocess.run(["umount", "-l", place], capture_output=True)

    def test_errors_are_reported(self):
        nothing = pathlib.Path(self.folder.name) / "nothing.txt"
        nothing.write_text("no dump\n")
        absent = str(nothing.parent / "absent")
        for words, status, message in (
            ([], 3, "no display"),
            (["--print-selection"], 2, "no PATH given"),
            (["--tab", "sofa", "x"], 2, "--tab takes one of answer, matrix, wait-for"),
            (["--size", "0x5", "x"], 2, "is not a size"),
            (["--frobnicate"], 2, "unknown option '--frobnicate'"),
            ([absent], 3, "absent: No such file or directory"),
            (["--print-selection", nothing], 3, "Open an incident folder"),
            (["--screenshot", absent + "/x.png", self.made[0][1]], 3, "cannot be written"),
            (["--print-selection", "--select-anomaly", "99999", self.made[0][1]], 3, "anomalies"),
        ):
            environment = {key: value for key, value in self.environment.items() if key not in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")}
            done = run(VIEW, *words, env=environment)
            self.assertEqual(done.returncode, status, (words, done.stderr))
            self.assertIn(message, done.stderr)
            self.assertTrue(done.stderr.startswith("lockstep view: "), done.stderr)
        self.assertTrue(run(VIEW, "--version").stdout.startswith("lockstep "))
        self.assertTrue(run(VIEW, "--help").stdout.startswith("lockstep view - "))


if __name__ == "__main__":
    missing = [str(path) for path in (CORPUS, ANALYZE, STORY, VIEW) if not path.exists()]
    if missing:
        print("skipped: not built: " + ", ".join(missing))
        sys.exit(0)
    unittest.main()
