"""A PyTorch training loop on NCCL, for measurements: DistributedDataParallel with real matrix products, and small
all-reduces.
torch_job.py [--steps N] [--iterations N] latency dp graph
Runs one rank unless RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say otherwise. Prints what nccl_job prints.
"""
import argparse
import inspect
import json
import os
import time


def show(what, samples, **more):
    print(json.dumps(dict(what=what, us=[round(s, 3) for s in samples], **more)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("what", nargs="+", choices=["latency", "dp", "graph"])
    options = parser.parse_args()

    import torch
    import torch.distributed as dist

    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29571")):
        os.environ.setdefault(name, value)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    named = {"device_id": device} if "device_id" in inspect.signature(dist.init_process_group).parameters else {}
    dist.init_process_group("nccl", **named)
    world = dist.get_world_size()
    ones = torch.ones(1024, device=device)
    dist.all_reduce(ones)
    torch.cuda.synchronize()
    assert ones[0].item() == world

    if "latency" in options.what:
        for numel in (2, 16384):
            small = torch.zeros(numel, device=device)
            samples = []
            for i in range(-100, options.iterations):
                begin = time.perf_counter()
                dist.all_reduce(small)
                torch.cuda.synchronize()
                if i >= 0:
                    samples.append((time.perf_counter() - begin) * 1e6)
            show("latency", samples, bytes=numel * 4)

    if "dp" in options.what:
        torch.manual_seed(1)
        layers = []
        for _ in range(options.layers):
            layers += [torch.nn.Linear(options.width, options.width, bias=False, dtype=torch.bfloat16), torch.nn.ReLU()]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(device), device_ids=[device.index],
                                                          bucket_cap_mb=16)
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
        batch = torch.randn(options.batch, options.width, device=device, dtype=torch.bfloat16)
        samples = []
        for step in range(-10, options.steps):
            begin = time.perf_counter()
            optimiser.zero_grad()
            model(batch).float().square().mean().backward()
            optimiser.step()
            torch.cuda.synchronize()
            if step >= 0:
                samples.append((time.perf_counter() - begin) * 1e6)
        show("dp", samples, operations=options.layers)

    if "graph" in options.what:
        # Captures the step as PyTorch users do: warm-up on a side stream, capture with torch.cuda.graph, replay.
        counter = torch.zeros(1, device=device)
        data = torch.ones(4096, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                dist.all_reduce(data)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        data.fill_(1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            counter += 1
            dist.all_reduce(data)
            dist.all_reduce(data)
        samples = []
        for _ in range(411):
            data.fill_(1)
            begin = time.perf_counter()
            graph.replay()
            torch.cuda.synchronize()
            samples.append((time.perf_counter() - begin) * 1e6)
        show("graph", samples, operations=2, ok=counter.item() == 411 and data[0].item() == world * world)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
