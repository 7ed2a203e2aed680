// The labelled faults: each builds a job with its fault, runs it, and states the truth. The truth is made with the
// fault, before any analysis.
#ifndef LOCKSTEP_TESTS_CORPUS_SCENARIO_H_
#define LOCKSTEP_TESTS_CORPUS_SCENARIO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/corpus/dump.h"

namespace lockstep::corpus {

constexpr int kScenarios = 42;

struct ScenarioInfo {
  int number = 0;
  const char* name = "";
  const char* fault = "";   // the change to the job
  const char* record = "";  // the resulting records of the ranks
  const char* truth = "";   // the right answer
  const char* lsd_needs =
      "";  // what own dumps must hold to identify it: "", "marks full", ...; "never: WHY" if they cannot
  const char* fr_needs = "";  // the same for Flight Recorder dumps
};
const ScenarioInfo& Info(int number);

struct Request {
  int scenario = 1;
  int32_t ranks = 8;
  uint64_t seed = 1;
  bool fr = false;
  bool gloo = false;  // with `fr`: the job uses no GPU
  Marks marks = Marks::kFull;
  std::string variant = "plain";
  std::string layout = "auto";
  int32_t depth = 0;  // 0: as the scale has it
  int32_t steps = 0;  // 0: as the scale has it
};

struct Truth {
  std::vector<std::string> verdicts_allowed, kinds_allowed;
  std::vector<int32_t> culprit_ranks;
  std::vector<std::vector<int32_t>> set_allowed;  // sets that hold the truth and count as an answer
  bool identifiable = true;                       // by the data that was written
  std::string needs;                              // what else would identify it
  std::vector<int32_t>
      unseen_ranks;  // without readable data, and either in an operation with others or missing from it. To the others
                     // both look the same: the rank never arrived, or the operation does not end for another reason
  std::vector<std::string> activity_allowed,
      moving_allowed;              // Finding::activity, Finding::moving; empty: not asked for
  bool healthy = false;            // no culprit at all
  bool culprit_data_lost = false;  // the culprit's own dump is missing or damaged
  std::vector<int32_t> second_ranks;
  std::vector<std::string> second_kinds;
  bool second_shown = true;  // the record identifies the second fault beside the first
  std::string second_needs;  // what else would
  std::string second_what;   // "dies by signal 9": as `what`, of the rank
  std::string what;          // one line for people
};

struct Outcome {
  Job job;
  std::unique_ptr<Simulator> run;
  DumpOptions dump;
  Truth truth;
};

// Builds and runs it. False: `error` names the conflict.
bool Play(const Request& request, Outcome* outcome, std::string* error);
std::string TruthJson(const Request& request, const Outcome& outcome);
// DIR/data/... and DIR/truth.json.
// Whether there is such a case; `why` says why not.
bool Applies(const Request& request, std::string* why);
bool Generate(const Request& request, const std::string& folder, std::string* error);

const std::vector<std::string>& Variants();

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_SCENARIO_H_
