#!/usr/bin/env python3
"""Measures and checks the recorder on a machine with a GPU. README.md next to this file explains what and how. Needs Python 3.8, a C++20 compiler,
CMake, the NVIDIA driver, libcudart and libnccl.so.2 (both come with PyTorch's wheels). Prints one line per result: PASS, FAIL or NOT MEASURED with
the reason; writes results.json and measurements.md. Exit status: 0 no FAIL, 1 a FAIL, 2 wrong usage, 77 nothing could be measured."""
import argparse
import os
import shlex
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import driver_parts  # noqa: E402
import fault_parts  # noqa: E402
import job_parts  # noqa: E402
import latency_parts  # noqa: E402
import results  # noqa: E402
from machine import HERE, Failed, NotMeasured, Setup, describe, run  # noqa: E402
from session import Session  # noqa: E402

# Parts and the seconds that each may take, the most important first, in case time runs out.
PARTS = {
    "driver": (driver_parts.part_driver, 90),
    "hang": (job_parts.part_hang, 150),
    "ways": (job_parts.part_ways, 200),
    "marks": (driver_parts.part_marks, 200),
    "graph": (job_parts.part_graph, 150),
    "faults": (fault_parts.part_faults, 480),
    "latency": (latency_parts.part_latency, 480),
    "torch": (latency_parts.part_torch, 480),
}
WHOLE = 2100  # limit in seconds for all parts together


def say(text):
    print(text, flush=True)


def compile_only(session):
    """Compiles all programs with this machine's libraries; a stub of the driver is enough."""
    missing = [m for m in session.setup.missing() if not m.startswith("libcuda")]
    if missing or not session.setup.cuda:
        say("NOT MEASURED  compile: not found: " + ", ".join(missing or ["libcuda.so to link with"]))
        return 77
    for name, nccl in (("facts", False), ("nccl_job", True)):
        session.compile(name, nccl)
    session.compile_lookups()
    session.compile_ring_print()
    say(f"PASS          compile: all programs, with {', '.join(session.setup.includes)} and {session.setup.nccl}")
    ptxas = os.path.join(os.path.dirname(os.path.realpath(session.setup.nvcc)), "ptxas") if session.setup.nvcc else ""
    if not os.path.exists(ptxas):
        say("NOT MEASURED  kernels.ptx: no ptxas")
        return 0
    for gpu in ("sm_75", "sm_80", "sm_90"):
        done = run([ptxas, "-arch=" + gpu, "-o", os.devnull, os.path.join(HERE, "kernels.ptx")], timeout=60)
        if done.status != 0:
            say(f"FAIL          kernels.ptx for {gpu}: {done.why()}")
            return 1
    say("PASS          kernels.ptx: translates for sm_75, sm_80 and sm_90")
    return 0


def run_part(session, name, found):
    function, seconds = PARTS[name]
    if session.options.quick:
        seconds *= 3  # a quick run on a loaded machine also needs enough time for its results
    part = results.Part(name, say)
    begin = time.monotonic()
    whole = session.deadline
    session.deadline = min(whole, begin + seconds)
    try:
        if session.left() < 5:
            raise NotMeasured("no time left")
        function(session, part)
    except NotMeasured as reason:
        part.line(results.NOT_MEASURED, name, reason)
    except Failed as error:
        part.line(results.FAIL, name, error)
    except Exception as error:  # one part must not stop the others  # pylint: disable=broad-except
        traceback.print_exc()
        part.line(results.FAIL, name, f"{type(error).__name__}: {error}")
    session.deadline = whole
    part.seconds = time.monotonic() - begin
    found["parts"][name] = part.as_json()


