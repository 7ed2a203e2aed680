#include "collector/incident/index.h"

#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/viewdata/index.h"

namespace lockstep {
namespace {

constexpr auto kLast = std::chrono::seconds(10);

absl::Status Build(const std::string& folder, ViewIndexProgress* progress) {
  try {
    ViewIndexOptions options;
    options.beside_only = true;
    return EnsureViewIndex({folder}, progress, options).status();
  } catch (const std::exception& error) {  // out of memory
    return absl::ResourceExhaustedError(error.what());
  }
}

}  // namespace

struct IncidentIndexes::Job {
  explicit Job(std::string of)
      : folder(std::move(of)), made(std::async(std::launch::async, Build, folder, &progress)) {}

  const std::string folder;
  ViewIndexProgress progress;
  std::future<absl::Status> made;
};

absl::Status MakeIncidentIndex(const std::string& folder, int64_t limit_ns) {
  ViewIndexProgress progress;
  std::future<absl::Status> made = std::async(std::launch::async, Build, folder, &progress);
  if (made.wait_for(std::chrono::nanoseconds(limit_ns)) != std::future_status::ready) progress.cancel = true;
  return made.get();
}

IncidentIndexes::~IncidentIndexes() {
  const auto until = std::chrono::steady_clock::now() + kLast;
  for (const auto& job : jobs_) {
    job->made.wait_until(until);
    job->progress.cancel = true;
  }
}

void IncidentIndexes::Start(const std::string& folder) { jobs_.push_back(std::make_shared<Job>(folder)); }

std::vector<std::string> IncidentIndexes::TakeProblems() {
  std::vector<std::string> problems;
  std::erase_if(jobs_, [&](const std::shared_ptr<Job>& job) {
    if (job->made.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    if (const absl::Status status = job->made.get(); !status.ok())
      problems.push_back(absl::StrCat("no index for the viewer in ", job->folder, ": ", status.message()));
    return true;
  });
  return problems;
}

}  // namespace lockstep
