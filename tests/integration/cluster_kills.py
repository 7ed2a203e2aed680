#!/usr/bin/env python3
"""Kills agents, relay, collector and ranks with SIGKILL at random points of every phase, and cuts the network by stopping the relay. Then checks:
- Every chunk that left an agent's spool is in the incident's ledger, each ID once, except those that an agent's log reports as refused.
- Every file is as long as its ledger says.
- The command of --on-verdict ran once for each incident.
- The verdicts name only the stalled rank or a killed rank.

Most episodes wait for a verdict before they kill, and then stop an agent for a few seconds. So evidence, command and gathering last long enough to be
interrupted. `--kills 200` is the full test; ctest runs a sample."""

import argparse
import collections
import glob
import json
import os
import random
import re
import shutil
import signal
import sys
import time

from cluster import Cluster, ledger
from support import wait_for

FAULT = ["--tp", "2", "--pp", "1", "--dp", "3", "--steps", "1000000", "--fault", "rank=2,step=60,kind=stall-host,comm=dp"]


class Spools:
    """Tracks which chunks have been in the agents' spools, and which are still there."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.seen = {}

    def look(self):
        now = set()
        for host in range(self.cluster.hosts):
            for folder, _, names in os.walk(self.cluster.path(f"spool{host}", "files")):
                if os.path.basename(folder).startswith("."):
                    continue  # the chunk is still being written, so it is not in the spool
                for name in names:
                    match = re.fullmatch(r"\d+-([0-9a-f]{32})\.chunk", name)
                    if match:
                        now.add(match[1])
                        self.seen.setdefault(match[1], (f"node{host}", os.path.basename(folder), name))
        return now


def not_taken(cluster):
    """Returns the IDs of chunks that the agents' logs report as refused."""
    ids = set()
    for host in range(cluster.hosts):
        for path in glob.glob(cluster.path(f"spool{host}", "agent.log*")):
            with open(path, errors="replace") as file:
                for words in re.findall(r"does not accept chunks ([0-9a-f ]+):", file.read()):
                    ids.update(words.split())
    return ids


LATE = ("verdict", "evidence", "command", "everything")


def hook_lines(cluster, what):
    """Returns how often the command of --on-verdict wrote `what`: "begin" or "end"."""
    try:
        with open(cluster.path("told")) as file:
            return [line.split()[0] for line in file].count(what)
    except OSError:
        return 0


def phase_of(cluster):
    folders = cluster.incidents()
    if not folders:
        return "before a verdict"
    if hook_lines(cluster, "begin") > hook_lines(cluster, "end"):
        return "command"
    if cluster.whole():
        return "whole"
    files = os.listdir(folders[0])
    if any(name.endswith(".lsd") and not name.endswith("evidence.lsd") and name != "digests.lsd" for name in files):
        return "everything"
    return "evidence" if "verdict.json" in files else "verdict"


