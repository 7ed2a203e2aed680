"""A cluster on one machine: a collector, relays, agents with different host names, and trainsim ranks. Uses only the loopback."""

import base64
import glob
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from support import BIN, BUILD, LIBRARY, MEMORY, clean_environment, free_port


class Proxy:
    """A proxy between agents and the collector that forwards bytes, stalls, or cuts every connection."""

    def __init__(self, target_port):
        self.target_port = target_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs, self.stalled, self.shut, self.closing = {}, False, False, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def drop(self, end):
        other = self.pairs.pop(end, None)
        for one in (end, other):
            if one is not None:
                self.pairs.pop(one, None)
                one.close()

    def run(self):
        while not self.closing:
            ends = [self.listener] + ([] if self.stalled else list(self.pairs))
            for end in select.select(ends, [], [], 0.05)[0]:
                if end is self.listener:
                    client, _ = self.listener.accept()
                    try:
                        if self.shut:
                            raise OSError
                        server = socket.create_connection(("127.0.0.1", self.target_port), 5)
                        self.pairs[client], self.pairs[server] = server, client
                    except OSError:
                        client.close()
                    continue
                if end not in self.pairs:
                    continue
                try:
                    data = end.recv(1 << 16)
                    if not data:
                        raise OSError
                    self.pairs[end].sendall(data)
                except OSError:
                    self.drop(end)
            if self.shut:
                for end in list(self.pairs):
                    self.drop(end)
        for end in list(self.pairs):
            self.drop(end)
        self.listener.close()

    def close(self):
        self.closing = True
        self.thread.join(10)


