#include "analyzer/report/before.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostHosts = 32, kMostPlaces = 8, kMostName = 256;
constexpr size_t kMostAnswer = size_t{64} * 1024;
constexpr size_t kMostManifest = size_t{64} << 20;

int64_t Number(const Json& json, const char* name) { return std::max<int64_t>(JsonInteger(json, name), 0); }

std::string DayText(int64_t real_ns) {
  const std::string day = UtcText(real_ns, "%Y-%m-%d");
  return day.empty() ? "at an unknown time" : day;
}

std::string Sentence(const Before::Item& before) {
  const std::string who = absl::StrCat(before.what, " ", Printable(before.name, 120));
  const std::string of =
      before.incidents == 1 ? "the only earlier incident" : absl::StrCat("the last ", before.incidents, " incidents");
  if (before.culprit_of == 0) return absl::StrCat(who, ": not among the culprits of ", of);
  return absl::StrCat(who, " was the culprit of ", before.culprit_of, " of ", of, ", last ",
                      DayText(before.last_real_ns), " (", Printable(before.last_kind, 40), ")");
}

// Returns what `lockstep archive VERB` prints for this input. Empty on any failure, with *why. The process has ended
// when this returns.
std::string Ask(const char* verb, const std::string& url, const std::string& input, int64_t limit_ns,
                std::string* why) {
  ChildRun run;
  run.input = input;
  run.output = ChildStream::kKeep;
  run.errors = ChildStream::kDiscard;
  run.most_output = kMostAnswer;
  run.limit_ns = limit_ns;
  const std::string limit = absl::StrCat(std::max<int64_t>(limit_ns / 1'000'000, 1));
  const absl::StatusOr<ChildResult> answer =
      RunChild({OwnFolder() + "lockstep-archive", verb, "--to", url, "--time-limit-ms", limit}, run);
  if (answer.ok()) return answer->output;
  *why = absl::IsDeadlineExceeded(answer.status())
             ? absl::StrCat("the archive did not answer within ", DurationText(limit_ns))
             : std::string(answer.status().message());
  return "";
}

}  // namespace

std::string ArchiveFromEnvironment() { return EnvironmentValue("LOCKSTEP_ARCHIVE"); }

