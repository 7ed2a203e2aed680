// Finds waits for a GPU that no ring shows. While the launch queue is full, a thread waits in a kernel launch, and the
// recorder does not record launches. Without GPU progress markers, only the stacks show that the thread waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"
#include "collector/detect/digest_view.h"
#include "collector/detect/lateness.h"

namespace lockstep {

// A slot whose stacks are needed. Samples that began before `since_ns` do not count.
struct WantedLook {
  int32_t slot = -1;
  int64_t since_ns = 0;
};

// Pure: no clock, no I/O. One object for each restart of a job on a host. Not thread-safe.
class QuietRanks {
 public:
  // Time between two samples of a process, and the maximum number of samples per round.
  static constexpr int64_t kLookEvery = 2'500'000'000;
  static constexpr int kMostLooks = 8;

  // Adds the wait that the stacks of a wanted slot show, if at least two samples show it at the same place. A program
  // that keeps launching is in a launch in most samples, but not in the same one.
  void AddWait(const std::vector<ring::ThreadSnapshot>& threads, const Process& process, DigestView* view);
  // Returns the slots to sample now. Skips ranks whose ring shows a wait or marked streams. `views` are those of the
  // last Lateness::Observe. A round begins when every rank of the host has been quiet for longer than the limit of the
  // communicator that it used last. If the round shows no wait, the next one begins when the rank has been quiet twice
  // as long.
  std::vector<WantedLook> Due(int64_t now, const std::vector<DigestView>& views, const Lateness& lateness);

 private:
  struct State {
    int64_t moved_ns = 0;   // last progress or activity
    int64_t opened_ns = 0;  // start of the round; 0 if there is none
    int64_t limit_ns = 0;
    int64_t next_quiet_ns = 0;
    int64_t looked_ns = 0;           // time of the last sample
    int looks = 0;                   // consecutive samples that found the thread at this place
    int64_t place_ns = 0;            // time of the first of these samples
    std::vector<std::string> place;  // frames of the wait, from the waiting function outwards
    bool waits = false;              // the stacks show a wait
  };
  absl::flat_hash_map<int32_t, State> slots_;
};

}  // namespace lockstep
