#!/usr/bin/env python3
"""Runs trainsim on the stand-in libraries: healthy jobs end with verified data, and each fault makes the job hang or end as the table in README.md says."""

import argparse
import itertools
import os
import re
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import job as jobs  # noqa: E402

TRAINSIM = ""
LIB = ""
STEPS = 30
FAULT_STEP = 6
PATIENCE_S = 120
COMMS = ("world", "tp", "pp", "dp", "ep")
SHAPE = ["--tp", "2", "--pp", "2", "--dp", "2"]


def readme_table():
    """Returns {(kind, comm): result} from README.md: "hangs", "ends" or "-" (a usage error)."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "README.md")) as file:
        rows = re.findall(r"^\| `([a-z-]+)` \|(.*)\|$", file.read(), re.MULTILINE)
    table = {}
    for kind, cells in rows:
        words = [cell.strip() for cell in cells.split("|")]
        if len(words) == len(COMMS):
            table.update({(kind, comm): word for comm, word in zip(COMMS, words)})
    return table


class Case(unittest.TestCase):
    def setUp(self):
        self.before = jobs.shared_memory()

    def leftovers(self):
        """Returns new files in /dev/shm that no process uses. Other programs' files may come and go."""
        return [path for path in jobs.shared_memory() - self.before if os.path.exists(path) and not jobs.used(path)]

    def tearDown(self):
        self.assertTrue(jobs.wait_for(lambda: not self.leftovers(), 10), f"left in /dev/shm: {self.leftovers()}")

    def start(self, arguments, world=8, **kwargs):
        environment = {"LD_LIBRARY_PATH": LIB, **kwargs.pop("environment", {})}
        return jobs.Job([TRAINSIM, "--print-every", "1", *arguments], world, environment, **kwargs)

    def run_to_end(self, arguments, world=8, **kwargs):
        with self.start(arguments, world, **kwargs) as job:
            self.assertTrue(job.wait_for_exit(PATIENCE_S), f"still running: {arguments}\n{job.errors()}")
            self.assertEqual(job.exits(), {rank: 0 for rank in range(world)}, job.errors())
            return job.text(0, "out")

    def run_fault(self, kind, comm, rank, extra=()):
        """Plays one fault. Returns (outcome, exits, step, states, errors) of the job, which has been cleaned up."""
        fault = f"rank={rank},step={FAULT_STEP},kind={kind},comm={comm}"
        with self.start([*SHAPE, "--ep", "2", "--steps", str(STEPS), "--fault", fault, *extra]) as job:
            announced = jobs.wait_for(lambda: f"fault {kind}" in job.text(rank, "err") or job.exits(), PATIENCE_S)
            self.assertTrue(announced, f"{fault} did not occur\n{job.errors()}")
            outcome = job.settle(PATIENCE_S)
            self.assertIn(f"fault {kind} in step {FAULT_STEP}", job.text(rank, "err"), job.errors())
            return outcome, job.exits(), job.last_step(), job.states(), job.errors()

    def check_fault(self, kind, comm, rank, expected_exits):
        with self.subTest(kind=kind, comm=comm, rank=rank):
            outcome, exits, step, states, errors = self.run_fault(kind, comm, rank)
            if readme_table()[kind, comm] == "hangs":
                self.assertEqual(outcome, "hung", errors)
                self.assertEqual(exits, expected_exits, errors)
                self.assertLess(step, STEPS)
                self.assertGreaterEqual(step, FAULT_STEP - 1)
            else:
                self.assertEqual(outcome, "ended", errors)
                self.assertEqual(exits, {each: 0 for each in range(8)}, errors)
                self.assertEqual(step, STEPS)
            return states


    def check_special(self, fault, expected, expected_exits, extra=(), shape=SHAPE):
        """Tests a fault with its own trigger."""
        rank = int(fault.split(",")[0].partition("=")[2])
        kind = fault.split("kind=")[1].split(",")[0]
        with self.subTest(fault=fault), self.start([*shape, "--steps", str(STEPS), "--fault", fault, *extra]) as job:
            played = jobs.wait_for(lambda: f"fault {kind}" in job.text(rank, "err") or job.exits(), PATIENCE_S)
            self.assertTrue(played, f"{fault} did not occur\n{job.errors()}")
            self.assertEqual((job.settle(PATIENCE_S), job.exits()), (expected, expected_exits), job.errors())
            self.assertIn(f"fault {kind}", job.text(rank, "err"))


