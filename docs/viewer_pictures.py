#!/usr/bin/env python3
"""Makes the pictures of docs/viewer.md and the README from a generated incident: docs/viewer_pictures.py [BUILD] (default build).
Needs no screen. Colors are reduced with ImageMagick where it is installed."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent
SCENARIO, RANKS = 7, 64   # a data loader that hangs, tensor, pipeline and data parallel
PICTURES = (
    ("viewer-answer", ["--tab", "answer", "--theme", "light"]),
    ("viewer-matrix", ["--tab", "matrix", "--theme", "light"]),
    ("viewer-wait-for", ["--tab", "wait-for", "--theme", "dark"]),
    ("viewer-stacks", ["--tab", "stacks", "--theme", "light"]),
)
MOST_BYTES = 200_000


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT.parent / "build").resolve()
    out = ROOT / "pictures"
    out.mkdir(exist_ok=True)
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen", LC_ALL="C.UTF-8", QT_SCALE_FACTOR="1")
    with tempfile.TemporaryDirectory(prefix="lockstep-pictures-") as folder:
        data = pathlib.Path(folder, "made", "incident")
        subprocess.run([build / "bin" / "lockstep-corpus", "generate", "--scenario", str(SCENARIO), "--ranks", str(RANKS), "--layout", "3d",
                        "--depth", "256", "--out", data.parent], check=True, stdout=subprocess.DEVNULL)
        (data.parent / "data").rename(data)
        for name, options in PICTURES:
            picture = out / f"{name}.png"
            subprocess.run([build / "bin" / "lockstep-view", "--screenshot", picture, "--size", "1280x800", "--select-anomaly", "1", *options, data],
                           check=True, env=environment)
            if shutil.which("convert"):
                subprocess.run(["convert", picture, "+dither", "-colors", "128", "-strip", f"PNG8:{picture}"], check=True)
            size = picture.stat().st_size
            print(f"{picture}: {size} bytes")
            if size > MOST_BYTES:
                raise SystemExit(f"{picture} is larger than {MOST_BYTES} bytes")


if __name__ == "__main__":
    main()
