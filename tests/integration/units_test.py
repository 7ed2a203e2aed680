#!/usr/bin/env python3
"""Runs the services as systemd starts them, with exactly the user, capabilities, folders and variables of their unit files, on a read-only root.
Namespaces replace systemd, which test machines do not have."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from support import BIN, BUILD, LIBRARY, SOURCE, FolderTest, read_json, wait_for

SERVICE_USER, JOB_USER = 64470, 64471  # IDs that belong to no user
INSIDE = "LOCKSTEP_UNITS_TEST_FOLDER"
FAULT = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "1000000", "--pace-ms", "20", "--fault", "rank=2,step=20,kind=stall-host,comm=dp"]


def unit(name):
    """Returns the settings of a unit file: {"User": ["lockstep"], ...}."""
    found = {}
    with open(os.path.join(SOURCE, "packaging/systemd", name)) as file:
        for line in file:
            if line[:1] not in "#[\n":
                key, value = line.rstrip("\n").split("=", 1)
                found.setdefault(key, []).append(value)
    return found


def as_systemd(name, variables, instance=""):
    """Creates the unit's folders and returns the command that starts its program as systemd would. `variables` are those of the unit's EnvironmentFile."""
    settings = unit(name)
    user = SERVICE_USER if settings.get("User") == ["lockstep"] else 0
    for kind, above in (("StateDirectory", "/var/lib"), ("RuntimeDirectory", "/run")):
        for folder in settings.get(kind, []):
            path = os.path.join(above, folder.replace("%i", instance))
            os.mkdir(path)
            os.chmod(path, int(settings.get(kind + "Mode", ["0755"])[0], 8))
            os.chown(path, user, user)
    words = ["setpriv", "--inh-caps=-all"]
    kept = settings["CapabilityBoundingSet"][0].lower().split()
    words.append("--bounding-set=" + ",".join(["-all", *("+" + name.removeprefix("cap_") for name in kept)]))
    if user != 0:
        words += ["--reuid", str(user), "--regid", str(user), "--clear-groups"]
    if settings.get("NoNewPrivileges") == ["yes"]:
        words.append("--no-new-privs")
    words += ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    for line in settings.get("Environment", []):
        words += line.replace("%i", instance).split()
    words += [f"{name}={value}" for name, value in variables.items()]
    return words + settings["ExecStart"][0].replace("/usr/bin/", BIN + "/").split()


class UnitsTest(FolderTest):
    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root, and setpriv")
        made = subprocess.run(["unshare", "-m", "-p", "-f", "-n", "--mount-proc", "true"], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            self.skipTest("cannot create namespaces here: " + made.stderr.strip())
        super().setUp()
        os.chmod(self.folder, 0o755)

    def test_agent_relay_and_collector_find_a_hang_with_stacks(self):
        keys = os.path.join(self.folder, "keys")
        os.mkdir(keys)
        for role in ("collector", "relay", "agent", "operator"):
            subprocess.run([os.path.join(BIN, "lockstep-keygen"), "--role", role, keys], check=True, capture_output=True, timeout=60)
        for role in ("collector", "relay"):  # the units use these names
            os.chown(os.path.join(keys, role + ".key"), SERVICE_USER, SERVICE_USER)
        done = subprocess.run(["unshare", "-m", "-p", "-f", "-n", "--mount-proc", "--kill-child", sys.executable, os.path.abspath(__file__), "--as-host"],
                              env={**os.environ, "LOCKSTEP_BUILD": BUILD, INSIDE: self.folder}, capture_output=True, text=True, timeout=170, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-3000:])
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(result["culprits"], [2], result)
        self.assertNotIn("not unwound", result["stacks"])
        self.assertIn("trainsim::FaultPlan::Play (faults.cpp:", result["stacks"])
        self.assertEqual((result["top"], result["dump"]), (0, 1), result)
        # The agent reads a job's files only as the job's user, and the collector runs only as its own user.
        self.assertIn(JOB_USER, result["users"])
        self.assertEqual(result["collector"], SERVICE_USER)


def as_host():
    folder = os.environ[INSIDE]
    keys = folder + "/keys"
    for place in ("/dev/shm", "/run", "/var/lib"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", place], check=True)
    os.chmod("/dev/shm", 0o1777)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    secured = {"LOCKSTEP_KEYS": keys}
    collector = as_systemd("lockstep-collector.service", {**secured, "LOCKSTEP_LISTEN": "tcp://127.0.0.1:9470", "LOCKSTEP_COLLECTOR_LATE_AFTER": "1"})
    relay = as_systemd("lockstep-relay@.service", {"LOCKSTEP_COLLECTOR_UPSTREAM": "tcp://127.0.0.1:9470", "LOCKSTEP_LISTEN": "tcp://127.0.0.1:9471",
                                                   "LOCKSTEP_KEY": keys + "/relay.key", "LOCKSTEP_KNOWN_KEYS": keys,
                                                   "LOCKSTEP_SERVER_KEY": keys + "/collector.pub"}, "rack7")
    agent = as_systemd("lockstep-agent.service", {"LOCKSTEP_COLLECTOR": "tcp://127.0.0.1:9471,tcp://127.0.0.1:9470", "LOCKSTEP_KEY": keys + "/agent.key",
                                                  "LOCKSTEP_SERVER_KEY": f"{keys}/relay.pub,{keys}/collector.pub", "LOCKSTEP_AGENT_LATE_AFTER": "1"})
    subprocess.run(["mount", "-o", "remount,bind,ro", "/"], check=True)
    logs = {}

    def start(name, words, **more):
        logs[name] = os.memfd_create(name)
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=logs[name], stderr=logs[name], start_new_session=True, cwd="/", **more)

    started = [start("collector", collector), start("relay", relay), start("agent", agent)]
    ranks = [start(f"rank{rank}", ["setpriv", "--reuid", str(JOB_USER), "--regid", str(JOB_USER), "--clear-groups", os.path.join(BIN, "trainsim"), *FAULT],
                   env={"PATH": os.environ["PATH"], "LD_PRELOAD": LIBRARY, "LD_LIBRARY_PATH": os.path.join(BUILD, "standin/lib"), "LOCKSTEP_JOB": "served",
                        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": "29517"}) for rank in range(4)]
    users = set()

    def look():
        """Collects the users of the agent's child processes, which start and exit often."""
        for child in subprocess.run(["pgrep", "-P", str(started[2].pid)], capture_output=True, text=True, check=False).stdout.split():
            try:
                with open(f"/proc/{child}/status") as file:
                    users.add(int(re.search(r"^Uid:\t\d+\t(\d+)", file.read(), re.M).group(1)))
            except OSError:
                pass

    def verdict():
        look()
        for path in glob.glob("/var/lib/lockstep-collector/*/verdict.json"):
            output = read_json(path)
            if output["verdict"] == "HUNG" and output["findings"] and os.path.exists(os.path.dirname(path) + "/manifest.json"):
                return path
        return None

    path = wait_for(lambda: verdict() or any(each.poll() is not None for each in started), 100)
    # Every dump captures the suspects' stacks again, so `look` sees more child processes.
    environment = {"PATH": os.environ["PATH"], "LOCKSTEP_KEYS": keys}
    # Uses the address that the agent published. It must be the collector's, because relays do not answer tools.
    top = subprocess.run([BIN + "/lockstep-top", "--once"], capture_output=True, text=True, timeout=60, check=False,
                         env={**environment, "LOCKSTEP_RUNTIME_DIR": "/run/lockstep"})
    output = ""
    for _ in range(20 if isinstance(path, str) else 0):
        dump = subprocess.Popen(["timeout", "60", BIN + "/lockstep-dump", "served"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        while dump.poll() is None:
            look()
        output = dump.stdout.read()
        if JOB_USER in users:
            break
    if not isinstance(path, str) or JOB_USER not in users:
        for name, log in logs.items():
            print(f"--- {name}\n" + os.pread(log, 20000, 0).decode(errors="replace")[-3000:])
    if not isinstance(path, str):
        print("no verdict", [each.poll() for each in started])
        return 1
    finding = read_json(path)["findings"][0]
    with open(os.path.join(os.path.dirname(path), "stacks.json")) as file:
        stacks = file.read()
    print(json.dumps({"culprits": finding["culprit_ranks"], "stacks": stacks, "top": top.returncode, "dump": dump.returncode, "said": output + top.stderr,
                      "users": sorted(users), "collector": os.stat(f"/proc/{started[0].pid}").st_uid}))
    for each in ranks + started:
        each.kill()
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--as-host"]:
        sys.exit(as_host())
    unittest.main(verbosity=2)
