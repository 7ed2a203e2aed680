#!/usr/bin/env python3
"""Runs a site for a given time: a collector, relays and agents that are killed, stopped and restarted at random. One job runs all the time, and every
minute another job with or without a fault starts. Prints the verdict on each job, and the memory and descriptors of every daemon. Exit status 0: every
fault was named, nothing else was blamed, nothing grew, and no daemon exited by itself. 1: otherwise. 130: interrupted. Everything is on the loopback, in
separate folders."""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEALTHY = {
    "plain": [],
    "checkpoint": ["--checkpoint", "step={step},seconds=8,rank=0"],
    "evaluation": ["--evaluate", "step={step},seconds=8"],
    "slow-start": ["--slow-start", "8"],
    "recreate": ["--recreate", "{step}"],
    "straggler": ["--straggle", "rank=3,ms=60"],
    "cancelled": [],  # SIGTERM ends it, as schedulers do
}
# In a cluster, digests have no hashes of sends and receives, and wrong data alone is no incident.
NOT_ON_PP = ("wrong-count", "wrong-datatype")
DESYNCS = ("wrong-count", "wrong-datatype", "wrong-reduction", "wrong-root", "wrong-op")
SLOW = ("STRAGGLER", "SLOW_HOST", "SLOW_LINK")
SAMPLE_EVERY = 10
# An agent keeps a job's rings for ten minutes, and a collector keeps the job. Until then, both grow.
SETTLED = 720
# A daemon leaks if its median grows by more than this from the first settled quarter of its life to the last.
GROWTH_MIB, GROWTH_SHARE, GROWTH_FDS = 16, 0.2, 32


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def usage(pid):
    """Returns resident MiB, anonymous MiB and the number of descriptors; None if the daemon has exited."""
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        return (int(fields["VmRSS"].split()[0]) / 1024, int(fields["RssAnon"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")))
    except (OSError, KeyError, ValueError):
        return None


class Job:
    """One job of trainsim on all hosts."""

    def __init__(self, soak, name, arguments, per_host, layout):
        self.soak, self.name, self.per_host = soak, name, per_host
        self.began = time.monotonic()
        self.ranks = []
        port = soak.free_port()
        world = soak.options.hosts * per_host
        for rank in range(world):
            host = f"node{rank // per_host}"
            self.ranks.append(soak.cluster.start(
                "trainsim", f"{name}.{rank}", *layout, *arguments, LOCKSTEP_DIR=os.path.join(soak.cluster.rings, host), LOCKSTEP_HOST=host,
                LOCKSTEP_JOB=name, LOCKSTEP_GPU="full", LD_PRELOAD=soak.library, LD_LIBRARY_PATH=soak.standins, RANK=str(rank),
                WORLD_SIZE=str(world), LOCAL_RANK=str(rank % per_host), LOCAL_WORLD_SIZE=str(per_host), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port), TMPDIR=soak.cluster.folder))

    def over(self):
        return all(rank.poll() is not None for rank in self.ranks)

    def end(self):
        """Ends the job as a launcher does: SIGTERM, then SIGKILL for processes that ignore it."""
        for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 30)):
            for rank in self.ranks:
                if rank.poll() is None:
                    rank.send_signal(number)
                    if number == signal.SIGTERM:
                        rank.send_signal(signal.SIGCONT)
            until = time.monotonic() + patience
            while not self.over() and time.monotonic() < until:
                time.sleep(0.05)

    def log(self, rank):
        return self.soak.cluster.log(f"{self.name}.{rank}")

    def forget(self):
        for rank in range(len(self.ranks)):
            try:
                os.unlink(self.soak.cluster.path(f"{self.name}.{rank}.log"))
            except OSError:
                pass


