"""The tarball on other systems. debootstrap unpacks a root of each system. There, the system's own Python loads NVIDIA's NCCL under the recorder, the
static program runs, and `lockstep evidence` must read the same Python stacks as py-spy. The table is results/systems.md."""

import collections
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import time

import python_stacks
from support import SOURCE, Skip, last_line, rings_in

TABLE = SOURCE / "results/systems.md"
UBUNTU, DEBIAN = "http://archive.ubuntu.com/ubuntu", "http://deb.debian.org/debian"
System = collections.namedtuple("System", "name suite mirror")
SYSTEMS = [System("Ubuntu 18.04", "bionic", UBUNTU), System("Ubuntu 22.04", "jammy", UBUNTU), System("Ubuntu 24.04", "noble", UBUNTU),
           System("Debian 12", "bookworm", DEBIAN), System("Debian 13", "trixie", DEBIAN), System("Debian unstable", "sid", DEBIAN)]
NCCL = ("nvidia-nccl-cu12", "2.18.3")  # needs glibc 2.17
OLDEST_STACKS = 8  # Python 3.8
# Without a GPU the calls fail, but they are recorded.
CALLS = """
import ctypes
nccl, unique, comm = ctypes.CDLL("/trial/libnccl.so.2"), (ctypes.c_char * 128)(), ctypes.c_void_p()
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, type("Id", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_char * 128)]}), ctypes.c_int]
nccl.ncclGetUniqueId(unique)
nccl.ncclCommInitRank(ctypes.byref(comm), 1, nccl.ncclCommInitRank.argtypes[2].from_buffer(unique), 0)
version = ctypes.c_int()
nccl.ncclGetVersion(ctypes.byref(version))
print(version.value)
"""


