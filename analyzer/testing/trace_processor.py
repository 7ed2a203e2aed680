"""Perfetto's trace processor, for tests: from Debian's package chromium-shell, which contains it as a shared library for Chromium's own tests.

Usage: trace_processor.py LIBRARY TRACE QUERY...
Prints {"opened": bool, "answers": [rows of texts or an error's text, for each query]} as JSON.

The library's interface is the C++ class base::test::TestTraceProcessorImpl. The calls follow the platform's C++ ABI and libc++'s layout of strings
and vectors. Both may change with a version of Chromium, so this runs as a separate process, and `usable` first tests it without the trace."""

import ctypes
import glob
import json
import os
import subprocess
import sys

PLACES = ("/usr/lib/chromium/libtest_trace_processor.so",)
CLASS = "4base4test22TestTraceProcessorImpl"
STRING = "NSt3__112basic_stringIcNS2_11char_traitsIcEENS2_9allocatorIcEEEE"
STRING_BYTES = 24  # bytes of libc++'s string: long form (capacity with the lowest bit set, size, data), or short form (size << 1, text)


def library():
    """Returns the path of the library, or None."""
    for place in PLACES:
        for path in glob.glob(place):
            return path
    return None


def ask(path, trace, queries):
    """Runs this file as a process and returns what it prints. None if it
    died or this version has another interface."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), path, trace, *queries], capture_output=True, text=True, timeout=100, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def usable(path):
    """Returns whether this version has the expected interface: an empty
    trace opens, and arithmetic is answered."""
    return ask(path, os.devnull, []) is not None


class Processor:
    def __init__(self, path):
        # Deep binding makes the library use its own libc++ instead of one that the process has loaded.
        self.library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        make = getattr(self.library, f"_ZN{CLASS}C1Ev")
        make.restype, make.argtypes = None, [ctypes.c_void_p]
        self.object = ctypes.create_string_buffer(4096)
        make(self.object)

    def open(self, data):
        """Calls absl::Status ParseTrace(const std::vector<char>&). Returns
        True if the status is the inlined OK."""
        parse = getattr(self.library, f"_ZN{CLASS}10ParseTraceERKNSt3__16vectorIcNS2_9allocatorIcEEEE")
        parse.restype, parse.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        bytes_ = ctypes.create_string_buffer(data, len(data))
        begin = ctypes.addressof(bytes_)
        vector = (ctypes.c_uint64 * 3)(begin, begin + len(data), begin + len(data))
        status = (ctypes.c_uint64 * 1)(0)
        parse(status, self.object, vector)
        return status[0] == 1

    def query(self, sql):
        """Returns rows of texts, the first with the columns' names, or the text of an error. Calls QueryResultOrError ExecuteQuery(const
        std::string&) const: a variant of std::vector<std::vector<std::string>> and std::string."""
        execute = getattr(self.library, f"_ZNK{CLASS}12ExecuteQueryERK{STRING}")
        execute.restype, execute.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        text = ctypes.create_string_buffer(sql.encode())
        string = (ctypes.c_uint64 * 3)((len(text) + 15 & ~15) | 1, len(text) - 1, ctypes.addressof(text))
        answer = ctypes.create_string_buffer(256)
        execute(answer, self.object, string)
        at = ctypes.addressof(answer)
        index = ctypes.c_uint32.from_address(at + STRING_BYTES).value & 0xFF
        if index == 1:
            return self.string(at)
        return [[self.string(cell) for cell in self.elements(row, STRING_BYTES)] for row in self.elements(at, 24)]

    @staticmethod
    def elements(at, size):
        begin, end = (ctypes.c_uint64.from_address(at + 8 * i).value for i in range(2))
        return range(begin, end, size)

    @staticmethod
    def string(at):
        first = ctypes.c_uint8.from_address(at).value
        if first & 1:
            size, data = (ctypes.c_uint64.from_address(at + 8 * i).value for i in (1, 2))
        else:
            size, data = first >> 1, at + 1
        return ctypes.string_at(data, size).decode()


def main():
    path, trace, *queries = sys.argv[1:]
    processor = Processor(path)
    answer = processor.query("select 6 * 7 as number, 'more letters than a short one holds' as text")
    if answer != [["number", "text"], ["42", "more letters than a short one holds"]]:
        sys.exit(f"the library does not speak as expected: {answer}")
    with open(trace, "rb") as file:
        opened = processor.open(file.read())
    json.dump({"opened": opened, "answers": [processor.query(query) for query in queries]}, sys.stdout)


if __name__ == "__main__":
    main()
