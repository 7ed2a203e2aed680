#include "analyzer/formats/logs/notices.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
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
  Notice out{.by = Notice::By::kKernel,
             .text = Printable(line->event.text(), kMostNoticeText),
             .host = line->host,
             .pid = line->event.pid(),
             .pci = line->event.pci(),
             .event = std::make_shared<HardwareEvent>(line->event)};
  switch (line->event.kind()) {
    case HardwareEvent::OUT_OF_MEMORY:
      // Several lines report one end, and some of them do not name the process.
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

// Returns the word before the one at `at`; `at` becomes the start of that word.
std::string_view WordBefore(std::string_view text, size_t* at) {
  const size_t end = text.substr(0, *at).find_last_not_of(' ');
  if (end == std::string_view::npos) return {};
  const size_t blank = text.substr(0, end).find_last_of(' ');
  *at = blank == std::string_view::npos ? 0 : blank + 1;
  return text.substr(*at, end + 1 - *at);
}

}  // namespace

Notice WarningOf(const NcclPlace& place) {
  // NCCL's messages if the process at the other end of a connection has ended.
  constexpr std::string_view kOfOthers[] = {"Connection closed by ", "Connection reset by peer", "Connection refused",
                                            "Broken pipe",           "Socket recv failed",       "Socket send failed",
                                            "Proxy Call to rank ",   "Got completion from peer "};
  Notice out{.by = Notice::By::kNccl,
             .text = Printable(fr::Strip(place.text), kMostNoticeText),
             .host = Printable(place.host, fr::kMostNameColumns),
             .pid = place.pid,
             .gpu = place.gpu};
  out.of_others = std::any_of(std::begin(kOfOthers), std::end(kOfOthers),
                              [&](std::string_view part) { return Holds(place.text, part); });
  out.of_gpu =
      fr::Lower(place.text.substr(0, 24)).find("a failure '") != std::string::npos || Holds(place.text, "HIP failure");
  return out;
}

std::optional<Notice> NoticeReader::Take(std::string_view text) {
  if (std::optional<Notice> notice = OfKernel(text)) return notice;
  constexpr std::string_view kName = "Name:", kFailed = "error: Node failure on ", kKilled = "OOMKilled";
  // A shell's messages about how its command ended.
  constexpr std::pair<std::string_view, int64_t> kEnds[] = {
      {"Killed", -SIGKILL}, {"Segmentation fault", -SIGSEGV}, {"Bus error", -SIGBUS}};
  const std::string_view line = fr::Strip(text);
  for (const auto& [end, code] : kEnds) {
    if (line.starts_with(end) && (line.size() == end.size() || line.substr(end.size()) == " (core dumped)"))
      return Notice{.by = Notice::By::kShell, .text = std::string(end), .exit_code = code};
  }
  // gloo ends a process that receives more than its own call expects.
  constexpr std::string_view kSizes = "op.preamble.length <= op.nbytes. ";
  if (const size_t sizes = text.find(kSizes); sizes != std::string_view::npos) {
    const std::string_view numbers = text.substr(sizes + kSizes.size());
    return Notice{.by = Notice::By::kGloo,
                  .text = absl::StrCat("ranks made different calls: one received ", LeadingNumber(numbers).value_or(0),
                                       " bytes from a peer, and its own call expects ",
                                       NumberBehind(numbers, " vs ").value_or(0))};
  }
  const size_t waiting = text.find("This thread has been waiting for");
  if (waiting != std::string_view::npos && Holds(text, "may be stuck"))
    return Notice{.by = Notice::By::kXla, .text = Printable(text.substr(waiting), kMostNoticeText)};
  // ROCm aborts the process: "HW Exception by GPU node-9 (Agent handle: ..) reason :GPU Hang".
  for (const std::string_view begin : {"HW Exception by GPU node-", "Memory access fault by GPU node-"}) {
    if (line.starts_with(begin)) {
      std::string said(line);
      const size_t agent = said.find(" (Agent handle"), close = said.find(')', std::min(agent, said.size()));
      if (close != std::string::npos) said.erase(agent, close + 1 - agent);
      return Notice{.by = Notice::By::kGpu, .text = Printable(said, kMostNoticeText), .of_gpu = true};
    }
  }
  // An exception repeats NCCL's message without NCCL's prefix.
  if (line.starts_with("socketProgress: Connection closed by remote peer "))
    return Notice{.by = Notice::By::kNccl, .text = Printable(line, kMostNoticeText), .of_others = true};
  // Ray's message: "A worker died or was killed ... Worker IP address: 10.0.0.3 Worker port: 1 Worker PID: 833 ..".
  constexpr std::string_view kWorker = "Worker IP address: ";
  const size_t worker = text.find(kWorker);
  if (worker != std::string_view::npos && Holds(text, "worker died")) {
    const std::string_view address = text.substr(worker + kWorker.size());
    return Notice{.by = Notice::By::kScheduler,
                  .text = "Ray: a worker died",
                  .host = Printable(address.substr(0, address.find(' ')), fr::kMostNameColumns),
                  .pid = std::max<int64_t>(NumberBehind(text, "Worker PID: ").value_or(0), 0)};
  }
  const auto scheduler = [line] {
    return Notice{.by = Notice::By::kScheduler, .text = Printable(line, kMostNoticeText)};
  };
  if (text.starts_with(kName)) pod_ = Printable(fr::Strip(text.substr(kName.size())), fr::kMostNameColumns);
  if (const size_t failed = text.find(kFailed); failed != std::string_view::npos) {
    Notice out = scheduler();
    out.host = Printable(fr::Strip(text.substr(failed + kFailed.size())), fr::kMostNameColumns);
    return out;
  }
  if (size_t at = text.find(kKilled); at != std::string_view::npos) {
    // kubectl describe prints "Reason: OOMKilled"; kubectl get prints the name, the number of ready containers, and the
    // status.
    Notice out = scheduler();
    const std::string_view before = WordBefore(text, &at);
    out.host = before == "Reason:" ? pod_ : Printable(WordBefore(text, &at), fr::kMostNameColumns);
    if (before == "Reason:" && !pod_.empty()) out.text = pod_ + ": " + std::string(kKilled);
    return out;
  }
  for (const std::string_view part :
       {"oom_kill event", "oom-kill event", "DUE TO NODE FAILURE", "DUE TO TIME LIMIT",
        "has failed to send a keep-alive heartbeat to the rendezvous", "because its worker process has died"}) {
    if (Holds(text, part)) return scheduler();
  }
  return std::nullopt;
}

}  // namespace lockstep::logs
