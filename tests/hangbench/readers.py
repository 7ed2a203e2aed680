"""Programs that name the rank at fault. Each class runs one on a folder and returns its answer. Peers are installed from PyPI, never copied."""

import collections
import json
import os
import re
import subprocess
import tempfile
import threading
import time

import forms

# `ranks`: the ranks that the program blames first; `sure`: the stated confidence, None if there is none; `error`: why there is no answer.
Answer = collections.namedtuple("Answer", "ranks sure kind seconds mebibytes error", defaults=(0.0, 0, ""))
LIMIT = 120  # time limit in seconds
PICKLES = ("pickle", "pickle, timed", "pickle, short", "pickle, active", "nccl2", "torchcomms", "pytorch")


def _run(command, environment=None):
    """Returns (exit status, standard output, standard error, seconds, peak MiB). The status is None if the program exceeded the time limit."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # otherwise Popen would wait for the process again
        late = not timer.is_alive()
        timer.cancel()
        out.seek(0)
        err.seek(0)
        return None if late else process.returncode, out.read(), err.read(), time.monotonic() - began, usage.ru_maxrss // 1024


def _last(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:60] if lines else ""


class Lockstep:
    name, forms = "Lockstep", None  # Lockstep reads every form

    def __init__(self, build):
        self.binary = os.path.join(build, "bin/lockstep-analyze")
        self.version = _run([self.binary, "--version"])[1].strip()

    def read(self, folder, form):
        status, out, err, seconds, memory = _run([self.binary, "--format", "json", folder])
        try:
            verdict = json.loads(out)
        except ValueError:
            return Answer((), None, "", seconds, memory, _last(err) or "no answer")
        findings = verdict["findings"]
        if not findings:
            return Answer((), None, verdict["verdict"], seconds, memory)
        first = findings[0]
        ranks = first["culprit_ranks"] if verdict["verdict"] != "SLOW" else ()
        if form == "ras":  # a RAS report numbers ranks within each communicator, so the PID identifies the rank
            ranks = [who["pid"] - forms.FIRST_PROCESS if who["pid"] else who["rank"] for who in first["culprits"]]
        return Answer(tuple(ranks), first["confidence"], first["kind"], seconds, memory)


class Torch:
    """Runs PyTorch's own analyzer, torchfrtrace."""
    name, forms = "torchfrtrace", PICKLES

    def __init__(self, python):
        self.python = python
        self.version = _run([python, "-c", "import torch; print(torch.__version__)"])[1].strip()

    def read(self, folder, form):
        status, _, err, seconds, memory = _run([self.python, "-m", "torch.distributed.flight_recorder.fr_trace", folder, "--prefix",
                                                "nccl_trace_rank_", "--allow-incomplete-ranks"])
        if status != 0:
            return Answer((), None, "", seconds, memory, _last(err) or "no answer")
        named = re.findall(r"missing ranks: \{([^}]*)\}", err) + re.findall(r"Culprit rank (\d+)", err)
        ranks = {int(number) for text in named for number in re.findall(r"\d+", text)}
        return Answer(tuple(sorted(ranks)), None, "", seconds, memory)


class Nvrx:
    """Runs CollectiveAnalyzer of NVIDIA's nvidia-resiliency-ext."""
    name, forms = "nvrx", PICKLES + ("json",)

    def __init__(self, python, folder, version):
        self.python, self.version = python, version
        self.environment = dict(os.environ, PYTHONPATH=str(folder))

    def read(self, folder, form):
        status, out, err, seconds, memory = _run([self.python, "-m", "nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution",
                                                  "--fr-path", folder, "--pattern", "nccl_trace_rank_*", "--emit-stdout"], self.environment)
        if status != 0:
            return Answer((), None, "", seconds, memory, _last(err) or "no answer")
        rows = [line.split("|") for line in out.splitlines() if line.count("|") >= 5 and not line.startswith("PGID")]
        ranks = {int(number) for row in rows for number in re.findall(r"\d+", row[-1])}
        return Answer(tuple(sorted(ranks)), None, "", seconds, memory)


class RasRule:
    """Imitates an engineer with ncclras: blames the processes that launched the fewest operations."""
    name, forms, version = "least launches", ("ras",), "of this benchmark"

    def read(self, folder, form):
        began = time.monotonic()
        with open(os.path.join(folder, "ras.txt")) as file:
            text = file.read()
        text = text[:len(text) // 2]  # the first of the two reports
        behind = {}
        for launched, rank in self._listed(text):
            behind.setdefault(launched, set()).add(rank)
        ranks = behind[min(behind)] if behind else ()
        return Answer(tuple(sorted(ranks)), None, "", time.monotonic() - began, 0)

    @staticmethod
    def _listed(text):
        launched = None
        for line in text.splitlines():
            number = re.search(r"launched up to operation (\d+)", line)
            launched = int(number[1]) if number else launched
            gpu = re.search(r"-- GPU (\d+) managed", line)  # this benchmark numbers GPUs by global rank
            if gpu and launched is not None:
                yield launched, int(gpu[1])
