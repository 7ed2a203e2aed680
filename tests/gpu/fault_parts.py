"""Runs real PyTorch jobs with one fault each under `lockstep run`. Checks that the recorder's data and PyTorch's own Flight Recorder dumps both identify
the right rank, and that no rank of a healthy job is blamed."""
import concurrent.futures
import glob
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time

from machine import HERE, Failed, NotMeasured, finish, first, run, start
from results import NOT_MEASURED, PASS
from session import MULTI_RANK

DEAD = ("RANK_DEAD",)
# fault -> (kinds of the first finding, verdicts, text that the finding must contain)
FAULTS = {
    "none": ((), ("HEALTHY",), ""),
    "slow": (("STRAGGLER", None), ("SLOW", "HEALTHY"), ""),
    "host-stall": (("HOST_STALL",), ("HUNG",), ""),
    "stop": (("HOST_STALL",), ("HUNG",), "stopped"),
    "gpu-stall": (("GPU_STALL",), ("HUNG",), ""),
    "kill": (DEAD, ("CRASHED", "HUNG"), "signal 9"),
    "segv": (DEAD, ("CRASHED", "HUNG"), "signal 11"),
    "exception": (DEAD, ("CRASHED", "HUNG"), "exited with status 1"),
    "exit": (DEAD, ("CRASHED", "HUNG"), "exited with status 0"),
    "skip": (("RANK_NOT_ARRIVED",), ("HUNG", "DESYNC"), ""),
    "extra": (("RANK_AHEAD",), ("HUNG", "DESYNC"), ""),
    "count": (("MISMATCH_COUNT",), ("HUNG", "DESYNC"), ""),
    "datatype": (("MISMATCH_DATATYPE",), ("HUNG", "DESYNC"), ""),
    "kind": (("MISMATCH_KIND",), ("HUNG", "DESYNC"), ""),
    "order": (("ORDER_INVERSION", "DEADLOCK_CYCLE"), ("HUNG", "DESYNC"), ""),
    "init": (("INIT_INCOMPLETE", "HOST_STALL"), ("HUNG",), ""),
}
# These jobs do not hang, so PyTorch writes no dumps.
NO_DUMPS = ("none", "slow")
RANK = 1
TIMEOUT = 25  # time limit of PyTorch's watchdog, in seconds


def part_faults(session, part):
    torch = session.torch_version()
    lockstep = session.options.lockstep or first([os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "bin", "lockstep"),
                                                  shutil.which("lockstep")])
    if not lockstep or run([lockstep, "--version"], timeout=20).status != 0:
        raise NotMeasured("no lockstep program: not built next to the sources, and --lockstep not given")
    gpus = session.facts["gpus"]
    version = session.nccl_version if session.options.nccl else int("%d%02d%02d" % tuple(torch[2]))
    ranks = min(gpus, 8) // 2 * 2
    environment = {}
    if ranks < 4:
        if version < MULTI_RANK:
            raise NotMeasured(f"{gpus} GPU, and NCCL {version} lets no two ranks share one (from {MULTI_RANK} on)")
        ranks, environment = 4, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    chosen = [name for name in FAULTS if not session.options.faults or name in session.options.faults.split(",")]
    folder = os.path.join(session.work, "faults")
    shutil.rmtree(folder, ignore_errors=True)
    with concurrent.futures.ThreadPoolExecutor(session.options.fault_jobs) as pool:
        jobs = {name: pool.submit(play, session, lockstep, os.path.abspath(folder), name, ranks, environment) for name in chosen}
        for name, job in jobs.items():
            try:
                seconds = job.result()
            except Failed as error:
                part.check(False, name, error)
                continue
            judge(lockstep, os.path.join(folder, name), name, seconds, part)
    part.line(PASS, "jobs", f"{ranks} ranks of PyTorch {torch[0]}, NCCL {version}, {'sharing one GPU' if environment else 'a GPU each'}, fault on "
              f"rank {RANK}")
    with tarfile.open(os.path.join(session.out, "faults.tar.gz"), "w:gz") as archive:
        archive.add(folder, "faults")


