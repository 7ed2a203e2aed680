// The labeled faults. Each scenario builds a job with its fault, runs it, and states the truth. The truth is created
// together with the fault, before any analysis.
#pragma once

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
  const char* fault = "";   // how the job differs from a healthy job
  const char* record = "";  // the resulting records of the ranks
  const char* truth = "";   // the right answer
  const char* lsd_needs =
      // What Lockstep's dumps must contain to identify the culprit: "", "marks full", ...; "never: WHY" if they
      // cannot.
      "";
  const char* fr_needs = "";  // what Flight Recorder dumps must contain to identify the culprit
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
  int32_t depth = 0;  // 0: depends on the scale
  int32_t steps = 0;  // 0: depends on the scale
};

struct Truth {
  std::vector<std::string> verdicts_allowed, kinds_allowed;
  std::vector<int32_t> culprit_ranks;
  std::vector<std::vector<int32_t>> set_allowed;  // sets that contain the truth and count as an answer
  bool identifiable = true;                       // the written data identifies the culprit
  std::string needs;                              // what else the data must contain to identify the culprit
  std::vector<int32_t> unseen_ranks;  // the ranks without readable data that are either in an operation with others or
                                      // missing from it. The other records do not show whether the rank never arrived,
                                      // or the operation does not end for another reason
  std::vector<std::string> activity_allowed,
      moving_allowed;              // expected Finding::activity and Finding::moving; empty: not checked
  bool healthy = false;            // no culprit
  bool culprit_data_lost = false;  // the culprit's own dump is missing or damaged
  std::vector<int32_t> second_ranks;
  std::vector<std::string> second_kinds;
  bool second_shown = true;  // the record identifies the second fault, too
  std::string second_needs;  // what else the data must contain to identify the second fault
  std::string second_what;   // like `what`, for the second rank: "is killed by signal 9"
  std::string what;          // one line for users
};

struct Outcome {
  Job job;
  std::unique_ptr<Simulator> run;
  DumpOptions dump;
  Truth truth;
};

// Builds and runs the case. On false, `error` names the conflict.
bool Play(const Request& request, Outcome* outcome, std::string* error);
std::string TruthJson(const Request& request, const Outcome& outcome);
// Returns whether the case exists. On false, `why` has the reason.
bool Applies(const Request& request, std::string* why);
// Writes `folder`/data and `folder`/truth.json.
bool Generate(const Request& request, const std::string& folder, std::string* error);

const std::vector<std::string>& Variants();

}  // namespace lockstep::corpus
