"""Finds compilers, CUDA and NCCL libraries and headers, and Python with PyTorch on this machine, and runs programs."""
import glob
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OWN_HEADERS = os.path.join(ROOT, "tests", "standin", "include")


class NotMeasured(Exception):
    """Something that a measurement needs is missing on this machine."""


class Failed(Exception):
    """A program failed or did something that it must not do."""


class Finished:
    def __init__(self, status, out, err, timed_out):
        self.status, self.out, self.err, self.timed_out = status, out, err, timed_out

    def lines(self):
        """Returns the JSON lines that the program printed."""
        found = []
        for line in self.out.splitlines():
            if line.startswith("{"):
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return found

    def why(self):
        last = [line for line in (self.err + "\n" + self.out).splitlines() if line.strip() and not line.startswith("{")]
        what = "ran past its time limit" if self.timed_out else f"ended with {self.status}"
        return f"{what}: {last[-1].strip()[:300]}" if last else what


def end(process):
    """Kills a program that start() started, and all its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def start(command, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=None):
    return subprocess.Popen(command, env=env, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, text=True, errors="replace", cwd=cwd,
                            start_new_session=True)


def finish(process, timeout):
    try:
        out, err = process.communicate(timeout=max(timeout, 0.1))
        return Finished(process.returncode, out, err, False)
    except subprocess.TimeoutExpired:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        out, err = process.communicate()
        return Finished(process.returncode, out, err, True)


def run(command, env=None, timeout=60, cwd=None):
    try:
        return finish(start(command, env if env is not None else dict(os.environ), cwd=cwd), timeout)
    except OSError as error:
        return Finished(127, "", str(error), False)


def first(paths):
    for path in paths:
        if path and os.path.exists(path):
            return path
    return None


def find_file(pattern, folders):
    """Returns the last match of `pattern` in the first folder with a match; versions in names make this the highest version."""
    for folder in folders:
        found = sorted(p for p in glob.glob(os.path.join(folder, pattern)) if not p.endswith(".a"))
        if found:
            return found[-1]
    return None


def linker_cache():
    """Returns {library name: path} from the dynamic linker's cache."""
    out = run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"], timeout=20).out
    return {line.split()[0]: line.split(" => ")[1].strip() for line in out.splitlines() if " => " in line}


