"""What the programs for --on-verdict share: the verdict on standard input, when to act, and the record of what was done.

Names out of a verdict come from the job and are hostile: a program passes them on as one argument or as JSON, never through a
shell, and only where they look like what they should be."""

import argparse
import contextlib
import datetime
import fcntl
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

LARGEST_VERDICT = 64 << 20
LARGEST_RECORD = 4 << 20
DAY = 86400
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
ACTIONS = ("wait", "ask", "requeue", "exclude")
PROGRAM = os.path.basename(sys.argv[0])


class Refused(Exception):
    """Nothing is done, and trying again changes nothing."""


def say(text):
    print(f"lockstep {PROGRAM}: {text}", file=sys.stderr, flush=True)


def printable(text, most=1000):
    text = "".join(c if c.isprintable() else " " for c in str(text))
    return text if len(text) <= most else text[:most - 3] + "..."


class Verdict:
    """The contract: `verdict`, `job`, and `recommended` with action, hosts, ranks, why and confidence."""

    def __init__(self, data):
        if len(data) > LARGEST_VERDICT:
            raise Refused(f"the verdict has more than {LARGEST_VERDICT} bytes")
        try:
            whole = json.loads(data)
            told = whole["recommended"]
            self.kind, self.job = printable(whole["verdict"], 40), printable(whole["job"], 200)
            self.action, self.why = told["action"], printable(told["why"])
            named = [host for host in told["hosts"] if isinstance(host, str)]
            self.ranks = [int(rank) for rank in told["ranks"]]
            self.confidence = float(told["confidence"])
            self.recommended = told
            findings = whole["findings"]
            self.finding = printable(findings[0]["kind"], 40) if findings else ""
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise Refused(f"standard input is no verdict of lockstep ({type(error).__name__}: {printable(error, 80)})") from None
        if self.action not in ACTIONS or not math.isfinite(self.confidence):
            raise Refused("standard input is no verdict of lockstep (action or confidence)")
        self.hosts = [host for host in named if NODE.match(host)]
        self.strange_hosts = len(told["hosts"]) - len(self.hosts)
        self.incident = printable(os.environ.get("LOCKSTEP_INCIDENT", ""), 500)
        # The same if the command is started again for the same verdict.
        self.id = hashlib.sha256(data).hexdigest()[:16]

    def subject(self):
        return f"{self.kind}: job {self.job}" if self.job else self.kind

    def recommendation(self):
        without = " without " + ", ".join(self.hosts[:8]) if self.action == "exclude" else ""
        return {"wait": "wait", "ask": "a person must decide", "requeue": "start the job again",
                "exclude": "start the job again" + without}[self.action]

    def text(self):
        lines = [self.subject(), self.why, f"Recommended: {self.recommendation()} (confidence {self.confidence:.2f})."]
        if self.incident:
            lines.append(f"Incident: {self.incident}")
        return "\n".join(line for line in lines if line)


def parser(about, acts=False):
    made = argparse.ArgumentParser(prog=f"notify/{PROGRAM}", description=about, allow_abbrev=False)
    made.add_argument("--seconds", type=float, default=20, help="longest time for one request or command (20)")
    if acts:
        made.add_argument("--do", action="store_true", help="act. Without it the program logs what it would do")
        made.add_argument("--least-confidence", type=float, default=0.9, metavar="P", help="act on verdicts that are at least this sure (0.9)")
        made.add_argument("--most-nodes", type=int, default=2, metavar="N", help="take at most this many nodes from service in 24 hours (2)")
        state = os.environ.get("STATE_DIRECTORY") or os.path.expanduser("~/.local/state/lockstep")
        made.add_argument("--state", default=os.path.join(state.split(":")[0], "notify"), metavar="DIR",
                          help="keep the record of what was done there (notify in $STATE_DIRECTORY or ~/.local/state/lockstep)")
    return made


