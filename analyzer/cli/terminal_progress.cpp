#include "analyzer/cli/terminal_progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

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
  what_ = std::move(what);
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
