// Separates jobs with the same user, name, step and restart count that run at the same time or shortly after each
// other.
//
// Its input is reports from senders: processes (in an agent), or agents and relays (in a relay or the collector).
// Senders that share a communicator belong to one job, because communicators have unique IDs. Senders that share none
// (parts that never communicate) also belong to one job, with two exceptions: a rank is alive in both; or all ranks of
// one have ended, and one of them is alive in the other (a restart).
//
// Each program that merges reports separates and numbers jobs independently, and forwards its number as
// JobIdentity.life. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "analyzer/model/rank_set.h"

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

  // Takes a sender's current report: its ranks replace the ranks of its earlier reports, and its communicators are
  // added to the earlier ones. A sender is one process, so a restarted process is a new sender. Returns the number of
  // its job, counted from 0 and never reused. Appends to *moves the senders that now belong to another job. A change
  // from or to kUndecided is not a move.
  int Report(const std::string& sender, const Ranks& alive, const Ranks& ended, absl::Span<const uint64_t> comms,
             std::vector<Move>* moves);
  // Call if the sender is silent. Until its next report, its ranks may have been started elsewhere.
  void Silent(const std::string& sender);
  // Forgets the sender.
  void Leave(const std::string& sender);
  // Returns the number of the sender's job; kUndecided if the sender is unknown.
  int Of(const std::string& sender) const;
  bool empty() const { return senders_.empty(); }

 private:
  struct Sender {
    uint32_t node = 0;  // index into `up_`
    uint64_t order = 0;
    Ranks alive, ended;
    absl::flat_hash_set<uint64_t> comms;
    int job = kUndecided;
    int asked = 0;  // number of attempts without a decision
  };
  void Sort(std::vector<Move>* moves);
  void Gather();
  uint32_t Top(uint32_t node);
  void Join(uint32_t node, uint64_t comm);
  void RejoinAll();

  std::map<std::string, Sender> senders_;
  // Union over all senders. May include ranks that have left.
  Ranks alive_, ended_;
  // Union-find over shared communicators: each node's parent, and the first node of each communicator.
  std::vector<uint32_t> up_;
  absl::flat_hash_map<uint64_t, uint32_t> first_;
  bool rejoin_ = false;  // a sender left since the last RejoinAll()
  uint64_t orders_ = 0;
  int jobs_ = 0;          // number of assigned job numbers
  int only_job_ = 0;      // job number for new senders while there is only one job
  bool several_ = false;  // there is more than one job, or an undecided sender
};

}  // namespace lockstep
