#!/usr/bin/env python3
"""Makes all packages of Lockstep from a build, into a folder with checksums (docs/deploying.md lists their contents).

make.py --build BUILD --out FOLDER [--only deb,rpm,tar,wheel,debug]   wheel: needs tar, whose files it contains

BUILD is a configured build folder; make.py builds whatever is missing. The same sources, tools and libraries give the same bytes if BUILD was
configured with LOCKSTEP_REPRODUCIBLE (preset packages)."""

import argparse
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import make_wheel
import sbom
from release import EPOCH, SOURCE, VERSION

# The verbs of the static program; the archive verb is a separate program.
VERBS = (SOURCE / "packaging/verbs.txt").read_text().split()
STANDINS = ("libcuda.so.1", "libcudart.so.13", "libnccl.so.2")
ENVIRONMENT = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "QT_RCC_SOURCE_DATE_OVERRIDE": str(EPOCH), "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"make.py: {' '.join(map(str, command))} gave {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def build_arm(build):
    """Builds liblockstep.so for 64-bit ARM with Debian's cross compiler."""
    folder = build / "aarch64"
    if not (folder / "build.ninja").exists():
        run("cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={SOURCE}/cmake/aarch64-linux-gnu.cmake",
            "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DLOCKSTEP_REPRODUCIBLE=ON", "-DLOCKSTEP_ANALYZER=OFF", "-DLOCKSTEP_COLLECTOR=OFF",
            "-DLOCKSTEP_TESTS=OFF")
    run("cmake", "--build", folder, "--target", "lockstep")
    return folder / "lib/liblockstep.so"


def build_id(path, readelf="readelf"):
    return re.search(r"Build ID: ([0-9a-f]+)", run(readelf, "-nW", path)).group(1)


def split(path, debug, tools=""):
    """Strips the program and stores its symbols in DEBUG/.build-id/, where debuggers look for them."""
    number = build_id(path)
    symbols = debug / ".build-id" / number[:2] / (number[2:] + ".debug")
    symbols.parent.mkdir(parents=True, exist_ok=True)
    run(tools + "objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", path, symbols)
    run(tools + "strip", "--strip-unneeded", path)
    symbols.chmod(0o644)


def write_tar(path, folder):
    """Writes FOLDER and its contents, sorted by name, owned by root, all with the same time."""
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 6, file, EPOCH) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out:
        for each in sorted([folder, *folder.rglob("*")]):
            entry = out.gettarinfo(each, arcname=str(each.relative_to(folder.parent)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = EPOCH
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            if entry.isreg():
                with open(each, "rb") as file:
                    out.addfile(entry, file)
            else:
                out.addfile(entry)


def make_debug(build, out, scratch):
    """Collects the debug symbols of the programs in the .deb packages."""
    debug = scratch / f"lockstep-{VERSION}-deb-debug"
    programs = [build / "lib/liblockstep.so", build / "bin/lockstep", build / "bin/lockstep-view", build / "bin/lockstep-archive",
                *(build / f"bin/lockstep-{verb}" for verb in VERBS)]
    for program in programs:
        copy = scratch / program.name
        shutil.copy(program, copy)
        split(copy, debug)
        copy.unlink()
    write_tar(out / f"{debug.name}.tar.gz", debug)


def make_tarball(build, out, scratch):
    arm = build_arm(build)
    name = f"lockstep-{VERSION}"
    top, debug = scratch / name, scratch / f"{name}-debug"
    for component in ("recorder", "single", "common"):
        run("cmake", "--install", build, "--component", component, "--prefix", top)
    for architecture, library, tools in (("x86_64", top / "lib/liblockstep.so", ""), ("aarch64", arm, "aarch64-linux-gnu-")):
        folder = top / "lib" / architecture
        folder.mkdir()
        shutil.copy(library, folder / "liblockstep.so")
        split(folder / "liblockstep.so", debug, tools)
    # `lockstep run` looks for the recorder of this architecture next to itself.
    (top / "lib/liblockstep.so").unlink()
    (top / "lib/liblockstep.so").symlink_to("x86_64/liblockstep.so")
    split(top / "bin/lockstep", debug)
    shutil.copy(build / "static/bin/lockstep-view", scratch)  # the viewer of the .rpm
    split(scratch / "lockstep-view", debug)
    for part in ("probe", "liblockstep-probe-nccl.so", *(f"standin/{name}" for name in STANDINS)):
        run("strip", "--strip-unneeded", top / "lib/lockstep" / part)
    shutil.copy(SOURCE / "LICENSE", top / "LICENSE")
    write_tar(out / f"{name}-linux.tar.gz", top)
    write_tar(out / f"{name}-linux-debug.tar.gz", debug)
    return top


def make_with_cpack(build, out, scratch, generator):
    folder = scratch / generator
    run("cpack", "-G", generator, "-B", folder, "--config", build / "CPackConfig.cmake", cwd=build)
    for path in sorted(folder.iterdir()):
        if path.suffix in (".deb", ".rpm"):
            shutil.copy(path, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="deb,rpm,tar,wheel,debug")
    asked = parser.parse_args()
    os.umask(0o022)
    build, out, only = asked.build.resolve(), asked.out.resolve(), asked.only.split(",")
    if not (build / "CMakeCache.txt").exists():
        sys.exit(f"make.py: {build} is not configured")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    targets = ["lockstep", "lockstep_probe", "standin_nccl", "standin_cudart", "lockstep_front", *(f"lockstep-{verb}" for verb in VERBS), "lockstep-archive", "lockstep-view"]
    if "rpm" in only or "tar" in only:
        targets += ["lockstep_single", "lockstep_view_single"]
    run("cmake", "--build", build, "--target", *targets)
    with tempfile.TemporaryDirectory(prefix="packages-", dir=build) as name:
        scratch = pathlib.Path(name)
        if "deb" in only:
            make_with_cpack(build, out, scratch, "DEB")
        if "rpm" in only:
            make_with_cpack(build, out, scratch, "RPM")
        if "tar" in only:
            top = make_tarball(build, out, scratch)
            if "wheel" in only:
                make_wheel.make(top, out)
        if "debug" in only:
            make_debug(build, out, scratch)
        sbom.write(build, out / f"lockstep-{VERSION}.spdx.json", out)
    with open(out / "SHA256SUMS", "w", encoding="ascii") as sums:
        for path in sorted(out.iterdir()):
            if path.name != "SHA256SUMS":
                sums.write(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")


if __name__ == "__main__":
    main()
