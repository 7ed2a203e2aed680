#include "collector/agent/log.h"

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/time_text.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr int64_t kSayAgain = 60'000'000'000;
constexpr size_t kMostRemembered = 1024;
constexpr size_t kMostLine = 2000;

}  // namespace

absl::Status AgentLog::Open(const std::string& path, uint64_t most_bytes) {
  const absl::Status status = file_.Open(path, static_cast<int64_t>(most_bytes), 0640, RotatingFile::Kind::kAny);
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(status.message(), "; choose another file (--log)"));
}

void AgentLog::Reopen() {
  if (file_.ok()) file_.Reopen().IgnoreError();
}

void AgentLog::Put(const std::string& line) {
  // If the disk is full, only this line is lost.
  file_.Append(absl::StrCat(IsoTimeText(RealtimeNs()), " ", Printable(line, kMostLine))).IgnoreError();
}

void AgentLog::Write(const std::string& line) {
  const int64_t now = MonotonicNs();
  if (said_.size() >= kMostRemembered) said_.clear();
  const auto [said, first] = said_.try_emplace(line);
  if (!first && now - said->second.mono_ns < kSayAgain) {
    ++said->second.left_out;
    return;
  }
  const uint64_t left_out = said->second.left_out;
  said->second = {now, 0};
  Put(left_out == 0 ? line : absl::StrCat(line, " (repeated ", left_out, " times)"));
}

}  // namespace lockstep
