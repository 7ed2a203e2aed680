// Measures what the recorder costs a CPU thread and prints Markdown tables: the CPU time of a ring write, and for each
// GPU mode the time added to each call of an NCCL and CUDA that do nothing, and of the stand-ins if their folder is
// given. Other tables show memory and the time of the first call. Times are medians, except the
// elapsed time of the first call, which is a minimum.
//   recorder_bench CALLS_PROGRAM LIBLOCKSTEP RING_FOLDER [STANDIN_FOLDER]
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "recorder/core/ops.h"
#include "recorder/core/slots.h"

namespace {

using lockstep::recorder::GpuMode;
using lockstep::recorder::Now;
using lockstep::recorder::PublishSlot;
using lockstep::recorder::Slot;
using lockstep::recorder::StartOn;
using lockstep::recorder::TakeSlot;
using lockstep::recorder::Thread;
using lockstep::recorder::ThreadState;

double ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Measures the write of one slot with a time stamp, the minimum cost of every record.
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

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Measures one reading of the clock for time stamps.
double ClockNs() {
  constexpr int kRuns = 11, kReads = 1000000;
  std::vector<double> results;
  for (int run = 0; run < kRuns; ++run) {
    uint64_t sum = 0;
    const double begin = ThreadCpuNs();
    for (int i = 0; i < kReads; ++i) sum += Now();
    results.push_back((ThreadCpuNs() - begin) / kReads);
    if (sum == 1) std::printf(" ");
  }
  return Median(results);
}

struct Bench {
  std::string program, library, folder, standin;