class Cluster:
    def __init__(self, hosts=2, per_host=2, relays=0, out=None, late_after=1, keys=True):
        self.folder = tempfile.mkdtemp(prefix="lockstep-cluster-")
        self.rings = tempfile.mkdtemp(prefix="lockstep-cluster-", dir=MEMORY)
        self.out = out or os.path.join(self.folder, "incidents")
        self.hosts, self.per_host, self.late_after = hosts, per_host, late_after
        self.port = free_port()
        self.collector = None
        self.relays = [None] * relays
        self.relay_ports = [free_port() for _ in range(relays)]
        self.agents = [None] * hosts
        self.ranks = []
        self.world = hosts * per_host
        self.prefix = []  # put before every command, for example to run it in another network namespace
        self.keys = self.path("cluster-keys") if keys else None
        for role in ("collector", "relay", "agent", "operator") if keys else ():
            subprocess.run([os.path.join(BIN, "lockstep-keygen"), "--role", role, self.keys], stdout=subprocess.DEVNULL, check=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def environment(self, **more):
        environment = clean_environment()
        environment["LOCKSTEP_RUNTIME_DIR"] = self.path("runtime")
        if self.keys:
            environment["LOCKSTEP_KEYS"] = self.keys
        environment.update(more)
        return environment

    def start(self, program, name, *arguments, prefix=None, **environment):
        log = open(self.path(name + ".log"), "ab")
        with log:
            return subprocess.Popen([*(self.prefix if prefix is None else prefix), os.path.join(BIN, program), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env=self.environment(**environment), start_new_session=True)

    def start_collector(self, *arguments):
        self.collector = self.start("lockstep-collector", "collector", "--listen", f"tcp://127.0.0.1:{self.port}", "--out", self.out,
                                    "--late-after", str(self.late_after), *arguments)

    def start_relay(self, index):
        self.relays[index] = self.start("lockstep-collector", f"relay{index}", "--listen", f"tcp://127.0.0.1:{self.relay_ports[index]}",
                                        "--upstream", f"tcp://127.0.0.1:{self.port}", "--server-key", os.path.join(self.keys, "collector.pub"))

    def start_agent(self, index, endpoint=None, *arguments):
        root = f"tcp://127.0.0.1:{self.port}"
        if endpoint is None and self.relays:
            endpoint = f"tcp://127.0.0.1:{self.relay_ports[index % len(self.relays)]},{root}"
        if self.relays:
            arguments = ("--server-key", ",".join(os.path.join(self.keys, name + ".pub") for name in ("relay", "collector")), *arguments)
        rings = os.path.join(self.rings, f"node{index}")
        os.makedirs(rings, exist_ok=True)
        self.agents[index] = self.start("lockstep-agent", f"agent{index}", "--collector", endpoint or root, "--rings", rings, "--spool",
                                        self.path(f"spool{index}"), "--late-after", str(self.late_after), *arguments,
                                        LOCKSTEP_HOST=f"node{index}", LOCKSTEP_RUNTIME_DIR=self.path(f"runtime{index}"))

    def start_ranks(self, *arguments, job="train", claim=lambda rank: {"RANK": str(rank)}):
        """`claim` returns the variables that give a process its rank."""
        port = free_port()
        for rank in range(self.world):
            host = rank // self.per_host
            environment = {
                "LOCKSTEP_DIR": os.path.join(self.rings, f"node{host}"), "LOCKSTEP_HOST": f"node{host}", "LOCKSTEP_JOB": job,
                "LOCKSTEP_GPU": "full", "LOCKSTEP_RING_KIB": "1024", "LD_PRELOAD": LIBRARY,
                "LD_LIBRARY_PATH": os.path.join(BUILD, "standin/lib"), **claim(rank), "WORLD_SIZE": str(self.world),
                "LOCAL_RANK": str(rank % self.per_host), "LOCAL_WORLD_SIZE": str(self.per_host), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port)}
            self.ranks.append(self.start("trainsim", f"rank{rank}", *arguments, **environment))

    def start_all(self, *job, collector=()):
        self.start_collector(*collector)
        for index in range(len(self.relays)):
            self.start_relay(index)
        for index in range(self.hosts):
            self.start_agent(index)
        self.start_ranks(*job)

    def log(self, name):
        try:
            with open(self.path(name + ".log"), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def logs(self):
        names = sorted(os.path.basename(p)[:-4] for p in glob.glob(self.path("*.log")))
        names += [os.path.join(f"spool{host}", "agent") for host in range(self.hosts)]
        return "\n".join(f"--- {name}\n{self.log(name)[-3000:]}" for name in names)

    def incidents(self):
        return sorted(glob.glob(os.path.join(self.out, "lockstep-incident-*")))

    def whole(self):
        """Returns the incidents whose gathering has ended."""
        return [folder for folder in self.incidents()
                if os.path.exists(os.path.join(folder, "manifest.json")) and not os.path.exists(os.path.join(folder, ".gathering.json"))]

    def kill(self, process, number=signal.SIGKILL):
        if process is not None and process.poll() is None:
            process.send_signal(number)
            process.wait()

    def close(self):
        for process in [self.collector, *self.relays, *self.agents, *self.ranks]:
            if process is None:
                continue
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.rings, ignore_errors=True)


class ClusterCase(unittest.TestCase):
    def make(self, **options):
        """Returns a cluster that ends with the test."""
        made = Cluster(**options)
        self.addCleanup(made.close)
        return made


def ledger(folder):
    """Returns the IDs of an incident's chunks on disk, in ledger order, and what is wrong with the files."""
    ids, parts, problems = [], {}, []
    with open(os.path.join(folder, ".ledger"), "rb") as file:
        content = file.read()
    if content and not content.endswith(b"\n"):
        content = content[:content.rfind(b"\n") + 1]
    for line in content.decode().splitlines():
        words = line.split(" ")
        if words[0] == "f":
            parts[words[1]] = {"name": words[3], "request": int(words[2]), "host": base64.b64decode(words[5] + "==").decode(), "end": None, "runs": []}
        elif words[0] == "c":
            part = parts[words[1]]
            part["runs"].append((int(words[2]), int(words[2]) + int(words[3])))
            if words[4] == "1":
                part["end"] = int(words[2]) + int(words[3])
            ids.append(words[5])
    newest = {}
    for index, part in parts.items():
        part["index"] = index
        at = 0
        for begin, end in sorted(part["runs"]):
            if begin < at:
                problems.append(f"{part['name']}: bytes {begin} to {at} stand in two chunks")
            at = max(at, end)
        whole = part["end"] is not None and at == part["end"] and sum(e - b for b, e in part["runs"]) == part["end"]
        if whole and part["request"] >= newest.get(part["name"], part)["request"]:
            newest[part["name"]] = part
    for name, part in newest.items():
        path = os.path.join(folder, name)
        waits = os.path.join(folder, f".{name}.{part['request']}.{part['index']}.part")
        found = path if os.path.exists(path) else waits
        if name.endswith(".evidence.lsd") and not os.path.exists(found):
            continue  # the complete file has replaced this part
        if not os.path.exists(found):
            problems.append(f"{name}: all its chunks are in the ledger, and there is no such file")
        elif os.path.getsize(found) != part["end"]:
            problems.append(f"{name}: {os.path.getsize(found)} bytes, of {part['end']} in the ledger")
    return ids, problems
