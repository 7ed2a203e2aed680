"""Plays those corpus scenarios that real processes can show: trainsim under `lockstep run` with the stand-in libraries. Writes the truth of a case before
the job starts, from only the scenario, the rank and the communicator."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../integration"))
from support import kill_marked  # noqa: E402

SHAPES = {8: "tp2-cp1-pp2-dp2-ep1-vpp1", 16: "tp2-cp1-pp2-dp4-ep1-vpp1"}
LONG_PIPELINES = {8: "tp1-cp1-pp4-dp2-ep1-vpp1", 16: "tp2-cp1-pp4-dp2-ep1-vpp1"}
EXPERTS = {8: "tp2-cp1-pp1-dp4-ep4-vpp1", 16: "tp2-cp1-pp2-dp4-ep4-vpp1"}
SCALES = tuple(SHAPES)
MARK = "LOCKSTEP_PLAYED_CASE"  # every process of a case has this environment variable
ALL = ("world", "tp", "dp", "pp")
COLLECTIVE = ("world", "tp", "dp")
LARGE = ("--elements", "65536")  # operations with several chunks, too large for a send buffer
STALLED = ("HOST_STALL", "RANK_NOT_ARRIVED")
STEP = 20


def size_of(layout):
    """Returns {"tp": 2, ..} for "tp2-cp1-pp2-.."."""
    return {name: int(size) for name, size in re.findall(r"([a-z]+)(\d+)", layout)}


class Scenario:
    """One way to play a scenario. `kind` is trainsim's fault; `roles` are the possible roles of the faulty communicator."""

    def __init__(self, name, kind=None, kinds=(), verdicts=("HUNG",), roles=(), fixed="", arguments=(), run=(), layouts=None,
                 healthy=False, stage=None, environment=None):
        self.name, self.kind, self.kinds, self.verdicts = name, kind, kinds, verdicts
        self.roles, self.fixed, self.arguments, self.run = roles, fixed, arguments, run
        self.layouts = layouts or SHAPES
        self.healthy = healthy
        self.environment = environment or {}
        self.stage = stage  # the culprit's pipeline stage; -1: the last, None: any

    def choose(self, ranks, seed):
        """Chooses culprits and role from the seed."""
        dice = random.Random(seed)
        sizes = size_of(self.layouts[ranks])
        rank = dice.randrange(ranks)
        a_stage = sizes["tp"] * sizes["dp"]
        if self.stage is not None:
            rank = rank % a_stage + a_stage * (self.stage % sizes["pp"])
        return [rank], dice.choice(self.roles) if self.roles else ""

    def words(self, ranks, role, layout):
        """Returns trainsim's arguments."""
        words = []
        if self.kind:
            place = f",comm={role}" if role and self.roles else ""
            for rank in ranks:
                words += ["--fault", f"rank={rank},step={STEP},kind={self.kind}{place}{self.fixed}"]
        return words + [word.format(rank=ranks[0]) for word in self.arguments]

    def truth(self, ranks, role, layout):
        return {"culprit_ranks": [] if self.healthy else sorted(ranks), "kinds_allowed": list(self.kinds),
                "verdicts_allowed": list(self.verdicts), "communicator": role, "set_allowed": [], "second_fault": None}


class Pair(Scenario):
    """The culprits are two neighbors in a pipeline."""

    def choose(self, ranks, seed):
        sizes = size_of(self.layouts[ranks])
        a_stage = sizes["tp"] * sizes["dp"]
        rank = random.Random(seed).randrange(a_stage * (sizes["pp"] - 1))
        return [rank, rank + a_stage], ""


