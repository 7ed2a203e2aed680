// Implements memory, registration and windows.
#include <string.h>
#include <unistd.h>

#include <cstdint>

#include "tests/standin/nccl/comm.h"
#include "tests/standin/nccl/window.h"

using standin::CommPtr;

STANDIN_API(ncclResult_t, ncclMemAlloc, (void** pointer, size_t size)) {
  if (!pointer || size == 0) {
    return ncclInvalidArgument;
  }
  *pointer = standin::Allocate(size, standin::MemoryKind::kDevice);
  return *pointer ? ncclSuccess : ncclUnhandledCudaError;
}

STANDIN_API(ncclResult_t, ncclMemFree, (void* pointer)) {
  if (!pointer) {
    return ncclSuccess;
  }
  return standin::Release(pointer, standin::MemoryKind::kDevice) ? ncclSuccess : ncclInvalidUsage;
}

STANDIN_API(ncclResult_t, ncclCommRegister, (const ncclComm_t handle, void* buffer, size_t size, void** registration)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (!buffer || size == 0 || !registration) {
    return ncclInvalidArgument;
  }
  auto* made = new char;
  const std::lock_guard lock(comm->mutex);
  comm->registrations[made] = size;
  *registration = made;
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclCommDeregister, (const ncclComm_t handle, void* registration)) {
  const CommPtr comm = standin::FindComm(handle);
  if (!comm) {
    return ncclInvalidArgument;
  }
  const std::lock_guard lock(comm->mutex);
  if (!comm->registrations.erase(registration)) {
    return ncclInvalidUsage;
  }
  delete static_cast<char*>(registration);
  return ncclSuccess;
}

// Collective: each rank registers its part of the window and waits until the window is complete.
STANDIN_API(ncclResult_t, ncclCommWindowRegister,
            (ncclComm_t handle, void* buffer, size_t size, ncclWindow_t* window, int flags)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return standin::GroupError(ready);
  }
  if (!buffer || size == 0 || !window || (flags & ~(NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING)) != 0 ||
      reinterpret_cast<uintptr_t>(buffer) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    standin::Warn(comm.get(), "a window needs a buffer aligned to %d bytes and known flags",
                  NCCL_WIN_REQUIRED_ALIGNMENT);
    return standin::GroupError(ncclInvalidArgument);
  }
  *window = nullptr;
  auto made = std::make_shared<ncclWindow_t>(nullptr);
  const auto run = [comm, handle, buffer, size, made] {
    void* registration = nullptr;
    if (const ncclResult_t registered = ncclCommRegister(handle, buffer, size, &registration);
        registered != ncclSuccess) {
      return registered;
    }
    std::vector<std::vector<unsigned char>> all;
    const standin::WindowPart own{buffer, size, getpid()};
    if (!standin::AllGatherBoot(*comm, &own, sizeof own, &all)) {
      return ncclInternalError;
    }
    *made = new ncclWindow_vidmem{handle, buffer, size, registration, {}};
    for (const auto& bytes : all) {
      memcpy(&(*made)->parts.emplace_back(), bytes.data(), sizeof own);
    }
    return ncclSuccess;
  };
  return standin::AddJob({comm, run, [window, made](ncclResult_t ended) {
                            if (ended == ncclSuccess) {
                              __atomic_store_n(window, *made, __ATOMIC_RELEASE);
                            }
                          }});
}

STANDIN_API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t handle, ncclWindow_t window)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (!window) {
    return ncclSuccess;
  }
  if (window->comm != handle) {
    return ncclInvalidUsage;
  }
  const ncclResult_t result = ncclCommDeregister(handle, window->registration);
  delete window;
  return result;
}

STANDIN_API(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t handle, ncclWindow_t window, void** pointer)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (!window || !pointer || window->comm != handle) {
    return ncclInvalidArgument;
  }
  *pointer = window->pointer;
  return ncclSuccess;
}
