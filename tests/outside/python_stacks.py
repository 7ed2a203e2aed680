"""Checks that py-spy and `lockstep evidence` report the same Python frames in every thread, for every installed Python."""

import glob
import json
import os
import pathlib
import re
import subprocess
import time

from support import Skip

SCRIPT = """
import functools, sys, threading, time
def waits(lock):
    lock.acquire()
    lock.acquire()
class Job:
    def hold(self, a, b):
        time.sleep(1000)
    def step(self):
        return functools.reduce(self.hold, [1, 2])
def generated():
    yield Job().step()
def deep(n):
    return deep(n - 1) if n else [x for x in generated()]
async def asynchronous():
    return deep(20)
def drive():
    try:
        asynchronous().send(None)
    except StopIteration:
        pass
for _ in range(3):
    threading.Thread(target=waits, args=(threading.Lock(),), daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
drive()
"""


def pythons():
    """Returns one interpreter per version, from PATH, pyenv and uv."""
    home = pathlib.Path.home()
    places = ["/usr/bin", "/usr/local/bin"] + os.environ.get("PATH", "").split(":")
    places += glob.glob(os.path.join(os.environ.get("PYENV_ROOT", home / ".pyenv"), "versions/3.*/bin"))
    places += glob.glob(str(home / ".local/share/uv/python/cpython-3.*/bin"))
    found = {}
    for minor in range(8, 20):
        for place in places:
            path = os.path.join(place, "python3.%d" % minor)
            if "shims" not in path and os.access(path, os.X_OK):
                found.setdefault(minor, path)
    return found


def spied(py_spy, pid):
    """Returns the frames of each thread as py-spy reports them, innermost first."""
    result = subprocess.run([py_spy, "dump", "--json", "--pid", str(pid)], capture_output=True, text=True)
    if result.returncode != 0:
        raise Skip("py-spy cannot read it: " + result.stderr.strip()[-200:])
    return [[(frame["name"], os.path.basename(frame["filename"]), frame["line"]) for frame in thread["frames"]]
            for thread in json.loads(result.stdout)]


def ours(lockstep, pid):
    """Returns the frames of each thread as `lockstep evidence` reports them, without native frames, and the whole output."""
    result = subprocess.run([str(lockstep), "evidence", str(pid)], capture_output=True, text=True)
    threads = []
    for line in result.stdout.splitlines():
        if line.startswith("Thread "):
            threads.append([])
        frame = re.match(r"  #\d+ +(.+) \((\S+\.py):(\d+)\)$", line)
        if frame and threads:
            threads[-1].append((frame.group(1), os.path.basename(frame.group(2)), int(frame.group(3))))
    return [thread for thread in threads if thread], result.stdout + result.stderr


def run(outside):
    lockstep = outside.build / "bin/lockstep"
    if not lockstep.exists():
        raise Skip("%s is not built" % lockstep)
    python = outside.install("py-spy", check="import shutil, sys, os; "
                             "sys.exit(not os.path.exists(os.path.join(os.path.dirname(sys.executable), 'py-spy')))")
    py_spy = os.path.join(os.path.dirname(python), "py-spy")
    script = outside.temporary / "job.py"
    script.write_text(SCRIPT)
    for minor, path in sorted(pythons().items()):
        name = "Python 3.%d: frames as py-spy's" % minor
        process = subprocess.Popen([path, str(script)], stdout=subprocess.PIPE, text=True)
        try:
            if process.stdout.readline() != "ready\n":
                outside.skip(name, "%s does not run the script" % path)
                continue
            time.sleep(0.3)
            try:
                theirs = spied(py_spy, process.pid)
            except Skip as why:
                outside.skip(name, why)
                continue
            found, text = ours(lockstep, process.pid)
            problems = [] if len(theirs) == 4 else ["py-spy sees %d threads" % len(theirs)]
            if sorted(theirs) != sorted(found):
                problems.append("py-spy: %s\nlockstep: %s\n%s" % (sorted(theirs), sorted(found), text[-1500:]))
            outside.check(name, problems)
        finally:
            process.kill()
            process.wait()
