"""PyTorch jobs on gloo with at most one fault, started by torchrun under `lockstep run`. Compares which ranks Lockstep, PyTorch's torchfrtrace and
NVIDIA's nvidia-resiliency-ext name from the Flight Recorder dumps. The table is results/outside.md."""

import collections
import json
import os
import pickle
import re
import subprocess
import time

from support import SOURCE, Skip, last_line

RANKS = 4
TABLE = SOURCE / "results/outside.md"
Case = collections.namedtuple("Case", "fault culprit step layout kinds")
# What the culprit does wrong, and the finding kinds that are right for it.
ABSENT = {"RANK_NOT_ARRIVED", "HOST_STALL", "RANK_NO_DATA", "RANK_DEAD"}
CASES = [
    Case("skip", 2, 14, "ddp", {"RANK_NOT_ARRIVED", "MISMATCH_COUNT", "MISMATCH_KIND"}),
    Case("extra", 1, 9, "ddp", {"RANK_AHEAD", "MISMATCH_COUNT"} | ABSENT),  # gloo kills the culprit's process
    Case("shape", 3, 11, "ddp", {"MISMATCH_COUNT"}),
    Case("kind", 0, 13, "ddp", {"MISMATCH_KIND"}),
    Case("dtype", 2, 7, "ddp", {"MISMATCH_DATATYPE", "MISMATCH_COUNT"}),
    Case("stop", 1, 10, "ddp", ABSENT),
    Case("sleep", 3, 16, "tensor", ABSENT),
    Case("exit", 0, 12, "tensor", ABSENT),
    Case("raise", 2, 12, "pipeline", ABSENT),
    Case("skip-dp", 1, 15, "tensor", {"MISMATCH_KIND", "MISMATCH_COUNT"} | ABSENT),
    Case("none", None, 0, "ddp", None),
    Case("none", None, 0, "tensor", None),
    Case("none", None, 0, "pipeline", None),
    Case("uneven", None, 0, "tensor", None),
    Case("running", None, 0, "ddp", None),
]
# The job's groups by PyTorch's names. A dump of gloo lists only one unnamed group, but the other readers need all groups.
GROUPS = {"0": [0, 1, 2, 3], "1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}
NVRX_VERSION = "0.7.0"
# Later wheels need later systems. The part that reads dumps is plain Python.
NVRX_WHEEL = ("--platform", "manylinux_2_39_x86_64", "--python-version", "3.12", "--only-binary=:all:")
MODULES = {"torchfrtrace": "torch.distributed.flight_recorder.fr_trace",
           "nvrx": "nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution"}


class Said:
    """One reader's answer about one folder: the ranks that it names, and the grade."""

    def __init__(self, case, named, seconds, crash=""):
        self.named, self.seconds, self.crash = set(named), seconds, crash
        self.grade = self.judge(case.culprit)

    def judge(self, culprit):
        if self.crash:
            return "crash"
        if culprit is None:
            return "wrong" if self.named else "right"
        if not self.named:
            return "nobody"
        if culprit not in self.named:
            return "wrong"
        return "right" if len(self.named) == 1 else "set"

    def cell(self):
        what = self.crash or ", ".join(map(str, sorted(self.named)))
        return "%s%s, %.1f s" % (self.grade, " (%s)" % what if what else "", self.seconds)


def numbers(texts):
    return {int(number) for text in texts for number in re.findall(r"\d+", text)}


def torchfrtrace(text):
    return numbers(re.findall(r"missing ranks: \{([^}]*)\}", text)) | numbers(re.findall(r"Culprit rank (\d+)", text))


def nvrx(text):
    """Returns the ranks in the last column of the reader's table."""
    rows = [line.split("|") for line in text.splitlines() if line.count("|") >= 5 and not line.startswith("PGID")]
    return numbers(row[-1] for row in rows)


def read_by(python, environment, name, case, folder):
    arguments = {"torchfrtrace": [folder, "--prefix", "nccl_trace_rank_", "--allow-incomplete-ranks"],
                 "nvrx": ["--fr-path", folder, "--pattern", "nccl_trace_rank_*", "--emit-stdout"]}[name]
    began = time.monotonic()
    try:
        result = subprocess.run([python, "-m", MODULES[name], *map(str, arguments)], env=environment, capture_output=True, text=True,
                                timeout=300)
    except subprocess.TimeoutExpired:
        return Said(case, (), 300, "no answer")
    seconds = time.monotonic() - began
    if result.returncode != 0:
        return Said(case, (), seconds, last_line(result.stderr)[:40])
    return Said(case, torchfrtrace(result.stderr) if name == "torchfrtrace" else nvrx(result.stdout), seconds)


def lockstep(outside, case, *paths):
    began = time.monotonic()
    result = subprocess.run([str(outside.build / "bin/lockstep"), "analyze", "--format", "json", *map(str, paths)], capture_output=True,
                            text=True, timeout=120)
    seconds = time.monotonic() - began
    try:
        findings = json.loads(result.stdout)["findings"]
    except (ValueError, KeyError):
        return Said(case, (), seconds, last_line(result.stderr)[:40]), "-"
    first = findings[0] if findings else {"kind": "-", "culprit_ranks": []}
    return Said(case, first["culprit_ranks"], seconds), first["kind"]


def with_groups(folder):
    """Copies the dumps and adds all groups to each copy."""
    copy = folder.with_name(folder.name + "-groups")
    copy.mkdir()
    for path in folder.glob("nccl_trace_rank_*"):
        with open(path, "rb") as file:
            dump = pickle.load(file)
        dump["pg_config"] = {name: {"name": name, "desc": "default_pg" if name == "0" else "undefined", "ranks": str(ranks)}
                             for name, ranks in GROUPS.items() if int(path.name[-1]) in ranks}
        with open(copy / path.name, "wb") as file:
            pickle.dump(dump, file, protocol=2)
    return copy


def play(outside, python, case, dumps):
    """Runs the job. Returns its exit status, the output of `lockstep run`, and the file with the output of all ranks."""
    out = outside.temporary / (dumps.name + "-run")
    environment = dict(os.environ, TORCH_FR_BUFFER_SIZE="2000", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    job = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS),
           str(SOURCE / "tests/outside/gloo_job.py"), str(dumps), case.fault, str(-1 if case.culprit is None else case.culprit),
           str(case.step), case.layout]
    result = subprocess.run([str(outside.build / "bin/lockstep"), "run", "--out", str(out), "--", *job], env=environment,
                            capture_output=True, text=True, timeout=300)
    log = dumps.with_name(dumps.name + ".log")
    log.write_text(result.stdout + result.stderr)
    return result.returncode, re.findall(r"^lockstep: .*|^[A-Z ]+ {2}.*rank.*", result.stderr, re.M), log


