// Implements the public collectives, sends and receives: checks the arguments, then queues.
#include <string.h>

#include "tests/standin/nccl/comm.h"
#include "tests/standin/nccl/level.h"

namespace standin {

namespace {

// Converts a reduction's number to its handle, and back. Custom handles are mixed with the communicator's address, so
// that a handle of another communicator is noticed.
int Mangle(const ncclComm* comm, int op) {
  auto h = reinterpret_cast<uint64_t>(comm);
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  const int mixed = static_cast<int>((h >> 33) & 0x7fffffff) ^ op;
  return mixed < ncclNumOps ? op : mixed;
}

ncclResult_t FindReduction(ncclComm& comm, ncclRedOp_t op, Task* task) {
  const int number = static_cast<int>(op);
  if (number >= 0 && number < kReductions) {
    task->reduction.op = number < ncclNumOps ? op : ncclMax;
    return ncclSuccess;
  }
  const std::lock_guard lock(comm.mutex);
  const auto at = comm.reductions.find(Mangle(&comm, number));
  if (number < 0 || at == comm.reductions.end()) {
    return ncclInvalidArgument;
  }
  task->reduction = at->second;
  return ncclSuccess;
}

struct Arguments {
  Kind kind;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  bool reduces = false;
  bool has_peer = false;
  int peer = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

ncclResult_t Check(const Arguments& arguments, const char* name, Task* task) {
  CommPtr comm;
  if (const ncclResult_t ready = EnsureReady(arguments.comm, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (comm->revoked.load() || comm->finalized.load() || comm->suspended.load()) {
    Warn(comm.get(), "%s: the communicator was revoked, finalized or suspended", name);
    return ncclInvalidUsage;
  }
  if (comm->nranks == 0) {
    Warn(comm.get(), "%s: the communicator's initialization has not ended", name);
    return ncclInvalidArgument;
  }
  if (TypeBytes(arguments.type) == 0) {
    Warn(comm.get(), "%s: invalid datatype %d", name, static_cast<int>(arguments.type));
    return ncclInvalidArgument;
  }
  if (arguments.has_peer && (arguments.peer < 0 || arguments.peer >= comm->nranks)) {
    Warn(comm.get(), "%s: invalid root or peer %d of %d ranks", name, arguments.peer, comm->nranks);
    return ncclInvalidArgument;
  }
  task->kind = arguments.kind;
  task->send = arguments.send;
  task->recv = arguments.recv;
  task->count = arguments.count;
  task->type = arguments.type;
  task->peer = arguments.has_peer ? arguments.peer : 0;
  if (arguments.reduces) {
    if (const ncclResult_t found = FindReduction(*comm, arguments.op, task); found != ncclSuccess) {
      Warn(comm.get(), "%s: invalid reduction %d", name, static_cast<int>(arguments.op));
      return found;
    }
    if (task->reduction.premultiply) {
      const std::lock_guard lock(comm->mutex);
      const auto at = comm->device_scalars.find(Mangle(comm.get(), static_cast<int>(arguments.op)));
      task->device_scalar = at == comm->device_scalars.end() ? nullptr : at->second;
    }
  }
  // The legacy stream belongs to the communicator's device, whichever device is current on the thread.
  const int bound = BoundDevice();
  BindDevice(comm->device);
  task->stream = FindStream(arguments.stream);
  BindDevice(bound);
  if (!task->stream) {
    Warn(comm.get(), "%s: no such stream", name);
    return ncclUnhandledCudaError;
  }
  task->stream_handle = arguments.stream;
  task->comm = std::move(comm);
  return ncclSuccess;
}

ncclResult_t Queue(const Arguments& arguments, const char* name) {
  Task task;
  if (const ncclResult_t checked = Check(arguments, name, &task); checked != ncclSuccess) {
    return GroupError(checked);
  }
  // Empty collectives are dropped; an empty send still needs its receive.
  if (arguments.count == 0 && arguments.kind < Kind::kSend) {
    return ncclSuccess;
  }
  return AddTask(std::move(task));
}

// Like NCCL, reads the size first and nothing beyond that size.
ncclResult_t CheckConfig(const ncclCollConfig_t* given, const char* name) {
  if (given == nullptr) {
    return ncclSuccess;
  }
  if (given->size < offsetof(ncclCollConfig_t, launchCompletionEvent) || given->magic != NCCL_API_MAGIC) {
    Warn(nullptr, "%s: ncclCollConfig_t is not initialized; use NCCL_COLLCONFIG_INITIALIZER", name);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

}  // namespace

}  // namespace standin

using standin::Arguments;
using standin::Kind;

STANDIN_API(ncclResult_t, ncclAllReduce,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
             cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kAllReduce,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .op = op,
                         .reduces = true,
                         .comm = comm,
                         .stream = stream},
                        "AllReduce");
}

STANDIN_API(ncclResult_t, ncclReduceScatter,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
             cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kReduceScatter,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .op = op,
                         .reduces = true,
                         .comm = comm,
                         .stream = stream},
                        "ReduceScatter");
}

STANDIN_API(ncclResult_t, ncclAllGather,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kAllGather,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .comm = comm,
                         .stream = stream},
                        "AllGather");
}

