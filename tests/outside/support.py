"""Shared by the parts of `./dev outside`: a folder outside the repository, packages from PyPI, and programs with and without the recorder."""

import glob
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


class Skip(Exception):
    """A part, or one case of it, cannot run here. The text is the reason."""


def descendants(pid):
    """Returns the process and all its descendants, except those whose parent has exited."""
    found, seen = [pid], []
    while found:
        parent = found.pop()
        for path in glob.glob("/proc/%d/task/*/children" % parent):
            try:
                found += [int(child) for child in pathlib.Path(path).read_text().split()]
            except OSError:
                pass
        seen.append(parent)
    return seen[1:]


class Outside:
    """Counts results, and knows the paths."""

    def __init__(self, folder, build, quick):
        self.folder, self.build, self.quick = pathlib.Path(folder), pathlib.Path(build), quick
        self.library = self.build / "lib/liblockstep.so"
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.unreachable = ""  # why no package is available; set at the first failure
        self.folder.mkdir(parents=True, exist_ok=True)
        self.temporary = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-outside-"))

    def close(self):
        shutil.rmtree(self.temporary, ignore_errors=True)

    def check(self, name, problems):
        """Counts one case, which passes if `problems` is empty."""
        problems = [str(problem) for problem in problems]
        print("%-6s %s" % ("ok" if not problems else "FAILED", name), flush=True)
        for problem in problems:
            print("       " + problem.replace("\n", "\n       "), flush=True)
        if problems:
            self.failed += 1
        else:
            self.passed += 1

    def skip(self, name, why):
        print("%-6s %s: %s" % ("skip", name, why), flush=True)
        self.skipped += 1

    def python(self):
        """Returns the interpreter of the virtual environment, which the first call creates."""
        python = self.folder / "venv/bin/python"
        if not python.exists():
            made = subprocess.run([sys.executable, "-m", "venv", str(self.folder / "venv")], capture_output=True, text=True)
            if made.returncode != 0:
                shutil.rmtree(self.folder / "venv", ignore_errors=True)
                raise Skip("no virtual environment can be made: " + (made.stderr or made.stdout).strip()[-300:])
        return str(python)

    def pip(self, *arguments):
        """Runs pip. Raises Skip if no registry answers; after the first failure, at once."""
        if self.unreachable:
            raise Skip(self.unreachable)
        result = subprocess.run([self.python(), "-m", "pip", *arguments, "--disable-pip-version-check", "--retries", "1", "--timeout", "15"],
                                capture_output=True, text=True)
        if re.search(r"NewConnectionError|ConnectTimeout|ReadTimeout|Name or service not known|Temporary failure in name", result.stderr):
            self.unreachable = "no package registry answers"
            raise Skip(self.unreachable)
        return result

    def install(self, *packages, check):
        """Installs packages into the virtual environment, unless the statement `check` already succeeds there."""
        python = self.python()
        if subprocess.run([python, "-c", check], capture_output=True).returncode == 0:
            return python
        result = self.pip("install", "-q", *packages)
        if result.returncode != 0 or subprocess.run([python, "-c", check], capture_output=True).returncode != 0:
            raise Skip("pip cannot install %s: %s" % (" ".join(packages), last_line(result.stderr) or "it does not import"))
        return python

    def wheel(self, package, version, *options):
        """Returns the folder with the files of a wheel, downloaded and unpacked once. `options` go to pip."""
        place = self.folder / "wheels" / ("%s-%s" % (package, version))
        if place.exists():
            return place
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            result = self.pip("download", "-q", "--no-deps", "-d", folder, *options, "%s==%s" % (package, version))
            wheels = glob.glob(folder + "/*.whl")
            if result.returncode != 0 or not wheels:
                raise Skip("pip cannot download it: " + last_line(result.stderr))
            unpacked = pathlib.Path(folder) / "unpacked"
            with zipfile.ZipFile(wheels[0]) as archive:
                archive.extractall(unpacked)
            place.parent.mkdir(exist_ok=True)
            os.replace(unpacked, place)
        return place

    def run(self, command, preload, rings=None, timeout=120, **environment):
        """Runs a program with or without the recorder preloaded, which writes rings to `rings`. Returns exit status, output and errors."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")}
        if preload:
            env["LD_PRELOAD"] = str(self.library)
            env["LOCKSTEP_DIR"] = str(rings or self.rings())
        env.update(environment)
        result = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, timeout=timeout)
        return result.returncode, result.stdout, result.stderr

    def rings(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.temporary))


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


class Ring:
    """The header of a ring file (docs/ring-file.md)."""

    def __init__(self, path):
        head = pathlib.Path(path).read_bytes()[:4096]
        self.nccl_version = struct.unpack_from("<i", head, 140)[0]
        self.unwrapped, self.newest = struct.unpack_from("<Ii", head, 1832)
        self.names = head[1840:1840 + 480].split(b"\0")[0].decode("ascii", "replace").split()


def rings_in(folder):
    return [Ring(path) for path in sorted(pathlib.Path(folder).rglob("*.ring"))]
