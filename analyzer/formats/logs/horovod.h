// Reads warnings of Horovod's stall inspector about tensors that some ranks have not submitted.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace lockstep::logs {

// The newest warning. Several processes may print the same one.
struct StalledTensors {
  std::map<std::string, std::set<int32_t>> missing;  // ranks that have not submitted a tensor, by the tensor's name
  int64_t number = 0;                                // number of the warning's line; 0 if there is none
};

class StallReader {
 public:
  // `whole` is the line with the launcher's prefix, because lists begin like srun's labels: "1: [gradients/mul_0, ..]".
  // Returns whether the line is part of a warning.
  bool Take(std::string_view whole, int64_t number);
  StalledTensors Finish() { return std::move(stalled_); }

 private:
  bool TakeList(std::string_view text);

  StalledTensors stalled_;
  bool listing_ = false;  // the lists of ranks follow
};

}  // namespace lockstep::logs
