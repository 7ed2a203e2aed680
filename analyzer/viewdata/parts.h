// The parts of ViewFacts. One function creates each part from an analysis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/view.h"
#include "analyzer/util/rank_text.h"
#include "proto/view.pb.h"

namespace lockstep {

struct ViewInput {
  const Bundle& bundle;  // the given bundle: its ranks are the rows
  const AnalysisView& analysis;
  const Verdict& verdict;
  std::vector<int32_t> model_of_row;  // index into analysis.model.bundle.ranks; -1: not analyzed
  std::vector<int32_t> row_of_model;
  std::vector<int32_t> missing;  // expected ranks without data, ascending
  absl::flat_hash_map<std::string, int32_t> comm_of_id;

  ViewInput(const Bundle& bundle, const AnalysisView& analysis, const Verdict& verdict);
  int32_t CommOf(const CommunicatorRef& ref) const;  // -1 if there is none
  // Returns whether a finding's operation is a send or receive, by the name of the kind of call or the name in a
  // dump.
  bool IsSend(const std::string& operation) const;
};

// SetRanks creates the entries of facts->ranks; call all other functions after it.
void SetRanks(const ViewInput& in, ViewFacts* facts);
void SetWaits(const ViewInput& in, ViewFacts* facts);
void SetMismatches(const ViewInput& in, ViewFacts* facts);
void SetStacks(const Bundle& bundle, ViewFacts* facts);
void SetBandwidths(const ViewInput& in, ViewFacts* facts);
// Call it after SetMismatches and SetRanks.
void SetAnomalies(const ViewInput& in, ViewFacts* facts);
// Call it after SetWaits and SetMismatches.
void SetFocuses(const ViewInput& in, ViewFacts* facts);
void SetUnknown(const ViewInput& in, ViewFacts* facts);

// Adds a rank that is larger than all others in the set.
void AddToRuns(int32_t rank, RankRuns* runs);
// Accepts any ranks in any order; skips numbers that are not ranks.
void SetRuns(std::vector<int32_t> ranks, RankRuns* runs);

// What occupies a rank's GPU; kIdle if nothing is in flight. FrontText puts it into words.
struct RankFront {
  Front front = Front::kIdle;
  const Op* op = nullptr;  // null if it was overwritten, or for a communicator that is being created
  uint32_t comm = kNoIndex;
  int32_t mismatch = -1;
  bool creation = false;  // the CPU thread is in the creation of `comm`
};
RankFront FrontOf(const AnalysisView& analysis, size_t model_rank);
// Returns FrontOf in words; empty if nothing is in flight. With `of_class`, the text fits all ranks in such an
// operation on communicators of one class: "waiting in Send on pp_*".
std::string FrontText(const AnalysisView& analysis, size_t model_rank, const RankFront& front, bool of_class);
// Returns RankFacts.state; with `of_class`, a text that fits all ranks in the same state.
std::string StateText(const ViewInput& in, size_t row, bool of_class);
// Returns "inside an NCCL call", "killed by signal 9 (SIGKILL)"; empty if unknown.
std::string HostStateText(const Rank& rank, HostState host);
// Returns where the process is in the user's code, from its stacks: "train.py:88 load"; empty without a stack.
std::string PlaceText(const Process& process);
// Returns the communicator's name, "tp_3"; for an unnamed one its members, as in the verdict.
std::string CommLabel(const Communicator& comm);

}  // namespace lockstep
