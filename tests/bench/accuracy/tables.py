"""Formats the result of a run as Markdown, which results/accuracy stores unchanged."""

import scoring

WORDS = {"right": "ok", "kind": "kind", "set": "set", "silent": "-", "wide": "wide", "missed": "none", "partial": "part", "blame": "BLAME", "error": "ERROR"}
# If several cases share a cell, the cell shows the worst.
ORDER = ["error", "blame", "missed", "partial", "kind", "wide", "set", "silent", "right"]
FORMATS = {"lsd": "own dumps", "fr": "Flight Recorder dumps", "run": "real processes (trainsim under lockstep run)"}


def table(header, rows, left=1):
    """Returns a Markdown table with aligned columns. The first `left` columns are left-aligned."""
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
    if word == "ok" and not all(result.get("verdict_right", True) for result in results):
        word += " word"
    return word


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0.0


def count(results, key):
    return sum(1 for result in results if result.get(key))


def totals_row(results):
    """Returns the values of TOTALS for these cases. `right` to `false blame` add up to the number of cases."""
    identifiable = [result for result in results if result["identifiable"]]
    words = [result for result in results if "verdict_right" in result]
    activity = [result for result in results if result.get("activity_right") is not None]
    def outcomes(*names):
        return sum(result["outcome"] in names for result in results)
    seconds_second = [result for result in results if result.get("second_found") is not None]
    return [len(results), f"{count(identifiable, 'right_culprit')}/{len(identifiable)}",
            f"{count(identifiable, 'right_kind')}/{len(identifiable)}", f"{count(words, 'verdict_right')}/{len(words)}",
            f"{count(activity, 'activity_right')}/{len(activity)}" if activity else "",
            outcomes("right", "kind"), outcomes("set"), outcomes("silent"), outcomes("wide"), outcomes("partial"), outcomes("missed"),
            outcomes("blame") + outcomes("error"), count(results, "blame_behind"),
            f"{count(seconds_second, 'second_found')}/{len(seconds_second)}" if seconds_second else ""]


def times_row(results):
    seconds = [result["seconds"] for result in results]
    cpu = [result.get("cpu_seconds", 0) for result in results]
    memory = [result.get("rss_mib", 0) for result in results]
    return [len(results), f"{median(seconds):.2f}", f"{max(seconds, default=0):.2f}", f"{median(cpu):.2f}", f"{max(cpu, default=0):.2f}",
            max(memory, default=0)]


TOTALS = ["cases", "right culprit", "right kind", "right word", "activity", "right", "abstained", "silent", "wide", "partial", "none",
          "false blame", "blame behind", "both found"]
TIMES = ["cases", "s median", "s most", "CPU s median", "CPU s most", "MiB most"]


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
    """`heading` has lines about what was measured, when and where."""
    parts = ["# How often the analyzer is right", "", *heading, ""]
    parts += [LEGEND]
    parts += ["## Totals", "", table(["ranks", "format", *TOTALS],
              [[f"{scale:,}", form, *totals_row([r for r in results if r["ranks"] == scale and r["format"] == form])]
               for scale in sorted({r["ranks"] for r in results}) for form in FORMATS
               if any(r["ranks"] == scale and r["format"] == form for r in results)] + [["all", "", *totals_row(results)]], left=2), ""]
    parts += ["Time and memory of `lockstep-analyze`, reading included; CPU: of all its threads.", "", table(["ranks", "format", *TIMES],
              [[f"{scale:,}", form, *times_row([r for r in results if r["ranks"] == scale and r["format"] == form])]
               for scale in sorted({r["ranks"] for r in results}) for form in FORMATS
               if any(r["ranks"] == scale and r["format"] == form for r in results)], left=2), ""]
    parts += ["## By variant", "", table(["variant", *TOTALS],
              [[variant, *totals_row([r for r in results if r["variant"] == variant])] for variant in variants
               if any(r["variant"] == variant for r in results)]), ""]
    parts += ["## By scenario", "", table(["#", "scenario", *TOTALS],
              [[number, scenarios.get(number, ""), *totals_row([r for r in results if r["scenario"] == number])]
               for number in sorted({r["scenario"] for r in results})], left=2), ""]
    parts += ["## Confidence", "",
              "Every finding of every case, first or not, by the confidence it was given. Right: it names the culprits, or an "
              "allowed set that holds them, with a kind that fits; below 0.90 also who abstained well.", "", calibration_table(results), "",
              f"Findings under {scoring.SURE:.2f} that name several ranks: {sum(r.get('sets', 0) for r in results)}; of these without what would "
              f"tell them apart: {sum(r.get('no_hint', 0) for r in results)}.", ""]
    needs = {}
    for result in results:
        if not result["identifiable"]:
            needs.setdefault((result["scenario"], result.get("needs") or "more than the record"), []).append(result)
    if needs:
        rows = [[number, scenarios.get(number, ""), what, ", ".join(sorted({f"{r['format']} {r['variant']}" for r in cases}, key=str)
                 [:4]) + (" ..." if len({(r["format"], r["variant"]) for r in cases}) > 4 else ""),
                 f"{sum(r['outcome'] in ('right', 'kind', 'set', 'silent') for r in cases)}/{len(cases)}"]
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
A case is one scenario at one scale, in one variant, with its truth written before the analysis. Only the **first** finding is scored. The
outcomes below add up to the number of cases:

- **right**: the finding names exactly the ranks of the truth, the host, or a set that the truth allows (a pair, a cycle, or a group whose
  members cannot be distinguished). For a healthy job: no finding. If the record hides one of two faults: the first finding names a set that
  contains the hidden one, and the second names the other one exactly.
- **abstained**: the named set contains the truth, and is at most two ranks, one host or one switch (of a job with at least four).
- **silent**: no finding, and the record shows nothing.
- **wide**: the record does not show which rank is at fault. The finding has the right kind, is marked as uncertain, and names a larger set that
  contains the truth. Or it names ranks that left no data and that others wait for.
- **partial**: the finding names only some of the culprits. **none**: no finding, although the record shows a fault.
- **false blame**: the finding names a rank outside the truth, or any rank of a healthy job. Analyses that failed count here, too.

**right culprit**: right, of the cases whose record identifies the culprit. **right kind**: of these, also with the right kind of cause. **right
word**: the verdict's word (HUNG, LATE, DESYNC, CRASHED, ...) is one that the truth allows, of all cases. **activity**: the finding also states
the culprit's activity (data loading, checkpoint, compilation, garbage collection, interpreter lock) and whether it moves, of the right cases
with an activity. **blame behind**: a later finding blames wrongly at a confidence of 0.9 or more. **both found**: of the cases with two
independent faults that the record shows.

In the tables of all cases: `ok` right culprit and kind, `kind` right culprit with another kind, `set` abstained, `-` silent, `wide`,
`part` partial, `none`, `BLAME` false blame, `1/2` one of two faults not found, `word` wrong verdict word. Empty: not run, or the case does not
exist (a dump format without such a record; 1 % of 8 ranks). `*`: in some cases of the row, the record alone does not identify the culprit.
"""
