// One-sided calls. They write data to the peer's part of a window, and a counter shows the arrival.
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/standin/nccl/comm.h"
#include "tests/standin/nccl/window.h"

using standin::CommPtr;
using standin::Task;
using standin::WindowPart;

namespace {

ncclResult_t Begin(ncclComm_t handle, cudaStream_t stream, const char* name, Task* task) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (comm->revoked.load() || comm->finalized.load() || comm->suspended.load()) {
    standin::Warn(comm.get(), "%s: the communicator was revoked, finalized or suspended", name);
    return ncclInvalidUsage;
  }
  task->stream = standin::FindStream(stream);
  task->comm = std::move(comm);
  return task->stream ? ncclSuccess : ncclUnhandledCudaError;
}

bool Copy(const WindowPart& to, size_t offset, const void* from, size_t bytes) {
  char* target = static_cast<char*>(to.address) + offset;
  if (to.pid == getpid()) {
    memcpy(target, from, bytes);
    return true;
  }
  const iovec local{const_cast<void*>(from), bytes}, remote{target, bytes};
  return process_vm_writev(to.pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

void Tell(ncclComm& comm, int peer) {
  comm.segment->mailbox(comm.rank, peer).signals.fetch_add(1, std::memory_order_release);
  comm.segment->rank(peer).mail.Ring();
}

bool BadTarget(const Task& task, int peer, int signal, int context) {
  return peer < 0 || peer >= task.comm->nranks || signal != 0 || context != 0;
}

}  // namespace

STANDIN_API(ncclResult_t, ncclPutSignal,
            (const void* local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset,
             int signal, int context, unsigned int flags, ncclComm_t handle, cudaStream_t stream)) {
  Task task;
  if (const ncclResult_t begun = Begin(handle, stream, "PutSignal", &task); begun != ncclSuccess) {
    return standin::GroupError(begun);
  }
  const size_t bytes = count * standin::TypeBytes(type);
  if (BadTarget(task, peer, signal, context) || flags != 0 || standin::TypeBytes(type) == 0 || !window ||
      window->comm != handle) {
    return standin::GroupError(ncclInvalidArgument);
  }
  const WindowPart part = window->parts[static_cast<size_t>(peer)];
  if (offset > part.size || bytes > part.size - offset || (bytes != 0 && !local)) {
    return standin::GroupError(ncclInvalidArgument);
  }
  task.one_sided = [part, offset, local, bytes, peer](ncclComm& comm) {
    if (bytes != 0 && !Copy(part, offset, local, bytes)) {
      comm.async_result.store(ncclSystemError);
      return;
    }
    Tell(comm, peer);
  };
  return standin::AddTask(std::move(task));
}

STANDIN_API(ncclResult_t, ncclSignal,
            (int peer, int signal, int context, unsigned int flags, ncclComm_t handle, cudaStream_t stream)) {
  Task task;
  if (const ncclResult_t begun = Begin(handle, stream, "Signal", &task); begun != ncclSuccess) {
    return standin::GroupError(begun);
  }
  if (BadTarget(task, peer, signal, context) || flags != 0) {
    return standin::GroupError(ncclInvalidArgument);
  }
  task.one_sided = [peer](ncclComm& comm) { Tell(comm, peer); };
  return standin::AddTask(std::move(task));
}

STANDIN_API(ncclResult_t, ncclWaitSignal,
            (int count, ncclWaitSignalDesc_t* signals, ncclComm_t handle, cudaStream_t stream)) {
  Task task;
  if (const ncclResult_t begun = Begin(handle, stream, "WaitSignal", &task); begun != ncclSuccess) {
    return standin::GroupError(begun);
  }
  if (count < 1 || !signals) {
    return standin::GroupError(ncclInvalidArgument);
  }
  const std::vector<ncclWaitSignalDesc_t> waits(signals, signals + count);
  for (const ncclWaitSignalDesc_t& wait : waits) {
    if (BadTarget(task, wait.peer, wait.sigIdx, wait.ctx) || wait.opCnt < 1) {
      return standin::GroupError(ncclInvalidArgument);
    }
  }
  // Waits forever if the signal never comes.
  task.one_sided = [waits](ncclComm& comm) {
    comm.signals_taken.resize(static_cast<size_t>(comm.nranks));
    for (const ncclWaitSignalDesc_t& wait : waits) {
      uint32_t& taken = comm.signals_taken[static_cast<size_t>(wait.peer)];
      standin::Bell& bell = comm.segment->rank(comm.rank).mail;
      std::atomic<uint32_t>& came = comm.segment->mailbox(wait.peer, comm.rank).signals;
      while (true) {
        const uint32_t seen = bell.value.load(std::memory_order_acquire);
        if (came.load(std::memory_order_acquire) - taken >= static_cast<uint32_t>(wait.opCnt)) {
          break;
        }
        if (comm.revoked.load() || !standin::WaitBell(comm, bell, seen) || comm.revoked.load()) {
          return;
        }
      }
      taken += static_cast<uint32_t>(wait.opCnt);
    }
  };
  return standin::AddTask(std::move(task));
}
