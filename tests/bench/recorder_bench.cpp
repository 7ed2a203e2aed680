// What the recorder costs the host: nanoseconds of processor time per recorded call, added to an NCCL that does
// nothing, and per ring write, for 1, 2 and 8 threads. GPU marks off. Medians of several runs.
//   recorder_bench CALLS_PROGRAM LIBLOCKSTEP RING_FOLDER
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "recorder/ops.h"
#include "recorder/slots.h"

namespace {

using lockstep::recorder::AssignRing;
using lockstep::recorder::CallSite;
using lockstep::recorder::FindCallSite;
using lockstep::recorder::GpuMode;
using lockstep::recorder::Now;
using lockstep::recorder::PublishSlot;
using lockstep::recorder::Slot;
using lockstep::recorder::StartOn;
using lockstep::recorder::TakeSlot;
using lockstep::recorder::Thread;
using lockstep::recorder::ThreadState;

// Processor time of the calling thread: what the call costs, whatever else the machine is doing.
double ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// One slot with a time stamp: what every record costs before anything else is done with it.
double WriteNs(int threads) {
  constexpr int kRuns = 11, kWrites = 1000000;
  std::vector<double> results(static_cast<size_t>(threads) * kRuns);
  std::barrier together(threads);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      ThreadState* thread = Thread();
      for (int run = 0; run < kRuns; ++run) {
        together.arrive_and_wait();
        const double begin = ThreadCpuNs();
        for (int i = 0; i < kWrites; ++i) {
          const Slot slot = TakeSlot(thread);
          lockstep::ring::OpSlot* op = slot.op;
          op->type = 1;
          op->stage = 1;
          op->datatype = 7;
          op->reduction = 0;
          op->kind = 1;
          op->comm = 0;
          op->root_or_peer = -1;
          op->caller_object = 5;
          op->count = static_cast<uint64_t>(i);
          op->seq = static_cast<uint64_t>(i);
          op->index_low = static_cast<uint32_t>(i);
          op->group_low = 0;
          op->stream = 0;
          op->thread = 0;
          op->result = 0;
          op->ticket = 0;
          op->graph = 0;
          op->enter_ticks = Now();
          op->return_ticks = 0;
          op->caller = 0x1234;
          op->send_address = 1;
          op->recv_address = 2;
          PublishSlot(thread, slot);
        }
        results[static_cast<size_t>(t * kRuns + run)] = (ThreadCpuNs() - begin) / kWrites;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::nth_element(results.begin(), results.begin() + static_cast<long>(results.size() / 2), results.end());
  return results[results.size() / 2];
}

// Runs the call program and gives its number; -1 when it fails.
double CallNs(const std::string& program, const std::string& library, const std::string& folder, int threads,
              bool group) {
  const std::string command =
      (library.empty() ? std::string()
                       : "LOCKSTEP_DIR='" + folder + "' LOCKSTEP_GPU=off LD_PRELOAD='" + library + "' ") +
      "'" + program + "' " + std::to_string(threads) + " 1000000" + (group ? " group" : "");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  double ns = -1;
  if (std::fscanf(pipe, "%lf", &ns) != 1) ns = -1;
  return pclose(pipe) == 0 ? ns : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: recorder_bench CALLS_PROGRAM LIBLOCKSTEP RING_FOLDER\n");
    return 2;
  }
  const std::string program = argv[1], library = argv[2], folder = argv[3];
  std::printf("%-8s %14s %16s %16s %14s %22s\n", "threads", "ring write ns", "call, plain ns", "recorded ns",
              "added ns", "added, grouped p2p ns");
  constexpr uint64_t kBytes = 4u << 20;
  for (const int threads : {1, 2, 8}) {
    void* memory = std::aligned_alloc(4096, kBytes);
    std::fill_n(static_cast<char*>(memory), kBytes, 0);
    StartOn(static_cast<uint8_t*>(memory), kBytes, GpuMode::kOff);
    const double write = WriteNs(threads);
    const double plain = CallNs(program, "", folder, threads, false);
    const double recorded = CallNs(program, library, folder, threads, false);
    const double plain_group = CallNs(program, "", folder, threads, true);
    const double recorded_group = CallNs(program, library, folder, threads, true);
    if (plain < 0 || recorded < 0 || plain_group < 0 || recorded_group < 0) {
      std::fprintf(stderr, "recorder_bench: %s failed\n", program.c_str());
      return 1;
    }
    std::printf("%-8d %14.1f %16.1f %16.1f %14.1f %22.1f\n", threads, write, plain, recorded, recorded - plain,
                recorded_group - plain_group);
  }
  std::printf("goals: ring write <= 15 ns, added <= 40 ns\n");
  return 0;
}
