// Reads the output of NCCL's Inspector, a profiler plugin: one JSON object for each completed operation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "recorder/ring/calls.h"

namespace lockstep::logs {

// A completed collective. NCCL numbers each kind separately on each communicator.
struct InspectorOp {
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t number = 0, bytes = -1;
  int64_t called_ns = 0, started_ns = 0, completed_ns = 0;  // on the host's clock; 0 if not printed
};

// One process's part in a communicator.
struct InspectorComm {
  std::string id, name, host;
  int64_t pid = 0;
  int32_t rank = -1, size = 0;      // inside the communicator
  std::vector<InspectorOp> newest;  // a ring buffer once it is full
  int64_t ops = 0, transfers = 0;   // number of collectives, and of sends and receives
  int64_t number = 0;               // number of its first line
};

// Parses the file line by line. Since format 4.3, a line about an operation belongs to the communicator of the last
// line with a header.
class InspectorReader {
 public:
  void Take(std::string_view text, int64_t number);
  std::vector<InspectorComm> Finish();

 private:
  using Key = std::tuple<std::string, std::string, int64_t, int32_t>;  // id, host, process, rank

  bool TakeHeader(std::string_view text, int64_t number);

  std::vector<InspectorComm> comms_;
  std::map<Key, size_t> known_;
  size_t current_ = SIZE_MAX;  // index of the communicator of the last header
  size_t kept_ = 0;
};

// Returns whether a file begins like this output.
bool IsInspectorJson(std::string_view head);

}  // namespace lockstep::logs