class Healthy(Case):
    def test_a_healthy_job_of_eight_ranks_prints_every_step(self):
        out = self.run_to_end([*SHAPE, "--steps", "20"])
        self.assertEqual(len(re.findall(r"^step \d+/20 loss \d+\.\d+$", out, re.MULTILINE)), 20)
        self.assertIn("trainsim: done", out)

    def test_jobs_of_every_shape_end(self):
        for arguments, world in ((["--tp", "2"], 2), (["--pp", "2", "--micro-batches", "1"], 2),
                                 (["--dp", "4", "--ep", "2", "--layers", "3"], 4),
                                 (["--pp", "4", "--dp", "2", "--micro-batches", "6"], 8),
                                 (["--pp", "4", "--micro-batches", "2"], 4),
                                 (["--tp", "3", "--dp", "2", "--ep", "2", "--elements", "5000"], 6), ([], 1)):
            with self.subTest(arguments=arguments):
                self.run_to_end([*arguments, "--steps", "5"], world)

    def test_jobs_end_with_every_way_to_wait(self):
        for sync in ("stream", "event", "device", "copy"):
            with self.subTest(sync=sync):
                self.run_to_end([*SHAPE, "--ep", "2", "--steps", "5", "--sync", sync])

    def test_a_healthy_job_with_pauses_ends(self):
        out = self.run_to_end([*SHAPE, "--steps", "6", "--pace-ms", "2", "--slow-start", "0.4", "--checkpoint",
                               "step=2,seconds=0.3,rank=3", "--evaluate", "step=4,seconds=0.3"])
        self.assertIn("step 6/6", out)

    def test_a_group_is_aborted_and_created_again(self):
        out = self.run_to_end([*SHAPE, "--ep", "2", "--steps", "6", "--recreate", "3"])
        self.assertIn("step 6/6", out)

    def test_a_job_with_slow_ranks_ends(self):
        out = self.run_to_end([*SHAPE, "--steps", "4", "--straggle", "rank=5,ms=20", "--jitter", "5"])
        self.assertIn("step 4/4", out)

    def test_the_seed_determines_the_data(self):
        arguments = [*SHAPE, "--steps", "4", "--seed", "7"]
        self.assertEqual(self.run_to_end(arguments), self.run_to_end(arguments))

    def test_wrong_data_is_noticed(self):
        # One rank sends data that its peers do not expect. A rank that reads the result exits with status 3.
        with self.start([*SHAPE, "--steps", "20"], per_rank={3: ["--seed", "2"]}) as job:
            self.assertTrue(jobs.wait_for(lambda: 3 in job.exits().values(), PATIENCE_S), job.errors())
            self.assertTrue(set(job.exits().values()) <= {0, 3}, job.errors())
            self.assertRegex(job.errors(), r"wrong data in step \d+: \w+.* on \w+ gave \S+, expected \S+")

    def test_usage_errors_are_one_line(self):
        with self.start(["--tp", "2"], world=1) as job:
            self.assertTrue(job.wait_for_exit(PATIENCE_S))
            self.assertEqual(job.exits(), {0: 2})
            self.assertRegex(job.text(0, "err"), r"\Atrainsim: WORLD_SIZE is 1, .* needs 2 ranks\n\Z")
        with self.start(["--steps", "3", "--fault", "rank=0,step=2,kind=skip,comm=world"], world=1) as job:
            self.assertTrue(job.wait_for_exit(PATIENCE_S))
            self.assertEqual(job.exits(), {0: 2})

    def test_fault_past_the_step_is_reported(self):
        with self.start([*SHAPE, "--steps", "3", "--fault", "rank=2,step=2,kind=skip,comm=world,nth=9"]) as job:
            self.assertTrue(jobs.wait_for(lambda: job.exits().get(2) == 2, PATIENCE_S), job.errors())
            self.assertIn("was not played", job.text(2, "err"))


