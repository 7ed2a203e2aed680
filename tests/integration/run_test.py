#!/usr/bin/env python3
"""Tests `lockstep run` from outside: exit statuses, signals, what it leaves behind, and its behavior without space for rings."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from own_group import own_group
from support import BUILD, LOCKSTEP, TRAINSIM, FolderTest, clean_environment, explore_data, kill_marked, marked_processes, read_json, wait_for

JOB = [TRAINSIM, "--tp", "2", "--pp", "2", "--dp", "2"]
MARK = "LOCKSTEP_RUN_TEST"


class RunTest(FolderTest):
    @classmethod
    def setUpClass(cls):
        # A shell that starts this test in the background ignores these signals, and child processes inherit that.
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def setUp(self):
        super().setUp()
        self.mark = os.path.basename(self.folder)
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        # The keeper of a killed lockstep run needs a moment to clean up.
        wait_for(lambda: not marked_processes(MARK, self.mark), 20)
        left = marked_processes(MARK, self.mark)
        kill_marked(MARK, self.mark)
        self.assertEqual(left, [], "processes were left behind")
        self.assertEqual(os.listdir(self.rings), [], "rings were left behind")

    def environment(self, **more):
        environment = clean_environment()
        environment[MARK] = self.mark
        environment["LOCKSTEP_DIR"] = self.rings
        environment.update({key: value for key, value in more.items() if value is not None})
        for key, value in more.items():
            if value is None:
                environment.pop(key, None)
        return environment

    def run_lockstep(self, *arguments, environment=None, seconds=120, prefix=(), **options):
        return subprocess.run([*prefix, LOCKSTEP, *arguments], cwd=self.folder, env=environment or self.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds, **options)

    def start(self, *arguments, **options):
        process = subprocess.Popen([LOCKSTEP, *arguments], cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **options)
        self.started.append(process)
        return process

    def ring_files(self):
        return [os.path.join(base, name) for base, _, names in os.walk(self.rings) for name in names if name.endswith(".ring")]

    # -- the lockstep command and its arguments

    def test_an_unknown_verb_lists_the_known_verbs(self):
        result = self.run_lockstep("frobnicate")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"unknown verb 'frobnicate'.*run")
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_help_and_version_are_printed(self):
        self.assertRegex(self.run_lockstep("--version").stdout, r"^lockstep \d+\.\d+\.\d+\n$")
        self.assertIn("run", self.run_lockstep("--help").stdout)
        self.assertIn("--kill-on-hang", self.run_lockstep("run", "--help").stdout)
        self.assertEqual(self.run_lockstep().returncode, 2)

    def test_wrong_arguments_are_refused(self):
        for arguments in (["-n", "0", "--", "true"], ["--frob", "--", "true"], [], ["--"], ["--gpu", "x", "--", "true"]):
            result = self.run_lockstep("run", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    # -- exit statuses, streams, signals

    def test_a_command_that_cannot_start_gives_126_or_127(self):
        self.assertEqual(self.run_lockstep("run", "--", "/nowhere/at/all").returncode, 127)
        self.assertEqual(self.run_lockstep("run", "--", "/etc/passwd").returncode, 126)
        self.assertEqual(self.run_lockstep("run", "-n", "2", "--", "no-such-command-anywhere").returncode, 127)

    def test_passes_the_status_on_and_reports_an_empty_recording(self):
        for command, status in ((["true"], 0), (["sh", "-c", "exit 7"], 7)):
            result = self.run_lockstep("run", "--", *command)
            self.assertEqual(result.returncode, status)
            self.assertRegex(result.stderr, r"^lockstep: nothing was recorded: .+\n$")

    def test_a_rank_that_died_before_its_first_communicator_is_named(self):
        script = 'if [ $RANK = 2 ]; then kill -KILL $$; fi; sleep 1; exit 1'
        result = self.run_lockstep("run", "-n", "4", "--out", "out", "--", "sh", "-c", script)
        self.assertEqual(result.returncode, 128 + signal.SIGKILL)
        self.assertRegex(result.stderr, r"(?m)^lockstep: nothing was recorded: .+\nCRASHED  rank 2 \(\S+\) was killed by signal 9")
        again = self.run_lockstep("analyze", "out")
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertIn("CRASHED  rank 2", again.stdout)
        self.assertIn("0 of 4 ranks read (for 4, only the end is known)", again.stdout)

    def test_ranks_that_ended_well_without_a_record_are_not_called_healthy(self):
        result = self.run_lockstep("run", "-n", "2", "--out", "out", "--", "true")
        self.assertRegex(result.stderr, r"^lockstep: nothing was recorded: .+\n$")
        self.assertIn("INCOMPLETE DATA  2 ranks ended, and nothing shows a fault", self.run_lockstep("analyze", "out").stdout)

    def test_claims_nothing_about_processes_that_ended_at_once(self):
        for command in (["true"], ["env", "-u", "LD_PRELOAD", "true"]):
            result = self.run_lockstep("run", "--", *command)
            # On a busy machine, lockstep may have examined the process in time. Then it reports what it saw.
            self.assertRegex(result.stderr, "exited before Lockstep could examine them|not loaded in 1 process|no NCCL library was loaded in 1 process")
            self.assertNotIn("no NCCL call was made", result.stderr)

    def test_a_job_stuck_before_its_first_communicator_is_reported(self):
        # Rank 0, which serves the store, is missing. Rank 1 has loaded NCCL and waits for it.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        result = self.run_lockstep("run", "--late-after", "0.3", "--kill-on-hang", "--hang-after", "60", "--", "env", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1",
                                   "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={port}", TRAINSIM, "--tp", "2", "--store-timeout", "8",
                                   environment=self.environment(LOCKSTEP_JOB="stuck"))
        said = re.findall(r"(?m)^lockstep: nothing has been recorded after ([\d.]+) s: NCCL was loaded, but no communicator was created, or a ring could not be "
                          r"created\. Calls of gloo and MPI are not recorded, so --hang-after and --kill-on-hang have no effect on them\. "
                          r"If the job hangs: lockstep attach --job stuck$", result.stderr)
        self.assertEqual(len(said), 1, result.stderr)
        self.assertLess(float(said[0]), 5, "no process uses a GPU")
        self.assertRegex(result.stderr, r"(?m)^lockstep: nothing was recorded: ")
        quiet = self.run_lockstep("run", "--late-after", "0.1", "--", "env", "-u", "LD_PRELOAD", "sleep", "4")
        self.assertNotIn("nothing has been recorded after", quiet.stderr, "no process of this job records")

    def test_the_reason_names_an_unset_preload(self):
        result = self.run_lockstep("run", "--", "env", "-u", "LD_PRELOAD", "sleep", "1.5")
        self.assertIn("removed LD_PRELOAD", result.stderr)
        result = self.run_lockstep("run", "--", "sleep", "1", environment=self.environment(LOCKSTEP="0"))
        self.assertIn("LOCKSTEP=0", result.stderr)

    def test_the_reason_names_a_hook_that_is_not_used(self):
        libraries = [os.path.join(BUILD, "standin/lib", name) for name in ("libnccl.so.2", "libcudart.so.13")]
        job = os.path.join(os.path.dirname(__file__), "../../recorder/testing/ctypes_job.py")
        script = (f"import runpy, sys, time; sys.argv = ['', {libraries[0]!r}, {libraries[1]!r}, 'threads']; "
                  f"runpy.run_path({job!r}, run_name='__main__'); time.sleep(1.5)")
        for hook, output in (("symbols", "set LOCKSTEP_HOOK=dlsym"), ("off", "LOCKSTEP_HOOK=off is set"), ("dlsym", None)):
            result = self.run_lockstep("run", "--", sys.executable, "-c", script, environment=self.environment(LOCKSTEP_HOOK=hook))
            self.assertEqual(result.returncode, 0, result.stderr)
            if output is None:
                self.assertNotIn("nothing was recorded", result.stderr)
            else:
                self.assertIn(output, result.stderr)

    def test_dies_of_the_commands_signal(self):
        self.assertEqual(self.run_lockstep("run", "--", "sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
        self.assertEqual(self.run_lockstep("run", "--", "sh", "-c", "kill -KILL $$").returncode, -signal.SIGKILL)

    def test_the_first_failing_rank_decides_the_status(self):
        script = 'case $RANK in 0) sleep 1; exit 5;; 1) exit 0;; 2) exit 9;; esac'
        self.assertEqual(self.run_lockstep("run", "-n", "3", "--", "sh", "-c", script).returncode, 9)
        script = 'if [ $RANK = 1 ]; then kill -SEGV $$; fi'
        self.assertEqual(self.run_lockstep("run", "-n", "2", "--", "sh", "-c", script).returncode, 128 + signal.SIGSEGV)

    def test_streams_pass_through(self):
        result = self.run_lockstep("run", "--", "sh", "-c", "cat; echo err >&2", input="in\n")
        self.assertEqual(result.stdout, "in\n")
        self.assertIn("err\n", result.stderr)

    def test_closed_standard_files_stay_closed_for_the_job(self):
        script = 'for fd in 0 1 2; do [ -e /proc/self/fd/$fd ] && echo open $fd >> told; done; echo ran >> told; exit 7'
        for closed in ("0", "1", "2", "01", "012"):
            reply = os.path.join(self.folder, "told")
            redirections = " ".join(f"{fd}>&-" for fd in closed)
            for how in ("", "-n 1 "):
                shell = f"exec '{LOCKSTEP}' run {how}-- bash -c '{script}' {redirections}"
                with self.subTest(closed=closed, how=how):
                    result = subprocess.run(["bash", "-c", shell], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
                    self.assertEqual(result.returncode, 7)
                    with open(reply, encoding="utf-8") as file:
                        # `[` is a bash builtin, so /proc/self is the shell's folder.
                        self.assertEqual(file.read().split("\n")[:-1], [f"open {fd}" for fd in "012" if fd not in closed] + ["ran"])
                    os.remove(reply)

    def test_ranks_get_their_environment(self):
        environment = self.environment(LD_PRELOAD="/lib/x86_64-linux-gnu/libm.so.6" if os.path.exists("/lib/x86_64-linux-gnu/libm.so.6") else None)
        result = self.run_lockstep("run", "-n", "2", "--", "sh", "-c",
                                   "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $LD_PRELOAD", environment=environment)
        lines = sorted(line.split() for line in result.stdout.splitlines())
        self.assertEqual([line[:4] for line in lines], [["0", "0", "2", "127.0.0.1"], ["1", "1", "2", "127.0.0.1"]])
        self.assertEqual(lines[0][4], lines[1][4])
        self.assertTrue(lines[0][5].split(":")[0].endswith("/liblockstep.so"))
        if "LD_PRELOAD" in environment:
            self.assertEqual(lines[0][5].split(":")[1:], [environment["LD_PRELOAD"]])

    def test_signals_are_forwarded(self):
        for name in ("TERM", "INT", "HUP", "USR1", "USR2", "QUIT"):
            script = f"trap 'echo got {name}; exit 33' {name}; echo ready; while :; do sleep 0.05; done"
            process = self.start("run", "--quiet", "--", "sh", "-c", script)
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(getattr(signal, "SIG" + name))
            out, _ = process.communicate(timeout=60)
            self.assertEqual(out, f"got {name}\n")
            self.assertEqual(process.returncode, 33)

    def test_a_second_interrupt_ends_ranks_that_ignore_the_first(self):
        script = "trap '' INT; echo $$; if [ $RANK = 1 ]; then kill -STOP $$; fi; while :; do sleep 0.05; done"
        process = self.start("run", "-n", "2", "--", "sh", "-c", script, start_new_session=True)
        for _ in range(2):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.readline()
        self.assertEqual(said, "lockstep: ranks 0, 1 are still running after Ctrl-C (rank 1 is stopped by a signal); press Ctrl-C again to end the job\n")
        self.assertIsNone(process.poll())
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertIn("lockstep: ending the job after the second Ctrl-C: SIGTERM now, SIGKILL in 5 s\n", err)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertNotIn("CRASHED", err)

    def test_stops_and_continues_with_its_job(self):
        process = self.start("run", "--", "sh", "-c", "echo $$; exec sleep 1000")
        child = int(process.stdout.readline())

        def state(pid):
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0]

        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_for(lambda: state(child) == "T" and state(process.pid) == "T"))
        process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_for(lambda: state(child) == "S" and state(process.pid) == "S"))
        process.terminate()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    # -- nothing is left behind

    def test_killed_alone_leaves_nothing(self):
        process = self.start("run", "-n", "8", "--", *JOB, "--steps", "1000000")
        self.assertTrue(wait_for(lambda: len(self.ring_files()) == 8), "the rings never appeared")
        self.assertGreater(len(marked_processes(MARK, self.mark)), 8)
        process.kill()
        process.wait()
        self.assertTrue(wait_for(lambda: not marked_processes(MARK, self.mark)), "processes outlive a killed lockstep run")
        self.assertTrue(wait_for(lambda: not os.listdir(self.rings)), "rings outlive a killed lockstep run")

    def test_killed_with_its_process_group_leaves_nothing(self):
        process = self.start("run", "--", "sh", "-c", "setsid sleep 1000 & echo ready; wait", start_new_session=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.assertTrue(wait_for(lambda: not marked_processes(MARK, self.mark)))
        self.assertTrue(wait_for(lambda: not os.listdir(self.rings)))

    def test_a_stopped_process_beside_the_job_is_not_hung_up(self):
        """If the last member of a process group with a parent outside the group exits while another member is stopped, the kernel sends SIGHUP to the
        group."""
        result = subprocess.run(["sh", "-c", f"sleep 1000 & kill -STOP $!; '{LOCKSTEP}' run -- true; echo $?; kill -KILL $!"], cwd=self.folder,
                                start_new_session=True, capture_output=True, text=True, timeout=60, check=False, env=self.environment())
        self.assertEqual((result.returncode, result.stdout), (0, "0\n"), result.stderr)

    def test_background_processes_of_the_command_are_ended(self):
        result = self.run_lockstep("run", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & exit 0")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(marked_processes(MARK, self.mark), [])

    # -- verdicts

    def verdict(self, folder="out"):
        return read_json(self.folder, folder, "verdict.json")

    def test_a_healthy_job_gives_a_healthy_verdict(self):
        result = self.run_lockstep("run", "-n", "8", "--out", "out", "--", *JOB, "--steps", "30")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"lockstep: healthy: 8 ranks, [\d,]+ collectives recorded")
        self.assertEqual(self.verdict()["verdict"], "HEALTHY")
        self.assertEqual(self.verdict()["findings"], [])
        self.assertIn("trainsim: done", result.stdout + result.stderr)

    def test_a_group_may_read_the_incident(self):
        root = os.geteuid() == 0
        group = 61234 if root else os.getgid()
        result = self.run_lockstep("run", "-n", "8", "--out", "out", "--group", str(group), "--", *JOB, "--steps", "30")
        self.assertEqual(result.returncode, 0, result.stderr)
        out = os.path.join(self.folder, "out")
        modes = {name: (os.stat(os.path.join(out, name)).st_gid, os.stat(os.path.join(out, name)).st_mode & 0o777) for name in os.listdir(out)}
        self.assertLessEqual({"verdict.json", "verdict.txt", "report.html", "explore.html", "manifest.json", "index.lsi"}, set(modes))
        self.assertEqual({name: mode for name, mode in modes.items() if mode != (group, 0o640)}, {})
        self.assertEqual((os.stat(out).st_gid, os.stat(out).st_mode & 0o7777), (group, 0o2750))
        # An unknown group is reported, and the job runs.
        result = self.run_lockstep("run", "-n", "8", "--out", "alone", "--group", "no-such-group-here", "--", *JOB, "--steps", "5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("only their owner can read incidents", result.stderr)
        self.assertEqual(os.stat(os.path.join(self.folder, "alone")).st_mode & 0o077, 0)

    def test_every_verb_has_its_own_help(self):
        self.assertEqual(self.run_lockstep("help", "run").stdout, self.run_lockstep("run", "--help").stdout)

    def test_the_incident_of_an_earlier_run_is_kept(self):
        fault = ("--fault", "rank=5,step=20,kind=kill")
        first = self.run_lockstep("run", "-n", "8", "--out", "out", "--kill-on-hang", "--", *JOB, "--steps", "1000", *fault)
        self.assertIn("CRASHED", first.stderr)
        again = self.run_lockstep("run", "-n", "8", "--out", "out", "--", *JOB, "--steps", "5")
        self.assertEqual(again.returncode, 0, again.stderr)
        kept = [name for name in os.listdir(self.folder) if name.startswith("out.")]
        self.assertEqual(len(kept), 1, again.stderr)
        self.assertIn(kept[0], again.stderr)
        third = self.run_lockstep("run", "-n", "8", "--out", "out", "--", *JOB, "--steps", "5")
        self.assertIn("replaced the result of an earlier, healthy run in out", third.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out.")], kept)
        for name, verdict in ((kept[0], "CRASHED"), ("out", "HEALTHY")):
            self.assertEqual(read_json(self.folder, name, "verdict.json")["verdict"], verdict)

    def test_healthy_without_out_writes_nothing(self):
        result = self.run_lockstep("run", "--quiet", "-n", "8", "--", *JOB, "--steps", "5")
        self.assertEqual(result.returncode, 0)
        self.assertNotIn("lockstep: ", result.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("lockstep-incident")], [])

    def hang(self, fault, *options):
        return self.run_lockstep("run", "-n", "8", "--out", "out", "--kill-on-hang", *options, "--", *JOB, "--steps", "1000000",
                                 "--fault", fault)

    def test_a_killed_rank_is_named_and_its_records_are_kept(self):
        result = self.hang("rank=5,step=20,kind=kill")
        self.assertEqual(result.returncode, 90, result.stderr)
        verdict = self.verdict()
        self.assertEqual(verdict["findings"][0]["kind"], "RANK_DEAD")
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [5])
        self.assertIn("signal 9", result.stderr)
        again = self.run_lockstep("analyze", "out", "--format", "json")
        self.assertEqual(again.returncode, 1)
        again = json.loads(again.stdout)
        self.assertEqual(again["verdict"], verdict["verdict"])
        self.assertEqual([(f["kind"], f["culprit_ranks"], f.get("summary")) for f in again["findings"]],
                         [(f["kind"], f["culprit_ranks"], f.get("summary")) for f in verdict["findings"]])
        manifest = read_json(self.folder, "out/manifest.json")
        self.assertTrue(manifest["known_stalled"])
        self.assertIn("lockstep: out/explore.html: open it in any browser\n", result.stderr)
        page = explore_data(os.path.join(self.folder, "out"))
        self.assertEqual((page["verdict"], page["findings"][0]["text"]), (verdict["verdict"], verdict["findings"][0]["summary"]))
        self.assertIn("killed by signal 9", next(p["status"] for p in manifest["processes"] if p["rank"] == 5))

    def test_a_stopped_rank_is_named_and_killed(self):
        result = self.hang("rank=0,step=20,kind=stop")
        self.assertEqual(result.returncode, 90, result.stderr)
        self.assertEqual(self.verdict()["findings"][0]["culprit_ranks"], [0])
        self.assertEqual(self.verdict()["findings"][0]["kind"], "HOST_STALL")

    def test_a_silent_desync_keeps_the_jobs_status(self):
        result = self.run_lockstep("run", "-n", "8", "--out", "out", "--", *JOB, "--steps", "150", "--fault",
                                   "rank=7,step=20,kind=wrong-datatype")
        self.assertEqual(result.returncode, 0, result.stderr)
        verdict = self.verdict()
        self.assertEqual(verdict["verdict"], "DESYNC")
        self.assertEqual(verdict["findings"][0]["kind"], "MISMATCH_DATATYPE")
        self.assertEqual(verdict["findings"][0]["culprit_ranks"], [7])

    def test_without_kill_on_hang_run_watches_and_reports_the_recovery(self):
        process = self.start("run", "-n", "8", "--out", "out", "--late-after", "2", "--", *JOB, "--steps", "1000000")
        # If the rank stopped before its first step, its peers would wait outside of NCCL, where Lockstep cannot see them.
        for line in process.stdout:
            if line.startswith("step "):
                break
        victim = None
        for path in self.ring_files():
            pid = int(os.path.basename(path).split(".")[-3])
            with open(f"/proc/{pid}/environ", "rb") as file:
                if b"RANK=3" in file.read().split(b"\0"):
                    victim = pid
        self.assertIsNotNone(victim)
        manifest = os.path.join(self.folder, "out/manifest.json")
        os.kill(victim, signal.SIGSTOP)
        self.assertTrue(wait_for(lambda: os.path.exists(manifest)), "the hang was never reported")
        self.assertIsNone(process.poll())
        os.kill(victim, signal.SIGCONT)
        seen = []
        for line in process.stderr:
            seen.append(line)
            if "recovered after" in line:
                break
        self.assertIn("recovered after", seen[-1])
        process.terminate()
        process.communicate(timeout=60)

    def test_ranks_killed_while_they_wait_are_not_the_cause(self):
        # Any rank may die first. Their launcher kills the ranks before the hang is declared.
        ranks = "".join(f"RANK={rank} LOCAL_RANK={rank} WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$1 {TRAINSIM} --tp 2 --dp 2 --steps 1000000 "
                        f"--fault rank=2,step=20,kind=stall-host & echo $!; " for rank in range(4))
        for first in (0, 2):
            with self.subTest(first=first):
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    port = free.getsockname()[1]
                process = self.start("run", "--out", f"out{first}", "--", "sh", "-c", ranks + "wait", "sh", str(port))
                pids = [int(process.stdout.readline()) for _ in range(4)]
                for line in process.stderr:
                    if "lockstep: late:" in line:
                        break
                time.sleep(2)  # a launcher notices the hang only after a delay
                for rank in [first, *(rank for rank in range(4) if rank != first)]:
                    os.kill(pids[rank], signal.SIGKILL)
                process.communicate(timeout=60)
                verdict = read_json(self.folder, f"out{first}/verdict.json")
                self.assertEqual((verdict["verdict"], verdict["findings"][0]["culprit_ranks"]), ("HUNG", [2]))

    def test_an_unwritable_incident_folder_is_reported(self):
        with open(os.path.join(self.folder, "file"), "w") as file:
            file.write("x")
        result = self.run_lockstep("run", "-n", "8", "--out", "file/out", "--", *JOB, "--steps", "60", "--fault",
                                   "rank=7,step=20,kind=wrong-datatype")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"DESYNC")
        self.assertRegex(result.stderr, r"lockstep: the incident folder is not complete: .*file")

    def test_a_limit_on_files_ends_neither_lockstep_nor_the_job(self):
        # The limit still applies to the job: SIGXFSZ (25) ends `head`.
        result = self.run_lockstep("run", "--out", "out", "--", "sh", "-c", "head -c 100000 /dev/zero >big; exit $?",
                                   prefix=["sh", "-c", 'ulimit -f 16; exec "$@"', "sh"])
        self.assertEqual(result.returncode, 128 + 25)
        self.assertIn("cannot write out/explore.html: File too large", result.stderr)

    # -- no space for rings

    def compare_with_plain(self, prefix, environment):
        # With a time limit, because a rank waits if the other cannot start.
        script = ('for r in 0 1; do (RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 MASTER_PORT=$1 timeout 10 "$2" '
                  "--tp 2 --pp 1 --dp 1 --steps 5; echo rank $r: status $?) & done; wait")
        job = ["sh", "-c", script, "sh", "29517", TRAINSIM]
        plain = subprocess.run([*prefix, *job], cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, timeout=120)
        watched = self.run_lockstep("run", "--quiet", "--", *job, environment=environment, prefix=prefix)
        return plain, watched

    def assert_same_but_for_one_line(self, plain, watched):
        self.assertEqual(watched.returncode, plain.returncode)
        self.assertEqual(sorted(watched.stdout.splitlines()), sorted(plain.stdout.splitlines()))
        own = [line for line in watched.stderr.splitlines() if line.startswith("lockstep")]
        others = [line for line in watched.stderr.splitlines() if not line.startswith("lockstep")]
        self.assertEqual(len(own), 1, watched.stderr)
        self.assertEqual(sorted(others), sorted(plain.stderr.splitlines()))

    def test_an_unwritable_ring_folder_costs_one_line(self):
        plain, watched = self.compare_with_plain([], self.environment(LOCKSTEP_DIR="/proc/nowhere"))
        self.assert_same_but_for_one_line(plain, watched)
        self.assertIn("LOCKSTEP_DIR", watched.stderr)

    def in_namespace(self, setup):
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", setup + '; exec "$@"', "sh"]
        probe = subprocess.run([*prefix, "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if probe.returncode != 0:
            self.skipTest("cannot create a mount namespace here: " + probe.stdout.strip())
        return prefix

    def test_full_shared_memory_changes_nothing(self):
        prefix = self.in_namespace("mount -t tmpfs -o size=64m tmpfs /dev/shm && head -c 62M /dev/zero > /dev/shm/full")
        plain, watched = self.compare_with_plain(prefix, self.environment(LOCKSTEP_DIR="/dev/shm"))
        self.assertEqual((watched.returncode, sorted(watched.stdout.splitlines()), sorted(watched.stderr.splitlines())),
                         (plain.returncode, sorted(plain.stdout.splitlines()), sorted(plain.stderr.splitlines())))
        # Rings in the memory of processes count as rings.
        result = self.run_lockstep("run", "-n", "2", "--out", "out", "--", TRAINSIM, "--tp", "2", "--steps", "20", prefix=prefix,
                                   environment=self.environment(LOCKSTEP_DIR="/dev/shm"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.verdict()["verdict"], "HEALTHY", result.stderr)
        self.assertEqual(self.verdict()["ranks_read"], 2)
        self.assertTrue(any(one["kind"] == "RING_IN_MEMORY" for one in self.verdict()["not_seen"]), self.verdict())

    def test_missing_shared_memory_costs_one_line(self):
        prefix = self.in_namespace("mount --bind /proc/self/fdinfo /dev/shm || mount -t tmpfs -o size=4k,mode=0555,ro tmpfs /dev/shm")
        plain, watched = self.compare_with_plain(prefix, self.environment(LOCKSTEP_DIR=None))
        self.assert_same_but_for_one_line(plain, watched)

    def test_small_shared_memory_holds_eight_ranks(self):
        prefix = self.in_namespace("mount -t tmpfs -o size=64m tmpfs /dev/shm")
        result = self.run_lockstep("run", "-n", "8", "--out", "out", "--", *JOB, "--steps", "20", prefix=prefix,
                                   environment=self.environment(LOCKSTEP_DIR=None))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.verdict()["verdict"], "HEALTHY", result.stderr)
        self.assertEqual(self.verdict()["ranks_read"], 8)


if __name__ == "__main__":
    own_group()
    unittest.main(verbosity=2)