class Record:
    """actions.jsonl: one line for each thing that was done, tried or refused. Held by one program at a time."""

    def __init__(self, folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.path = os.path.join(folder, "actions.jsonl")
        self.lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.getsize(self.path) > LARGEST_RECORD:
                os.replace(self.path, self.path + ".1")

    def lines(self):
        for path in (self.path + ".1", self.path):
            with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    with contextlib.suppress(ValueError):
                        found = json.loads(line)
                        if isinstance(found, dict):
                            yield found

    def recent(self):
        since = time.time() - DAY
        return [line for line in self.lines() if line.get("time", 0) >= since and line.get("state") in ("begun", "done")]

    def nodes(self):
        return {node for line in self.recent() for node in line.get("nodes", [])}

    def restarts(self, verdict):
        """Counts recent restarts of the verdict's job for other verdicts."""
        return len({line.get("verdict") for line in self.recent() if line.get("job") == verdict.job and line.get("restart")} - {verdict.id})

    def write(self, verdict, state, what, nodes=(), restart=False):
        line = {"time": time.time(), "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "program": PROGRAM,
                "verdict": verdict.id, "job": verdict.job, "state": state, "what": what, "nodes": list(nodes), "restart": restart}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        say(f"{state}: {what}")


def why_not(verdict, options, record, nodes):
    """Why nothing may be done to these nodes; empty: it may."""
    if verdict.confidence < options.least_confidence:
        return f"the verdict's confidence is {verdict.confidence:.2f}, below --least-confidence {options.least_confidence:g}"
    if verdict.strange_hosts:
        return "a host of the verdict has a name that no node can have"
    taken = record.nodes()
    if len(taken | set(nodes)) > options.most_nodes and not set(nodes) <= taken:
        return f"{len(taken)} nodes were taken in the last 24 hours, and --most-nodes is {options.most_nodes}"
    return ""


def act(verdict, options, record, what, commands, nodes=(), restart=False):
    """Runs `commands`, functions of no argument, if that is allowed. Says and records what was done or would be."""
    refused = why_not(verdict, options, record, nodes)
    if refused:
        record.write(verdict, "refused", f"{what}: {refused}", nodes, restart)
        return
    if not options.do:
        record.write(verdict, "dry run", f"would {what} (--do is not given)", nodes, restart)
        return
    # Counted before the action, so that a program that is killed during it has used its share.
    record.write(verdict, "begun", what, nodes, restart)
    try:
        for command in commands:
            command()
    except (OSError, subprocess.SubprocessError) as error:
        record.write(verdict, "failed", f"{what}: {printable(error, 300)}", nodes, restart)
        sys.exit(1)
    record.write(verdict, "done", what, nodes, restart)


def run(words, seconds, data=None):
    """A program and its arguments, without a shell. Its output; OSError where it fails."""
    done = subprocess.run(words, input=data, stdin=subprocess.DEVNULL if data is None else None, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=seconds, check=False)
    if done.returncode != 0:
        raise OSError(f"{words[0]} exited with status {done.returncode}: {printable(done.stderr.decode(errors='replace').strip(), 300)}")
    return done.stdout.decode(errors="replace")


def secret(path, what):
    """The first line of a file, so that it is on no command line."""
    with open(path, encoding="utf-8") as file:
        line = file.readline(4096).strip()
    if not line:
        raise Refused(f"{path} holds no {what}")
    return line


def post(url, body, seconds):
    if not re.match(r"https?://", url):
        raise Refused("the address must begin with http:// or https://")
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            answer.read(4096)
    except urllib.error.HTTPError as error:  # its text may repeat the address, which is a secret
        raise OSError(f"the server answered {error.code} {printable(error.reason, 80)}") from None
    except urllib.error.URLError as error:
        raise OSError(f"the server was not reached: {printable(error.reason, 200)}") from None


def main(work, options):
    """Status 0: done, or nothing to do. 1: failed, and to be tried again. 2: wrong usage."""
    try:
        verdict = Verdict(sys.stdin.buffer.read(LARGEST_VERDICT + 1))
        work(verdict, options)
    except Refused as error:
        say(str(error))
    except (OSError, subprocess.SubprocessError) as error:
        say(printable(error, 400))
        sys.exit(1)
