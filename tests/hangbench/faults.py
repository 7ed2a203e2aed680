"""Breaks a job in one way, and states the truth.

A truth has: `fault`; `culprits`, the ranks at fault (empty for a healthy job); `accept`, sets of ranks that are equally right."""

import random

from simulate import Step

CODE = ("skipped", "skipped by some", "added", "size", "operation", "datatype", "swapped", "wrong peer")
FAULTS = ("none", "stopped", "exited", "left early", "gpu") + CODE


def _calls(job, rank):
    """Returns the positions of the rank's calls from the second step on. A short recording may not contain earlier calls."""
    program = job.programs[rank]
    first = next(i for i, step in enumerate(program) if step.what == "wait") + 1
    return [i for i in range(first, len(program)) if program[i].what == "call" and len(program[i].group.members) > 1]


def _two(truth, group):
    """Returns the truth. In a group of two members, it is unclear which one is wrong, so the truth accepts both."""
    if len(group.members) == 2:
        truth["accept"].append(sorted(group.members))
    return truth


def _wrong_peer(job, rank, choose, truth):
    """Changes the peer of one message to a different member of the group."""
    program = job.programs[rank]
    places = [i for i, step in enumerate(program) if step.what == "batch" and len(step.group.members) > 2 and len(step.legs) == 1]
    if not places:
        return None
    at = choose.choice(places[len(places) // 2:])
    side, peer, elements = program[at].legs[0]
    others = [member for member in program[at].group.members if member not in (rank, peer)]
    program[at] = program[at].copy(legs=((side, choose.choice(others), elements),))
    return truth


def _skip_by_some(job, step, at, rank, choose, truth):
    """A minority of the group skips the same call of the same step."""
    members = step.group.members
    number = sum(other.group is step.group and other.what == "call" for other in job.programs[rank][:at])
    few = sorted({rank, *choose.sample(members, max(1, (len(members) - 1) // 3))})
    if len(few) < 2 or 2 * len(few) >= len(members):
        return None
    for who in few:
        places = [i for i, other in enumerate(job.programs[who]) if other.group is step.group and other.what == "call"]
        del job.programs[who][places[number]]
    truth["culprits"] = few
    return truth


def break_job(job, fault, seed):
    """Changes the program of one rank, or of some. Returns the truth, or None if the fault is impossible in this job."""
    choose = random.Random(seed)
    rank = choose.randrange(job.ranks)
    truth = {"fault": fault, "culprits": [] if fault == "none" else [rank], "accept": []}
    places = _calls(job, rank)
    if fault == "none":
        return truth
    if not places:
        return None
    at = choose.choice(places)
    program = job.programs[rank]
    step = program[at]
    if fault in ("stopped", "exited", "gpu"):
        program.insert(at, Step({"stopped": "stall", "exited": "exit", "gpu": "gpu_stall"}[fault]))
        return truth
    if fault == "left early":
        waits = [i for i in range(len(program)) if program[i].what == "wait"]
        if len(waits) < 3:
            return None
        del program[waits[-2] + 1:]
    elif fault == "wrong peer":
        return _wrong_peer(job, rank, choose, truth)
    elif fault == "skipped by some":
        return _skip_by_some(job, step, at, rank, choose, truth)
    elif fault == "skipped":
        del program[at]
    elif fault == "added":
        program.insert(at, step.copy(site=("debug.py", 12, "log_norm"), beside=False))
    elif fault == "size":
        program[at] = step.copy(elements=tuple(n + 8 * len(step.group.members) for n in step.elements))
    elif fault == "operation":
        other = {"all_reduce": "broadcast", "broadcast": "all_reduce"}.get(step.operation)
        if other is None:
            return None
        program[at] = step.copy(operation=other)
    elif fault == "datatype":
        program[at] = step.copy(datatype="Half" if step.datatype != "Half" else "Float")
    elif fault == "swapped":
        later = next((i for i in places if i > at and program[i].what == "call" and
                      (program[i].group is not step.group or program[i].operation != step.operation)), None)
        if later is None or any(program[i].what == "wait" for i in range(at, later)):
            return None
        program[at], program[later] = program[later], program[at]
    return _two(truth, step.group)
