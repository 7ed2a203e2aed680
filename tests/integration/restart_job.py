"""A rank that restarts inside its process, as in-process wrappers do: a thread aborts the communicator while the program waits, and the program creates a
new communicator and continues.
restart_job.py LIBNCCL LIBCUDART FOLDER RANK WORLD
In generation G, rank G + 1 stops before its hundredth operation until FOLDER/restart.G exists; then all ranks abort."""
import ctypes
import os
import sys
import threading
import time

STEPS_BEFORE_FAULT = 100


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(result, what):
    if result != 0:
        sys.exit(f"{what} gave {result}")


def wait_for_file(path):
    while not os.path.exists(path):
        time.sleep(0.25)


def main():
    nccl, runtime = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
    folder, rank, world = sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclCommAbort.argtypes = [ctypes.c_void_p]
    runtime.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
    send, recv = ctypes.c_void_p(), ctypes.c_void_p()
    check(runtime.cudaSetDevice(rank), "cudaSetDevice")
    check(runtime.cudaMalloc(ctypes.byref(send), ctypes.c_size_t(4096)), "cudaMalloc")
    check(runtime.cudaMalloc(ctypes.byref(recv), ctypes.c_size_t(4096)), "cudaMalloc")
    for generation in range(1 << 30):
        path, restart = os.path.join(folder, f"id.{generation}"), os.path.join(folder, f"restart.{generation}")
        unique, comm, stream = UniqueId(), ctypes.c_void_p(), ctypes.c_void_p()
        if rank == 0:
            check(nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
            with open(path + ".new", "wb") as file:
                file.write(bytes(unique))
            os.rename(path + ".new", path)
        else:
            wait_for_file(path)
            with open(path, "rb") as file:
                unique = UniqueId.from_buffer_copy(file.read())
        check(runtime.cudaStreamCreate(ctypes.byref(stream)), "cudaStreamCreate")
        check(nccl.ncclCommInitRank(ctypes.byref(comm), world, unique, rank), "ncclCommInitRank")

        def abort(comm=comm, restart=restart):
            wait_for_file(restart)
            check(nccl.ncclCommAbort(comm), "ncclCommAbort")

        monitor = threading.Thread(target=abort, daemon=True)
        monitor.start()
        step = 0
        while not os.path.exists(restart):
            step += 1
            if step == STEPS_BEFORE_FAULT and rank == generation + 1:
                wait_for_file(restart)
                break
            if nccl.ncclAllReduce(send, recv, 1024, 7, 0, comm, stream) != 0:
                break
            if runtime.cudaStreamSynchronize(stream) != 0:
                break
            time.sleep(0.02)
        monitor.join()
        runtime.cudaStreamDestroy(stream)


if __name__ == "__main__":
    main()
