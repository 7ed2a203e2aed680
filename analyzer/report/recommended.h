// What to do about a verdict, for programs that --on-verdict starts: the key `recommended` in its JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

enum class Action {
  kWait,     // the job may continue on its own, or nothing is wrong
  kAsk,      // a person must decide: the program is wrong, or the cause is unclear
  kRequeue,  // restart the job on any hosts
  kExclude,  // restart the job without `hosts`
};

struct Recommended {
  Action action = Action::kWait;
  std::vector<std::string> hosts;  // hosts of the culprits, or the host they share; no duplicates
  std::vector<int32_t> ranks;
  std::string why;        // one sentence; empty if there is no finding
  double confidence = 0;  // confidence of the first finding
};

Recommended RecommendedFor(const Verdict& verdict);
// "wait", "ask", "requeue", "exclude".
const char* ActionName(Action action);

}  // namespace lockstep
