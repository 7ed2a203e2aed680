"""Writes the results as a Markdown table and as one static page with pictures."""

import collections
import html as escaping

import scoring

COLOURS = {"right": "#2c7a4b", "set": "#7fb77e", "part": "#a9b86b", "open": "#b9c7c9", "wide": "#d8d3a5", "silent": "#c9a66b", "wrong": "#c0392b",
           "false alarm": "#8e2a7c", "no answer": "#555555"}
STYLE = ("body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse}"
         "td,th{border-bottom:1px solid #ccc;padding:.2em .7em;text-align:right}td:first-child,th:first-child{text-align:left}"
         "svg{display:block;margin:1em 0}")


def _readers(results):
    return list(dict.fromkeys(result["reader"] for result in results))


def _median(values):
    return sorted(values)[len(values) // 2] if values else 0


def summary(results):
    """Returns the header and rows of: reader, cases, count of each grade, percent good, median seconds, peak MiB."""
    rows = []
    for reader in _readers(results):
        own = [result for result in results if result["reader"] == reader]
        count = collections.Counter(result["grade"] for result in own)
        rows.append([reader, len(own)] + [count[grade] for grade in scoring.GRADES] +
                    ["%.1f" % scoring.share([result["grade"] for result in own], scoring.GOOD),
                     "%.2f" % _median([result["seconds"] for result in own]), max(result["mebibytes"] for result in own)])
    return ["reader", "cases", *scoring.GRADES, "good, %", "median s", "most MiB"], rows


def by(results, key):
    """Returns the column names, and a row for each value of the truth's `key`: good / all cases of each reader."""
    names = _readers(results)
    rows = []
    for value in sorted({str(result["truth"][key]) for result in results}):
        row = [value]
        for reader in names:
            own = [result["grade"] for result in results if result["reader"] == reader and str(result["truth"][key]) == value]
            row.append("%d / %d" % (sum(grade in scoring.GOOD for grade in own), len(own)) if own else "-")
        rows.append(row)
    return [key, *names], rows


def calibration(results):
    rows = []
    for reader in _readers(results):
        own = [(result["grade"], result["sure"]) for result in results if result["reader"] == reader]
        rows += [[reader, "%.2f-%.2f" % (low, high), count, "%.0f" % right] for low, high, count, right in scoring.bands(own)]
    return ["reader", "stated", "findings", "held the culprit, %"], rows


def tables(results):
    yield "All cases", summary(results)
    for key in ("fault", "form", "family"):
        yield "Good answers by " + key, by(results, key)
    yield "Stated confidence", calibration(results)


def _about(about):
    yield "Seed: %s. Cases asked for: %s. Digest of all files: %s." % (about["seed"], about["count"], about["digest"])
    yield "Versions: %s." % "; ".join("%s %s" % (name, version) for name, version in about["versions"].items())
    for name, why in about["missing"].items():
        yield "%s: %s." % (name, why)


GRADES_TEXT = " ".join(scoring.grade.__doc__.split())


def markdown(results, about):
    lines = ["# HangBench", "", "Printed by `./dev hangbench`. " + GRADES_TEXT + " Good: right, set or open.", ""]
    lines += [line + "\n" for line in _about(about)]
    for title, (head, rows) in tables(results):
        lines += ["## " + title, "", "| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
        lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _bars(results):
    """Draws one bar per reader, with the share of each grade."""
    names, width, height = _readers(results), 640, 26
    parts = ['<svg role="img" aria-label="Shares of the grades for each reader" width="860" height="%d">' % ((height + 10) * len(names) + 30)]
    for row, reader in enumerate(names):
        own = [result["grade"] for result in results if result["reader"] == reader]
        y, x = row * (height + 10), 150.0
        parts.append('<text x="0" y="%d" font-size="15">%s</text>' % (y + 18, escaping.escape(reader)))
        for grade in COLOURS:
            part = width * own.count(grade) / len(own)
            if part:
                parts.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %d of %d</title></rect>' %
                             (x, y, part, height, COLOURS[grade], grade, own.count(grade), len(own)))
            x += part
    y, x = (height + 10) * len(names) + 8, 150
    for grade, colour in COLOURS.items():
        parts.append('<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d" font-size="13">%s</text>' %
                     (x, y, colour, x + 16, y + 11, grade))
        x += 34 + 7 * len(grade)
    return "".join(parts) + "</svg>"


def html(results, about):
    body = ["<h1>HangBench</h1><p>Which program names the rank that hangs a training job? %s Good: right, set or open.</p>" %
            escaping.escape(GRADES_TEXT)]
    body += ["<p>%s</p>" % escaping.escape(line) for line in _about(about)] + [_bars(results)]
    for title, (head, rows) in tables(results):
        cells = lambda tag, row: "".join("<%s>%s</%s>" % (tag, escaping.escape(str(cell)), tag) for cell in row)
        body.append("<h2>%s</h2><table><tr>%s</tr>%s</table>" % (escaping.escape(title), cells("th", head),
                                                                "".join("<tr>%s</tr>" % cells("td", row) for row in rows)))
    return ('<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            'style-src \'unsafe-inline\'"><title>HangBench</title><style>%s</style>%s</html>\n' % (STYLE, "\n".join(body)))
