"""PyTorch jobs on gloo, each with one fault or none: their Flight Recorder dumps read by Lockstep, torchfrtrace and nvrx side by side."""

import json
import os
import re
import subprocess

from support import SOURCE, Skip, last_line

# Name, fault, culprit, step, layout; and the kinds of finding that are right for it.
FAULTS = [
    ("skip", "skip", 2, 14, "ddp", {"RANK_NOT_ARRIVED", "MISMATCH_COUNT", "MISMATCH_KIND"}),
    ("extra", "extra", 1, 9, "ddp", {"RANK_AHEAD", "MISMATCH_COUNT", "RANK_NOT_ARRIVED", "RANK_NO_DATA"}),  # gloo ends that process
    ("shape", "shape", 3, 11, "ddp", {"MISMATCH_COUNT"}),
    ("kind", "kind", 0, 13, "ddp", {"MISMATCH_KIND"}),
    ("dtype", "dtype", 2, 7, "ddp", {"MISMATCH_DATATYPE", "MISMATCH_COUNT"}),
    ("stop", "stop", 1, 10, "ddp", set()),
    ("sleep", "sleep", 3, 16, "tensor", set()),
    ("exit", "exit", 0, 12, "tensor", set()),
    ("raise", "raise", 2, 12, "pipeline", set()),
    ("skip-dp", "skip-dp", 1, 15, "tensor", set()),
]
HEALTHY = [(name, fault, -1, 0, layout, None) for name, fault, layout in
           (("ended", "none", "ddp"), ("ended-tensor", "none", "tensor"), ("ended-pipeline", "none", "pipeline"),
            ("uneven", "uneven", "tensor"), ("running", "running", "ddp"))]


def lockstep(outside, folder):
    result = subprocess.run([str(outside.build / "bin/lockstep"), "analyze", "--format", "json", str(folder)], capture_output=True,
                            text=True)
    try:
        return json.loads(result.stdout)
    except ValueError:
        return {"verdict": "unread: " + last_line(result.stderr), "findings": []}


def torchfrtrace(python, folder):
    result = subprocess.run([python, "-m", "torch.distributed.flight_recorder.fr_trace", "-j", str(folder), "-p", "nccl_trace_rank_"],
                            capture_output=True, text=True)
    text = result.stdout + result.stderr
    found = re.findall(r"(?:Culprit rank|missing ranks?|Not all ranks|mismatch|error|Error)[^\n]*", text)
    return (found[0] if found else last_line(text))[:70]


def nvrx(python, folder):
    code = ("import sys; from nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution import CollectiveAnalyzer")
    if subprocess.run([python, "-c", code], capture_output=True).returncode != 0:
        return "not installed"
    result = subprocess.run([python, "-m", "nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution", "--fr-path", str(folder)],
                            capture_output=True, text=True)
    return last_line(result.stdout + result.stderr)[:60]


def run(outside):
    if outside.quick:
        raise Skip("not with --quick")
    if not (outside.build / "bin/lockstep-analyze").exists():
        raise Skip("lockstep-analyze is not built")
    python = outside.install("torch", "numpy", check="import torch.distributed")
    cases = FAULTS + HEALTHY
    dumps = outside.temporary / "dumps"
    environment = dict(os.environ, TORCH_FR_BUFFER_SIZE="2000", TORCH_NCCL_TRACE_BUFFER_SIZE="2000", OMP_NUM_THREADS="1",
                       GLOO_SOCKET_IFNAME="lo")
    job = subprocess.run([python, str(SOURCE / "tests/outside/gloo_job.py"), str(dumps)] +
                         ["%s:%s:%d:%d:%s" % case[:5] for case in cases], env=environment, capture_output=True, text=True)
    if job.returncode != 0:
        raise Skip("the jobs do not run: " + last_line(job.stderr))
    rows = []
    for name, _, culprit, _, _, kinds in cases:
        verdict = lockstep(outside, dumps / name)
        findings = verdict.get("findings", [])
        first = findings[0] if findings else {"kind": "-", "culprit_ranks": []}
        problems = []
        if kinds is None:
            if findings:
                problems.append("a healthy job: %s of ranks %s" % (first["kind"], first["culprit_ranks"]))
        elif culprit not in first["culprit_ranks"] or len(first["culprit_ranks"]) > 2:
            problems.append("rank %d, and Lockstep says %s of ranks %s" % (culprit, first["kind"], first["culprit_ranks"]))
        elif kinds and first["kind"] not in kinds:
            problems.append("one of %s, and Lockstep says %s" % (", ".join(sorted(kinds)), first["kind"]))
        outside.check("gloo, %s" % name, problems)
        rows.append((name, "rank %d" % culprit if culprit >= 0 else "healthy",
                     "%s %s %s" % (verdict["verdict"], first["kind"], ",".join(map(str, first["culprit_ranks"]))),
                     torchfrtrace(python, dumps / name), nvrx(python, dumps / name)))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in [("case", "truth", "lockstep", "torchfrtrace", "nvrx")] + rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
