#!/usr/bin/env python3
"""Tests explore.html of jobs of the corpus: what the file allows, and its size. In headless Chromium, the page must show the culprit at once. Deep
links, search and keys must work without errors, and no name from the job may run as code or markup.

Usage: page_test.py LOCKSTEP_CORPUS LOCKSTEP_ANALYZE [UNITTEST ARGUMENTS]
With EXPLORE_KEEP=FOLDER the pages and screenshots stay there."""

import base64
import glob
import hashlib
import json
import os
import pickle
import re
import shutil
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

CORPUS, ANALYZE = sys.argv[1:3]
MB = 1_000_000
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&\u202eknar"
# Arguments of lockstep-corpus generate, and the maximum page size in bytes.
JOBS = {
    "small": ("--scenario 7 --ranks 8 --seed 21007 --marks full", MB),
    "mismatch": ("--scenario 3 --ranks 64 --seed 21003 --marks full", MB),
    "sends": ("--scenario 21 --ranks 64 --seed 21021 --marks full", MB),
    "large": ("--scenario 7 --ranks 1024 --seed 21007 --marks full", 5 * MB),
    "flight_recorder": ("--scenario 1 --ranks 8 --seed 3 --format fr", MB),
    "hostile": ("--scenario 1 --ranks 8 --seed 3 --format fr", MB),
    "speed": ("--scenario 33 --ranks 64 --seed 21033 --marks timed", MB),
    "checkpoint": ("--scenario 8 --ranks 8 --seed 21008 --marks full", MB),
    "healthy": ("--scenario 36 --ranks 8 --seed 21036 --marks timed", MB),
}
FOLDER = os.environ.get("EXPLORE_KEEP") or tempfile.mkdtemp(prefix="lockstep-explore-test-")


