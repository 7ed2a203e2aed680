#!/usr/bin/env python3
"""The HTML report in headless Chromium: nothing wider than the screen, nothing loaded, nothing run, readable in light and dark.

Usage: report_html_browser_test.py REPORT_HTML_PAGES [FOLDER]; with FOLDER the screenshots stay there. Exit 77: no browser here."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")

# What must be on a page with something for every section.
RICH = {
    "header#culprit h1 .chip": 1, "header#culprit dd": 5, "#do li": 2, "#chain .node.culprit": 1, "#chain .node.victim": 2,
    "#chain .arrow svg": 2, "#sequences .seq.named": 1, "#sequences .s-f": 1, "#sequences .s-n": 1, "#sequences .s-o": 1,
    "#sequences .s-q": 1, "#sequences .s-x": 1, "#ranks svg rect.culprit": 1, "#ranks svg rect.nodata": 2, "#ranks svg rect.victim": 4,
    "#stacks details.tree": 2, "#stacks .leaf.named": 1, "#evidence li": 1, "#doubts dd": 3, "#calls li": 10, "#others details": 1,
    "#bandwidth .meter": 8, "#bandwidth .meter.none": 1, "#bandwidth .meter i.low": 1, "#arrivals .meter": 5, "#clocks .meter u": 4,
    "#startup .meter": 5, "#data dd": 2, "#states li": 2,
}

# Elements that reach beyond the screen, colours too close to what is behind them, and what should not be there.
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


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """Chromium driven through its debugging pipe: NUL-ended JSON on descriptors 3 (to it) and 4 (from it)."""

    def __init__(self, path, profile):
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()
        # The pipe's ends move out of the way first: one of them may be 3 or 4 itself.
        high_in, high_out = os.dup(to_read), os.dup(from_write)
        command = (f'exec 3<&{high_in} 4>&{high_out}; exec "$0" --headless=new --no-sandbox --disable-gpu --hide-scrollbars '
                   f'--no-first-run --disable-dev-shm-usage --user-data-dir="{profile}" --remote-debugging-pipe about:blank')
        self.process = subprocess.Popen(["bash", "-c", command, path], pass_fds=(high_in, high_out), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for descriptor in (to_read, from_write, high_in, high_out):
            os.close(descriptor)
        self.buffer, self.number, self.events = b"", 0, []

    def receive(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.source], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.source, 1 << 20)
            if not data:
                raise ConnectionError("the browser ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, seconds=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + seconds
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method, seconds=60):
        until = time.monotonic() + seconds
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive(until))

    def close(self):
        try:
            self.call("Browser.close", seconds=10)
        except (RuntimeError, OSError, TimeoutError):
            pass
        os.close(self.to)
        os.close(self.source)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def look_at(browser, session, path, width, scheme, keep):
    faults = []
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=800, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Page.navigate", session, url="file://" + path)
    browser.wait_for("Page.loadEventFired")
    seen = json.loads(browser.call("Runtime.evaluate", session, expression=LOOK, returnByValue=True)["result"]["value"])
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
    if name == "rich.html":
        for selector, least in RICH.items():
            count = browser.call("Runtime.evaluate", session, returnByValue=True,
                                 expression=f"document.querySelectorAll({json.dumps(selector)}).length")["result"]["value"]
            if count < least:
                faults.append(f"{selector}: {count}, at least {least} expected")
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
    if keep:
        height = min(seen["height"], 6000)
        shot = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(os.path.join(keep, f"{name}.{width}.{scheme}.png"), "wb") as file:
            file.write(base64.b64decode(shot["data"]))
    return [f"{name} at {width}, {scheme}: {fault}" for fault in faults]


def main():
    pages, keep = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    path = find_browser()
    if path is None:
        print("skipped: no Chromium on this machine")
        return 77
    folder = tempfile.mkdtemp(prefix="lockstep-html-test-")
    faults = []
    try:
        subprocess.run([pages, folder], check=True)
        browser = Browser(path, os.path.join(folder, "profile"))
        try:
            try:
                browser.call("Browser.getVersion")
            except (OSError, TimeoutError) as error:
                print(f"skipped: {path} does not start here ({error})")
                return 77
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                browser.call(domain + ".enable", session)
            names = sorted(name for name in os.listdir(folder) if name.endswith(".html"))
            for name in names:
                for width in WIDTHS:
                    for scheme in SCHEMES:
                        faults += look_at(browser, session, os.path.join(folder, name), width, scheme, keep)
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
