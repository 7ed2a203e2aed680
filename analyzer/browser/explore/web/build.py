#!/usr/bin/env python3
"""Builds explore.js from the TypeScript here, with Debian's node-typescript (checks types) and esbuild (bundles). The output is reproducible.

Usage: build.py           writes explore.js
       build.py --check   exit 1: explore.js does not match the sources; 77: tsc or esbuild is not installed"""

import os
import shutil
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
BUILT = os.path.join(FOLDER, "explore.js")


def main():
    check = sys.argv[1:] == ["--check"]
    for tool in ("tsc", "esbuild"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed (apt-get install node-typescript esbuild)")
            return 1 if "explore_build_test" in os.environ.get("LOCKSTEP_NO_SKIP", "").split(",") else 77
    subprocess.run(["tsc", "--project", os.path.join(FOLDER, "tsconfig.json")], check=True)
    script = subprocess.run(["esbuild", "main.ts", "--bundle", "--format=iife", "--target=es2020", "--charset=ascii", "--log-level=warning"],
                            cwd=FOLDER, check=True, stdout=subprocess.PIPE).stdout
    if not check:
        with open(BUILT, "wb") as file:
            file.write(script)
        return 0
    with open(BUILT, "rb") as file:
        if file.read() == script:
            return 0
    print("explore.js does not match its sources; run analyzer/browser/explore/web/build.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
