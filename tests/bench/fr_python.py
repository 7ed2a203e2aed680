#!/usr/bin/env python3
"""Reads Flight Recorder pickles with Python's pickle module.

fr_python.py load FOLDER            time a plain pickle.load of every file, in one process, as Python analyzers do
fr_python.py resave FROM TO         load every file and write it again (protocol 4), as scripts that gather dumps do
"""
import gc
import os
import pickle
import sys
import time


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("load", "resave"):
        sys.exit(__doc__)
    folder = sys.argv[2]
    names = sorted(name for name in os.listdir(folder) if not name.endswith(".json"))
    gc.disable()  # like other analyzers, because there are millions of small objects and no cycles
    size = entries = 0
    begin = time.monotonic()
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            dump = pickle.load(file)
        size += os.path.getsize(os.path.join(folder, name))
        entries += len(dump["entries"])
        if sys.argv[1] == "resave":
            os.makedirs(sys.argv[3], exist_ok=True)
            with open(os.path.join(sys.argv[3], name), "wb") as file:
                pickle.dump(dump, file, protocol=4)
    seconds = time.monotonic() - begin
    print(f"{len(names)} files, {entries} entries, {size / 1e6:.0f} MB: {seconds:.1f} s, {size / 1e6 / seconds:.0f} MB/s")


if __name__ == "__main__":
    main()