  // Runs the call program and returns the number that it prints. `settings` are environment variables. The recorder is
  // loaded only if `recorded` is true.
  double Once(const std::string& kind, int threads, int calls, const std::string& settings, bool recorded,
              bool on_standin) const {
    std::string command = settings + " LOCKSTEP_BUDGET=off LOCKSTEP_DIR='" + folder + "' ";
    if (on_standin) command += "RECORDER_CALLS_ALONE=1 LD_LIBRARY_PATH='" + standin + "' ";
    if (recorded) command += "LD_PRELOAD='" + library + "' ";
    command += "'" + program + "' " + kind + " " + std::to_string(threads) + " " + std::to_string(calls);
    FILE* pipe = popen(command.c_str(), "r");
    double number = -1;
    if (pipe == nullptr || std::fscanf(pipe, "%lf", &number) != 1) number = -1;
    if (pipe == nullptr || pclose(pipe) != 0 || number < 0) {
      std::fprintf(stderr, "recorder_bench: failed: %s\n", command.c_str());
      std::exit(1);
    }
    return number;
  }
  // Measures what the recorder adds. Runs with and without the recorder alternate, so that changes of the machine's
  // state affect both.
  double Added(const std::string& kind, int threads, int calls, const std::string& settings, bool on_standin = false,
               double* plain_ns = nullptr) const {
    std::vector<double> plain, recorded;
    for (int i = 0; i < (on_standin ? 7 : 5); ++i) {
      plain.push_back(Once(kind, threads, calls, settings, false, on_standin));
      recorded.push_back(Once(kind, threads, calls, settings, true, on_standin));
    }
    if (plain_ns != nullptr) *plain_ns = Median(plain);
    return Median(recorded) - Median(plain);
  }
};

constexpr const char* kModes[] = {"off", "done", "full", "events", "profiler"};
constexpr int kThreads[] = {1, 2, 8};

void Writes(double clock) {
  std::printf(
      "Ring write (goal: 15 ns; the clock's own reading takes %.1f ns):\n\n| threads | ns | less the clock |\n| --- | "
      "--- | --- |\n",
      clock);
  constexpr uint64_t kBytes = 4u << 20;
  for (const int threads : kThreads) {
    void* memory = std::aligned_alloc(4096, kBytes);
    std::fill_n(static_cast<char*>(memory), kBytes, 0);
    StartOn(static_cast<uint8_t*>(memory), kBytes, GpuMode::kOff);
    const double write = WriteNs(threads);
    std::printf("| %d | %.1f | %.1f |\n", threads, write, write - clock);
    std::fflush(stdout);
  }
}

void Calls(const Bench& bench, double clock) {
  std::printf(
      "\nAdded per call to libraries that do nothing (goal: 40 ns with marks off; a collective reads the clock "
      "twice):\n\n"
      "| LOCKSTEP_GPU | threads | collective ns | less the clock | grouped send or receive ns |\n| --- | --- | --- | "
      "--- | --- |\n");
  for (const char* mode : kModes) {
    for (const int threads : kThreads) {
      const std::string settings = std::string("LOCKSTEP_GPU=") + mode;
      const double collective = bench.Added("collective", threads, 200000, settings);
      const double group = bench.Added("group", threads, 200000, settings);
      std::printf("| %s | %d | %.1f | %.1f | %.1f |\n", mode, threads, collective, collective - 2 * clock, group);
      std::fflush(stdout);
    }
  }
}

void Standins(const Bench& bench) {
  std::printf(
      "\nAdded per collective to the CPU stand-ins of NCCL and CUDA (one thread; noisy: they queue and lock):\n\n"
      "| LOCKSTEP_GPU | stand-in alone ns | added ns | ratio |\n| --- | --- | --- | --- |\n");
  for (const char* mode : kModes) {
    double plain = 0;
    const double added = bench.Added("collective", 1, 2000, std::string("LOCKSTEP_GPU=") + mode, true, &plain);
    std::printf("| %s | %.0f | %.0f | %.3f |\n", mode, plain, added, (plain + added) / plain);
    std::fflush(stdout);
  }
}

void Others(const Bench& bench) {
  const double cuda = bench.Added("cuda", 1, 600000, "LOCKSTEP_GPU=off");
  const double cuda_off = bench.Added("cuda", 1, 600000, "LOCKSTEP_GPU=off LOCKSTEP_CUDA=off");
  double plain = 0;
  const double hook = bench.Added("dlsym", 1, 100000, "", false, &plain);
  const double hook_off = bench.Added("dlsym", 1, 100000, "LOCKSTEP_HOOK=off");
  std::printf("\nOther calls:\n\n| what | added ns |\n| --- | --- |\n");
  std::printf("| CUDA short list (event record, stream wait, stream synchronisation), mean | %.1f |\n", cuda);
  std::printf("| the same, LOCKSTEP_CUDA=off | %.1f |\n", cuda_off);
  std::printf("| dlsym of a name that is not ours (%.0f ns alone) | %.1f |\n", plain, hook);
  std::printf("| the same, LOCKSTEP_HOOK=off | %.1f |\n", hook_off);
}

void Sizes(const Bench& bench) {
  const double memory = bench.Added("memory", 1, 100000, "");
  const double memory8 = bench.Added("memory", 8, 100000, "");
  uintmax_t file = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(bench.folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".ring") file = std::max(file, entry.file_size());
  }
  struct stat info {};
  if (stat(bench.library.c_str(), &info) != 0) info.st_size = 0;
  // Takes the minimum of many elapsed times, because other load can only increase them.
  std::vector<double> plain, recorded, plain_cpu, recorded_cpu;
  for (int i = 0; i < 21; ++i) {
    // A new folder, because the recorder would search an old one for files of earlier processes.
    std::filesystem::remove_all(bench.folder);
    plain.push_back(bench.Once("first", 1, 1, "", false, false));
    recorded.push_back(bench.Once("first", 1, 1, "", true, false));
    plain_cpu.push_back(bench.Once("first-cpu", 1, 1, "", false, false));
    recorded_cpu.push_back(bench.Once("first-cpu", 1, 1, "", true, false));
  }
  const double least =
      *std::min_element(recorded.begin(), recorded.end()) - *std::min_element(plain.begin(), plain.end());
  std::printf("\nMemory of a rank, and its first call:\n\n| what | |\n| --- | --- |\n");
  std::printf("| ring file (goal: 4 MiB) | %.2f MiB |\n", static_cast<double>(file) / (1 << 20));
  std::printf("| private memory added, 1 thread, 8 threads | %.0f KiB, %.0f KiB |\n", memory, memory8);
  std::printf("| library's file, shared by all ranks of a host | %.0f KiB |\n",
              static_cast<double>(info.st_size) / 1024);
  std::printf(
      "| from the first call to the first record, the file's making included: processor time, least time elapsed | "
      "%.0f us, %.0f us |\n",
      (Median(recorded_cpu) - Median(plain_cpu)) / 1000, least / 1000);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: recorder_bench CALLS_PROGRAM LIBLOCKSTEP RING_FOLDER [STANDIN_FOLDER]\n");
    return 2;
  }
  const Bench bench{argv[1], argv[2], argv[3], argc > 4 ? argv[4] : ""};
  {
    void* memory = std::aligned_alloc(4096, 1 << 20);
    std::fill_n(static_cast<char*>(memory), 1 << 20, 0);
    StartOn(static_cast<uint8_t*>(memory), 1 << 20, GpuMode::kOff);  // Start chooses the clock
  }
  const double clock = ClockNs();
  Writes(clock);
  Calls(bench, clock);
  if (!bench.standin.empty()) Standins(bench);
  Others(bench);
  Sizes(bench);
  return 0;
}