def arguments():
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", help="some of " + ",".join(PARTS) + " (default: all, at most 35 minutes)")
    parser.add_argument("--out", default="gpu-results", help="folder for results.json and measurements.md; later calls add to them")
    parser.add_argument("--budget", type=float, default=WHOLE, help="seconds for everything (default %(default)s)")
    parser.add_argument("--seconds", type=float, help="seconds for the rounds of latency and torch each (default 420)")
    parser.add_argument("--modes", help="only these modes of latency and torch, in addition to the runs without the recorder (default: all)")
    parser.add_argument("--analyze", help="a lockstep-analyze that runs here (default: build/bin, PATH, or one built if possible)")
    parser.add_argument("--lockstep", help="a lockstep that runs here, for the part faults (default: build/bin, PATH); the static one brings the "
                        "analyzer along")
    parser.add_argument("--faults", help="only these faults of the part faults (default: all)")
    parser.add_argument("--fault-jobs", type=int, default=3, help="jobs of the part faults at once (default %(default)s)")
    parser.add_argument("--recorder", help="a liblockstep.so to measure (default: one built from these sources)")
    parser.add_argument("--nccl", help="libnccl.so.2, or a folder with it (default: PyTorch's copy, otherwise the system's)")
    parser.add_argument("--cuda", help="a CUDA toolkit")
    parser.add_argument("--python", help="a Python with PyTorch (default: the one that runs this script)")
    parser.add_argument("--work", help="build folder, kept (default: a temporary one)")
    parser.add_argument("--standin", metavar="FOLDER", help="the standin folder of a build: run everything without a GPU")
    parser.add_argument("--quick", action="store_true", help="few repetitions, only to show that it works")
    parser.add_argument("--compile-only", action="store_true", help="only compile the programs with real headers and libraries")
    parser.add_argument("--judge", metavar="FILE", help="analyze the rings.tar.gz of a run that had no analyzer")
    options = parser.parse_args()
    options.parts = options.part.split(",") if options.part else list(PARTS)
    unknown = [p for p in options.parts if p not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    return options


def judge(options):
    if not options.analyze:
        print("run.py: --judge needs --analyze", file=sys.stderr)
        return 2
    part = results.Part("judge", say)
    try:
        job_parts.judge_kept(options.analyze, options.judge, part)
    except (Failed, OSError, ValueError) as error:
        part.line(results.FAIL, options.judge, error)
    return 1 if any(line["status"] == results.FAIL for line in part.lines) else 0


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.judge:
        return judge(options)
    session = Session(options, Setup(options))
    try:
        if options.compile_only:
            return compile_only(session)
        path = os.path.join(session.out, "results.json")
        found = results.load(path)
        try:
            session.prepare()
        except NotMeasured as reason:
            say(f"NOT MEASURED  everything: {reason}")
            return 77
        found["standin"] = bool(session.setup.standin)
        found["machine"] = machine_rows(session)
        for what, value in found["machine"]:
            say(f"{what}: {value}")
        command = "tests/gpu/run.py " + " ".join(shlex.quote(a) for a in sys.argv[1:])
        for name in options.parts:
            say(f"== {name}")
            run_part(session, name, found)
            results.save(path, found)
            with open(os.path.join(session.out, "measurements.md"), "w", encoding="utf-8") as file:
                file.write(results.markdown(found, command.strip()))
        counted = results.counts({"parts": {name: found["parts"][name] for name in options.parts}})
        say("== " + ", ".join(f"{number} {status}" for status, number in counted.items()) + f"; the page is {session.out}/measurements.md")
        return 1 if counted[results.FAIL] else 0
    except Failed as error:
        say(f"FAIL          before any part: {error}")
        return 1
    finally:
        session.close()


def machine_rows(session):
    rows = describe(session.setup, session.facts)
    rows.append(("NCCL", f"{session.nccl_version} ({session.setup.nccl})"))
    try:
        torch = session.torch_version()
        rows.append(("PyTorch", f"{torch[0]}, CUDA {torch[1]}, NCCL {'.'.join(str(n) for n in torch[2])}"))
    except NotMeasured as reason:
        rows.append(("PyTorch", str(reason)))
    return rows


if __name__ == "__main__":
    sys.exit(main())