def play(session, lockstep, folder, name, ranks, environment):
    """Runs one job until it ends or no more dumps arrive. Returns the seconds that it took."""
    place = os.path.join(folder, name)
    os.makedirs(os.path.join(place, "fr"))
    env = session.torch_environment(None, **environment, TORCH_FR_BUFFER_SIZE="2000", TORCH_NCCL_TRACE_BUFFER_SIZE="2000", TORCH_NCCL_DUMP_ON_TIMEOUT="1",
                                    TORCH_FR_DUMP_TEMP_FILE=os.path.join(place, "fr", "rank_"),
                                    TORCH_NCCL_DEBUG_INFO_TEMP_FILE=os.path.join(place, "fr", "rank_"),
                                    LOCKSTEP_LIBRARY=session.recorder, LOCKSTEP_JOB=name)
    command = [lockstep, "run", "--out", os.path.join(place, "incident"), "-n", str(ranks), "--", session.setup.python,
               os.path.join(HERE, "torch_fault_job.py"), "--fault", name, "--rank", str(RANK), "--timeout", str(TIMEOUT)]
    begin = time.monotonic()
    with open(os.path.join(place, "out"), "w", encoding="utf-8") as out, open(os.path.join(place, "err"), "w", encoding="utf-8") as err:
        process = start(command, env, stdout=out, stderr=err)
        try:
            wait_for_end(process, place, ranks, begin, min(TIMEOUT + 60, session.left()))
        finally:
            stop(process)
    if not os.path.exists(os.path.join(place, "incident", "verdict.json")):
        with open(os.path.join(place, "err"), encoding="utf-8", errors="replace") as file:
            raise Failed(f"no verdict; the last words: {file.read()[-300:]}")
    return time.monotonic() - begin


def wait_for_end(process, place, ranks, begin, seconds):
    """Waits until the job has ended or no more dumps arrive, because a rank may sleep forever."""
    seen, since = 0, None
    while process.poll() is None and time.monotonic() - begin < seconds:
        there = len(glob.glob(os.path.join(place, "fr", "rank_*")))
        if there != seen:
            seen, since = there, time.monotonic()
        if since is not None and time.monotonic() - since > (5 if seen == ranks else 15):
            return
        time.sleep(0.2)


def stop(process):
    """Ends the job as a user would: first with SIGTERM, so that lockstep run writes the verdict."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
    finish(process, 5)


def judge(lockstep, place, name, seconds, part):
    kinds, verdicts, text = FAULTS[name]
    with open(os.path.join(place, "incident", "verdict.json"), encoding="utf-8") as file:
        verdict = json.load(file)
    description, found = describe(verdict)
    good = verdict["verdict"] in verdicts and right(found, kinds) and text in json.dumps(verdict)
    part.check(good, f"{name}, lockstep run", f"{description} ({seconds:.0f} s in all)")
    dumps = sorted(glob.glob(os.path.join(place, "fr", "rank_*")))
    if name in NO_DUMPS:
        return
    if not dumps:
        part.line(NOT_MEASURED, f"{name}, Flight Recorder dumps", "PyTorch wrote none")
        return
    for what, paths in (("Flight Recorder dumps alone", [os.path.join(place, "fr")]),
                        ("dumps and rings together", [os.path.join(place, "incident"), os.path.join(place, "fr")])):
        done = run([lockstep, "analyze", "--format", "json", *paths], timeout=60)
        try:
            description, found = describe(json.loads(done.out))
        except ValueError:
            part.check(False, f"{name}, {what}", done.why())
            continue
        # Dumps do not show why a rank is stuck. Without start times, they also do not show which GPU of a pair is stuck, so the rank or the pair is right.
        named = len(found) == 1 and RANK in found[0][1] and len(found[0][1]) <= (2 if name == "gpu-stall" else 1)
        part.check(named if what.startswith("Flight") else right(found, kinds), f"{name}, {what}", f"of {len(dumps)} ranks: {description}")


def describe(verdict):
    found = [(finding["kind"], finding["culprit_ranks"]) for finding in verdict["findings"]]
    summary = verdict["findings"][0]["summary"] if found else ""
    return f"{verdict['verdict']}: {'; '.join(f'{kind} {ranks}' for kind, ranks in found) or 'no finding'}: {summary}", found


def right(found, kinds):
    if not found:
        return not kinds or None in kinds
    return len(found) == 1 and found[0][0] in kinds and found[0][1] == [RANK]
