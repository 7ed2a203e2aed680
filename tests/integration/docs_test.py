#!/usr/bin/env python3
"""Checks that the pages are true. Every command in README.md and docs/ runs, here or in the test that NOT_RUN names, and the files, variables and finding
kinds in the pages exist. docs/extending.md ("Pages") explains the convention for authors:
  ```sh            run; the blocks of a page share one folder and environment, and every command must exit with 0
  ```sh exit=1     run; the last command exits with that status; exit=0,1: with 0 or 1
  ```sh service    each line is started and runs until the page's end; `export` lines set the environment
  ```sh check      not run here: NOT_RUN names the test that runs it. Options, verbs, targets and files are still checked

docs_site.py replaces the names of a site in the commands; train.py and ./train are trainsim."""

import glob
import os
import re
import subprocess
import tempfile
import unittest

from cluster import Cluster
from docs_site import VIEWER, Site, lacks
from support import BUILD, LOCKSTEP, SOURCE, read_json, wait_for


COMMAND = re.compile(r"(\S+=\S+ )*(sudo )?(lockstep [a-z]|lockstep-[a-z]+ |\./dev |\./train|ninja |srun |torchrun |mpirun |kubectl |systemctl |apt|dpkg |export |"
                     r"python3? |cmake |ctest |git |build/|tests/\S+ |packaging/\S+ )")
FENCE = re.compile(r"^```(.*)$")
# A usage line is not run, but its options must exist.
USAGE = re.compile(r"\[|PATH\.\.\.|--role ROLE")
# Blocks that another test runs, by page and first words.
NOT_RUN = {
    ("README.md", "lockstep attach"): "needs a job that hangs, and no other: attach_test runs it",
    ("docs/quickstart.md", "lockstep attach --kubernetes"): "needs a cluster: attach_test runs it on a stand-in of kubectl",
    ("docs/quickstart.md", "kubectl -n ml cp lockstep"): "needs a cluster: attach_test runs it on a stand-in of kubectl",
    ("docs/limits.md", "./dev outside"): "needs PyPI: CI runs it with --quick",
    ("docs/quickstart.md", "lockstep check --seconds 60"): "needs PyTorch: ./dev outside check runs the like",
    ("docs/extending.md", "./dev fuzz 10"): "ten minutes on every core",
    ("docs/security.md", "lockstep serve --listen"): "needs a certificate: serve_tls_test makes one",
    ("docs/extending.md", "./dev sanitize asan"): "compiles nearly everything once more",
    ("docs/deploying.md", "sudo apt install"): "needs the packages, and root: packages_test runs it in a clean root",
    ("docs/deploying.md", "tar xzf lockstep-*-linux.tar.gz"): "needs the packages: packages_test runs it",
    ("docs/deploying.md", "tar xzf lockstep-*-linux-debug.tar.gz"): "needs the packages: packages_test runs it",
    ("docs/deploying.md", "pip install lockstep_recorder-*.whl"): "needs the packages: packages_test runs the like",
    ("docs/deploying.md", "sha256sum --check"): "needs the packages, and builds everything twice: packages_test runs the first, and the second with --recorder",
}
# The programs generate these pages (pages_test).
GENERATED = ("docs/options.md",)


