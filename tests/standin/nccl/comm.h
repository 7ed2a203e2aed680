// The communicator of the NCCL stand-in, and the names its files share.
#ifndef LOCKSTEP_TESTS_STANDIN_NCCL_COMM_H_
#define LOCKSTEP_TESTS_STANDIN_NCCL_COMM_H_

#include <nccl.h>

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

// Defines a public function as NCCL does: a weak, default-visibility ncclX, which therefore is called through the PLT
// even from inside this library, and a strong pncclX at the same address.
#ifdef STANDIN_HIDDEN
// In the static library nothing is shown, as in an NCCL that was linked statically with hidden symbols.
#define STANDIN_VISIBILITY "hidden"
#else
#define STANDIN_VISIBILITY "default"
#endif
#define STANDIN_API(type, name, params)                                                         \
  extern "C" __attribute__((visibility(STANDIN_VISIBILITY), alias(#name))) type p##name params; \
  extern "C" __attribute__((visibility(STANDIN_VISIBILITY), weak)) type name params

namespace standin {
class ProfilerPlugin;
}

// A communicator is owned by the table of handles, by the threads that work on it and by the operations queued for it.
struct ncclComm {
  // Set when initialization ends; 0 ranks before.
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

  // Touched by the one thread that uses the communicator.
  uint64_t boot_seq = 0;
  uint64_t coll_seq = 0;
  uint64_t launches = 0;
  std::vector<uint64_t> send_seq;
  std::vector<uint64_t> recv_seq;
  standin::StreamPoint last_launch;
  standin::IdContent grow_id;

  // Touched by the operation that runs; they run one after another.
  std::mutex turn_mutex;
  std::condition_variable turn_changed;
  uint64_t turn = 0;
  uint64_t published = 0;
  std::atomic<int> running{0};
  std::vector<uint32_t> signals_taken;  // of each peer, by waits that have ended

  std::mutex mutex;
  std::map<int, standin::Reduction> reductions;  // by plain number, 5 and up
  std::map<int, const void*> device_scalars;     // of those whose scalar lies in device memory
  int next_reduction = ncclNumOps;
  std::map<void*, size_t> registrations;
  std::string last_error;

  // Of the profiler plugin; null when there is none.
  standin::ProfilerPlugin* profiler = nullptr;
  void* profiler_context = nullptr;
  std::shared_ptr<standin::ProfilerProgress> progress;
};

namespace standin {

using CommPtr = std::shared_ptr<ncclComm>;

// The table of handles. A handle that is no live communicator gives null.
CommPtr NewComm(ncclComm_t* handle);
CommPtr FindComm(ncclComm_t handle);
void ForgetComm(ncclComm_t handle);

// Fails unless `handle` is a communicator that may be used now; asks through the public ncclCommGetAsyncError, as NCCL
// does.
ncclResult_t EnsureReady(ncclComm_t handle, CommPtr* comm);

// Every member (or every one of `members`) puts `data` and gets everybody's; false if aborted.
bool AllGatherBoot(ncclComm& comm, const void* data, size_t bytes, std::vector<std::vector<unsigned char>>* all,
                   const std::vector<int>* members = nullptr);

// Waits for a bell, a bounded time; false if the communicator was aborted. With STANDIN_REMOTE_ERROR=1 a dead peer
// becomes the communicator's asynchronous error; the wait continues.
bool WaitBell(ncclComm& comm, Bell& bell, uint32_t seen);

// Reads a caller's configuration by NCCL's rule: its own size first, never beyond it. Null means the defaults (or
// `parent`'s).
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
  int peer = 0;  // or root
  std::shared_ptr<Stream> stream;
  uint64_t seq = 0;
  std::function<void(ncclComm&)> one_sided;  // instead of `kind`
  // Of the profiler plugin.
  void* stream_handle = nullptr;
  void* api_handle = nullptr;
  int profiler_mask = 0;  // as it was when the host called
  std::shared_ptr<ProfilerWork> work;
};

// A call that creates or changes a communicator; run at the outermost group end, each on its own thread if there are
// several. `publish` runs afterwards, once all jobs of the group ended well; `drop` instead if the group is abandoned.
struct Job {
  CommPtr comm;
  std::function<ncclResult_t()> run;
  std::function<void(ncclResult_t)> finish;
  std::function<void()> drop = {};  // instead of `finish` where the group never ran it
};

// The group of the calling thread.
ncclResult_t GroupStart();
ncclResult_t GroupEnd(bool simulate);
int GroupDepth();
// Adds to the open group, or makes a group of this alone.
ncclResult_t AddTask(Task task);
ncclResult_t AddJob(Job job);
// Remembers an error of a call inside a group; returns it.
ncclResult_t GroupError(ncclResult_t result);

// Puts the tasks of one communicator, in the order of their calls, on their streams.
ncclResult_t Launch(const CommPtr& comm, std::vector<Task> tasks);

// Operations as stream work. They return early when the communicator is aborted.
void RunCollective(ncclComm& comm, const Task& task);
void RunPointToPoint(ncclComm& comm, const std::vector<Task>& tasks);

// Says one line on stderr if NCCL_DEBUG is WARN (or INFO), and keeps it for ncclGetLastError.
void Warn(ncclComm* comm, const char* format, ...) __attribute__((format(printf, 2, 3)));
void Info(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_NCCL_COMM_H_
