#!/usr/bin/env python3
"""Measures `lockstep serve` in headless Chromium with an incident that `scale_index` wrote: the time to the first picture, and from an event to the frame
that shows the result. Prints a line for each group of interactions. Exit status 1: a value is at least twice its goal, which load of the machine does not
explain.

Usage: browser_speed.py LOCKSTEP_SERVE FOLDER_OF_THE_INCIDENT [results/viewer-speed.md]
With the third argument, replaces the table of that page from its marker on."""

import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../analyzer/testing"))
from headless_browser import Browser, find_browser  # noqa: E402

FIRST_MS, INTERACTION_MS = 1000, 50
MOST_S = 300
# Stores the time at which the first frame after the load is complete.
ON_LOAD = "addEventListener('load', () => requestAnimationFrame(() => setTimeout(() => { window.firstPicture = performance.now(); })))"
# Runs each step and returns the milliseconds until the next frame is complete.
MEASURE = """(async () => { const out = [], main = () => document.querySelector('main'), canvas = () => main().querySelector('canvas'),
  key = (k, at) => (at || document.body).dispatchEvent(new KeyboardEvent('keydown', {key: k, bubbles: true})),
  mouse = (type, x, y, more) => { const box = canvas().getBoundingClientRect();
    canvas().dispatchEvent(new (type === 'wheel' ? WheelEvent : type.startsWith('pointer') ? PointerEvent : MouseEvent)(type,
      {clientX: box.x + x * box.width, clientY: box.y + y * box.height, bubbles: true, cancelable: true, pointerId: 1, ...more})); },
  type = (selector, text) => { const box = document.querySelector(selector); box.value = text; box.dispatchEvent(new Event('input')); };
  HTMLCanvasElement.prototype.setPointerCapture = () => undefined;
  for (const step of [%s]) { const begin = performance.now(); step();
    await new Promise(done => requestAnimationFrame(() => setTimeout(done))); out.push(performance.now() - begin); }
  return out; })()"""

zooms = [f"() => mouse('wheel', {x}, {y}, {{deltaY: -100}})" for x, y in [(0.8, 0.5)] * 10 + [(0.3, 0.2)] * 5]
back = ["() => mouse('wheel', 0.5, 0.5, {deltaY: 100})"] * 10
moves = [f"() => key('{key}')" for key in ["ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"] * 4]
hovers = [f"() => mouse('mousemove', 0.{n}, 0.{n})" for n in range(2, 9)]
clicks = [f"() => {{ mouse('pointerdown', 0.{n}, 0.{n}); mouse('pointerup', 0.{n}, 0.{n}); }}" for n in range(2, 9)]
typing = ["9", "97", "971", "9713", "node016", "tp_1600", "#384236"]
GROUPS = {
    "views opened the first time": [f"() => key('{n}')" for n in range(1, 9)],
    "views opened again": [f"() => key('{n}')" for n in range(1, 9)] * 2,
    "matrix: zoom, move, all": ["() => key('2')"] + zooms + moves + back + moves + ["() => key('0')"],
    "matrix: pointer, clicks": hovers + clicks + ["() => key('Escape')"],
    "matrix: another lane": [f"() => {{ const s = document.querySelector('select'); s.value = '{n}'; s.dispatchEvent(new Event('change')); }}" for n in (-1, 1, 0, 2)],
    "timeline: zoom, move": ["() => key('4')"] + zooms + moves + back + moves,
    "ranks: sort, filter": ["() => key('6')"] + [f"() => main().querySelectorAll('th')[{n % 9}].click()" for n in range(18)]
                           + [f"() => type('.table input', '{text}')" for text in ("n", "no", "node01600", "waiting", "")],
    "search": [f"() => type('#search', '{text}')" for text in typing],
}


def share(values, part):
    return sorted(values)[int(part * (len(values) - 1))]


MARKER = "<!-- From here on written by tests/bench/view/browser_speed.py. -->\n"
rows = []


