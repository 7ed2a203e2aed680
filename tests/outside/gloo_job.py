"""Training loops on PyTorch's gloo backend, one after another, each with a fault or none; every rank leaves a Flight Recorder dump.

gloo_job.py FOLDER CASE...   (a case: NAME:FAULT:RANK:STEP:LAYOUT)

One process imports PyTorch and forks four ranks a case. A rank that makes no step for a while writes what its Flight Recorder holds to
FOLDER/NAME/nccl_trace_rank_N, as PyTorch's own watchdog does for NCCL, and ends.
"""

import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

RANKS, STEPS, PATIENCE = 4, 24, 4.0


class Rank:
    def __init__(self, folder, fault, culprit, at, layout, rank):
        self.folder, self.fault, self.at, self.layout, self.rank = folder, fault, at, layout, rank
        self.guilty = rank == culprit
        self.moved = time.monotonic()
        dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "store"), rank=rank, world_size=RANKS)
        pairs, across = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
        self.tp = [dist.new_group(ranks) for ranks in pairs][rank // 2]
        self.dp = [dist.new_group(ranks) for ranks in across][rank % 2]
        self.world = dist.group.WORLD

    def dump(self):
        path = os.path.join(self.folder, "nccl_trace_rank_%d" % self.rank)
        held = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
        with open(path, "wb") as file:
            file.write(held)

    def watch(self):
        while time.monotonic() - self.moved < PATIENCE:
            time.sleep(0.2)
        self.dump()
        os._exit(7)

    def has(self, *faults):
        return self.guilty and self.step == self.at and self.fault in faults

    def reduce(self, group, size=64, dtype=torch.float32, op=None):
        dist.all_reduce(torch.ones(size, dtype=dtype), op=op or dist.ReduceOp.SUM, group=group)

    def train(self):
        threading.Thread(target=self.watch, daemon=True).start()
        for self.step in range(STEPS):
            self.moved = time.monotonic()
            if self.fault == "uneven":
                time.sleep(0.02 * self.rank)
            self.before()
            if self.layout == "ddp":
                self.data_parallel()
            elif self.layout == "tensor":
                self.tensor_parallel()
            else:
                self.pipeline()
        if self.fault == "running":  # alive at its end, between two steps
            time.sleep(PATIENCE + 30)
        time.sleep(0.5)  # its last operation is noted as ended by another thread
        self.dump()
        os._exit(0)

    def before(self):
        if self.has("sleep"):
            time.sleep(1000)
        elif self.has("stop"):
            self.dump()
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.has("exit"):
            self.dump()
            os._exit(0)
        elif self.has("raise"):
            self.dump()
            os._exit(1)

    def data_parallel(self):
        for bucket in range(3):
            if bucket == 1 and self.has("skip"):
                continue
            if bucket == 1 and self.has("extra"):
                self.reduce(self.world, 8)
            if bucket == 1 and self.has("kind"):
                dist.broadcast(torch.ones(64), 0, group=self.world)
                continue
            shape = 96 if bucket == 1 and self.has("shape") else 64
            dtype = torch.float64 if bucket == 1 and self.has("dtype") else torch.float32
            self.reduce(self.world, shape, dtype)
        dist.broadcast(torch.ones(4), 1 if self.has("root") else 0, group=self.world)

    def tensor_parallel(self):
        for _ in range(4):
            self.reduce(self.tp)
        if not self.has("skip-dp"):
            self.reduce(self.dp, 256)
        self.reduce(self.world, 1)

    def pipeline(self):
        dist.all_gather([torch.zeros(16) for _ in range(RANKS)], torch.ones(16), group=self.world)
        dist.barrier(group=self.tp)
        self.reduce(self.dp, 32)


def main():
    folder = sys.argv[1]
    for case in sys.argv[2:]:
        name, fault, culprit, at, layout = case.split(":")
        place = os.path.join(folder, name)
        os.makedirs(place)
        children = []
        for rank in range(RANKS):
            pid = os.fork()
            if pid == 0:
                try:
                    Rank(place, fault, int(culprit), int(at), layout, rank).train()
                except Exception as error:  # a peer that ended: its connection tells
                    print("rank %d: %s" % (rank, str(error).splitlines()[0][:200]), flush=True)
                time.sleep(20 * PATIENCE)  # the thread that watches dumps and ends the rank
                os._exit(9)
            children.append(pid)
        ends = time.monotonic() + 15 * PATIENCE
        while children and time.monotonic() < ends:
            for pid in list(children):
                ended, _ = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
                if ended:
                    children.remove(pid)
                    try:
                        os.kill(pid, signal.SIGKILL)
                        os.waitpid(pid, 0)
                    except (ProcessLookupError, ChildProcessError):
                        pass
            time.sleep(0.1)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.remove(os.path.join(place, "store")) if os.path.exists(os.path.join(place, "store")) else None
        print("case %s: %d dumps" % (name, len(os.listdir(place))), flush=True)


main()
