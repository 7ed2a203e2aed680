#include "collector/detect/decision_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/time_text.h"
#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRuns = 64;

double Seconds(int64_t ns) {
  return static_cast<double>(ns / 1'000'000) / 1e3;
}

std::string Hex(uint64_t id) {
  return absl::StrFormat("%016x", id);
}

// Texts come from programs and their environment: what is not UTF-8 is replaced.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

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
  if (!decision.doing.empty()) json["doing"] = decision.doing;
  if (decision.root_kind != FINDING_UNSPECIFIED) json["root"] = FindingKind_Name(decision.root_kind);
  if (!decision.roots.empty()) json["root_ranks"] = RunsText(RunsOf(decision.roots), kMostRuns);
  if (decision.samples > 0 || decision.idle_ns >= 0) {
    json["samples"] = {{"taken", decision.samples},
                       {"gap_s", Seconds(decision.sample_gap_ns)},
                       {"cpu_s", decision.cpu_ns < 0 ? Json() : Json(Seconds(decision.cpu_ns))},
                       {"io_bytes", decision.io_bytes < 0 ? Json() : Json(decision.io_bytes)},
                       {"idle_s", decision.idle_ns < 0 ? Json() : Json(Seconds(decision.idle_ns))}};
  }
  if (!decision.waiting.empty()) json["waiting_ranks"] = RunsText(decision.waiting, kMostRuns);
  if (!decision.missing.empty()) json["missing_ranks"] = RunsText(decision.missing, kMostRuns);
  if (decision.more > 0) json["communicators_not_told"] = decision.more;
  return Line(json);
}

std::string DecisionJson(const LateEvent& event, const std::string& job, const std::string& host, int64_t real_ns) {
  Json json;
  json["time"] = IsoTimeText(real_ns);
  json["job"] = job;
  json["host"] = host;
  json["decision"] = event.over ? "over" : "late";
  json["age_s"] = Seconds(event.in_flight_ns);
  json["limit_s"] = Seconds(event.limit_ns);
  json["p99_gap_s"] = Seconds(event.p99_gap_ns);
  json["gaps"] = event.gaps;
  if (event.comm != 0) json["communicator"] = {{"id", Hex(event.comm)}};
  if (event.sequence != 0) json["sequence"] = event.sequence;
  if (!event.doing.empty()) json["doing"] = event.doing;
  return Line(json);
}

DecisionLog::~DecisionLog() {
  if (fd_ >= 0) close(fd_);
}

absl::Status DecisionLog::Open(const std::string& path, int64_t most_bytes) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot open the decision log ", path, ": ", strerror(errno)));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("the decision log ", path, " is not a regular file; name another"));
  }
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  path_ = path;
  size_ = info.st_size;
  most_ = most_bytes;
  return absl::OkStatus();
}

absl::Status DecisionLog::Append(const std::string& line) {
  if (fd_ < 0) return absl::FailedPreconditionError("the decision log is not open");
  std::string whole = line;
  std::replace(whole.begin(), whole.end(), '\n', ' ');
  whole += '\n';
  if (size_ > 0 && size_ + static_cast<int64_t>(whole.size()) > most_) {
    rename(path_.c_str(), absl::StrCat(path_, ".1").c_str());
    const std::string path = path_;
    if (const absl::Status status = Open(path, most_); !status.ok()) return status;
  }
  const ssize_t written = write(fd_, whole.data(), whole.size());
  if (written == static_cast<ssize_t>(whole.size())) {
    size_ += written;
    return absl::OkStatus();
  }
  const int error = written < 0 ? errno : ENOSPC;
  // A part of a line would spoil the next one, too.
  if (written > 0 && ftruncate(fd_, size_) != 0) size_ += written;
  return absl::ResourceExhaustedError(absl::StrCat("cannot write to the decision log ", path_, ": ", strerror(error)));
}

}  // namespace lockstep
