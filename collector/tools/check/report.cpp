#include "collector/tools/check/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"
#include "nlohmann/json.hpp"

namespace lockstep::check {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWidth = 100;
constexpr size_t kMostCallsShown = 6;

std::string Many(size_t count, const char* word) {
  return absl::StrCat(CountText(static_cast<int64_t>(count)), " ", word, count == 1 ? "" : "s");
}

std::string Seen(const CheckReport& report) {
  const Found& found = report.found;
  return absl::StrCat(Many(found.calls, "call"), " of ", Many(found.ranks, "rank"), " in ",
                      Many(found.comms, "communicator"));
}

void AddFault(size_t number, const Fault& fault, std::string* text) {
  absl::StrAppend(text, "\n");
  AppendWrapped(absl::StrCat(number, ". ", fault.kind, ": "), Printable(fault.text), 3, kWidth, LongWords::kKeep, text);
  for (size_t i = 0; i < std::min(fault.calls.size(), kMostCallsShown); ++i) {
    const CallAt& at = fault.calls[i];
    AppendWrapped(
        absl::StrCat("   ", at.ranks.size() == 1 ? "rank " : "ranks ", FoldRanks(at.ranks, 40), ": "),
        absl::StrCat(Printable(at.call, 300), at.call.empty() || at.site.empty() ? "" : ", ", Printable(at.site, 200)),
        9, kWidth, LongWords::kKeep, text);
  }
  if (fault.calls.size() > kMostCallsShown)
    absl::StrAppend(text, "   and ", Many(fault.calls.size() - kMostCallsShown, "more call"), "\n");
}

Json AsJson(const std::vector<Fault>& faults) {
  Json list = Json::array();
  for (const Fault& fault : faults) {
    Json calls = Json::array();
    for (const CallAt& at : fault.calls)
      calls.push_back({{"ranks", at.ranks}, {"call", CleanUtf8(at.call)}, {"site", CleanUtf8(at.site)}});
    list.push_back({{"kind", fault.kind}, {"ranks", fault.ranks}, {"text", CleanUtf8(fault.text)}, {"calls", calls}});
  }
  return list;
}

}  // namespace

std::string ReportAsText(const CheckReport& report) {
  std::string libraries;
  if (report.standins.empty())
    AppendWrapped(
        "libraries: ",
        absl::StrCat("this machine's NCCL and CUDA",
                     report.own_libraries ? "" : "; this installation has no stand-ins (lib/lockstep/standin)"),
        2, kWidth, LongWords::kKeep, &libraries);
  std::string text;
  const std::vector<Fault>& faults = report.could_not.empty() ? report.found.faults : report.found.unfinished;
  if (!report.could_not.empty()) {
    text = absl::StrCat("could not check: ", Printable(report.could_not), "\n");
  } else {
    text =
        absl::StrCat(faults.empty() ? "nothing found" : absl::StrCat("found ", Many(faults.size(), "fault")), " in ",
                     Seen(report), faults.empty() ? ", " : ", round ",
                     faults.empty() ? Many(static_cast<size_t>(report.rounds), "round") : absl::StrCat(report.rounds),
                     report.end.cut_ns > 0 ? "; the job had not finished" : "", "\n");
  }
  if (!report.end.killed.empty()) absl::StrAppend(&text, report.end.killed, "\n");
  for (size_t i = 0; i < faults.size(); ++i) AddFault(i + 1, faults[i], &text);
  for (const std::string& what : report.found.not_checked)
    AppendWrapped("not checked: ", what, 2, kWidth, LongWords::kKeep, &text);
  absl::StrAppend(&text, libraries);
  if (!report.folder.empty()) absl::StrAppend(&text, "records: ", Printable(report.folder), "\n");
  return text;
}

std::string ReportAsJson(const CheckReport& report) {
  const Json faults = AsJson(report.found.faults);
  const char* result = !report.could_not.empty() ? "could not check" : faults.empty() ? "nothing found" : "found";
  const Json json = {{"result", result},
                     {"could_not", CleanUtf8(report.could_not)},
                     {"faults", faults},
                     {"unfinished", AsJson(report.found.unfinished)},
                     {"ranks", report.found.ranks},
                     {"communicators", report.found.comms},
                     {"calls", report.found.calls},
                     {"rounds", report.rounds},
                     {"ended_after_limit", report.end.cut_ns > 0},
                     {"killed", report.end.killed},
                     {"standins", CleanUtf8(report.standins)},
                     {"not_checked", report.found.not_checked},
                     {"records", CleanUtf8(report.folder)}};
  return json.dump(2) + "\n";
}

}  // namespace lockstep::check
