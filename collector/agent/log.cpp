#include "collector/agent/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
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
  const int64_t real = RealtimeNs();
  const time_t seconds = static_cast<time_t>(real / 1'000'000'000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[96];
  snprintf(date, sizeof date, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ ", parts.tm_year + 1900, parts.tm_mon + 1,
           parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>(real / 1'000'000 % 1000));
  std::string text = date;
  for (const char c : line.substr(0, kMostLine)) text.push_back(static_cast<unsigned char>(c) < ' ' ? '?' : c);
  text.push_back('\n');
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