std::string BeforeQuestion(const Verdict& verdict, int64_t until_real_ns) {
  if (verdict.findings().empty()) return "";
  // Lists hosts with the most culprits first.
  std::map<std::string, int> hosts;
  for (const Culprit& culprit : verdict.findings(0).culprits()) {
    if (!culprit.host().empty() && culprit.host().size() <= kMostName) ++hosts[culprit.host()];
  }
  std::vector<std::string> places;
  for (const Evidence& evidence : verdict.findings(0).evidence()) {
    const std::string& place = evidence.place();
    if (!place.empty() && places.size() < kMostPlaces && std::find(places.begin(), places.end(), place) == places.end())
      places.push_back(place);
  }
  if (hosts.empty() && places.empty()) return "";
  std::vector<std::pair<std::string, int>> sorted(hosts.begin(), hosts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Json names = Json::array();
  for (size_t i = 0; i < std::min(sorted.size(), kMostHosts); ++i) names.push_back(sorted[i].first);
  const Json json = {{"hosts", names}, {"places", places}, {"until_real_ns", std::max<int64_t>(until_real_ns, 0)}};
  // lockstep-archive reads at most 64 KiB. Escaping may have enlarged the names.
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60'000 ? text : "";
}

Before TakeBefore(std::string_view answer) {
  Before taken;
  const Json json = ParseJson<Json>(answer);
  taken.unknown = Printable(JsonText(json, "error"), 300);
  if (!taken.unknown.empty()) return taken;
  if (!JsonMember(json, "before").is_array()) {
    taken.unknown = "cannot parse the archive's answer";
    return taken;
  }
  for (const Json& item : JsonList(json, "before")) {
    if (!item.is_object() || taken.items.size() >= kMostHosts + kMostPlaces) continue;
    Before::Item before;
    before.what = JsonText(item, "what");
    if (before.what != "host" && before.what != "code place") continue;
    before.name = Printable(JsonText(item, "name"), kMostName);
    before.incidents = Number(item, "incidents");
    before.culprit_of = std::min(Number(item, "culprit_of"), before.incidents);
    if (before.incidents == 0) continue;  // an empty archive has no information
    if (before.culprit_of > 0) {
      before.last_real_ns = Number(item, "last_real_ns");
      before.last_kind = Printable(JsonText(item, "last_kind"), 40);
    }
    before.text = Sentence(before);
    taken.items.push_back(std::move(before));
  }
  return taken;
}

Before AskBefore(const std::string& url, const Verdict& verdict, int64_t until_real_ns, int64_t limit_ns) {
  const std::string question = BeforeQuestion(verdict, until_real_ns);
  if (url.empty() || question.empty()) return {};
  Before before;
  const std::string answer = Ask("before", url, question, limit_ns, &before.unknown);
  if (!answer.empty()) return TakeBefore(answer);
  before.unknown = before.unknown.empty() ? "the archive did not answer" : Printable(before.unknown, 300);
  return before;
}

std::vector<BestEver> AskBest(const std::string& url, const Verdict& verdict, int64_t until_real_ns, int64_t limit_ns) {
  constexpr size_t kMostSpeeds = 64;
  Json asked = Json::array();
  for (const Speed& speed : verdict.speeds()) {
    if (speed.roofline_bus_bytes_per_s() > 0 || speed.bytes() <= 0 || asked.size() == kMostSpeeds) continue;
    asked.push_back({{"operation", speed.operation()},
                     {"bytes", static_cast<uint64_t>(speed.bytes())},
                     {"ranks", static_cast<uint32_t>(std::max(speed.ranks(), 0))},
                     {"hosts", static_cast<uint32_t>(std::max(speed.hosts(), 0))}});
  }
  if (url.empty() || asked.empty()) return {};
  const Json question = {{"speeds", asked}, {"until_real_ns", std::max<int64_t>(until_real_ns, 0)}};
  std::string why;
  const Json json =
      ParseJson<Json>(Ask("best", url, question.dump(-1, ' ', true, Json::error_handler_t::replace), limit_ns, &why));
  std::vector<BestEver> best;
  for (const Json& item : JsonList(json, "best")) {
    if (!item.is_object() || best.size() == kMostSpeeds) continue;
    BestEver& one = best.emplace_back();
    one.operation = JsonText(item, "operation");
    one.size_class = static_cast<uint64_t>(Number(item, "size_class"));
    one.ranks = static_cast<int32_t>(std::min<int64_t>(Number(item, "ranks"), INT32_MAX));
    one.hosts = static_cast<int32_t>(std::min<int64_t>(Number(item, "hosts"), INT32_MAX));
    one.incidents = Number(item, "incidents");
    one.bus_bytes_per_s = JsonReal(item, "bus_bytes_per_s");
    if (!(one.bus_bytes_per_s > 0 && one.bus_bytes_per_s < 1e15)) best.pop_back();
  }
  return best;
}

void AddBeforeRow(const Before& before, ReportContent* content) {
  constexpr size_t kMostShown = 4;
  if (before.empty()) return;
  ReportRow row{"before", {}};
  for (const Before::Item& item : before.items) row.lines.push_back(Printable(item.text, 300));
  KeepFirst(kMostShown, ", in the JSON report", &row.lines);
  if (!before.unknown.empty()) row.lines.push_back(absl::StrCat("unknown: ", Printable(before.unknown, 300)));
  auto& rows = content->first.rows;
  const auto at = std::find_if(rows.begin(), rows.end(), [](const ReportRow& r) {
    return r.label == "NOT" || r.label == "maybe" || r.label == "sure" || r.label == "do";
  });
  rows.insert(at, std::move(row));
}

int64_t CapturedRealNs(const std::string& folder) {
  const Json json = ParseJson<Json>(ReadWholeFile(folder + "/manifest.json", kMostManifest).value_or(""));
  return Number(json, "captured_real_ns");
}

}  // namespace lockstep
