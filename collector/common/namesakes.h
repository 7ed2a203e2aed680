// Separates jobs with the same user, name, step and restart count, which run at the same time or shortly after each
// other, by the reports of their senders. A sender is a process on its host, an agent at a relay or the collector, or a
// relay. Senders that share a communicator belong to one job, because communicators are created with unique ids.
// Senders that share none (parts that never communicate) also belong to one job, with two exceptions. In the first, a
// rank is alive in both. In the second, one has a rank of the other, whose ranks have all ended: the job was started
// again. Each place that merges reports separates and numbers jobs by itself, and passes its number on as
// JobIdentity.life. Pure; not thread-safe.
#pragma once

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
  // The sender's ranks are alive in another job too, and the sender has named no communicator yet, so its reports
  // cannot be assigned.
  static constexpr int kUndecided = -1;

  struct Move {
    std::string sender;
    int from = 0, to = 0;
  };

  // Takes a sender's current report: ranks replace its earlier ones, communicators are added. A sender is one process,
  // so a restarted process is another sender. Returns the number of its job, counted from 0 and never reused. *moves
  // gets the senders that now belong to another job than before (appended; neither from nor to kUndecided).
  int Say(const std::string& sender, const Ranks& alive, const Ranks& ended, absl::Span<const uint64_t> comms,
          std::vector<Move>* moves);
  // Until the sender's next report, its ranks may have been started elsewhere.
  void Silent(const std::string& sender);
  void Leave(const std::string& sender);
  int Of(const std::string& sender) const;
  bool empty() const { return senders_.empty(); }

 private:
  struct Sender {
    uint32_t node = 0;  // index into `up_`
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
  // Union over all senders. May include ranks that are no longer in them.
  Ranks alive_, ended_;
  // Senders that share communicators, directly or through others: each node's parent; the first node of each
  // communicator.
  std::vector<uint32_t> up_;
  absl::flat_hash_map<uint64_t, uint32_t> first_;
  bool join_anew_ = false;  // a sender left
  uint64_t orders_ = 0;
  int jobs_ = 0;          // number of assigned job numbers
  int ground_ = 0;        // job number for new senders while there is only one job
  bool several_ = false;  // there is more than one job, or an undecided sender
};

}  // namespace lockstep
