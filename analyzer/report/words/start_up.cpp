#include "analyzer/report/words/start_up.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {
namespace {

constexpr int64_t kWorthSaying = 1'000'000'000;
constexpr int kNamesShown = 2;

std::string TenthsOfSeconds(int64_t ns) { return absl::StrFormat("%.1f s", static_cast<double>(ns) / 1e9); }

std::string NamesOf(const Creation& creation) {
  if (creation.names().empty())
    return creation.parent().empty() ? "" : absl::StrCat("no group, from ", creation.parent());
  std::string text;
  for (int i = 0; i < std::min(creation.names_size(), kNamesShown); ++i)
    absl::StrAppend(&text, i > 0 ? ", " : "", creation.names(i));
  if (creation.names_size() > kNamesShown) absl::StrAppend(&text, " and ", creation.made() - kNamesShown, " more");
  return text;
}

std::string StartUpText(const StartUp& start) {
  std::string text = absl::StrCat(Counted(start.communicators(), "communicator", "communicators"), " in ",
                                  Counted(start.creations_total(), "creation", "creations"), ", ",
                                  TenthsOfSeconds(start.total_ns()), " from the first entry to the last return");
  if (start.open() > 0)
    absl::StrAppend(&text, "; ", CountText(start.open()), start.open() == 1 ? " is" : " are", " not complete");
  absl::StrAppend(&text, ". On average a rank spent ", TenthsOfSeconds(start.waiting_ns()),
                  " of this time waiting for the last rank to arrive.");
  std::string typical;
  for (const StartUpPhase& phase : start.phases()) {
    if (phase.ranks() == 0 || phase.median_ns() < kWorthSaying / 10) continue;
    absl::StrAppend(&typical, typical.empty() ? " Median time of a rank by phase: " : ", ", PhaseText(phase.name()),
                    " ", TenthsOfSeconds(phase.median_ns()));
  }
  if (!typical.empty()) absl::StrAppend(&text, typical, ".");
  if (start.has_latest()) {
    const Creation& latest = start.latest();
    absl::StrAppend(&text, " Rank ", latest.last_rank(),
                    start.latest_host().empty() ? "" : absl::StrCat(" (", start.latest_host(), ")"),
                    " arrived last in ", Counted(start.latest_times(), "creation", "creations"), ", by ",
                    TenthsOfSeconds(latest.last_by_ns()), " in nccl", latest.call(), " of ",
                    latest.communicator().name(), ".");
  }
  if (start.serial_ns() >= kWorthSaying) {
    absl::StrAppend(&text, " ", CountText(start.serial_creations()),
                    " creations began only after another one had finished, although they do not depend on it. Running "
                    "them together (in one group, or non-blocking) would save up to ",
                    TenthsOfSeconds(start.serial_ns()), ".");
  }
  return text;
}

}  // namespace

std::string PhaseText(const std::string& name) {
  return name == "before"      ? "before the first creation"
         : name == "waiting"   ? "waiting for other ranks"
         : name == "creating"  ? "creating communicators"
         : name == "splitting" ? "splitting communicators"
         : name == "between"   ? "between creations"
                               : name;
}

void PutIntoWords(StartUp* start) {
  for (Creation& creation : *start->mutable_creations()) creation.mutable_communicator()->set_name(NamesOf(creation));
  if (start->has_latest()) start->mutable_latest()->mutable_communicator()->set_name(NamesOf(start->latest()));
  start->set_text(StartUpText(*start));
}

}  // namespace lockstep
