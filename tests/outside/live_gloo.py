"""A training loop on PyTorch's gloo backend, started by torchrun. It hangs because of one rank's fault, and only a signal ends it.

live_gloo.py FAULT RANK LAYOUT
"""

import os
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

STEP = 12


def log_metrics(lock):
    with lock:
        pass


def read_batch():
    """Reads from a data server that does not answer."""
    ours, _theirs = os.pipe()
    os.read(ours, 1)


def tokenize():
    count = 0
    while True:
        count += 1


def save_checkpoint():
    subprocess.run(["sleep", "1000"], check=False)


def fail(fault):
    print("fault", flush=True)
    if fault == "sleep":
        time.sleep(1000)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "lock":
        lock = threading.Lock()
        threading.Thread(target=lambda: lock.acquire() and time.sleep(1000), daemon=True).start()
        while not lock.locked():
            time.sleep(0.01)
        log_metrics(lock)
    elif fault == "loader":
        read_batch()
    elif fault == "compute":
        tokenize()
    elif fault == "checkpoint":
        save_checkpoint()


def main():
    fault, culprit, layout = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tp = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][rank // 2]
    dp = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])][rank % 2]
    step = 0
    while True:
        if rank == culprit and step == STEP and fault != "skip":
            fail(fault)
        if layout == "tensor":
            for _ in range(4):
                dist.all_reduce(torch.ones(64), group=tp)
        if rank == culprit and step == STEP and fault == "skip":
            print("fault", flush=True)
        else:
            dist.all_reduce(torch.ones(256), group=dp)
        if layout == "pipeline":
            dist.barrier(group=tp)
        dist.all_reduce(torch.ones(1))
        step += 1
        time.sleep(0.05)


main()
