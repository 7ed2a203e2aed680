#!/usr/bin/env python3
"""Man pages, shell completion and docs/options.md from what the programs' --help says, so that there is one source.

pages.py BIN man FOLDER        lockstep.1 and lockstep-VERB.1
pages.py BIN completion FOLDER lockstep (bash; zsh takes it with bashcompinit)
pages.py BIN reference         docs/options.md on standard output
BIN is the folder of the programs."""

import dataclasses
import json
import os
import re
import subprocess
import sys


@dataclasses.dataclass
class Option:
    names: list  # "-h", "--help"
    value: str  # "FILE"; empty: it takes none
    text: str


@dataclasses.dataclass
class Page:
    verb: str
    summary: str  # of the verb, as lockstep --help has it
    usage: list
    blocks: list  # paragraphs (str) and lists of options, in order


OPTION = re.compile(r"^ {2,6}(?P<names>-[^ ].*?)(?:  +(?P<text>.*))?$")


def option_of(line):
    """None where the line does not begin an option."""
    match = OPTION.match(line)
    if not match:
        return None
    names, value, text = [], "", match.group("text")
    rest = match.group("names")
    # A long name leaves one blank before its text: a value is upper case or dots.
    head = re.match(r"^((?:-{1,2}[\w-]+(?:, )?)+)(?: ([A-Z][\w:.,\[\]-]*(?:\.\.\.)?))?(?: (.*))?$", rest)
    if not head:
        return None
    names = head.group(1).rstrip(", ").split(", ")
    value = head.group(2) or ""
    text = " ".join(part for part in (head.group(3), text) if part)
    return Option(names, value, text)


def page_of(bin_folder, verb, summary):
    said = subprocess.run([os.path.join(bin_folder, "lockstep-" + verb), "--help"], stdout=subprocess.PIPE, text=True, timeout=60, check=True,
                          env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}).stdout
    lines = said.rstrip().split("\n")
    page = Page(verb, summary, [], [])
    while lines and lines[0].strip():
        line = lines.pop(0)
        if not page.usage:
            page.usage.append(re.sub(r"^Usage: ", "", line))
        elif line.startswith(("   ", "or:")):
            page.usage.append(line.strip())
        else:
            lines.insert(0, line)
            break
    open_option = None
    for line in lines:
        option = option_of(line)
        if option:
            if not page.blocks or not isinstance(page.blocks[-1], list):
                page.blocks.append([])
            page.blocks[-1].append(option)
            open_option = option
        elif not line.strip():
            open_option = None
            page.blocks.append("")
        elif line.startswith("    ") and open_option:
            open_option.text += " " + line.strip()
        elif page.blocks and isinstance(page.blocks[-1], str) and page.blocks[-1]:
            page.blocks[-1] += " " + line.strip()
        else:
            page.blocks.append(line.strip())
            open_option = None
    page.blocks = [block for block in page.blocks if block]
    return page


def pages(bin_folder):
    said = subprocess.run([os.path.join(bin_folder, "lockstep"), "--help"], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    return [page_of(bin_folder, verb, summary) for verb, summary in re.findall(r"^  ([a-z-]+) +(\S.*)$", said, re.M)]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def man_page(page, version, others):
    out = [f'.TH LOCKSTEP\\-{page.verb.upper()} 1 "" "lockstep {version}" "Lockstep"', ".SH NAME", f"lockstep\\-{page.verb} \\- {roff(page.summary)}",
           ".SH SYNOPSIS"]
    for usage in page.usage:
        out += [f".B {roff(usage)}", ".br"]
    out.append(".SH DESCRIPTION")
    in_options = False
    for block in page.blocks:
        if isinstance(block, list):
            if not in_options:
                out.append(".SH OPTIONS")
                in_options = True
            for option in block:
                value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
                out += [".TP", ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names) + value, roff(option.text)]
        elif block.startswith("Exit status"):
            out += [".SH EXIT STATUS", roff(re.sub(r"^Exit status:? *", "", block))]
        else:
            if in_options:
                out.append(".SH NOTES")
                in_options = False
            else:
                out.append(".PP")
            out.append(roff(block))
    out += [".SH SEE ALSO", ", ".join(f"\\fBlockstep\\-{roff(other)}\\fR(1)" for other in others if other != page.verb)]
    return "\n".join(out) + "\n"


def front_page(all_pages, version):
    out = [f'.TH LOCKSTEP 1 "" "lockstep {version}" "Lockstep"', ".SH NAME", "lockstep \\- flight recorder and desync debugger for distributed GPU training",
           ".SH SYNOPSIS", ".B lockstep", "\\fIVERB\\fR [\\fIARGUMENTS\\fR...]", ".SH DESCRIPTION",
           "Says which rank hung a distributed training job, or on what its ranks disagree. Each verb is a program of its own.", ".SH VERBS"]
    for page in all_pages:
        out += [".TP", f"\\fBlockstep\\-{roff(page.verb)}\\fR(1)", roff(page.summary)]
    return "\n".join(out) + "\n"


