// A module that Python loads at startup in every rank of a checked job. It writes PyTorch's Flight Recorder dump when
// the rank exits: a job on gloo calls no NCCL, and PyTorch itself writes dumps only for NCCL.
#pragma once

namespace lockstep::check {

// sitecustomize.py. A separate thread handles SIGTERM, because a rank that is stuck in a wait runs no Python signal
// handler.
inline constexpr char kTorchHook[] = R"py(
import atexit
import os
import pickle
import signal
import sys
import threading

_lock = threading.Lock()


def _dump():
    """Returns whether this process has calls to dump, or the dump failed."""
    if "torch.distributed" not in sys.modules:
        return False
    with _lock:
        try:
            path = os.path.join(os.environ["LOCKSTEP_CHECK_DUMPS"], "nccl_trace_rank_%d" % int(os.environ["RANK"]))
            for stacks in (False, True):  # with stacks it can take seconds
                held = sys.modules["torch"]._C._distributed_c10d._dump_fr_trace(True, stacks, False)
                if not pickle.loads(held).get("entries"):
                    return False  # a helper process, or a rank that does not communicate
                with open(path + ".part", "wb") as file:
                    file.write(held)
                os.replace(path + ".part", path)
            return True
        except Exception as error:
            print("lockstep: no Flight Recorder dump of this rank: %s" % error, file=sys.stderr)
            return True


def _wait():
    dumped = False
    while signal.sigtimedwait([signal.SIGTERM], 1) is None:
        dumped = dumped or _dump()  # the first dump loads the modules that stacks need
    _dump()
    os._exit(143)


if os.environ.get("RANK", "").isdigit():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.register_at_fork(after_in_child=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM]))
    threading.Thread(target=_wait, daemon=True).start()
    atexit.register(_dump)

# Runs the user's own sitecustomize, which this file hides.
_here = os.path.dirname(os.path.abspath(__file__))
for _folder in sys.path:
    _path = os.path.join(_folder, "sitecustomize.py")
    if _folder and os.path.abspath(_folder) != _here and os.path.isfile(_path):
        with open(_path, "rb") as _file:
            exec(compile(_file.read(), _path, "exec"))
        break
)py";

}  // namespace lockstep::check