def make_hostile(data):
    """Puts markup and scripts into the group and frame names of Flight Recorder dumps."""
    def changed(value):
        if isinstance(value, dict):
            return {key: EVIL if key in ("name", "desc") and isinstance(each, str) and each else changed(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(changed(each) for each in value)
        return value
    for path in glob.glob(os.path.join(data, "*")):
        with open(path, "rb") as file:
            dump = pickle.load(file)
        with open(path, "wb") as file:
            pickle.dump(changed(dump), file)


def setUpModule():
    give_up_after(280)
    for name, (arguments, _) in JOBS.items():
        job = os.path.join(FOLDER, name)
        subprocess.run([CORPUS, "generate", *arguments.split(), "--out", job], check=True, stdout=subprocess.DEVNULL)
        data = os.path.join(job, "data")
        if name == "hostile":
            make_hostile(data)
        done = subprocess.run([ANALYZE, "--line-rate", "400", "--format", "explore", "--output", job + ".html", data], capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        with open(job + ".json", "wb") as out:
            subprocess.run([ANALYZE, "--line-rate", "400", "--format", "json", data], stdout=out, check=False)
        shutil.rmtree(job)


def tearDownModule():
    if not os.environ.get("EXPLORE_KEEP"):
        shutil.rmtree(FOLDER, ignore_errors=True)


def page(name):
    with open(os.path.join(FOLDER, name + ".html"), encoding="utf-8", newline="") as file:
        return file.read()


def verdict(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def culprits(name):
    return verdict(name)["findings"][0]["culprit_ranks"]


class FileTest(unittest.TestCase):
    def test_only_its_own_script_and_style_are_allowed_by_hash(self):
        for name in JOBS:
            text = page(name)
            policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
            style = re.findall(r"<style>(.*?)</style>", text, re.S)
            script = re.findall(r"<script>(.*?)</script>", text, re.S)
            self.assertEqual((len(style), len(script)), (1, 1), name)
            hashed = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (script[0], style[0])]
            self.assertEqual(policy, f"default-src 'none'; script-src 'sha256-{hashed[0]}'; style-src 'sha256-{hashed[1]}'; "
                                     "base-uri 'none'; form-action 'none'")

    def test_a_page_is_small(self):
        for name, (_, most) in JOBS.items():
            self.assertLess(len(page(name).encode()), most, name)

    def test_names_from_files_are_data_without_markup(self):
        text = page("hostile")
        data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1)
        self.assertNotIn("<", data)
        self.assertIn("owned", data)  # the names are there
        self.assertNotIn("\u202e", json.dumps(json.loads(data), ensure_ascii=False))
        self.assertNotIn("owned", text.replace(data, ""))


@unittest.skipIf(find_browser() is None, "no Chromium on this machine")
class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_browser(), os.path.join(FOLDER, "profile"))
        cls.session = cls.browser.new_page("Page", "Runtime", "Log", "Network")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def open(self, name, fragment="", scheme="light", width=1280):
        self.browser.call("Emulation.setDeviceMetricsOverride", self.session, width=width, height=800, deviceScaleFactor=1, mobile=False)
        self.browser.call("Emulation.setEmulatedMedia", self.session, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.path = os.path.join(FOLDER, name + ".html")
        for url in ("about:blank", f"file://{self.path}#{fragment}"):  # a new fragment alone would not reload the page
            self.browser.events.clear()
            self.browser.call("Page.navigate", self.session, url=url)
            self.browser.wait_for("Page.loadEventFired")

    def see(self, script):
        return self.browser.evaluate(self.session, script)

    def press(self, key):
        self.see(f"(document.activeElement || document.body).dispatchEvent(new KeyboardEvent('keydown', {{key: {json.dumps(key)}, bubbles: true}}))")

    def keep(self, name):
        if os.environ.get("EXPLORE_KEEP"):
            shot = self.browser.call("Page.captureScreenshot", self.session)
            with open(os.path.join(FOLDER, name + ".png"), "wb") as file:
                file.write(base64.b64decode(shot["data"]))

    def no_errors(self):
        for event in self.browser.events:
            method, params = event.get("method"), event.get("params", {})
            self.assertNotIn(method, ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening"), params)
            if method == "Network.requestWillBeSent":
                self.assertTrue(params["request"]["url"].startswith(("file://" + self.path, "about:")), params["request"]["url"])

    # Counts the pixels in the color of faults.
    MARKS = """(() => { const c = document.querySelector('.focus canvas'), p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      const bad = getComputedStyle(document.documentElement).getPropertyValue('--bad').match(/[0-9a-f]{2}/g).map(x => parseInt(x, 16));
      let n = 0; for (let i = 0; i < p.length; i += 4) n += p[i] === bad[0] && p[i + 1] === bad[1] && p[i + 2] === bad[2]; return n; })()"""

    def test_the_first_view_shows_the_culprit(self):
        for name in ("small", "mismatch", "sends", "large", "flight_recorder"):
            for scheme in ("light", "dark"):
                with self.subTest(name=name, scheme=scheme):
                    self.open(name, scheme=scheme)
                    self.keep(f"{name}.{scheme}")
                    rank = culprits(name)[0]
                    self.assertRegex(self.see("document.querySelector('h1').textContent"), rf"\brank {rank}\b")
                    self.assertGreater(self.see(self.MARKS), 100)
                    self.assertIn(f"Stack of rank {rank}", self.see("document.querySelector('main').textContent"))
                    self.assertLess(self.see("document.querySelector('.focus canvas').getBoundingClientRect().bottom"), 800)
                    self.no_errors()

    def test_call_sites_of_both_sides_are_on_the_first_view(self):
        self.open("flight_recorder")
        self.assertGreaterEqual(self.see("document.querySelectorAll('.sites p').length"), 2)
        self.assertEqual(self.see("document.querySelectorAll('.sites p.bad').length"), 1)

    def test_every_view_draws_without_errors(self):
        for name in JOBS:
            self.open(name)
            for key in "123456789":
                self.press(key)
                self.assertGreater(self.see("document.querySelector('main').getBoundingClientRect().height"), 300)
                self.assertLessEqual(self.see("document.documentElement.scrollWidth"), 1280)
                self.keep(f"{name}.view{key}")
            self.no_errors()

    def test_deep_links(self):
        rank = culprits("large")[0]
        self.open("large", f"rank={rank}&op=22")
        self.assertEqual(self.see("document.querySelector('.tab[aria-current=true]').firstChild.data"), "Matrix")
        self.assertEqual(self.see("document.querySelector('aside h2').textContent"), f"Rank {rank}")
        self.assertIn("#22", self.see("document.querySelector('aside tr.chosen').textContent"))
        self.see("location.hash = '#view=ranks&rank=7'")
        until = time.monotonic() + 20
        while self.see("document.querySelector('.tab[aria-current=true]').firstChild.data") != "Ranks":
            self.assertLess(time.monotonic(), until, "the page does not follow its address")
        self.open("large", "view=nonsense&rank=99999999&comm=%3Cb%3E&op=-3")
        self.assertEqual(self.see("document.querySelector('.tab[aria-current=true]').firstChild.data"), "Answer")
        self.no_errors()

    def test_speed_is_a_share_of_what_is_possible(self):
        self.open("speed", "view=speed")
        speeds = verdict("speed")["speeds"]
        known = [speed for speed in speeds if speed["roofline_bus_bytes_per_s"] > 0]
        self.assertGreater(len(known), 0)
        text = self.see("document.querySelector('main').textContent")
        self.assertIn("line rate 400 Gbit/s", text)
        first = known[0]
        self.assertIn(f"{100 * first['bus_bytes_per_s'] / first['roofline_bus_bytes_per_s']:.0f} %", text)
        # A click on a row shows the hosts of its communicators.
        chosen = next(speed for speed in speeds if speed["hosts_measured"] > 1)
        self.see(f"[...document.querySelectorAll('.speed tbody tr')].find(row => row.children[0].textContent === {json.dumps(chosen['operation'])} && "
                 f"row.children[2].textContent === '{chosen['ranks']}' && row.children[5].textContent === '{chosen['operations']}').click()")
        self.keep("speed.hosts")
        self.assertIn(f"{chosen['hosts_measured']} hosts, slowest first", self.see("document.querySelectorAll('.speed h2')[1].textContent"))
        self.assertGreater(self.see("""(() => { const c = document.querySelectorAll('.speed canvas')[1], p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
          let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 0; return n; })()"""), 1000)
        self.open(next(name for name in JOBS if not verdict(name)["speeds"]), "view=speed")
        self.assertIn("Not measured", self.see("document.querySelector('main').textContent"))
        self.no_errors()

    def test_the_start_shows_phases_over_ranks(self):
        self.open("speed", "view=start")
        self.keep("speed.start")
        self.assertIn("Phases by rank: 64 ranks", self.see("document.querySelector('.start h2').textContent"))
        legend = self.see("[...document.querySelectorAll('.start .legend > span')].map(key => key.textContent.split(':')[0])")
        self.assertEqual(legend, ["before the first creation", "waiting for other ranks", "creating communicators", "splitting communicators",
                                  "between creations", "first operations"])
        self.assertIn("before s", self.see("[...document.querySelectorAll('.start th')].map(cell => cell.textContent)"))
        self.see("document.querySelector('.start tbody tr').click()")
        rank = self.see("Number(document.querySelector('.start tr.chosen td').textContent)")
        self.assertEqual(self.see("document.querySelector('aside h2').textContent"), f"Rank {rank}")
        self.open("flight_recorder", "view=start")
        self.assertIn("Not recorded", self.see("document.querySelector('main').textContent"))
        self.no_errors()

    def test_the_report_has_the_mount_of_a_checkpoint(self):
        mount = verdict("checkpoint")["checkpoint"][0]
        self.assertEqual((mount["mount"], mount["slowest_bytes_per_s"]), ("/checkpoints (nfs4)", 0))
        self.open("checkpoint", "view=report")
        self.assertIn("in a checkpoint on /checkpoints (nfs4) for ", self.see("document.querySelector('main').textContent"))
        self.assertIn("8 of 8 ranks read", self.see("document.querySelector('header').textContent"))
        self.no_errors()

    def search(self, text):
        self.press("/")
        self.see(f"(() => {{ const box = document.querySelector('#search'); box.value = {json.dumps(text)}; return box.dispatchEvent(new Event('input')); }})()")
        return self.see("[...document.querySelectorAll('.hit')].map(hit => hit.textContent)")

    def test_search(self):
        self.open("large")
        self.assertIn("rank 283,", self.search("283")[0])
        self.press("Enter")
        self.assertEqual(self.see("location.hash"), "#rank=283")
        self.assertTrue(any(hit.startswith("communicator") for hit in self.search("world")))
        self.assertTrue(any(hit.startswith("frame") for hit in self.search("train_step")))
        self.assertTrue(any("#5 on" in hit for hit in self.search("#5")))
        self.assertEqual(self.search("no such thing"), ["nothing found"])
        self.no_errors()

    def test_keys(self):
        self.open("small")
        self.press("?")
        self.assertFalse(self.see("document.querySelector('.help').hidden"))
        self.press("Escape")
        self.assertTrue(self.see("document.querySelector('.help').hidden"))
        self.press("w")
        self.assertEqual(self.see("location.hash"), "#view=matrix")
        back = "getComputedStyle(document.body).backgroundColor"
        light = self.see(back)
        self.press("t")
        self.assertNotEqual(self.see(back), light)
        self.press("c")
        self.assertEqual(self.see("document.querySelector('aside h2').textContent"), f"Rank {culprits('small')[0]}")

    def test_tables_sort_and_filter(self):
        self.open("large", "view=ranks")
        self.see("(() => { const box = document.querySelector('.table input'); box.value = 'gpu031'; return box.dispatchEvent(new Event('input')); })()")
        self.assertEqual(self.see("document.querySelectorAll('tbody tr').length"), 8)
        self.see("document.querySelector('th').click() || 0")
        ranks = self.see("[...document.querySelectorAll('.table tbody tr:not(.bad) td:first-child')].map(cell => Number(cell.textContent))")
        self.assertEqual(ranks, sorted(ranks, reverse=True))

    def test_hostile_names_are_text(self):
        self.open("hostile")
        for key in "123456789":
            self.press(key)
            self.assertEqual(self.see("document.querySelectorAll('img, iframe, object, base').length"), 0)
        self.assertEqual(self.see("document.scripts.length"), 2)
        self.assertNotEqual(self.see("document.title"), "owned")
        self.press("7")
        self.assertIn("</script>", self.see("document.querySelector('main').textContent"))
        self.assertTrue(self.search("onerror"))
        self.no_errors()


if __name__ == "__main__":
    del sys.argv[1:3]
    no_skip.main()
