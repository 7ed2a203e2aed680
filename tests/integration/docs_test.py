#!/usr/bin/env python3
"""The pages keep what they say: every command in README.md and docs/ is run, or, where it needs a real cluster, its options are looked up;
names of files, variables and finding kinds exist. docs/extending.md ("Pages") tells the convention to who writes them:

  ```sh            run, block after block of a page in one folder and with one environment; every command must end with 0
  ```sh exit=1     likewise, the last command ends with that status; exit=0,1: with one of these
  ```sh service    each line is started and goes on running until the page is over; `export` lines set the environment
  ```sh check      not run: it needs what is not here. Options, verbs, targets and files are looked up, as in all other code

What stands for a site's own in the commands is put in their place by SITE below; train.py and ./train are trainsim."""

import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(os.environ.get("LOCKSTEP_BUILD", "build"))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOCKSTEP = os.path.join(BUILD, "bin/lockstep")
VIEWER = os.path.exists(os.path.join(BUILD, "bin/lockstep-view"))
sys.path.insert(0, os.path.join(SOURCE, "tests/integration"))
from cluster import free_port, wait_for  # noqa: E402

COMMAND = re.compile(r"(\S+=\S+ )*(sudo )?(lockstep [a-z]|lockstep-[a-z]+ |\./dev |\./train|ninja |srun |torchrun |mpirun |kubectl |systemctl |apt|dpkg |export |"
                     r"python3? |cmake |ctest |git |build/|tests/\S+ |packaging/\S+ )")
FENCE = re.compile(r"^```(.*)$")
# A line of usage rather than a command: not to be run, options looked up all the same.
USAGE = re.compile(r"\[|PATH\.\.\.|--role ROLE")
# Made by the programs themselves (pages_test).
GENERATED = ("docs/options.md",)


def pages():
    return ["README.md"] + sorted(os.path.relpath(path, SOURCE) for path in glob.glob(os.path.join(SOURCE, "docs/*.md")))


def read(page):
    with open(os.path.join(SOURCE, page)) as file:
        return file.read()


def said(path):
    with open(path, errors="replace") as file:
        return file.read()


class Block:
    def __init__(self, info, line):
        self.info, self.line, self.lines = info, line, []
        self.fenced = True

    def text(self):
        return "\n".join(self.lines)

    def commands(self):
        """Logical lines without comments that stand alone."""
        joined = re.sub(r"\\\n\s*", " ", self.text())
        return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


