"""Families of training jobs with different groups and orders of calls. `make` chooses sizes from a seed."""

import random

from simulate import MS, US, Job, Step


def call(job, rank, group, operation, count, site, datatype="BFloat16", beside=False):
    """Adds an operation. `count` is the number of elements per rank on the operation's smaller side."""
    size = len(group.members)
    elements = {"_all_gather_base": (count, count * size), "_reduce_scatter_base": (count * size, count)}.get(operation, (count, count))
    job.programs[rank].append(Step("call", group, operation=operation, elements=elements, datatype=datatype, site=site, beside=beside))


def batch(job, rank, group, legs, site):
    if legs:
        job.programs[rank].append(Step("batch", group, legs=tuple(legs), site=site))


def compute(job, rank, nanoseconds):
    job.programs[rank].append(Step("compute", nanoseconds=nanoseconds))


def host(job, rank, nanoseconds):
    job.programs[rank].append(Step("host", nanoseconds=nanoseconds))


def wait(job, rank):
    job.programs[rank].append(Step("wait"))


def data_parallel(choose):
    """Replicas of one model. Gradient buckets are reduced while the next bucket is computed; some steps have a metric or a checkpoint."""
    ranks, buckets = choose.choice((4, 8, 16)), choose.randrange(2, 6)
    job = Job(ranks, "data parallel")
    world = job.add_group("default_pg", range(ranks))
    for step in range(choose.randrange(4, 9)):
        for rank in range(ranks):
            host(job, rank, 2 * MS)
            compute(job, rank, 3 * MS)
            for bucket in range(buckets):
                compute(job, rank, 600 * US)
                call(job, rank, world, "all_reduce", 1_000_000 + 4096 * bucket, ("ddp.py", 210 + bucket, "reduce_bucket"), "Float", True)
            if step % 3 == 2:
                call(job, rank, world, "all_reduce", 4, ("metrics.py", 31, "mean_loss"), "Float")
            if step % 4 == 3:
                call(job, rank, world, "broadcast", 16, ("checkpoint.py", 88, "agree_on_name"), "Long")
            wait(job, rank)
    return job


def sharded(choose):
    """Sharded parameters, in one or more replicas."""
    shards, replicas, layers = choose.choice((4, 8)), choose.choice((1, 2)), choose.randrange(2, 5)
    job = Job(shards * replicas, "sharded")
    world = job.add_group("default_pg", range(job.ranks))
    inner = [job.add_group("shard", range(r * shards, (r + 1) * shards)) for r in range(replicas)]
    outer = [job.add_group("replicate", range(s, job.ranks, shards)) for s in range(shards)] if replicas > 1 else []
    for _ in range(choose.randrange(3, 7)):
        for rank in range(job.ranks):
            mine = inner[rank // shards]
            host(job, rank, MS)
            for layer in range(layers):
                call(job, rank, mine, "_all_gather_base", 50_000 + layer, ("fsdp.py", 400 + layer, "unshard"))
                compute(job, rank, 900 * US)
            for layer in reversed(range(layers)):
                compute(job, rank, 1500 * US)
                call(job, rank, mine, "_reduce_scatter_base", 50_000 + layer, ("fsdp.py", 500 + layer, "reduce_gradient"), "Float", True)
                if outer:
                    call(job, rank, outer[rank % shards], "all_reduce", 50_000 + layer, ("fsdp.py", 540, "reduce_replicas"), "Float")
            call(job, rank, world, "all_reduce", 1, ("optim.py", 77, "clip_norm"), "Float")
            wait(job, rank)
    return job


def pipeline(choose):
    """Pipeline stages pass activations forward and gradients back. Each stage is tensor parallel and replicated."""
    tensor, stages, replicas = choose.choice((1, 2)), choose.choice((2, 4)), choose.choice((1, 2))
    job = Job(tensor * stages * replicas, "pipeline")
    place = {(s, d, t): (s * replicas + d) * tensor + t for s in range(stages) for d in range(replicas) for t in range(tensor)}
    world = job.add_group("default_pg", range(job.ranks))
    lines = {(d, t): job.add_group("pipeline", [place[s, d, t] for s in range(stages)]) for d in range(replicas) for t in range(tensor)}
    slices = {(s, d): job.add_group("tensor", [place[s, d, t] for t in range(tensor)])
              for s in range(stages) for d in range(replicas)} if tensor > 1 else {}
    copies = {(s, t): job.add_group("data", [place[s, d, t] for d in range(replicas)])
              for s in range(stages) for t in range(tensor)} if replicas > 1 else {}
    micro = choose.randrange(2, 5)
    for _ in range(choose.randrange(3, 6)):
        for (s, d, t), rank in place.items():
            line, before, after = lines[d, t], place.get((s - 1, d, t)), place.get((s + 1, d, t))

            def layer(site):
                if slices:
                    call(job, rank, slices[s, d], "all_reduce", 8192, ("layers.py", site, "row_parallel"))
                compute(job, rank, 800 * US)

            host(job, rank, MS)
            for _ in range(micro):
                batch(job, rank, line, [("recv", before, 4096)] if before is not None else [], ("schedule.py", 120, "recv_forward"))
                layer(60)
                batch(job, rank, line, [("send", after, 4096)] if after is not None else [], ("schedule.py", 128, "send_forward"))
            for _ in range(micro):
                batch(job, rank, line, [("recv", after, 4096)] if after is not None else [], ("schedule.py", 140, "recv_backward"))
                layer(90)
                batch(job, rank, line, [("send", before, 4096)] if before is not None else [], ("schedule.py", 148, "send_backward"))
            if copies:
                call(job, rank, copies[s, t], "all_reduce", 200_000, ("optim.py", 40, "reduce_gradients"), "Float")
            call(job, rank, world, "all_reduce", 1, ("optim.py", 52, "found_inf"), "Float")
            wait(job, rank)
    return job


def experts(choose):
    """Experts are distributed over ranks. Tokens go to all experts and come back; then the dense part is reduced."""
    size, groups = choose.choice((4, 8)), choose.choice((1, 2))
    job = Job(size * groups, "experts")
    world = job.add_group("default_pg", range(job.ranks))
    spread = [job.add_group("expert", range(g * size, (g + 1) * size)) for g in range(groups)]
    for _ in range(choose.randrange(3, 7)):
        for rank in range(job.ranks):
            host(job, rank, MS)
            for layer in range(2):
                call(job, rank, spread[rank // size], "all_to_all", size * 1024, ("moe.py", 200 + layer, "dispatch"))
                compute(job, rank, MS)
                call(job, rank, spread[rank // size], "all_to_all", size * 1024, ("moe.py", 260 + layer, "combine"))
            call(job, rank, world, "all_reduce", 300_000, ("optim.py", 40, "reduce_dense"), "Float")
            wait(job, rank)
    return job


FAMILIES = {"data parallel": data_parallel, "sharded": sharded, "pipeline": pipeline, "experts": experts}


def make(family, seed):
    return FAMILIES[family](random.Random(seed))
