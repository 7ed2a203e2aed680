"""A small simulator of training jobs: what each rank's CPU thread issues, and what its GPU starts and completes.

Shares no code with tests/corpus, so that the benchmark does not depend on one model of a job. A rank has one CPU thread, one stream for computation, and
one stream for each group. An operation on a group's stream starts after earlier operations of the stream and after the computation that was queued before.
A collective completes on all members when each of them has started it with the same arguments. A batch of sends and receives completes when every partner
has started its side.

Times are nanoseconds since the epoch. All random choices come from the job's seed."""

import random

US, MS, S = 1_000, 1_000_000, 1_000_000_000
BEGIN = 1_790_000_000 * S


class Group:
    """A communicator. `name` is PyTorch's name; `members` are global ranks in member order."""

    def __init__(self, name, description, members):
        self.name, self.description, self.members = name, description, list(members)


class Step:
    """One action of a CPU thread. `what`: call, batch, host, compute, wait, or a fault: stall, exit, gpu_stall."""

    def __init__(self, what, group=None, **facts):
        self.what, self.group = what, group
        self.operation = facts.get("operation", "")
        self.elements = facts.get("elements", (0, 0))  # number of elements of input and output, per rank
        self.datatype = facts.get("datatype", "BFloat16")
        self.legs = facts.get("legs", ())  # parts of a batch: ("send" or "recv", global rank, elements)
        self.nanoseconds = facts.get("nanoseconds", 0)
        self.site = facts.get("site", ("train.py", 1, "step"))
        self.beside = facts.get("beside", False)  # computation continues during this operation

    def copy(self, **changes):
        other = Step(self.what, self.group)
        other.__dict__.update(self.__dict__, **changes)
        return other


class Job:
    """The groups, and each rank's program as a list of Step."""

    def __init__(self, ranks, family):
        self.ranks, self.family = ranks, family
        self.groups, self.programs = [], [[] for _ in range(ranks)]

    def add_group(self, description, members):
        self.groups.append(Group(str(len(self.groups)), description, members))
        return self.groups[-1]

    def groups_of(self, rank):
        return [group for group in self.groups if rank in group.members]


class Record:
    """One operation of one rank, as a recorder sees it. A time is None if the operation has not reached that point."""

    def __init__(self, step, created, sequence, p2p_sequence):
        self.step, self.created = step, created
        self.sequence, self.p2p_sequence = sequence, p2p_sequence
        self.started = self.completed = None
        self.waits_for = []  # tasks that must complete first
        self.is_compute = False


class Simulation:
    """Runs a job until nothing moves. Then `records` has the records of each rank in call order, and `at` the position of each CPU thread."""

    def __init__(self, job, seed, lost=None):
        """`lost` is the rank whose file is missing."""
        self.job, self.lost = job, lost
        self.random = random.Random(seed)
        ranks = range(job.ranks)
        self.records = [[] for _ in ranks]
        self.host_ns = [BEGIN + self.random.randrange(5 * MS) for _ in ranks]
        self.at = [0 for _ in ranks]  # index of each rank's next step
        self.ended = [None for _ in ranks]  # "exit", "stall", "done"
        self._gpu_stalled = set()
        self._queues = [{} for _ in ranks]  # the newest task of each stream, by group name; None is the computation's stream
        self._open = [[] for _ in ranks]  # tasks that have not completed
        self._counts = [{} for _ in ranks]
        self._met = {}  # (group, number) -> {rank: record}; (group, from, to, number) -> {"send": record, "recv": record}
        self._run()

    def _run(self):
        moved = True
        while moved:
            moved = False
            for rank in range(self.job.ranks):
                moved |= self._advance_host(rank)
                moved |= self._advance_gpu(rank)

    def _advance_host(self, rank):
        program, before = self.job.programs[rank], self.at[rank]
        while self.ended[rank] is None:
            if self.at[rank] == len(program):
                self.ended[rank] = "done"
                break
            step = program[self.at[rank]]
            if step.what == "wait":
                if any(task.completed is None for task in self._open[rank]):
                    break
                self.host_ns[rank] = max([self.host_ns[rank]] + [task.completed for task in self._open[rank]]) + 10 * US
                self._open[rank].clear()
            elif step.what in ("exit", "stall"):
                self.ended[rank] = step.what
                break
            elif step.what == "gpu_stall":
                self._gpu_stalled.add(rank)
            elif step.what == "host":
                self.host_ns[rank] += int(step.nanoseconds * self.random.uniform(0.9, 1.1))
            else:
                self._issue(rank, step)
            self.at[rank] += 1
        return self.at[rank] != before

    def _issue(self, rank, step):
        self.host_ns[rank] += self.random.randrange(8 * US, 30 * US)
        name = step.group.name if step.group else None
        counts = self._counts[rank].setdefault(name, {"collective": 0, "p2p": 0})
        record = Record(step, self.host_ns[rank], 0, 0)
        record.is_compute = step.what == "compute"
        if step.what == "call":
            counts["collective"] += 1
            self._met.setdefault((name, counts["collective"]), {})[rank] = record
        elif step.what == "batch":
            counts["p2p"] += 1
            for side, peer, _ in step.legs:
                pair = (rank, peer) if side == "send" else (peer, rank)
                number = counts[side, peer] = counts.get((side, peer), 0) + 1
                self._met.setdefault((name, *pair, number), {})[side] = record
                record.__dict__.setdefault("pairs", []).append((name, *pair, number))
        record.sequence, record.p2p_sequence = counts["collective"], counts["p2p"]
        queue = self._queues[rank]
        record.waits_for = [task for task in (queue.get(name), queue.get(None)) if task is not None]
        queue[name] = record
        if not record.is_compute and not step.beside:
            queue[None] = record  # the next computation uses the result
        self._open[rank].append(record)
        if not record.is_compute:
            self.records[rank].append(record)

    def _advance_gpu(self, rank):
        moved = False
        for record in self._open[rank]:
            if record.started is None and all(task.completed is not None for task in record.waits_for):
                if rank in self._gpu_stalled:
                    break
                record.started = max([record.created] + [task.completed for task in record.waits_for]) + 5 * US
                moved = True
            if record.started is not None and record.completed is None:
                moved |= self._try_to_complete(record)
        return moved

    def _try_to_complete(self, record):
        step = record.step
        if record.is_compute:
            record.completed = record.started + int(step.nanoseconds * self.random.uniform(0.95, 1.05))
            return True
        if step.what == "call":
            met = self._met[step.group.name, record.sequence]
            if len(met) < len(step.group.members):
                return False
            sides = list(met.values())
            if len({(side.step.operation, side.step.elements, side.step.datatype) for side in sides}) > 1:
                return False
        else:
            sides = []
            for pair in record.pairs:
                met = self._met[pair]
                if len(met) < 2:
                    return False
                sides += met.values()
        if any(side.started is None for side in sides):
            return False
        record.completed = max(side.started for side in sides) + 30 * US + max(step.elements) // 50
        return True