def blocks(page):
    """Fenced blocks, and those that are indented by four."""
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
    """Code inside sentences, with blocks left out."""
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
    """(program, words) of everything in a line of code that this project knows."""
    for part in re.split(r"\s(?:&&|\|\||\||;)\s", re.sub(r"\s#\s.*$", "", code)):
        if part.startswith("kubectl "):
            part = part.partition(" -- ")[2]  # its own options, and a namespace of our name
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
    """What is named exists, in every code of every page."""

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

    def test_verbs_and_options(self):
        looked_at = 0
        for where, code in self.code():
            for program, words in commands_in(code):
                options = [word.split("=")[0].rstrip(".,;]") for word in (words[:words.index("--")] if "--" in words else words)
                           if re.match(r"\[?--[a-z]", word)]
                options = [option.lstrip("[") for option in options]
                if program == "lockstep":
                    verb = words[0]
                    if not re.fullmatch(r"[a-z]+", verb):
                        continue  # lockstep --help, lockstep VERB
                    if verb == "view" and not VIEWER:
                        continue
                    said = help_of(verb)
                    self.assertIsNotNone(said, f"{where}: no verb {verb}: {code}")
                elif program == "./dev":
                    said = subprocess.run([os.path.join(SOURCE, "dev"), "help"], capture_output=True, text=True, timeout=30, check=True).stdout
                    if not words:
                        continue
                    self.assertRegex(said, rf"(?m)^\./dev {re.escape(words[0])}\b|^  {re.escape(words[0])}\b|\b{re.escape(words[0])}\b", f"{where}: {code}")
                    script = {"soak": "tests/integration/soak.py", "faults": "tests/integration/faults.py", "accuracy": "tests/bench/accuracy/accuracy.py"}
                    if words[0] not in script:
                        continue
                    said = read(script[words[0]])
                elif program == "ninja":
                    words = [word for word in words if not word.startswith("-") and word != "build"]
                    said = " ".join(read(path) for path in glob.glob(SOURCE + "/tests/**/*.cmake", recursive=True)
                                    + glob.glob(SOURCE + "/tests/**/CMakeLists.txt", recursive=True))
                    for target in words:
                        if re.match(r"[a-z]", target) and not target.startswith("build"):
                            self.assertIn(target, said, f"{where}: {code}")
                    continue
                elif program == "lockstep-corpus":
                    said = subprocess.run([os.path.join(BUILD, "bin/lockstep-corpus"), "--help"], capture_output=True, text=True, timeout=30, check=False).stdout
                elif program == "ctest":
                    continue
                else:
                    path = program.removeprefix("python3 ")
                    self.assertTrue(os.path.exists(os.path.join(SOURCE, path)), f"{where}: {code}")
                    said = read(path)
                looked_at += 1
                for option in options:
                    self.assertRegex(said, re.escape(option) + r"(?![\w-])", f"{where}: {program} {' '.join(words[:1])} has no {option}: {code}")
        self.assertGreater(looked_at, 100)

    def test_files_and_links(self):
        for page in pages():
            folder = os.path.dirname(os.path.join(SOURCE, page))
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", read(page)):
                if "://" not in target:
                    self.assertTrue(os.path.exists(os.path.join(folder, target)), f"{page}: {target}")
            for code in inline_code(page):
                if not re.search(r"\b[A-Z]{3,}$", code) and re.fullmatch(r"(docs|analyzer|recorder|collector|gui|tests|proto|packaging|cmake)/[\w./-]+", code):
                    path = os.path.join(SOURCE, code)
                    self.assertTrue(os.path.exists(path) or glob.glob(path + "*"), f"{page}: {code}")

    def test_variables(self):
        known = ""
        for pattern in ("recorder/**/*.cpp", "recorder/**/*.h", "collector/**/*.cpp", "collector/**/*.h", "analyzer/*.cpp", "gui/**/*.cpp", "packaging/**/*",
                        "**/CMakeLists.txt", "cmake/*", "dev", "tests/**/*.py"):
            for path in glob.glob(os.path.join(SOURCE, pattern), recursive=True):
                if os.path.isfile(path) and "/build" not in path and path != os.path.abspath(__file__):
                    with open(path, errors="replace") as file:
                        known += file.read()
        known += subprocess.run([os.path.join(BUILD, "bin/lockstep-config"), "--reference"], capture_output=True, text=True, timeout=30, check=True).stdout
        for page in pages():
            for name in set(re.findall(r"\bLOCKSTEP_[A-Z][A-Z_]*[A-Z]\b", read(page))):
                self.assertTrue(name in known, f"{page}: nothing reads {name}")

    def test_commands_stand_in_blocks_that_say_whether_they_are_run(self):
        for page in pages():
            for block in blocks(page):
                if block.info.split(" ")[0] == "sh":
                    self.assertRegex(block.info, r"^sh( exit=\d+(,\d+)*| service| check)?$", f"{page}:{block.line}")
                    continue
                for line in block.commands():
                    if page in GENERATED or USAGE.search(line):
                        continue
                    self.assertIsNone(COMMAND.match(line), f"{page}:{block.line}: a command in a block that is not sh: {line}")


class FindingsTest(unittest.TestCase):
    def test_every_kind_has_its_chapter_and_nothing_else_has(self):
        enum = re.search(r"enum FindingKind \{(.*?)\}", read("proto/verdict.proto"), re.S).group(1)
        kinds = [name for name in re.findall(r"(\w+) = \d+;", enum) if name != "FINDING_UNSPECIFIED"]
        enum = re.search(r"enum VerdictKind \{(.*?)\}", read("proto/verdict.proto"), re.S).group(1)
        verdicts = [name.removeprefix("VERDICT_") for name in re.findall(r"(\w+) = \d+;", enum) if name != "VERDICT_UNSPECIFIED"]
        text = read("docs/findings.md")
        chapters = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", text, re.M | re.S))
        named = [name for title in chapters for name in re.findall(r"[A-Z][A-Z0-9_]{3,}", title)]
        self.assertEqual(sorted(named), sorted(kinds))
        for title, chapter in chapters.items():
            for part in ("Means", "Concluded", "Do"):
                self.assertRegex(chapter, rf"\*\*{part}[.:]\*\*", title)
        for verdict in verdicts:
            self.assertRegex(text, rf"\| {verdict} \|")
        table = re.findall(r"^\| ([A-Z_, 0-9]+) \|", read("docs/verdict.md"), re.M)
        first, told = "", []
        for name in re.findall(r"[A-Z_0-9]+", " ".join(table)):
            if name.startswith("_"):
                name = first.split("_")[0] + name
            else:
                first = name
            told.append(name)
        self.assertLessEqual(set(kinds), set(told), "docs/verdict.md has a line of each")


