#include "analyzer/report/evidence.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

std::string WhoseText(const Evidence& evidence) {
  return evidence.ranks().empty() ? "a rank" : absl::StrCat("rank ", evidence.ranks(0));
}

std::string For(const Evidence& evidence) {
  return evidence.has_duration_ns() ? absl::StrFormat(" for %.1f s", static_cast<double>(evidence.duration_ns()) / 1e9)
                                    : "";
}

std::string SampleText(const ProcessSample& process) {
  std::vector<std::string> parts;
  if (!process.state().empty()) parts.push_back(absl::StrCat("process state ", process.state()));
  if (!process.kernel_function().empty())
    parts.push_back(absl::StrCat("in kernel function ", process.kernel_function()));
  if (process.cpu_ns() >= 0 && process.between_ns() > 0) {
    const auto between = static_cast<double>(process.between_ns());
    parts.push_back(absl::StrFormat("CPU %.0f%% of the last %.1f s",
                                    100.0 * static_cast<double>(process.cpu_ns()) / between, between / 1e9));
  }
  if (process.io_bytes() > 0) parts.push_back(absl::StrCat(process.io_bytes(), " bytes of I/O"));
  return absl::StrJoin(parts, ", ");
}

std::string StackText(const Evidence& evidence) {
  if (evidence.frames().empty()) return evidence.refused();
  return absl::StrJoin(evidence.frames(), " < ",
                       [](std::string* out, const Frame& frame) { absl::StrAppend(out, frame.text()); });
}

}  // namespace

std::string EvidenceText(const Evidence& evidence) {
  switch (evidence.kind()) {
    case Evidence::STACK:
      return absl::StrCat(WhoseText(evidence), " stack: ", StackText(evidence));
    case Evidence::PROCESS_STATE:
      return absl::StrCat(WhoseText(evidence), ": ", SampleText(evidence.process()));
    case Evidence::WAITING:
      return absl::StrCat(evidence.ranks_size(), " of ", evidence.communicator().size(), " members of ",
                          evidence.communicator().label(), " wait in ", evidence.operation(), For(evidence));
    case Evidence::IN_OPERATION:
      return absl::StrCat(WhoseText(evidence), " has been in it", For(evidence));
    case Evidence::LAST_CALL:
      return absl::StrCat("its last recorded call: ", evidence.operation(), " on ", evidence.communicator().label());
    default:
      return evidence.text();
  }
}

bool HasOwnRow(const Evidence& evidence) {
  return evidence.kind() == Evidence::STACK ||
         (evidence.kind() == Evidence::PROCESS_STATE && !evidence.process().state().empty());
}

std::string RuledOutText(const NotTheCause& ruled_out) {
  const char* what = "";
  switch (ruled_out.what()) {
    case NotTheCause::NETWORK:
      what = "network: ";
      break;
    case NotTheCause::GPU:
      what = "GPU: ";
      break;
    case NotTheCause::HANG:
      what = "a hang yet: ";
      break;
    case NotTheCause::CRASH:
      what = "a crash of its own: ";
      break;
    case NotTheCause::PERSISTENT_STRAGGLER:
      what = "NO persistent straggler: ";
      break;
    default:
      break;
  }
  return absl::StrCat(what, ruled_out.why());
}

std::string NotTheCauseText(const NotTheCause& ruled_out) {
  return absl::StrCat(ruled_out.what() == NotTheCause::PERSISTENT_STRAGGLER ? "" : "NOT ", RuledOutText(ruled_out));
}

}  // namespace lockstep
