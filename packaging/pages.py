#!/usr/bin/env python3
"""Generates man pages, shell completion and docs/options.md from the table of verbs and options that `lockstep config --reference` prints.

pages.py BIN man FOLDER        lockstep.1 and lockstep-VERB.1
pages.py BIN completion FOLDER lockstep (bash; zsh uses it with bashcompinit)
pages.py BIN reference         docs/options.md on standard output
BIN is the folder of the programs. The first two leave out verbs without a program there, and those in --without VERB,VERB."""

import json
import os
import re
import subprocess
import sys

def given(group):
    return [row for row in group["options"] if row["option"]]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text).replace("\n", "\n.br\n")


def man_options(rows):
    out = []
    for row in rows:
        value = f" \\fI{roff(row['value'])}\\fR" if row["value"] else ""
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in row["option"].split(", "))
        out += [".TP", names + value, roff(row["meaning"] + (f" ({row['details']})" if row["details"] else ""))]
    return out


def man_page(verb, common, version, others):
    name = verb["name"]
    out = [f'.TH LOCKSTEP\\-{name.upper()} 1 "" "lockstep {version}" "Lockstep"', ".SH NAME", f"lockstep\\-{name} \\- {roff(verb['purpose'])}", ".SH SYNOPSIS"]
    for usage in verb["usage"]:
        out += [f".B {roff(usage)}", ".br"]
    out.append(".SH DESCRIPTION")
    for paragraph in verb["text"]:
        out += [".PP", roff(paragraph)]
    out.append(".SH OPTIONS")
    for group in verb["groups"]:
        out += [f".SS {roff(group['title'])}"] if group["title"] else []
        out += man_options(given(group))
    out += man_options(common)
    notes = [note for note in verb["notes"] if not note.startswith("Exit status: ")]
    for note in verb["notes"]:
        if note not in notes:
            out += [".SH EXIT STATUS", roff(note[len("Exit status: "):])]
    if notes:
        out += [".SH NOTES", *(line for note in notes for line in (".PP", roff(note)))]
    if verb["examples"]:
        out.append(".SH EXAMPLES")
        for example in verb["examples"]:
            out += [".TP", f"\\fB{roff(example['command'])}\\fR", roff(example["meaning"])]
    out += [".SH SEE ALSO", ", ".join(f"\\fBlockstep\\-{roff(other)}\\fR(1)" for other in others if other != name)]
    return "\n".join(line for line in out if line) + "\n"


def front_page(verbs, version):
    out = [f'.TH LOCKSTEP 1 "" "lockstep {version}" "Lockstep"', ".SH NAME", "lockstep \\- flight recorder and desync debugger for distributed GPU training",
           ".SH SYNOPSIS", ".B lockstep", "\\fIVERB\\fR [\\fIARGUMENTS\\fR...]", ".SH DESCRIPTION",
           "Names the rank that hung a distributed training job, or the call on which its ranks disagree. Each verb is a separate program.", ".SH VERBS"]
    for verb in verbs:
        out += [".TP", f"\\fBlockstep\\-{roff(verb['name'])}\\fR(1)", roff(verb["purpose"])]
    return "\n".join(out) + "\n"


def values_of(row):
    """Returns how the shell completes a value: with these words, files, folders or nothing."""
    if row["kind"] == "choice":
        return "words " + row["choices"].replace("|", " ")
    return {"file": "files", "folder": "folders"}.get(row["kind"], "nothing")