TRAIN = """#!/bin/sh
# Stands for a program that trains. More ranks than eight are not needed for any page.
: ${WORLD_SIZE:=${SLURM_NTASKS:-${OMPI_COMM_WORLD_SIZE:-1}}}
export WORLD_SIZE MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT=${MASTER_PORT:-@PORT@}
exec @TRAINSIM@ --tp 2 --dp $((WORLD_SIZE / 2)) --pace-ms 20 --steps ${DOCS_TEST_STEPS:-25}
"""
TORCHRUN = """#!/usr/bin/env python3
# What torchrun does, as far as the pages use it: workers of one host, with the variables it gives them.
import os, subprocess, sys
words, workers = sys.argv[1:], 1
while words and words[0].startswith("--"):
    name, _, value = words.pop(0).partition("=")
    if not value:
        value = words.pop(0)
    if name == "--nproc-per-node":
        workers = int(value)
started = []
for rank in range(workers):
    environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(workers), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(workers), GROUP_RANK="0",
                       MASTER_ADDR="127.0.0.1", MASTER_PORT="@PORT@", TORCHELASTIC_RUN_ID="none", TORCHELASTIC_RESTART_COUNT="0",
                       TORCHELASTIC_MAX_RESTARTS="0")
    started.append(subprocess.Popen([sys.executable, *words], env=environment))
sys.exit(max(abs(worker.wait()) for worker in started))
"""


