// Ranks that made other communicators than their siblings: another colour or key in a split, or another list of
// members. Communicators of one split are the same slice of their parent each: as many members, as far apart. Where all
// but a few ranks fit one such pattern, the few are told by it, though every communicator for itself looks healthy.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_SPLITS_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_SPLITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct SplitFault {
  std::vector<int32_t> ranks;      // into Bundle::ranks; those that differ
  std::vector<int32_t> missing;    // global ranks without data that differ
  uint32_t comm = kNoIndex;        // what the first of them is in
  uint32_t home = kNoIndex;        // where it belongs; kNoIndex: nobody made that
  std::vector<uint32_t> affected;  // communicators with a member too many or too few, or out of order
  Reason reason = REASON_UNSPECIFIED;
  Detail detail;
  std::string evidence;
  Grade grade = GRADE_UNSPECIFIED;
};

// `stalled`: something stands still, which a pattern that few communicators support needs beside it.
std::vector<SplitFault> FindSplitFaults(const Model& model, bool stalled);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_SPLITS_H_
