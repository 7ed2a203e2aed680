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
  // Its ranks are alive in another job too, and it has named no communicator yet: its reports cannot be assigned.
  static constexpr int kUndecided = -1;

  struct Move {
    std::string sender;
    int from = 0, to = 0;
  };

  // A sender's current report: ranks replace its earlier ones, communicators are added. A sender is one process: a
  // restarted one is another sender. Returns the number of its job, from 0, never used twice. *moves: senders that were
  // assigned to another job than before (appended; neither from nor to kUndecided).
  int Say(const std::string& sender, const Ranks& alive, const Ranks& ended, absl::Span<const uint64_t> comms,
          std::vector<Move>* moves);
  // Its ranks may have been started elsewhere, until its next report.
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
    int asked = 0;  // number of undecided attempts
  };
  void Sort(std::vector<Move>* moves);
  void Gather();
  uint32_t Top(uint32_t node);
  void Join(uint32_t node, uint64_t comm);
  void JoinAnew();

  std::map<std::string, Sender> senders_;
  // Of all senders together. May include ranks that are no longer in them.
  Ranks alive_, ended_;
  // Senders that share communicators, directly or through others: each node's parent; the first node of each
  // communicator.
  std::vector<uint32_t> up_;
  absl::flat_hash_map<uint64_t, uint32_t> first_;
  bool join_anew_ = false;  // a sender left
  uint64_t orders_ = 0;
  int jobs_ = 0;          // numbers given out
  int ground_ = 0;        // job number for new senders while there is only one job
  bool several_ = false;  // more than one job, or an undecided sender
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_NAMESAKES_H_
