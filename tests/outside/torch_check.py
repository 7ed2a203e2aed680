"""Runs `lockstep check` on PyTorch jobs on gloo: each bug is found with its rank and line, and a healthy job is not reported."""

import json
import subprocess

from support import Skip

JOB = """import sys

import torch
import torch.distributed as dist

bug = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
for step in range(4):
    for layer in range(2):
        if bug != "skip" or rank != 2 or step != 2 or layer != 0:
            dist.all_reduce(torch.ones(64), group=pair)
    dist.all_reduce(torch.ones(8 if bug == "shape" and rank == 1 and step == 2 else 16))
    if bug == "evaluate" and rank == 3 and step == 2:
        dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""
# The ranks that must be named. If two ranks hang together, the report shows the calls of both.
CASES = {"healthy": [], "skip": [2], "shape": [1], "evaluate": [3]}


def wrong(outside, python, bug, ranks):
    job = outside.temporary / "check_job.py"
    job.write_text(JOB)
    result = subprocess.run([str(outside.build / "bin/lockstep"), "check", "--rounds", "1", "--seconds", "60", "--format", "json", "--",
                             python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", str(job), bug],
                            capture_output=True, text=True, timeout=300)
    if result.returncode != (1 if ranks else 0):
        return ["status %d\n%s%s" % (result.returncode, result.stdout, result.stderr[-2000:])]
    faults = json.loads(result.stdout)["faults"]
    if not ranks:
        return []
    named = faults[0]["ranks"] == ranks and any("check_job.py:" in call["site"] for call in faults[0]["calls"])
    return [] if named else [result.stdout]


def run(outside):
    if outside.quick:
        raise Skip("not with --quick")
    python = outside.install("torch", "numpy", check="import torch.distributed")
    for bug, ranks in CASES.items():
        outside.check("lockstep check of a job on gloo: " + bug, wrong(outside, python, bug, ranks))
