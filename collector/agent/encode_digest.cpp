#include "collector/agent/encode_digest.h"

#include <algorithm>
#include <set>

#include "absl/types/span.h"
#include "analyzer/formats/lsd/columns.h"
#include "analyzer/formats/lsd/convert.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/util/printable.h"

namespace lockstep {

void EncodeDigest(const Bundle& bundle, const std::vector<int32_t>& wanted, Digest* out) {
  std::set<uint32_t> used;
  static const Communicator kNobodys;
  for (const Rank& rank : bundle.ranks) {
    if (!wanted.empty() && !std::binary_search(wanted.begin(), wanted.end(), rank.rank)) continue;
    RankDigest* digest = out->add_ranks();
    *digest->mutable_rank() = EncodeRank(rank);
    for (const Problem& problem : bundle.problems) {
      if (problem.rank == rank.rank && !problem.note && digest->rank().problems_size() < 16) {
        digest->mutable_rank()->add_problems(CleanUtf8(problem.text, 1024));
      }
    }
    for (size_t i = 0; i < rank.memberships.size(); ++i) {
      const Membership& membership = rank.memberships[i];
      const bool known = membership.comm < bundle.comms.size();
      if (known) used.insert(membership.comm);
      *digest->add_communicators() = EncodeMembership(membership, known ? bundle.comms[membership.comm] : kNobodys,
                                                      rank.rank, static_cast<uint32_t>(i));
    }
    // Encodes the incomplete operations, those that are no longer in the ring, and the last ones.
    constexpr size_t kEndedLast = 64;
    std::vector<Op> told;
    for (size_t i = 0; i < rank.ops.size(); ++i) {
      if (rank.ops[i].state != OpState::kCompleted || rank.ops[i].recent_only || i + kEndedLast >= rank.ops.size())
        told.push_back(rank.ops[i]);
    }
    absl::Span<const Op> ops(told);
    if (ops.size() > kLsdMaxChunkOps) ops.remove_prefix(ops.size() - kLsdMaxChunkOps);
    *digest->mutable_in_flight() = EncodeOps(rank, ops, {});
    digest->mutable_rank()->set_operations(ops.size());
  }
  for (const uint32_t comm : used) *out->add_communicators() = EncodeComm(bundle.comms[comm]);
}

}  // namespace lockstep