class Site:
    """A folder in which a page's commands are run, and what stands in it."""

    def __init__(self, page):
        self.page = page
        self.folder = tempfile.mkdtemp(prefix="lockstep-docs-")
        self.rings = tempfile.mkdtemp(prefix="lockstep-docs-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.ports = {name: free_port() for name in ("collector", "metrics", "train", "relay")}
        self.services = []
        for name in ("bin", "tmp", "home"):
            os.mkdir(self.path(name))
        trainsim = os.path.join(BUILD, "bin/trainsim")
        train = TRAIN.replace("@TRAINSIM@", trainsim).replace("@PORT@", str(self.ports["train"]))
        self.program("train", train)
        self.program("train.py", "import os\nos.execv('./train', ['./train'])\n")
        self.program("bin/torchrun", TORCHRUN.replace("@PORT@", str(self.ports["train"])))
        self.program("bin/python", f"#!/bin/sh\nexec {shlex.quote(sys.executable)} \"$@\"\n")
        for name, options in (("incident", ["--scenario", "21", "--ranks", "16"]), ("yesterday", ["--scenario", "2", "--ranks", "16"]),
                              ("dumps", ["--scenario", "2", "--ranks", "8", "--format", "fr", "--marks", "full"])):
            if re.search(rf"\b{name}\b", read(page)):
                subprocess.run([os.path.join(BUILD, "bin/lockstep-corpus"), "generate", *options, "--out", self.path("corpus-" + name)], check=True,
                               stdout=subprocess.DEVNULL, timeout=120)
                os.symlink(self.path("corpus-" + name, "data"), self.path(name))
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("LOCKSTEP", "SLURM", "OMPI", "NCCL"))}
        self.environment |= {
            "PATH": os.pathsep.join([self.path("bin"), os.path.join(BUILD, "bin"), os.environ["PATH"]]), "HOME": self.path("home"),
            "LD_LIBRARY_PATH": os.path.join(BUILD, "standin/lib"), "LOCKSTEP_DIR": self.rings, "LOCKSTEP_RUNTIME_DIR": self.path("runtime"),
            "LOCKSTEP_AGENT_RINGS": self.rings, "LOCKSTEP_SPOOL": self.path("spool"), "LOCKSTEP_KEYS": self.path("etc/lockstep/keys"),
            "QT_QPA_PLATFORM": "offscreen", "TMPDIR": self.path("tmp"), "LOCKSTEP_BUILT": BUILD, "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            "OMPI_MCA_plm_rsh_agent": "false"}
        self.state = self.path("state")
        with open(self.state, "w") as file:
            file.write("")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def program(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def own(self, text):
        """The commands with what this folder has in place of what a site has."""
        collector = f"127.0.0.1:{self.ports['collector']}"
        own = {
            "/etc/lockstep/": self.path("etc/lockstep/"), "/var/lib/lockstep": self.path("var"), "/path/to/dumps": self.path("dumps"),
            "/usr/lib/liblockstep.so": os.path.join(BUILD, "lib/liblockstep.so"), "/tmp/": self.path("tmp/"), "build/bin/": os.path.join(BUILD, "bin/"),
            "0.0.0.0:9470": collector, "head:9470": collector, "relay7:9470": f"127.0.0.1:{self.ports['relay']}",
            "127.0.0.1:9471": f"127.0.0.1:{self.ports['metrics']}", "git clone <this repository> lockstep": "mkdir lockstep",
            "./dev ": os.path.join(SOURCE, "dev") + " ", "$PWD/build/bin": os.path.join(BUILD, "bin")}
        return re.sub("|".join(map(re.escape, own)), lambda found: own[found.group()], text)

    def run(self, block):
        expected = re.search(r"exit=([\d,]+)", block.info)
        script = f". {shlex.quote(self.state)}\nset -e\ntrap 'export -p >{shlex.quote(self.state)}' EXIT\n{self.own(block.text())}\n"
        try:
            done = subprocess.run(["bash", "-c", script], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=240, check=False)
        except subprocess.TimeoutExpired as error:
            return f"did not end: {error.stdout}{self.logs()}"
        if str(done.returncode) not in (expected.group(1) if expected else "0").split(","):
            return f"exit status {done.returncode}:\n{done.stdout}{self.logs()}"
        return None

    def serve(self, block):
        for command in block.commands():
            command = self.own(command)
            if command.startswith("export "):
                with open(self.state, "a") as file:
                    file.write(command + "\n")
                continue
            command = re.sub(r"\s+#\s.*$", "", command)
            log = self.path(f"tmp/service{len(self.services)}.log")
            with open(log, "wb") as file:
                process = subprocess.Popen(["bash", "-c", f". {shlex.quote(self.state)}\n{command}"], env={**self.environment, "DOCS_TEST_STEPS": "1000000"},
                                           cwd=self.folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
            self.services.append((command, process, log))
            if not wait_for(lambda: self.is_up(command, log) or process.poll() is not None, 120) or process.poll() is not None:
                return f"{command}: is not up (status {process.poll()}){self.logs()}"
        return None

    def ended(self):
        """A service that did not last as long as the page; None: all did."""
        gone = [f"{command} ended with {process.returncode}" for command, process, _ in self.services if process.poll() is not None]
        return "; ".join(gone) + self.logs() if gone else None

    def log_of(self, verb):
        return "".join(said(log) for command, _, log in self.services if re.search(rf"lockstep {verb}\b", command))

    def is_up(self, command, log):
        if "lockstep collector" in command:
            return "listens on" in said(log)
        if "lockstep agent" in command:
            return "watching" in said(log)
        if "lockstep view" in command:
            return True
        # A job: its ranks have been seen by whoever watches.
        if "lockstep collector" in " ".join(command for command, _, _ in self.services):
            return "is seen" in self.log_of("collector")
        return bool(glob.glob(self.rings + "/**/*.ring", recursive=True))

    def logs(self):
        return "".join(f"\n--- {command}\n{said(log)[-2000:]}" for command, _, log in self.services)

    def close(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _, process, _ in reversed(self.services):
                try:
                    os.killpg(process.pid, number)
                except OSError:
                    pass
            wait_for(lambda: all(process.poll() is not None for _, process, _ in self.services), 8)
        # Ranks have sessions of their own where a launcher gives them one; they end with their ring folder's job.
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.rings, ignore_errors=True)


class CommandsTest(unittest.TestCase):
    """A test for each page that has commands (made below)."""

    def play(self, page):
        site = Site(page)
        self.addCleanup(site.close)
        ran = left_out = 0
        for block in blocks(page):
            if not block.info.startswith("sh") or block.info == "sh check":
                continue
            if ("mpirun" in block.text() and not shutil.which("mpirun")) or ("lockstep view" in block.text() and not VIEWER):
                left_out += 1
                continue
            error = site.serve(block) if block.info == "sh service" else site.run(block)
            self.assertIsNone(error, f"{page}:{block.line}:\n{block.text()}\n{error}")
            ran += 1
        self.assertIsNone(site.ended(), page)
        if left_out:
            self.skipTest(f"{ran} blocks ran; {left_out} need mpirun or the viewer, which are not here")


def add_test(page):
    name = re.sub(r"\W+", "_", page.removesuffix(".md").removeprefix("docs/")).lower()
    setattr(CommandsTest, f"test_{name}", lambda self: self.play(page))


for _page in pages():
    if any(block.info.startswith("sh") and block.info != "sh check" for block in blocks(_page)):
        add_test(_page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