def pages():
    return ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"] + sorted(os.path.relpath(path, SOURCE) for path in glob.glob(os.path.join(SOURCE, "docs/*.md")))


def read(page):
    with open(os.path.join(SOURCE, page)) as file:
        return file.read()


class Block:
    def __init__(self, info, line):
        self.info, self.line, self.lines = info, line, []
        self.fenced = True

    def text(self):
        return "\n".join(self.lines)

    def commands(self):
        """Returns logical lines without comment lines."""
        joined = re.sub(r"\\\n\s*", " ", self.text())
        return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


def blocks(page):
    """Returns fenced blocks and blocks that are indented by four."""
    found, open_block, before = [], None, ""
    for number, line in enumerate(read(page).splitlines(), 1):
        fence = FENCE.match(line)
        if open_block is not None and open_block.fenced:
            if fence:
                open_block = None
            else:
                open_block.lines.append(line)
            continue
        if fence:
            open_block = Block(fence.group(1).strip(), number)
            found.append(open_block)
        elif line.startswith("    ") and (open_block is not None or not before.strip()):
            if open_block is None:
                open_block = Block("", number)
                open_block.fenced = False
                found.append(open_block)
            open_block.lines.append(line[4:])
        else:
            open_block = None
        before = line
    return found


def inline_code(page):
    """Returns the code inside sentences, outside of blocks."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.M | re.S)
    return [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)]


_HELP = {}


def help_of(verb):
    if verb not in _HELP:
        done = subprocess.run([LOCKSTEP, verb, "--help"], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "QT_QPA_PLATFORM": "offscreen"})
        _HELP[verb] = done.stdout if done.returncode == 0 else None
    return _HELP[verb]


def commands_in(code):
    """Yields (program, words) for every command of this project in a line of code."""
    for part in re.split(r"\s(?:&&|\|\||\||;)\s", re.sub(r"\s#\s.*$", "", code)):
        if part.startswith("kubectl "):
            part = part.partition(" -- ")[2]  # the part after -- may be a command of Lockstep
        words = re.sub(r"[`'\"]", "", part).split()
        for index, word in enumerate(words):
            if word in ("lockstep", "build/bin/lockstep", "/usr/bin/lockstep") and index + 1 < len(words):
                yield "lockstep", words[index + 1:]
                if "--" in words[index + 1:]:
                    yield from commands_in(" ".join(words[words.index("--", index) + 1:]))
                break
            if re.fullmatch(r"\./dev|ninja|ctest|(build/bin/)?lockstep-corpus|(python3 )?(tests|packaging|docs)/\S+\.(py|sh)", word):
                yield word.replace("build/bin/", ""), words[index + 1:]
                break


class NamesTest(unittest.TestCase):
    """Checks that every name in the pages' code exists."""

    def code(self):
        for page in pages():
            if page in GENERATED:
                continue
            for block in blocks(page):
                for command in block.commands():
                    if COMMAND.match(command) or block.info.startswith("sh"):
                        yield f"{page}:{block.line}", command
            for code in inline_code(page):
                yield page, code

    def test_every_verb_and_option_exists(self):
        looked_at = 0
        for where, code in self.code():
            for program, words in commands_in(code):
                options = [word.split("=")[0].rstrip(".,;]") for word in (words[:words.index("--")] if "--" in words else words)
                           if re.match(r"\[?--[a-z]", word)]
                options = [option.lstrip("[") for option in options]
                if program == "lockstep":
                    verb = words[0]
                    if not re.fullmatch(r"[a-z]+", verb):
                        continue  # `lockstep --help` and `lockstep VERB`
                    if verb == "view" and not VIEWER:
                        continue
                    output = help_of(verb)
                    self.assertIsNotNone(output, f"{where}: no verb {verb}: {code}")
                elif program == "./dev":
                    output = subprocess.run([os.path.join(SOURCE, "dev"), "help"], capture_output=True, text=True, timeout=30, check=True).stdout
                    if not words:
                        continue
                    self.assertRegex(output, rf"(?m)^\./dev {re.escape(words[0])}\b|^  {re.escape(words[0])}\b|\b{re.escape(words[0])}\b", f"{where}: {code}")
                    script = {"soak": "tests/integration/soak.py", "faults": "tests/integration/faults.py", "accuracy": "tests/bench/accuracy/accuracy.py"}
                    if words[0] not in script:
                        continue
                    output = read(script[words[0]])
                elif program == "ninja":
                    words = [word for word in words if not word.startswith("-") and word != "build"]
                    output = " ".join(read(path) for path in glob.glob(SOURCE + "/tests/**/*.cmake", recursive=True)
                                    + glob.glob(SOURCE + "/tests/**/CMakeLists.txt", recursive=True))
                    for target in words:
                        if re.match(r"[a-z]", target) and not target.startswith("build"):
                            self.assertIn(target.removesuffix("_fuzz"), output, f"{where}: {code}")
                    continue
                elif program == "lockstep-corpus":
                    output = subprocess.run([os.path.join(BUILD, "bin/lockstep-corpus"), "--help"], capture_output=True, text=True, timeout=30, check=False).stdout
                elif program == "ctest":
                    continue
                else:
                    path = program.removeprefix("python3 ")
                    self.assertTrue(os.path.exists(os.path.join(SOURCE, path)), f"{where}: {code}")
                    output = read(path)
                looked_at += 1
                for option in options:
                    self.assertRegex(output, re.escape(option) + r"(?![\w-])", f"{where}: {program} {' '.join(words[:1])} has no {option}: {code}")
        self.assertGreater(looked_at, 100)

    def test_files_and_links_exist(self):
        for page in pages():
            folder = os.path.dirname(os.path.join(SOURCE, page))
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", read(page)):
                if "://" not in target:
                    self.assertTrue(os.path.exists(os.path.join(folder, target)), f"{page}: {target}")
            for code in inline_code(page):
                if not re.search(r"\b[A-Z]{3,}$", code) and re.fullmatch(r"(docs|analyzer|recorder|collector|gui|tests|proto|packaging|cmake|results)/[\w./-]+", code):
                    path = os.path.join(SOURCE, code)
                    self.assertTrue(os.path.exists(path) or glob.glob(path + "*"), f"{page}: {code}")

    def test_every_variable_exists(self):
        known = ""
        for pattern in ("recorder/**/*.cpp", "recorder/**/*.h", "collector/**/*.cpp", "collector/**/*.h", "analyzer/**/*.cpp", "gui/**/*.cpp", "packaging/**/*",
                        "**/CMakeLists.txt", "cmake/*", "dev", "tests/**/*.py"):
            for path in glob.glob(os.path.join(SOURCE, pattern), recursive=True):
                if os.path.isfile(path) and "/build" not in path and path != os.path.abspath(__file__):
                    with open(path, errors="replace") as file:
                        known += file.read()
        known += subprocess.run([os.path.join(BUILD, "bin/lockstep-config"), "--reference"], capture_output=True, text=True, timeout=30, check=True).stdout
        for page in pages():
            for name in set(re.findall(r"\bLOCKSTEP_[A-Z][A-Z_]*[A-Z]\b", read(page))):
                self.assertTrue(name in known, f"{page}: nothing reads {name}")

    def test_every_named_test_exists(self):
        """Every part of an argument of ctest -R must match a test."""
        # Runs in another folder, because even a listing ctest empties the log of the ctest that runs this test.
        with tempfile.TemporaryDirectory(prefix="lockstep-names-") as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w") as file:
                file.write(f'subdirs("{BUILD}")\n')
            listed = subprocess.run(["ctest", "-N"], cwd=folder, capture_output=True, text=True, timeout=60, check=True).stdout
        names = re.findall(r"(?m)^\s*Test +#\d+: (\S+)", listed)
        if not names:
            self.skipTest("no tests are registered in this build")
        checked = 0
        for where, code in self.code():
            for pattern in re.findall(r"(?:\./dev test|ctest) -R '?([^'\s]+)'?", code):
                for part in re.sub(r"\(([^()]*)\)", lambda found: found.group(0).replace("|", "\0"), pattern).split("|"):
                    checked += 1
                    self.assertTrue([name for name in names if re.search(part.replace("\0", "|"), name)], f"{where}: no test is called {part}: {code}")
        self.assertGreater(checked, 5)

    def test_commands_are_in_blocks_that_say_whether_they_run(self):
        left_out = set()
        for page in pages():
            for block in blocks(page):
                if block.info == "sh check":
                    reasons = [key for key in NOT_RUN if key[0] == page and block.text().startswith(key[1])]
                    self.assertEqual(len(reasons), 1, f"{page}:{block.line}: NOT_RUN must say why this block is not run")
                    left_out.add(reasons[0])
                if block.info.split(" ")[0] == "sh":
                    self.assertRegex(block.info, r"^sh( exit=\d+(,\d+)*| service| check)?$", f"{page}:{block.line}")
                    continue
                for line in block.commands():
                    if page in GENERATED or USAGE.search(line):
                        continue
                    self.assertIsNone(COMMAND.match(line), f"{page}:{block.line}: a command in a block that is not sh: {line}")
        self.assertEqual(left_out, set(NOT_RUN))


