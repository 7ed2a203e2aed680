"""Writes what a simulated job leaves behind, in the forms that users have. docs/results.md lists each reader's results for them.

Every writer takes a Simulation and a folder. TELLS lists what each form shows. A fault may be invisible in a form (see `identifiable`)."""

import json
import os
import pickle
import random

from simulate import MS, S, US

# starts: when an operation started on the GPU. arguments: sizes, kinds and types of calls. history: completed calls, too.
TELLS = {
    "pickle": {"completions", "arguments", "history"},
    "pickle, timed": {"completions", "arguments", "history", "starts"},
    "pickle, short": {"completions", "arguments"},
    "pickle, active": {"arguments"},
    "json": {"completions", "arguments", "history"},
    "nccl2": {"completions", "arguments", "history"},
    "torchcomms": {"completions", "arguments", "history", "starts"},
    "watchdog log": {"completions"},
    "nccl log": {"arguments", "history"},
    "ras": set(),
    "py-spy": set(),
}
SHORT = 12  # number of entries in a short record
FIRST_PROCESS = 4000  # PID of rank 0
LATE = 600 * S  # time from the hang to the dump


def identifiable(truth, form, simulation):
    """Returns whether the form contains what identifies the culprit."""
    if form == "pickle, short" and any(_oldest_is_gone(records) for records in simulation.records):
        return False
    if truth["fault"] == "gpu":
        return "starts" in TELLS[form]
    if truth.get("lost") in truth["culprits"] and truth["fault"] not in ("stopped", "exited"):
        return False
    if truth["fault"] in ("size", "operation", "datatype", "swapped", "wrong peer"):
        return "arguments" in TELLS[form]
    if truth["fault"] in ("skipped", "skipped by some", "added", "left early"):
        return "history" in TELLS[form] or (truth["fault"] == "left early" and form == "py-spy")
    return True


def _oldest_is_gone(records):
    """Returns whether the rank is in an operation that is too old for a short recording."""
    entries = [record.completed for record in records for _ in range(1 + len(record.step.legs))]
    return any(completed is None for completed in entries[:-SHORT])


def _frames(site):
    file, line, name = site
    return [{"name": name, "filename": "/srv/train/" + file, "line": line}, {"name": "main", "filename": "/srv/train/train.py", "line": 300}]


def _entry(rank, record, numbers, backend, timed, seen):
    """Returns the Flight Recorder entries of a call or batch. `seen` converts a time to the time at which the watchdog saw it; None stays None."""
    step, group = record.step, record.step.group
    begun = seen(record.started) if timed else None
    done = seen(record.completed)
    state = "completed" if done else "started" if begun else "scheduled"

    def entry(name, inputs, outputs, state, begun, done):
        numbers["op"] = numbers.get("op", 0) + 1
        numbers["op", group.name] = numbers.get(("op", group.name), 0) + 1
        made = {"record_id": numbers["op"] - 1, "pg_id": numbers["id", group.name], "process_group": (group.name, group.description),
                "thread_name": "pt_main_thread", "thread_id": "140", "collective_seq_id": record.sequence,
                "p2p_seq_id": record.p2p_sequence, "op_id": numbers["op", group.name], "profiling_name": backend + ":" + name,
                "time_created_ns": record.created, "input_sizes": inputs, "input_dtypes": [step.datatype] * len(inputs),
                "output_sizes": outputs, "output_dtypes": [step.datatype] * len(outputs), "state": state,
                "time_discovered_started_ns": begun, "time_discovered_completed_ns": done, "retired": bool(done), "timeout_ms": 600_000,
                "is_p2p": step.what == "batch", "frames": _frames(step.site)}
        if timed and record.completed is not None and done:
            made["duration_ms"] = (record.completed - record.started) / MS
        return made

    if step.what == "call":
        inputs, outputs = ([[n]] for n in step.elements)
        return [entry(step.operation, inputs, outputs, state, begun, done)]
    me = group.members.index(rank)
    members = [entry("%s %d%s%d" % (side, me, "->" if side == "send" else "<-", group.members.index(peer)), [[n]], [[n]], "scheduled",
                     None, None) for side, peer, n in step.legs]  # PyTorch records completion only for the end of a batch
    return members + [entry("coalesced", [], [], state, begun, done)]


