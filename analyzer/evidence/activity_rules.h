// Names in stacks and open files, and amounts of work, that reveal what a process is doing. All are from public
// software, so redaction (analyzer/evidence/redact.h) keeps them.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace lockstep {

enum class Stall : uint8_t {
  kUnknown,
  kCheckpoint,
  kStorage,
  kDataLoading,
  kCompilation,
  kGarbageCollection,
  kInterpreterLock,
  kRendezvous,  // waits for another process outside NCCL: a key-value store, MPI, gloo
};

}  // namespace lockstep

namespace lockstep::activity {

// A process that uses no more than this is idle. Monitoring threads use a little CPU and I/O.
inline constexpr double kIdleCpuShare = 0.05;
inline constexpr double kIdleBytesPerSecond = 4096;

struct Rule {
  absl::string_view part;
  Stall stall;
};

// Python frames, by file. From the sources of PyTorch 2.x, Megatron-LM, DeepSpeed, Triton, JAX and the named loaders.
// Files that are also on the stack of an already compiled model are missing on purpose: torch/_dynamo/eval_frame.py,
// _inductor/output_code.py, _functorch/_aot_autograd/runtime_wrappers.py.
inline constexpr Rule kPythonFiles[] = {
    {"torch/distributed/checkpoint/", Stall::kCheckpoint},
    {"torch/serialization.py", Stall::kCheckpoint},
    {"safetensors/", Stall::kCheckpoint},
    {"dist_checkpointing/", Stall::kCheckpoint},
    {"training/checkpointing.py", Stall::kCheckpoint},
    {"checkpoint_engine/", Stall::kCheckpoint},
    {"orbax/checkpoint/", Stall::kCheckpoint},
    {"checkpoint_io", Stall::kCheckpoint},
    {"torch/_dynamo/convert_frame.py", Stall::kCompilation},
    {"torch/_dynamo/symbolic_convert.py", Stall::kCompilation},
    {"torch/_dynamo/output_graph.py", Stall::kCompilation},
    {"torch/_inductor/compile_fx.py", Stall::kCompilation},
    {"torch/_inductor/graph.py", Stall::kCompilation},
    {"torch/_inductor/scheduler.py", Stall::kCompilation},
    {"torch/_inductor/codegen/", Stall::kCompilation},
    {"torch/_inductor/codecache.py", Stall::kCompilation},
    {"torch/_inductor/async_compile.py", Stall::kCompilation},
    {"torch/_inductor/compile_worker/", Stall::kCompilation},
    {"torch/_inductor/select_algorithm.py", Stall::kCompilation},
    {"torch/_inductor/autotune_process.py", Stall::kCompilation},
    {"torch/utils/cpp_extension.py", Stall::kCompilation},
    {"triton/compiler/", Stall::kCompilation},
    {"triton/runtime/build.py", Stall::kCompilation},
    {"jax/_src/compiler.py", Stall::kCompilation},
    {"torch/utils/data/", Stall::kDataLoading},
    {"webdataset/", Stall::kDataLoading},
    {"streaming/base/", Stall::kDataLoading},
    {"nvidia/dali/", Stall::kDataLoading},
    {"core/datasets/", Stall::kDataLoading},
    {"datasets/iterable_dataset.py", Stall::kDataLoading},
    {"datasets/arrow_dataset.py", Stall::kDataLoading},
    {"torchdata/", Stall::kDataLoading},
    {"grain/_src/", Stall::kDataLoading},
    {"torch/distributed/rendezvous.py", Stall::kRendezvous},
    {"torch/distributed/elastic/rendezvous/", Stall::kRendezvous},
};

// Python functions that are recognized by their name alone, in any file.
inline constexpr Rule kPythonNames[] = {
    {"save_checkpoint", Stall::kCheckpoint},
    {"load_checkpoint", Stall::kCheckpoint},
    {"gc.collect", Stall::kGarbageCollection},
    {"_store_based_barrier", Stall::kRendezvous},
};

// Native functions. CPython: the collector is gc_collect_main from 3.9 to 3.14, in Modules/gcmodule.c and Python/gc.c.
// The collector is called collect before 3.9, and gc_collect_internal without the interpreter lock. A thread that waits
// for the lock is in take_gil of Python/ceval_gil. LLVM, ptxas' library, NVRTC and XLA compile. PyTorch distributes
// NCCL's unique ids through a key-value store (TCPStore and similar). JAX uses its coordination service, and MPI
// programs use a broadcast.
inline constexpr Rule kNative[] = {
    {"gc_collect_main", Stall::kGarbageCollection},
    {"gc_collect_internal", Stall::kGarbageCollection},
    {"gc_collect_with_callback", Stall::kGarbageCollection},
    {"gc_collect_generations", Stall::kGarbageCollection},
    {"PyGC_Collect", Stall::kGarbageCollection},
    {"deduce_unreachable", Stall::kGarbageCollection},
    {"subtract_refs", Stall::kGarbageCollection},
    {"take_gil", Stall::kInterpreterLock},
    {"PyEval_AcquireThread", Stall::kInterpreterLock},
    {"llvm::", Stall::kCompilation},
    {"mlir::", Stall::kCompilation},
    {"nvrtcCompileProgram", Stall::kCompilation},
    {"nvJitLink", Stall::kCompilation},
    {"nvPTXCompiler", Stall::kCompilation},
    {"xla::gpu::GpuCompiler", Stall::kCompilation},
    {"cuModuleLoadData", Stall::kCompilation},
    {"cuLinkComplete", Stall::kCompilation},
    {"TCPStore::", Stall::kRendezvous},
    {"c10d::PrefixStore::", Stall::kRendezvous},
    {"c10d::FileStore::", Stall::kRendezvous},
    {"c10d::detail::TCPClient::", Stall::kRendezvous},
    {"gloo::", Stall::kRendezvous},
    {"CoordinationServiceAgent::", Stall::kRendezvous},
    {"MPI_Bcast", Stall::kRendezvous},
    {"MPI_Barrier", Stall::kRendezvous},
    {"MPI_Allreduce", Stall::kRendezvous},
    {"MPI_Allgather", Stall::kRendezvous},
    {"MPI_Recv", Stall::kRendezvous},
    {"MPI_Wait", Stall::kRendezvous},
    {"PMIx_Fence", Stall::kRendezvous},
    {"PMIx_Get", Stall::kRendezvous},
};

// Waits for other ranks or for the GPU: prefixes of native functions, and parts of frames.
// analyzer/engine/facts/gpu_wait.h has the functions of CUDA and HIP. Frames inside the driver show only its library.
inline constexpr absl::string_view kPeerWaitBegins[] = {"nccl", "pnccl", "MPI_", "PMPI_", "shmem_", "nvshmem"};
inline constexpr absl::string_view kPeerWaits[] = {
    "distributed_c10d.py", "c10d::",           "gloo::",    "libcuda.so",          "libnccl.so",           "librccl.so",
    "libamdhip64.so",      "libhsa-runtime64", "xla::PjRt", "block_until_ready (", "torch/cuda/streams.py"};

// Functions of Python that wait for a GPU, in files that have other functions too.
struct FunctionOfFile {
  absl::string_view function, file;  // the end of the file's path
};
inline constexpr FunctionOfFile kGpuWaitsOfPython[] = {{"synchronize", "torch/cuda/__init__.py"},
                                                       {"synchronize", "torch/accelerator/__init__.py"}};

inline constexpr absl::string_view kCheckpointPaths[] = {
    "checkpoint", "ckpt", ".distcp", ".safetensors", "global_step", "mp_rank_", "model_states", "optim_states", ".pth"};

// Functions in native stacks that write.
inline constexpr absl::string_view kWrites[] = {"fsync",   "fdatasync",  "pwrite",    "writev",
                                                "__write", "ksys_write", "vfs_write", "sync_file_range"};

}  // namespace lockstep::activity