class Process(Case):
    def test_a_rank_killed_by_sigkill_hangs_the_job(self):
        for comm, rank in zip(COMMS, (0, 5, 7, 5, 0)):
            self.check_fault("kill", comm, rank, {rank: -9})

    def test_a_rank_killed_by_sigsegv_hangs_the_job(self):
        for comm, rank in zip(COMMS, (5, 7, 0, 5, 7)):
            self.check_fault("segv", comm, rank, {rank: -11})

    def test_a_stopped_rank_hangs_the_job(self):
        for comm, rank in zip(COMMS, (7, 0, 5, 0, 5)):
            states = self.check_fault("stop", comm, rank, {})
            self.assertEqual([each for each, state in states.items() if state[0] == "T"], [rank])


class Stall(Case):
    def test_a_stalled_cpu_thread_hangs_the_job(self):
        for comm, rank in zip(COMMS, (0, 5, 7, 5, 0)):
            self.check_fault("stall-host", comm, rank, {})

    def test_a_stalled_gpu_hangs_the_job(self):
        for comm, rank in zip(COMMS, (5, 7, 0, 5, 7)):
            self.check_fault("stall-gpu", comm, rank, {})


    def test_a_spinning_cpu_thread_blocks_the_job(self):
        # The spinning rank is never idle, so the job does not settle, but the peers wait.
        fault = "rank=5,step=6,kind=spin-host,comm=dp"
        with self.start([*SHAPE, "--steps", str(STEPS), "--fault", fault]) as job:
            self.assertTrue(jobs.wait_for(lambda: "fault spin-host" in job.text(5, "err"), PATIENCE_S), job.errors())
            self.assertEqual(job.settle(5), "running", job.errors())
            self.assertEqual((job.exits(), job.states()[5][0]), ({}, "R"), job.errors())
            self.assertLess(job.last_step(), STEPS)

    def test_a_hung_loader_hangs_the_job(self):
        self.check_special("rank=5,step=6,kind=stall-loader", "hung", {})


class Operation(Case):
    def test_a_skipped_call_has_the_effect_in_the_table(self):
        for comm, rank in zip(COMMS, (0, 5, 7, 5, 0)):
            self.check_fault("skip", comm, rank, {})

    def test_an_extra_call_has_the_effect_in_the_table(self):
        for comm, rank in zip(COMMS, (5, 7, 0, 0, 5)):
            self.check_fault("extra", comm, rank, {})


    def test_a_group_left_open_has_the_effect_in_the_table(self):
        self.check_fault("open-group", "dp", 5, {5: 0})

    def test_opposite_orders_of_two_communicators_hang(self):
        self.check_special("rank=5,step=6,kind=swap-order", "hung", {})

    def test_peers_that_disagree_hang_unless_a_send_meets_a_receive(self):
        large = ["--elements", "65536"]
        self.check_special("rank=0,step=6,kind=no-group", "hung", {}, [*large, "--fault", "rank=4,step=6,kind=no-group"])
        self.check_special("rank=3,step=6,kind=wrong-peer", "hung", {}, large, ["--pp", "4", "--dp", "2"])
        # If only one neighbor sends before it receives, its send meets a receive.
        self.check_special("rank=0,step=6,kind=no-group", "ended", {rank: 0 for rank in range(8)}, large)

    def test_a_rank_that_never_initializes_hangs_the_job_and_a_wrong_color_does_not(self):
        for comm in ("world", "pp"):
            self.check_special(f"rank=5,step=1,kind=never-init,comm={comm}", "hung", {})
        for comm in ("tp", "dp"):
            self.check_special(f"rank=5,step=1,kind=wrong-color,comm={comm}", "ended", {rank: 0 for rank in range(8)})


