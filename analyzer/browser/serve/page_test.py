#!/usr/bin/env python3
"""Tests `lockstep serve` with incidents of the corpus: who gets an answer, and what it
contains. In headless Chromium, tests the list, an incident and its report. Names from
the job must stay text.

Usage: page_test.py LOCKSTEP_CORPUS LOCKSTEP_ANALYZE LOCKSTEP_SERVE SCALE_INDEX [UNITTEST ARGUMENTS]
With SERVE_KEEP=FOLDER the screenshots stay there."""

import base64
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../testing"), os.path.join(HERE, "../../../tests/integration")]
import no_skip  # noqa: E402
from headless_browser import Browser, find_browser, give_up_after  # noqa: E402

CORPUS, ANALYZE, SERVE, SCALE_INDEX = sys.argv[1:5]
EVIL = "</td><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&\u202eknar"
# Folder name -> arguments of lockstep-corpus generate, and the capture time.
INCIDENTS = {
    "lockstep-incident-train-20260103-000000": ("--scenario 7 --ranks 64 --seed 21007 --marks full --format lsd", 1_767_398_400),
    "lockstep-incident-<b>evil-20260102-000000": ("--scenario 3 --ranks 8 --seed 21003 --marks full --format lsd", 1_767_312_000),
    "lockstep-incident-fine-20260101-000000": ("--scenario 36 --ranks 8 --seed 21036 --marks timed --format lsd", 1_767_225_600),
}
FOLDER = tempfile.mkdtemp(prefix="lockstep-serve-test-")
ALL = os.path.join(FOLDER, "incidents")
KEEP = os.environ.get("SERVE_KEEP")


