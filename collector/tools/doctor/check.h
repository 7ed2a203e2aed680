// One thing that `lockstep doctor` looked at: a line for people, an object in JSON.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_CHECK_H_
#define LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_CHECK_H_

#include <string>
#include <vector>

namespace lockstep::doctor {

enum class Health {
  kGood,
  kNote,  // works, with less than there could be, or is not needed here
  kBad,   // recording, gathering or the command asked for does not work
};

struct Check {
  std::string name;  // "shared memory": short, the same in every version
  Health health = Health::kGood;
  std::string text;    // the result
  std::string advice;  // the remedy; empty if none is needed
};

inline Check Good(std::string name, std::string text) {
  return {std::move(name), Health::kGood, std::move(text), ""};
}
inline Check Note(std::string name, std::string text, std::string advice = "") {
  return {std::move(name), Health::kNote, std::move(text), std::move(advice)};
}
inline Check Bad(std::string name, std::string text, std::string advice) {
  return {std::move(name), Health::kBad, std::move(text), std::move(advice)};
}

// "ok    shared memory   ..." lines, wrapped at 100 columns; the advice below its line. Ends with a line that counts.
std::string ChecksText(const std::vector<Check>& checks);
// {"healthy": bool, "checks": [{"name", "health": "ok|note|bad", "text", "advice"}]}, ends in a newline.
std::string ChecksJson(const std::vector<Check>& checks);
bool Healthy(const std::vector<Check>& checks);

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_CHECK_H_
