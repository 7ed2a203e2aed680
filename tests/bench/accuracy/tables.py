"""The printed result of a run: Markdown that docs/accuracy.md holds as it is."""

import scoring

WORDS = {"right": "ok", "kind": "kind", "set": "set", "wide": "wide", "missed": "none", "partial": "part", "blame": "BLAME", "error": "ERROR"}
# Of several cases behind one cell the worst is shown.
ORDER = ["error", "blame", "missed", "partial", "kind", "wide", "set", "right"]
FORMATS = {"lsd": "own dumps", "fr": "Flight Recorder dumps", "run": "real processes (trainsim under lockstep run)"}


def table(header, rows, left=1):
    """A Markdown table with columns as wide as their widest cell; the first `left` columns are aligned left."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    def line(row):
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
    rule = "| " + " | ".join("-" * width if i < left else "-" * max(1, width - 1) + ":" for i, width in enumerate(widths)) + " |"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def cell(results):
    if not results:
        return ""
    word = WORDS[min((result["outcome"] for result in results), key=ORDER.index)]
    if any(result.get("second_found") is False for result in results):
        word += " 1/2"
    return word


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0.0


def count(results, key):
    return sum(1 for result in results if result.get(key))


def totals_row(results):
    identifiable = [result for result in results if result["identifiable"]]
    seconds = [result["seconds"] for result in results]
    seconds_second = [result for result in results if result.get("second_found") is not None]
    return [len(results), f"{count(identifiable, 'right_culprit')}/{len(identifiable)}",
            f"{count(identifiable, 'right_kind')}/{len(identifiable)}", count(results, "abstained_well"), count(results, "false_blame"),
            count(results, "blame_behind"),
            f"{count(seconds_second, 'second_found')}/{len(seconds_second)}" if seconds_second else "",
            f"{median(seconds):.2f}", f"{max(seconds, default=0):.2f}"]


TOTALS = ["cases", "right culprit", "right kind", "abstained well", "false blame", "blame behind", "both found", "s median", "s most"]


def matrix(results, scenarios, variants, scale, form):
    here = [result for result in results if result["ranks"] == scale and result["format"] == form]
    if not here:
        return ""
    used = [variant for variant in variants if any(result["variant"] == variant for result in here)]
    rows = []
    for number in sorted({result["scenario"] for result in here}):
        of_scenario = [result for result in here if result["scenario"] == number]
        mark = "" if all(result["identifiable"] for result in of_scenario) else " *"
        rows.append([number, scenarios.get(number, "") + mark,
                     *[cell([result for result in of_scenario if result["variant"] == variant]) for variant in used],
                     f"{max(result['seconds'] for result in of_scenario):.2f}"])
    return f"### {scale:,} ranks, {FORMATS[form]}\n\n" + table(["#", "scenario", *used, "s"], rows, left=2 + len(used)) + "\n"


def calibration_table(results):
    rows = []
    for low, high, findings, right in scoring.calibration(results):
        share = f"{right / findings:.3f}" if findings else "-"
        rows.append([f"{low:.2f} to {min(high, 1):.2f}", findings, right, share])
    sure = [right for result in results for confidence, right in result["findings"] if confidence >= scoring.SURE]
    share = f"{sum(sure) / len(sure):.3f}" if sure else "-"
    rows.append([f"{scoring.SURE:.2f} and above", len(sure), sum(sure), share])
    return table(["confidence", "findings", "right", "share"], rows)


def markdown(results, scenarios, variants, heading):
    """`heading`: lines that say with what, when and where this was measured."""
    parts = ["# How often the analyzer is right", "", *heading, ""]
    parts += [LEGEND]
    parts += ["## Totals", "", table(["ranks", "format", *TOTALS],
              [[f"{scale:,}", form, *totals_row([r for r in results if r["ranks"] == scale and r["format"] == form])]
               for scale in sorted({r["ranks"] for r in results}) for form in FORMATS
               if any(r["ranks"] == scale and r["format"] == form for r in results)] + [["all", "", *totals_row(results)]], left=2), ""]
    parts += ["## By variant", "", table(["variant", *TOTALS],
              [[variant, *totals_row([r for r in results if r["variant"] == variant])] for variant in variants
               if any(r["variant"] == variant for r in results)]), ""]
    parts += ["## By scenario", "", table(["#", "scenario", *TOTALS],
              [[number, scenarios.get(number, ""), *totals_row([r for r in results if r["scenario"] == number])]
               for number in sorted({r["scenario"] for r in results})], left=2), ""]
    parts += ["## Confidence", "",
              "Every finding of every case, first or not, by the confidence it was given. Right: it names the culprits, or an "
              "allowed set that holds them, with a kind that fits; below 0.90 also who abstained well.", "", calibration_table(results), ""]
    needs = {}
    for result in results:
        if not result["identifiable"]:
            needs.setdefault((result["scenario"], result.get("needs") or "more than the record"), []).append(result)
    if needs:
        rows = [[number, scenarios.get(number, ""), what, ", ".join(sorted({f"{r['format']} {r['variant']}" for r in cases}, key=str)
                 [:4]) + (" ..." if len({(r["format"], r["variant"]) for r in cases}) > 4 else ""),
                 f"{sum(r['outcome'] in ('right', 'kind', 'set') for r in cases)}/{len(cases)}"]
                for (number, what), cases in sorted(needs.items())]
        parts += ["## Not identifiable from the record alone", "",
                  "The truth of these says that the record does not hold who it was. Well: named rightly all the same, or a set "
                  "that holds it.", "", table(["#", "scenario", "what would be needed", "where", "well"], rows, left=4), ""]
    parts += ["## Every case", ""]
    for scale in sorted({result["ranks"] for result in results}):
        for form in FORMATS:
            text = matrix(results, scenarios, variants, scale, form)
            if text:
                parts += [text]
    return "\n".join(parts).rstrip() + "\n"


LEGEND = """\
A case is a scenario at a scale under a variant, with its truth written before the analysis. The **first** finding is scored:

- **right culprit**: exactly the ranks of the truth, a set that the truth allows in their place (a pair, a cycle, a group whose
  members cannot be told apart), or exactly the host; of the cases whose culprit the record identifies. Healthy: no finding.
- **right kind**: the kind of cause fits, too (counted where the culprits are right or in the named set).
- **abstained well**: the truth lies in the named set, no larger than two ranks, one host or one switch (of a job with four or more).
- **false blame**: a rank outside the truth is named, or anything on a healthy trace. **blame behind**: a later finding with
  confidence 0.9 or more does so.
- **both found**: of the cases with two independent faults that both show in the record. **s**: wall time of `lockstep-analyze`, reading included.

In the tables of every case: `ok` right culprit and kind, `kind` right culprit with another kind, `set` abstained well, or said nothing
where the record shows nothing, `wide` the record does not tell who and a larger set that holds the truth is named with its kind and
without certainty, or ranks that others wait for are said to have left no data (which they did not), `part` only some of the culprits, `none` nothing named, `BLAME` false blame, `1/2` one of two faults not found, empty: not run or not a case there
(a dump format that has no such record); `*`: not identifiable from the record alone in some of the row's cases.
"""
