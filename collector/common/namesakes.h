// Jobs that are called alike (same user, name, step and restart count), at the same time or one soon after the other,
// told apart by what their senders say: a sender is a process on its host, an agent at a relay or at the collector, a
// relay. Who shares a communicator is of one job: communicators are made with unique ids. Those that share none are of
// one job too (parts that never talk to each other), unless a rank lives in both, or one has a rank that ended in the
// other after all of the other had ended: that is the job started anew. Each place that merges sorts for itself, and
// numbers by itself: what it says to the next one carries its number as JobIdentity.life. Pure; not thread-safe.
#ifndef LOCKSTEP_COLLECTOR_COMMON_NAMESAKES_H_
#define LOCKSTEP_COLLECTOR_COMMON_NAMESAKES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "collector/common/rank_set.h"

namespace lockstep {

class Namesakes {
 public:
  // Its ranks live in another job, and it has named no communicator yet: what it says cannot be laid to anybody.
  static constexpr int kUndecided = -1;

  struct Move {
    std::string sender;
    int from = 0, to = 0;
  };

  // What a sender says now; ranks in the place of those said before, communicators besides them. A sender is one
  // process: one that was started anew is another. The number of its job, 0 first, never given out twice. *moves:
  // senders that turn out to be of another job than it seemed (appended; neither from nor to kUndecided).
  int Say(const std::string& sender, const Ranks& alive, const Ranks& ended, absl::Span<const uint64_t> comms,
          std::vector<Move>* moves);
  // Its ranks may have been started elsewhere. Until it says something.
  void Silent(const std::string& sender);
  void Leave(const std::string& sender);
  int Of(const std::string& sender) const;
  bool empty() const { return senders_.empty(); }

 private:
  struct Sender {
    uint32_t node = 0;  // among `up_`
    uint64_t order = 0;
    Ranks alive, ended;
    absl::flat_hash_set<uint64_t> comms;
    int job = kUndecided;
    int asked = 0;  // times that it could not be decided
  };
  void Sort(std::vector<Move>* moves);
  void Gather();
  uint32_t Top(uint32_t node);
  void Join(uint32_t node, uint64_t comm);
  void JoinAnew();

  std::map<std::string, Sender> senders_;
  // Of all senders together; true of what is in them, and perhaps of ranks that are in them no more.
  Ranks alive_, ended_;
  // Senders that share communicators, directly or by others: each node's parent; the first node of each communicator.
  std::vector<uint32_t> up_;
  absl::flat_hash_map<uint64_t, uint32_t> first_;
  bool join_anew_ = false;  // somebody left
  uint64_t orders_ = 0;
  int jobs_ = 0;          // numbers given out
  int ground_ = 0;        // of whoever comes while there is one job
  bool several_ = false;  // more than one job, or one that is undecided
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_NAMESAKES_H_
