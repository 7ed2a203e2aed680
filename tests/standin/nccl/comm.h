// The communicator of the NCCL stand-in, and the declarations that its files share.
#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/standin/cuda/engine.h"
#include "tests/standin/nccl/profiler.h"
#include "tests/standin/nccl/reduce.h"
#include "tests/standin/nccl/segment.h"

// Defines a public function as NCCL does. The weak, visible ncclX sends even this library's own calls through the PLT.
// The strong pncclX has the same address.
#ifdef STANDIN_HIDDEN
// The static library exports nothing, like an NCCL that is linked statically with hidden symbols.
#define STANDIN_VISIBILITY "hidden"
#else
#define STANDIN_VISIBILITY "default"
#endif
#define STANDIN_API(type, name, params)                                                         \
  extern "C" __attribute__((visibility(STANDIN_VISIBILITY), alias(#name))) type p##name params; \
  extern "C" __attribute__((visibility(STANDIN_VISIBILITY), weak)) type name params

namespace standin {
class ProfilerPlugin;
constexpr size_t kRasCounts = 5;
}  // namespace standin

// The table of handles, the threads that work on a communicator, and its queued operations share its ownership.
struct ncclComm {
  // Set when initialization ends; before that there are 0 ranks.
  int rank = -1;
  int nranks = 0;
  int device = 0;
  uint64_t hash = 0;
  uint64_t magic = 0;  // first 8 bytes of the unique id, or the parent's hash
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  std::string name;
  bool blocking = true;
  int child_count = 0;
  std::unique_ptr<standin::Segment> segment;

  std::atomic<ncclResult_t> async_result{ncclSuccess};
  std::atomic<bool> aborted{false};
  std::atomic<bool> revoked{false};
  std::atomic<bool> finalized{false};
  std::atomic<bool> suspended{false};

  std::atomic<bool> ras_ready{false};  // all members have joined
  std::array<std::atomic<uint64_t>, standin::kRasCounts> ras_counts{};

  // Only the thread that uses the communicator touches the next members.
  uint64_t boot_seq = 0;
  uint64_t coll_seq = 0;
  uint64_t launches = 0;
  std::vector<uint64_t> send_seq;
  std::vector<uint64_t> recv_seq;
  standin::StreamPoint last_launch;
  standin::IdContent grow_id;

  // Only the running operation touches the next members. Operations run one after another.
  std::mutex turn_mutex;
  std::condition_variable turn_changed;
  uint64_t turn = 0;
  uint64_t published = 0;
  std::atomic<int> running{0};
  std::vector<uint32_t> signals_taken;  // indexed by peer: how many of the peer's signals finished waits have used

  std::mutex mutex;
  std::map<int, standin::Reduction> reductions;  // indexed by handle number, which starts at 5
  std::map<int, const void*> device_scalars;     // scalars in device memory, indexed by handle number
  int next_reduction = ncclNumOps;
  std::map<void*, size_t> registrations;
  std::string last_error;

  // The profiler plugin; null if there is none.
  standin::ProfilerPlugin* profiler = nullptr;
  void* profiler_context = nullptr;
  std::shared_ptr<standin::ProfilerProgress> progress;
};

namespace standin {

using CommPtr = std::shared_ptr<ncclComm>;

// The table of handles. Returns null for a handle that is not a live communicator.
CommPtr NewComm(ncclComm_t* handle);
CommPtr FindComm(ncclComm_t handle);
void ForgetComm(ncclComm_t handle);
std::vector<CommPtr> AllComms();

// Fails unless `handle` is a usable communicator. Calls the public ncclCommGetAsyncError, as NCCL does.
ncclResult_t EnsureReady(ncclComm_t handle, CommPtr* comm);

// Every member (or each of `members`) contributes `data` and gets everyone's data. Returns false if aborted.
bool AllGatherBoot(ncclComm& comm, const void* data, size_t bytes, std::vector<std::vector<unsigned char>>* all,
                   const std::vector<int>* members = nullptr);

// Waits for a bell for a bounded time. Returns false if the communicator was aborted. With STANDIN_REMOTE_ERROR=1, a
// dead peer causes an asynchronous error of the communicator, and the wait continues.
bool WaitBell(ncclComm& comm, Bell& bell, uint32_t seen);

// Reads a caller's configuration as NCCL does: reads its size first and nothing beyond that size. Null means the
// defaults, or `parent`'s configuration.
ncclResult_t ReadConfig(const ncclConfig_t* given, const ncclComm* parent, ncclComm* comm);

// NCCL's 64-bit hash.
class Hash {
 public:
  void Eat(const void* data, size_t bytes);
  uint64_t Digest() const;

 private:
  uint64_t acc_[2] = {1, 1};
};

enum class Kind : uint8_t {
  kAllReduce = 1,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};

// An operation between its call and its launch.
struct Task {
  CommPtr comm;
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  Reduction reduction;
  const void* device_scalar = nullptr;
  int peer = 0;  // peer, or root
  std::shared_ptr<Stream> stream;
  uint64_t seq = 0;
  std::function<void(ncclComm&)> one_sided;  // runs instead of `kind`
  // The next fields are for the profiler plugin.
  void* stream_handle = nullptr;
  void* api_handle = nullptr;
  int profiler_mask = 0;  // the mask at the time of the call
  std::shared_ptr<ProfilerWork> work;
};

// A call that creates or changes a communicator. `run` runs when the outermost group ends; each of several jobs runs on
// its own thread. `finish` gets the job's result after all jobs of the group have run.
struct Job {
  CommPtr comm;
  std::function<ncclResult_t()> run;
  std::function<void(ncclResult_t)> finish;
  std::function<void()> drop = {};  // runs instead of `finish` if the group never ran the job
};

ncclResult_t GroupStart();
ncclResult_t GroupEnd(bool simulate);
int GroupDepth();
// Adds the task to the open group, or runs a group of this task alone.
ncclResult_t AddTask(Task task);
ncclResult_t AddJob(Job job);
// Stores the error of a call inside a group and returns it.
ncclResult_t GroupError(ncclResult_t result);

// Puts one communicator's tasks on their streams, in call order.
ncclResult_t Launch(const CommPtr& comm, std::vector<Task> tasks);

// These run on a stream, and return early if the communicator is aborted.
void RunCollective(ncclComm& comm, const Task& task);
void RunPointToPoint(ncclComm& comm, const std::vector<Task>& tasks);

// Warn prints a line to stderr if NCCL_DEBUG is WARN or INFO, and keeps it for ncclGetLastError. Info only prints, and
// only for INFO.
void Warn(ncclComm* comm, const char* format, ...) __attribute__((format(printf, 2, 3)));
void Info(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace standin
