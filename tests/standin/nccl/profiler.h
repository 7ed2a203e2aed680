// Loads and calls profiler plugins as NCCL does. The stream's thread records kernel and network work in a ProfilerWork,
// as NCCL's kernels write time stamps. Each communicator has a progress thread that reports the work to the plugin.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

struct ncclComm;

namespace standin {

struct Task;

// One operation, from its launch to its end.
struct ProfilerWork {
  void* task_handle = nullptr;                   // handle of the plugin's Coll or P2p event
  std::atomic<uint64_t> started{0}, stopped{0};  // times on the GPU's clock
  std::atomic<uint32_t> published{0};            // number of steps that this GPU has passed to the network
  std::vector<std::atomic<uint32_t>> received;   // indexed by peer: number of steps received
  // Indexed by peer: number of steps that this GPU had sent to the peer before this operation.
  std::vector<uint32_t> sent_before;
  // Indexed by peer: whether this operation sends there, receives from there.
  std::vector<bool> sends_to, receives_from;
  uint32_t steps = 0;

  explicit ProfilerWork(size_t ranks) : received(ranks), sent_before(ranks), sends_to(ranks), receives_from(ranks) {}
  void Start();
  void Stop();
};

class ProfilerProgress;

// Called at the end of a communicator's initialization, and when it is freed.
void ProfilerInit(ncclComm& comm);
void ProfilerFinalize(ncclComm& comm);

// Called around the queueing of an operation, and around its group.
void ProfilerBeginCall(Task& task, int group_depth);
void ProfilerEndCall();
void ProfilerBeginGroupEnd();
void ProfilerEndGroup();

// Called for the operations of one launch. Before the launch, creates `work` if the plugin wants events. After the
// launch, reports the operations.
void ProfilerPrepare(ncclComm& comm, std::vector<Task>& tasks);
void ProfilerLaunched(const std::shared_ptr<ncclComm>& comm, const std::vector<Task>& tasks);

// STANDIN_NET_STUCK=FROM:TO:STEP[:OPERATION]: from that step (of that operation) on, data from rank FROM never reaches
// rank TO.
bool NetworkIsStuck(const ncclComm& comm, int from, uint64_t operation, uint64_t step);

}  // namespace standin
