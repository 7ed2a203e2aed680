#!/usr/bin/env python3
"""Runs jobs in containers with little shared memory, almost all of which NCCL needs. Each job must end as it does without the recorder, and missing
recordings are reported. Needs root's mount and PID namespaces."""

import concurrent.futures
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support import BIN, BUILD, LIBRARY, LOCKSTEP, TRAINSIM, clean_environment, free_port, namespaces_refused, read_json

MIB = 1 << 20
SMALLEST = 256 << 10  # bytes of the smallest ring
UNSHARE = ["unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child"]
NAMES = ("LOCKSTEP", "SLURM", "OMPI", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LD_PRELOAD", "NCCL_", "STANDIN_")


def in_container(**plan):
    """Returns the result of inside(), run in separate namespaces."""
    plan["port"] = free_port()
    done = subprocess.run([*UNSHARE, sys.executable, os.path.abspath(__file__), "--inside", json.dumps(plan)],
                          env=clean_environment(NAMES, LOCKSTEP_BUILD=BUILD), capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


class SmallSharedMemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = namespaces_refused(*UNSHARE[1:], "mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
        if reason is not None:
            raise unittest.SkipTest("cannot create namespaces here: " + reason)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            counts = (1, 8, 16)
            # The memory that the library needs besides its transport's buffers, whose size the settings below select.
            cls.base = dict(zip(counts, pool.map(lambda ranks: in_container(mib=256, ranks=ranks, measure=True)["used"], counts)))

    def cell(self, ranks, mib, more=None, **plan):
        """Runs a job. With `mib` None, other files leave only the space for the library, the smallest ring and a sixteenth."""
        size = mib * MIB if mib else int((self.base[ranks] + SMALLEST) * 16 / 15)
        buffers = 3 * ranks if ranks > 1 else 0  # buffers for world, tp and dp
        room = size * 15 // 16 - self.base[ranks] - SMALLEST
        each = room // buffers // 4096 * 4096 if buffers and mib else 0
        return in_container(mib=mib or 64, fill=0 if mib else 64 * MIB - size, ranks=ranks, buffer=each, more=more or {}, **plan)

    def test_every_job_ends_as_without_the_recorder(self):
        cells = [(ranks, mib) for mib in (40, 48, 64, 256, None) for ranks in (16, 8, 1)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            result = dict(zip(cells, pool.map(lambda cell: self.cell(*cell), cells)))
        for (ranks, mib), output in result.items():
            with self.subTest(ranks=ranks, mib=mib, output=output):
                self.assertEqual(output["plain"], [0] * ranks, "the test's own settings are wrong")
                self.assertEqual(output["recorded"], output["plain"])
                self.assertLessEqual(output["ring_bytes"], (mib or 64) * MIB // 16)
                self.assertEqual(output["rings"] + output["links"], ranks, "every rank has a ring")
                if mib:
                    self.assertGreaterEqual(output["rings"], min(ranks, 8), "a killed process must leave its rings in the folder")
                else:
                    self.assertGreater(output["links"], 0)
                # Every process requests a ring of 4 MiB.
                short = output["rings"] - output["whole"]
                self.assertEqual(any("KiB, because its file system is small" in line for line in output["blind"]), short > 0)
                self.assertEqual(any("was in the memory of a process" in line for line in [*output["problems"], output["stderr"]]), output["links"] > 0)

    def test_rings_fit_if_the_number_of_local_ranks_is_unknown(self):
        output = self.cell(8, 64, unset=["LOCAL_WORLD_SIZE"])
        self.assertEqual(output["recorded"], [0] * 8)
        self.assertEqual(output["rings"], 8)
        self.assertLessEqual(output["ring_bytes"], 4 * MIB)

    def test_a_ring_size_from_the_user_must_also_fit(self):
        output = self.cell(8, 64, more={"LOCKSTEP_RING_KIB": "65536"})
        self.assertEqual(output["recorded"], [0] * 8)
        self.assertLessEqual(output["ring_bytes"], 4 * MIB)

    def test_rings_of_earlier_jobs_take_space_too(self):
        output = self.cell(8, 64, twice=True)
        self.assertEqual(output["recorded"], [0] * 8)
        self.assertLessEqual(output["ring_bytes"], 4 * MIB)
        self.assertGreater(output["links"], 0)

    def test_a_full_file_system_fails_a_job_just_as_without_the_recorder(self):
        output = in_container(mib=64, fill=64 * MIB, ranks=8, patience=2)
        self.assertNotIn(0, output["plain"])
        self.assertEqual(output["recorded"], output["plain"])

    def test_rings_in_memory_outlive_a_killed_process(self):
        """lockstep run finds the rings through their links and /proc, and keeps them open."""
        output = self.cell(8, None, kill=True)
        self.assertEqual(output["verdict"]["verdict"], "CRASHED", output)
        self.assertEqual(output["verdict"]["findings"][0]["culprit_ranks"], [2], output)
        self.assertEqual(output["verdict"]["ranks_read"], 8, output)
        self.assertTrue(any(one["kind"] == "RING_IN_MEMORY" for one in output["verdict"]["not_seen"]), output)


def inside(plan):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={plan['mib']}m", "tmpfs", "/dev/shm"], check=True)
    if plan.get("fill"):
        with open("/dev/shm/filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, plan["fill"])
    ranks, port = plan["ranks"], plan["port"]
    tensor = 2 if ranks > 1 else 1
    job = [TRAINSIM, "--tp", str(tensor), "--dp", str(ranks // tensor), "--steps", "3", "--micro-batches", "1", "--layers", "1", "--elements", "64",
           "--store-timeout", str(plan.get("patience", 60))]
    settings = {"NCCL_P2P_DISABLE": "1", "NCCL_MAX_NCHANNELS": "1", "NCCL_LL_BUFFSIZE": "0", "NCCL_LL128_BUFFSIZE": "0",
                "NCCL_BUFFSIZE": str(max(plan.get("buffer", 0) - 4096, 0)), "MASTER_ADDR": "127.0.0.1", "LOCKSTEP_JOB": "small", **plan.get("more", {})}

    def run(restart, **more):
        processes = []
        for rank in range(ranks):
            environment = {**os.environ, **settings, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
                           "MASTER_PORT": str(port + restart), "LOCKSTEP_RESTART": str(restart), **more}
            for name in plan.get("unset", []):
                del environment[name]
            processes.append(subprocess.Popen(job, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr))
        return [process.wait(120) for process in processes]

    result = {}
    if plan.get("measure"):
        settings["NCCL_P2P_DISABLE"] = "0"
        most, done = [0], threading.Event()

        def watch():
            while not done.is_set():
                system = os.statvfs("/dev/shm")
                most[0] = max(most[0], (system.f_blocks - system.f_bfree) * system.f_frsize)
                time.sleep(0.001)

        watcher = threading.Thread(target=watch)
        watcher.start()
        statuses = run(0)
        done.set()
        watcher.join()
        assert statuses == [0] * ranks, statuses
        print(json.dumps({"used": most[0]}))
        return
    if plan.get("kill"):
        out = tempfile.mkdtemp()
        subprocess.run([LOCKSTEP, "run", "-n", str(ranks), "--out", out, "--kill-on-hang", "--late-after", "1", "--", *job, "--steps", "100000",
                        "--pace-ms", "5", "--fault", "rank=2,step=50,kind=kill"],
                       env={**os.environ, **settings, "LOCKSTEP_DIR": "/dev/shm"}, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=120, check=False)
        verdicts = glob.glob(out + "/**/verdict.json", recursive=True)
        assert verdicts, "no incident was written"
        result["verdict"] = read_json(verdicts[0])
        shutil.rmtree(out)
        print(json.dumps(result))
        return
    result["plain"] = run(0)
    result["recorded"] = run(1, LD_PRELOAD=LIBRARY)
    if plan.get("twice"):
        result["recorded"] = run(2, LD_PRELOAD=LIBRARY)
    paths = glob.glob("/dev/shm/lockstep-*/*/*.ring")
    sizes = [os.path.getsize(path) for path in paths if not os.path.islink(path)]
    result.update(rings=len(sizes), links=len(paths) - len(sizes), ring_bytes=sum(sizes), whole=sum(size >= 4 * MIB for size in sizes))
    done = subprocess.run([os.path.join(BIN, "lockstep-analyze"), "--format", "json", *glob.glob("/dev/shm/lockstep-*")], capture_output=True, text=True,
                          check=False)
    output = json.loads(done.stdout) if done.stdout else {}
    result.update(blind=output.get("blind", []), problems=[str(problem) for problem in output.get("problems", [])], stderr=done.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(json.loads(sys.argv[2]))
    else:
        unittest.main(verbosity=2)
