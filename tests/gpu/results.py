"""The results of the parts: PASS, FAIL or NOT MEASURED with reasons, tables, and a Markdown page of them."""
import json
import os

PASS, FAIL, NOT_MEASURED = "PASS", "FAIL", "NOT MEASURED"


class Part:
    def __init__(self, name, say=None):
        self.name, self.say = name, say
        self.lines, self.tables, self.seconds = [], [], 0.0

    def line(self, status, name, text):
        self.lines.append({"status": status, "name": name, "text": " ".join(str(text).split())})
        if self.say:
            self.say(f"{status:12}  {name}: {self.lines[-1]['text']}")

    def check(self, good, name, text):
        self.line(PASS if good else FAIL, name, text)

    def table(self, title, head, rows):
        if rows:
            self.tables.append({"title": title, "head": head, "rows": rows})

    def as_json(self):
        return {"lines": self.lines, "tables": self.tables, "seconds": round(self.seconds, 1)}


def load(path):
    """Returns the stored results of earlier calls; empty results if there are none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if isinstance(found, dict) and isinstance(found.get("parts"), dict):
            return found
    except (OSError, ValueError):
        pass
    return {"standin": False, "machine": [], "parts": {}}


def save(path, results):
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    os.replace(temporary, path)


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def rows(head, body):
    lines = ["| " + " | ".join(cell(c) for c in head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return lines + ["| " + " | ".join(cell(c) for c in row) + " |" for row in body]


def markdown(results, command):
    """Returns the results as a Markdown page for the folder results."""
    machine = dict(results["machine"])
    page = []
    if results.get("standin"):
        page += ["## On the stand-in (no GPU: the figures measure nothing)"]
    else:
        page += [f"## On a GPU ({machine.get('GPU', 'GPU not known').split(',')[0]}, {machine.get('date', '')[:10]})"]
    page += ["", f"`{command}` printed this."]
    page += ["", *rows(("machine", ""), results["machine"])]
    for name, part in results["parts"].items():
        lines = [(line["status"], line["name"], line["text"]) for line in part["lines"]]
        page += ["", f"### {name}", "", *rows(("", "what", "result"), lines)]
        for table in part["tables"]:
            page += ["", table["title"], "", *rows(table["head"], table["rows"])]
    return "\n".join(page) + "\n"


def counts(results):
    found = {PASS: 0, FAIL: 0, NOT_MEASURED: 0}
    for part in results["parts"].values():
        for line in part["lines"]:
            found[line["status"]] = found.get(line["status"], 0) + 1
    return found
