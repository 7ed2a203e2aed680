#include "tests/standin/nccl/comm.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <unordered_map>

namespace standin {

namespace {

struct Comms {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, CommPtr> all;
};

Comms& TheComms() {
  static auto* comms = new Comms;
  return *comms;
}

thread_local std::string thread_error;

int DebugLevel() {
  static const int level = [] {
    const char* text = getenv("NCCL_DEBUG");
    if (!text) {
      return 0;
    }
    return strcasecmp(text, "INFO") == 0 || strcasecmp(text, "TRACE") == 0 ? 2 : strcasecmp(text, "WARN") == 0 ? 1 : 0;
  }();
  return level;
}

}  // namespace

// Reuses the most recently freed memory first. So the next communicator gets the handle of the one just destroyed, as
// often with malloc.
template <class T>
struct LastFreedFirst {
  using value_type = T;
  LastFreedFirst() = default;
  template <class U>
  LastFreedFirst(const LastFreedFirst<U>&) {}
  static std::vector<void*>& Free() {
    static auto* free = new std::vector<void*>;
    return *free;
  }
  static std::mutex& Lock() {
    static auto* lock = new std::mutex;
    return *lock;
  }
  T* allocate(size_t count) {
    const std::lock_guard lock(Lock());
    if (count == 1 && !Free().empty()) {
      void* last = Free().back();
      Free().pop_back();
      return static_cast<T*>(last);
    }
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* pointer, size_t) {
    const std::lock_guard lock(Lock());
    Free().push_back(pointer);
  }
  template <class U>
  bool operator==(const LastFreedFirst<U>&) const {
    return true;
  }
};

CommPtr NewComm(ncclComm_t* handle) {
  auto comm = std::allocate_shared<ncclComm>(LastFreedFirst<ncclComm>());
  Comms& comms = TheComms();
  const std::lock_guard lock(comms.mutex);
  comms.all[comm.get()] = comm;
  *handle = comm.get();
  return comm;
}

CommPtr FindComm(ncclComm_t handle) {
  Comms& comms = TheComms();
  const std::lock_guard lock(comms.mutex);
  const auto at = comms.all.find(handle);
  return at == comms.all.end() ? nullptr : at->second;
}

void ForgetComm(ncclComm_t handle) {
  Comms& comms = TheComms();
  CommPtr last;  // freed after the lock
  const std::lock_guard lock(comms.mutex);
  const auto at = comms.all.find(handle);
  if (at != comms.all.end()) {
    last = std::move(at->second);
    comms.all.erase(at);
  }
}

std::vector<CommPtr> AllComms() {
  Comms& comms = TheComms();
  const std::lock_guard lock(comms.mutex);
  std::vector<CommPtr> all;
  for (const auto& [handle, comm] : comms.all) all.push_back(comm);
  return all;
}

ncclResult_t EnsureReady(ncclComm_t handle, CommPtr* comm) {
  *comm = FindComm(handle);
  if (!*comm) {
    Warn(nullptr, "the communicator is NULL or no longer exists");
    return ncclInvalidArgument;
  }
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(handle, &state);
  if (asked != ncclSuccess) {
    return asked;
  }
  if (state == ncclInProgress) {
    Warn(comm->get(), "the communicator is used before its previous call reached ncclSuccess");
    return ncclInvalidArgument;
  }
  return state;
}

bool WaitBell(ncclComm& comm, Bell& bell, uint32_t seen) {
  if (comm.aborted.load(std::memory_order_relaxed)) {
    return false;
  }
  bell.Wait(seen);
  static const bool remote_errors = [] {
    const char* text = getenv("STANDIN_REMOTE_ERROR");
    return text && *text == '1';
  }();
  if (remote_errors && comm.segment && bell.value.load(std::memory_order_relaxed) == seen) {
    for (int r = 0; r < comm.nranks; ++r) {
      ncclResult_t well = ncclSuccess;
      if (!Alive(comm.segment->rank(r)) && comm.async_result.compare_exchange_strong(well, ncclRemoteError)) {
        Warn(&comm, "rank %d of %d is gone", r, comm.nranks);
      }
    }
  }
  return !comm.aborted.load(std::memory_order_relaxed);
}

bool AllGatherBoot(ncclComm& comm, const void* data, size_t bytes, std::vector<std::vector<unsigned char>>* all,
                   const std::vector<int>* members) {
  const uint64_t seq = ++comm.boot_seq;
  RankBlock& own = comm.segment->rank(comm.rank);
  // Two slots are enough: a rank cannot write message n + 2 before every reader has read its message n.
  BootSlot& slot = own.boot_slots[seq & 1];
  memcpy(slot.data, data, bytes);
  slot.seq.store(seq, std::memory_order_release);
  own.boot.Ring();
  std::vector<int> everybody;
  if (!members) {
    for (int r = 0; r < comm.nranks; ++r) {
      everybody.push_back(r);
    }
    members = &everybody;
  }
  all->assign(static_cast<size_t>(comm.nranks), {});
  for (const int r : *members) {
    RankBlock& other = comm.segment->rank(r);
    BootSlot& read = other.boot_slots[seq & 1];
    while (true) {
      const uint32_t seen = other.boot.value.load(std::memory_order_acquire);
      if (read.seq.load(std::memory_order_acquire) == seq) {
        break;
      }
      if (!WaitBell(comm, other.boot, seen)) {
        return false;
      }
    }
    (*all)[static_cast<size_t>(r)].assign(read.data, read.data + bytes);
  }
  return true;
}

ncclResult_t ReadConfig(const ncclConfig_t* given, const ncclComm* parent, ncclComm* comm) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  std::string inherited_name;
  if (given) {
    size_t size = 0;
    memcpy(&size, given, sizeof size);
    if (size < offsetof(ncclConfig_t, blocking) + sizeof(int) || size > 4096) {
      Warn(nullptr, "ncclConfig_t names an impossible size; use NCCL_CONFIG_INITIALIZER");
      return ncclInvalidArgument;
    }
    memcpy(&config, given, std::min(size, sizeof config));
    if (config.magic != NCCL_API_MAGIC) {
      Warn(nullptr, "ncclConfig_t is not initialized; use NCCL_CONFIG_INITIALIZER");
      return ncclInvalidArgument;
    }
    const ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
    const auto reset = [&](unsigned since, auto ncclConfig_t::*field) {
      if (config.version < since) {
        config.*field = defaults.*field;
      }
    };
    reset(NCCL_VERSION(2, 17, 0), &ncclConfig_t::cgaClusterSize);
    reset(NCCL_VERSION(2, 17, 0), &ncclConfig_t::minCTAs);
    reset(NCCL_VERSION(2, 17, 0), &ncclConfig_t::maxCTAs);
    reset(NCCL_VERSION(2, 17, 0), &ncclConfig_t::netName);
    reset(NCCL_VERSION(2, 18, 0), &ncclConfig_t::splitShare);
    reset(NCCL_VERSION(2, 26, 0), &ncclConfig_t::trafficClass);
    reset(NCCL_VERSION(2, 27, 0), &ncclConfig_t::commName);
    reset(NCCL_VERSION(2, 27, 0), &ncclConfig_t::shrinkShare);
  } else if (parent) {
    config = parent->config;
    config.commName = nullptr;
    inherited_name = parent->name;
  }
  if (config.blocking != NCCL_CONFIG_UNDEF_INT && config.blocking != 0 && config.blocking != 1) {
    Warn(nullptr, "ncclConfig_t.blocking is %d; 0 and 1 are allowed", config.blocking);
    return ncclInvalidArgument;
  }
  if (parent && config.blocking == NCCL_CONFIG_UNDEF_INT) {
    config.blocking = parent->blocking ? 1 : 0;
  }
  if (const char* forced = getenv("NCCL_COMM_BLOCKING"); forced && (*forced == '0' || *forced == '1')) {
    config.blocking = *forced - '0';
  }
  comm->blocking = config.blocking != 0;
  config.blocking = comm->blocking ? 1 : 0;
  comm->name = config.commName ? config.commName : inherited_name;
  config.commName = nullptr;  // the caller may free the string later
  config.netName = nullptr;
  comm->config = config;
  return ncclSuccess;
}