def episode(options, randomness, counts):
    """Runs one job that hangs, and kills processes during the run. Returns the problems."""
    cluster = Cluster(hosts=3, per_host=2, relays=1)
    cluster.failed = False
    hook = f"echo begin >> {cluster.path('told')}; cat > /dev/null; sleep {randomness.choice([0, 0.3, 1])}; echo end >> {cluster.path('told')}"
    command = ["--on-verdict", hook]
    spools = Spools(cluster)
    try:
        cluster.start_all(*FAULT, collector=command)
        if not wait_for(lambda: "new job " in cluster.log("collector"), 240):
            cluster.failed = True
            return ["the job was not seen\n" + cluster.logs()]
        kills = randomness.randint(6, 12)
        killed_ranks = set()
        rank_too = randomness.random() < 0.5
        until = time.monotonic() + options.limit
        late = randomness.random() < 0.75
        slow = None
        next_kill = time.monotonic() + randomness.uniform(0, 6)
        down = {}
        quiet_since = None
        looked = time.monotonic()
        while time.monotonic() < until:
            spools.look()
            now = time.monotonic()
            # If the machine did not schedule this process, it may not have scheduled the others either.
            if now - looked > 1:
                until += now - looked
                counts["machine", "seconds in which nothing ran"] += int(now - looked)
            looked = now
            for who, at in list(down.items()):
                if now >= at:
                    del down[who]
                    kind, index = who
                    if kind == "collector":
                        cluster.start_collector(*command)
                    elif kind == "relay":
                        cluster.start_relay(index)
                    else:
                        cluster.start_agent(index)
            phase = phase_of(cluster)
            if late and slow is None and phase in LATE and randomness.random() < 0.7:
                # One agent is slow to send evidence or files, which leaves time for kills.
                slow = (randomness.randrange(cluster.hosts), now + randomness.uniform(2, 5))
                if cluster.agents[slow[0]].poll() is None:
                    cluster.agents[slow[0]].send_signal(signal.SIGSTOP)
            elif slow is None and phase in LATE:
                slow = (0, 0)
            if slow is not None and slow[1] and now >= slow[1]:
                if cluster.agents[slow[0]].poll() is None:
                    cluster.agents[slow[0]].send_signal(signal.SIGCONT)
                slow = (0, 0)
            if late and phase == "before a verdict":
                next_kill = now + randomness.choice([0.02, 0.1, 0.3])
            if kills > 0 and now >= next_kill:
                kinds = ["collector", "relay", "agent", "agent", "agent"] + (["rank"] if rank_too and not killed_ranks else [])
                kind = randomness.choice(kinds)
                index = 0
                process = cluster.collector
                if kind == "relay":
                    process = cluster.relays[0]
                elif kind == "agent":
                    index = randomness.randrange(cluster.hosts)
                    process = cluster.agents[index]
                elif kind == "rank":
                    index = randomness.randrange(cluster.world)
                    process = cluster.ranks[index]
                if process is not None and process.poll() is None and (kind, index) not in down:
                    cluster.kill(process)
                    counts[kind, phase] += 1
                    kills -= 1
                    if kind == "rank":
                        killed_ranks.add(index)
                    else:
                        down[kind, index] = now + randomness.choice([0, 0.2, 1, 3])
                # Sometimes kills follow each other quickly, and sometimes there is time for progress.
                next_kill = now + randomness.choice([0.05, 0.3, 0.6, 1] if late else [0.05, 0.3, 1, 2, 4, 6])
                if phase == "whole":
                    kills = 0
            done = kills <= 0 and not down and (slow is None or not slow[1]) and cluster.incidents() and len(cluster.whole()) == len(cluster.incidents())
            if not done:
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            elif now - quiet_since > 2:
                break
            time.sleep(0.02)
        else:
            cluster.failed = True
            return [f"no whole incident within {options.limit} s\n" + cluster.logs()]
        left = spools.look()
        problems = []
        declared = 0
        for folder in cluster.incidents():
            with open(os.path.join(folder, "manifest.json")) as file:
                declared += json.load(file)["declared"]
        wait_for(lambda: hook_lines(cluster, "end") >= hook_lines(cluster, "begin"), 20)
        ran = hook_lines(cluster, "begin")
        # If three incidents are declared at once, the newest replaces a waiting one, so a command may not run.
        if ran != hook_lines(cluster, "end") or ran > declared or ran < min(declared, 2):
            problems.append(f"the command of --on-verdict began {ran} times, ended {hook_lines(cluster, 'end')} times, for {declared} incidents")
        counts["command", "ran"] += ran
        on_disk = []
        for folder in cluster.incidents():
            ids, wrong = ledger(folder)
            problems += wrong
            on_disk += ids
        counts["chunks", "on disk"] += len(on_disk)
        twice = [number for number, times in collections.Counter(on_disk).items() if times > 1]
        if twice:
            problems.append(f"ids on disk twice: {twice}")
        gone = set(spools.seen) - left
        counts["chunks", "left the spool"] += len(gone)
        # After a restart of a collector or agent, evidence may be gathered twice. A chunk is refused if its file is already complete or its incident is
        # closed; such a chunk was never acknowledged.
        refused = not_taken(cluster)
        counts["chunks", "not taken"] += len(refused)
        lost = gone - set(on_disk) - refused
        if lost:
            problems.append(f"{len(lost)} chunks left a spool and are not on disk ({len(refused)} others were not taken): {[spools.seen[n] for n in lost]}")
        guilty = {2, *killed_ranks}
        first = None
        for folder in cluster.incidents():
            with open(os.path.join(folder, "verdict.json")) as file:
                verdict = json.load(file)
            first = verdict["findings"][0]["culprit_ranks"] if verdict["findings"] else []
            if not first or not set(first) <= guilty:
                problems.append(f"{os.path.basename(folder)} names {first}, and it was {sorted(guilty)}: {verdict['findings'][:1]}")
        counts["verdict", "with a rank killed" if killed_ranks else f"names {first}"] += 1
        cluster.failed = bool(problems)
        return problems + ([cluster.logs()] if problems and options.verbose else [])
    finally:
        if options.keep and sys.exc_info()[0] is None and cluster.failed:
            shutil.copytree(cluster.folder, os.path.join(options.keep, os.path.basename(cluster.folder)), symlinks=True, ignore_dangling_symlinks=True)
        cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--limit", type=float, default=240, help="seconds for one episode (240)")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--first", type=int, default=1, help="number of the first episode; with the seed, it determines what is killed when")
    parser.add_argument("--keep", help="copy the files of failed episodes to this folder")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    counts = collections.Counter()
    failed = 0
    for number in range(options.first, options.first + 1000):
        problems = episode(options, random.Random(f"{options.seed}/{number}"), counts)
        killed = sum(count for (kind, _), count in counts.items() if kind in ("collector", "relay", "agent", "rank"))
        print(f"episode {number}: {killed} kills, {'ok' if not problems else 'FAILED'}", flush=True)
        for problem in problems:
            failed += 1
            print("  " + problem.replace("\n", "\n  "), flush=True)
        if killed >= options.kills:
            break
    in_late = sum(count for (kind, what), count in counts.items() if kind in ("collector", "relay", "agent", "rank") and what in LATE)
    print(f"{in_late} kills while an incident was being gathered")
    for (kind, what), count in sorted(counts.items()):
        print(f"{kind:10} {what:28} {count}")
    signal.alarm(0)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