class FindingsTest(unittest.TestCase):
    def test_every_finding_kind_has_its_chapter(self):
        enum = re.search(r"enum FindingKind \{(.*?)\}", read("proto/verdict.proto"), re.S).group(1)
        kinds = [name for name in re.findall(r"(\w+) = \d+;", enum) if name != "FINDING_UNSPECIFIED"]
        enum = re.search(r"enum VerdictKind \{(.*?)\}", read("proto/verdict.proto"), re.S).group(1)
        verdicts = [name.removeprefix("VERDICT_") for name in re.findall(r"(\w+) = \d+;", enum) if name != "VERDICT_UNSPECIFIED"]
        text = read("docs/findings.md")
        chapters = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", text, re.M | re.S))
        named = [name for title in chapters for name in re.findall(r"[A-Z][A-Z0-9_]{3,}", title)]
        self.assertEqual(sorted(named), sorted(kinds))
        for title, chapter in chapters.items():
            for part in ("Means", "Evidence", "Do"):
                self.assertRegex(chapter, rf"\*\*{part}[.:]\*\*", title)
        for verdict in verdicts:
            self.assertRegex(text, rf"\| {verdict} \|")
        table = re.findall(r"^\| ([A-Z_, 0-9]+) \|", read("docs/verdict.md"), re.M)
        first, documented = "", []
        for name in re.findall(r"[A-Z_0-9]+", " ".join(table)):
            if name.startswith("_"):
                name = first.split("_")[0] + name
            else:
                first = name
            documented.append(name)
        self.assertLessEqual(set(kinds), set(documented), "docs/verdict.md must have a line for each kind")


