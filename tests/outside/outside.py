#!/usr/bin/env python3
"""Compares software that Lockstep depends on, as published on PyPI, with Lockstep's assumptions.

outside.py --build BUILD [--folder FOLDER] [--quick] [PART...]

Skips a part, or one case of a part, with a message if a package is not available. Downloads stay in FOLDER.
"""

import argparse
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import assistant  # noqa: E402
import live_jobs  # noqa: E402
import nccl_wheels  # noqa: E402
import preloaded  # noqa: E402
import python_stacks  # noqa: E402
import systems  # noqa: E402
import torch_check  # noqa: E402
import torch_families  # noqa: E402
import torch_gloo  # noqa: E402
import torch_restart  # noqa: E402
import wheel  # noqa: E402
from support import Outside, Skip  # noqa: E402

PARTS = {"nccl": nccl_wheels.run, "python": python_stacks.run, "preload": preloaded.run, "torch": torch_gloo.run,
         "families": torch_families.run, "restart": torch_restart.run, "check": torch_check.run, "assistant": assistant.run, "attach": live_jobs.run,
         "wheel": wheel.run, "systems": systems.run_part}


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--folder", default=cache / "lockstep-outside", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="test fewer releases, as for every change")
    parser.add_argument("parts", nargs="*", metavar="PART", help="some of %s (all)" % ", ".join(PARTS))
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error("unknown part %s; parts: %s" % (part, ", ".join(PARTS)))
    outside = Outside(options.folder.resolve(), pathlib.Path(options.build).resolve(), options.quick)
    try:
        for part in options.parts or PARTS:
            began = time.monotonic()
            try:
                PARTS[part](outside)
            except Skip as why:
                outside.skip(part, why)
            print("%s: %.0f s" % (part, time.monotonic() - began), flush=True)
    finally:
        outside.close()
    print("%d passed, %d failed, %d skipped" % (outside.passed, outside.failed, outside.skipped))
    return 1 if outside.failed else 0


if __name__ == "__main__":
    sys.exit(main())
