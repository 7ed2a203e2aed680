"""Drives NCCL through ctypes, like programs that open the library themselves: only the recorder's dlsym hook sees such calls.
ctypes_job.py LIBNCCL LIBCUDART
"""
import ctypes
import sys


def check(result, what):
    if result != 0:
        sys.exit(f"{what} gave {result}")


def main():
    runtime = ctypes.CDLL(sys.argv[2])
    nccl = ctypes.CDLL(sys.argv[1])

    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_byte * 128)]

    nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
                                   ctypes.c_void_p]
    nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
    runtime.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
    stream, send, recv, comm = (ctypes.c_void_p() for _ in range(4))
    unique = UniqueId()
    check(runtime.cudaSetDevice(0), "cudaSetDevice")
    check(runtime.cudaStreamCreate(ctypes.byref(stream)), "cudaStreamCreate")
    check(runtime.cudaMalloc(ctypes.byref(send), ctypes.c_size_t(4096)), "cudaMalloc")
    check(runtime.cudaMalloc(ctypes.byref(recv), ctypes.c_size_t(4096)), "cudaMalloc")
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
    check(nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0), "ncclCommInitRank")
    for _ in range(5):
        check(nccl.ncclAllReduce(send, recv, 1024, 7, 0, comm, stream), "ncclAllReduce")
    check(runtime.cudaStreamSynchronize(stream), "cudaStreamSynchronize")
    check(nccl.ncclCommDestroy(comm), "ncclCommDestroy")


if __name__ == "__main__":
    main()
