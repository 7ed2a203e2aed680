"""A training loop on PyTorch's gloo backend with at most one fault, started by torchrun. Its ranks write Flight Recorder dumps.

gloo_job.py FOLDER FAULT RANK STEP LAYOUT

A rank that completes no step for a while, or receives SIGTERM, writes its Flight Recorder entries to FOLDER/nccl_trace_rank_N and exits, as PyTorch's own
watchdog does for NCCL.
"""

import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

STEPS, PATIENCE = 24, 6.0


class Rank:
    def __init__(self, folder, fault, culprit, at, layout):
        dist.init_process_group("gloo")
        self.folder, self.fault, self.at, self.layout, self.rank = folder, fault, int(at), layout, dist.get_rank()
        self.guilty = self.rank == int(culprit)
        self.tp = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][self.rank // 2]
        self.dp = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])][self.rank % 2]
        self.world = dist.group.WORLD
        self.moved = time.monotonic()
        self.ending = threading.Lock()

    def end(self, status):
        self.ending.acquire()  # two threads may get here, and a dump takes seconds on a busy machine
        held = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
        with open(os.path.join(self.folder, "nccl_trace_rank_%d" % self.rank), "wb") as file:
            file.write(held)
        os._exit(status)

    def watch(self):
        while time.monotonic() - self.moved < PATIENCE:
            if signal.sigtimedwait([signal.SIGTERM], 0.2):  # torchrun sends SIGTERM after another rank has failed
                self.end(8)
        self.end(7)

    def has(self, *faults):
        return self.guilty and self.step == self.at and self.fault in faults

    def reduce(self, group, size=64, dtype=torch.float32):
        dist.all_reduce(torch.ones(size, dtype=dtype), group=group)

    def train(self):
        for self.step in range(STEPS):
            self.moved = time.monotonic()
            if self.fault == "uneven":
                time.sleep(0.02 * self.rank)
            self.before()
            {"ddp": self.data_parallel, "tensor": self.tensor_parallel, "pipeline": self.pipeline}[self.layout]()
        if self.fault == "running":  # the rank writes its dump while it is alive, between two steps
            time.sleep(PATIENCE / 2)
        time.sleep(0.5)  # another thread records the end of the last operation
        store = dist.distributed_c10d._get_default_store()
        store.add("done", 1)
        while store.add("done", 0) < dist.get_world_size():  # a peer may still need a connection to this rank
            time.sleep(0.1)
        self.end(0)

    def before(self):
        if self.has("sleep"):
            time.sleep(1000)
        elif self.has("stop"):
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.has("exit"):
            os._exit(0)
        elif self.has("raise"):
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
        dist.broadcast(torch.ones(4), 0, group=self.world)

    def tensor_parallel(self):
        for _ in range(4):
            self.reduce(self.tp)
        if not self.has("skip-dp"):
            self.reduce(self.dp, 256)
        self.reduce(self.world, 1)

    def pipeline(self):
        dist.all_gather([torch.zeros(16) for _ in range(4)], torch.ones(16), group=self.world)
        dist.barrier(group=self.tp)
        self.reduce(self.dp, 32)


def main():
    rank = Rank(*sys.argv[1:])
    threading.Thread(target=rank.watch, daemon=True).start()
    try:
        rank.train()
    except Exception as error:  # a peer exited, which closed its connection
        print("rank %d: %s" % (rank.rank, str(error).splitlines()[0][:200]), flush=True)
        time.sleep(1000)  # the thread that watches ends this rank with a dump


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
main()
