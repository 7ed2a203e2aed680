#!/usr/bin/env python3
"""Compares the recorder's wrappers with an nccl.h and CUDA's headers, NVIDIA's or the stand-in's: every function must have
the real one's parameters and result.
abi_test.py COMPILER SOURCE_FOLDER INCLUDE_FOLDER...
Exits with status 77 and the reason if no nccl.h is installed.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

COMPILER, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
FOLDERS = [pathlib.Path(folder) for folder in sys.argv[3:]]
LISTS = re.sub(r"\\\n", " ", (SOURCE / "recorder/abi/nccl_names.h").read_text(encoding="ascii"))


def listed(which):
    return set(re.findall(r"X\((\w+)", re.search(r"#define LOCKSTEP_%s_NAMES\(X\)(.*)" % which, LISTS).group(1)))


GENERIC = listed("FORWARDED") | listed("TEXT")
NAMES = sorted(listed("RECORDED") | listed("SEEN") | GENERIC)

TRAITS = """
#include <stddef.h>
#include <type_traits>
template <typename A, typename B>
constexpr bool Alike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) return std::is_void_v<A> == std::is_void_v<B>;
  else if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) return std::is_pointer_v<A> && std::is_pointer_v<B>;
  else if constexpr (std::is_class_v<A> || std::is_class_v<B>)
    return std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
           std::is_trivially_copyable_v<A> && std::is_trivially_copyable_v<B>;
  else return !std::is_floating_point_v<A> && !std::is_floating_point_v<B> && sizeof(A) == sizeof(B);
}
template <typename, typename>
struct Same : std::false_type {};
template <typename R, typename... A, typename Q, typename... B>
  requires(sizeof...(A) == sizeof...(B))
struct Same<R (*)(A...), Q (*)(B...)> : std::bool_constant<Alike<R, Q>() && (Alike<A, B>() && ...)> {};
// Both use the same registers. The wrapper may pass a wider value than the function takes.
template <typename A, typename B>
constexpr bool Holds() { return !std::is_floating_point_v<B> && !std::is_class_v<B> && sizeof(A) >= sizeof(B); }
template <typename, typename>
struct Carries : std::false_type {};
template <typename R, typename Q>
struct Carries<R (*)(), Q (*)()> : std::bool_constant<Holds<R, Q>()> {};
template <typename R, typename A, typename... As, typename Q>
struct Carries<R (*)(A, As...), Q (*)()> : std::bool_constant<Holds<R, Q>()> {};
template <typename R, typename A, typename... As, typename Q, typename B, typename... Bs>
struct Carries<R (*)(A, As...), Q (*)(B, Bs...)> : std::bool_constant<Holds<A, B>() && Carries<R (*)(As...), Q (*)(Bs...)>::value> {};
// What fits the generic forwarder: up to eight words in, two registers out.
template <typename A>
constexpr size_t Registers() {
  static_assert(!std::is_floating_point_v<A> && sizeof(A) <= 16 && std::is_trivially_copyable_v<A>);
  return (sizeof(A) + 7) / 8;
}
template <typename>
struct Fits : std::false_type {};
template <typename R, typename... A>
struct Fits<R (*)(A...)> : std::bool_constant<(Registers<A>() + ... + 0) <= 8 && !std::is_floating_point_v<R> &&
  (std::is_void_v<R> || sizeof(std::conditional_t<std::is_void_v<R>, int, R>) <= 16)> {};
"""


# Functions that the device interface overloads.
OF_A_TEAM = {name: "ncclTeam_t (*)(ncclComm_t)" for name in ("ncclTeamCftMultimem", "ncclTeamLsa", "ncclTeamRail", "ncclTeamWorld")}
OF_A_TEAM["ncclTeamCft"] = "ncclTeam_t (*)(ncclComm_t, ncclCftTeamMode_t)"
OF_A_TEAM |= {name: "int (*)(ncclComm_t, ncclTeam_t, int)" for name in ("ncclTeamRankToLsa", "ncclTeamRankToWorld")}


def find(name):
    return next((folder for folder in FOLDERS if (folder / name).exists()), None)


# CUDA versions give these different parameters; the longest list is forwarded.
LONGER = {"cudaGraphInstantiate", "cudaGraphExecUpdate", "cudaMemcpyBatchAsync", "cudaMemcpy3DBatchAsync"}


def compiles(unit, folders):
    """Returns what the compiler prints. An empty string means that it accepts
    the source."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "unit.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(unit) + "\n")
        includes = [option for each in folders for option in ("-isystem", str(each))]
        result = subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-w", "-I", str(SOURCE), *includes, path], capture_output=True,
                                text=True)
    return result.stderr if result.returncode != 0 else ""


