// A program linked against a complete NCCL and run with one without most functions. Calls of missing functions reach
// only the recorder.
#include <cuda_runtime.h>
#include <errno.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdio>

int main() {
  errno = 44;
  const auto say = [](const char* what, int result) {
    std::printf("%s %d errno %d\n", what, result, errno);
    errno = 44;
  };
  ncclUniqueId id;
  ncclComm_t comm = nullptr, child = nullptr;
  say("id", ncclGetUniqueId(&id));
  say("init", ncclCommInitRank(&comm, 1, id, 0));
  errno = 44;
  say("split", ncclCommSplit(comm, 0, 0, &child, nullptr));
  int excluded = 0;
  say("shrink", ncclCommShrink(comm, &excluded, 1, &child, nullptr, 0));
  say("grow", ncclCommGrow(comm, 2, nullptr, -1, &child, nullptr));
  say("config", ncclCommInitRankConfig(&child, 1, id, 0, nullptr));
  say("scalable", ncclCommInitRankScalable(&child, 1, 0, 1, &id, nullptr));
  say("send", ncclSend(nullptr, 1, ncclFloat, 0, comm, nullptr));
  say("all to all", ncclAlltoAll(nullptr, nullptr, 0, ncclFloat, comm, nullptr));
  say("configured reduce", ncclAllReduceConfig(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, nullptr, nullptr));
  say("signal", ncclSignal(0, 0, 0, 0, comm, nullptr));
  void* memory = nullptr;
  say("memory", ncclMemAlloc(&memory, 4096));
  uint64_t bytes = 0;
  say("statistics", ncclCommMemStats(comm, ncclStatGpuMemTotal, &bytes));
  say("finalize", ncclCommFinalize(comm));
  say("revoke", ncclCommRevoke(comm, 0));
  say("simulate", ncclGroupSimulateEnd(nullptr));
  const ncclTeam_t team = ncclTeamWorld(comm);
  std::printf("team %d %d %d, slots %d, error \"%s\"\n", team.nRanks, team.rank, team.stride, ncclLLA2ACalcSlots(1, 1),
              ncclGetLastError(comm));
  say("destroy", ncclCommDestroy(comm));
  return 0;
}
