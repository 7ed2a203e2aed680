#!/usr/bin/env python3
"""Tests the HTML report in headless Chromium, with sample jobs that fill every section and with jobs of the corpus. The page fits the screen, loads
and runs nothing, is readable in light and dark, and has every picture and the words of the text report.

Usage: browser_test.py REPORT_HTML_PAGES LOCKSTEP_CORPUS LOCKSTEP_ANALYZE [FOLDER]
With FOLDER the screenshots stay there. Exit 77: no browser here."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testing"))
from headless_browser import Browser, find_browser, give_up_after  # noqa: E402

WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")

# What a page must show if every section has content: the selector and the minimum count.
RICH = {
    "header#culprit h1 .chip": 1, "header#culprit dd": 5, "#do li": 2, "#chain .node.culprit": 1, "#chain .node.victim": 2,
    "#chain .arrow svg": 2, "#sequences .seq.named": 1, "#sequences .s-f": 1, "#sequences .s-n": 1, "#sequences .s-o": 1,
    "#sequences .s-q": 1, "#sequences .s-x": 1, "#ranks svg rect.culprit": 1, "#ranks svg rect.nodata": 2, "#ranks svg rect.victim": 4,
    "#stacks details.tree": 2, "#stacks .leaf.named": 1, "#evidence li": 1, "#doubts dd": 3, "#calls li": 10, "#others details": 1,
    "#bandwidth .meter": 8, "#bandwidth .meter.none": 1, "#bandwidth .meter i.low": 1, "#arrivals .meter": 5, "#clocks .meter u": 4,
    "#startup .meter": 11, "#startup .meter.none": 1, "#startup .meter u": 5, "#data dd": 2, "#states li": 2,
}

HUNG = {"header#culprit h1 .chip": 1, "#do li": 1, "#chain .node.culprit": 1, "#chain .node.victim": 1, "#chain .arrow svg": 1,
        "#sequences .seq.named": 1, "#ranks svg rect.culprit": 1, "#ranks svg rect.victim": 1, "#evidence li": 1, "#data dd": 2}
STACKS = {"#stacks details.tree": 1, "#stacks .leaf.named": 1}
# Jobs from the corpus: arguments of lockstep-corpus generate, and what the page must show.
JOBS = {
    "hang": ("--scenario 21 --ranks 64 --seed 21021 --marks full", {**HUNG, **STACKS}),
    "large_hang": ("--scenario 7 --ranks 1024 --seed 21007 --marks full", {**HUNG, **STACKS}),
    "flight_recorder_hang": ("--scenario 1 --ranks 64 --seed 21001 --format fr", HUNG),
    # All ranks are inside, at the same place, so no rank waits for another.
    "mismatch": ("--scenario 3 --ranks 64 --seed 21003 --marks full",
                 {"header#culprit h1 .chip": 1, "#do li": 1, "#sequences .seq.named": 1, "#sequences .s-m": 1, "#ranks svg rect.culprit": 1,
                  "#evidence li": 1, "#stacks .leaf .set": 1}),
    "slow": ("--scenario 33 --ranks 64 --seed 21033 --marks timed",
             {"#do li": 1, "#ranks svg rect.culprit": 1, "#evidence li": 1, "#bandwidth .meter i": 2, "#arrivals .meter i": 1}),
    "slow_link": ("--scenario 34 --ranks 64 --seed 21034 --marks timed", {"#bandwidth .meter i": 2, "#bandwidth .meter i.low": 1}),
    "start": ("--scenario 28 --ranks 64 --seed 21028 --marks full",
              {"header#culprit h1 .chip": 1, "#do li": 1, "#ranks svg rect.culprit": 1, "#startup .meter i": 1, "#startup .meter i.low": 1, **STACKS}),
    "crash": ("--scenario 14 --ranks 64 --seed 21014 --marks full", HUNG),
    "healthy_job": ("--scenario 36 --ranks 64 --seed 21036 --marks timed", {"header.ok h1 .chip.ok": 1, "#bandwidth .meter i": 2, "#data dd": 2}),
}

# Elements that reach beyond the screen, colors with too little contrast, and elements that must not exist.
LOOK = r"""
(() => {
  const width = document.documentElement.clientWidth, wide = [], faint = [];
  const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                       return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  for (const e of document.querySelectorAll('body *')) {
    const box = e.getBoundingClientRect();
    if (box.width > 0 && (box.right > width + 1 || box.left < -1)) wide.push(e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + Math.round(box.right));
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || box.width === 0 || e.closest('svg') || e.closest('.s')) continue;
    let back = [255, 255, 255], p = e;
    for (; p; p = p.parentElement) { const c = parse(getComputedStyle(p).backgroundColor); if (c.length < 4 || c[3] === 1) { back = c.slice(0, 3); break; } }
    const text = parse(getComputedStyle(e).color).slice(0, 3), a = light(text), b = light(back);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + contrast.toFixed(1));
  }
  return JSON.stringify({
    scroll: document.documentElement.scrollWidth, width, wide: wide.slice(0, 5), faint: faint.slice(0, 5),
    scripts: document.querySelectorAll('script,iframe,object,embed,img,base,form').length,
    handlers: [...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
    outside: [...document.querySelectorAll('[src],[href]')].filter(e => !/^(data:|#)/.test(e.getAttribute('src') || e.getAttribute('href'))).length,
    height: document.documentElement.scrollHeight,
  });
})()
"""

# Counts visible elements after unfolding all parts. Elements without a size are not visible.
COUNT = """
(() => {
  for (const e of document.querySelectorAll('details')) e.open = true;
  const count = {};
  for (const s of %s) count[s] = [...document.querySelectorAll(s)].filter(e => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; }).length;
  return count;
})()
"""

WORDS = """
({head: document.querySelector('h1').textContent, lines: [...document.querySelectorAll('header dd p, #doubts dd p, #data dd p')].map(e => e.textContent),
  do: [...document.querySelectorAll('#do li')].map(e => e.textContent), all: document.body.textContent})