class CommandsTest(unittest.TestCase):
    """Has a test for each page with commands (added below)."""

    def play(self, page):
        site = Site(read(page))
        self.addCleanup(site.close)
        ran, left_out = 0, []
        for block in blocks(page):
            if not block.info.startswith("sh") or block.info == "sh check":
                continue
            lacking = lacks(block.text())
            if lacking:
                left_out.append(lacking)
                continue
            error = site.serve(block) if block.info == "sh service" else site.run(block)
            self.assertIsNone(error, f"{page}:{block.line}:\n{block.text()}\n{error}")
            ran += 1
        self.assertIsNone(site.ended(), page)
        if left_out:
            self.skipTest(f"{ran} blocks ran; not here: {', '.join(sorted(set(left_out)))}")

    def test_stand_ins_refuse_what_a_real_site_would_refuse(self):
        site = Site("")
        self.addCleanup(site.close)
        for command, word in (("kubectl -n lockstep port-forward service/lockstep-colector 9470", "no service"), ("systemctl enable lockstep-agnt", "agnt"),
                              ("torchrun --nnodes 2 --nproc-per-node 8 train.py", "rdzv-endpoint"), ("sacct -P -o JobID,Begin", "Begin")):
            if not lacks(command):
                block = Block("sh", 0)
                block.lines = [command]
                self.assertRegex(site.run(block) or "", rf"(?s)^exit status [1-9].*{word}", command)

    def test_the_on_verdict_command_drains_the_host(self):
        command = re.search(r"--on-verdict '(.*)'$", read("docs/deploying.md"), re.M).group(1)
        site, made = Site(""), Cluster()
        self.addCleanup(site.close)
        self.addCleanup(made.close)
        plain = made.environment
        made.environment = lambda **more: {**plain(**more), "PATH": site.environment["PATH"]}
        made.start_all("--tp", "2", "--dp", "2", "--steps", "100000", "--pace-ms", "5", "--fault", "rank=2,step=25,kind=stall-host",
                       collector=("--on-verdict", f"cd {site.folder} && {command}"))
        self.assertTrue(wait_for(lambda: os.path.exists(site.path("drained")) and made.whole()), made.logs())
        hosts = [culprit["host"] for culprit in read_json(made.whole()[0], "verdict.json")["findings"][0]["culprits"]]
        with open(site.path("drained")) as file:
            self.assertEqual(file.read().split(), hosts)
        self.assertEqual(hosts, ["node1"])


def add_test(page):
    name = re.sub(r"\W+", "_", page.removesuffix(".md").removeprefix("docs/")).lower()
    setattr(CommandsTest, f"test_{name}", lambda self: self.play(page))


for _page in pages():
    if any(block.info.startswith("sh") and block.info != "sh check" for block in blocks(_page)):
        add_test(_page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