class Two(Scenario):
    """Plays two independent faults, in different tensor groups."""

    def choose(self, ranks, seed):
        dice = random.Random(seed)
        first = dice.randrange(ranks)
        return [first, (first + 2 + dice.randrange(ranks - 4)) % ranks], "tp"

    def words(self, ranks, role, layout):
        return ["--fault", f"rank={ranks[0]},step={STEP},kind=kill,comm=tp", "--fault", f"rank={ranks[1]},step={STEP},kind=stop,comm=tp"]

    def truth(self, ranks, role, layout):
        both = {"culprit_ranks": [ranks[1]], "kinds_allowed": ["HOST_STALL"]}
        return {"culprit_ranks": [ranks[0]], "kinds_allowed": ["RANK_DEAD"], "verdicts_allowed": list(self.verdicts),
                "communicator": role, "set_allowed": [], "second_fault": both}


def healthy(name, *arguments, **more):
    return Scenario(name, verdicts=("HEALTHY",), healthy=True, arguments=arguments, **more)


CRASH = ("CRASHED", "HUNG")
DIFFER = ("DESYNC", "HUNG")
LEFT = ("RANK_DEAD", "RANK_NOT_ARRIVED", "HOST_STALL")
SCENARIOS = {
    1: Scenario("one rank skips a collective", "skip", ("RANK_NOT_ARRIVED",), roles=ALL),
    2: Scenario("one rank issues one too many", "extra", ("RANK_AHEAD",), DIFFER, roles=ALL),
    3: Scenario("another operation", "wrong-op", ("MISMATCH_KIND",), DIFFER, roles=COLLECTIVE),
    4: Scenario("another count", "wrong-count", ("MISMATCH_COUNT",), DIFFER, roles=("tp", "dp"), arguments=LARGE),
    5: Scenario("another reduction", "wrong-reduction", ("MISMATCH_REDUCTION",), ("DESYNC",), roles=COLLECTIVE),
    6: Scenario("sizes of an all-to-all that do not fit", "wrong-count",
                ("MISMATCH_SPLITS", "MISMATCH_COUNT", "P2P_UNMATCHED"), DIFFER, fixed=",comm=ep,op=alltoall",
                arguments=(*LARGE, "--ep", "4"), layouts=EXPERTS),
    7: Scenario("the data loader waits", "stall-loader", STALLED),
    8: Scenario("one rank writes a checkpoint without end", None, STALLED, ("HUNG", "LATE"),
                arguments=("--checkpoint", f"step={STEP},seconds=600,rank={{rank}}"), run=("--hang-after", "15")),
    9: Scenario("one rank's host computes without end", "spin-host", STALLED, ("HUNG", "LATE"), roles=ALL, run=("--hang-after", "15")),
    10: healthy("uneven compilation", "--slow-start", "8"),
    11: Scenario("an exception is swallowed", "exception", LEFT, CRASH, roles=ALL),
    12: Scenario("one rank's epoch ends early", "exception", LEFT, CRASH, fixed=",comm=world,op=broadcast"),
    13: Scenario("killed", "kill", ("RANK_DEAD",), CRASH, roles=ALL),
    14: Scenario("segmentation fault", "segv", ("RANK_DEAD",), CRASH, roles=ALL),
    15: Scenario("stopped", "stop", ("HOST_STALL",), roles=ALL),
    16: Scenario("a kernel that does not end", "stall-gpu", ("GPU_STALL",), roles=ALL),
    21: Scenario("a tensor rank of the last stage stalls the whole job", "stall-host", STALLED, fixed=",comm=tp", stage=-1),
    22: Scenario("two communicators in opposite order", "swap-order", ("ORDER_INVERSION", "DEADLOCK_CYCLE"), DIFFER),
    24: Pair("both send first", "no-group", ("DEADLOCK_CYCLE", "P2P_UNMATCHED"), DIFFER, arguments=LARGE),
    25: Scenario("the wrong peer", "wrong-peer", ("P2P_UNMATCHED",), DIFFER, arguments=LARGE, layouts=LONG_PIPELINES, stage=1),
    26: Scenario("a group left open", "open-group", ("GROUP_LEFT_OPEN",), ("DESYNC", "HUNG", "CRASHED"), roles=ALL),
    27: Scenario("split with another colour", "wrong-color", ("SPLIT_MISMATCH",), DIFFER, roles=("tp", "dp")),
    28: Scenario("never comes to the initialization", "never-init", ("INIT_INCOMPLETE", "RANK_NO_DATA", *STALLED),
                 ("HUNG", "INCOMPLETE_DATA"), roles=("world", "pp")),
    35: healthy("another rank is slow in every step", "--pace-ms", "5", "--jitter", "20", "--steps", "100"),
    36: healthy("pipeline bubbles, idle by design", layouts=LONG_PIPELINES),
    38: healthy("a group aborted and created again", "--recreate", str(STEP)),
    39: Two("two independent faults", verdicts=CRASH),
    # Each reduce-scatter of the job takes seven seconds, and one is always in flight.
    40: healthy("a long but legal operation", "--steps", "2", "--layers", "1", "--micro-batches", "1", *LARGE,
                layouts={8: "tp1-cp1-pp1-dp8-ep1-vpp1", 16: "tp1-cp1-pp1-dp16-ep1-vpp1"}, environment={"STANDIN_CHUNK_DELAY_US": "1000000"}),
}