class Soak:
    def __init__(self, options):
        os.environ["LOCKSTEP_BUILD"] = os.path.abspath(options.build)
        import cluster  # the module reads LOCKSTEP_BUILD when it is imported
        import faults
        self.faults, self.free_port = faults, cluster.free_port
        self.library, self.standins = cluster.LIBRARY, os.path.join(cluster.BUILD, "standin/lib")
        self.clean_program = os.path.join(cluster.BIN, "lockstep-clean")
        self.options = options
        self.random = random.Random(options.seed)
        self.cluster = cluster.Cluster(hosts=options.hosts, per_host=2, relays=options.relays, late_after=options.late_after)
        self.series = collections.defaultdict(list)  # (daemon, life) -> [(seconds, MiB, anonymous MiB, descriptors)]
        self.lives = collections.Counter()
        self.started = {}
        self.counts = collections.Counter()
        self.by_kind = collections.defaultdict(collections.Counter)
        self.latencies = []
        self.loads = []
        self.troubles = []
        self.churned = collections.Counter()
        self.down = {}  # (kind, index) -> time to start the daemon again
        self.stopped = {}  # (kind, index) -> time to continue the daemon
        self.next_churn = self.next_sample = self.collector_spared_until = 0
        self.seen_incidents = set()
        self.resident = None
        self.began = time.monotonic()

    # --- daemons

    def daemons(self):
        yield ("collector", 0), self.cluster.collector
        for index, relay in enumerate(self.cluster.relays):
            yield ("relay", index), relay
        for index, agent in enumerate(self.cluster.agents):
            yield ("agent", index), agent

    def start_daemon(self, who):
        kind, index = who
        if kind == "collector":
            self.cluster.start_collector()
        elif kind == "relay":
            self.cluster.start_relay(index)
        else:
            self.cluster.start_agent(index)
        self.lives[who] += 1
        self.started[who] = time.monotonic()

    def trouble(self, text):
        self.troubles.append(text)
        say("TROUBLE " + text)

    def churn(self, now):
        """Starts the daemons that are due, continues stopped ones, and at random times kills or stops another one."""
        for who, at in list(self.down.items()):
            if now >= at:
                del self.down[who]
                self.start_daemon(who)
        processes = dict(self.daemons())
        for who, at in list(self.stopped.items()):
            if now >= at:
                del self.stopped[who]
                processes[who].send_signal(signal.SIGCONT)
        for who, process in processes.items():
            if who not in self.down and process.poll() is not None:
                log = f"{who[0]}{who[1]}" if who[0] != "collector" else "collector"
                self.trouble(f"{log} ended by itself with {process.returncode}: {self.cluster.log(log)[-500:]}")
                self.start_daemon(who)
        if not self.options.churn or now < self.next_churn:
            return
        self.next_churn = now + self.random.expovariate(1 / self.options.churn)
        # The first agent and the first relay are never killed, so their memory is measured over hours.
        who = self.random.choice([("agent", i) for i in range(1, self.options.hosts)] * 2 + [("relay", i) for i in range(1, self.options.relays)]
                                 + [("collector", 0)])
        if who in self.down or who in self.stopped or (who[0] == "collector" and now < self.collector_spared_until):
            return
        if who[0] == "collector":
            self.collector_spared_until = now + self.options.collector_lives
        how = self.random.choices(("SIGKILL", "SIGTERM", "SIGSTOP"), (6, 2, 2))[0]
        self.churned[who[0], how] += 1
        process = processes[who]
        if how == "SIGSTOP":
            process.send_signal(signal.SIGSTOP)
            self.stopped[who] = now + self.random.uniform(1, 6)
            return
        process.send_signal(getattr(signal, how))
        try:
            status = process.wait(60)
            # a daemon that has just started has no signal handler yet
            if how == "SIGTERM" and status != 0 and now - self.started[who] > 10:
                self.trouble(f"{who[0]}{who[1]} ended with {status} on SIGTERM")
        except subprocess.TimeoutExpired:
            self.trouble(f"{who[0]}{who[1]} did not end within 60 s of SIGTERM")
            self.cluster.kill(process)
        self.down[who] = time.monotonic() + self.random.uniform(0, 3)

    def sample(self, now):
        if now < self.next_sample:
            return
        self.next_sample = now + SAMPLE_EVERY
        self.loads.append(os.getloadavg()[0])
        for who, process in self.daemons():
            used = None if who in self.down or process is None else usage(process.pid)
            if used is not None:
                self.series[who, self.lives[who]].append((now - self.began, *used))

    def tick(self):
        now = time.monotonic()
        self.churn(now)
        self.sample(now)
        self.look_for_alarms()
        time.sleep(0.1)

    # --- verdicts

    def incidents_of(self, name):
        """Returns (folder, manifest) of the job's incidents, oldest first."""
        found = []
        for folder in self.cluster.incidents():
            try:
                with open(os.path.join(folder, "manifest.json")) as file:
                    manifest = json.load(file)
            except (OSError, ValueError):
                continue
            if manifest.get("job") == name:
                found.append((folder, manifest))
        return found

    def verdict_of(self, folder):
        try:
            with open(os.path.join(folder, "verdict.json")) as file:
                return json.load(file)
        except (OSError, ValueError):
            return None

    def look_for_alarms(self):
        """Checks the job that runs all the time: every verdict on it is a false alarm."""
        for folder, _ in self.incidents_of("resident"):
            if folder not in self.seen_incidents:
                self.seen_incidents.add(folder)
                self.counts["false alarms"] += 1
                self.trouble(f"false alarm on the job that lives all the time: {self.faults.describe(self.verdict_of(folder) or {})}")
                self.keep(folder, "resident")

    def keep(self, folder, name):
        """Copies the incident, if there is one, and the daemons' logs to the folder --keep."""
        if self.options.keep:
            os.makedirs(os.path.join(self.options.keep, name), exist_ok=True)
            if folder:
                shutil.copytree(folder, os.path.join(self.options.keep, name, os.path.basename(folder)), dirs_exist_ok=True)
            for log in ("collector", *(f"relay{i}" for i in range(self.options.relays)), *(f"spool{i}/agent" for i in range(self.options.hosts))):
                with open(os.path.join(self.options.keep, name, log.replace("/", ".") + ".log"), "w") as file:
                    file.write(self.cluster.log(log))
            decisions = os.path.join(self.cluster.out, "decisions.jsonl")
            if os.path.exists(decisions):
                shutil.copy(decisions, os.path.join(self.options.keep, name))

    # --- one job

    def choose(self, number):
        """Chooses kind, rank, communicator and arguments."""
        options = self.options
        step = options.fault_step
        if options.only:
            kind = options.only[(number - 1) % len(options.only)]
        elif self.random.random() < 0.35:
            kind = self.random.choice(sorted(HEALTHY))
        else:
            kind = self.random.choice(sorted(self.faults.FAULTS))
        if kind in HEALTHY:
            return kind, None, None, [argument.format(step=step) for argument in HEALTHY[kind]]
        comms = [comm for comm in self.faults.FAULTS[kind].comms if not (comm == "pp" and kind in NOT_ON_PP)]
        comm, rank = self.random.choice(comms), self.random.randrange(options.hosts * 2)
        return kind, rank, comm, ["--fault", f"rank={rank},step={step},kind={kind},comm={comm}"]

    def turn(self, number):
        kind, rank, comm, arguments = self.choose(number)
        name = f"soak-{number:04d}"
        what = kind if rank is None else f"{kind} {comm} rank {rank}"
        dp = self.options.hosts * 2 // 4
        layout = ["--tp", "2", "--pp", "2", "--dp", str(dp), "--pace-ms", str(self.options.pace_ms), "--steps", str(self.options.steps)]
        churned = sum(self.churned.values())
        job = Job(self, name, arguments, 2, layout)
        struck = named = over = None
        until = job.began + self.options.limit
        cancel_at = job.began + 20
        try:
            while time.monotonic() < until:
                self.tick()
                now = time.monotonic()
                if rank is None:
                    if kind == "cancelled" and now >= cancel_at:
                        break
                    if job.over():
                        break
                    continue
                if struck is None and "fault" in job.log(rank):
                    struck = now
                if job.over() and over is None:
                    over = now
                found = self.incidents_of(name)
                if found and named is None and any(self.verdict_of(folder) for folder, _ in found):
                    named = now
                # The folder of a desync is removed if no verdict follows.
                if named is not None and all(folder in self.cluster.whole() for folder, _ in found):
                    break
                if named is None and over is not None and now - over > 60:
                    break  # no process remains that could report anything
            ended = job.over()
            if rank is None and not ended and kind != "cancelled":
                self.trouble(f"{what}: the job had not ended after {self.options.limit:.0f} s: {job.log(0)[-300:]}")
            # Judges what has arrived. What the end of the job causes is checked separately.
            word = self.judge(name, kind, rank, comm)
            known = {folder for folder, _ in self.incidents_of(name)}
            job.end()
            self.settle(name, known, what, rank)
        finally:
            job.end()
        churned = sum(self.churned.values()) - churned
        late = "" if named is None or struck is None else f" after {named - struck:.1f} s"
        if named is not None and struck is not None:
            self.latencies.append(named - struck)
        group = "healthy" if rank is None else kind
        result = word.split(":")[0]
        self.by_kind[group][result] += 1
        self.counts[result] += 1
        say(f"turn {number} {what}: {word}{late}" + (f" ({churned} daemons killed or stopped meanwhile)" if churned else ""))
        if result != "right":
            self.troubles.append(f"{what}: {word}")
            for folder in [folder for folder, _ in self.incidents_of(name)] or [None]:
                self.keep(folder, name)
        self.sweep(name, job)

    def settle(self, name, known, what, rank=None):
        """Counts false alarms after the end of a job. A second report of the fault's `rank` is no false alarm."""
        until = time.monotonic() + 4
        while time.monotonic() < until:
            self.tick()
        for folder, _ in self.incidents_of(name):
            if folder not in known:
                verdict = self.verdict_of(folder)
                if verdict and verdict.get("findings") and (rank is None or verdict["findings"][0]["culprit_ranks"] != [rank]):
                    self.counts["false alarms"] += 1
                    self.trouble(f"{what}: after its end it was called {self.faults.describe(verdict)}")
                    self.keep(folder, name)

    def judge(self, name, kind, rank, comm):
        found = [(folder, self.verdict_of(folder)) for folder, _ in self.incidents_of(name)]
        found = [(folder, verdict) for folder, verdict in found if verdict]
        if rank is None:
            if found:
                self.counts["false alarms"] += 1
                return "false alarm: " + self.faults.describe(found[0][1])
            return "right"
        if not found:
            return f"missed: no verdict within {self.options.limit:.0f} s"
        case = self.faults.Case(name, kind, rank, comm, [])
        for folder, verdict in found:
            # On a busy machine, a rank may get less CPU time than its peers and be slow. Such a finding is not about the fault.
            beside = [finding for finding in verdict.get("findings", [])[1:] if finding["kind"] in SLOW]
            self.counts["slow beside"] += len(beside)
            verdict["findings"] = [finding for finding in verdict.get("findings", []) if finding not in beside]
            error = self.faults.judge_fault(case, verdict, None)
            if error is not None and self.is_told_by_hashes(kind, rank, comm, verdict):
                error = None
            if error is not None:
                return f"wrong: {error} ({self.faults.describe(verdict)})"
            if folder not in self.cluster.whole():
                return "not whole: the verdict is right, and not everything was gathered"
        return "right"

    def is_told_by_hashes(self, kind, rank, comm, verdict):
        """Returns whether the verdict is right although it names a pair or only hashes. If a job continues after calls that differ, only the rings of the
        communicator's members are gathered. So the verdict names two members as a pair, or by hashes if their calls were overwritten."""
        findings = verdict.get("findings") or []
        if kind not in DESYNCS or not findings or verdict.get("verdict") != "DESYNC":
            return False
        most = 1 if comm == "world" else 2
        blamed = {other for finding in findings for other in finding["culprit_ranks"]}
        kinds = {finding["kind"] for finding in findings}
        return kinds <= {*self.faults.FAULTS[kind].kinds, "SILENT_DESYNC"} and rank in findings[0]["culprit_ranks"] and len(blamed) <= most

    def sweep(self, name, job):
        """Cleans up after a job as a site does: deletes the rings of dead processes, and the incidents that were examined."""
        for folder, _ in self.incidents_of(name):
            shutil.rmtree(folder, ignore_errors=True)
        for host in range(self.options.hosts):
            subprocess.run([self.clean_program, "--dir", os.path.join(self.cluster.rings, f"node{host}")], env=self.cluster.environment(), stdout=subprocess.DEVNULL,
                           timeout=120, check=True)
        job.forget()

    # --- the whole run

    def figures(self):
        load = os.getloadavg()[0]
        parts = [f"load {load:.0f}"]
        for who, process in self.daemons():
            used = None if process is None or who in self.down else usage(process.pid)
            name = who[0] if who[0] == "collector" else f"{who[0]}{who[1]}"
            parts.append(f"{name} {used[0]:.0f}/{used[1]:.0f} MiB {used[2]} fds" if used else f"{name} down")
        return "; ".join(parts)

    def run(self):
        options = self.options
        self.start_daemon(("collector", 0))
        for index in range(options.relays):
            self.start_daemon(("relay", index))
        for index in range(options.hosts):
            self.start_daemon(("agent", index))
        self.resident = Job(self, "resident", ["--steps", "1000000000", "--pace-ms", "500"], 1, ["--tp", "2", "--dp", str(options.hosts // 2)])
        end = self.began + options.minutes * 60
        self.next_churn = self.began + options.churn
        self.collector_spared_until = self.began + options.collector_lives
        number = 0
        while time.monotonic() < end and (not options.turns or number < options.turns):
            number += 1
            begins = time.monotonic()
            self.turn(number)
            say(f"  {self.score()}; resident/anonymous memory and descriptors: {self.figures()}")
            while time.monotonic() < min(end, begins + options.period):
                self.tick()
        if self.resident.over():
            self.trouble(f"the job that lives all the time ended: {self.resident.log(0)[-300:]}")
        known = {folder for folder, _ in self.incidents_of("resident")}
        self.resident.end()
        self.settle("resident", known, "the job that lives all the time")

    def score(self):
        counts = self.counts
        return (f"{counts['right']} right, {counts['wrong']} wrong, {counts['missed']} missed, {counts['not whole']} not whole, "
                f"{counts['false alarms']} false alarms, {sum(self.churned.values())} kills and stops")

    def growth(self):
        """Prints a table of each daemon's longest life. Returns descriptions of what grew."""
        grown = []
        longest = {}
        for (who, _), values in self.series.items():
            if len(values) > len(longest.get(who, [])):
                longest[who] = values
        print("\n| daemon | lives | longest, minutes | resident MiB: first, median, last, most | anonymous MiB: first, last | descriptors: first, last, most |")
        print("| --- | --- | --- | --- | --- | --- |")
        for who in sorted(longest):
            values = longest[who]
            name = who[0] if who[0] == "collector" else f"{who[0]} {who[1]}"
            rss, anonymous, fds = ([value[i] for value in values] for i in (1, 2, 3))
            most = max(value[1] for (other, _), all_values in self.series.items() if other == who for value in all_values)
            print(f"| {name} | {self.lives[who]} | {(values[-1][0] - values[0][0]) / 60:.0f} | {rss[0]:.0f}, {statistics.median(rss):.0f}, {rss[-1]:.0f}, {most:.0f} "
                  f"| {anonymous[0]:.0f}, {anonymous[-1]:.0f} | {fds[0]}, {fds[-1]}, {max(fds)} |")
            settled = [value for value in values if value[0] - values[0][0] >= SETTLED]
            quarter = len(settled) // 4
            if quarter < 12:
                continue  # too short to judge
            for column, unit, allowed in ((2, "MiB anonymous", lambda x: max(GROWTH_MIB, GROWTH_SHARE * x)), (3, "descriptors", lambda x: GROWTH_FDS)):
                first, last = (statistics.median(value[column] for value in part) for part in (settled[:quarter], settled[-quarter:]))
                if last - first > allowed(first):
                    grown.append(f"{name} grew from {first:.0f} to {last:.0f} {unit}")
        return grown

    def summary(self):
        minutes = (time.monotonic() - self.began) / 60
        print(f"\nsoak: {minutes:.0f} minutes, seed {self.options.seed}: {self.score()}")
        if self.loads:
            print(f"load average: median {statistics.median(self.loads):.0f}, highest {max(self.loads):.0f} on {os.cpu_count()} processors")
        if self.counts["slow beside"]:
            print(f"slow ranks reported in addition to a fault: {self.counts['slow beside']} (the load of the machine may cause them)")
        churned = ", ".join(f"{kind} {how} {times}" for (kind, how), times in sorted(self.churned.items()))
        print(f"churn: {churned or 'none'}")
        if self.latencies:
            values = sorted(self.latencies)
            print(f"from the fault to a verdict on disk: median {statistics.median(values):.1f} s, longest {values[-1]:.1f} s")
        print("\n| fault | jobs | right |\n| --- | --- | --- |")
        for kind in sorted(self.by_kind):
            print(f"| {kind} | {sum(self.by_kind[kind].values())} | {self.by_kind[kind]['right']} |")
        self.troubles += self.growth()
        for text in self.troubles:
            print("- " + text)
        return not self.troubles

    def close(self):
        if self.resident is not None:
            for rank in self.resident.ranks:
                self.cluster.kill(rank)
        for who in self.stopped:
            dict(self.daemons())[who].send_signal(signal.SIGCONT)
        self.cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (build)")
    parser.add_argument("--minutes", type=float, default=60, help="duration in minutes (60)")
    parser.add_argument("--turns", type=int, default=0, help="end after this many jobs (0: no limit but --minutes)")
    parser.add_argument("--period", type=float, default=60, help="seconds between the starts of jobs (60)")
    parser.add_argument("--churn", type=float, default=20, help="mean seconds between kills and stops of daemons; 0: none (20)")
    parser.add_argument("--collector-lives", type=float, default=600, help="seconds after a kill in which the collector is not killed again (600)")
    parser.add_argument("--hosts", type=int, default=4, help="number of agents, even and at least 2; each has two ranks of each job (4)")
    parser.add_argument("--relays", type=int, default=2, help="number of relays below the collector (2)")
    parser.add_argument("--late-after", type=float, default=5, help="--late-after of the agents (5)")
    parser.add_argument("--pace-ms", type=int, default=200, help="milliseconds of computation per step (200)")
    parser.add_argument("--steps", type=int, default=120, help="steps of a job (120)")
    parser.add_argument("--fault-step", type=int, default=30, help="step of the fault, or of the pause (30)")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a job and its verdict may take (300)")
    parser.add_argument("--only", action="append", metavar="KIND", help="only jobs of this kind (a fault or a healthy kind); several alternate")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of all random choices (the time)")
    parser.add_argument("--keep", metavar="DIR", help="keep the incidents and logs of failed jobs here")
    options = parser.parse_args()
    if options.hosts < 2 or options.hosts % 2 or options.relays < 0 or options.minutes < 0:
        parser.error("--hosts must be even and at least 2")
    for program in ("bin/lockstep-collector", "bin/lockstep-agent", "bin/trainsim", "standin/lib/libnccl.so.2"):
        if not os.path.exists(os.path.join(options.build, program)):
            sys.exit(f"soak: {os.path.join(options.build, program)} is missing; run ./dev build")
    soak = Soak(options)
    unknown = set(options.only or []) - set(HEALTHY) - set(soak.faults.FAULTS)
    if unknown:
        sys.exit(f"soak: unknown kind {sorted(unknown)[0]}; kinds: {', '.join([*sorted(HEALTHY), *sorted(soak.faults.FAULTS)])}")
    say(f"soak: {options.minutes:g} minutes, seed {options.seed}, {options.hosts} agents, {options.relays} relays")
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        try:
            soak.run()
        except KeyboardInterrupt:
            interrupted = True
            print("\nsoak: interrupted", flush=True)
        good = soak.summary()
    finally:
        soak.close()
    return 130 if interrupted else 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
