#include "collector/tools/doctor/check.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"

namespace lockstep::doctor {
namespace {

constexpr size_t kColumns = 100, kIndent = 22;

const char* Word(Health health) { return health == Health::kGood ? "ok" : health == Health::kNote ? "note" : "bad"; }

}  // namespace

std::string ChecksText(const std::vector<Check>& checks) {
  std::string out;
  size_t bad = 0, notes = 0;
  for (const Check& check : checks) {
    bad += check.health == Health::kBad;
    notes += check.health == Health::kNote;
    std::string head =
        absl::StrCat(Word(check.health), std::string(6 - std::string(Word(check.health)).size(), ' '), check.name);
    head.resize(std::max(head.size() + 1, kIndent), ' ');
    AppendWrapped(head, Printable(check.text), kIndent, kColumns, LongWords::kKeep, &out);
    if (check.advice.empty()) continue;
    AppendWrapped(std::string(kIndent, ' '), "-> " + Printable(check.advice), kIndent, kColumns, LongWords::kKeep,
                  &out);
  }
  if (bad > 0) {
    absl::StrAppend(&out, "\n", bad, bad == 1 ? " check fails" : " checks fail", "\n");
  } else {
    absl::StrAppend(&out, "\neverything that is needed works",
                    notes == 0 ? "" : absl::StrCat("; ", notes, notes == 1 ? " note" : " notes"), "\n");
  }
  return out;
}

std::string ChecksJson(const std::vector<Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"health", Word(check.health)},
                    {"text", Printable(check.text)},
                    {"advice", Printable(check.advice)}});
  }
  const nlohmann::ordered_json all = {{"healthy", Healthy(checks)}, {"checks", std::move(list)}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

bool Healthy(const std::vector<Check>& checks) {
  return std::none_of(checks.begin(), checks.end(), [](const Check& check) { return check.health == Health::kBad; });
}

}  // namespace lockstep::doctor
