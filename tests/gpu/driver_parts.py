"""Parts that need only the driver: registration, markers alone, markers after the death of the process, and how runtimes look up the driver."""
import os
import time

from machine import HERE, Failed, end, run, start
from results import NOT_MEASURED, PASS
from stats import median, quantile

PTX = os.path.join(HERE, "kernels.ptx")


def facts(session, arguments, timeout=60, **environment):
    done = run([session.built["facts"], *arguments, "--ptx", PTX], session.environment(**environment), min(timeout, session.left()))
    if done.status != 0:
        raise Failed(f"facts {arguments[0]} " + done.why())
    return done.lines()


def part_driver(session, part):
    path = os.path.join(session.rings, "register")
    found = facts(session, ["register", path])[0]
    part.check(found["result"] == 0, "the ring's mapping registers with the driver",
               f"cuMemHostRegister of 1 MiB on tmpfs (portable, mapped) gave {found['result']} in {found['us'][0]:.0f} us")
    if found["result"] == 0:
        part.check(found["pointer_result"] == 0 and found["write_result"] == 0 and found["arrived"], "the GPU's writes arrive in the file",
                   f"cuMemHostGetDevicePointer gave {found['pointer_result']}, cuStreamWriteValue64 {found['write_result']}; "
                   f"{'seen' if found['arrived'] else 'not seen'} through the mapping and with pread; the device's address is "
                   f"{'the same' if found['same_address'] else 'another one'}")
        after_death(session, part)
    in_capture(session, part)
    lookups(session, part)


# Calls that the recorder makes while a stream may be captured: the first list without changing the capture mode, the second list in relaxed mode.
ASKED, RELAXED = ("cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetDevice"), (
    "cuStreamGetCtx", "cuDevicePrimaryCtxRetain and Release", "cuMemHostGetDevicePointer", "cuEventCreate", "cuEventQuery", "cuEventElapsedTime",
    "cuEventRecord on another stream", "cuStreamWriteValue64 on another stream", "cuStreamGetId of another stream")


def in_capture(session, part):
    lines = facts(session, ["capture"])
    spoils = {(line["call"], line["relaxed"]) for line in lines if line["spoilt"]}
    used = [(call, False) for call in ASKED] + [(call, True) for call in RELAXED]
    wrong = [f"{call}{' in relaxed mode' if relaxed else ''}" for call, relaxed in used if (call, relaxed) in spoils]
    invalidating = ", ".join(sorted({f"{call} ({'in every mode' if (call, True) in spoils else 'unless in relaxed mode'})" for call, _ in spoils}))
    part.check(not wrong, "what the recorder asks of the driver invalidates no capture",
               f"{'invalidated by ' + ', '.join(wrong) if wrong else 'none did'}; of all "
               f"that was tried a capture in global mode is invalidated by: {invalidating or 'nothing'}")


def after_death(session, part):
    """Checks whether and when a marker is written that was queued behind a running kernel of a killed process."""
    path = os.path.join(session.rings, "killed")
    process = start([session.built["facts"], "killed", path, "--ptx", PTX], session.environment())
    try:
        line = process.stdout.readline()
        if line.strip() != "ready":
            end(process)
            raise Failed("facts killed did not get ready: " + (process.stderr.read() or "").strip()[-300:])
        killed = time.monotonic()
    finally:
        end(process)
    begin = time.monotonic()
    late = None
    with open(path, "rb", buffering=0) as file:
        while time.monotonic() - begin < 3 and late is None:
            file.seek(64)
            if int.from_bytes(file.read(8), "little") == 7:
                late = time.monotonic() - begin
            time.sleep(0.01)
        file.seek(0)
        before = int.from_bytes(file.read(8), "little")
    part.check(before == 1, "a mark that was written survives SIGKILL", f"the file says {before}, 1 was written")
    # Both answers pass, because the recording labels markers that arrive after the death. The results page must state this driver's answer.
    part.line(PASS, "a mark queued behind a running kernel when the process is killed",
              f"{'did not land within 3 s' if late is None else f'landed within {late * 1e3:.0f} ms'} of the process's end, which came "
              f"{(begin - killed) * 1e3:.0f} ms after SIGKILL")


