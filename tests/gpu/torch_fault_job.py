"""A PyTorch training loop with one fault, for `lockstep run`. It uses tensor parallel pairs, data parallel groups across the pairs, and the world.
torch_fault_job.py --fault KIND [--rank R] [--at STEP] [--steps N] [--timeout SECONDS]
The launcher sets RANK, WORLD_SIZE (even), MASTER_ADDR and MASTER_PORT. Several ranks may share a GPU if NCCL allows it (NCCL_MULTI_RANK_GPU_ENABLE=1, from
2.30.3 on). PyTorch's own watchdog ends a hang after --timeout; Flight Recorder dumps go to the path in TORCH_FR_DUMP_TEMP_FILE. Rank 0 prints "step N",
and every rank that completes prints "done".
"""
import argparse
import ctypes
import datetime
import os
import signal
import sys
import time

KINDS = ("none", "slow", "host-stall", "stop", "gpu-stall", "kill", "segv", "exception", "exit", "skip", "extra", "count", "datatype",
         "kind", "order", "init")
LAYERS = 4
WIDTH = 256


class Job:
    def __init__(self, options):
        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.options = torch, dist, options
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        device = int(os.environ.get("LOCAL_RANK", self.rank)) % torch.cuda.device_count()
        torch.cuda.set_device(device)
        self.device = torch.device("cuda", device)
        timeout = datetime.timedelta(seconds=options.timeout)
        dist.init_process_group("nccl", timeout=timeout)
        half = self.world // 2
        pairs = [[2 * i, 2 * i + 1] for i in range(half)]
        across = [list(range(first, self.world, 2)) for first in (0, 1)]
        self.tp = self.mine([dist.new_group(ranks, timeout=timeout, group_desc="tp") for ranks in pairs], pairs)
        self.dp = self.mine([dist.new_group(ranks, timeout=timeout, group_desc="dp") for ranks in across], across)
        torch.manual_seed(3)
        self.x = torch.randn(WIDTH, WIDTH, device=self.device)
        self.weights = [torch.randn(WIDTH, WIDTH, device=self.device) / WIDTH for _ in range(LAYERS)]
        self.gradients = [torch.zeros(WIDTH, WIDTH, device=self.device) for _ in range(LAYERS)]
        self.norm = torch.zeros(1, device=self.device)

    def mine(self, groups, members):
        return next(group for group, ranks in zip(groups, members) if self.rank in ranks)

    def has(self, kind, step):
        return self.options.fault == kind and step == self.options.at and self.rank == self.options.rank

    def run(self):
        if self.has("init", self.options.at):  # the peer creates the pair's communicator, but this rank does not
            sleep_for_ever()
        for step in range(self.options.steps):
            self.step(step)
            if self.rank == 0:
                print(f"step {step}", flush=True)
        self.torch.cuda.synchronize()
        self.dist.destroy_process_group()
        print("done", flush=True)

    def step(self, step):
        torch, dist = self.torch, self.dist
        x = self.x
        for layer in range(LAYERS):
            x = torch.tanh(x @ self.weights[layer])
            if layer == 1:
                if self.options.fault == "order" and step == self.options.at:
                    self.other_order(x)
                    continue
                self.before(step)
                if self.has("skip", step):
                    continue
                x = self.reduce(step, x)
                continue
            dist.all_reduce(x, group=self.tp)
        works = [dist.all_reduce(gradient, group=self.dp, async_op=True) for gradient in self.gradients]
        for work in works:
            work.wait()
        self.norm.fill_(float(step))
        dist.all_reduce(self.norm)
        if self.norm.item() != float(step) * self.world:
            raise RuntimeError(f"a wrong sum in step {step}")

    def before(self, step):
        """Applies the fault to the rank's CPU thread or GPU between two operations."""
        if self.options.fault == "slow" and self.rank == self.options.rank:
            time.sleep(0.2)
        if self.has("host-stall", step):
            sleep_for_ever()
        if self.has("stop", step):
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.has("kill", step):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.has("segv", step):
            ctypes.string_at(0)
        if self.has("exception", step):
            raise ValueError("a batch of the wrong size")
        if self.has("exit", step):
            os._exit(0)
        if self.has("gpu-stall", step):
            self.torch.cuda._sleep(1 << 62)  # an endless kernel on the stream of the pair's all-reduce, before that

    def reduce(self, step, x):
        dist, torch = self.dist, self.torch
        if self.has("count", step):
            dist.all_reduce(torch.zeros(4 * WIDTH * WIDTH, device=self.device), group=self.tp)
        elif self.has("datatype", step):
            dist.all_reduce(torch.zeros(WIDTH * WIDTH, device=self.device, dtype=torch.int64), group=self.tp)
        elif self.has("kind", step):
            dist.all_gather_into_tensor(torch.zeros(2 * WIDTH * WIDTH, device=self.device), x, group=self.tp)
        else:
            dist.all_reduce(x, group=self.tp)
        if self.has("extra", step):
            dist.all_reduce(x.clone(), group=self.tp)
        return x

    def other_order(self, x):
        """The faulty rank calls the world's operation first, and all others their pair's. Each rank waits for its first operation to end."""
        order = (None, self.tp) if self.rank == self.options.rank else (self.tp, None)
        for group in order:
            self.dist.all_reduce(x, group=group)
            self.torch.cuda.synchronize()


def sleep_for_ever():
    while True:
        time.sleep(3600)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=KINDS, default="none")
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--at", type=int, default=6)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--timeout", type=float, default=35)
    Job(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
