#!/usr/bin/env python3
"""Checks that man pages, completion and docs/options.md are generated from the settings table and match --help."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from support import BUILD, LOCKSTEP, SOURCE, FolderTest


def make(*arguments):
    return subprocess.run([sys.executable, os.path.join(SOURCE, "packaging/pages.py"), os.path.join(BUILD, "bin"), *arguments],
                          stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout


def verbs():
    output = subprocess.run([LOCKSTEP, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"^  ([a-z-]+) +\S", output[output.index("\nVerbs:"):], re.M)


def options(verb):
    output = subprocess.run([LOCKSTEP, verb, "--help"], stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}).stdout
    # Counts lines that begin with an option, not options in a sentence.
    return {name for line in output.splitlines() if re.match(r"^ {2,6}-", line) for name in re.findall(r"(?<![\w-])--[a-z-]+", line.strip().split("  ")[0])}


class PagesTest(FolderTest):
    def test_every_verb_has_a_page_with_all_its_options(self):
        make("man", self.folder)
        self.assertEqual(sorted(os.path.basename(path) for path in glob.glob(self.folder + "/*")),
                         sorted(["lockstep.1"] + [f"lockstep-{verb}.1" for verb in verbs()]))
        for verb in verbs():
            with open(os.path.join(self.folder, f"lockstep-{verb}.1")) as file:
                page = file.read().replace("\\-", "-")
            self.assertIn(".SH SYNOPSIS", page)
            for option in options(verb):
                self.assertIn(f"\\fB{option}\\fR", page, verb)
            if shutil.which("groff"):
                done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", os.path.join(self.folder, f"lockstep-{verb}.1")], capture_output=True,
                                      text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), verb)

    def complete(self, *words):
        make("completion", self.folder)
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", os.path.join(self.folder, "lockstep"), *words], stdout=subprocess.PIPE, text=True,
                              check=True, cwd=self.folder)
        return done.stdout.split()

    def test_verbs_options_and_files_are_completed(self):
        self.assertEqual(sorted(self.complete("lockstep", "")), sorted(verbs() + ["--help", "--version"]))
        self.assertEqual(self.complete("lockstep", "ana"), ["analyze"])
        self.assertEqual(set(self.complete("lockstep", "run", "--")), options("run"))
        self.assertEqual(set(self.complete("/usr/bin/lockstep-agent", "--")), options("agent"))
        self.assertEqual(self.complete("lockstep", "analyze", "lockst"), ["lockstep"], "a file")

    def test_values_are_completed(self):
        os.makedirs(self.folder + "/folder")
        self.assertEqual(self.complete("lockstep", "analyze", "--format", ""), ["text", "json", "html", "explore"])
        self.assertEqual(self.complete("lockstep", "analyze", "--format", "=", "h"), ["html"], "--format=h")
        self.assertEqual(self.complete("lockstep", "analyze", "--format", "="), ["text", "json", "html", "explore"], "--format=")
        self.assertEqual(self.complete("lockstep", "analyze", "--late-after", ""), [])
        self.assertEqual(set(self.complete("lockstep-analyze", "--output", "")), {"folder", "lockstep"}, "a file")
        self.assertEqual(self.complete("lockstep", "clean", "--incidents", ""), ["folder"])
        self.assertEqual(self.complete("lockstep", "clean", "--dry-run", "--ke"), ["--keep", "--keep-bytes"])
        self.assertEqual(self.complete("lockstep", "keygen", ""), ["folder"])
        self.assertEqual(self.complete("lockstep", "dump", ""), [], "a job")
        self.assertEqual(self.complete("lockstep", "config", "rec"), ["recorder"])

    def test_the_reference_matches_these_programs(self):
        with open(os.path.join(SOURCE, "docs/options.md")) as file:
            kept = file.read()
        sections = dict(re.findall(r"^## lockstep ([a-z-]+)\n(.*?)(?=^## |\Z)", kept, re.M | re.S))
        made = dict(re.findall(r"^## lockstep ([a-z-]+)\n(.*?)(?=^## |\Z)", make("reference"), re.M | re.S))
        for verb, text in made.items():
            self.assertEqual(sections.get(verb, "").strip(), text.strip(), "regenerate it: packaging/pages.py build/bin reference > docs/options.md")
        self.assertEqual(kept.split("## The recorder")[-1], make("reference").split("## The recorder")[-1], "as above")

    def test_every_option_has_a_key_and_a_variable(self):
        output = subprocess.run([LOCKSTEP, "config", "--reference"], stdout=subprocess.PIPE, text=True, check=True).stdout
        table = json.loads(output)["settings"]
        for verb in verbs():
            known = {row["option"] for row in table if row["section"] == verb}
            given = options(verb) - {"--help", "--version", "--no-config", "--json-schema"}
            if verb == "analyze":
                given -= {"--job"}  # --job selects a job in a folder and is no setting
            if verb == "replay":
                given -= {"--job", "--suspect"}  # these options select in one incident and are no settings
            if verb == "attach":
                given -= {"--job", "--slurm", "--agents", "--hosts", "--stream", "--ask-torch", "--kubernetes", "--namespace", "--container"}  # these options
                                                                                                                                               # apply to one
                                                                                                                                               # call and are
                                                                                                                                               # no settings
            if verb == "config":
                self.assertEqual(known, set(), "config has no settings of its own")
                continue
            self.assertEqual({option for option in given if option not in known}, set(), f"{verb}: add it to analyzer/settings/verbs.cpp")
            self.assertEqual({option for option in known if option.startswith("--") and option not in given}, set(), f"{verb}: not in its --help")

    def test_the_recorders_variables_match_its_page(self):
        output = subprocess.run([LOCKSTEP, "config", "--reference"], stdout=subprocess.PIPE, text=True, check=True).stdout
        with open(os.path.join(SOURCE, "docs/recorder.md")) as file:
            page = file.read()
        for row in json.loads(output)["settings"]:
            if row["section"] == "recorder":
                self.assertIn(row["variable"], page)

    def test_every_variable_the_programs_read_is_in_the_reference(self):
        output = subprocess.run([LOCKSTEP, "config", "--reference"], stdout=subprocess.PIPE, text=True, check=True).stdout
        known = {row["variable"] for rows in ("settings", "variables") for row in json.loads(output)[rows]}
        # Variables for tests and between Lockstep's programs, not for users.
        inner = {"LOCKSTEP_FAKE_NVML", "LOCKSTEP_FAKE_NVML_LIBRARY", "LOCKSTEP_TEST_CONFIG"}
        read = {}
        for folder in ("analyzer", "collector", "recorder", "gui", "packaging"):
            for path in glob.glob(os.path.join(SOURCE, folder, "**/*"), recursive=True):
                name = os.path.basename(path)
                if not os.path.isfile(path) or "/testing/" in path or not name.endswith((".cpp", ".h", ".sh")) or re.search(r"_test|test_|fake_|_main_test", name):
                    continue
                with open(path, errors="replace") as file:
                    text = file.read()
                names = re.findall(r"\$\{?(LOCKSTEP[A-Z_]*)", text) if name.endswith(".sh") else re.findall(r'(?:getenv|Variable|Setting|IsSet)\([^()"]*"(LOCKSTEP[A-Z_]*)"', text)
                for variable in names:
                    read.setdefault(variable, os.path.relpath(path, SOURCE))
        self.assertGreater(len(read), 25)
        self.assertEqual({variable: path for variable, path in read.items() if variable not in known | inner}, {}, "add them to analyzer/settings")


if __name__ == "__main__":
    unittest.main()
