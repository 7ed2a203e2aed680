// Judges a verdict by replay. The verdict is proved under three conditions. First, the recorded calls alone hang in the
// simulator. Second, the job completes if the suspect is corrected. Third, correcting another rank instead does not
// help.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/view.h"
#include "proto/verdict.pb.h"

namespace lockstep::replay {

struct Answer {
  Proof proof;
  FindingKind kind = FINDING_UNSPECIFIED;
  std::vector<int32_t> suspects;  // global ranks, ascending
  bool instead = false;           // the caller chose the suspects, not the finding
  std::vector<std::string> assumed;
};

struct JudgeOptions {
  std::vector<int32_t> suspects;  // if not empty, used instead of those that the verdict names
  size_t most_candidates = 64;
  size_t most_ranks = 32'768;           // a larger job is not tried
  size_t most_parts = size_t{1} << 26;  // limit on calls and members of meetings over all replays; takes some seconds
};

// Judges the first finding of the verdict. The answer depends only on the view and the options.
Answer Judge(const AnalysisView& view, const JudgeOptions& options = {});

// Like Analyze, but the first finding also gets its proof. A replay changes no other field.
Verdict AnalyzeAndProve(const Bundle& bundle, const AnalyzeOptions& options, const JudgeOptions& judge = {});

inline constexpr size_t kMostUnasked = 1024;  // in ranks; the replay of a larger job takes too long unless requested

// Returns the view's verdict, with the proof if the job has at most kMostUnasked ranks.
Verdict WithProof(const AnalysisView& view);

// Returns the text of the proof with further lines that say what was replayed and assumed.
std::string AnswerReport(const Answer& answer);
std::string AnswerJson(const Answer& answer);

}  // namespace lockstep::replay
