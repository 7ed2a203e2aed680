#include "collector/detect/decision_log.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/time_text.h"
#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRuns = 64;

double Seconds(int64_t ns) { return std::round(static_cast<double>(ns) / 1e6) / 1e3; }

std::string Hex(uint64_t id) { return absl::StrFormat("%016x", id); }

// Texts come from programs and their environments, so invalid UTF-8 is replaced.
std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string DecisionJson(const Decision& decision, const std::string& job, int64_t real_ns) {
  Json json;
  json["time"] = IsoTimeText(real_ns);
  json["job"] = job;
  json["decision"] = LevelName(decision.level);
  json["rule"] = decision.rule;
  json["reason"] = decision.reason;
  json["age_s"] = Seconds(decision.age_ns);
  json["limit_s"] = Seconds(decision.limit_ns);
  json["p99_gap_s"] = Seconds(decision.p99_gap_ns);
  json["gaps"] = decision.gaps;
  if (decision.comm != 0) json["communicator"] = {{"id", Hex(decision.comm)}, {"name", decision.comm_name}};
  if (decision.sequence != 0) json["sequence"] = decision.sequence;
  if (!decision.doing.empty()) json["doing"] = absl::StrCat("in ", decision.doing);
  if (decision.root_kind != FINDING_UNSPECIFIED) json["root"] = FindingKind_Name(decision.root_kind);
  if (!decision.roots.empty()) json["root_ranks"] = Ranks::Of(decision.roots).Text(kMostRuns);
  if (decision.samples > 0 || decision.idle_ns >= 0) {
    json["samples"] = {{"taken", decision.samples},
                       {"gap_s", Seconds(decision.sample_gap_ns)},
                       {"cpu_s", decision.cpu_ns < 0 ? Json() : Json(Seconds(decision.cpu_ns))},
                       {"io_bytes", decision.io_bytes < 0 ? Json() : Json(decision.io_bytes)},
                       {"idle_s", decision.idle_ns < 0 ? Json() : Json(Seconds(decision.idle_ns))}};
  }
  if (!decision.waiting.empty()) json["waiting_ranks"] = decision.waiting.Text(kMostRuns);
  if (!decision.missing.empty()) json["missing_ranks"] = decision.missing.Text(kMostRuns);
  if (decision.more > 0) json["communicators_not_listed"] = decision.more;
  return Line(json);
}

}  // namespace lockstep