def make(name, arguments, taken):
    made, folder = os.path.join(FOLDER, "made"), os.path.join(ALL, name)
    subprocess.run([CORPUS, "generate", *arguments.split(), "--out", made], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([ANALYZE, "--format", "json", os.path.join(made, "data")], stdout=subprocess.PIPE, check=False)
    verdict = json.loads(done.stdout)
    verdict["captured_real_ns"] = taken * 1_000_000_000
    verdict["job"] = EVIL if "evil" in name else "train"
    with open(os.path.join(made, "data", "verdict.json"), "w", encoding="utf-8") as file:
        json.dump(verdict, file)
    os.rename(os.path.join(made, "data"), folder)
    shutil.rmtree(made)
    return verdict


def setUpModule():
    give_up_after(280)
    os.mkdir(ALL)
    for name, (arguments, taken) in INCIDENTS.items():
        VERDICTS[name] = make(name, arguments, taken)


def tearDownModule():
    shutil.rmtree(FOLDER, ignore_errors=True)


VERDICTS = {}


def start(*arguments):
    """Starts the server and returns it with the address that it prints."""
    server = subprocess.Popen([SERVE, *arguments], stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().strip()
    return server, address, server.stdout.readline().strip()


def end(server):
    server.send_signal(signal.SIGTERM)
    server.stdout.close()
    return server.wait(30)


class AnswerTest(unittest.TestCase):
    def setUp(self):
        self.server, self.address, self.tunnel = start(ALL)
        self.addCleanup(end, self.server)
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[A-Za-z0-9_-]{32}/)", self.address)
        self.assertTrue(found, self.address)
        self.port, self.root = int(found.group(1)), found.group(2)

    def get(self, path, method="GET", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers={"Host": host or f"localhost:{self.port}"})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        for name, value in (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer")):
            self.assertEqual(answer.getheader(name), value)
        self.assertRegex(answer.getheader("Content-Security-Policy"), r"^default-src 'none'.*frame-ancestors 'none'$")
        return answer.status, body

    def pages(self):
        return re.findall(rf'href="({re.escape(self.root)}[0-9a-f]{{16}}/explore\.html)"', self.get(self.root)[1])

    def test_prints_its_address_and_how_to_reach_it(self):
        self.assertEqual(self.tunnel, f"From another machine first: ssh -L {self.port}:127.0.0.1:{self.port} {socket.gethostname()}")
        self.assertEqual(end(self.server), 0)

    def test_only_the_token_gives_access(self):
        self.assertEqual(self.get(self.root)[0], 200)
        for path in ("/", "/favicon.ico", self.root[:-2] + "/", "/" + "a" * 32 + "/", "/?" + self.root):
            status, body = self.get(path)
            self.assertEqual((status, "train" in body), (403, False), path)
        self.assertEqual(self.get(self.root, host="evil.example")[0], 421)
        self.assertEqual(self.get(self.root, method="POST")[0], 405)
        self.assertEqual(self.get(self.root, method="HEAD"), (200, ""))
        for path in ("../made", "..%2f..%2fetc/passwd", "etc/passwd", "%2e%2e/"):
            self.assertEqual(self.get(self.root + path)[0], 404, path)

    def test_verdicts_match_those_in_the_folders(self):
        body = self.get(self.root)[1]
        self.assertEqual(len(self.pages()), 3)
        for verdict in VERDICTS.values():
            self.assertIn(verdict["verdict"].replace("_", " "), body)
        json_page = self.pages()[0].replace("explore.html", "verdict.json")
        self.assertEqual(json.loads(self.get(json_page)[1]), VERDICTS["lockstep-incident-train-20260103-000000"])
        report = self.get(self.pages()[0].replace("explore.html", "report.html"))[1]
        self.assertIn("<h1>", report)

    def test_new_incidents_appear_at_the_next_request(self):
        name = "lockstep-incident-live-20260104-000000"
        self.addCleanup(shutil.rmtree, os.path.join(ALL, name), ignore_errors=True)
        make(name, "--scenario 1 --ranks 8 --seed 5 --format lsd", 1_767_484_800)
        with open(os.path.join(ALL, name, ".gathering.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        body = self.get(self.root)[1]
        self.assertEqual(len(self.pages()), 4)
        self.assertLess(body.index("-live-"), body.index("-train-"))
        self.assertIn("being gathered", body)

    def test_a_compressed_page_has_the_same_content(self):
        page = self.pages()[0]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", page, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        self.assertEqual(answer.getheader("Content-Encoding"), "gzip")
        self.assertEqual(gzip.decompress(answer.read()).decode(), self.get(page)[1])

    def test_a_page_is_made_only_once(self):
        page = self.pages()[0]
        made = self.get(page)
        self.assertEqual(made[0], 200)
        folder = os.path.join(ALL, "lockstep-incident-train-20260103-000000")
        self.assertFalse(os.path.exists(os.path.join(folder, "explore.html")), "nothing is written")
        # Overwrites the data with zeros, but keeps the version of its files. Only the page created earlier is left.
        for name in (name for name in os.listdir(folder) if name.endswith(".lsd")):
            path = os.path.join(folder, name)
            with open(path, "r+b") as file:
                before, data = os.fstat(file.fileno()), file.read()
                file.seek(0)
                file.write(bytes(len(data)))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.addCleanup(self.put_back, path, data, before)
        self.assertEqual(self.get(page), made)

    @staticmethod
    def put_back(path, data, before):
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_an_address_that_cannot_be_printed_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([SERVE, ALL], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, "cannot write to standard output" in done.stderr), (3, True))

    def test_start_errors_are_reported(self):
        for arguments, status, text in ((("--listen", "0.0.0.0", ALL), 2, "ssh -L PORT:127.0.0.1:PORT"), ((FOLDER + "/none",), 3, "/none: No such file"),
                                        (("--port", str(self.port), ALL), 3, "in use"), ((), 2, "FOLDER")):
            done = subprocess.run([SERVE, *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, status, arguments)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stdout, "")


@unittest.skipIf(find_browser() is None, "no Chromium on this machine")
class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server, cls.address, _ = start(ALL)
        cls.browser = Browser(find_browser(), os.path.join(FOLDER, "profile"))
        cls.session = cls.browser.new_page("Page", "Runtime", "Log", "Network")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        end(cls.server)

    def open(self, url, scheme="light"):
        self.browser.call("Emulation.setDeviceMetricsOverride", self.session, width=1280, height=800, deviceScaleFactor=1, mobile=False)
        self.browser.call("Emulation.setEmulatedMedia", self.session, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.browser.events.clear()
        self.browser.call("Page.navigate", self.session, url=url)
        self.browser.wait_for("Page.loadEventFired")

    def click(self, selector):
        self.browser.events.clear()
        self.see(f"document.querySelector({json.dumps(selector)}).click() || 0")
        self.browser.wait_for("Page.loadEventFired")

    def see(self, script):
        return self.browser.evaluate(self.session, script)

    def keep(self, name):
        if KEEP:
            shot = self.browser.call("Page.captureScreenshot", self.session)
            with open(os.path.join(KEEP, name + ".png"), "wb") as file:
                file.write(base64.b64decode(shot["data"]))

    def no_errors(self):
        for event in self.browser.events:
            method, params = event.get("method"), event.get("params", {})
            self.assertNotIn(method, ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening"), params)
            if method == "Log.entryAdded":
                self.assertIn("favicon", json.dumps(params))
            if method == "Network.requestWillBeSent":
                self.assertTrue(params["request"]["url"].startswith((self.address, self.address.rsplit("/", 2)[0] + "/favicon", "about:")), params["request"]["url"])

    def rows(self):
        return self.see("[...document.querySelectorAll('tbody tr')].map(row => row.cells[1].textContent)")

    def test_the_list_sorts_and_opens_an_incident(self):
        for scheme in ("light", "dark"):
            self.open(self.address, scheme)
            self.keep(f"list.{scheme}")
            rows = self.rows()
            self.assertEqual([row[-15:] for row in rows], ["20260103-000000", "20260102-000000", "20260101-000000"])
            self.assertLessEqual(self.see("document.documentElement.scrollWidth"), 1280)
            self.no_errors()
        self.click("th:nth-child(2) a")
        self.assertTrue(self.rows()[0].startswith("</td><script>"), self.rows())
        self.no_errors()
        self.open(self.address)
        self.click("tbody tr a")
        rank = VERDICTS["lockstep-incident-train-20260103-000000"]["findings"][0]["culprit_ranks"][0]
        self.assertRegex(self.see("document.querySelector('h1').textContent"), rf"\brank {rank}\b")
        self.keep("incident")
        self.see("location.hash = '#view=ranks&rank=7'")
        self.no_errors()

    def test_a_report_opens_from_the_list(self):
        self.open(self.address)
        self.click("a[href$='report.html']")
        self.assertIn("HUNG", self.see("document.querySelector('h1').textContent"))
        self.keep("report")
        self.no_errors()

    def test_hostile_names_are_text(self):
        self.open(self.address)
        self.assertEqual(self.see("document.querySelectorAll('script, img, b').length"), 0)
        self.assertNotEqual(self.see("document.title"), "owned")
        page = self.see("[...document.querySelectorAll('tr')].find(row => row.textContent.includes('owned')).querySelector('a').href")
        self.open(page)
        self.assertEqual(self.see("document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.see("document.scripts.length"), 2)
        self.assertNotEqual(self.see("document.title"), "owned")
        self.no_errors()


def job_line(name, state, incident=None):
    line = {"job": {"job": name, "step": "", "restart_count": 0, "uid": 1000, "life": 0}, "state": state, "ranks": 63, "ranks_expected": 64,
            "since_real_ns": "1767398400000000000", "agents_silent": 1 if state == "hung" else 0, "calls_a_second": None if state == "moving" else 0.04,
            "communicators": [{"id": "7", "name": "tp_3", "age_ns": "5000000000", "doing": "AllReduce #41",
                               "missing": {"first": [3, 7], "last": [4, 7]}}]}
    if incident:
        finding = {"culprit_ranks": [3], "culprits": [{"rank": 3, "host": "<b>"}], "summary": "hangs"}
        line["last_incident"] = {"path": "/somewhere/" + incident, "verdict": {"verdict": "VERDICT_HUNG", "findings": [finding]}}
    return json.dumps(line)


class LiveTest(BrowserTest):
    """Running jobs, from a lockstep-top that the test writes."""

    @classmethod
    def setUpClass(cls):
        cls.programs = os.path.join(FOLDER, "programs")
        os.mkdir(cls.programs)
        program = shutil.copy(SERVE, cls.programs)
        cls.top('echo "no answer from $*" >&2; exit 1')
        cls.server = subprocess.Popen([program, "--live", "tcp://head:9470", ALL], stdout=subprocess.PIPE, text=True)
        cls.address = cls.server.stdout.readline().strip()
        cls.server.stdout.readline()
        cls.browser = Browser(find_browser(), os.path.join(FOLDER, "live-profile"))
        cls.session = cls.browser.new_page("Page", "Runtime", "Log", "Network")

    test_the_list_sorts_and_opens_an_incident = test_a_report_opens_from_the_list = test_hostile_names_are_text = None

    @classmethod
    def top(cls, script):
        path = os.path.join(cls.programs, "lockstep-top")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script + "\n")
        os.chmod(path + ".new", 0o700)
        os.rename(path + ".new", path)

    def jobs(self, *lines):
        with open(os.path.join(self.programs, "jobs"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        self.top('cat "$(dirname "$0")/jobs"')

    def open_live(self, text, scheme="light"):
        """Opens the page until it shows the text. The server keeps an answer
        for a second."""
        until = time.monotonic() + 30
        self.open(self.address + "live", scheme)
        while text not in self.see("document.body.textContent"):
            self.assertLess(time.monotonic(), until, text)
            time.sleep(0.1)
            self.open(self.address + "live", scheme)

    def test_running_jobs_are_shown_as_text(self):
        incident = "lockstep-incident-train-20260103-000000"
        self.jobs("no job", job_line(EVIL, "moving"), job_line("train", "hung", incident))
        self.open(self.address)
        self.click("h1 a")
        for scheme in ("light", "dark"):
            self.open_live("1 silent agent0.0tp_3", scheme)
            self.keep(f"live.{scheme}")
        rows = self.see("[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
        self.assertEqual(rows[0], ["train", "hung", "2026-01-03 00:00:00", "63 of 641 silent agent", "0.0",
                                   "tp_3 AllReduce #41, 5.0 swaits for ranks 3, 4, 7", "HUNGpossible cause: rank 3 (<b>, GPU 0): hangs"])
        self.assertTrue(rows[1][0].startswith("</td><script>"), rows[1])
        self.assertEqual(self.see("document.querySelectorAll('script, img, b').length"), 0)
        self.assertEqual(self.see("document.querySelector('meta[http-equiv=refresh]').content"), "3")
        self.no_errors()
        self.click("tbody a")
        self.assertIn("explore.html", self.see("location.href"))

    def test_a_silent_collector_is_reported(self):
        self.top('echo "no answer from $*" >&2; exit 1')
        self.open_live("No answer: no answer from --json --collector tcp://head:9470")


class LargeJobTest(BrowserTest):
    """The page of a job whose calls stay on the server."""

    @classmethod
    def setUpClass(cls):
        cls.large = os.path.join(FOLDER, "large")
        subprocess.run([SCALE_INDEX, "--out", cls.large, "--ranks", "2048", "--records", "200", "--depth", "100"], check=True)
        cls.server, cls.address, _ = start(cls.large)
        cls.browser = Browser(find_browser(), os.path.join(FOLDER, "large-profile"))
        cls.session = cls.browser.new_page("Page", "Runtime", "Log", "Network")
        with open(os.path.join(cls.large, "verdict.json"), encoding="utf-8") as file:
            cls.rank = json.load(file)["findings"][0]["culprit_ranks"][0]

    test_the_list_sorts_and_opens_an_incident = test_a_report_opens_from_the_list = test_hostile_names_are_text = None

    def see_soon(self, script):
        until = time.monotonic() + 60
        while not self.see(script):
            self.assertLess(time.monotonic(), until, script)
            time.sleep(0.05)

    def open_page(self, fragment, scheme="light"):
        self.open(self.address, scheme)
        page = self.see("document.querySelector('tbody a').href")
        self.open(page + "#" + fragment, scheme)

    # Counts the canvas's pixels in this color of the style sheet.
    COUNT = """(() => { const from = document.querySelector('main canvas'), c = document.createElement('canvas');
      c.width = from.width; c.height = from.height; c.getContext('2d').drawImage(from, 0, 0);
      const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, w = getComputedStyle(document.documentElement).getPropertyValue('--%s').match(/[0-9a-f]{2}/g).map(x => parseInt(x, 16));
      let n = 0; for (let i = 0; i < p.length; i += 4) n += p[i] === w[0] && p[i + 1] === w[1] && p[i + 2] === w[2]; return n; })()"""

    def test_the_answer_is_there_without_calls(self):
        self.open_page("")
        self.assertRegex(self.see("document.querySelector('h1').textContent"), rf"\brank {self.rank}\b")
        self.assertGreater(self.see(self.COUNT % "bad"), 100)
        self.keep("large")
        self.no_errors()

    def test_the_matrix_has_the_states_of_all_and_asks_for_calls(self):
        for scheme in ("light", "dark"):
            self.open_page("view=matrix", scheme)
            self.see_soon(self.COUNT % "completed" + " > 50000")
            self.assertGreater(self.see(self.COUNT % "missing"), 20)
            self.assertGreater(self.see(self.COUNT % "waiting"), 100)
            self.keep(f"large.matrix.{scheme}")
            self.see(f"location.hash = '#view=matrix&rank={self.rank}&op=5'")
            self.see_soon("document.querySelectorAll('aside table tr').length > 10")
            self.assertIn("completed", self.see("document.querySelector('aside table').textContent"))
            self.no_errors()

    def test_the_timeline_asks_for_the_ranks_in_sight(self):
        self.open_page("view=timeline")
        self.see_soon(self.COUNT % "waiting" + " > 1000")
        self.keep("large.timeline")
        asked = [event["params"]["request"]["url"] for event in self.browser.events if event.get("method") == "Network.requestWillBeSent"]
        asked = [url for url in asked if "calls.json" in url]
        self.assertGreater(len(asked), 0)
        self.assertLess(sum(url.count(",") + 1 for url in asked), 400)
        self.no_errors()

    def test_a_server_that_ended_is_reported(self):
        server, address, _ = start(self.large)
        self.open(address)
        page = self.see("document.querySelector('tbody a').href")
        self.open(page)
        end(server)
        self.see("location.hash = '#rank=3'")
        self.see_soon("document.querySelector('header').textContent.includes('lockstep serve does not answer')")


if __name__ == "__main__":
    del sys.argv[1:5]
    no_skip.main()