void Hash::Eat(const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  acc_[0] ^= bytes;
  while (bytes > 0) {
    acc_[0] += acc_[1];
    acc_[1] ^= acc_[0];
    acc_[0] ^= acc_[0] >> 31;
    acc_[0] *= 0x9de62bbc8cef3ce3u;
    acc_[1] ^= acc_[1] >> 32;
    acc_[1] *= 0x485cd6311b599e79u;
    const size_t take = std::min<size_t>(bytes, 8);
    uint64_t chunk = 0;
    memcpy(&chunk, at, take);
    acc_[0] += chunk;
    at += take;
    bytes -= take;
  }
}

uint64_t Hash::Digest() const {
  uint64_t h = acc_[0];
  h ^= h >> 31;
  h *= 0xbac3bd562846de6bu;
  h += acc_[1];
  h ^= h >> 32;
  h *= 0x995a187a14e7b445u;
  return h;
}

void Warn(ncclComm* comm, const char* format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  thread_error = text;
  if (comm) {
    const std::lock_guard lock(comm->mutex);
    comm->last_error = text;
  }
  if (DebugLevel() >= 1) {
    fprintf(stderr, "standin:%d NCCL WARN %s\n", static_cast<int>(getpid()), text);
  }
}

void Info(const char* format, ...) {
  if (DebugLevel() < 2) {
    return;
  }
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  fprintf(stderr, "standin:%d NCCL INFO %s\n", static_cast<int>(getpid()), text);
}

}  // namespace standin

STANDIN_API(const char*, ncclGetLastError, (ncclComm_t)) { return standin::thread_error.c_str(); }

STANDIN_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t handle, ncclResult_t* result)) {
  const auto comm = standin::FindComm(handle);
  if (!comm || !result) {
    return ncclInvalidArgument;
  }
  *result = comm->async_result.load(std::memory_order_acquire);
  return ncclSuccess;
}
