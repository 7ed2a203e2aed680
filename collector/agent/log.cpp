#include "collector/agent/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

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

AgentLog::~AgentLog() {
  if (fd_ >= 0) close(fd_);
}

absl::Status AgentLog::Open(const std::string& path, uint64_t most_bytes) {
  path_ = path;
  most_bytes_ = most_bytes;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
  if (fd_ < 0)
    return absl::UnavailableError(
        absl::StrCat("cannot write the log ", path, ": ", strerror(errno), "; name another file (--log)"));
  struct stat info {};
  bytes_ = fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
  return absl::OkStatus();
}

void AgentLog::Reopen() {
  if (path_.empty()) return;
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
  if (fd < 0) return;
  close(fd_);
  fd_ = fd;
  struct stat info {};
  bytes_ = fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
}

void AgentLog::Put(const std::string& line) {
  if (fd_ < 0) return;
  const std::string text = absl::StrCat(IsoTimeText(RealtimeNs()), " ", Printable(line, kMostLine), "\n");
  // On a full disk the line is lost; the agent is not.
  if (write(fd_, text.data(), text.size()) > 0) bytes_ += text.size();
  if (bytes_ <= most_bytes_) return;
  rename(path_.c_str(), absl::StrCat(path_, ".1").c_str());
  Reopen();
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
  Put(left_out == 0 ? line : absl::StrCat(line, " (and ", left_out, " times before)"));
}

}  // namespace lockstep