def completion(verbs, common):
    names = " ".join(verb["name"] for verb in verbs)
    options, values, operands = [], [], []
    for verb in verbs:
        rows = [row for group in verb["groups"] for row in given(group)]
        words = [name for row in rows + common for name in row["option"].split(", ") if name.startswith("--")]
        options.append(f'    {verb["name"]}) echo "{" ".join(words)}" ;;')
        values += [f'    {verb["name"]}:{row["option"]}) echo "{values_of(row)}" ;;' for row in rows if row["value"]]
        operand = "files" if verb["operand"] == "COMMAND" else f"words {names} recorder" if verb["operand"] == "VERB" else values_of({"kind": verb["operand_kind"]})
        operands.append(f'    {verb["name"]}) echo "{operand}" ;;')
    newline = "\n"
    return f"""# Completion of lockstep for bash; in zsh: autoload -U bashcompinit && bashcompinit, then source it. Made by packaging/pages.py.
_lockstep_options() {{
  case $1 in
{newline.join(options)}
  esac
}}

# What completes the value of an option; empty: it takes none.
_lockstep_values() {{
  case $1 in
{newline.join(values)}
  esac
}}

_lockstep_operands() {{
  case $1 in
{newline.join(operands)}
  esac
}}

_lockstep() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb= how=
  local first=${{COMP_WORDS[0]##*/}}
  if [[ $first == lockstep-* ]]; then
    verb=${{first#lockstep-}}
  elif [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{names} --help --version" -- "$word"))
    return
  else
    verb=${{COMP_WORDS[1]}}
  fi
  # --option=value is three words.
  if [ "$word" = = ]; then
    word=
  elif [ "$before" = = ] && [ "$COMP_CWORD" -ge 2 ]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  how=$(_lockstep_values "$verb:$before")
  if [ -z "$how" ] && [[ $word == -* ]]; then
    how="words $(_lockstep_options "$verb")"
  fi
  [ -n "$how" ] || how=$(_lockstep_operands "$verb")
  case $how in
    words*) COMPREPLY=($(compgen -W "${{how#words}}" -- "$word")) ;;
    files) COMPREPLY=($(compgen -f -- "$word")) ;;
    folders) COMPREPLY=($(compgen -d -- "$word")) ;;
    *) COMPREPLY=() ;;
  esac
}}
complete -o filenames -F _lockstep lockstep {" ".join("lockstep-" + verb["name"] for verb in verbs)}
"""


FILES = """Every setting has three sources. Later ones take precedence over earlier ones:

1. configuration files: `/etc/lockstep.conf`, then the one that `LOCKSTEP_CONFIG` names;
2. environment variables;
3. options.

A file has lines `KEY = VALUE` below a line `[SECTION]`. A section is a verb's name, `[recorder]`, or `[common]` for the keys that are marked *common* here. In one
file, a verb's own section takes precedence over `[common]`. A line that begins with `#` or `;` is a comment; a comment cannot follow a value. Flags take `yes` or
`no`; on the command line, `--FLAG=no` overrides a file or a variable. Commas separate the parts of a list, and colons those of `rings`. An unknown key is reported
with the most similar known one. A wrong value is an error that names file, line and key. A file has at most 32 KiB, and a line at most 512 bytes. A world-writable
file is not read. Root reads only files that belong to root and that no other group can write. With `--no-config`, a verb reads no file.

    # /etc/lockstep.conf
    [common]
    collector = tcp://head:9470
    keys = /etc/lockstep/keys
    [recorder]
    gpu = done
    [collector]
    keep = 14d

`lockstep config` prints every setting, its value and its source. `lockstep config --check` prints only what is wrong. `lockstep doctor` names the files in use."""


HOOKS = """**Files of variables.** These files set environment variables of the programs that they start: `/etc/lockstep/agent.env` and `collector.env` (the systemd units'
`EnvironmentFile`), `/etc/lockstep/slurm/environment` (read by Slurm's prolog, TaskProlog and epilog as shell) and `/etc/lockstep/enroot.env` (read by the Enroot
hook). They take precedence over configuration files, and options take precedence over them. The files of the units and of Slurm replace variables that are
already set. `lockstep config`, run with the same variables, prints the result."""


