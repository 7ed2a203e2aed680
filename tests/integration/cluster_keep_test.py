#!/usr/bin/env python3
"""Tests what a running collector keeps, and who may read incidents: old incidents are deleted, and a group may read new ones."""

import json
import os
import subprocess
import time
import unittest

from cluster import ClusterCase
from support import wait_for

STALL = ["--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--fault", "rank=2,step=40,kind=stall-host,comm=dp"]
GROUP, STRANGER = 61234, 61235  # IDs that no user or group has


class ClusterKeepTest(ClusterCase):
    def plant(self, made, job, days):
        folder = os.path.join(made.out, "lockstep-incident-" + job)
        os.makedirs(folder)
        with open(os.path.join(folder, "manifest.json"), "w") as file:
            json.dump({"format": 1, "captured_real_ns": (int(time.time()) - days * 86400) * 10**9}, file, indent=2)
        with open(os.path.join(folder, "verdict.txt"), "w") as file:
            file.write("HUNG\n")
        return folder

    def test_old_incidents_are_deleted_and_a_group_may_read_the_new_one(self):
        root = os.geteuid() == 0
        made = self.make()
        old, young = self.plant(made, "old", 30), self.plant(made, "young", 2)
        group = GROUP if root else os.getgid()
        made.start_all(*STALL, collector=("--keep", "7d", "--group", str(group)))
        self.assertTrue(wait_for(lambda: not os.path.exists(old), 120), made.logs())
        self.assertIn("removed", made.log("collector"))
        folder = wait_for(lambda: [one for one in made.whole() if one != young], 240)
        self.assertTrue(folder, made.logs())
        self.assertTrue(os.path.exists(young), "this incident is not old")
        files = [os.path.join(folder[0], name) for name in ("verdict.json", "verdict.txt", "manifest.json", "node0.lsd", "node1.lsd")]

        def shared():
            return all(os.stat(path).st_gid == group and os.stat(path).st_mode & 0o777 == 0o640 for path in files)

        self.assertTrue(wait_for(shared, 90), [oct(os.stat(path).st_mode) for path in files])
        self.assertEqual(os.stat(folder[0]).st_mode & 0o7777, 0o2750)
        if not root:
            return
        os.chmod(made.folder, 0o711)  # mkdtemp gives access only to this user

        def read_as(number):
            def become():
                os.setgroups([])
                os.setresgid(number, number, number)
                os.setresuid(STRANGER, STRANGER, STRANGER)

            return subprocess.run(["/bin/cat", *files], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=become, cwd="/", timeout=60)

        member, stranger = read_as(GROUP), read_as(STRANGER)
        self.assertEqual(member.returncode, 0, member.stderr)
        self.assertNotEqual(stranger.returncode, 0)
        self.assertIn("Permission denied", stranger.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
