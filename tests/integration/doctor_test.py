#!/usr/bin/env python3
"""Runs lockstep doctor on a working host, and on hosts with one fault each, which doctor must name."""

import json
import os
import shutil
import signal
import socket
import subprocess
import unittest

from refusal_test import NOBODY, forbid_by_seccomp
from support import BUILD, LOCKSTEP, STANDIN, FolderTest, clean_environment


def may_unshare():
    return subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


class DoctorTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.rings = os.path.join(self.folder, "rings")
        os.mkdir(self.rings)
        self.environment = clean_environment()
        self.environment |= {"LOCKSTEP_DIR": self.rings, "HOME": self.folder, "LOCKSTEP_RUNTIME_DIR": os.path.join(self.folder, "runtime")}

    def doctor(self, *arguments, before=(), become=None, **environment):
        """Returns the exit status and {name: check}, with the worst result of each name. `become` is a user ID, or a function that runs before the program
        starts."""
        user = {"user": become, "group": become, "extra_groups": []} if isinstance(become, int) else {"preexec_fn": become}
        done = subprocess.run([*before, LOCKSTEP, "doctor", "--json", *arguments], env=self.environment | environment, capture_output=True,
                              text=True, timeout=100, check=False, **user)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["healthy"], done.returncode == 0)
        checks = {}
        for check in report["checks"]:
            worst = ("ok", "note", "bad")
            if check["name"] not in checks or worst.index(check["health"]) > worst.index(checks[check["name"]]["health"]):
                checks[check["name"]] = check
            if check["health"] == "bad":
                self.assertTrue(check["advice"], check)
        self.assertEqual(os.listdir(self.rings), [name for name in os.listdir(self.rings) if not name.startswith("doctor-")], "files were left behind")
        return done.returncode, checks

    def test_a_working_host_passes_every_check(self):
        status, checks = self.doctor("--nccl", os.path.join(STANDIN, "libnccl.so.2"), LD_LIBRARY_PATH=STANDIN)
        self.assertEqual(status, 0, checks)
        self.assertEqual(checks["NCCL linked"]["health"], "ok")
        self.assertEqual(checks["NCCL by dlopen"]["health"], "ok")
        self.assertEqual(checks["NCCL"]["health"], "ok", checks["NCCL"])
        self.assertIn("calls are recorded", checks["NCCL"]["text"])
        text = subprocess.run([LOCKSTEP, "doctor"], env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(text.returncode, 0, text.stdout)
        self.assertIn("everything that is needed works", text.stdout)
        self.assertLessEqual(max(len(line) for line in text.stdout.splitlines() if "/" not in line), 100)

    def test_configuration_files_are_listed_with_their_errors(self):
        conf = os.path.join(self.folder, "lockstep.conf")
        for text, status, health, says in (("[agent]\nspol = /x\n", 0, "note", "did you mean 'spool'?"), ("[agent]\nspool = /x\n", 0, "ok", "lockstep.conf (1 setting)"),
                                           ("[recorder]\nrecord = off\n", 1, "bad", "record = off"), ("[doctor]\nranks = many\n", 1, "bad", "line 2: [doctor] ranks")):
            with open(conf, "w") as file:
                file.write(text)
            done, checks = self.doctor(LOCKSTEP_CONFIG=conf)
            self.assertEqual(done, status, checks)
            self.assertEqual(checks["configuration"]["health"], health)
            self.assertIn(says, checks["configuration"]["text"])

    def test_what_prevents_recording_is_named(self):
        status, checks = self.doctor(LOCKSTEP="0")
        self.assertEqual(status, 1)
        self.assertIn("LOCKSTEP=0", checks["switches"]["text"])
        self.assertIn("0 ranks recorded", checks["NCCL linked"]["text"])
        status, checks = self.doctor(LOCKSTEP_HOOK="symbols")
        self.assertEqual(status, 0)
        self.assertEqual(checks["NCCL linked"]["health"], "ok")
        self.assertIn("LOCKSTEP_HOOK=symbols", checks["NCCL by dlopen"]["text"])
        status, checks = self.doctor(LOCKSTEP_DENY="exe probe")
        self.assertEqual(status, 1)
        self.assertIn("LOCKSTEP_DENY", checks["switches"]["text"])
        open(os.path.join(self.rings, "off"), "w").close()
        status, checks = self.doctor()
        self.assertEqual(status, 1)
        self.assertIn(os.path.join(self.rings, "off"), checks["switches"]["text"])

    def test_a_misspelled_variable_is_a_note(self):
        status, checks = self.doctor(LOCKSTEP_RINGKIB="64")
        self.assertEqual(status, 0)
        self.assertEqual(checks["switches"]["health"], "note")
        self.assertIn("LOCKSTEP_RINGKIB", checks["switches"]["text"])

    def test_a_missing_folder_and_missing_space_are_reported(self):
        blocked = os.path.join(self.folder, "file")
        open(blocked, "w").close()
        status, checks = self.doctor(LOCKSTEP_DIR=blocked)
        self.assertEqual(status, 1)
        self.assertIn("is not a folder", checks["shared memory"]["text"])
        if not may_unshare():
            self.skipTest("a small tmpfs needs a mount namespace, which this user may not create")
        small = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=3m none "$LOCKSTEP_DIR" && exec "$@"', "sh"]
        status, checks = self.doctor(before=small)
        self.assertEqual(status, 1)
        self.assertIn("no ring fits", checks["shared memory"]["text"])
        some = [word.replace("3m", "80m") for word in small]
        status, checks = self.doctor(before=some)
        self.assertEqual(status, 0)
        self.assertIn("8 ranks get rings of less than", checks["shared memory"]["text"])
        status, checks = self.doctor("--ranks", "1", before=some)
        self.assertEqual(checks["shared memory"]["health"], "ok", checks["shared memory"])

    def test_a_folder_of_another_user_is_bad(self):
        if os.geteuid() != 0:
            self.skipTest("becoming another user needs root")
        os.chmod(self.folder, 0o755)
        os.chmod(self.rings, 0o700)
        status, checks = self.doctor(become=NOBODY)
        self.assertEqual((status, checks["shared memory"]["health"]), (1, "bad"))
        self.assertRegex(checks["shared memory"]["text"], "belongs to user 0|cannot be written to")
        self.assertIn("LOCKSTEP_DIR", checks["shared memory"]["advice"])

    def test_a_folder_that_root_cannot_write_is_bad(self):
        if not may_unshare():
            self.skipTest("a read-only mount needs a mount namespace, which this user may not create")
        status, checks = self.doctor(before=["unshare", "--mount", "sh", "-c", 'mount --bind "$LOCKSTEP_DIR" "$LOCKSTEP_DIR" && mount -o remount,bind,ro '
                                             '"$LOCKSTEP_DIR" && exec "$@"', "sh"])
        self.assertEqual(status, 1)
        self.assertIn(self.rings, checks["shared memory"]["text"])
        self.assertEqual(checks["shared memory"]["health"], "bad")

    def test_calls_that_are_not_recorded_are_reported(self):
        status, checks = self.doctor(LOCKSTEP_HOOK="off")
        self.assertEqual(status, 1)
        self.assertIn("LOCKSTEP_HOOK=off", checks["switches"]["text"])
        self.assertIn("0 ranks recorded", checks["NCCL linked"]["text"])
        # No rings can be created, because files may not grow. So the recorder only forwards calls.
        status, checks = self.doctor(before=["prlimit", "--fsize=65536", "--"])
        self.assertEqual(status, 1)
        self.assertEqual(checks["NCCL linked"]["health"], "bad", checks["NCCL linked"])

    def test_refused_ptrace_is_a_note_with_advice(self):
        """The exit status is not 1, because verdicts still arrive, but without stacks. The check shows what refuses ptrace and how to allow it."""
        status, checks = self.doctor(become=forbid_by_seccomp)
        self.assertEqual(checks["stacks"]["health"], "note")
        self.assertIn("seccomp", checks["stacks"]["text"])
        self.assertIn("verdicts have no stacks", checks["stacks"]["advice"])

    def test_a_pid_namespace_and_a_missing_kernel_log_are_notes(self):
        if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("cannot create a pid namespace here")
        status, checks = self.doctor(before=["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"])
        self.assertEqual(status, 0, checks)
        self.assertEqual(checks["container"]["health"], "note")
        self.assertIn("a pid namespace", checks["container"]["text"])
        self.assertIn("hostPID", checks["container"]["advice"])
        if os.geteuid() == 0:
            os.chmod(self.folder, 0o755)
            os.chmod(self.rings, 0o777)
            _, checks = self.doctor(become=NOBODY, HOME="/nonexistent")
            self.assertIn(checks["kernel log"]["health"], ("ok", "note"))
            if checks["kernel log"]["health"] == "note":
                self.assertIn("/dev/kmsg", checks["kernel log"]["text"])
                self.assertIn("CAP_SYSLOG", checks["kernel log"]["advice"])

    def test_a_statically_linked_nccl_is_recognized(self):
        program = os.path.join(self.folder, "train")
        shutil.copy("/bin/true", program)
        status, checks = self.doctor("--nccl", program)
        self.assertEqual(status, 1)
        self.assertIn("cannot be used", checks["NCCL"]["text"])
        # The version text crosses the boundary between two blocks of the reader.
        with open(program, "ab") as file:
            file.write(b"\0" * ((1 << 20) - os.path.getsize(program) - 7) + b"NCCL version 2.27.3+cuda12.9\0")
        status, checks = self.doctor("--nccl", program)
        self.assertEqual(status, 1)
        self.assertEqual(checks["NCCL"]["text"], f"is linked into {program}, where hooks do not see its calls")
        self.assertIn("lockstep run --profiler", checks["NCCL"]["advice"])

    def test_a_missing_nccl_is_a_note(self):
        _, checks = self.doctor(LD_LIBRARY_PATH=self.folder)
        if checks["NCCL"]["health"] == "ok":
            self.skipTest("this machine has an NCCL of its own")
        self.assertEqual(checks["NCCL"]["health"], "note")
        self.assertIn("linked into the program", checks["NCCL"]["text"])
        self.assertIn("--nccl", checks["NCCL"]["advice"])

    def test_files_that_are_not_libraries_are_reported(self):
        status, checks = self.doctor(LOCKSTEP_LIBRARY="/nowhere/liblockstep.so")
        self.assertEqual(status, 1)
        self.assertIn("/nowhere/liblockstep.so", checks["recorder"]["text"])
        text = os.path.join(self.folder, "libnccl.so.2")
        with open(text, "w") as file:
            file.write("no library")
        status, checks = self.doctor("--nccl", text)
        self.assertEqual(status, 1)
        self.assertIn("cannot be used", checks["NCCL"]["text"])
        status, checks = self.doctor("--nccl", "/nowhere/libnccl.so.2")
        self.assertEqual(status, 1)

    def test_a_probe_that_needs_a_newer_libc_says_nothing_about_the_recorder(self):
        for name in ("lockstep", "lockstep-doctor"):
            os.makedirs(os.path.join(self.folder, "bin"), exist_ok=True)
            shutil.copy(os.path.join(BUILD, "bin", name), os.path.join(self.folder, "bin", name))
        os.makedirs(os.path.join(self.folder, "lib/lockstep"))
        shutil.copy(os.path.join(BUILD, "lib/lockstep/liblockstep-probe-nccl.so"), os.path.join(self.folder, "lib/lockstep"))
        probe = os.path.join(self.folder, "lib/lockstep/probe")

        def checks_with(complaint):
            with open(probe, "w") as file:
                file.write(f"#!/bin/sh\necho \"{complaint}\" >&2\nexit 1\n")
            os.chmod(probe, 0o755)
            done = subprocess.run([os.path.join(self.folder, "bin/lockstep"), "doctor", "--json"], capture_output=True, text=True, timeout=100, check=False,
                                  env={**self.environment, "LOCKSTEP_LIBRARY": os.path.join(BUILD, "lib/liblockstep.so")})
            return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}

        # The message of glibc's loader.
        status, checks = checks_with(f"{probe}: /lib64/libc.so.6: version \\`GLIBC_2.34' not found (required by {probe})")
        self.assertEqual(status, 0, checks)
        self.assertEqual(checks["recorder"]["health"], "note")
        self.assertIn("could not be tested here", checks["recorder"]["text"])
        self.assertNotIn("NCCL linked", checks)
        status, checks = checks_with("something else")
        self.assertEqual((status, checks["NCCL linked"]["health"]), (1, "bad"))

    def test_missing_and_unsafe_keys_are_reported(self):
        keys = os.path.join(self.folder, "keys")
        made = subprocess.run([LOCKSTEP, "keygen", "--role", "operator", keys], env=self.environment, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            self.fail(made.stderr)
        path = [os.path.join(keys, name) for name in os.listdir(keys) if name.endswith(".key")][0]
        status, checks = self.doctor(LOCKSTEP_KEYS=keys)
        self.assertEqual((status, checks["keys"]["health"]), (0, "ok"))
        os.chmod(path, 0o644)
        status, checks = self.doctor(LOCKSTEP_KEYS=keys)
        self.assertEqual(status, 1)
        self.assertIn(path, checks["keys"]["text"])
        with open(path, "w") as file:
            file.write("nonsense\n")
        os.chmod(path, 0o600)
        status, checks = self.doctor(LOCKSTEP_KEYS=keys)
        self.assertEqual((status, checks["keys"]["health"]), (1, "bad"))
        self.assertIn("lockstep keygen", checks["keys"]["advice"])

    def test_a_collector_is_reported_as_reachable_or_not(self):
        endpoint = f"ipc://{self.folder}/collector.sock"
        status, checks = self.doctor("--collector", endpoint)
        self.assertEqual(status, 1)
        self.assertIn("does not respond", checks["collector"]["text"])
        self.assertIn(endpoint, checks["collector"]["text"])
        collector = subprocess.Popen([LOCKSTEP, "collector", "--listen", endpoint, "--out", os.path.join(self.folder, "incidents")],
                                     env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # doctor repeats its hello for up to three seconds, so a few attempts suffice.
            for _ in range(10):
                status, checks = self.doctor("--collector", endpoint)
                if status == 0:
                    break
            self.assertEqual(status, 0, checks["collector"])
            self.assertIn("responds, version", checks["collector"]["text"])
        finally:
            collector.send_signal(signal.SIGTERM)
            collector.wait(timeout=30)

    def test_a_collector_that_does_not_know_the_key_is_reported(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        keys = {name: os.path.join(self.folder, name) for name in ("known", "stranger")}
        for role, folder in (("collector", "known"), ("operator", "known"), ("operator", "stranger")):
            subprocess.run([LOCKSTEP, "keygen", "--role", role, keys[folder]], env=self.environment, capture_output=True, check=True)
        collector = subprocess.Popen([LOCKSTEP, "collector", "--listen", endpoint, "--keys", keys["known"], "--out", os.path.join(self.folder, "incidents")],
                                     env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            words = ["--collector", endpoint, "--server-key", os.path.join(keys["known"], "collector.pub"), "--key"]
            for _ in range(10):
                status, checks = self.doctor(*words, os.path.join(keys["known"], "operator.key"))
                if status == 0:
                    break
            self.assertEqual((status, checks["collector"]["health"]), (0, "ok"), checks["collector"])
            status, checks = self.doctor(*words, os.path.join(keys["stranger"], "operator.key"))
            self.assertEqual((status, checks["collector"]["health"]), (1, "bad"), checks["collector"])
            self.assertRegex(checks["collector"]["text"] + checks["collector"]["advice"], "keys?")
        finally:
            collector.send_signal(signal.SIGTERM)
            collector.wait(timeout=30)

    def test_wrong_arguments_are_refused(self):
        for arguments in (["--ranks", "0"], ["--ranks"], ["--nccl="], ["host"], ["--what"]):
            done = subprocess.run([LOCKSTEP, "doctor", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("lockstep doctor --help", done.stderr)


if __name__ == "__main__":
    unittest.main()