def completion(all_pages):
    cases, paths, words = [], [], []
    for page in all_pages:
        options = [option for block in page.blocks if isinstance(block, list) for option in block]
        names = [name for option in options for name in option.names if name.startswith("--")]
        cases.append(f'    {page.verb}) echo "{" ".join(names)}" ;;')
        for option in options:
            long_names = [name for name in option.names if name.startswith("-")]
            if option.value in ("FILE", "DIR", "FOLDER", "PATH", "KEY"):
                paths += [f"{page.verb}:{name}" for name in long_names]
            elif option.value:
                words += [f"{page.verb}:{name}" for name in long_names]
    verbs = " ".join(page.verb for page in all_pages)
    newline = "\n"
    return f"""# Completion of lockstep for bash; in zsh: autoload -U bashcompinit && bashcompinit, then source it. Made by packaging/pages.py.
_lockstep_options() {{
  case $1 in
{newline.join(cases)}
  esac
}}

_lockstep() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=
  local first=${{COMP_WORDS[0]##*/}}
  if [[ $first == lockstep-* ]]; then
    verb=${{first#lockstep-}}
  elif [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{verbs} --help --version" -- "$word"))
    return
  else
    verb=${{COMP_WORDS[1]}}
  fi
  case " {" ".join(words)} " in
    *" $verb:$before "*) COMPREPLY=(); return ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(_lockstep_options "$verb")" -- "$word"))
    return
  fi
  # Options that name files, and everything that is no option.
  COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _lockstep lockstep {" ".join("lockstep-" + page.verb for page in all_pages)}
"""


FILES = """Everything is set in one of three ways; what stands later in this list counts more:

1. configuration files: `/etc/lockstep.conf`, then the one that `LOCKSTEP_CONFIG` names;
2. environment variables;
3. options.

A file is lines `KEY = VALUE` below a line `[SECTION]`: a verb's name, `[recorder]`, or `[common]` for the keys that are marked with *common*
here (in one file a verb's own section counts more). `#` or `;` begins a line of comment; there is none behind a value. Flags take `yes` or `no`; on the command line
`--FLAG=no` takes back what a file or a variable says. Lists have commas between their parts, `rings` colons. A key that nobody knows is told, with the one that is probably meant; a value that cannot be
is an error, which names file, line and key. A file is at most 32 KiB, its lines 512 bytes. A file that everybody can write is not read; root reads
only what belongs to root and what no other group can write. `--no-config` with any verb: no file is read.

    # /etc/lockstep.conf
    [common]
    collector = tcp://head:9470
    keys = /etc/lockstep/keys
    [recorder]
    gpu = done
    [collector]
    keep = 14d

`lockstep config` prints every setting, its value and where that comes from; `lockstep config --check` says only what is wrong; `lockstep doctor` names the files in force."""


HOOKS = """**Files of variables.** `/etc/lockstep/agent.env` and `collector.env` (the systemd units' `EnvironmentFile`), `/etc/lockstep/slurm/environment` (read by
Slurm's prolog, TaskProlog and epilog as shell) and `/etc/lockstep/enroot.env` (read by the Enroot hook) set environment variables of what they start. So
each counts more than `/etc/lockstep.conf` and the file of `LOCKSTEP_CONFIG`, and less than options; where the process had the variable already, the unit's file
and Slurm's replace it. `lockstep config` run with the same variables shows what comes out."""


def settings(bin_folder):
    """section -> key -> what lockstep config tells of it, in its order."""
    said = subprocess.run([os.path.join(bin_folder, "lockstep-config"), "--reference"], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    table = {}
    for row in json.loads(said):
        table.setdefault(row["section"], {})[row["key"] or row["variable"]] = row
    return table


def reference(all_pages, table):
    def cell(text):
        return text.replace("|", "\\|").replace("<", "\\<")

    def key(row):
        return f"`{row['key']}`" + (", *common*" if row["common"] else "")

    out = ["# Options, variables and files", "", "Made by `packaging/pages.py` from what every verb's `--help` says and from the table that the programs read settings by.", "", FILES, ""]
    for page in all_pages:
        out += [f"## lockstep {page.verb}", "", *(f"    {usage}" for usage in page.usage), ""]
        for block in page.blocks:
            if isinstance(block, list):
                out += ["| option | key | variable | meaning |", "| --- | --- | --- | --- |"]
                for option in block:
                    value = f" {option.value}" if option.value else ""
                    row = next((row for row in table.get(page.verb, {}).values() if row["option"] in option.names), None)
                    names = f"{key(row)} | `{row['variable']}`" if row else " | "
                    out.append(f"| `{', '.join(option.names)}{value}` | {names} | {cell(option.text)} |")
                out.append("")
            else:
                out += [cell(block), ""]
        others = [row for row in table.get(page.verb, {}).values() if not row["option"]]
        if others:
            out += ["Without an option: " + "; ".join(f"{key(row)} or `{row['variable']}` (default {cell(row['default'])})" for row in others) + ".", ""]
    out += ["## The recorder", "", "Of the library in the training processes: variables, or keys below `[recorder]`. [recorder.md](recorder.md) tells more of each.", "",
            "| variable | key | takes | default | meaning |", "| --- | --- | --- | --- | --- |"]
    for row in table["recorder"].values():
        out.append(f"| `{row['variable']}` | {key(row)} | {cell(row.get('choices', ''))} | {cell(row['default'])} | {cell(row['meaning'])} |")
    out += ["", "## Variables without a key", "", "| variable | read by | meaning |", "| --- | --- | --- |"]
    for row in table[""].values():
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
    made = [page for page in pages(bin_folder) if page.verb not in left_out]
    version = subprocess.run([os.path.join(bin_folder, "lockstep"), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
    if arguments[1] == "reference":
        sys.stdout.write(reference(made, settings(bin_folder)))
    elif arguments[1] == "completion":
        write(arguments[2], "lockstep", completion(made))
    else:
        write(arguments[2], "lockstep.1", front_page(made, version))
        for page in made:
            write(arguments[2], f"lockstep-{page.verb}.1", man_page(page, version, [other.verb for other in made]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