def check_cuda(folder, exports):
    """Returns the compiler's output and the number of functions compared,
    without the runtime's per-thread twins."""
    runtime = (folder / "cuda_runtime_api.h").read_text(errors="replace")
    names = sorted(name for name in exports if name.startswith("cuda") and "_pt" not in name and
                   re.search(r"\b%s\s*\(" % name, runtime))
    unit = ["#include <cuda_runtime_api.h>", TRAITS] + ["using Real_%s = decltype(&%s);" % (name, name) for name in names]
    unit += ["#define %s lockstep_%s" % (name, name) for name in exports if name.startswith("cuda")]
    unit += ['#include "%s/recorder/calls/%s"' % (SOURCE, source) for source in ("cuda.cpp", "cuda_graphs.cpp")]
    unit += ['static_assert(%s<decltype(&lockstep_%s), Real_%s>::value, "%s");' % ("Carries" if n in LONGER else "Same", n, n, n) for n in names]
    problem = compiles(unit, [folder])
    if problem:
        return problem, 0
    driver = (folder / "cuda.h").read_text(errors="replace")
    source = (SOURCE / "recorder/calls/driver_names.cpp").read_text()
    wrapped = sorted(name for name in set(re.findall(r"LOCKSTEP_DRIVER\w*\((cu\w+),", source))
                     if "_pt" not in name and re.search(r"\b%s\s*\(" % name, driver))
    unit = ["#include <cuda.h>", TRAITS] + ["using Real_%s = decltype(&%s);" % (name, name) for name in wrapped]
    unit += ["#undef %s" % name for name in wrapped + ["cuGetProcAddress"]]
    unit += ['#include "%s/recorder/calls/driver_names.cpp"' % SOURCE, "namespace lockstep::recorder {"]
    unit += ['static_assert(Carries<decltype(&%s<kByName>::Call), Real_%s>::value, "%s");' % (n, n, n) for n in wrapped]
    return compiles(unit + ["}"], [folder]), len(names) + len(wrapped)


def main():
    nccl, runtime = find("nccl.h"), find("cuda_runtime.h")
    if nccl is None or runtime is None:
        print("no nccl.h and cuda_runtime.h of NVIDIA's on this machine")
        return 77
    includes = ["-isystem", str(nccl), "-isystem", str(runtime)]
    headers = ["#include <nccl.h>"] + ["#include <nccl_device.h>"] * (nccl / "nccl_device.h").exists()
    result = subprocess.run([COMPILER, "-std=c++20", "-E", "-P", "-x", "c++", "-", *includes], input="\n".join(headers) + "\n",
                            capture_output=True, text=True)
    if result.returncode != 0:
        print("%s cannot be read:\n%s" % (nccl / "nccl.h", result.stderr[:4000]))
        return 1
    text = result.stdout
    declared = {name for name in NAMES if re.search(r"\b%s\b" % name, text)}
    checked = set()
    for source in sorted((SOURCE / "recorder/calls").glob("nccl_*.cpp")):
        body = source.read_text()
        plain = set(re.findall(r"(?:LOCKSTEP_EXPORT int |LOCKSTEP_OPERATION\(|LOCKSTEP_COLLECTIVE\(|LOCKSTEP_CALL\()(\w*nccl\w+)", body))
        plain |= {name + "Config" for name in re.findall(r"LOCKSTEP_COLLECTIVE\((nccl\w+)", body)}
        plain &= declared
        generic = GENERIC & declared if "LOCKSTEP_FORWARDED_NAMES" in body else set()
        unit = headers + [TRAITS]
        for name in sorted(plain | generic):
            address = "&" + name
            if name in OF_A_TEAM:
                address = "static_cast<%s>(&%s)" % (OF_A_TEAM[name], name)
            unit.append("using Real_%s = decltype(%s);" % (name, address))
        unit += ["#define %s lockstep_%s" % (name, name) for name in NAMES]
        unit.append('#include "%s"' % source)
        unit += ['static_assert(Same<decltype(&lockstep_%s), Real_%s>::value, "%s");' % (n, n, n) for n in sorted(plain)]
        unit += ['static_assert(Fits<Real_%s>::value, "%s");' % (n, n) for n in sorted(generic)]
        problem = compiles(unit, [nccl, runtime])
        if problem:
            print("%s does not agree with %s:\n%s" % (source.name, nccl / "nccl.h", problem[:4000]))
            return 1
        checked |= plain | generic
    missing = declared - checked
    print("%d functions agree with %s" % (len(checked), nccl / "nccl.h"))
    if missing or len(checked) < 25:
        print("not checked:", sorted(missing))
        return 1
    problem, count = check_cuda(runtime, (SOURCE / "recorder/exports.txt").read_text().split())
    print(problem[:4000] if problem else "%d functions agree with %s" % (count, runtime / "cuda.h"))
    return 1 if problem or count < 40 else 0


sys.exit(main())
