#!/usr/bin/env python3
"""Makes the Python wheel lockstep-recorder from the tarball's files: the static program, the recorder, and the module in wheel/.

make_wheel.py TOP OUT   TOP: the unpacked tarball. The same files give the same bytes."""

import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import zipfile

from release import SOURCE, VERSION, WHEN

# glibc's libraries, which exist on every Linux that a manylinux tag covers.
LIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
OLDEST = (2, 5)  # the oldest version that has a tag

METADATA = f"""Metadata-Version: 2.1
Name: lockstep-recorder
Version: {VERSION}
Summary: Flight recorder and desync debugger for distributed GPU training
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.8
Description-Content-Type: text/markdown

Lockstep names the rank that hangs a distributed training job. This package has the recorder, the command `lockstep` (also `python -m lockstep`),
and a function that returns a verdict:

    lockstep run -- torchrun --nproc-per-node 8 train.py

    import lockstep
    lockstep.verdict("incident")["findings"]
"""
ENTRY_POINTS = "[console_scripts]\nlockstep = lockstep.__main__:main\n"


def platform_of(programs):
    """Returns the manylinux tag under which all of these ELF files run, from the glibc symbol versions that they use."""
    newest = OLDEST
    for path in programs:
        said = subprocess.run(["readelf", "-dVW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        strange = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)) - LIBC
        if strange:
            raise ValueError(f"{path.name} needs {', '.join(sorted(strange))}, which not every Linux has")
        for version in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", said):
            newest = max(newest, tuple(map(int, version)))
    return "manylinux_%d_%d_x86_64" % newest


def make(top, out):
    """Writes the wheel into OUT; returns its path."""
    programs = {"lockstep/bin/lockstep": top / "bin/lockstep", "lockstep/lib/liblockstep.so": top / "lib/x86_64/liblockstep.so"}
    tag = "py3-none-" + platform_of(programs.values())
    information = f"lockstep_recorder-{VERSION}.dist-info"
    files = {name: path.read_bytes() for name, path in programs.items()}
    for path in sorted((SOURCE / "packaging/wheel/lockstep").glob("*.py")):
        files[f"lockstep/{path.name}"] = path.read_bytes()
    files[f"{information}/licenses/LICENSE"] = (SOURCE / "LICENSE").read_bytes()
    files[f"{information}/METADATA"] = METADATA.encode()
    files[f"{information}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: lockstep ({VERSION})\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{information}/entry_points.txt"] = ENTRY_POINTS.encode()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{information}/RECORD"] = f"{record}{information}/RECORD,,\n".encode()
    path = out / f"lockstep_recorder-{VERSION}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, tuple(map(int, re.findall(r"\d+", WHEN)))[:6])
            entry.create_system = 3  # Unix, so that the file mode applies
            entry.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 6)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(make(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
