"""Parts that run entire jobs: every way of loading the recorder, hangs, graphs."""
import json
import os
import shutil
import tempfile
import time

from machine import HERE, Failed, NotMeasured, end, run
from results import FAIL, NOT_MEASURED
from session import MARKS, MULTI_RANK
from stats import median

SMALL = ["--gemm", "64", "--bucket", "65536", "--steps", "5", "--iterations", "50", "--layers", "4"]


def issued(rings):
    return sum(sum(ring["issued"]) for ring in rings)


def part_ways(session, part):
    linked(session, part)
    opened(session, part)
    plugin(session, part)
    torch(session, part)


def linked(session, part):
    for mode in ("off", "done", "full", "events"):
        folder = session.ring_folder()
        done = session.run_ranks(1, [*SMALL, "ways"], lambda rank: session.environment(mode, rings=folder), 60)
        rings = session.read_rings(folder)
        marked = [s for ring in rings for s in ring["streams"] if s["marked"]]
        inside = MARKS.get(rings[0]["marks"], "?") if rings else "?"
        good = bool(done.lines()) and len(rings) == 1 and issued(rings) >= 6 and inside == mode and rings[0]["lost"] == 0
        if mode == "off":
            good = good and not marked
        else:
            good = good and bool(marked) and all(s["completed"] == s["issued"] and s["error"] == 0 for s in marked)
        part.check(good, f"a program linked to NCCL, LOCKSTEP_GPU={mode}",
                   f"{len(rings)} ring, {issued(rings)} collectives recorded, marks in use: {inside}; " + "; ".join(
                       f"stream: issued {s['issued']}, completed {s['completed']}, error {s['error']}" for s in marked))


def opened(session, part):
    folder = session.ring_folder()
    command = [session.setup.python, os.path.join(HERE, "ctypes_job.py"), session.setup.nccl, session.setup.cudart]
    done = run(command, session.environment("auto", rings=folder, hook="dlsym"), min(60, session.left()))
    if done.status != 0:
        raise Failed("ctypes_job.py " + done.why())
    rings = session.read_rings(folder)
    part.check(issued(rings) == 5, "NCCL opened with ctypes, LOCKSTEP_HOOK=dlsym", f"{issued(rings)} of 5 collectives recorded")


def plugin(session, part):
    """Checks what NCCL's profiler interface reports. This needs kernels, and NCCL launches none for a single rank."""
    name = "NCCL's profiler interface, LOCKSTEP_GPU=profiler"
    worlds = [w for w in session.worlds() if w[1] > 1]
    if not worlds:
        part.line(NOT_MEASURED, name, f"one GPU, and NCCL {session.nccl_version} lets no two ranks share it (from {MULTI_RANK} on); "
                  "NCCL launches no kernels for a single rank")
        return
    _, _, processes, arguments, env = worlds[0]
    folder = session.ring_folder()
    session.run_ranks(processes, [*arguments, *SMALL, "issue", "dp"], lambda rank: session.environment("profiler", rings=folder, **env), 90)
    rings = session.read_rings(folder)
    kernels, timed, proxies = (sum(r[what] for r in rings) for what in ("kernels", "gpu_times", "proxies"))
    interfaces = sorted({str(r["profiler"]) for r in rings})
    inside = {MARKS.get(r["marks"], "?") for r in rings}
    part.check(inside == {"profiler"} and kernels > 0, name,
               f"NCCL {session.nccl_version} took interface {', '.join(interfaces)}: {kernels} operations with kernels, {timed} with "
               f"times of the GPU's clock, {proxies} network operations, {issued(rings)} collectives, "
               f"marks in use: {', '.join(sorted(inside)) or 'no ring'}")


def torch(session, part):
    name = "PyTorch"
    try:
        found = session.torch_version()
    except NotMeasured as reason:
        part.line(NOT_MEASURED, name, reason)
        return
    for hook in ("symbols", "dlsym"):
        folder = session.ring_folder()
        command = [session.setup.python, os.path.join(HERE, "torch_job.py"), "--steps", "5", "--iterations", "50", "--width", "256",
                   "latency", "dp"]
        done = run(command, session.torch_environment("auto", rings=folder, hook=hook), min(120, session.left()))
        rings = session.read_rings(folder)
        text = f"PyTorch {found[0]}: {issued(rings)} collectives recorded" if done.status == 0 else done.why()
        part.check(done.status == 0 and issued(rings) > 150, f"{name}, LOCKSTEP_HOOK={hook}", text)


