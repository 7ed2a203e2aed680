// A check of `lockstep doctor`: one line for users, one object in JSON.
#pragma once

#include <string>
#include <vector>

namespace lockstep::doctor {

enum class Health {
  kGood,
  kNote,  // works with restrictions, or is not needed here
  kBad,   // recording, gathering or the requested command does not work
};

struct Check {
  std::string name;  // "shared memory": short, and the same in every version
  Health health = Health::kGood;
  std::string text;    // the result
  std::string advice;  // how to fix it; empty if there is nothing to fix
};

inline Check Good(std::string name, std::string text) { return {std::move(name), Health::kGood, std::move(text), ""}; }
inline Check Note(std::string name, std::string text, std::string advice = "") {
  return {std::move(name), Health::kNote, std::move(text), std::move(advice)};
}
inline Check Bad(std::string name, std::string text, std::string advice) {
  return {std::move(name), Health::kBad, std::move(text), std::move(advice)};
}

// Returns lines like "ok    shared memory   ...", wrapped at 100 columns, each with its advice below. The last line has
// the totals.
std::string ChecksText(const std::vector<Check>& checks);
// Returns {"healthy": bool, "checks": [{"name", "health": "ok|note|bad", "text", "advice"}]} and a newline.
std::string ChecksJson(const std::vector<Check>& checks);
bool Healthy(const std::vector<Check>& checks);

}  // namespace lockstep::doctor
