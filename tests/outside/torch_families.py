"""PyTorch jobs of eight families on gloo: which ranks Lockstep names from their dumps alone. The table is results/torch-families.md."""

import json
import os
import subprocess

from support import SOURCE, Skip, last_line

TABLE = SOURCE / "results/torch-families.md"
SEED = 1
SURE = 0.8  # naming an innocent rank with more than this confidence is a failure


def grade(culprit, named):
    if culprit is None:
        return "false alarm" if named else "right"
    if not named:
        return "nobody"
    if culprit not in named:
        return "wrong"
    return "right" if len(named) == 1 else "set" if len(named) <= 4 else "wide"


def run(outside):
    if outside.quick:
        raise Skip("not with --quick")
    analyze = outside.build / "bin/lockstep-analyze"
    if not analyze.exists():
        raise Skip("lockstep-analyze is not built")
    python = outside.install("torch", "numpy", check="import torch.distributed")
    folder = outside.temporary / "families"
    environment = dict(os.environ, TORCH_FR_BUFFER_SIZE="2000", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    job = subprocess.run([python, "-W", "ignore", str(SOURCE / "tests/outside/gloo_families.py"), str(folder), str(SEED)], env=environment,
                         capture_output=True, text=True, timeout=3600)
    if job.returncode != 0:
        outside.check("families", [last_line(job.stderr) or "ends with %d" % job.returncode])
        return
    rows, counts = [], {}
    for path in sorted(folder.glob("*.json")):
        truth, dumps = json.loads(path.read_text()), path.with_suffix("")
        if not any(dumps.iterdir()):
            outside.skip("families, " + path.stem, "no rank left a dump")
            continue
        done = subprocess.run([str(analyze), "--format", "json", str(dumps)], capture_output=True, text=True, timeout=120)
        try:
            findings = json.loads(done.stdout)["findings"]
        except (ValueError, KeyError):
            outside.check("families, " + path.stem, [last_line(done.stderr) or "no JSON"])
            continue
        first = findings[0] if findings else {"kind": "-", "culprit_ranks": [], "confidence": 0}
        named = first["culprit_ranks"]
        how = grade(truth["culprit"], named)
        bad = how == "false alarm" or (how == "wrong" and first["confidence"] > SURE)
        outside.check("families, " + path.stem, ["%s: %s %s %.2f" % (how, first["kind"], named, first["confidence"])] if bad else [])
        counts[how] = counts.get(how, 0) + 1
        rows.append((path.stem, truth, first, how))
    text = ["# Families of PyTorch jobs", "",
            "As printed by `./dev outside families`: jobs on gloo with four or eight ranks, of which only the Flight Recorder dumps are read. "
            "Set: the culprit among",
            "at most four ranks. Gloo records no sends and receives, so a rank that waits in one looks idle.", "",
            "| family and fault | ranks | truth | named | finding | confidence | grade |", "| --- " * 7 + "|"]
    for name, truth, first, how in rows:
        culprit = "-" if truth["culprit"] is None else truth["culprit"]
        named = ", ".join(map(str, first["culprit_ranks"])) or "-"
        text.append("| %s | %d | %s | %s | %s | %.2f | %s |" % (name, truth["ranks"], culprit, named, first["kind"], first["confidence"], how))
    text += ["", "In all: " + ", ".join("%s %d" % item for item in sorted(counts.items())) + "."]
    print("\n".join(text))
    TABLE.write_text("\n".join(text) + "\n")
