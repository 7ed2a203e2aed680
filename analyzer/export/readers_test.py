#!/usr/bin/env python3
"""Reads the output of `lockstep export` with other programs: Python's csv and json, the Protobuf
runtime, Perfetto's trace processor, Catapult's trace viewer. Also checks the file after a full disk
or an interrupt.

Usage: readers_test.py LOCKSTEP_EXPORT EXPORT_DUMPS SOURCE_FOLDER
PERFETTO_TRACE_PROTO: Perfetto's published perfetto_trace.proto, for a second decoder.
CATAPULT_TRACE_VIEWER: the page catapult_trace_viewer.html, with its script beside it, which opens the
Chrome trace in Chromium."""

import csv
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../testing"))
import trace_processor  # noqa: E402
from headless_browser import Browser, find_browser, give_up_after  # noqa: E402

EXPORT, DUMPS, SOURCE = (os.path.abspath(path) for path in sys.argv[1:4])
EVIL = 'dp "x",\\ </script>?[31m=1+1 ?'


# Runs the viewer's own importer on a trace.
IMPORT = """((text) => {
  const model = new tr.Model();
  new tr.importer.Import(model, new tr.importer.ImportOptions()).importTraces([text]);
  const processes = Object.values(model.processes), threads = processes.flatMap(process => Object.values(process.threads));
  return {warnings: model.importWarnings.map(warning => warning.message), names: processes.map(process => process.name),
          slices: threads.reduce((sum, thread) => sum + thread.sliceGroup.slices.length, 0),
          flows: model.flowEvents.map(flow => [flow.startSlice.parentContainer.parent.name, flow.endSlice.parentContainer.parent.name])};
})"""


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="lockstep-export-test-")
        cls.dumps = os.path.join(cls.folder, "dumps")
        os.mkdir(cls.dumps)
        subprocess.run([DUMPS, cls.dumps], check=True)
        cls.files = {kind: os.path.join(cls.folder, "trace." + kind) for kind in ("perfetto", "chrome", "csv")}
        arguments = [item for kind, path in cls.files.items() for item in ("--" + kind, path)]
        done = subprocess.run([EXPORT, cls.dumps, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def export(self, *arguments, **more):
        return subprocess.run([EXPORT, self.dumps, *arguments], capture_output=True, text=True, check=False, **more)

    def no_leftovers(self):
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".lockstep")], [])

    def test_csv_is_read_by_python(self):
        with open(self.files["csv"], newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file, strict=True))
        self.assertEqual(len(lines), 62)
        self.assertTrue(all(None not in line and None not in line.values() for line in lines))
        self.assertEqual({line["rank"] for line in lines}, set("012345"))
        self.assertIn(EVIL, {line["communicator"] for line in lines})
        ninth = [line for line in lines if line["sequence"] == "9"]
        self.assertEqual({line["rank"] for line in ninth}, set("01245"))
        self.assertEqual({line["state"] for line in ninth}, {"in flight, started"})
        for line in lines:
            times = [int(line[key]) for key in ("enter_ns", "return_ns") if line[key]]
            self.assertEqual(times, sorted(times))
        with open(self.files["csv"], "rb") as file:
            data = file.read()
        self.assertEqual(data.count(b"\n"), data.count(b"\r\n"))

    def test_chrome_is_read_by_python(self):
        with open(self.files["chrome"], encoding="utf-8") as file:
            trace = json.load(file)
        required = {"X": {"name", "cat", "pid", "tid", "ts", "dur", "args"}, "M": {"name", "pid", "args"}, "i": {"name", "s", "pid", "tid", "ts"},
                    "s": {"name", "cat", "id", "pid", "tid", "ts"}, "f": {"name", "cat", "id", "bp", "pid", "tid", "ts"}}
        rows = {}
        for event in trace["traceEvents"]:
            self.assertIn(event["ph"], required)
            self.assertLessEqual(required[event["ph"]], set(event), event)
            for key in ("pid", "tid"):
                self.assertIsInstance(event.get(key, 0), int)
            for key in ("ts", "dur"):
                self.assertGreaterEqual(event.get(key, 0), 0)
            if event["ph"] == "X":
                rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        # Slices of one row must nest, or viewers draw nonsense.
        for row, slices in rows.items():
            stack = []
            for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
                while stack and stack[-1] <= begin + 1e-4:
                    stack.pop()
                self.assertTrue(not stack or end <= stack[-1] + 1e-4, (row, begin, end))
                stack.append(end)
        starts = [event for event in trace["traceEvents"] if event["ph"] == "s"]
        ends = {event["id"]: event for event in trace["traceEvents"] if event["ph"] == "f"}
        self.assertEqual(len(starts), 5)
        for start in starts:
            self.assertEqual(ends[start["id"]]["pid"], 3)
            self.assertLess(start["ts"], ends[start["id"]]["ts"])
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        self.assertIn("rank 3 gpu 1 pid 103 on node1", names)

    def test_chrome_is_read_by_the_trace_viewer(self):
        page, browser = os.environ.get("CATAPULT_TRACE_VIEWER"), find_browser()
        if not page or browser is None:
            self.skipTest("CATAPULT_TRACE_VIEWER names no page" if browser else "no browser here")
        give_up_after(90)
        driven = Browser(browser, os.path.join(self.folder, "profile"))
        self.addCleanup(driven.close)
        session = driven.new_page("Page")
        driven.call("Page.navigate", session, url=pathlib.Path(page).absolute().as_uri())
        driven.wait_for("Page.loadEventFired")
        with open(self.files["chrome"], encoding="utf-8") as file:
            told = driven.evaluate(session, f"{IMPORT}({json.dumps(file.read())})")
        self.assertEqual(told["warnings"], [])
        self.assertEqual(len(told["names"]), 6)
        self.assertIn("rank 3 gpu 1 pid 103 on node1", told["names"])
        self.assertEqual(told["slices"], self.drawn())
        self.assertEqual(len(told["flows"]), 5)
        self.assertEqual({end for _, end in told["flows"]}, {"rank 3 gpu 1 pid 103 on node1"})
        self.assertNotIn("rank 3 gpu 1 pid 103 on node1", {begin for begin, _ in told["flows"]})

    def drawn(self):
        """Returns slices and marks of the Chrome trace, which has the content of the Perfetto trace."""
        with open(self.files["chrome"], encoding="utf-8") as file:
            return sum(event["ph"] in "Xi" for event in json.load(file)["traceEvents"])

    def decode(self, message, proto, folder):
        with open(self.files["perfetto"], "rb") as file:
            done = subprocess.run(["protoc", "--decode=" + message, "-I", folder, proto], stdin=file, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check_decoded(self, text):
        # A number instead of a name means a field that the schema does not have.
        self.assertIsNone(re.search(r"^\s*\d+[:\s{]", text, re.M))
        self.assertEqual(text.count("  track_descriptor {"), len(set(re.findall(r"^    uuid: (\d+)$", text, re.M))))
        self.assertEqual(len(re.findall(r"^    flow_ids: ", text, re.M)), 5)
        self.assertEqual(len(re.findall(r"^    terminating_flow_ids: ", text, re.M)), 5)
        begins, ends, marks = (len(re.findall(rf"type: (?:TYPE_)?{kind}$", text, re.M)) for kind in ("SLICE_BEGIN", "SLICE_END", "INSTANT"))
        self.assertEqual((begins + marks, ends), (self.drawn(), begins))

    def test_perfetto_is_read_by_the_protobuf_runtime(self):
        if shutil.which("protoc") is None:
            self.skipTest("no protoc here")
        self.check_decoded(self.decode("lockstep.perfetto.Trace", "proto/perfetto.proto", SOURCE))

    def test_perfetto_follows_its_published_schema(self):
        path = os.environ.get("PERFETTO_TRACE_PROTO")
        if not path or not os.path.exists(path):
            self.skipTest("PERFETTO_TRACE_PROTO names no schema")
        self.check_decoded(self.decode("perfetto.protos.Trace", os.path.basename(path), os.path.dirname(os.path.abspath(path))))

    def by_trace_processor(self, kind, processes, culprit):
        """Checks that Perfetto's reader accepts the whole file and draws what it should. (A mark is a
        slice of length 0 there.)"""
        path = trace_processor.library()
        if path is None:
            self.skipTest("no library of the trace processor here (Debian's chromium-shell has it)")
        if not trace_processor.usable(path):
            self.skipTest(f"{path}: this version has another interface")
        read = trace_processor.ask(path, self.files[kind], [
            "select count(*) from slice",
            "select name, value from stats where severity in ('error', 'data_loss') and value != 0",
            "select name from process where name is not null order by name",
            "select distinct category from slice order by category",
            f"select o.name, i.name, {culprit} from flow join slice o on slice_out = o.id join slice i on slice_in = i.id",
            "select count(*) from args where key in ('debug.sequence', 'args.sequence')"])
        self.assertIsNotNone(read, "the reader died of it")
        self.assertTrue(read["opened"])
        slices, faults, names, categories, arrows, numbers = (answer[1:] for answer in read["answers"])
        self.assertEqual(slices, [[str(self.drawn())]])
        self.assertEqual(numbers, [["62"]])
        self.assertEqual(faults, [])
        self.assertEqual([name for name, in names], processes)
        self.assertEqual([name for name, in categories], ["gpu", "gpu, start not recorded", "host call", "in flight", "verdict", "waiting"])
        self.assertEqual(len(arrows), 5)
        for waits, cause, row in arrows:
            self.assertRegex(waits, r"^waits for rank 3 in AllReduce #9")
            self.assertRegex(cause, r"^HOST_STALL: never called AllReduce #9")
            self.assertRegex(row, r"^rank 3 gpu 1 pid 103")

    def test_perfetto_is_read_by_the_trace_processor(self):
        self.by_trace_processor("perfetto", ["node0", "node1", "unknown host"], "(select name from track where id = i.track_id)")

    def test_chrome_is_read_by_the_trace_processor(self):
        ranks = [f"rank {rank} gpu {rank % 2} pid {100 + rank} on {host}" for rank, host in enumerate(["node0"] * 2 + ["node1"] * 2 + ["unknown host"] * 2)]
        self.by_trace_processor("chrome", ranks, "(select p.name from thread_track t join thread using (utid) join process p using (upid) where t.id = i.track_id)")

    def test_ranks_and_times_can_be_selected(self):
        done = self.export("--csv", "-", "--ranks", "1,4-5", "--around-stop", "2.5")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = list(csv.DictReader(done.stdout.splitlines()))
        self.assertEqual({line["rank"] for line in lines}, {"1", "4", "5"})
        self.assertEqual({line["sequence"] for line in lines if line["communicator"] == "world" and line["enter_ns"]}, {"7", "8", "9"})

    def test_wrong_arguments_are_refused(self):
        for arguments in ([], ["--csv"], ["--csv="], ["--csv", "x", "--ranks", "5-1"], ["--csv", "x", "--around-stop", "nan"], ["--gif", "x"],
                          ["--csv", "-", "--chrome", "-"]):
            done = self.export(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stderr.count("\n"), 1)
        done = subprocess.run([EXPORT, os.path.join(self.folder, "nothing"), "--csv", "-"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""))

    def test_a_full_disk_leaves_no_file(self):
        for kind in self.files:
            done = self.export("--" + kind, "/dev/full")
            self.assertEqual(done.returncode, 3)
            self.assertIn("No space left on device", done.stderr)
            target = os.path.join(self.folder, "limited")

            def limit():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

            done = self.export("--" + kind, target, preexec_fn=limit)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(target, done.stderr)
            self.assertFalse(os.path.exists(target))
            self.no_leftovers()

    def test_an_older_file_is_replaced_whole_or_kept(self):
        target = os.path.join(self.folder, "older.csv")
        with open(target, "w", encoding="utf-8") as file:
            file.write("older")
        self.assertEqual(self.export("--csv", target, "--perfetto", "/no/such/folder/x").returncode, 3)
        with open(target, encoding="utf-8") as file:
            self.assertEqual(file.read(), "older")
        self.assertEqual(self.export("--csv", target).returncode, 0)
        with open(target, encoding="utf-8") as file:
            self.assertTrue(file.read().startswith("rank,"))
        self.no_leftovers()

    def test_an_interrupt_leaves_no_partial_file(self):
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        target = os.path.join(self.folder, "interrupted")
        # The first file is begun or complete, while the second waits for a reader that never comes.
        process = subprocess.Popen([EXPORT, self.dumps, "--csv", pipe, "--perfetto", target], stderr=subprocess.DEVNULL)
        process.send_signal(signal.SIGTERM)
        # A signal that arrives before the program handles signals ends it, as with any program.
        self.assertIn(process.wait(60), (128 + signal.SIGTERM, -signal.SIGTERM))
        if os.path.exists(target):
            self.assertEqual(os.path.getsize(target), os.path.getsize(self.files["perfetto"]))
        self.no_leftovers()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
