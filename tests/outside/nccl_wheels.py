"""NVIDIA's own NCCL in many releases: names, headers, and results with and without the recorder."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from support import SOURCE, Skip, rings_in

# Each release that added functions, up to the newest that the recorder knows. The newest release on PyPI is added to the list.
RELEASES = [("cu12", v) for v in ("2.18.3", "2.19.3", "2.20.5", "2.21.5", "2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.5")]
RELEASES += [("cu13", v) for v in ("2.27.7", "2.28.9", "2.29.7", "2.30.7", "2.31.2", "2.32.3")]
QUICK = ["2.18.3", "2.27.7", "2.31.2", "2.32.3"]

NOT_PUBLIC = {"ncclResetDebugInitInternal"}

# Layouts and numbers that releases may change, compared with the recorder's assumptions.
LAYOUT = """
#include <nccl.h>
#include <type_traits>
#include "recorder/abi/nccl.h"
#include "recorder/core/real.h"
namespace r = lockstep::recorder;
#define SAME(a, b) static_assert(static_cast<long long>(a) == static_cast<long long>(b), #a)
#define AT(theirs, ours) SAME(offsetof(ncclConfig_t, theirs), offsetof(r::NcclConfig, ours))
SAME(sizeof(ncclUniqueId), sizeof(r::NcclUniqueId));
SAME(alignof(ncclUniqueId), 1);
SAME(sizeof(ncclResult_t), sizeof(int)); SAME(sizeof(ncclDataType_t), sizeof(int)); SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME(ncclSuccess, r::kNcclSuccess); SAME(ncclInvalidUsage, r::kNcclInvalidUsage); SAME(ncclInProgress, r::kNcclInProgress);
SAME(ncclInt8, 0); SAME(ncclUint8, 1); SAME(ncclInt32, 2); SAME(ncclUint32, 3); SAME(ncclInt64, 4); SAME(ncclUint64, 5);
SAME(ncclFloat16, 6); SAME(ncclFloat32, 7); SAME(ncclFloat64, 8);
SAME(ncclSum, 0); SAME(ncclProd, 1); SAME(ncclMax, 2); SAME(ncclMin, 3); SAME(ncclAvg, 4); SAME(ncclNumOps, 5);
AT(size, size); AT(magic, magic); AT(version, version); AT(blocking, blocking);
AT(cgaClusterSize, cga_cluster_size); AT(minCTAs, min_ctas); AT(maxCTAs, max_ctas); AT(netName, net_name);
AT(splitShare, split_share);
#if NCCL_VERSION_CODE >= 22400
SAME(ncclFloat8e4m3, 10); SAME(ncclFloat8e5m2, 11); SAME(ncclNumTypes, 12);
#endif
#if NCCL_VERSION_CODE >= 22600
AT(trafficClass, traffic_class);
#endif
#if NCCL_VERSION_CODE >= 22700
AT(commName, comm_name);
#endif
#if NCCL_VERSION_CODE >= 23004
SAME(ncclTimeout, 8); SAME(ncclNumResults, 9);
#endif
"""


def exported(path):
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", str(path)], check=True, capture_output=True, text=True).stdout
    names = set()
    for line in symbols.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[3] == "FUNC" and fields[4] in ("GLOBAL", "WEAK") and fields[6] not in ("UND", "ABS"):
            names.add(fields[7].split("@")[0])
    return names


def newest(outside, package):
    result = outside.pip("index", "versions", package)
    match = re.search(r"\((\d+\.\d+\.\d+)\)", result.stdout)
    return match.group(1) if result.returncode == 0 and match else None


def code_of(version):
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * 1000 + minor * 100 + patch if (major, minor) <= (2, 8) else major * 10000 + minor * 100 + patch


def check_names(library, wrapped, known):
    names = {name for name in exported(library) if re.match(r"nccl[A-Z]", name)} - NOT_PUBLIC
    problems = [] if len(names) > 20 else ["it exports %d functions only" % len(names)]
    unknown = sorted(names - wrapped)
    if unknown and known:
        problems.append("not wrapped: " + ", ".join(unknown))
    return problems, unknown


def check_headers(outside, include, version):
    # NVIDIA's CUDA headers, if installed. Otherwise uses nccl.h with the stand-in's headers.
    real = pathlib.Path("/usr/local/cuda/include")
    if not (real / "cuda_fp8.h").exists():
        alone = outside.temporary / ("nccl-%s" % version)
        alone.mkdir(exist_ok=True)
        shutil.copy(include / "nccl.h", alone)
        include, real = alone, outside.build / "standin/include"
    compiler = os.environ.get("CXX", "c++")
    agree = subprocess.run([sys.executable, str(SOURCE / "recorder/testing/abi_test.py"), compiler, str(SOURCE), str(include),
                            str(real)], capture_output=True, text=True)
    problems = [] if agree.returncode == 0 else [agree.stdout[-1500:] + agree.stderr[-500:]]
    layout = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-w", "-I", str(SOURCE), "-isystem", str(include), "-isystem",
                             str(real), "-x", "c++", "-"], input=LAYOUT, capture_output=True, text=True)
    if layout.returncode != 0:
        problems.append(layout.stderr[:1500])
    return problems


def check_answers(outside, library, version, unknown):
    problems = []
    linked = outside.temporary / ("linked-%s" % version)
    looked = outside.temporary / "looked-up"
    source = SOURCE / "tests/outside/nccl_calls.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-DLINKED", "-w", "-o", str(linked), str(source), str(library), "-Wl,-rpath," + str(library.parent)],
                   check=True, capture_output=True)
    subprocess.run([compiler, "-w", "-o", str(looked), str(source), "-ldl"], check=True, capture_output=True)
    for how, command in (("linked", [linked]), ("by dlsym", [looked, library])):
        alone = outside.run(command, preload=False)
        folder = outside.rings()
        recorded = outside.run(command, preload=True, rings=folder)
        if alone[0] != 0:
            problems.append("%s: ends with %d without the recorder: %s" % (how, alone[0], alone[1][-300:] + alone[2][-300:]))
        if alone[:2] != recorded[:2]:
            problems.append("%s: without the recorder:\n%d %s\nwith it:\n%d %s" % ((how,) + alone[:2] + recorded[:2]))
        rings = rings_in(folder)
        if len(rings) != 1:
            problems.append("%s: %d rings" % (how, len(rings)))
        for ring in rings:
            if ring.nccl_version != code_of(version):
                problems.append("%s: the ring has NCCL %d" % (how, ring.nccl_version))
            if ring.unwrapped != len(unknown) or not set(ring.names) <= set(unknown):
                problems.append("%s: the ring has %d unknown functions: %s" % (how, ring.unwrapped, ring.names))
    return problems


def run(outside):
    names = (SOURCE / "recorder/abi/nccl_names.h").read_text(encoding="ascii")
    known_to = int(re.search(r"LOCKSTEP_NEWEST_NCCL (\d+)", names).group(1))
    wrapped = {name for name in exported(outside.library) if name.startswith("nccl")}
    releases = [(cuda, version) for cuda, version in RELEASES if not outside.quick or version in QUICK]
    for cuda in ("cu13", "cu12"):
        try:
            latest = newest(outside, "nvidia-nccl-" + cuda)
        except Skip as why:
            outside.skip("NCCL, newest of " + cuda, why)
            continue
        if latest is None:
            outside.skip("NCCL, newest of " + cuda, "pip does not report the version")
        elif latest not in [version for _, version in RELEASES]:
            releases.append((cuda, latest))
    for cuda, version in releases:
        name = "NCCL %s (%s)" % (version, cuda)
        try:
            files = outside.wheel("nvidia-nccl-" + cuda, version) / "nvidia/nccl"
        except Skip as why:
            outside.skip(name, why)
            continue
        library = files / "lib/libnccl.so.2"
        known = code_of(version) <= known_to
        problems, unknown = check_names(library, wrapped, known)
        outside.check(name + ": functions%s" % ("" if known else ", newer than the recorder: " + (", ".join(unknown) or "none new")),
                      problems)
        outside.check(name + ": header", check_headers(outside, files / "include", version))
        outside.check(name + ": answers", check_answers(outside, library, version, unknown))