STANDIN_API(ncclResult_t, ncclReduce,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kReduce,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .op = op,
                         .reduces = true,
                         .has_peer = true,
                         .peer = root,
                         .comm = comm,
                         .stream = stream},
                        "Reduce");
}

STANDIN_API(ncclResult_t, ncclBroadcast,
            (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kBroadcast,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .has_peer = true,
                         .peer = root,
                         .comm = comm,
                         .stream = stream},
                        "Broadcast");
}

STANDIN_API(ncclResult_t, ncclBcast,
            (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

STANDIN_API(ncclResult_t, ncclAlltoAll,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kAlltoAll,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .comm = comm,
                         .stream = stream},
                        "AlltoAll");
}

STANDIN_API(ncclResult_t, ncclGather,
            (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kGather,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .has_peer = true,
                         .peer = root,
                         .comm = comm,
                         .stream = stream},
                        "Gather");
}

STANDIN_API(ncclResult_t, ncclScatter,
            (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kScatter,
                         .send = send,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .has_peer = true,
                         .peer = root,
                         .comm = comm,
                         .stream = stream},
                        "Scatter");
}

STANDIN_API(ncclResult_t, ncclSend,
            (const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kSend,
                         .send = send,
                         .count = count,
                         .type = type,
                         .has_peer = true,
                         .peer = peer,
                         .comm = comm,
                         .stream = stream},
                        "Send");
}

STANDIN_API(ncclResult_t, ncclRecv,
            (void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
  return standin::Queue({.kind = Kind::kRecv,
                         .recv = recv,
                         .count = count,
                         .type = type,
                         .has_peer = true,
                         .peer = peer,
                         .comm = comm,
                         .stream = stream},
                        "Recv");
}

STANDIN_API(ncclResult_t, ncclRedOpCreatePreMulSum,
            (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t handle)) {
  standin::CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  const size_t bytes = standin::TypeBytes(type);
  if (!op || !scalar || bytes == 0 || (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)) {
    return ncclInvalidArgument;
  }
  standin::Reduction made;
  made.premultiply = true;
  const std::lock_guard lock(comm->mutex);
  const int number = comm->next_reduction++;
  if (residence == ncclScalarHostImmediate) {
    memcpy(made.scalar, scalar, bytes);
  } else {
    comm->device_scalars[number] = scalar;  // the operation reads this when it runs
  }
  comm->reductions[number] = made;
  *op = static_cast<ncclRedOp_t>(standin::Mangle(comm.get(), number));
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t handle)) {
  const auto comm = standin::FindComm(handle);
  const int number = static_cast<int>(op);
  if (!comm || number < ncclNumOps) {
    return ncclInvalidArgument;
  }
  const std::lock_guard lock(comm->mutex);
  comm->device_scalars.erase(standin::Mangle(comm.get(), number));
  return comm->reductions.erase(standin::Mangle(comm.get(), number)) ? ncclSuccess : ncclInvalidArgument;
}

// Defines every collective again, with a per-call configuration. As in NCCL, these functions do not call the plain
// ones.
#define STANDIN_CONFIG(NAME, PARAMETERS, ARGUMENTS)                            \
  STANDIN_API(ncclResult_t, nccl##NAME##Config, PARAMETERS) {                  \
    const ncclResult_t checked = standin::CheckConfig(config, #NAME "Config"); \
    return checked != ncclSuccess ? checked : standin::Queue ARGUMENTS;        \
  }
STANDIN_CONFIG(AllReduce,
               (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                cudaStream_t stream, const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kAllReduce,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .op = op,
                          .reduces = true,
                          .comm = comm,
                          .stream = stream},
                "AllReduce"))
STANDIN_CONFIG(ReduceScatter,
               (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                cudaStream_t stream, const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kReduceScatter,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .op = op,
                          .reduces = true,
                          .comm = comm,
                          .stream = stream},
                "ReduceScatter"))
STANDIN_CONFIG(Reduce,
               (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kReduce,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .op = op,
                          .reduces = true,
                          .has_peer = true,
                          .peer = root,
                          .comm = comm,
                          .stream = stream},
                "Reduce"))
STANDIN_CONFIG(Broadcast,
               (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                cudaStream_t stream, const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kBroadcast,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .has_peer = true,
                          .peer = root,
                          .comm = comm,
                          .stream = stream},
                "Broadcast"))
STANDIN_CONFIG(AllGather,
               (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
                const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kAllGather,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .comm = comm,
                          .stream = stream},
                "AllGather"))
STANDIN_CONFIG(AlltoAll,
               (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
                const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kAlltoAll,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .comm = comm,
                          .stream = stream},
                "AlltoAll"))
STANDIN_CONFIG(Gather,
               (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                cudaStream_t stream, const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kGather,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .has_peer = true,
                          .peer = root,
                          .comm = comm,
                          .stream = stream},
                "Gather"))
STANDIN_CONFIG(Scatter,
               (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                cudaStream_t stream, const ncclCollConfig_t* config),
               (Arguments{.kind = Kind::kScatter,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .type = type,
                          .has_peer = true,
                          .peer = root,
                          .comm = comm,
                          .stream = stream},
                "Scatter"))