def write_results(path, load):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    date = time.strftime("%Y-%m-%d", time.gmtime())
    text = text[:text.index(MARKER) + len(MARKER)] + f"""
`lockstep serve` with the same incident in headless Chromium at 1600 x 900, on {date}, {os.cpu_count()} cores, load average {load[0]:.1f} before. Times are from an event to
the frame that shows it. Goals: the first picture within {FIRST_MS:,} ms, 95 of 100 interactions within {INTERACTION_MS} ms.

| what | median | 95 % |
| --- | --- | --- |
""" + "".join(f"| {what} | {median} | {most} |\n" for what, median, most in rows)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def line(what, value, goal):
    rows.append((what, f"{value:,.0f} ms" if goal == FIRST_MS else "", "" if goal == FIRST_MS else f"{value:,.1f} ms"))
    print(f"{what:<44} {value:8.1f} ms   goal {goal:5} ms   {'met' if value <= goal else 'MISSED'}", flush=True)
    return value > 2 * goal


def main(serve, folder, results=None):
    load = os.getloadavg()
    server = subprocess.Popen([serve, folder], stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().strip()
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(find_browser(), profile)
        try:
            session = browser.new_page("Page", "Runtime")

            def see(script):
                answer = browser.call("Runtime.evaluate", session, expression=script, returnByValue=True, awaitPromise=True, seconds=300)
                if "exceptionDetails" in answer:
                    raise RuntimeError(answer["exceptionDetails"])
                return answer["result"].get("value")

            browser.call("Emulation.setDeviceMetricsOverride", session, width=1600, height=900, deviceScaleFactor=1, mobile=False)
            browser.call("Page.addScriptToEvaluateOnNewDocument", session, source=ON_LOAD)

            def see_soon(script):
                end = time.monotonic() + MOST_S
                while not see(script):
                    if time.monotonic() > end:
                        raise TimeoutError(f"not within {MOST_S} s: {script}")
                    time.sleep(0.02)

            def goto(url):
                browser.events.clear()
                browser.call("Page.navigate", session, url=url)
                browser.wait_for("Page.loadEventFired")
                see_soon("window.firstPicture || 0")
                return see("window.firstPicture")

            goto(address)
            page = see("document.querySelector('tbody a').href")
            far = line("first picture, index just opened", goto(page), FIRST_MS)
            far |= line("first picture, again", goto(page), FIRST_MS)
            begin = time.monotonic()
            see_soon("performance.getEntriesByType('resource').filter(one => one.name.endsWith('grids.json') && one.responseEnd).length")
            states = (time.monotonic() - begin) * 1000
            print(f"{'states of all calls here, after the picture':<44} {states:8.1f} ms")
            rows.append(("states of all calls here, after the picture", f"{states:,.0f} ms", ""))
            every = []
            for what, steps in GROUPS.items():
                times = see(MEASURE % ",".join(steps))
                every += times
                rows.append((what, f"{share(times, 0.5):,.1f} ms", f"{share(times, 0.95):,.1f} ms"))
                print(f"{what:<44} {share(times, 0.5):8.1f} ms median {share(times, 0.95):8.1f} ms 95 % {max(times):8.1f} ms most, {len(times)} events", flush=True)
            far |= line(f"95 of 100 interactions ({len(every)} events)", share(every, 0.95), INTERACTION_MS)
            sizes = see("[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
                        ".reduce((sum, one) => [sum[0] + one.encodedBodySize, sum[1] + one.decodedBodySize], [0, 0])")
            print(f"{'bytes':<44} {sizes[0] / 1e6:8.2f} MB compressed, {sizes[1] / 1e6:.2f} MB")
            rows.append(("bytes sent", f"{sizes[0] / 1e6:.2f} MB compressed, {sizes[1] / 1e6:.2f} MB", ""))
            print(json.dumps({"load average": os.getloadavg()}))
            if results:
                write_results(results, load)
        finally:
            browser.close()
            server.terminate()
            server.wait()
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