def lookups(session, part):
    path = os.path.join(session.work, "lookups.txt")
    if os.path.exists(path):
        os.unlink(path)
    env = session.environment(LD_PRELOAD=session.built["lookups"], LOOKUPS_FILE=path)
    done = run([session.built["nccl_job"], "--ptx", PTX, "--gemm", "64", "--bucket", "65536", "ways"], env, min(60, session.left()))
    if done.status != 0 or not os.path.exists(path):
        part.line(NOT_MEASURED, "how the CUDA runtime finds the driver", done.why())
        return
    by = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) == 3:
                by.setdefault((words[2], words[1]), set()).add(words[0])
    requests = [f"{library} asks {how} for {len(names)}" for (library, how), names in sorted(by.items())]
    wanted = {"cuStreamSynchronize", "cuGraphLaunch", "cuEventSynchronize", "cuStreamWaitEvent"}
    table = [(library, how, len(names), ", ".join(sorted(names & wanted))) for (library, how), names in sorted(by.items())]
    part.table("How libraries find the driver's functions.", ("library", "through", "functions", "of them"), table)
    text = "; ".join(requests) if requests else "nothing goes through dlsym or cuGetProcAddress: functions are linked"
    if session.setup.standin:
        part.line(PASS, "how the CUDA runtime finds the driver", text)
    else:
        part.check(any(library.startswith("libcudart") for library, _ in by), "the CUDA runtime finds the driver through dlsym and "
                   "cuGetProcAddress", text)


def part_marks(session, part):
    quick = session.options.quick
    rows, beside_rows, waited = [], [], {}
    for connections in (None, 1):
        label = connections or "not set"
        env = {"connections": connections}
        lines = facts(session, ["costs", "--rounds", "3" if quick else "200"], 90, **env)
        if not next(line["ok"] for line in lines if line["what"] == "chain is right"):
            raise Failed("kernels of the chain are missing")
        chain = {line["between"]: line["us"] for line in lines if line["what"] == "chain"}
        host = {line["between"]: line["us"] for line in lines if line["what"] == "host"}
        launch = next(line["us"] for line in lines if line["what"] == "launch")
        bare, empty = median(chain["nothing"]), median(host["nothing"])
        for between in chain:
            steps = chain[between]
            rows.append((label, between, f"{median(steps):.2f}", f"{quantile(steps, 0.99):.2f}", f"{(median(steps) - bare) * 1e3:+.0f}",
                         f"{(median(host[between]) - empty) * 1e3:.0f}"))
        part.line(PASS, f"marks between dependent kernels, CUDA_DEVICE_MAX_CONNECTIONS {label}",
                  f"one write adds {(median(chain['one write']) - bare) * 1e3:.0f} ns of GPU time and "
                  f"{(median(host['one write']) - empty) * 1e3:.0f} ns of host time (a launch: {median(launch) * 1e3:.0f} ns)")
        for line in facts(session, ["beside", "--rounds", "3" if quick else "40"], 60, **env):
            beside_rows.append((label, line["behind"], line["count"], f"{line['blocked']} of {line['rounds']}",
                                f"{median(line['us']):.1f}" if line["us"] else "-"))
            waited.setdefault((label, line["behind"]), []).append((line["blocked"], line["rounds"]))
        # The recorder uses writes, and events only if all streams share one queue (ReadGpuMode in recorder/base/environment.cpp).
        used = "one event" if connections == 1 else "one write"
        counts = {behind: (sum(blocked for blocked, _ in waited[(label, behind)]), sum(count for _, count in waited[(label, behind)]))
                  for behind in ("nothing", "one write", "one event")}
        text = "another stream's kernel waited " + ", ".join(f"{blocked} of {count} times behind {behind}" for behind, (blocked, count) in counts.items())
        good = counts[used][0] - counts["nothing"][0] <= counts[used][1] // 10  # sometimes a marker waits for a busy host
        part.check(good, f"what marks the GPU's progress ({used}) holds up no other stream, CUDA_DEVICE_MAX_CONNECTIONS {label}", text)
    part.table("A chain of dependent kernels that the host queued ahead; between them nothing, cuStreamWriteValue64 (flags 0) or "
               "cudaEventRecord (no timing).",
               ("connections", "between kernels", "us a step, median", "p99", "GPU ns more", "host ns"), rows)
    part.table("Stream B runs a kernel that does not end and has marks queued behind it; then stream A gets a kernel. Waited: not "
               "done after 20 ms.", ("connections", "behind B's kernel", "how many", "A waited", "else us, median"), beside_rows)
