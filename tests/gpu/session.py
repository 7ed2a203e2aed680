"""One run of the script: the compiled programs, the working folders, the time limit, and how recorded programs start."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from machine import HERE, OWN_HEADERS, ROOT, Failed, NotMeasured, end, first, finish, run, start

# The number after "events/" is LOCKSTEP_GPU_SAMPLE: one in that many operations is timed.
MODES = ("off", "done", "full", "events", "events/61", "profiler", "auto")
# What ReadGpuMode in recorder/base/environment.cpp chooses for auto; the key is CUDA_DEVICE_MAX_CONNECTIONS.
AUTO = {None: "done", 1: "off"}
# The GPU modes by their number in the ring file's header.
MARKS = {0: "off", 1: "done", 2: "full", 3: "events", 4: "profiler"}
MULTI_RANK = 23003  # the first NCCL version that lets several ranks share a GPU


class Session:
    def __init__(self, options, setup):
        self.options, self.setup = options, setup
        self.work = os.path.abspath(options.work) if options.work else tempfile.mkdtemp(prefix="lockstep-gpu-")
        os.makedirs(self.work, exist_ok=True)
        # Rings are on tmpfs, as in real use.
        self.rings = tempfile.mkdtemp(prefix="lockstep-gpu-", dir="/dev/shm")
        self.out = os.path.abspath(options.out)
        os.makedirs(self.out, exist_ok=True)
        self.deadline = time.monotonic() + options.budget
        self.built = {}
        self.recorder = os.path.abspath(options.recorder) if options.recorder else None
        self.analyze = None
        self.facts = None
        self.nccl_version = 0
        self.count = 0

    def close(self):
        shutil.rmtree(self.rings, ignore_errors=True)
        if not self.options.work:
            shutil.rmtree(self.work, ignore_errors=True)

    def left(self):
        return self.deadline - time.monotonic()

    # Building

    def prepare(self):
        missing = self.setup.missing()
        if missing:
            raise NotMeasured("not found: " + ", ".join(missing))
        if not self.recorder:
            self.recorder = self.build_recorder()
        try:
            self.compile_programs()
        except Failed:
            # If headers and libraries have different versions, uses the stand-in's headers, which contain only what all versions have.
            if self.setup.includes == [OWN_HEADERS]:
                raise
            self.setup.includes = [OWN_HEADERS]
            self.compile_programs()
        self.built["lookups"] = self.compile_lookups()
        self.built["ring_print"] = self.compile_ring_print()
        found = run([self.built["facts"], "machine"], self.setup.environment(**self.standin_environment()), 60)
        if found.status != 0 or not found.lines():
            raise NotMeasured("the driver does not work here: " + found.why())
        self.facts = found.lines()[0]
        self.nccl_version = self.ask_nccl_version()

    def compile_programs(self):
        for name, libraries in (("facts", False), ("nccl_job", True)):
            self.built[name] = self.compile(name, libraries)

    def build_recorder(self):
        if not self.setup.cmake:
            raise NotMeasured("not found: cmake (or give a built recorder with --recorder)")
        folder = os.path.join(self.work, "recorder")
        configure = [self.setup.cmake, "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DLOCKSTEP_ANALYZER=OFF",
                     "-DLOCKSTEP_COLLECTOR=OFF", "-DLOCKSTEP_TESTS=OFF", "-DLOCKSTEP_BENCH=OFF"]
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        for command in (configure, [self.setup.cmake, "--build", folder, "--target", "lockstep", "--parallel", str(os.cpu_count() or 2)]):
            done = run(command, timeout=min(240, self.left()))
            if done.status != 0:
                raise Failed("building the recorder " + done.why())
        return os.path.join(folder, "lib", "liblockstep.so")

    def cxx(self, output, arguments):
        done = run([self.setup.compiler, "-std=c++20", "-O2", "-Wall", "-Wextra", *arguments, "-o", output], timeout=min(400, self.left()))
        if done.status != 0:
            raise Failed(f"compiling {os.path.basename(output)} " + (done.err.strip().splitlines() or [done.why()])[0])
        return output

    def compile(self, name, nccl):
        setup = self.setup
        includes = [word for folder in setup.includes for word in ("-isystem", folder)]
        libraries = ([setup.nccl] if nccl else []) + [setup.cudart, setup.cuda]
        search = [f"-Wl,-rpath-link,{folder}" for folder in setup.library_path().split(":") if folder]
        return self.cxx(os.path.join(self.work, name), [*includes, os.path.join(HERE, name + ".cpp"), *libraries, *search, "-ldl"])

    def compile_lookups(self):
        return self.cxx(os.path.join(self.work, "lookups.so"), ["-shared", "-fPIC", os.path.join(HERE, "lookups.cpp"), "-ldl"])

    def compile_ring_print(self):
        ring = os.path.join(ROOT, "recorder", "ring")
        readers = sorted(os.path.join(ring, f) for f in os.listdir(ring)
                         if f.startswith("reader") and f.endswith(".cpp") and "_test" not in f)
        return self.cxx(os.path.join(self.work, "ring_print"), ["-I", ROOT, os.path.join(HERE, "ring_print.cpp"), *readers])

    def find_analyzer(self):
        """Returns the given analyzer, otherwise the one next to the sources or on the PATH, otherwise builds one if its libraries are installed. Returns
        None after storing the reason."""
        if self.analyze:
            return self.analyze
        given = self.options.analyze or self.inner_analyzer() or first([os.path.join(ROOT, "build", "bin", "lockstep-analyze"),
                                                                        shutil.which("lockstep-analyze")])
        if given and run([given, "--version"], timeout=20).status == 0:
            self.analyze = os.path.abspath(given)
            return self.analyze
        if self.options.analyze:
            raise NotMeasured(f"{self.options.analyze} does not run here")
        folder = os.path.join(self.work, "analyzer")
        configure = run([self.setup.cmake or "cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DLOCKSTEP_GUI=OFF", "-DLOCKSTEP_COLLECTOR=OFF",
                         "-DLOCKSTEP_TESTS=OFF", "-DLOCKSTEP_BENCH=OFF"], timeout=min(60, self.left()))
        if configure.status != 0:
            raise NotMeasured("no analyzer: none built beside the sources, none given with --analyze, and its libraries are not here")
        built = run([self.setup.cmake, "--build", folder, "--target", "lockstep-analyze", "--parallel", str(os.cpu_count() or 2)],
                    timeout=min(400, self.left()))
        if built.status != 0:
            raise NotMeasured("no analyzer: building it " + built.why())
        self.analyze = os.path.join(folder, "bin", "lockstep-analyze")
        return self.analyze

    def inner_analyzer(self):
        """Returns the analyzer inside the given static lockstep: the same program under another name."""
        if not self.options.lockstep:
            return None
        name = os.path.join(self.work, "lockstep-analyze")
        if not os.path.lexists(name):
            os.symlink(os.path.abspath(self.options.lockstep), name)
        return name

    def ask_nccl_version(self):
        text = "import ctypes,sys; v=ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)"
        done = run([self.setup.python, "-c", text, self.setup.nccl], self.setup.environment(), 60)
        return int(done.out) if done.status == 0 and done.out.strip().isdigit() else 0

    def torch_version(self):
        """Returns (PyTorch, its CUDA, its NCCL version). Raises NotMeasured if PyTorch is missing or sees no GPU."""
        text = ("import torch,json; print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.is_available() and "
                "list(torch.cuda.nccl.version())]))")
        done = run([self.setup.python, "-c", text], self.torch_environment(), 120)
        if done.status != 0:
            raise NotMeasured(f"no PyTorch in {self.setup.python}")
        found = json.loads(done.out.strip().splitlines()[-1])
        if not found[2]:
            raise NotMeasured(f"PyTorch {found[0]} sees no GPU")
        return found

    # Running

    def torch_environment(self, *arguments, **more):
        """Returns the environment for a PyTorch program, which finds its own libraries. A chosen NCCL is preloaded, because the wheels' search path
        precedes LD_LIBRARY_PATH."""
        env = self.environment(*arguments, **more)
        env["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")
        if self.options.nccl:
            env["LD_PRELOAD"] = ":".join(p for p in (env.get("LD_PRELOAD"), self.setup.nccl) if p)
        return env

    def standin_environment(self):
        return {"STANDIN_DEVICES": "1"} if self.setup.standin else {}

    def environment(self, mode=None, connections=None, rings=None, hook=None, **more):
        """Returns the environment for a program that is recorded in `mode`, or not recorded if `mode` is None."""
        more = dict(self.standin_environment(), **more)
        if connections:
            more["CUDA_DEVICE_MAX_CONNECTIONS"] = str(connections)
        if mode:
            mode, _, sample = mode.partition("/")
            more.update(LD_PRELOAD=self.recorder, LOCKSTEP_DIR=rings, LOCKSTEP_JOB="gpu", LOCKSTEP_GPU=mode, LOCKSTEP_GPU_SAMPLE=sample or None)
            if hook:
                more["LOCKSTEP_HOOK"] = hook
        return self.setup.environment(**more)

    def ring_folder(self):
        self.count += 1
        folder = os.path.join(self.rings, str(self.count))
        os.makedirs(folder, mode=0o700)
        return folder

    def ring_files(self, folder):
        return sorted(os.path.join(path, f) for path, _, files in os.walk(folder) for f in files if f.endswith(".ring"))

    def read_rings(self, folder):
        files = self.ring_files(folder)
        if not files:
            return []
        done = run([self.built["ring_print"], *files], timeout=30)
        if done.status != 0:
            raise Failed("reading a ring file " + done.why())
        return done.lines()

    def worlds(self):
        """Returns the job shapes that this machine allows: (name, ranks, processes, arguments, environment)."""
        found = [("1 rank", 1, 1, [], {})]
        if self.nccl_version >= MULTI_RANK:
            found.append(("2 ranks on one GPU, one process", 2, 1, ["--ranks-here", "2"], {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}))
        gpus = min(self.facts["gpus"], 8)
        if gpus > 1:
            found.append((f"{gpus} ranks, a GPU each", gpus, gpus, [], {}))
        return found

    def start_ranks(self, processes, arguments, environment, same_gpu=False, stdout=subprocess.PIPE):
        """Starts nccl_job in this many processes. `environment` is a function of the rank."""
        identity = os.path.join(self.ring_folder(), "id")
        started = []
        for rank in range(processes):
            env = environment(rank)
            env.update(RANK=str(rank), WORLD_SIZE=str(processes), LOCAL_RANK=str(rank))
            command = [self.built["nccl_job"], "--ptx", os.path.join(HERE, "kernels.ptx")]
            if processes > 1:
                command += ["--world", str(processes), "--rank", str(rank), "--id", identity, "--device", "0" if same_gpu else str(rank)]
            target = stdout(rank) if callable(stdout) else stdout
            started.append(start(command + arguments, env, stdout=target))
        return started

    def run_ranks(self, processes, arguments, environment, timeout, same_gpu=False):
        """Runs a job that must end normally, and returns rank 0's output."""
        started = self.start_ranks(processes, arguments, environment, same_gpu)
        give_up = time.monotonic() + min(timeout, self.left())
        try:
            done = [finish(process, give_up - time.monotonic()) for process in started]
        finally:
            for process in started:
                end(process)
        for rank, one in enumerate(done):
            if one.status != 0:
                raise Failed(f"rank {rank} of the NCCL program " + one.why())
        return done[0]