"""


def bare(text):
    """Removes white space: the text report has line breaks, the page has none."""
    return "".join(text.split())


def generate(corpus, analyze, folder):
    """Writes pages of corpus jobs. Returns {file name: (what it must show, text report, JSON report)}."""
    made = {}
    for name, (arguments, shows) in JOBS.items():
        job = os.path.join(folder, name)
        subprocess.run([corpus, "generate", *arguments.split(), "--out", job], check=True, stdout=subprocess.DEVNULL)
        data = os.path.join(job, "data")
        subprocess.run([analyze, "--format", "html", "--output", os.path.join(folder, name + ".html"), data], check=False)
        said = [subprocess.run([analyze, "--full", "--format", form, data], capture_output=True, check=False).stdout.decode() for form in ("text", "json")]
        made[name + ".html"] = (shows, said[0], json.loads(said[1]))
        shutil.rmtree(job)
    return made


def compare(words, text, verdict):
    """Compares the page with the text and JSON reports."""
    faults = []
    text = bare(text)
    if not text.startswith(bare(words["head"])):
        faults.append(f"headline {words['head']!r}, in the text report {text[:200]!r}")
    for line in words["lines"]:
        if bare(line) not in text:
            faults.append(f"{line!r} is not in the text report")
    page = bare(words["all"])
    if not words["head"].startswith(verdict["verdict"]):
        faults.append(f"verdict {verdict['verdict']} is not what the headline begins with")
    for finding in verdict.get("findings", [])[:1]:
        for what in (finding["summary"], *(each["text"] for each in finding.get("evidence", [])[:10])):
            # The page truncates long texts.
            if bare(what)[:300] not in page:
                faults.append(f"{what!r} of the JSON report is not on the page")
        if not words["do"]:
            faults.append("a finding without what to do")
    return faults


def look_at(browser, session, path, width, scheme, shows, said, keep):
    faults = []
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=800, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Page.navigate", session, url="file://" + path)
    browser.wait_for("Page.loadEventFired")
    seen = json.loads(browser.evaluate(session, LOOK))
    name = os.path.basename(path)
    if seen["width"] != width:
        faults.append(f"laid out {seen['width']} wide, not {width}")
    if seen["scroll"] > width or seen["wide"]:
        faults.append(f"wider than the screen: {seen['scroll']} {seen['wide']}")
    if seen["faint"]:
        faults.append(f"hard to read: {seen['faint']}")
    for what in ("scripts", "handlers", "outside"):
        if seen[what]:
            faults.append(f"{what}: {seen[what]}")
    if keep:
        height = min(seen["height"], 6000)
        shot = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(os.path.join(keep, f"{name}.{width}.{scheme}.png"), "wb") as file:
            file.write(base64.b64decode(shot["data"]))
    for selector, count in browser.evaluate(session, COUNT % json.dumps(list(shows))).items():
        if count < shows[selector]:
            faults.append(f"{selector}: {count}, at least {shows[selector]} expected")
    unfolded = json.loads(browser.evaluate(session, LOOK))
    if unfolded["scroll"] > width or unfolded["wide"]:
        faults.append(f"unfolded, wider than the screen: {unfolded['scroll']} {unfolded['wide']}")
    if said:
        faults += compare(browser.evaluate(session, WORDS), *said)
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file://" + path, "data:")):
            faults.append("asks for " + params["request"]["url"])
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            faults.append("console: " + params["entry"]["text"])
        if method in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            faults.append(method)
        if method == "Runtime.consoleAPICalled":
            faults.append("console." + params["type"])
    return [f"{name} at {width}, {scheme}: {fault}" for fault in faults]


def skip(why):
    """Returns the exit status. LOCKSTEP_NO_SKIP names the tests that must not be skipped."""
    if "report_html_browser_test" in os.environ.get("LOCKSTEP_NO_SKIP", "").split(","):
        print(f"skipped ({why}), which LOCKSTEP_NO_SKIP forbids")
        return 1
    print(f"skipped: {why}")
    return 77


def main():
    pages, corpus, analyze = sys.argv[1:4]
    keep = sys.argv[4] if len(sys.argv) > 4 else None
    path = find_browser()
    if path is None:
        return skip("no Chromium on this machine")
    give_up_after(580)
    folder = tempfile.mkdtemp(prefix="lockstep-html-test-")
    faults = []
    try:
        subprocess.run([pages, folder], check=True)
        made = {"rich.html": (RICH, None, None), **generate(corpus, analyze, folder)}
        browser = Browser(path, os.path.join(folder, "profile"))
        try:
            try:
                browser.call("Browser.getVersion")
            except (OSError, TimeoutError) as error:
                return skip(f"{path} does not start here ({error})")
            session = browser.new_page("Page", "Runtime", "Log", "Network")
            names = sorted(name for name in os.listdir(folder) if name.endswith(".html"))
            assert set(made) <= set(names), "a report was not written"
            for name in names:
                shows, *said = made.get(name, ({}, None, None))
                for width in WIDTHS:
                    for scheme in SCHEMES:
                        faults += look_at(browser, session, os.path.join(folder, name), width, scheme, shows, said if said[0] else None, keep)
        finally:
            browser.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for fault in faults:
        print(fault)
    print(f"{len(names)} pages, {len(names) * len(WIDTHS) * len(SCHEMES)} views, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