def reference(table):
    def cell(text):
        return text.replace("|", "\\|").replace("<", "\\<").replace("\n", "<br>")

    def key(row):
        return f"`{row['key']}`" + (", *common*" if row["common"] else "")

    out = ["# Options, variables and files", "", "`packaging/pages.py` generates this page from the table that defines the options and settings of all programs.", "", FILES, "",
           "Every verb also has `-h`, `--help`, `-V`, `--version` and `--no-config` (read no configuration file). `--NAME VALUE` and `--NAME=VALUE` are the same; `--` "
           "ends the options. If an option is given twice, the last one counts, or all if it may be repeated.", ""]
    for verb in table["verbs"]:
        out += [f"## lockstep {verb['name']}", "", *(f"    {usage}" for usage in verb["usage"]), ""]
        for paragraph in verb["text"]:
            out += [cell(paragraph), ""]
        for group in verb["groups"]:
            out += [f"**{group['title']}**", ""] if group["title"] else []
            out += ["| option | key | variable | default | meaning |", "| --- | --- | --- | --- | --- |"]
            for row in given(group):
                option = row["option"] + (f" {row['value']}" if row["value"] else "")
                names = f"{key(row)} | `{row['variable']}`" if row["variable"] else " | "
                choices = ": " + row["choices"].replace("|", ", ") if row.get("choices") and "\n" not in row["meaning"] else ""
                repeats = "; may be repeated" if row["repeats"] else ""
                out.append(f"| `{option}` | {names} | {cell(row['default'])} | {cell(row['meaning'] + choices + repeats)} |")
            out.append("")
        for note in verb["notes"]:
            out += [cell(note), ""]
        for example in verb["examples"]:
            out += [f"    {example['command']}" + (f"    # {example['meaning']}" if example["meaning"] else "")]
        out += [""] if verb["examples"] else []
        others = [row for group in verb["groups"] for row in group["options"] if not row["option"]]
        if others:
            out += ["Without an option: " + "; ".join(f"{key(row)} or `{row['variable']}` (default {cell(row['default'])})" for row in others) + ".", ""]
    out += ["## The recorder", "", "Settings of the library in the training processes: variables, or keys below `[recorder]`. [recorder.md](recorder.md) explains the important ones.", "",
            "| variable | key | takes | default | meaning |", "| --- | --- | --- | --- | --- |"]
    for row in table["settings"]:
        if row["section"] == "recorder":
            out.append(f"| `{row['variable']}` | {key(row)} | {cell(row.get('choices', ''))} | {cell(row['default'])} | {cell(row['meaning'])} |")
    out += ["", "## Variables without a key", "", "| variable | read by | meaning |", "| --- | --- | --- |"]
    for row in table["variables"]:
        out.append(f"| `{row['variable']}` | {row['readers']} | {cell(row['meaning'])} |")
    out += ["", HOOKS]
    return "\n".join(out).rstrip() + "\n"


def write(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def main(arguments):
    left_out = ()
    if "--without" in arguments[:-1]:
        at = arguments.index("--without")
        left_out = arguments[at + 1].split(",")
        arguments = arguments[:at] + arguments[at + 2:]
    if len(arguments) < 2 or arguments[1] not in ("man", "completion", "reference") or (arguments[1] != "reference") != (len(arguments) == 3):
        print(__doc__, file=sys.stderr)
        return 2
    bin_folder = arguments[0]
    table = json.loads(subprocess.run([os.path.join(bin_folder, "lockstep-config"), "--reference"], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout)
    if arguments[1] == "reference":
        sys.stdout.write(reference(table))
        return 0
    verbs = [verb for verb in table["verbs"] if verb["name"] not in left_out and os.path.exists(os.path.join(bin_folder, "lockstep-" + verb["name"]))]
    if arguments[1] == "completion":
        write(arguments[2], "lockstep", completion(verbs, table["common"]))
    else:
        write(arguments[2], "lockstep.1", front_page(verbs, table["version"]))
        for verb in verbs:
            write(arguments[2], f"lockstep-{verb['name']}.1", man_page(verb, table["common"], table["version"], [other["name"] for other in verbs]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
