"""PyTorch's torchrun restarts a job under `lockstep run`. Each attempt must be judged separately. The job is trainsim on the stand-ins."""

import json
import os
import re
import subprocess

from support import Skip

# Attempt 0 loses rank 1. Attempt 1 succeeds, or rank 2 hangs.
WORKER = """#!/bin/sh
case $TORCHELASTIC_RESTART_COUNT in
0) fault=rank=1,step=40,kind=kill,comm=dp ;;
*) fault=$1 ;;
esac
exec %s --tp 2 --dp 2 --steps 80 --pace-ms 50 ${fault:+--fault $fault}
"""
# The fault of attempt 1, the status of lockstep run, and the verdict on attempt 1.
CASES = {"ends well": ("", 0, ("HEALTHY", [])),
         "hangs": ("rank=2,step=20,kind=stall-host,comm=dp", 90, ("HUNG", [2]))}
# The verdict on attempt 0, in a separate folder, if torchrun takes more than a second to end it.
LOST = ("CRASHED", [1])


def verdict_of(folder):
    verdict = json.loads((folder / "verdict.json").read_text())
    return verdict["verdict"], sorted({rank for finding in verdict["findings"] for rank in finding["culprit_ranks"]})


def attempts(outside, python, name):
    fault, status, expected = CASES[name]
    worker = outside.temporary / "worker"
    worker.write_text(WORKER % (outside.build / "bin/trainsim"))
    worker.chmod(0o755)
    out = outside.temporary / ("restart-" + name.replace(" ", "-"))
    environment = dict(os.environ, LD_LIBRARY_PATH=str(outside.build / "standin/lib"))
    result = subprocess.run([str(outside.build / "bin/lockstep"), "run", "--kill-on-hang", "--out", str(out), "--",
                             python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--max-restarts", "1",
                             "--no-python", str(worker), fault], env=environment, capture_output=True, text=True, timeout=300)
    if result.returncode != status:
        yield "lockstep run ends with %d, not %d:\n%s" % (result.returncode, status, result.stderr[-2000:])
    verdicts = [verdict_of(folder) for folder in sorted(out.parent.glob(out.name + "*"))]
    if verdicts not in ([expected], [LOST, expected]) and not (expected[0] == "HEALTHY" and verdicts == [LOST]):
        yield "the verdicts are %s" % verdicts
    for ranks in re.findall(r"late: \d+ of (\d+) ranks", result.stderr):
        if ranks != "4":
            yield "%s ranks are counted" % ranks


def run(outside):
    if outside.quick:
        raise Skip("not with --quick")
    if not (outside.build / "bin/trainsim").exists():
        raise Skip("trainsim is not built")
    python = outside.install("torch", "numpy", check="import torch.distributed")
    for name in CASES:
        outside.check("torchrun restarts a job, which " + name, list(attempts(outside, python, name)))
