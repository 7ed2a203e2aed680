// The parts of ViewFacts. One function makes each part from an analysis.
#ifndef LOCKSTEP_ANALYZER_VIEWDATA_PARTS_H_
#define LOCKSTEP_ANALYZER_VIEWDATA_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/view.h"
#include "analyzer/util/rank_text.h"
#include "proto/view.pb.h"

namespace lockstep {

struct ViewInput {
  const Bundle& bundle;  // the given one: its ranks are the rows
  const AnalysisView& analysis;
  const Verdict& verdict;
  std::vector<int32_t> model_of_row;  // into analysis.model.bundle.ranks; -1: not analyzed, because its recording was
                                      // stopped
  std::vector<int32_t> row_of_model;
  std::vector<int32_t> missing;  // expected ranks without data, ascending
  absl::flat_hash_map<std::string, int32_t> comm_of_id;

  ViewInput(const Bundle& bundle, const AnalysisView& analysis, const Verdict& verdict);
  int32_t CommOf(const CommunicatorRef& ref) const;  // -1 none
};

// SetRanks creates the entries of facts->ranks; all others come after it.
void SetRanks(const ViewInput& in, ViewFacts* facts);
void SetWaits(const ViewInput& in, ViewFacts* facts);
void SetMismatches(const ViewInput& in, ViewFacts* facts);
void SetStacks(const Bundle& bundle, ViewFacts* facts);
void SetBandwidths(const ViewInput& in, ViewFacts* facts);
// After SetMismatches and SetRanks.
void SetAnomalies(const ViewInput& in, ViewFacts* facts);
void SetUnknown(const ViewInput& in, ViewFacts* facts);

// Adds a rank above all others in the set.
void AddToRuns(int32_t rank, RankRuns* runs);
// Any order, any ranks; skips numbers that are no rank.
void SetRuns(std::vector<int32_t> ranks, RankRuns* runs);

// What occupies the GPU of a rank, "waiting in AllReduce #41 on dp"; empty: nothing in flight.
struct RankFront {
  Front front = Front::kIdle;
  const Op* op = nullptr;  // null: gone from the record, or a communicator under construction
  uint32_t comm = kNoIndex;
  int32_t mismatch = -1;
  bool creation = false;  // the CPU is in the creation of `comm`
};
RankFront FrontOf(const AnalysisView& analysis, size_t model_rank);
std::string FrontText(const AnalysisView& analysis, size_t model_rank, const RankFront& front);
// The place of a CPU thread outside calls, from its stacks: "train.py:88 load"; empty: no stack.
std::string PlaceText(const Process& process);
// "dp", "tp_3", or its identity.
std::string CommLabel(const Communicator& comm);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_VIEWDATA_PARTS_H_
