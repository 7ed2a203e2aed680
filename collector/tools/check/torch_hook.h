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
import time

_lock = threading.Lock()


def _dump():
    """Returns whether calls were dumped, or the dump failed."""
    initialized = getattr(sys.modules.get("torch.distributed"), "is_initialized", None)
    if initialized is None:
        return False
    with _lock:
        try:
            path = os.path.join(os.environ["LOCKSTEP_CHECK_DUMPS"], "nccl_trace_rank_%d" % int(os.environ["RANK"]))
            for stacks in (False, True):  # with stacks it can take seconds
                held = sys.modules["torch"]._C._distributed_c10d._dump_fr_trace(True, stacks, False)
                calls = pickle.loads(held).get("entries")
                if not calls and not initialized():
                    return False  # a helper process, or a rank that does not communicate
                with open(path + ".part", "wb") as file:
                    file.write(held)
                os.replace(path + ".part", path)
            return bool(calls)
        except Exception as error:
            print("lockstep: no Flight Recorder dump of this rank: %s" % error, file=sys.stderr)
            return True


def _write_stack():
    """Writes the main thread's stack as faulthandler does. Helper processes have the same rank and write none."""
    processes = sys.modules.get("multiprocessing")
    if processes is not None and processes.parent_process() is not None:
        return
    lines = ["Thread 0x1 (most recent call first):\n"]
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None:
        lines.append('  File "%s", line %d in %s\n' % (frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    try:
        path = os.path.join(os.environ["LOCKSTEP_CHECK_STACKS"], "rank_%d.txt" % int(os.environ["RANK"]))
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
    except OSError as error:
        print("lockstep: no stack of this rank: %s" % error, file=sys.stderr)


def _dump_first():
    """Loads the modules that stacks need, and leaves the calls of a rank that is killed."""
    while not _dump():
        time.sleep(1)


def _wait():
    signal.sigwait([signal.SIGTERM])  # sigtimedwait may return without a signal if the process was stopped
    _write_stack()
    _dump()
    os._exit(143)


if os.environ.get("RANK", "").isdigit():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.register_at_fork(after_in_child=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM]))
    for _run in (_dump_first, _wait):
        threading.Thread(target=_run, daemon=True).start()
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
