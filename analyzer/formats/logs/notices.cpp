#include "analyzer/formats/logs/notices.h"

#include <csignal>
#include <utility>

#include "analyzer/evidence/kernel_line.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostNoticeText = 200;

std::optional<Notice> OfKernel(std::string_view text) {
  const std::optional<KernelLine> line = ParseKernelLine({text.data(), text.size()});
  if (!line) return std::nullopt;
  Notice out{Notice::By::kKernel, Printable(line->event.text(), kMostNoticeText),
             line->host,          line->event.pid(),
             line->event.pci(),   0};
  switch (line->event.kind()) {
    case HardwareEvent::OUT_OF_MEMORY:
      // Several lines report one end; some of them without the process.
      if (out.pid <= 0) return std::nullopt;
      out.exit_code = -SIGKILL;
      break;
    case HardwareEvent::CRASH:
      out.exit_code = Holds(out.text, "segfault at") || Holds(out.text, "general protection") ? -SIGSEGV : 0;
      break;
    default: break;
  }
  return out;
}

// The word before the one at `at`; `at` becomes where it begins.
std::string_view WordBefore(std::string_view text, size_t* at) {
  const size_t end = text.substr(0, *at).find_last_not_of(' ');
  if (end == std::string_view::npos) return {};
  const size_t blank = text.substr(0, end).find_last_of(' ');
  *at = blank == std::string_view::npos ? 0 : blank + 1;
  return text.substr(*at, end + 1 - *at);
}

}  // namespace

Notice WarningOf(const NcclPlace& place) {
  return {Notice::By::kNccl,
          Printable(fr::Strip(place.text), kMostNoticeText),
          Printable(place.host, fr::kMostNameColumns),
          place.pid,
          "",
          0};
}

std::optional<Notice> NoticeReader::Take(std::string_view text) {
  if (std::optional<Notice> notice = OfKernel(text)) return notice;
  constexpr std::string_view kName = "Name:", kFailed = "error: Node failure on ", kKilled = "OOMKilled";
  Notice out{Notice::By::kScheduler, Printable(fr::Strip(text), kMostNoticeText), "", 0, "", 0};
  if (text.starts_with(kName)) pod_ = Printable(fr::Strip(text.substr(kName.size())), fr::kMostNameColumns);
  if (const size_t failed = text.find(kFailed); failed != std::string_view::npos) {
    out.host = Printable(fr::Strip(text.substr(failed + kFailed.size())), fr::kMostNameColumns);
    return out;
  }
  if (size_t at = text.find(kKilled); at != std::string_view::npos) {
    // kubectl describe: "Reason: OOMKilled"; kubectl get: name, how many containers are ready, status.
    const std::string_view before = WordBefore(text, &at);
    out.host = before == "Reason:" ? pod_ : Printable(WordBefore(text, &at), fr::kMostNameColumns);
    if (before == "Reason:" && !pod_.empty()) out.text = pod_ + ": " + std::string(kKilled);
    return out;
  }
  if (Holds(text, "oom_kill event") || Holds(text, "oom-kill event") || Holds(text, "DUE TO NODE FAILURE")) return out;
  return std::nullopt;
}

}  // namespace lockstep::logs
