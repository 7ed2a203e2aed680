#include "analyzer/cli/terminal_progress.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace lockstep {

TerminalProgress::TerminalProgress(std::string program, const LoadProgress& load)
    : program_(std::move(program)), load_(load) {
  if (isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { Show(); });
}

TerminalProgress::~TerminalProgress() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  done_.notify_all();
  if (thread_.joinable()) thread_.join();
  const auto ended = EndLine();
}

void TerminalProgress::Doing(std::string what) {
  const std::lock_guard lock(mutex_);
  begun_.push_back(Now(what));
  what_ = std::move(what);
}

TerminalProgress::Begin TerminalProgress::Now(std::string what) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double cpu =
      absl::ToDoubleSeconds(absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime));
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now().time_since_epoch();
  return {.what = std::move(what), .wall = wall.count(), .cpu = cpu};
}

std::string TerminalProgress::Timing() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::lock_guard lock(mutex_);
  std::vector<Begin> ends(begun_.begin() + 1, begun_.end());
  ends.push_back(Now(""));
  std::string lines;
  for (size_t i = 0; i < begun_.size(); ++i) {
    const Begin &begin = begun_[i], &end = ends[i];
    absl::StrAppendFormat(&lines, "%s: %.3f s, CPU time %.3f s\n", begin.what, end.wall - begin.wall,
                          end.cpu - begin.cpu);
  }
  return absl::StrCat(lines, "peak memory: ", usage.ru_maxrss / 1024, " MiB\n");
}

std::unique_lock<std::mutex> TerminalProgress::EndLine() {
  std::unique_lock lock(mutex_);
  if (shown_ > 0) fputc('\n', stderr);
  shown_ = 0;
  return lock;
}

void TerminalProgress::Show() {
  std::unique_lock lock(mutex_);
  while (!done_.wait_for(lock, std::chrono::seconds(1), [this] { return finished_; })) {
    const std::string line = Line();
    // Spaces that overwrite the rest of a longer line.
    const size_t rest = shown_ > line.size() ? shown_ - line.size() : 0;
    fprintf(stderr, "\r%s%*s", line.c_str(), static_cast<int>(rest), "");
    shown_ = line.size();
  }
}

std::string TerminalProgress::Line() const {
  if (!what_.empty()) return absl::StrCat(program_, ": ", what_);
  const int64_t found = load_.files_found.load(), unpacked = load_.files_unpacked.load();
  if (found == 0) return absl::StrCat(program_, ": looking for files");
  return unpacked > 0 ? absl::StrCat(program_, ": loading operations (", unpacked, " of ", found, " files)")
                      : absl::StrCat(program_, ": reading (", load_.files_read.load(), " of ", found, " files)");
}

}  // namespace lockstep