def root_of(outside, system):
    """Returns the root of the system, which is unpacked once."""
    root = outside.folder / "systems" / system.suite
    if root.exists():
        return root
    made = root.with_name(system.suite + ".new")
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    scripts = pathlib.Path("/usr/share/debootstrap/scripts")
    script = [] if (scripts / system.suite).exists() else [str(scripts / ("gutsy" if system.mirror == UBUNTU else "sid"))]
    result = subprocess.run(["debootstrap", "--foreign", "--variant=minbase", "--include=python3", system.suite, str(made), system.mirror, *script],
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise Skip("debootstrap cannot make its root: " + last_line(result.stdout))
    for package in glob.glob(str(made / "var/cache/apt/archives/*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, str(made)], check=True)
        os.unlink(package)
    made.rename(root)
    return root


def glibc_of(root):
    for path in glob.glob(str(root / "lib/x86_64-linux-gnu/libc.so.6")) + glob.glob(str(root / "usr/lib/x86_64-linux-gnu/libc.so.6")):
        found = re.search(rb"stable release version (\d+\.\d+)", pathlib.Path(os.path.realpath(path)).read_bytes())
        if found:
            return found.group(1).decode()
    return "?"


def named(text):
    return [(finding["kind"], finding["culprit_ranks"]) for finding in json.loads(text)["findings"]] if text.startswith("{") else None


def inside(root, *command, **environment):
    """Returns the command line that runs `command` in the root, with a separate /proc and /dev/shm."""
    mounts = f"mount -t proc proc {root}/proc && mount -t tmpfs shm {root}/dev/shm && exec chroot {root} env -i \"$@\""
    words = [f"{name}={value}" for name, value in {"PATH": "/usr/bin:/bin", "HOME": "/", **environment}.items()]
    return ["unshare", "--mount", "sh", "-c", mounts, "sh", *words, *command]


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    return result.returncode, result.stdout, result.stderr


def recorded(root):
    """Tests the recorder in the system's own Python with NVIDIA's NCCL."""
    rings = root / "trial/rings"
    rings.mkdir()
    status, output, errors = run(inside(root, "python3", "-c", CALLS, LD_PRELOAD="/trial/lockstep/lib/x86_64/liblockstep.so", LOCKSTEP_DIR="/trial/rings"))
    found = rings_in(rings)
    if status != 0 or errors.strip() or not found:
        yield "the recorder: status %d, %d rings, %s" % (status, len(found), last_line(errors))
    elif str(found[0].nccl_version) != output.strip():
        yield "the ring has NCCL %s, and the program %s" % (found[0].nccl_version, output.strip())


def programs(root, expected):
    status, output, errors = run(inside(root, "/trial/lockstep/bin/lockstep", "run", "-n", "2", "--", "python3", "-c", "print('here')"))
    if status != 0 or output.split() != ["here", "here"] or "ld.so" in errors:
        yield "lockstep run: status %d, %r %s" % (status, output, last_line(errors))
    status, output, errors = run(inside(root, "/trial/lockstep/bin/lockstep", "analyze", "--format", "json", "/trial/data"))
    if named(output) != expected:
        yield "lockstep analyze: status %d, %s, not %s: %s" % (status, named(output), expected, last_line(errors))


def stacks(outside, root, version):
    if version < OLDEST_STACKS:
        return
    py_spy = str(pathlib.Path(outside.install("py-spy", check="import importlib.metadata as m; m.version('py-spy')")).parent / "py-spy")
    (root / "trial/script.py").write_text(python_stacks.SCRIPT)
    process = subprocess.Popen(inside(root, "python3", "/trial/script.py"), stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            yield "Python does not run the script"
            return
        time.sleep(0.3)
        found, text = python_stacks.ours(outside.build / "bin/lockstep", process.pid)
        try:
            theirs = python_stacks.spied(py_spy, process.pid)
        except Skip as why:  # py-spy is older than this Python
            names = [[frame[0] for frame in thread] for thread in found]
            if len(names) != 4 or sum("hold" in str(thread) for thread in names) != 1:
                yield "py-spy: %s; lockstep: %s\n%s" % (why, names, text[-800:])
            return
        if sorted(theirs) != sorted(found):
            yield "py-spy: %s\nlockstep: %s\n%s" % (sorted(theirs), sorted(found), text[-800:])
    finally:
        process.kill()
        process.wait()


def table(rows):
    lines = ["# The tarball on other systems", "",
             "As printed by `./dev outside systems`: roots of these systems, unpacked by debootstrap on a newer kernel. The static program runs there, the",
             "recorder records NVIDIA's NCCL %s in the system's own Python, and `lockstep evidence` reads that Python's stacks from outside, from 3.8 on." % NCCL[1],
             "liblockstep.so needs glibc 2.17, and RHEL 8 has 2.28, RHEL 9 2.34: both are newer than the oldest system here, and were not tried.", "",
             "| system | glibc | Python | |", "| --- | --- | --- | --- |"]
    return "\n".join(lines + ["| %s | %s | 3.%d | %s |" % row for row in rows]) + "\n"


def run_part(outside):
    if outside.quick:
        raise Skip("not with --quick")
    tarballs = sorted((outside.build / "packages").glob("lockstep-*-linux.tar.gz"))
    if not tarballs:
        raise Skip("there is no tarball: ./dev packages --test makes it")
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Skip("roots are made by root with debootstrap")
    library = outside.wheel(*NCCL) / "nvidia/nccl/lib/libnccl.so.2"
    made = outside.temporary / "systems"
    subprocess.run([str(outside.build / "bin/lockstep-corpus"), "generate", "--scenario", "2", "--ranks", "8", "--out", str(made)], check=True,
                   stdout=subprocess.DEVNULL, timeout=120)
    expected = named(run([str(outside.build / "bin/lockstep"), "analyze", "--format", "json", str(made / "data")])[1])
    rows = []
    for system in SYSTEMS:
        try:
            root = root_of(outside, system)
        except Skip as why:
            outside.skip("systems, " + system.name, why)
            continue
        trial = root / "trial"
        shutil.rmtree(trial, ignore_errors=True)
        trial.mkdir()
        with tarfile.open(tarballs[-1]) as archive:
            archive.extractall(trial)
        next(trial.glob("lockstep-*")).rename(trial / "lockstep")
        shutil.copy(library, trial)
        shutil.copytree(made / "data", trial / "data")
        version = max((int(path.rsplit(".", 1)[1]) for path in glob.glob(str(root / "usr/bin/python3.*")) if path.rsplit(".", 1)[1].isdigit()), default=0)
        problems = [*recorded(root), *programs(root, expected), *stacks(outside, root, version)]
        outside.check("systems, %s, glibc %s, Python 3.%d" % (system.name, glibc_of(root), version), problems)
        rows.append((system.name, glibc_of(root), version, "problems" if problems else "runs"))
    TABLE.write_text(table(rows))
    print(TABLE.read_text(), end="")