def part_hang(session, part):
    cases = [("a kernel that never ends ahead of an operation, one rank", ["spin", "0"], 1, 0, "GPU_STALL", {})]
    two = None
    if session.facts["gpus"] > 1:
        two = (False, {})
    elif session.nccl_version >= MULTI_RANK:
        two = (True, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    if two is None:
        reason = f"one GPU, and NCCL {session.nccl_version} lets no two ranks share it (from {MULTI_RANK} on)"
        part.line(NOT_MEASURED, "a rank that does not come", reason)
        part.line(NOT_MEASURED, "a kernel that never ends ahead of one rank's operation", reason)
    else:
        cases.append(("a rank that does not come", ["absent", "1"], 2, 1, "HOST_STALL", two[1]))
        cases.append(("a kernel that never ends ahead of one rank's operation", ["spin", "1"], 2, 1, "GPU_STALL", two[1]))
    for mode in ("done", "full"):
        for name, what, processes, culprit, kind, env in cases:
            expected = [[kind, [culprit]]]
            # End markers show that an operation does not end, but not on which rank's GPU it has not started.
            if mode == "done" and kind == "GPU_STALL":
                expected.append(["COLLECTIVE_STUCK", list(range(processes))])
            try:
                hang(session, part, f"{name}, LOCKSTEP_GPU={mode}", mode, what, processes, expected, env, bool(two and two[0]))
            except Failed as error:
                part.line(FAIL, f"{name}, LOCKSTEP_GPU={mode}", error)


def hang(session, part, name, mode, what, processes, expected, env, same_gpu):
    rings = make_hang(session, mode, what, processes, env, same_gpu)
    with open(os.path.join(rings, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"name": name, "findings": expected}, file)
    say_it_hangs(rings, processes)
    try:
        analyzer = session.find_analyzer()
    except NotMeasured as reason:
        shutil.copytree(rings, os.path.join(session.work, "kept", os.path.basename(rings)), dirs_exist_ok=True)
        archive = shutil.make_archive(os.path.join(session.out, "rings"), "gztar", os.path.join(session.work, "kept"))
        part.line(NOT_MEASURED, name, f"{reason}; its rings are kept: run.py --judge {archive} --analyze LOCKSTEP-ANALYZE says the rest")
        return
    judge(analyzer, rings, part)


def say_it_hangs(folder, ranks):
    """Writes the manifest of a collector that knows the job is stuck."""
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump({"format": 1, "ranks_expected": ranks, "known_stalled": True, "stalled_ns": 2000000000}, file)


def make_hang(session, mode, what, processes, env, same_gpu):
    """Waits for the hang, copies the rings as an observer would, and kills the job. Returns the folder with the copies."""
    folder, copies = session.ring_folder(), session.ring_folder()
    outputs = [os.path.join(session.ring_folder(), "out") for _ in range(processes)]
    files = [open(path, "w", encoding="utf-8") for path in outputs]  # pylint: disable=consider-using-with
    started = session.start_ranks(processes, [*SMALL, *what], lambda rank: session.environment(mode, rings=folder, **env), same_gpu,
                                  stdout=lambda rank: files[rank])
    try:
        give_up = time.monotonic() + min(60, session.left())
        waiting = set(range(processes))
        while waiting:
            for rank in sorted(waiting):
                with open(outputs[rank], encoding="utf-8") as file:
                    if "entered" in file.read():
                        waiting.discard(rank)
                if rank in waiting and started[rank].poll() is not None:
                    raise Failed(f"rank {rank} ended with {started[rank].returncode} before it hung: {started[rank].stderr.read()[-300:]}")
            if waiting and time.monotonic() > give_up:
                raise Failed(f"ranks {sorted(waiting)} did not come as far as the hang")
            time.sleep(0.05)
        time.sleep(2)  # then the stuck operation is older than --late-after
        for path in session.ring_files(folder):
            shutil.copy(path, copies)
    finally:
        for process in started:
            end(process)
        for file in files:
            file.close()
    return copies


def judge_kept(analyzer, archive, part):
    """Analyzes the hangs whose rings an earlier run kept because it had no analyzer."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(archive, folder)
        cases = sorted((int(name), name) for name in os.listdir(folder) if name.isdigit())
        for _, name in cases:
            judge(analyzer, os.path.join(folder, name), part)
        if not cases:
            raise Failed(f"{archive} holds no hangs")


def judge(analyzer, folder, part):
    """Checks that the analyzer's verdict on the rings in `folder` matches expected.json."""
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    if not any(name.endswith(".ring") for name in os.listdir(folder)):
        part.line(FAIL, expected["name"], "nothing was recorded")
        return
    done = run([analyzer, "--format", "json", folder], timeout=60)
    try:
        verdict = json.loads(done.out)
    except ValueError:
        part.line(FAIL, expected["name"], "lockstep analyze " + done.why())
        return
    finding = verdict["findings"][0] if verdict["findings"] else {"kind": "none", "culprit_ranks": [], "summary": ""}
    good = [finding["kind"], finding["culprit_ranks"]] in expected["findings"] and len(verdict["findings"]) == 1
    wanted = "" if good else "; expected " + " or ".join(f"{kind} of {ranks}" for kind, ranks in expected["findings"]) + " and nothing else"
    part.check(good, expected["name"], f"lockstep analyze says {verdict['verdict']}, {finding['kind']} of {finding['culprit_ranks']}: "
               f"{finding['summary']}{wanted}")


def part_graph(session, part):
    quick = session.options.quick
    replays = 50 if quick else 411
    rows = []
    for name, _, processes, arguments, env in session.worlds():
        if processes > 1:
            continue
        times = {}
        for mode in (None, "off", "done", "full", "events"):
            folder = session.ring_folder()
            label = f"graph replay, {name}, {'not recorded' if mode is None else 'LOCKSTEP_GPU=' + mode}"
            try:
                done = session.run_ranks(1, [*arguments, *SMALL, "--replays", str(replays), "graph"],
                                         lambda rank: session.environment(mode, rings=folder, **env), 60)
            except Failed as error:
                part.line(FAIL if mode else NOT_MEASURED, label, error)
                if mode is None:
                    break
                continue
            line = next(line for line in done.lines() if line["what"] == "graph")
            times[mode] = median(line["us"])
            rows.append((name, mode or "not recorded", f"{median(line['us']):.1f}"))
            if mode is None:
                continue
            rings = session.read_rings(folder)
            counted = sum(r["replays"] for r in rings)
            captured = sum(r["captured"] for r in rings)
            part.check(line["ok"] and captured > 0 and counted == replays, label,
                       f"results {'right' if line['ok'] else 'WRONG'}, {captured} operations recorded as captured, {counted} of {replays} "
                       f"replays counted, {times[mode] / times[None]:.3f} of the time without the recorder")
    part.table(f"A graph of three collectives and two kernels, {replays} replays, each waited for.", ("job", "recorder", "us, median"),
               rows)
    stuck_replay(session, part, replays)
    torch_graph(session, part)


def torch_graph(session, part):
    name = "PyTorch graph replay"
    try:
        session.torch_version()
    except NotMeasured as reason:
        part.line(NOT_MEASURED, name, reason)
        return
    for mode in (None, "done", "events"):
        folder = session.ring_folder()
        command = [session.setup.python, os.path.join(HERE, "torch_job.py"), "graph"]
        done = run(command, session.torch_environment(mode, rings=folder), min(90, session.left()))
        line = next((line for line in done.lines() if line["what"] == "graph"), None)
        label = f"{name}, {'not recorded' if mode is None else 'LOCKSTEP_GPU=' + mode}"
        if done.status != 0 or line is None:
            part.line(FAIL if mode else NOT_MEASURED, label, done.why())
            continue
        counted = sum(r["replays"] for r in session.read_rings(folder))
        part.check(line["ok"] and (mode is None or counted == len(line["us"])), label,
                   f"results {'right' if line['ok'] else 'WRONG'}, {counted} of {len(line['us'])} replays counted, "
                   f"{median(line['us']):.1f} us each")


def stuck_replay(session, part, replays):
    """Replays a graph `replays` times, then once with a kernel that never ends. Checks that the recording shows which replay is stuck."""
    name = "a kernel that never ends in a graph's replay"
    try:
        copies = make_hang(session, "done", ["--replays", str(replays), "graph-spin", "0"], 1, {}, False)
    except Failed as error:
        part.line(FAIL, name, error)
        return
    rings = session.read_rings(copies)
    counted = sum(r["replays"] for r in rings)
    part.check(counted == replays + 1, name, f"the record counts {counted} replays, {replays + 1} were launched and the last is stuck")
    say_it_hangs(copies, 1)
    try:
        done = run([session.find_analyzer(), "--full", copies], timeout=60)
    except NotMeasured as reason:
        part.line(NOT_MEASURED, name + ", named", reason)
        return
    report = " ".join(done.out.split())  # the report wraps its lines
    part.check(f"replay {replays + 1} of graph" in report, name + ", named", "lockstep analyze says: " + (report[:200] or done.why()))
