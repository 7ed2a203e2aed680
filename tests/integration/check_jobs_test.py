#!/usr/bin/env python3
"""Runs `lockstep check` on many small jobs (tests/workload/smalljobs.cpp). Each bug is found with its ranks and its call, and no healthy job is reported.
check_jobs_test.py [NAME...] runs only these jobs."""

import concurrent.futures
import json
import os
import subprocess
import sys
import unittest

from support import BIN, LOCKSTEP, FolderTest, clean_environment

SMALLJOBS = os.path.join(BIN, "smalljobs")


def problems(folder, rings, name, ranks, culprits, call):
    """Returns what is wrong with the report on this job; empty if it is right."""
    healthy = culprits == "-"
    run = subprocess.run([LOCKSTEP, "check", "-n", ranks, "--rounds", "2" if healthy else "1", "--late-after", "1", "--format", "json", "--", SMALLJOBS, name],
                         cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                         env=clean_environment(TMPDIR=folder, LOCKSTEP_DIR=rings))
    if run.returncode != (0 if healthy else 1):
        return "status %d\n%s%s" % (run.returncode, run.stdout, run.stderr[-2000:])
    found = json.loads(run.stdout)
    if healthy:
        return "" if found["result"] == "nothing found" and not found["not_checked"] else run.stdout
    first = found["faults"][0]
    named = ",".join(map(str, first["ranks"]))
    output = first["text"] + " ".join(each["call"] for each in first["calls"])
    wrong = [] if named == culprits else ["named %s instead of %s" % (named, culprits)]
    wrong += [] if call in output else ["%s is not named" % call]
    # The recorder stores no call site for splits and initializations.
    wrong += [] if call.lower() in ("split", "init") or any("smalljobs.cpp:" in each["site"] for each in first["calls"]) else ["no call site"]
    return "; ".join(wrong) + "\n" + run.stdout if wrong else ""


class CheckJobsTest(FolderTest):
    only = ()

    def test_jobs(self):
        listed = subprocess.run([SMALLJOBS, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
        jobs = [line.split() for line in listed]
        self.assertGreaterEqual(sum(job[2] == "-" for job in jobs), 20)
        self.assertGreaterEqual(sum(job[2] != "-" for job in jobs), 30)
        jobs = [job for job in jobs if not self.only or job[0] in self.only]
        # A check mostly waits: for ranks to start, and until late ranks are reported.
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            results = pool.map(lambda job: problems(self.folder, self.rings, *job), jobs)
            for job, wrong in zip(jobs, results):
                with self.subTest(job[0]):
                    print("%-28s %s" % (job[0], wrong.split("\n", 1)[0] or "ok"), flush=True)
                    self.assertFalse(wrong, wrong)


if __name__ == "__main__":
    CheckJobsTest.only = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