class Setup:
    """Absolute paths; None for what was not found. `standin` is the build's standin folder, whose libraries replace the real ones."""

    def __init__(self, options):
        self.standin = os.path.abspath(options.standin) if options.standin else None
        self.python = options.python or sys.executable
        self.compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        self.cmake = shutil.which("cmake")
        self.nvcc = shutil.which("nvcc") or first(["/usr/local/cuda/bin/nvcc"])
        if self.standin:
            libraries = os.path.join(self.standin, "lib")
            self.cuda = os.path.join(libraries, "libcuda.so.1")
            self.cudart = os.path.join(libraries, "libcudart.so.13")
            self.nccl = os.path.join(libraries, "libnccl.so.2")
            self.includes = [os.path.join(self.standin, "include")]
            self.stub = self.cached = False
            return
        cache = linker_cache()
        wheels = self.wheel_folders()
        toolkits = [p for p in (options.cuda, os.environ.get("CUDA_HOME"), "/usr/local/cuda", "/opt/cuda", "/usr") if p]
        machine = platform.machine()
        library_folders = [os.path.join(p, sub) for p in toolkits for sub in ("lib64", "lib", f"lib/{machine}-linux-gnu")]
        wheel_libraries = [os.path.join(w, "lib") for w in wheels]
        self.cuda = first([cache.get("libcuda.so.1")]) or find_file("libcuda.so.1", os.environ.get("LD_LIBRARY_PATH", "").split(":") + [
            "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib64", f"/usr/lib/{machine}-linux-gnu", "/usr/lib/wsl/lib"])
        self.cached = cache.get("libcuda.so.1") is not None
        self.stub = self.cuda is None
        if self.stub:  # a program can link with a stub, but not run
            self.cuda = find_file("stubs/libcuda.so", library_folders)
        # PyTorch's own CUDA runtime and NCCL precede those of the system, as in PyTorch programs.
        self.cudart = find_file("libcudart.so.[0-9]*", wheel_libraries + library_folders)
        if not self.cudart:
            self.cudart = first([cache.get(f"libcudart.so.{n}") for n in (13, 12, 11)])
        given = options.nccl
        if given and os.path.isdir(given):
            given = find_file("libnccl.so.2", [given, os.path.join(given, "lib"), os.path.join(given, "lib64")])
        self.nccl = given or find_file("libnccl.so.2", wheel_libraries + library_folders) or first([cache.get("libnccl.so.2")])
        self.includes = []
        # Prefers the headers next to the libraries. Otherwise uses those of the stand-in, which have the same names and layouts.
        beside = [os.path.join(os.path.dirname(os.path.dirname(p)), "include") for p in (self.cudart, self.nccl) if p]
        include_folders = beside + [os.path.join(p, "include") for p in wheels + toolkits]
        for header in ("cuda.h", "cuda_runtime_api.h", "nccl.h"):
            folder = next((f for f in include_folders if os.path.exists(os.path.join(f, header))), None)
            if folder and folder not in self.includes:
                self.includes.append(folder)
            elif not folder:
                self.includes = [OWN_HEADERS]
                break

    def wheel_folders(self):
        """Returns the folders nvidia/* with libraries in the site-packages of the chosen Python."""
        out = run([self.python, "-c", "import nvidia; print('\\n'.join(nvidia.__path__))"], timeout=60)
        folders = []
        if out.status == 0:
            for path in out.out.split():
                folders += sorted(glob.glob(os.path.join(path, "cu[0-9]*"))) + sorted(glob.glob(os.path.join(path, "*")))
        return [f for f in folders if os.path.isdir(os.path.join(f, "lib"))]

    def library_path(self):
        driver = None if self.stub or self.cached else self.cuda  # the dynamic linker finds a cached driver without its folder, which has many other
                                                                  # libraries
        return ":".join(dict.fromkeys(os.path.dirname(p) for p in (self.nccl, self.cudart, driver) if p))

    def missing(self):
        return [name for name, path in (("a C++ compiler", self.compiler), ("libcuda.so.1, the driver", None if self.stub else self.cuda),
                                        ("libcudart", self.cudart), ("libnccl.so.2", self.nccl)) if not path]

    def environment(self, **more):
        """Returns the environment for a measured program: the caller's without settings for the recorder and NCCL, plus `more`."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("LOCKSTEP", "NCCL_", "TORCH_NCCL", "STANDIN_", "LD_PRELOAD", "CUDA_DEVICE_MAX"))}
        env["LD_LIBRARY_PATH"] = ":".join(p for p in (self.library_path(), os.environ.get("LD_LIBRARY_PATH")) if p)
        env.update({k: v for k, v in more.items() if v is not None})
        return env


def describe(setup, facts):
    """Returns rows (what, value) that describe the machine. `facts` is the output of the facts program, or None."""
    rows = [("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())), ("system", f"{platform.system()} {platform.release()}"),
            ("libc", " ".join(platform.libc_ver()))]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        rows.append(("CPU", f"{len(names) or os.cpu_count()} x {names[0] if names else platform.machine()}"))
    except OSError:
        rows.append(("CPU", platform.machine()))
    if facts:
        rows.append(("GPU", f"{facts['gpus']} x {facts['gpu']}, compute {facts['compute']}, {facts['multiprocessors']} multiprocessors"))
        rows.append(("CUDA", f"driver {version(facts['cuda_driver'])}, runtime {version(facts['cuda_runtime'])}"))
    driver = None
    smi = shutil.which("nvidia-smi")
    if smi and not setup.standin:
        query = "--query-gpu=driver_version,clocks.sm,clocks.max.sm,power.limit,mig.mode.current"
        out = run([smi, query, "--format=csv,noheader"], timeout=20)
        if out.status == 0 and out.out.strip():
            driver = out.out.strip().splitlines()[0]
            rows.append(("driver, SM clock now and at most, power limit, MIG", driver))
    if not driver and not setup.standin:
        try:
            with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
                rows.append(("driver", file.readline().strip()))
        except OSError:
            pass
    return rows


def version(number):
    return f"{number // 1000}.{number % 1000 // 10}"
