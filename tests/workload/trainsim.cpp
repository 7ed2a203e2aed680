// A Megatron-like training loop that uses only NCCL and the CUDA runtime, with optional faults. See --help and
// README.md.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/workload/comms.h"
#include "tests/workload/device.h"
#include "tests/workload/faults.h"
#include "tests/workload/options.h"
#include "tests/workload/pauses.h"
#include "tests/workload/store.h"
#include "tests/workload/trainer.h"

namespace trainsim {
namespace {

constexpr int kUsage = 2;

int UsageError(const std::string& error) {
  std::fprintf(stderr, "trainsim: %s\n", error.c_str());
  return kUsage;
}

void SelectDevice(const Environment& environment) {
  int devices = 0;
  CUDA_OK(cudaGetDeviceCount(&devices));
  if (devices < 1) FailCall("cudaGetDeviceCount", "no device", __FILE__, __LINE__);
  CUDA_OK(cudaSetDevice(environment.local_rank % devices));
}

void Train(const Options& options, const Environment& environment, Trainer* trainer) {
  if (options.slow_start_s > 0) {
    const double late = environment.world > 1 ? static_cast<double>(environment.rank) / (environment.world - 1) : 1;
    SlowStart(options.slow_start_s * (0.5 + 0.5 * late));
  }
  PauseAfter(options, environment.rank, 0, trainer);
  for (int step = 1; step <= options.steps; ++step) {
    trainer->Step(step);
    if (environment.rank == 0 && (step % options.print_every == 0 || step == options.steps)) {
      std::printf("step %d/%d loss %.6f\n", step, options.steps, trainer->loss());
    }
    PauseAfter(options, environment.rank, step, trainer);
  }
}

int Run(const Options& options, const Environment& environment) {
  SetRankForMessages(environment.rank);
  SelectDevice(environment);
  // The server runs until rank 0 exits: groups without rank 0 may exchange their IDs after rank 0 has created its
  // groups.
  TCPStoreServer server;
  std::string error;
  if (environment.rank == 0 && !server.Start(environment.master_addr, environment.master_port, &error)) {
    FailCall("starting the store", error.c_str(), __FILE__, __LINE__);
  }
  TCPStore store(environment.master_addr, environment.master_port, options.store_timeout_s);
  Communicators comms(options, environment, &store);
  Trainer trainer(options, environment.rank, &comms);
  if (environment.rank == 0) {
    std::printf("trainsim: %d ranks, tp %d, pp %d, dp %d, ep %d, %d steps\n", environment.world, options.tp, options.pp,
                options.dp, options.ep, options.steps);
  }
  bool finished = false;
  try {
    Train(options, environment, &trainer);
    finished = true;
  } catch (const LeaveLoop& leave) {
    // exit() runs no destructors of this frame, so nothing is destroyed and nothing waits.
    if (leave.kind == FaultKind::kExitEarly) std::exit(0);
  }
  comms.Destroy();
  trainer.TearDown();
  if (finished && environment.rank == 0) std::printf("trainsim: done\n");
  return 0;
}

}  // namespace
}  // namespace trainsim

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  trainsim::Options options;
  trainsim::Environment environment;
  bool help = false;
  std::string error;
  if (!trainsim::Parse(std::vector<std::string>(argv + 1, argv + argc), &options, &help, &error)) {
    return trainsim::UsageError(error);
  }
  if (help) {
    std::fputs(trainsim::HelpText().c_str(), stdout);
    return 0;
  }
  if (!trainsim::ReadEnvironment(options, &environment, &error)) return trainsim::UsageError(error);
  return trainsim::Run(options, environment);
}
