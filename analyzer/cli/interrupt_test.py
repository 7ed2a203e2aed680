#!/usr/bin/env python3
"""Tests what lockstep analyze and lockstep export print on a terminal while they work, and what Ctrl-C does then. A pseudo-terminal takes the place
of a user's terminal.

Usage: interrupt_test.py LOCKSTEP_ANALYZE LOCKSTEP_EXPORT LOCKSTEP_CORPUS
SLOW_FILES_PRELOAD"""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ANALYZE, EXPORT, CORPUS, PRELOAD = (os.path.abspath(path) for path in sys.argv[1:5])
INTERRUPTED = 128 + signal.SIGINT


class Terminal:
    """A program whose controlling terminal and standard error are a pseudo-terminal."""

    def __init__(self, command, environment, stdout):
        self.shown = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                os.dup2(stdout, 1)
                os.execve(command[0], command, environment)
            finally:
                os._exit(127)

    def read_until(self, text, seconds=60):
        """Returns whether the terminal showed the text before the program ended."""
        until = time.monotonic() + seconds
        while text not in self.shown:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise TimeoutError(f"{text} was not shown; this was: {self.shown}")
            try:
                piece = os.read(self.master, 4096)
            except OSError:  # no process has the terminal open any more
                piece = b""
            if not piece:
                return False
            self.shown += piece
        return True

    def press_ctrl_c(self):
        os.write(self.master, b"\x03")

    def end(self):
        """Returns the exit status, negative for a signal."""
        self.read_until(b"\0never shown")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status)


