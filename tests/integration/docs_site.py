"""The folder in which docs_test runs the commands of a page, and replacements for what a site has: torchrun, keys and folders with other names, kubectl,
sacct, systemctl for another root, and a real Slurm and ClickHouse if installed."""

import glob
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import slurm_cluster
from clickhouse import PASSWORD, SERVER, ClickHouse
from support import BUILD, MEMORY, TRAINSIM, free_port, wait_for

TESTS = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(TESTS))
VIEWER = os.path.exists(os.path.join(BUILD, "bin/lockstep-view"))
SLURM_FIRST_PORT = 17100

TRAIN = """#!/bin/sh
# Replaces a training program. No page needs more than eight ranks.
: ${WORLD_SIZE:=${SLURM_NTASKS:-${OMPI_COMM_WORLD_SIZE:-1}}}
export WORLD_SIZE MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT=${MASTER_PORT:-@PORT@}
exec @TRAINSIM@ --tp 2 --dp $((WORLD_SIZE / 2)) --pace-ms 20 --steps ${DOCS_TEST_STEPS:-25}
"""
TORCHRUN = """#!/usr/bin/env python3
# Does what the pages need of torchrun: starts the workers of one host, the only one, with torchrun's variables.
import os, socket, subprocess, sys
words, given = sys.argv[1:], {}
while words and words[0].startswith("--"):
    name, _, value = words.pop(0).partition("=")
    given[name] = value or words.pop(0)
workers = int(given.get("--nproc-per-node", 1))
if int(given.get("--nnodes", 1)) > 1 and "--rdzv-endpoint" not in given:
    sys.exit("torchrun: several nodes meet nowhere without --rdzv-endpoint")
with socket.socket() as found:
    found.bind(("127.0.0.1", 0))
    port = str(found.getsockname()[1])
started = []
for rank in range(workers):
    environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(workers), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(workers), GROUP_RANK="0",
                       MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TORCHELASTIC_RUN_ID="none", TORCHELASTIC_RESTART_COUNT="0",
                       TORCHELASTIC_MAX_RESTARTS="0")
    started.append(subprocess.Popen([sys.executable, *words], env=environment))
sys.exit(max(abs(worker.wait()) for worker in started))
"""
KUBECTL = """#!/usr/bin/env python3
# apply: checks that the API accepts the documents. port-forward: checks that the manifest has the service and port.
import signal, sys
sys.path.insert(0, "@TESTS@")
import jsonschema, kubernetes_schema, yaml
words = sys.argv[1:]
namespace = words[words.index("-n") + 1] if "-n" in words else ""
with open("@SOURCE@/packaging/kubernetes/lockstep.yaml" if "port-forward" in words else words[words.index("-f") + 1]) as file:
    documents = [document for document in yaml.safe_load_all(file) if document]
if words[0] == "apply":
    for document in documents:
        jsonschema.Draft7Validator(kubernetes_schema.KINDS[document["kind"]]).validate(document)
        print(document["kind"], document["metadata"]["name"], "created")
elif "port-forward" in words:
    kind, name = words[words.index("port-forward") + 1].split("/")
    port = int(words[-1])
    found = [document for document in documents if document["kind"].lower() == kind and document["metadata"]["name"] == name
             and document["metadata"].get("namespace", "") == namespace and port in [one["port"] for one in document["spec"]["ports"]]]
    if not found:
        sys.exit(f"no {kind} {name} with port {port} in {namespace}")
    print(f"Forwarding from 127.0.0.1:{port}", flush=True)
    signal.pause()
else:
    sys.exit(f"what is {words}?")
"""
# Slurm's own sacct needs a job database. This replacement knows the field names of the real sacct.
SACCT = """#!/usr/bin/env python3
import sys, time
wanted = sys.argv[sys.argv.index("-o") + 1].split(",")
real = "@SACCT@"
if real:
    with open(real, "rb") as file:
        program = file.read()
    unknown = [name for name in wanted if b"\\0" + name.encode() + b"\\0" not in program]
    if unknown:
        sys.exit(f"sacct has no fields {unknown}")
stamp = lambda ago: time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - ago))
for number in (1, 2):
    values = {"JobID": str(number), "Start": stamp(7200 * number), "End": stamp(60), "NTasks": "8"}
    print("|".join(values[name] for name in wanted))
"""
# Enables units in the folder's root, where no unit can start.
SYSTEMCTL = """#!/bin/bash
words=()
for word; do [ "$word" = --now ] || words+=("$word"); done
exec @SYSTEMCTL@ --root=@ROOT@ "${words[@]}"
"""
# The packages create this user. Here the user exists only during this command.
CHOWN = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind @ROOT@/passwd /etc/passwd && mount --bind @ROOT@/group /etc/group && exec @CHOWN@ "$@"' sh "$@"
"""


def text_of(path):
    with open(path, errors="replace") as file:
        return file.read()


def has_modules(*names):
    return all(importlib.util.find_spec(name) for name in names)


def may_mount():
    return shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def lacks(text):
    """Returns what a block needs and this machine does not have, or ""."""
    if re.search(r"\bmpirun ", text) and not shutil.which("mpirun"):
        return "mpirun"
    if "lockstep view" in text and not VIEWER:
        return "the viewer"
    if re.search(r"\bsrun ", text) and slurm_cluster.missing():
        return "Slurm"
    if re.search(r"\bkubectl ", text) and not has_modules("yaml", "jsonschema"):
        return "python3-yaml or python3-jsonschema"
    if re.search(r"\bsystemctl ", text) and not shutil.which("systemctl"):
        return "systemctl"
    if re.search(r"\bchown ", text) and not may_mount():
        return "the right to a mount namespace"
    if re.search(r"lockstep archive|LOCKSTEP_ARCHIVE", text) and not (SERVER and shutil.which("openssl")):
        return "clickhouse-server or openssl"
    if "clang++" in text and not (shutil.which("clang++") and shutil.which("ninja")):
        return "clang++ or ninja"
    if "performance.py" in text and not os.path.exists(os.path.join(BUILD, "bench/fr_dumps")):
        return "the benchmark's programs"
    return ""


class Site:
    """A folder with files in which the commands of a page run. `text` is the page."""

    def __init__(self, text):
        self.folder = tempfile.mkdtemp(prefix="lockstep-docs-")
        self.rings = tempfile.mkdtemp(prefix="lockstep-docs-", dir=MEMORY)
        self.ports = {name: free_port() for name in ("collector", "metrics", "train", "relay", "serve")}
        self.services, self.slurm, self.archive = [], None, None
        for name in ("bin", "tmp", "home", "docs", "root", "etc/lockstep", "second"):
            os.makedirs(self.path(name))
        if re.search(r"^lockstep serve ", text, re.M):
            os.makedirs(self.path("var/incidents"))
        fill = {"@TRAINSIM@": TRAINSIM, "@PORT@": str(self.ports["train"]), "@TESTS@": TESTS, "@SOURCE@": SOURCE,
                "@SACCT@": shutil.which("sacct") or "", "@SYSTEMCTL@": shutil.which("systemctl") or "", "@CHOWN@": shutil.which("chown") or "",
                "@ROOT@": self.path("root")}
        for name, program in (("train", TRAIN), ("bin/torchrun", TORCHRUN), ("bin/kubectl", KUBECTL), ("bin/sacct", SACCT), ("bin/systemctl", SYSTEMCTL),
                              ("bin/chown", CHOWN), ("bin/site-drain", "#!/bin/sh\necho \"$@\" >>drained\n"),
                              ("train.py", "import os\nos.execv('./train', ['./train'])\n"),
                              ("bin/python", f"#!/bin/sh\nexec {shlex.quote(sys.executable)} \"$@\"\n")):
            self.program(name, re.sub("|".join(fill), lambda found: fill[found.group()], program))
        for name, line in (("passwd", "lockstep:x:64999:64999::/nonexistent:/usr/sbin/nologin\n"), ("group", "lockstep:x:64999:\n")):
            with open(self.path("root", name), "w") as file:
                file.write(text_of(f"/etc/{name}") + line)
        units = self.path("root/usr/lib/systemd/system")
        shutil.copytree(os.path.join(SOURCE, "packaging/systemd"), units)
        for name, options in (("incident", ["--scenario", "21", "--ranks", "16"]), ("yesterday", ["--scenario", "2", "--ranks", "16"]),
                              ("dumps", ["--scenario", "2", "--ranks", "8", "--format", "fr", "--marks", "full"])):
            if re.search(rf"\b{name}\b", text):
                subprocess.run([os.path.join(BUILD, "bin/lockstep-corpus"), "generate", *options, "--out", self.path("corpus-" + name)], check=True,
                               stdout=subprocess.DEVNULL, timeout=120)
                os.symlink(self.path("corpus-" + name, "data"), self.path(name))
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("LOCKSTEP", "SLURM", "OMPI", "NCCL"))}
        self.environment |= {
            "PATH": os.pathsep.join([self.path("bin"), os.path.join(BUILD, "bin"), os.environ["PATH"]]), "HOME": self.path("home"),
            "LD_LIBRARY_PATH": os.path.join(BUILD, "standin/lib"), "LOCKSTEP_DIR": self.rings, "LOCKSTEP_RUNTIME_DIR": self.path("runtime"),
            "LOCKSTEP_AGENT_RINGS": self.rings, "LOCKSTEP_SPOOL": self.path("spool"), "LOCKSTEP_KEYS": self.path("etc/lockstep/keys"),
            "QT_QPA_PLATFORM": "offscreen", "TMPDIR": self.path("tmp"), "LOCKSTEP_BUILT": BUILD, "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            "OMPI_MCA_plm_rsh_agent": "false", "JOB_NAME": "pretrain"}
        self.state = self.path("state")
        with open(self.state, "w") as file:
            file.write("")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def program(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def bring(self, text):
        """Starts the servers that the block needs."""
        if re.search(r"\bsrun ", text) and self.slurm is None:
            self.slurm = slurm_cluster.SlurmCluster(self.path("slurm"), nodes=1, first_port=SLURM_FIRST_PORT)
            os.makedirs(self.slurm.folder, mode=0o755)
            self.slurm.start()
        if "LOCKSTEP_ARCHIVE=" in text and self.archive is None:
            self.archive = ClickHouse(tls=True)
            self.archive.start()
            with open(self.path("etc/lockstep/archive.password"), "w") as file:
                file.write(PASSWORD)
            self.environment["LOCKSTEP_ARCHIVE_CA"] = os.path.join(self.archive.folder, "ca.pem")

    def own(self, text):
        """Returns the commands with the names of a site replaced by those of this folder."""
        collector, relay = f"127.0.0.1:{self.ports['collector']}", f"127.0.0.1:{self.ports['relay']}"
        own = {
            "/etc/lockstep/": self.path("etc/lockstep/"), "/var/lib/lockstep": self.path("var"), "/path/to/dumps": self.path("dumps"),
            "/usr/lib/liblockstep.so": os.path.join(BUILD, "lib/liblockstep.so"), "/tmp/": self.path("tmp/"), "build/bin/": os.path.join(BUILD, "bin/"),
            "build/bin ": os.path.join(BUILD, "bin "), "0.0.0.0:9470": relay if "--upstream" in text else collector, "head:9470": collector, "relay7:9470": relay,
            "--port 9480": f"--port {self.ports['serve']}", "127.0.0.1:9470": collector, "127.0.0.1:9471": f"127.0.0.1:{self.ports['metrics']}",
            "git clone <this repository> lockstep": "mkdir lockstep", "dump JOB": "dump train", "generate SCENARIO": "generate --scenario 21 --ranks 64 --seed 5",
            # The command would run all tests, including this one. So this only lists the named tests, which must exist.
            "./dev test -R": os.path.join(SOURCE, "dev") + " test -N -R",
            "cmake -S . ": f"cmake -S {SOURCE} ", "build/fuzz/": os.path.join(BUILD, "fuzz/"), "-max_total_time=1200": "-max_total_time=5",
            "./dev ": os.path.join(SOURCE, "dev") + " ", "$PWD/build/bin": os.path.join(BUILD, "bin"), "packaging/": os.path.join(SOURCE, "packaging/")}
        if self.archive is not None:
            own["https://lockstep@ch.example.org:8443"] = f"https://writer@127.0.0.1:{self.archive.tls_port}"
        return re.sub("|".join(map(re.escape, own)), lambda found: own[found.group()], text)

    def run(self, block):
        """Runs a block. Returns None, or the error."""
        expected = re.search(r"exit=([\d,]+)", block.info)
        self.bring(block.text())
        if re.search(r"lockstep dump (train|JOB)", block.text()) and not any(re.search(r"lockstep run|torchrun", command) for command, _, _ in self.services):
            error = self.serve_command("LD_PRELOAD=/usr/lib/liblockstep.so LOCKSTEP_JOB=train torchrun --nproc-per-node 4 train.py")
            if error:
                return error
        script, command, environment = f"set -e\n{self.own(block.text())}\n", ["bash", "-c"], self.environment
        if re.search(r"\bsrun ", block.text()):
            # Runs the block as a batch script inside an allocation. Later blocks do not get Slurm's variables.
            one = "--ntasks-per-node=1" in block.text()
            command, environment = ["salloc", "-N1", "-n1" if one else "-n4", "bash", "-c"], {**self.slurm.environment, **self.environment}
            environment["PATH"] += os.pathsep + os.pathsep.join(slurm_cluster.SBIN)
            script = f". {shlex.quote(self.state)}\n{script}"
        else:
            script = f". {shlex.quote(self.state)}\ntrap 'export -p >{shlex.quote(self.state)}' EXIT\n{script}"
        try:
            done = subprocess.run([*command, script], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=1200 if "clang++" in script else 240, check=False)
        except subprocess.TimeoutExpired as error:
            return f"did not end: {error.stdout}{self.logs()}"
        if re.search(r"(?m)^Total Tests: 0$", done.stdout):
            return f"names no test:\n{done.stdout}"
        if str(done.returncode) not in (expected.group(1) if expected else "0").split(","):
            return f"exit status {done.returncode}:\n{done.stdout}{self.logs()}"
        return None

    def serve(self, block):
        """Starts each line of the block as a service. Returns None, or the error."""
        self.bring(block.text())
        for command in block.commands():
            if command.startswith("export "):
                with open(self.state, "a") as file:
                    file.write(self.own(command) + "\n")
                continue
            error = self.serve_command(command)
            if error:
                return error
        return None

    def serve_command(self, command):
        # Added to the variables that earlier blocks exported.
        own = {"DOCS_TEST_STEPS": "1000000"}
        if re.search(r"--upstream|relay7", command):
            # Gives an agent on a second host its own folders.
            own |= {"LOCKSTEP_RUNTIME_DIR": self.path("second/runtime"), "LOCKSTEP_SPOOL": self.path("second/spool"), "LOCKSTEP_HOST": "second",
                    "LOCKSTEP_AGENT_RINGS": self.path("second/rings")}
        if command.startswith("lockstep run "):
            own["LOCKSTEP_JOB"] = "train"
        environment = {**self.environment}
        if not os.path.exists(environment["LOCKSTEP_KEYS"]):
            del environment["LOCKSTEP_KEYS"]  # the page has not created the keys yet
        command = re.sub(r"\s+#\s.*$", "", self.own(command))
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in own.items())
        log = self.path(f"tmp/service{len(self.services)}.log")
        with open(log, "wb") as file:
            process = subprocess.Popen(["bash", "-c", f". {shlex.quote(self.state)}\nexport {exports}\n{command}"], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        self.services.append((command, process, log))
        if not wait_for(lambda: self.is_up(command, log) or process.poll() is not None, 120) or process.poll() is not None:
            return f"{command}: is not up (status {process.poll()}){self.logs()}"
        return None

    def ended(self):
        """Returns which services exited before the end of the page, or None."""
        gone = [f"{command} ended with {process.returncode}" for command, process, _ in self.services if process.poll() is not None]
        return "; ".join(gone) + self.logs() if gone else None

    def log_of(self, verb):
        return "".join(text_of(log) for command, _, log in self.services if re.search(rf"lockstep {verb}\b", command))

    def is_up(self, command, log):
        for verb, word in (("lockstep collector", "listens on"), ("lockstep agent", "watching"), ("lockstep archive", "following"),
                           ("lockstep serve", "http://"), ("kubectl", "Forwarding")):
            if verb in command:
                return word in text_of(log)
        if "lockstep view" in command:
            return True
        # The page needs a job that the agent or the collector knows.
        if "lockstep collector" in " ".join(command for command, _, _ in self.services):
            return "new job " in self.log_of("collector")
        return bool(glob.glob(self.rings + "/**/*.ring", recursive=True))

    def logs(self):
        return "".join(f"\n--- {command}\n{text_of(log)[-2000:]}" for command, _, log in self.services) + (self.slurm.logs() if self.slurm else "")

    def close(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _, process, _ in reversed(self.services):
                try:
                    os.killpg(process.pid, number)
                except OSError:
                    pass
            wait_for(lambda: all(process.poll() is not None for _, process, _ in self.services), 8)
        for server, end in ((self.slurm, "stop"), (self.archive, "close")):
            if server is not None:
                getattr(server, end)()
        # A launcher may give ranks their own sessions. They end with the job of their ring folder.
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.rings, ignore_errors=True)