def _number(record):
    return record.p2p_sequence if record.step.what == "batch" else record.sequence


def _document(simulation, rank, taken, backend="nccl", timed=False):
    chance = random.Random("%d.%d" % (taken, rank))
    numbers, status = {}, {}
    groups = simulation.job.groups_of(rank)
    for local, group in enumerate(groups):
        numbers["id", group.name] = local
        status[str(local)] = {"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1}

    def seen(moment):
        return None if moment is None else moment + chance.randrange(MS, 90 * MS)

    entries = []
    for record in simulation.records[rank]:
        made = _entry(rank, record, numbers, backend, timed, seen)
        number = _number(record)
        of = status[str(numbers["id", record.step.group.name])]
        of["last_enqueued_collective"] = number
        if made[-1]["time_discovered_started_ns"]:
            of["last_started_collective"] = number
        if made[-1]["state"] == "completed":
            of["last_completed_collective"] = number
        entries += made
    return {"version": "2.10", "comm_lib_version": "2.27.5", "pg_status": status, "entries": entries,
            "pg_config": {group.name: {"name": group.name, "desc": group.description, "ranks": str(group.members)} for group in groups}}


def _taken(simulation):
    return max(simulation.host_ns) + LATE


def _dumps(simulation, folder, write, suffix="", change=None, **options):
    """Writes one file per rank, except for ranks whose process has exited, and the rank whose file is lost."""
    for rank in range(simulation.job.ranks):
        if simulation.ended[rank] == "exit" or rank == simulation.lost:
            continue
        taken = _taken(simulation) + rank * 7 * MS
        document = _document(simulation, rank, taken, **options)
        if change:
            change(document)
        path = os.path.join(folder, "nccl_trace_rank_%d%s" % (rank, suffix))
        write(document, path)
        os.utime(path, ns=(taken + 50 * MS, taken + 50 * MS))


def _pickled(document, path):
    with open(path, "wb") as file:
        pickle.dump(document, file, protocol=2)


def write_pickle(simulation, folder):
    _dumps(simulation, folder, _pickled)


def write_timed(simulation, folder):
    _dumps(simulation, folder, _pickled, timed=True)


def write_short(simulation, folder):
    def change(document):
        document["entries"] = document["entries"][-SHORT:]
    _dumps(simulation, folder, _pickled, change=change)


def write_active(simulation, folder):
    def change(document):
        document["entries"] = [entry for entry in document["entries"] if entry["state"] != "completed"]
    _dumps(simulation, folder, _pickled, change=change)


def write_json(simulation, folder):
    """Writes PyTorch's JSON form: no stacks, counters as text, 0 for an unknown time, no list of entries if it is empty."""
    def write(document, path):
        for entry in document["entries"]:
            del entry["frames"]
            for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                entry[key] = entry[key] or 0
        document["pg_status"] = {name: {key: str(number) for key, number in of.items()} for name, of in document["pg_status"].items()}
        if not document["entries"]:
            del document["entries"]
        with open(path, "w") as file:
            json.dump(document, file)
    _dumps(simulation, folder, write, suffix=".json")


def write_nccl2(simulation, folder):
    """Writes dumps of PyTorch's nccl2 backend, whose hook counts operations from 0."""
    def change(document):
        for entry in document["entries"]:
            entry["op_id"] -= 1
    _dumps(simulation, folder, _pickled, change=change, backend="nccl2")


def write_torchcomms(simulation, folder):
    """Writes dumps of torchcomms: one counter for all operations of a rank, no pg_status, and groups named after their communicators."""
    def change(document):
        names = {name: "%s_%s" % (of["desc"], name) for name, of in document["pg_config"].items()}
        document["pg_config"] = {names[name]: {"name": names[name], "desc": "ncclx", "ranks": of["ranks"]}
                                 for name, of in document["pg_config"].items()}
        document["pg_status"] = {}
        for entry in document["entries"]:
            entry["process_group"] = (names[entry["process_group"][0]], "ncclx")
            entry["op_id"] = entry["record_id"]
            entry["pg_id"] = 0
    _dumps(simulation, folder, _pickled, change=change, backend="ncclx", timed=True)


OPERATIONS = {"all_reduce": "ALLREDUCE", "broadcast": "BROADCAST", "_all_gather_base": "_ALLGATHER_BASE",
              "_reduce_scatter_base": "_REDUCE_SCATTER_BASE", "all_to_all": "ALLTOALL_BASE"}


def write_watchdog(simulation, folder):
    """Writes what PyTorch's watchdogs print: which ranks' oldest collective timed out, and the state of their groups."""
    lines = []
    for rank in range(simulation.job.ranks):
        if simulation.ended[rank] == "exit" or rank == simulation.lost:
            continue
        late = [record for record in simulation.records[rank] if record.completed is None]
        if not late:
            continue
        oldest, group = late[0], late[0].step.group
        p2p = oldest.step.what == "batch"
        of = [record for record in simulation.records[rank] if record.step.group is group and record.step.what == oldest.step.what]
        head = "[rank%d]:[E1125 10:%02d:01.%06d ProcessGroupNCCL.cpp:" % (rank, rank % 60, rank)
        me = group.members.index(rank)
        lines.append(head + "632] [Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=%d, "
                     "NumelOut=%d, Timeout(ms)=600000) ran for 600%03d milliseconds before timing out." %
                     (me, _number(oldest), "COALESCED" if p2p else OPERATIONS[oldest.step.operation], *oldest.step.elements, rank))
        completed = [_number(record) for record in of if record.completed is not None]
        lines.append(head + "2268] [PG ID %s PG GUID %s(%s) Rank %d] Exception (either an error or timeout) detected by watchdog at work: "
                     "%d, last enqueued work: %d, last completed work: %d" %
                     (simulation.job.groups_of(rank).index(group), group.name, group.description, me, _number(oldest),
                      _number(of[-1]), max(completed, default=-1)))
    with open(os.path.join(folder, "job.log"), "w") as file:
        file.write("".join(line + "\n" for line in lines))


NCCL_CALLS = {"all_reduce": "AllReduce", "broadcast": "Broadcast", "_all_gather_base": "AllGather", "_reduce_scatter_base": "ReduceScatter"}
NCCL_TYPES = {"Float": 7, "Half": 6, "BFloat16": 9, "Long": 4}


def _nccl_calls(rank, record):
    """Returns (name, count, peer or root) of each NCCL call behind a PyTorch call. `count` is one member's part."""
    step = record.step
    members, sizes = step.group.members, step.elements
    if step.what == "batch":
        return [("Send" if side == "send" else "Recv", n, members.index(peer)) for side, peer, n in step.legs]
    if step.operation == "all_to_all":
        part = sizes[0] // len(members)
        return [(name, part, member) for member in range(len(members)) for name in ("Send", "Recv")]
    return [(NCCL_CALLS[step.operation], min(sizes), 0)]


def write_nccl_log(simulation, folder):
    """Writes the output of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL: all ranks in one file with srun's labels, eight ranks per host."""
    lines = []  # (when, text)
    for rank in range(simulation.job.ranks):
        head = "%d: host%d:%d:%d [%d] NCCL INFO " % (rank, rank // 8, FIRST_PROCESS + rank, FIRST_PROCESS + 500 + rank, rank % 8)
        counts = {}
        for group in simulation.job.groups_of(rank):
            number = simulation.job.groups.index(group)
            lines.append((0, head + "ncclCommInitRankConfig comm 0x%x rank %d nranks %d cudaDev %d nvmlDev %d busId %d000 commId 0x%x - Init "
                          "COMPLETE" % (0x55d000000000 + 4096 * number + rank, group.members.index(rank), len(group.members), rank % 8,
                                        rank % 8, rank % 8 + 1, 0x8f3a000000000000 + number)))
        for record in simulation.records[rank]:
            group = record.step.group
            number = simulation.job.groups.index(group)
            for name, count, root in _nccl_calls(rank, record):
                lines.append((record.created, head + "%s: opCount %x sendbuff 0x7f0000000000 recvbuff 0x7f0000800000 count %d datatype %d op 0 "
                              "root %d comm 0x%x [nranks=%d] stream 0x55d0000000a0" %
                              (name, counts.get(number, 0), count, NCCL_TYPES[record.step.datatype], root,
                               0x55d000000000 + 4096 * number + rank, len(group.members))))
            counts[number] = counts.get(number, 0) + 1
    with open(os.path.join(folder, "job.log"), "w") as file:
        file.write("".join(text + "\n" for _, text in sorted(lines, key=lambda line: line[0])))


def _ras_report(simulation):
    """Returns one report of ncclras. It lists communicators whose members launched different numbers of operations."""
    groups = [group for group in simulation.job.groups if len(group.members) > 1]
    rows = "".join("%5d%10d%11d%10d%10d%10d  RUNNING  %s\n" % (i, 1, 1, len(g.members), len(g.members), len(g.members), "OK")
                   for i, g in enumerate(groups))
    text = ("NCCL version 2.27.5 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 13000\n\nCommunicators... (0.00s)\n"
            "=============\n\nGroup     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors\n"
            "    #  in group   per comm  per node  per comm  in group\n" + rows + "\nErrors\n======\n\n\nWarnings\n========\n\n")
    for i, group in enumerate(groups):
        launched = {member: sum(record.step.group is group and record.step.what == "call" for record in simulation.records[rank])
                    for member, rank in enumerate(group.members)}
        counts = sorted(set(launched.values()), key=lambda count: -sum(value == count for value in launched.values()))
        if len(counts) < 2:
            continue
        text += "#%d-0 (%016x) MISMATCH\n  Communicator ranks have different collective operation counts\n" % (i, 0x27a079b828ff0000 + i)
        for count in counts:
            who = [member for member, value in launched.items() if value == count]
            line = "  %d ranks have launched up to operation %d" % (len(who), count)
            tail = " -- GPU %d managed by process %d on node host1"
            if len(who) == 1:
                line = "  Rank %d has launched up to operation %d" % (who[0], count) + tail % (group.members[who[0]], FIRST_PROCESS + group.members[who[0]])
            text += line + "\n"
            if len(who) > 1 and count != counts[0]:
                text += "".join("  Rank %d%s\n" % (member, tail % (group.members[member], FIRST_PROCESS + group.members[member])) for member in who)
        text += "\n"
    return text


def write_ras(simulation, folder):
    """Writes two reports in one file, as if they were some time apart."""
    with open(os.path.join(folder, "ras.txt"), "w") as file:
        file.write(2 * _ras_report(simulation))


def write_stacks(simulation, folder):
    """Writes what `py-spy dump` prints, one file per rank. Most processes wait for their GPU; the culprit may do something else."""
    wait = ["synchronize (torch/cuda/__init__.py:1040)", "step (/srv/train/train.py:310)", "main (/srv/train/train.py:300)"]
    for rank in range(simulation.job.ranks):
        ended = simulation.ended[rank]
        if ended == "exit" or rank == simulation.lost:
            continue
        stack = wait
        if ended == "stall":
            stack = ["read (/srv/train/data.py:77)", "__next__ (/srv/train/data.py:41)"] + wait[1:]
        elif ended == "done":
            stack = ["save (/srv/train/checkpoint.py:120)", "main (/srv/train/train.py:320)"]
        with open(os.path.join(folder, "rank_%d.txt" % rank), "w") as file:
            file.write("Process %d: python3 /srv/train/train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread %d (%s): \"MainThread\"\n" %
                       (FIRST_PROCESS + rank, FIRST_PROCESS + rank, "idle" if ended == "stall" else "active"))
            file.write("".join("    %s\n" % frame for frame in stack + ["<module> (/srv/train/train.py:330)"]))


WRITERS = {"pickle": write_pickle, "pickle, timed": write_timed, "pickle, short": write_short, "pickle, active": write_active,
           "json": write_json, "nccl2": write_nccl2, "torchcomms": write_torchcomms, "watchdog log": write_watchdog,
           "nccl log": write_nccl_log, "ras": write_ras, "py-spy": write_stacks}
