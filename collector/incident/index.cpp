#include "collector/incident/index.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "analyzer/viewdata/index.h"

namespace lockstep {
namespace {

constexpr auto kLast = std::chrono::seconds(10);

}  // namespace

struct IncidentIndexes::Job {
  std::string folder;
  ViewIndexProgress progress;
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;  // guarded by mutex, like the next member
  absl::Status status;
  std::thread thread;
};

absl::Status MakeIncidentIndex(const std::string& folder, int64_t limit_ns) {
  ViewIndexProgress progress;
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::thread watch([&] {
    std::unique_lock lock(mutex);
    if (!ended.wait_for(lock, std::chrono::nanoseconds(limit_ns), [&] { return done; })) progress.cancel = true;
  });
  absl::Status status;
  try {
    ViewIndexOptions options;
    options.beside_only = true;
    status = EnsureViewIndex({folder}, &progress, options).status();
  } catch (const std::exception& error) {  // out of memory
    status = absl::ResourceExhaustedError(error.what());
  }
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  ended.notify_all();
  watch.join();
  return status;
}

IncidentIndexes::~IncidentIndexes() {
  const auto until = std::chrono::steady_clock::now() + kLast;
  for (const auto& job : jobs_) {
    {
      std::unique_lock lock(job->mutex);
      job->ended.wait_until(lock, until, [&] { return job->done; });
    }
    job->progress.cancel = true;
    job->thread.join();
  }
}

void IncidentIndexes::Start(const std::string& folder) {
  auto job = std::make_shared<Job>();
  job->folder = folder;
  job->thread = std::thread([job = job.get()] {
    absl::Status status;
    try {
      ViewIndexOptions options;
      options.beside_only = true;
      status = EnsureViewIndex({job->folder}, &job->progress, options).status();
    } catch (const std::exception& error) {  // out of memory
      status = absl::ResourceExhaustedError(error.what());
    }
    const std::lock_guard lock(job->mutex);
    job->status = std::move(status);
    job->done = true;
    job->ended.notify_all();
  });
  jobs_.push_back(std::move(job));
}

std::vector<std::string> IncidentIndexes::TakeProblems() {
  std::vector<std::string> problems;
  std::erase_if(jobs_, [&](const std::shared_ptr<Job>& job) {
    {
      const std::lock_guard lock(job->mutex);
      if (!job->done) return false;
    }
    job->thread.join();
    if (!job->status.ok())
      problems.push_back(absl::StrCat("no index for the viewer in ", job->folder, ": ", job->status.message()));
    return true;
  });
  return problems;
}

}  // namespace lockstep
