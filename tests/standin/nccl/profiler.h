// Profiler plugins, loaded and called as in NCCL. The stream's thread records the work of a kernel and the network in a
// ProfilerWork, as NCCL's kernels write time stamps; a progress thread for each communicator reports it to the plugin.
#ifndef LOCKSTEP_TESTS_STANDIN_NCCL_PROFILER_H_
#define LOCKSTEP_TESTS_STANDIN_NCCL_PROFILER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

struct ncclComm;

namespace standin {

struct Task;

// One operation, from its launch to its end.
struct ProfilerWork {
  void* task_handle = nullptr;                   // of the plugin's Coll or P2p event
  std::atomic<uint64_t> started{0}, stopped{0};  // the GPU's clock
  std::atomic<uint32_t> published{0};            // steps that this GPU has handed to the network
  std::vector<std::atomic<uint32_t>> received;   // by peer: steps taken
  std::vector<uint32_t> sent_before;             // by peer: of its reads of our steps, those before this operation
  std::vector<bool> sends_to, receives_from;     // by peer
  uint32_t steps = 0;

  explicit ProfilerWork(size_t ranks) : received(ranks), sent_before(ranks), sends_to(ranks), receives_from(ranks) {}
  void Start();
  void Stop();
};

class ProfilerProgress;

// At the end of a communicator's initialization, and when it is freed.
void ProfilerInit(ncclComm& comm);
void ProfilerFinalize(ncclComm& comm);

// Around the queueing of an operation by the host, and of the group around it.
void ProfilerBeginCall(Task& task, int group_depth);
void ProfilerEndCall();
void ProfilerBeginGroupEnd();
void ProfilerEndGroup();

// The operations of one launch: before it, `work` is created if the plugin wants events; after it, they are reported.
void ProfilerPrepare(ncclComm& comm, std::vector<Task>& tasks);
void ProfilerLaunched(const std::shared_ptr<ncclComm>& comm, const std::vector<Task>& tasks);

// STANDIN_NET_STUCK=FROM:TO:STEP[:OPERATION]: what rank FROM sends to rank TO never comes from that step (of that
// operation) on.
bool NetworkIsStuck(const ncclComm& comm, int from, uint64_t operation, uint64_t step);

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_NCCL_PROFILER_H_
