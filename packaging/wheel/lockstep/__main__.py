"""`python -m lockstep VERB ...`, and the command `lockstep`: the program replaces this process."""

import os
import signal
import sys

import lockstep


def main():
    # Python ignores these signals, and the program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(lockstep.program(), ["lockstep", *sys.argv[1:]])


if __name__ == "__main__":
    main()
