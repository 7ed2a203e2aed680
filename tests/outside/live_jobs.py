"""Jobs that started without Lockstep and hang: which rank `lockstep attach` names, with what confidence, and how long it takes.

Twelve faults of trainsim on the stand-ins, and six of PyTorch on gloo under torchrun. The table is results/attach.md."""

import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from support import SOURCE, Skip, descendants

sys.path.append(str(SOURCE / "tests/integration"))
from at_rest import at_rest as at_rest_of  # noqa: E402

TABLE = SOURCE / "results/attach.md"
LEAST_RIGHT, MOST_SECONDS, SURE = 15, 15, 0.8
FOUR, EIGHT = ("--tp", "2", "--dp", "2"), ("--tp", "2", "--pp", "2", "--dp", "2")
Case = collections.namedtuple("Case", "name program ranks culprit arguments")


def train(fault, culprit, arguments=FOUR, place="step=20"):
    ranks = 8 if arguments is EIGHT else 4
    return Case(fault, "trainsim", ranks, culprit, [*arguments, "--fault", f"rank={culprit},{place},kind={fault}"])


def gloo(fault, culprit, layout):
    return Case(fault, "PyTorch, gloo", 4, culprit, [fault, str(culprit), layout])


CASES = [train("stall-host", 5, EIGHT), train("stall-loader", 3), train("never-init", 2, place="step=1,comm=world"), train("spin-host", 1),
         train("stop", 3), train("kill", 2), train("segv", 1), train("exit-early", 0), train("exception", 6, EIGHT), train("skip", 1),
         train("open-group", 4, EIGHT), train("stall-gpu", 1),
         gloo("sleep", 3, "tensor"), gloo("stop", 1, "ddp"), gloo("lock", 2, "tensor"), gloo("loader", 0, "pipeline"),
         gloo("compute", 1, "pipeline"), gloo("checkpoint", 2, "ddp")]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """A job of plain processes, each with a log."""

    def __init__(self, outside, case, python):
        self.folder = pathlib.Path(outside.rings())
        self.processes = []
        clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")}
        clean.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        self.port = clean["MASTER_PORT"]
        if python:
            command = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(case.ranks), "--master-addr", "127.0.0.1",
                       "--master-port", self.port, str(SOURCE / "tests/outside/live_gloo.py"), *case.arguments]
            self.start(command, clean)
            return
        clean.update(LD_LIBRARY_PATH=str(outside.build / "standin/lib"), STANDIN_WAIT="block", NCCL_RAS_ADDR="localhost:%d" % free_port())
        for rank in range(case.ranks):
            self.start([str(outside.build / "bin/trainsim"), "--steps", "1000000", *case.arguments],
                       dict(clean, RANK=str(rank), WORLD_SIZE=str(case.ranks), LOCAL_RANK=str(rank)))

    def start(self, command, environment):
        with open(self.folder / ("%d.log" % len(self.processes)), "wb") as log:
            self.processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   start_new_session=True))

    def has_failed(self):
        return any("fault" in path.read_text(errors="replace") for path in self.folder.glob("*.log"))

    def end(self):
        # Workers of torchrun have their own sessions and would outlive torchrun.
        for pid in [worker for process in self.processes for worker in descendants(process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.kill()
            process.wait()


def play(outside, case, python):
    """Returns the ranks and confidence of the first finding, the seconds that lockstep attach took, and its output."""
    job = Job(outside, case, python)
    try:
        until = time.monotonic() + 300
        while not job.has_failed():
            if time.monotonic() > until:
                raise Skip("the job did not come to its fault")
            time.sleep(0.1)
        # The culprit may still run: it may compute or spin.
        at_rest = at_rest_of([process.pid for process in job.processes] + [pid for process in job.processes for pid in descendants(process.pid)], but=1)
        until = time.monotonic() + 30
        while not at_rest() and time.monotonic() < until:
            time.sleep(0.1)
        began = time.monotonic()
        result = subprocess.run([str(outside.build / "bin/lockstep"), "attach", "--job", "port-" + job.port, "--out", str(job.folder / "incident")],
                                capture_output=True, text=True, timeout=120, cwd=job.folder)
        seconds = time.monotonic() - began
    finally:
        job.end()
    findings = json.loads((job.folder / "incident/verdict.json").read_text())["findings"] if result.returncode in (0, 1) else []
    first = findings[0] if findings else {"culprit_ranks": [], "confidence": 0}
    return sorted(first["culprit_ranks"]), first["confidence"], seconds, result.stdout + result.stderr


def grade(case, ranks, sure):
    if ranks == [case.culprit]:
        return "right"
    if not ranks:
        return "nobody"
    return "set" if case.culprit in ranks else "wrong, sure" if sure > SURE else "wrong"


def table(version, rows):
    lines = ["# Jobs that hang without Lockstep", "",
             "As printed by `./dev outside attach`: live jobs without the recorder, each with one fault, and the rank that `lockstep attach`",
             "names. The seconds are from its start to its end, with the folder written. trainsim runs on the stand-ins, PyTorch %s on gloo" % version,
             "under torchrun. Set: the culprit among others.", "", "| job | ranks | fault | rank at fault | named | confidence | seconds | |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for case, ranks, sure, seconds, mark in rows:
        lines.append("| %s | %d | %s | %d | %s | %s | %.1f | %s |" % (case.program, case.ranks, case.name, case.culprit,
                                                                  ", ".join(map(str, ranks)) or "nobody", "%.2f" % sure if ranks else "", seconds, mark))
    lines += ["", "Right: %d of %d." % (sum(row[4] == "right" for row in rows), len(rows))]
    return "\n".join(lines) + "\n"


def run(outside):
    if outside.quick:
        raise Skip("not with --quick")
    if not (outside.build / "bin/lockstep-attach").exists():
        raise Skip("lockstep-attach is not built")
    python = outside.install("torch", "numpy", check="import torch.distributed")
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    rows = []
    for case in CASES:
        ranks, sure, seconds, text = play(outside, case, python if case.program != "trainsim" else None)
        mark = grade(case, ranks, sure)
        problems = ["it names %s, with confidence %.2f, and rank %d is at fault:\n%s" % (ranks, sure, case.culprit, text)] * (mark == "wrong, sure")
        if seconds > MOST_SECONDS:
            problems.append("it took %.1f s" % seconds)
        outside.check("attach, %s: %s, %.1f s" % (case.name, mark, seconds), problems)
        if mark != "right":
            print(text)
        rows.append((case, ranks, sure, seconds, mark))
    right = sum(row[4] == "right" for row in rows)
    outside.check("attach names the right rank in %d of %d" % (right, len(rows)), ["fewer than %d" % LEAST_RIGHT] * (right < LEAST_RIGHT))
    TABLE.write_text(table(version, rows))
    print(TABLE.read_text(), end="")
