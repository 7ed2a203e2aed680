#!/usr/bin/env python3
"""Links a program with archives: runs a link command with the archive next to each shared library in it.

link.py [--linked FILE] [--shared NAME] [--also LIBRARY,...] -- COMMAND...
--linked FILE    write the archives that contributed members to FILE, one path per line
--shared NAME    leave libraries shared whose file name starts with NAME
--also a,b       libraries that the archives themselves need (-la -lb), at the end"""

import argparse
import os
import re
import subprocess
import sys

SHARED = re.compile(r"^(/.*)\.so[.0-9]*$")


def archive_of(path):
    archive = SHARED.match(path).group(1) + ".a"
    if not os.path.exists(archive):
        sys.exit(f"link.py: no static archive beside {path} (looked for {archive})")
    return archive


def main():
    split = sys.argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--linked")
    parser.add_argument("--shared", action="append", default=[])
    parser.add_argument("--also", default="")
    asked = parser.parse_args(sys.argv[1:split])

    words = []
    for word in sys.argv[split + 1:]:
        name = os.path.basename(word)
        if word.startswith("-Wl,-rpath"):
            continue
        if SHARED.match(word) and not any(name.startswith(start) for start in asked.shared):
            word = archive_of(word)
        words.append(word)
    words += ["-l" + library for library in asked.also.split(",") if library]
    if not asked.linked:
        return subprocess.run(words).returncode
    done = subprocess.run(words + ["-Wl,--trace,--trace"], stdout=subprocess.PIPE, text=True)
    archives = set()
    for line in done.stdout.splitlines():
        # "(/usr/lib/libc.a)printf.o" from one linker, "/usr/lib/libc.a(printf.o)" from another
        found = re.search(r"([^\s()]+\.a)[()]", line)
        if found:
            archives.add(os.path.realpath(found.group(1)))
        elif not re.search(r"\.(o|a|so)\b", line):
            print(line)
    if done.returncode == 0:
        with open(asked.linked, "w") as out:
            out.write("".join(path + "\n" for path in sorted(archives)))
    return done.returncode


sys.exit(main())