def problems_of(case, status, lines, answer, kind, alone):
    if case.culprit is None and status != 0:
        yield "the job ends with %d under lockstep run" % status
    if case.culprit is not None and status != 1:
        yield "the job ends with %d under lockstep run, and torchrun gives 1" % status
    for line in lines:
        if not line.startswith("lockstep: "):
            yield "nothing was recorded, and lockstep run says: " + line
    if alone.grade in ("wrong", "crash"):
        yield "Lockstep, without the log: %s" % alone.cell()
    if answer.grade != "right":
        yield "Lockstep: %s, %s" % (kind, answer.cell())
    elif case.kinds and kind not in case.kinds:
        yield "one of %s, and Lockstep says %s" % (", ".join(sorted(case.kinds)), kind)


def table(version, rows):
    """Returns the table. `rows` has each case and each reader's answer."""
    names = ("case", "truth", "Lockstep", "Lockstep, and the log", "torchfrtrace", "nvrx", "torchfrtrace, groups added",
             "nvrx, groups added")
    lines = ["# PyTorch's dumps, read by three programs", "",
             "As printed by `./dev outside torch`: jobs of PyTorch %s on gloo with %d ranks under torchrun and `lockstep run`. A cell has "
             "the ranks" % (version, RANKS),
             "that the dumps identify, and how long the program takes. nvrx is nvidia-resiliency-ext %s. Right: exactly the "
             "culprit, or nobody" % NVRX_VERSION,
             "in a healthy job. Set: the culprit among others. The log is what torchrun printed. A dump of gloo does not list its groups, and "
             "both other",
             "programs end in an error. The last two columns are of copies of the same dumps in which the groups were added.", "",
             "| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    for case, answer in rows:
        truth = "healthy" if case.culprit is None else "rank %d" % case.culprit
        lines.append("| %s, %s | %s | %s |" % (case.fault, case.layout, truth, " | ".join(one.cell() for one in answer)))
    right = [sum(answer[i].grade == "right" for _, answer in rows) for i in range(len(names) - 2)]
    lines.append("| right of %d | | %s |" % (len(rows), " | ".join(map(str, right))))
    return "\n".join(lines) + "\n"


def run(outside):
    if outside.quick:
        raise Skip("not with --quick")
    if not (outside.build / "bin/lockstep-analyze").exists():
        raise Skip("lockstep-analyze is not built")
    python = outside.install("torch", "numpy", check="import torch.distributed")
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    environment = dict(os.environ, PYTHONPATH=str(outside.wheel("nvidia-resiliency-ext", NVRX_VERSION, *NVRX_WHEEL)))
    rows = []
    for case in CASES:
        dumps = outside.temporary / ("%s-%s" % (case.fault, case.layout))
        dumps.mkdir()
        status, lines, log = play(outside, python, case, dumps)
        if not any(dumps.iterdir()):
            outside.check("gloo, " + dumps.name, ["no rank left a dump: " + last_line(log.read_text())])
            continue
        alone, _ = lockstep(outside, case, dumps)
        answer, kind = lockstep(outside, case, dumps, log)
        outside.check("gloo, " + dumps.name, list(problems_of(case, status, lines, answer, kind, alone)))
        copy = with_groups(dumps)
        others = [read_by(python, environment, name, case, folder) for folder in (dumps, copy) for name in MODULES]
        rows.append((case, (alone, answer, *others)))
    print(table(version, rows), end="")
    TABLE.write_text(table(version, rows))
