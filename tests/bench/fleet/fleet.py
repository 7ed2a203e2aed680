#!/usr/bin/env python3
"""Measures a fleet of simulated agents, real relays in two levels and the real collector, over loopback with CURVE on.

For each size, measures the cost of the connections during an idle minute. Then plays faults at random ranks, each with a newly started collector. Measures
the time from the learned limit to detection, to the last digest, to the verdict, and until every ring is on disk. Checks that the verdict names the rank.
`--markdown FILE` writes the tables.

The agents use the real protocol (AgentSession, transport, keys) with synthetic rings, many in one process. Their own cost is printed separately."""

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

LIMIT_S = 5.0  # the smallest learned limit; gaps of tensor parallelism are milliseconds
STEPS_BEFORE_FAULT = 16
RANKS_PER_HOST = 8
# Two cores cannot simulate more agents than this with one heartbeat per second. Larger fleets send a heartbeat every two seconds, and the output says so.
# Agents always report a late communicator at once.
AGENTS_AT_FULL_RATE = 4096
SLOW_HEARTBEAT_S = 2.0
# In a cluster the collector and the relays have their own machines, so here they get a higher priority than the simulated hosts.
RELAY_NICE, AGENT_NICE = 5, 10


def mono():
    return time.monotonic()


class Program:
    """A child process. A thread reads its output and stores each line with its arrival time."""

    def __init__(self, command, log, nice=0, **more):
        self.lines = []
        self.process = subprocess.Popen(command, preexec_fn=lambda: os.nice(nice), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        bufsize=1, **more)
        self.log = log
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((mono(), line.rstrip("\n")))
            self.log.write(line)

    def find(self, pattern, begin=0):
        for at, line in list(self.lines)[begin:]:
            match = re.search(pattern, line)
            if match:
                return at, match
        return None

    def wait(self, pattern, seconds, begin=0):
        end = mono() + seconds
        while mono() < end:
            found = self.find(pattern, begin)
            if found:
                return found
            if self.process.poll() is not None:
                raise SystemExit(f"{self.process.args[0]} ended with {self.process.returncode}: {[l for _, l in self.lines[-5:]]}")
            time.sleep(0.005)
        return None

    def ask(self, command):
        begin = len(self.lines)
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        found = self.wait(r"^\{.*\}$", 60, begin)
        if not found:
            raise SystemExit(f"no answer to {command}")
        return json.loads(found[1].group(0))

    def usage(self):
        """Returns CPU seconds so far, resident bytes and peak resident bytes."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        memory = {}
        with open(f"/proc/{self.process.pid}/status") as file:
            for line in file:
                if line.startswith(("VmRSS", "VmHWM")):
                    memory[line.split(":")[0]] = int(line.split()[1]) * 1024
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), memory["VmRSS"], memory["VmHWM"]

    def worked(self):
        """Returns the CPU seconds of all threads of the process, and the seconds in which they waited for a core."""
        ran = waited = 0
        try:
            for thread in os.listdir(f"/proc/{self.process.pid}/task"):
                with open(f"/proc/{self.process.pid}/task/{thread}/schedstat") as file:
                    one = file.read().split()
                ran, waited = ran + int(one[0]), waited + int(one[1])
        except (OSError, IndexError):
            pass  # the thread has ended
        return ran / 1e9, waited / 1e9

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Meter:
    """Samples the CPU time of groups of programs ten times a second, because the start and end of a phase are known only afterwards."""

    def __init__(self, groups):
        self.groups, self.samples, self.stop = groups, [], threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stop.wait(0.1):
            now = {}
            for name, group in self.groups.items():
                each = [program.worked() for program in group]
                now[name] = (sum(one[0] for one in each), sum(one[1] for one in each), max(one[0] for one in each))
            self.samples.append((mono(), now))

    def end(self):
        self.stop.set()
        self.thread.join()

    def at(self, moment, name):
        before = [sample for sample in self.samples if sample[0] <= moment]
        after = [sample for sample in self.samples if sample[0] > moment]
        if not before or not after:
            return (after[0] if after else before[-1])[1][name]
        (begin, low), (end, high) = before[-1], after[0]
        part = (moment - begin) / (end - begin)
        return tuple(a + part * (b - a) for a, b in zip(low[name], high[name]))

    def between(self, begin, end):
        """Returns for each group: CPU seconds, seconds in which its threads waited for a core, and CPU seconds of its busiest program."""
        return {name: [b - a for a, b in zip(self.at(begin, name), self.at(end, name))] for name in self.groups}


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Fleet:
    def __init__(self, options, ranks, folder):
        self.options, self.ranks, self.folder = options, ranks, folder
        self.hosts = ranks // RANKS_PER_HOST
        self.stages = 8 if ranks < 4096 else 16
        self.heartbeat_s = options.heartbeat or (1.0 if self.hosts <= AGENTS_AT_FULL_RATE else SLOW_HEARTBEAT_S)
        self.log = open(os.path.join(folder, "log"), "w", buffering=1)
        bin_folder = os.path.join(options.build, "bin")
        self.collector_program = os.path.join(bin_folder, "lockstep-collector")
        self.keys = os.path.join(folder, "keys")
        for role in ("collector", "relay", "agent"):
            subprocess.run([os.path.join(bin_folder, "lockstep-keygen"), "--role", role, self.keys], check=True, stdout=self.log)
        self.known = os.path.join(self.keys, "known")
        os.mkdir(self.known)
        for role in ("relay", "agent"):
            shutil.copy(os.path.join(self.keys, role + ".pub"), self.known)
        self.port, self.metrics = free_port(), free_port()
        self.collector = None
        self.relays, self.agents = [], []
        self.restart = 0

    def key(self, name):
        return os.path.join(self.keys, name)

    def environment(self):
        return dict(os.environ, XDG_RUNTIME_DIR=self.folder, LOCKSTEP_RUNTIME_DIR=self.folder)

    def start_collector(self, name):
        self.out = os.path.join(self.folder, name)
        self.collector = Program(
            [self.collector_program, "--listen", f"tcp://127.0.0.1:{self.port}", "--key", self.key("collector.key"), "--known-keys", self.known,
             "--out", self.out, "--metrics", f"127.0.0.1:{self.metrics}"], self.log, env=self.environment())
        if not self.collector.wait("listens on", 30):
            raise SystemExit("the collector did not start")

    def start_relay(self, upstream, upstream_key):
        relay = Program([self.collector_program, "--listen", "tcp://127.0.0.1:0", "--key", self.key("relay.key"), "--known-keys", self.known,
                         "--upstream", upstream, "--server-key", upstream_key], self.log, nice=RELAY_NICE, env=self.environment())
        found = relay.wait(r"listens on (tcp://127\.0\.0\.1:\d+)", 30)
        if not found:
            raise SystemExit("a relay did not start")
        self.relays.append(relay)
        return found[1].group(1)

    def start(self):
        self.start_collector("quiet")
        lower = []
        for _ in range(self.options.upper):
            upper = self.start_relay(f"tcp://127.0.0.1:{self.port}", self.key("collector.pub"))
            for _ in range(self.options.lower // self.options.upper):
                lower.append(self.start_relay(upper, self.key("relay.pub")))
        program = os.path.join(self.options.build, "bench", "fleet_agents")
        each = max(1, min(self.options.agents_per_process, (self.hosts + 1) // 2))
        for first in range(0, self.hosts, each):
            self.agents.append(Program(
                [program, "--ranks", str(self.ranks), "--stages", str(self.stages), "--first-host", str(first), "--hosts",
                 str(min(each, self.hosts - first)), "--endpoints", ",".join(lower), "--key", self.key("agent.key"), "--server-key",
                 self.key("relay.pub"), "--records", str(self.options.records), "--heartbeat-ms", str(int(self.heartbeat_s * 1000))],
                self.log, nice=AGENT_NICE))
        begin = mono()
        self.command_all(f"run 0 {int((begin + 1e6) * 1e9)} 0 -1")  # the job starts when all agents are connected
        while True:
            stats = self.stats()
            if stats["welcome"] == self.hosts:
                break
            if mono() - begin > 300:
                raise SystemExit(f"only {stats} after 300 s")
            time.sleep(0.5)
        self.connect_s = mono() - begin
        self.command_all(f"run 0 {int(mono() * 1e9)} 0 -1")

    def command_all(self, command):
        return [agent.ask(command) for agent in self.agents]

    def stats(self):
        total = {}
        for stats in self.command_all("stats"):
            for name, value in stats.items():
                total[name] = total.get(name, 0) + value
        return total

    def counters(self):
        values = {}
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as answer:
                for line in answer.read().decode().splitlines():
                    if line and line[0] != "#":
                        name, value = line.rsplit(" ", 1)
                        name = name.split("{")[0]
                        values[name] = values.get(name, 0) + float(value)
        except OSError:
            pass
        return values

    def counter(self, name, counters=None):
        counters = self.counters() if counters is None else counters
        for key, value in counters.items():
            if key in (name, "lockstep_" + name, name + "_total", "lockstep_" + name + "_total"):
                return value
        return 0.0

    def wait_for_ranks(self, seconds):
        """Waits until the collector has a heartbeat of every rank."""
        end = mono() + seconds
        while mono() < end:
            if self.counter("collector_ranks") >= self.ranks:
                return True
            time.sleep(0.2)
        return False

    def quiet(self):
        """Measures an idle minute."""
        if not self.wait_for_ranks(120):
            raise SystemExit(f"the collector knows {self.counter('collector_ranks'):.0f} of {self.ranks} ranks")
        time.sleep(self.options.settle + 2 * self.heartbeat_s)
        programs = {"collector": [self.collector], "relays": self.relays, "simulation": self.agents}
        before = {name: [p.usage()[0] for p in group] for name, group in programs.items()}
        stats, counters, begin = self.stats(), self.counters(), mono()
        time.sleep(self.options.quiet)
        took = mono() - begin
        after, more = self.stats(), self.counters()
        row = {"ranks": self.ranks, "agents": self.hosts, "heartbeat_s": self.heartbeat_s, "seconds": took, "connect_s": self.connect_s}
        for name, group in programs.items():
            now = [p.usage() for p in group]
            row[name + "_cpu"] = sum(n[0] for n in now) - sum(before[name])
            row[name + "_rss"] = max(n[1] for n in now)
            row[name + "_rss_sum"] = sum(n[1] for n in now)
        row["connections"] = self.hosts + len(self.relays)
        row["collector_connections"] = self.counter("collector_peers", more)
        row["agent_heartbeats"] = (after["heartbeats"] - stats["heartbeats"]) / took
        row["agent_bytes"] = (after["heartbeat_bytes"] - stats["heartbeat_bytes"]) / took
        row["root_heartbeats"] = (self.counter("collector_heartbeats", more) - self.counter("collector_heartbeats", counters)) / took
        row["root_bytes"] = (self.counter("wire_received_bytes", more) - self.counter("wire_received_bytes", counters)) / took
        row["late"] = after["late"] - stats["late"]
        return row

    def fault(self, number):
        """Measures one fault with a newly started collector. Times are in seconds."""
        self.collector.end()
        shutil.rmtree(self.out, ignore_errors=True)
        self.restart += 1
        rank = random.Random(self.options.seed * 1000 + number).randrange(self.ranks)
        t0 = mono() + 1.0
        steps = STEPS_BEFORE_FAULT + self.ranks // 2048 + 4 * int(self.heartbeat_s - 1)  # the fault comes after the collector has heard from all ranks
        self.command_all(f"run {self.restart} {int(t0 * 1e9)} {rank} {steps}")
        time.sleep(2 * self.heartbeat_s)  # by then the agents have started the new run
        self.start_collector(f"run{number}")
        collector = self.collector
        job = rf"job fleet/0/{self.restart}: "
        if not self.wait_for_ranks(60 + self.ranks // 1024):
            return {"rank": rank, "failed": f"the collector knows {self.counter('collector_ranks'):.0f} ranks"}
        fault = t0 + steps * 1.0
        limit = fault + LIMIT_S
        row = {"rank": rank, "slack_s": fault - mono()}
        meter = Meter({"collector": [collector], "relays": self.relays, "simulation": self.agents})
        late = collector.wait(job + "late: ", max(1.0, limit + 20 - mono()))
        if not late:
            meter.end()
            return dict(row, failed="not detected")
        row["detected"] = late[0] - limit
        digests = collector.wait(job + r"digests of ([\d,]+) of ([\d,]+) ranks in ([\d.]+) (ms|s), read in ([\d.]+) (ms|s): (.*)", 120)
        if not digests:
            meter.end()
            return dict(row, failed="no digests")
        read = float(digests[1].group(5)) / (1000 if digests[1].group(6) == "ms" else 1)
        row["named_at"] = digests[0] - late[0]
        row["digests"] = row["named_at"] - read
        time.sleep(0.2)  # until the meter has one more sample
        meter.end()
        all_in = digests[0] - read
        row["work_digests"] = meter.between(late[0], all_in)
        row["work_named"] = meter.between(all_in, digests[0])
        # At least one second of heartbeats before the fault.
        begin = meter.samples[0][0]
        row["work_idle"] = {name: work[0] / (fault - begin) for name, work in meter.between(begin, fault).items()} if fault > begin + 1 else {}
        row["digest_ranks"] = int(digests[1].group(1).replace(",", ""))
        row["named"] = bool(re.match(rf"rank {rank}\b", digests[1].group(7)))
        hung = collector.wait(job + "hung ", 60)
        verdict = collector.wait(r"^HUNG .*: rank (\d+) = ", 60)
        if not hung or not verdict:
            return dict(row, failed="no verdict")
        row["hung"] = hung[0] - late[0]
        row["verdict"] = verdict[0] - hung[0]
        row["named"] &= int(verdict[1].group(1)) == rank
        # Messages about runs that have already ended.
        row["ghosts"] = sum(bool(re.search(r"job fleet/0/\d+: (late|hung|digests|verdict)", line)) and not re.search(job, line)
                            for _, line in list(collector.lines))
        row["named"] &= row["ghosts"] == 0
        row["collector_rss_verdict"] = collector.usage()[2]
        whole = number < self.options.whole_runs and collector.wait(r"incident (whole|as whole)", self.options.whole_limit)
        if whole:
            row["whole"] = whole[0] - hung[0]
            files = [os.path.join(folder, name) for folder, _, names in os.walk(self.out) for name in names
                     if name.endswith(".lsd") and not name.endswith(".evidence.lsd") and name != "digests.lsd"]
            row["files"] = len(files)
            row["bytes"] = sum(os.path.getsize(file) for file in files)
        row["collector_rss"] = collector.usage()[2]
        row["relay_rss"] = max(relay.usage()[2] for relay in self.relays)
        return row

    def end(self):
        for program in self.agents + [self.collector] + list(reversed(self.relays)):
            program.end()


def mib(value):
    return f"{value / (1 << 20):,.0f} MiB"


def quiet_table(rows):
    yield ("| ranks | agents | connections (of the root) | heartbeats/s agents -> root | KB/s agents -> root | CPU s in a minute: root, relays "
           "(simulation) | memory: root, largest relay |")
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        minute = 60 / row["seconds"]
        yield (f"| {row['ranks']:,} | {row['agents']:,} | {row['connections']:,} ({row['collector_connections']:.0f}) | "
               f"{row['agent_heartbeats']:,.0f} -> {row['root_heartbeats']:,.1f} | {row['agent_bytes'] / 1e3:,.0f} -> {row['root_bytes'] / 1e3:,.0f} | "
               f"{row['collector_cpu'] * minute:.1f}, {row['relays_cpu'] * minute:.1f} ({row['simulation_cpu'] * minute:.1f}) | "
               f"{mib(row['collector_rss'])}, {mib(row['relays_rss'])} |")


def fault_table(sizes):
    yield ("| ranks | runs | rank named | limit to detection (late) | detection to all digests | detection to the rank's name from digests | "
           "detection to hung | hung to verdict on disk and screen | hung to all rings on disk (MB) | memory: root, relay |")
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"

    def spread(rows, value):
        values = sorted(v for v in (value(row) for row in rows) if v is not None)
        return f"{statistics.median(values):.2f} / {values[-1]:.2f} s" if values else "-"

    for ranks, rows in sizes:
        good = [row for row in rows if "failed" not in row]
        named = sum(row["named"] for row in good)
        total = [row["bytes"] / 1e6 for row in good if "bytes" in row]
        yield (f"| {ranks:,} | {len(rows)} | {named} | {spread(good, lambda r: r['detected'])} | {spread(good, lambda r: r.get('digests'))} | "
               f"{spread(good, lambda r: r['named_at'])} | {spread(good, lambda r: r['hung'])} | {spread(good, lambda r: r['verdict'])} | "
               f"{spread(good, lambda r: r.get('whole'))} ({statistics.median(total) if total else 0:,.0f}) | "
               f"{mib(max((r['collector_rss'] for r in good), default=0))}, {mib(max((r['relay_rss'] for r in good), default=0))} |")


def work_table(sizes):
    """Yields a table of the steps from detection to the verdict."""
    yield ("| ranks | detection to all digests: CPU s of root, relays, simulation | of these for heartbeats | microseconds a rank without them | "
           "all digests to the name: CPU s of the root | microseconds a rank |")
    yield "| --- | --- | --- | --- | --- | --- |"
    for ranks, rows in sizes:
        good = [row for row in rows if row.get("work_idle")]
        if not good:
            continue
        groups = ("collector", "relays", "simulation")
        work = {name: statistics.median(row["work_digests"][name][0] for row in good) for name in groups}
        idle = statistics.median(sum(row["work_idle"].values()) * row["digests"] for row in good)
        own = statistics.median(sum(row["work_digests"][name][0] for name in groups) - sum(row["work_idle"].values()) * row["digests"] for row in good)
        root = statistics.median(row["work_named"]["collector"][0] for row in good)
        yield (f"| {ranks:,} | {work['collector']:.2f}, {work['relays']:.2f}, {work['simulation']:.2f} | {idle:.2f} | {own / ranks * 1e6:.0f} | {root:.2f} | "
               f"{root / ranks * 1e6:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024, 8192, 24576, 98304])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quiet", type=float, default=60, help="seconds to measure without a fault")
    parser.add_argument("--heartbeat", type=float, help="seconds between heartbeats of an agent (default: 1; 2 for the largest fleets)")
    parser.add_argument("--settle", type=float, default=10)
    parser.add_argument("--upper", type=int, default=2, help="relays below the collector")
    parser.add_argument("--lower", type=int, default=8, help="relays below the upper ones, to which the agents connect")
    parser.add_argument("--agents-per-process", type=int, default=1536)
    parser.add_argument("--records", type=int, default=256, help="records in the ring of each rank (256)")
    parser.add_argument("--whole-limit", type=float, default=300, help="seconds to wait for all rings")
    parser.add_argument("--whole-runs", type=int, default=20, help="runs in which to wait for all rings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="keep logs and incidents in this folder")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    base = options.folder or tempfile.mkdtemp(prefix="lockstep-fleet.")
    quiet, faults = [], []
    for ranks in options.ranks:
        folder = os.path.join(base, str(ranks))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder, mode=0o700)
        fleet = Fleet(options, ranks, folder)
        try:
            fleet.start()
            if options.quiet > 0:
                quiet.append(fleet.quiet())
                print(json.dumps(quiet[-1]), flush=True)
            rows = []
            for number in range(options.runs):
                rows.append(fleet.fault(number))
                print(ranks, number, json.dumps(rows[-1]), flush=True)
            faults.append((ranks, rows))
        finally:
            fleet.end()
    tables = []
    if quiet:
        tables += ["Without a fault:", ""] + list(quiet_table(quiet)) + [""]
    if any(rows for _, rows in faults):
        tables += [f"With a fault (median / worst; rings of {options.records} records a rank):", ""] + list(fault_table(faults)) + [
            "", "What the time from detection to the name was worked at (medians):", ""] + list(work_table(faults))
    print("\n".join(tables))
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write("\n".join(tables) + "\n")
    if not options.folder:
        shutil.rmtree(base, ignore_errors=True)
    return 0 if all("failed" not in row and row["named"] for _, rows in faults for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
