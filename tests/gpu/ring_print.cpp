// Prints the contents of ring files, one line of JSON per file, to check recordings without an analyzer.
#include <cstdio>
#include <map>
#include <string>

#include "recorder/ring/reader.h"

namespace {

// Returns the number of graph launches, or 0 if the reader does not support graphs.
template <class Snapshot>
uint64_t Replays(const Snapshot& snapshot) {
  uint64_t replays = 0;
  if constexpr (requires { snapshot.graphs; }) {
    for (const auto& graph : snapshot.graphs) replays += graph.launches;
  }
  return replays;
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  for (int i = 1; i < argc; ++i) {
    lockstep::ring::Snapshot snapshot;
    std::string error;
    if (!lockstep::ring::ReadRingFile(argv[i], {}, &snapshot, &error)) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.c_str());
      status = 1;
      continue;
    }
    std::map<std::string, uint64_t> kinds;
    uint64_t captured = 0;
    for (const auto& op : snapshot.ops) {
      ++kinds[lockstep::ring::CallName(op.kind)];
      if (op.stage == lockstep::ring::OpStage::kCaptured) ++captured;
    }
    uint64_t timed = 0;
    for (const auto& kernel : snapshot.kernels) timed += kernel.gpu_times ? 1 : 0;
    std::printf(
        "{\"rank\": %d, \"nccl\": %d, \"cuda\": %d, \"marks\": %u, \"clean\": %s, \"lost\": %llu, \"captured\": %llu, "
        "\"replays\": %llu, "
        "\"profiler\": %u, \"kernels\": %zu, \"gpu_times\": %llu, \"proxies\": %zu, \"issued\": [",
        snapshot.process.rank, snapshot.process.nccl_version, snapshot.process.cuda_version,
        static_cast<unsigned>(snapshot.process.gpu_marks),
        snapshot.process.state == lockstep::ring::RecorderState::kCleanExit ? "true" : "false",
        static_cast<unsigned long long>(snapshot.records_lost), static_cast<unsigned long long>(captured),
        static_cast<unsigned long long>(Replays(snapshot)), snapshot.profiler.interface_version,
        snapshot.kernels.size(), static_cast<unsigned long long>(timed), snapshot.proxies.size());
    const char* comma = "";
    for (const auto& comm : snapshot.comms) {
      std::printf("%s%llu", comma, static_cast<unsigned long long>(comm.issued_seq));
      comma = ", ";
    }
    std::printf("], \"streams\": [");
    comma = "";
    for (const auto& stream : snapshot.streams) {
      std::printf("%s{\"marked\": %s, \"issued\": %llu, \"started\": %llu, \"completed\": %llu, \"error\": %d}", comma,
                  stream.marked ? "true" : "false", static_cast<unsigned long long>(stream.issued),
                  static_cast<unsigned long long>(stream.started), static_cast<unsigned long long>(stream.completed),
                  stream.first_error);
      comma = ", ";
    }
    std::printf("], \"kinds\": {");
    comma = "";
    for (const auto& [name, count] : kinds) {
      std::printf("%s\"%s\": %llu", comma, name.c_str(), static_cast<unsigned long long>(count));
      comma = ", ";
    }
    std::printf("}}\n");
  }
  return status;
}
