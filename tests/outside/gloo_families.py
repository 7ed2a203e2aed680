"""PyTorch jobs of eight families on gloo, each with at most one fault. Every rank writes its Flight Recorder dump.

gloo_families.py FOLDER SEED

Writes FOLDER/FAMILY-FAULT/nccl_trace_rank_N, and FOLDER/FAMILY-FAULT.json with the culprit. The ranks are forked from one process that has loaded PyTorch.
A rank that completes no step for a few seconds writes its dump and exits, as PyTorch's watchdog does for NCCL.
"""

import datetime
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

STEPS, PATIENCE = 18, 5.0
SILENT = ("sleep", "spin", "exit", "kill", "short")


class Rank:
    """One rank of a job. The rank `guilty` has the fault `fault` in step `at`."""

    def __init__(self, rank, world, folder, fault, guilty, at):
        self.rank, self.world, self.folder, self.fault, self.guilty, self.at = rank, world, folder, fault, guilty, at
        self.step, self.moved, self.ending = 0, time.monotonic(), threading.Lock()

    def has(self, *faults):
        return self.rank == self.guilty and self.step == self.at and self.fault in faults

    def end(self, status):
        self.ending.acquire()
        held = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
        (self.folder / ("nccl_trace_rank_%d" % self.rank)).write_bytes(held)
        os._exit(status)

    def watch(self):
        while time.monotonic() - self.moved < PATIENCE:
            time.sleep(0.2)
        self.end(7)

    def own(self, table):
        """Creates all groups of `table`, as every rank must, and returns the group of this rank."""
        made = [dist.new_group(ranks) for ranks in table]
        return next(group for group, ranks in zip(made, table) if self.rank in ranks)

    def reduce(self, group=None, size=64, fault_here=False):
        dtype = torch.float32
        if fault_here:
            if self.has("skip"):
                return
            size += 7 if self.has("shape") else 0
            dtype = torch.float64 if self.has("dtype") else dtype
            if self.has("extra"):
                dist.all_reduce(torch.ones(size), group=group)
            if self.has("kind"):
                dist.broadcast(torch.ones(size), 0 if group is None else dist.get_global_rank(group, 0), group=group)
                return
        dist.all_reduce(torch.ones(size, dtype=dtype), group=group)

    def before(self):
        if self.has("sleep"):
            time.sleep(1000)
        while self.has("spin"):
            pass
        if self.has("exit"):
            os._exit(0)
        if self.has("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.has("short"):
            self.end(0)

    def run(self, family):
        family.prepare(self)
        for self.step in range(STEPS):
            self.moved = time.monotonic()
            self.before()
            family.make_step(self)
        time.sleep(0.3)
        store = dist.distributed_c10d._get_default_store()
        store.add("done", 1)
        while store.add("done", 0) < self.world:  # a peer may still need a connection to this rank
            time.sleep(0.1)
        self.end(0)


class Replicas:
    """Pairs of ranks reduce in each step; the whole job reduces in every fourth step."""
    name, faults = "replicas", ("skip", "shape", "dtype", "kind", "extra") + SILENT

    def prepare(self, rank):
        self.pair = rank.own([[i, i + 1] for i in range(0, rank.world, 2)])

    def make_step(self, rank):
        for number in range(3):
            rank.reduce(self.pair, fault_here=number == 1)
        if rank.step % 4 == 3:
            rank.reduce(size=256)


class Sharded:
    """Gathers in one dimension and reduces in the other."""
    name, faults = "sharded", ("skip", "shape", "sleep", "exit", "short")

    def prepare(self, rank):
        self.half = rank.world // 2
        self.shard = rank.own([list(range(self.half)), list(range(self.half, rank.world))])
        self.replica = rank.own([[i, i + self.half] for i in range(self.half)])

    def make_step(self, rank):
        for layer in range(3):
            size = 21 if layer == 1 and rank.has("shape") else 16
            if layer != 1 or not rank.has("skip"):
                dist.all_gather([torch.zeros(size) for _ in range(self.half)], torch.ones(size), group=self.shard)
            rank.reduce(self.replica, 32)
        rank.reduce(size=1)


class Pipeline:
    """Two replicas of a pipeline. Sends and receives leave no entries. The ranks of each stage reduce in pairs."""
    name, faults = "pipeline", ("dtype", "kind", "sleep", "exit", "short")

    def prepare(self, rank):
        self.stage = rank.own([[s, s + 1] for s in range(0, rank.world, 2)])
        self.pipe = rank.own([list(range(replica, rank.world, 2)) for replica in range(2)])

    def make_step(self, rank):
        below, above = rank.rank - 2, rank.rank + 2
        for source, target in [(below, above)] * 4 + [(above, below)] * 4:
            if 0 <= source < rank.world:
                dist.recv(torch.zeros(32), source, group=self.pipe)
            if 0 <= target < rank.world:
                dist.send(torch.ones(32), target, group=self.pipe)
        rank.reduce(self.stage, 128, fault_here=True)


class Rooted:
    """Operations of the whole job with a root."""
    name, faults = "rooted", ("skip", "shape", "sleep", "short")

    def prepare(self, rank):
        pass

    def make_step(self, rank):
        dist.broadcast(torch.ones(8), 0)
        pieces = [torch.ones(4) for _ in range(rank.world)] if rank.rank == 0 else None
        if not rank.has("skip"):
            dist.gather(torch.ones(4), pieces, dst=0)
        dist.scatter(torch.zeros(4), pieces, src=0)
        dist.reduce(torch.ones(4), dst=0)
        rank.reduce(size=16, fault_here=rank.fault == "shape")
        dist.barrier()


class Experts:
    """An all-to-all with varying splits, in groups of four."""
    name, faults = "experts", ("skip", "splits", "dtype", "sleep", "exit")

    def prepare(self, rank):
        self.group = rank.own([list(range(i, i + 4)) for i in range(0, rank.world, 4)])

    def make_step(self, rank):
        mine = rank.rank % 4
        for layer in range(2):
            if layer == 1 and rank.has("skip"):
                continue
            split = [[(rank.step + layer + 3 * i + 5 * j) % 7 + 1 for j in range(4)] for i in range(4)]
            out, into = split[mine], [row[mine] for row in split]
            if layer == 1 and rank.has("splits"):
                out = out[1:] + out[:1]
            dist.all_to_all_single(torch.zeros(sum(into)), torch.ones(sum(out)), into, out, group=self.group)
        rank.reduce(fault_here=rank.fault == "dtype")


class Evaluation:
    """The lower half of the job also evaluates in every third step."""
    name, faults = "evaluation", ("skip", "shape", "extra", "sleep")

    def prepare(self, rank):
        self.group = dist.new_group(list(range(rank.world // 2)))

    def make_step(self, rank):
        rank.reduce(fault_here=True)
        if rank.step % 3 == 2 and rank.rank < rank.world // 2:
            dist.all_reduce(torch.ones(4), group=self.group)
            dist.broadcast(torch.ones(4), 0, group=self.group)


class Overlapped:
    """Operations start together, and the ranks wait for them later."""
    name, faults = "overlapped", ("skip", "shape", "extra", "sleep", "exit")

    def prepare(self, rank):
        pass

    def make_step(self, rank):
        begun = []
        for bucket in range(5):
            times = {"skip": 0, "extra": 2}.get(rank.fault, 1) if bucket == 2 and rank.has("skip", "extra") else 1
            size = 64 * (bucket + 1) + (3 if bucket == 2 and rank.has("shape") else 0)
            begun += [dist.all_reduce(torch.ones(size), async_op=True) for _ in range(times)]
        for work in begun:
            work.wait()


class Ring:
    """Each half passes blocks in a ring, which leaves no entries. Then the job reduces."""
    name, faults = "ring", ("shape", "kind", "sleep")

    def prepare(self, rank):
        half = rank.world // 2
        self.group = rank.own([list(range(half)), list(range(half, rank.world))])

    def make_step(self, rank):
        members = dist.get_process_group_ranks(self.group)
        place, size = members.index(rank.rank), len(members)
        for _ in range(size - 1):
            pair = [dist.P2POp(dist.isend, torch.ones(64), members[(place + 1) % size], group=self.group),
                    dist.P2POp(dist.irecv, torch.zeros(64), members[(place - 1) % size], group=self.group)]
            for work in dist.batch_isend_irecv(pair):
                work.wait()
        rank.reduce(fault_here=True)


FAMILIES = (Replicas, Sharded, Pipeline, Rooted, Experts, Evaluation, Overlapped, Ring)


def play(number, world, folder, family, fault, guilty, at):
    os.environ.update(RANK=str(number), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method="file://%s.store" % folder, rank=number, world_size=world,
                            timeout=datetime.timedelta(seconds=600))
    rank = Rank(number, world, folder, fault, guilty, at)
    threading.Thread(target=rank.watch, daemon=True).start()
    try:
        rank.run(family())
    except Exception:  # a peer exited, which closed its connection
        time.sleep(1000)  # the thread that watches ends this rank with a dump


def run_case(folder, family, fault, choose):
    world = 8 if family is Experts else choose.choice((4, 8))
    guilty, at = choose.randrange(world), choose.randrange(5, 14)
    folder.mkdir(parents=True)
    children = []
    for number in range(world):
        child = os.fork()
        if child == 0:
            try:
                play(number, world, folder, family, fault, guilty, at)
            finally:
                os._exit(99)
        children.append(child)
    limit = time.monotonic() + 60
    while children and time.monotonic() < limit:
        children = [child for child in children if os.waitpid(child, os.WNOHANG)[0] == 0]
        time.sleep(0.05)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    truth = {"culprit": None if fault == "none" else guilty, "ranks": world, "step": at}
    folder.with_suffix(".json").write_text(json.dumps(truth))


def main(folder, seed):
    choose = random.Random(int(seed))
    torch.set_num_threads(1)
    sys.stderr = open(os.devnull, "w")
    for family in FAMILIES:
        for fault in ("none",) + family.faults:
            run_case(pathlib.Path(folder).resolve() / ("%s-%s" % (family.name, fault)), family, fault, choose)
            print(family.name, fault, flush=True)


main(*sys.argv[1:])