class Mismatch(Case):
    def test_mismatches_have_the_effects_in_the_table(self):
        ranks = itertools.cycle((0, 5, 7))
        for (kind, comm), word in readme_table().items():
            if kind.startswith("wrong-") and word != "-":
                self.check_fault(kind, comm, next(ranks), {})

    def test_large_operations_hang(self):
        for kind, comm, rank in (("wrong-count", "tp", 5), ("wrong-datatype", "tp", 0), ("wrong-count", "pp", 7)):
            with self.subTest(kind=kind, comm=comm, rank=rank):
                outcome, exits, step, _, errors = self.run_fault(kind, comm, rank, ["--elements", "65536"])
                self.assertEqual((outcome, exits), ("hung", {}), errors)
                self.assertLess(step, STEPS)

    def test_calls_that_nccl_refuses_are_usage_errors(self):
        for (kind, comm), word in readme_table().items():
            if word != "-":
                continue
            fault = f"rank=0,step=1,kind={kind},comm={comm}"
            with self.subTest(fault=fault), self.start([*SHAPE, "--ep", "2", "--fault", fault], world=1) as job:
                self.assertTrue(job.wait_for_exit(PATIENCE_S))
                self.assertEqual(job.exits(), {0: 2})
                self.assertEqual(job.text(0, "err").count("\n"), 1)


class Leave(Case):
    def test_a_rank_that_exits_early_has_the_effect_in_the_table(self):
        for comm, rank in zip(COMMS, (0, 5, 7, 5, 0)):
            self.check_fault("exit-early", comm, rank, {rank: 0})

    def test_a_rank_with_an_exception_has_the_effect_in_the_table(self):
        for comm, rank in zip(COMMS, (5, 7, 0, 5, 7)):
            self.check_fault("exception", comm, rank, {rank: 0})


class Several(Case):
    def test_the_table_lists_every_kind_of_fault(self):
        kinds = {kind for kind, _ in readme_table()}
        self.assertEqual(kinds, {"stall-host", "stall-gpu", "kill", "segv", "stop", "skip", "extra", "wrong-count",
                                 "wrong-datatype", "wrong-reduction", "wrong-root", "wrong-op", "exit-early", "exception", "spin-host",
                                 "open-group"})

    def test_two_faults_in_one_job_both_strike(self):
        outcome, exits, _, _, errors = self.run_fault("kill", "tp", 5, ["--fault", f"rank=0,step={FAULT_STEP},kind=stop"])
        self.assertEqual((outcome, exits), ("hung", {5: -9}), errors)

    def test_faults_strike_at_the_chosen_operation(self):
        for comm, op in (("tp", "allgather"), ("tp", "reducescatter"), ("dp", "broadcast"), ("ep", "alltoall"), ("pp", "recv")):
            with self.subTest(comm=comm, op=op):
                fault = f"rank=5,step={FAULT_STEP},kind=stall-host,comm={comm},op={op}"
                with self.start([*SHAPE, "--ep", "2", "--steps", str(STEPS), "--fault", fault]) as job:
                    self.assertTrue(jobs.wait_for(lambda: "fault stall-host" in job.text(5, "err"), PATIENCE_S), job.errors())
                    self.assertEqual(job.settle(PATIENCE_S), "hung", job.errors())
                    self.assertIn(f"at {comm} {op} 0", job.text(5, "err"))


def main():
    global TRAINSIM, LIB
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainsim", required=True)
    parser.add_argument("--lib", required=True, help="folder with the stand-in libraries")
    parser.add_argument("--group", choices=["healthy", "process", "stall", "operation", "mismatch", "leave", "several"])
    parser.add_argument("--test", help="run only this test method")
    options = parser.parse_args()
    TRAINSIM, LIB = os.path.abspath(options.trainsim), os.path.abspath(options.lib)
    loader = unittest.TestLoader()
    if options.test:
        loader.testMethodPrefix = options.test
    groups = [Healthy, Process, Stall, Operation, Mismatch, Leave, Several]
    chosen = [group for group in groups if options.group in (None, group.__name__.lower())]
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(group) for group in chosen)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)


if __name__ == "__main__":
    main()
