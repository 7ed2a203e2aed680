// A finding in the making, as the stages of the engine pass it on.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_CAUSE_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_CAUSE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/evidence/activity_rules.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Cause::op_name of waits for another process by other means than NCCL.
inline constexpr char kRendezvous[] = "a rendezvous outside of NCCL";

// A finding in the making. `ranks` are indexes into Bundle::ranks; `missing` are global ranks without data.
struct Cause {
  FindingKind kind = FINDING_UNSPECIFIED;
  std::vector<int32_t> ranks, missing;
  uint32_t comm = kNoIndex;
  const Op* op = nullptr;  // the operation at issue; whose it is stands in op_rank
  int32_t op_rank = -1;
  double confidence = 0.9;
  std::vector<std::pair<std::string, std::vector<int32_t>>> evidence;  // text, ranks (indexes)
  std::string what;  // what the culprits did or did not do, completes "rank 5 = ...: "
  std::string advice, refuted_by;
  std::string cause;              // Finding::cause
  Stall stall = Stall::kUnknown;  // what the named hosts are seen in
  bool moving = false;            // one of the named hosts uses CPU or I/O
  bool doubtful = false;          // rests on operations that may as well be complete, or not begun
  bool beside = false;            // nobody waits for it: seen beside another cause, told behind it
  bool hypothesis = false;        // fits the evidence, not proven by it
  bool first_only =
      false;  // of RANK_NO_DATA: the others wait for it in first operations of communicators, nowhere else
  bool by_damaged =
      false;  // likewise: all that wait for it are damaged records, which may be in something else that they lost
  uint32_t first_lost = kNoIndex;  // communicator whose first operation all the named are in, though its record is gone
  bool not_begun = false;          // no GPU is in the operation: computation ahead of it, which may be legal
  std::vector<std::string> alternatives;
  std::string tells_apart;
  std::optional<CommonFactor> factor;  // what the named ranks share
  // Of slowness; as in Finding.
  int64_t cost_ns_per_step = 0, cost_uncertainty_ns = 0;
  std::string pattern;
  double slowdown = 0;
  std::vector<uint32_t> nodes;  // of the wait graph, for chain and victims
  // Of the making of a communicator: the call, and who waits in it (indexes).
  std::string op_name;
  std::vector<int32_t> waiting;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_CAUSE_H_