def arguments_of(number, ranks, culprits, role):
    scenario = SCENARIOS[number]
    layout = scenario.layouts[ranks]
    sizes = size_of(layout)
    return ["--tp", str(sizes["tp"]), "--pp", str(sizes["pp"]), "--dp", str(sizes["dp"]), "--steps", "200",
            *scenario.words(culprits, role, layout)]


def command_of(build, number, ranks, culprits, role, folder, marks):
    """`marks` is a value of lockstep-corpus --marks; "timed" means GPU events."""
    return [os.path.join(build, "bin/lockstep"), "run", "-n", str(ranks), "--gpu", "events" if marks == "timed" else marks,
            "--out", os.path.join(folder, "data"), "--kill-on-hang", *SCENARIOS[number].run,
            "--", os.path.join(build, "bin/trainsim"), *arguments_of(number, ranks, culprits, role)]


def run_job(build, number, ranks, culprits, role, folder, timeout=150, marks="full"):
    """Plays the scenario into folder/data. Returns why that failed, or ""."""
    scenario = SCENARIOS[number]
    command = command_of(build, number, ranks, culprits, role, folder, marks)
    rings = tempfile.mkdtemp(prefix="lockstep-played-", dir="/dev/shm")
    mark = os.path.basename(rings)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LOCKSTEP_")}
    environment.update({"LD_LIBRARY_PATH": os.path.join(build, "standin/lib"), "LOCKSTEP_DIR": rings, "TMPDIR": folder, MARK: mark,
                        **scenario.environment})
    with open(os.path.join(folder, "command"), "w") as file:
        file.write(" ".join(command) + "\n")
    try:
        with open(os.path.join(folder, "log"), "wb") as log:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                # lockstep run writes the incident when it receives SIGTERM.
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
    finally:
        kill_marked(MARK, mark)
        shutil.rmtree(rings, ignore_errors=True)
    if not os.path.isdir(os.path.join(folder, "data")):
        with open(os.path.join(folder, "log"), errors="replace") as log:
            return f"lockstep run left nothing: {log.read().strip()[-200:]}"
    return ""


def generate(build, number, ranks, seed, folder, timeout=150, marks="full"):
    """Writes folder/data and folder/truth.json, like lockstep-corpus. Returns why that failed, or ""."""
    scenario = SCENARIOS[number]
    culprits, role = scenario.choose(ranks, seed)
    layout = scenario.layouts[ranks]
    truth = {"scenario": number, "name": scenario.name, "ranks": ranks, "seed": seed, "format": "run", "variant": "plain",
             "layout": layout, "identifiable": True, "needs": "", "healthy": scenario.healthy, "culprit_hosts": [],
             **scenario.truth(culprits, role, layout)}
    with open(os.path.join(folder, "truth.json"), "w") as file:
        json.dump(truth, file)
    return run_job(build, number, ranks, culprits, role, folder, timeout, marks)
