"""Runs run.py with the stand-ins. Every part must complete, and every result that needs no GPU must be right."""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
# Lines with these prefixes may be NOT MEASURED: they need PyTorch, or a stand-in cannot decide them.
ABSENT = ("PyTorch", "torch", "faults", "< 0.3 % of step time", "what auto should be")


def main():
    arguments = sys.argv[1:]
    out = arguments[arguments.index("--out") + 1]
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([sys.executable, os.path.join(HERE, "run.py"), "--quick", *arguments], check=False, timeout=1180)
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        found = json.load(file)
    with open(os.path.join(out, "measurements.md"), encoding="utf-8") as file:
        page = file.read()
    wrong = []
    for name in ("driver", "hang", "ways", "marks", "graph", "faults", "latency", "torch"):
        part = found["parts"].get(name)
        if not part or not part["lines"]:
            wrong.append(f"part {name} said nothing")
            continue
        for line in part["lines"]:
            if line["status"] == "FAIL" or (line["status"] == "NOT MEASURED" and not line["name"].startswith(ABSENT)):
                wrong.append(f"{name}: {line['status']}: {line['name']}: {line['text']}")
        if f"### {name}" not in page:
            wrong.append(f"the page lacks part {name}")
    if "On the stand-in" not in page:
        wrong.append("the page does not say that it was the stand-in")
    for word in ("marks", "graph", "latency"):
        if not found["parts"].get(word, {}).get("tables"):
            wrong.append(f"part {word} made no table")
    if done.returncode != (1 if any("FAIL" in w for w in wrong) else 0):
        wrong.append(f"run.py ended with {done.returncode}")
    print("\n".join(wrong) if wrong else "everything ran")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