class Interrupt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="lockstep-interrupt-test-")
        subprocess.run([CORPUS, "generate", "--scenario", "7", "--ranks", "64", "--seed", "21007", "--marks", "full", "--depth", "1024", "--out",
                        os.path.join(cls.folder, "job")], check=True, stdout=subprocess.DEVNULL)
        cls.data = os.path.join(cls.folder, "job/data")
        cls.files = len([name for name in os.listdir(cls.data) if name.endswith(".lsd")])
        cls.out = os.path.join(cls.folder, "out")
        os.mkdir(cls.out)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        for name in os.listdir(self.out):
            os.unlink(os.path.join(self.out, name))

    def slow(self, folder, read=0, write=0):
        """Returns an environment in which opening a file of the folder to read,
        or each write to one, takes this many milliseconds longer."""
        return {**os.environ, "LD_PRELOAD": PRELOAD, "LOCKSTEP_SLOW_FOLDER": folder, "LOCKSTEP_SLOW_READ_MS": str(read),
                "LOCKSTEP_SLOW_WRITE_MS": str(write), "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}

    def on_terminal(self, *command, environment=None):
        with open(os.path.join(self.folder, "stdout"), "wb") as file:
            return Terminal(command, environment or dict(os.environ), file.fileno())

    def stdout(self):
        with open(os.path.join(self.folder, "stdout"), "rb") as file:
            return file.read()

    def output(self, name):
        return os.path.join(self.out, name)

    def test_progress_is_printed_on_a_terminal_and_the_report_is_the_same(self):
        plain = subprocess.run([ANALYZE, self.data], capture_output=True, check=False, stdin=subprocess.DEVNULL)
        terminal = self.on_terminal(ANALYZE, self.data, environment=self.slow(self.data, read=1500))
        self.assertTrue(terminal.read_until(b"\rlockstep analyze: reading ("))
        self.assertEqual(terminal.end(), plain.returncode)
        # The total counts the dumps and the manifest.
        self.assertRegex(terminal.shown, rb"reading \([1-9] of %d files\)" % (self.files + 1))
        self.assertRegex(terminal.shown, rb"loading operations \([1-9] of %d files\)" % (self.files + 1))
        # The progress line has ended, and the report contains none of it.
        self.assertTrue(terminal.shown.endswith(b"\n"), terminal.shown)
        self.assertEqual(self.stdout(), plain.stdout)

    def test_nothing_is_printed_without_a_terminal(self):
        for command in ([ANALYZE, self.data], [EXPORT, self.data, "--csv", self.output("x.csv")]):
            done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, env=self.slow(self.data, read=1500))
            self.assertIn(done.returncode, (0, 1))
            self.assertNotIn(b"\r", done.stderr)
            self.assertNotIn(b"reading", done.stderr)

    def test_fast_runs_print_no_progress(self):
        # A wrong argument is reported before any progress is shown.
        terminal = self.on_terminal(ANALYZE, "--format", "poem", self.data)
        self.assertEqual(terminal.end(), 2)
        self.assertNotIn(b"\r\r", terminal.shown)
        self.assertNotIn(b"reading (", terminal.shown)

    def test_an_error_begins_on_a_new_line(self):
        broken = os.path.join(self.folder, "broken")
        os.makedirs(broken, exist_ok=True)
        for number in range(4):
            with open(os.path.join(broken, f"{number}.lsd"), "wb") as file:
                file.write(b"nothing that is known")
        terminal = self.on_terminal(ANALYZE, broken, environment=self.slow(broken, read=1500))
        self.assertEqual(terminal.end(), 3)
        lines = terminal.shown.replace(b"\r\n", b"\n").split(b"\n")
        self.assertTrue(any(line.startswith(b"lockstep analyze: ") and b"reading (" not in line for line in lines), lines)

    def test_ctrl_c_while_reading_ends_without_output(self):
        for command in ([ANALYZE, self.data, "--output", self.output("report")], [EXPORT, self.data, "--csv", self.output("report")]):
            terminal = self.on_terminal(*command, environment=self.slow(self.data, read=4000))
            self.assertTrue(terminal.read_until(b" files"))
            terminal.press_ctrl_c()
            self.assertEqual(terminal.end(), INTERRUPTED, terminal.shown)
            self.assertEqual(os.listdir(self.out), [])

    def test_ctrl_c_ends_the_wait_for_the_archive(self):
        # lockstep analyze starts the lockstep-archive of its own folder.
        beside = os.path.join(self.folder, "bin")
        os.makedirs(beside, exist_ok=True)
        analyze = shutil.copy(ANALYZE, beside)
        archive = os.path.join(beside, "lockstep-archive")
        with open(archive, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec sleep 5\n")
        os.chmod(archive, 0o755)
        terminal = self.on_terminal(analyze, self.data, "--archive", "http://127.0.0.1:1/lockstep", "--output", self.output("report"))
        self.assertTrue(terminal.read_until(b"\rlockstep analyze: querying the archive"), terminal.shown)
        terminal.press_ctrl_c()
        self.assertEqual(terminal.end(), INTERRUPTED, terminal.shown)
        self.assertEqual(os.listdir(self.out), [])

    def test_ctrl_c_while_writing_keeps_the_older_file(self):
        older = self.output("older")
        for kind in ("perfetto", "chrome", "csv"):
            with open(older, "wb") as file:
                file.write(b"older")
            terminal = self.on_terminal(EXPORT, self.data, "--" + kind, older, environment=self.slow(self.out, write=2500))
            self.assertTrue(terminal.read_until(b"\rlockstep export: writing " + older.encode()[:20]))
            self.assertTrue(any(name.startswith(".lockstep-export.") for name in os.listdir(self.out)))
            terminal.press_ctrl_c()
            self.assertEqual(terminal.end(), INTERRUPTED, terminal.shown)
            self.assertEqual(os.listdir(self.out), ["older"])
            with open(older, "rb") as file:
                self.assertEqual(file.read(), b"older")

    def test_ctrl_c_at_any_moment_leaves_no_partial_file(self):
        """Whatever the programs are doing, an output file is complete or does not
        exist."""
        for number in (signal.SIGINT, signal.SIGTERM):
            for program, names in ((ANALYZE, ["html"]), (EXPORT, ["perfetto", "csv"])):
                targets = {name: self.output(name) for name in names}
                command = [program, self.data]
                if program == ANALYZE:
                    command += ["--format", "html", "--output", targets["html"]]
                else:
                    command += [word for name in names for word in ("--" + name, targets[name])]
                took = float("inf")  # the shortest of three runs: on a busy machine, a run may take ten times as long
                for _ in range(3):
                    began = time.monotonic()
                    usual = subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode
                    took = min(took, time.monotonic() - began)
                whole = {}
                for name, path in targets.items():
                    with open(path, "rb") as file:
                        whole[name] = file.read()
                ended = set()
                for tenth in range(1, 12):
                    self.setUp()
                    process = subprocess.Popen(command, stderr=subprocess.PIPE)
                    try:
                        process.wait(took * tenth / 10)
                    except subprocess.TimeoutExpired:
                        process.send_signal(number)
                    error = process.communicate(timeout=60)[1]
                    # A signal that arrives before the program handles signals ends it, as with any program.
                    self.assertIn(process.returncode, (usual, 128 + number, -number), error)
                    ended.add(process.returncode)
                    self.assertLessEqual(set(os.listdir(self.out)), set(names))
                    for name in os.listdir(self.out):
                        with open(targets[name], "rb") as file:
                            self.assertTrue(file.read() == whole[name], f"{name} is not whole after {tenth}/10")
                self.assertTrue(ended - {usual}, "no signal came in time")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
