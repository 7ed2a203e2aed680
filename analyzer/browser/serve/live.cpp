#include "analyzer/browser/serve/live.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_units.h"
#include "proto/wire.pb.h"

namespace lockstep::serve {
namespace {

constexpr size_t kMostOutput = 32 << 20, kMostJobs = 1000, kMostRanks = 64;
constexpr int64_t kAgain = kSecond, kLimit = 5 * kSecond;

// Returns "ranks 3, 7"; empty if the set is empty.
std::string RanksOf(const RankSet& set) {
  const std::vector<int32_t> ranks = Ranks::FromOrNone(set).List(kMostRanks);
  return ranks.empty() ? "" : RanksText(ranks);
}

LiveJob JobOf(const JobStatus& status) {
  LiveJob job;
  job.name = Printable(status.job().job(), 200);
  if (!status.job().step().empty() || status.job().restart_count() != 0)
    absl::StrAppend(&job.name, "/", Printable(status.job().step(), 100), "/", status.job().restart_count());
  job.state = Printable(status.state(), 40);
  job.since_real_ns = status.since_real_ns();
  job.ranks = status.ranks();
  job.expected = std::max(status.ranks(), status.ranks_expected());
  job.silent_agents = status.agents_silent();
  if (!status.communicators().empty()) {
    const CommunicatorStatus& oldest = status.communicators(0);
    job.oldest = absl::StrCat(Printable(oldest.name(), 60), " ", Printable(oldest.doing(), 100), ", ",
                              DurationText(oldest.age_ns()));
  }
  for (const CommunicatorStatus& comm : status.communicators()) {
    if (job.missing.empty()) job.missing = RanksOf(comm.missing());
  }
  if (!status.has_last_incident()) return job;
  const Verdict& verdict = status.last_incident().verdict();
  job.verdict = VerdictName(verdict.verdict());
  job.sentence = verdict.findings().empty() ? "no finding" : Printable(Headline(verdict.findings(0)), 300);
  const std::string path = Printable(status.last_incident().path(), 4096);
  job.incident = path.substr(path.rfind('/') + 1);
  return job;
}

// Returns the sort key of a job: hung jobs first, then late ones, moving ones, and all others.
int Trouble(const std::string& state) { return state == "hung" ? 0 : state == "late" ? 1 : state == "moving" ? 2 : 3; }

}  // namespace

std::vector<LiveJob> ParseLiveJobs(std::string_view output) {
  std::vector<LiveJob> jobs;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(output.data(), output.size()), '\n')) {
    JobStatus status;
    if (jobs.size() == kMostJobs ||
        !google::protobuf::util::JsonStringToMessage(std::string(line), &status, options).ok() || !status.has_job())
      continue;
    jobs.push_back(JobOf(status));
    // lockstep-top adds this to the message.
    const nlohmann::json parsed = ParseJson(std::string(line));
    if (JsonMember(parsed, "calls_a_second").is_number())
      jobs.back().calls_a_second = JsonReal(parsed, "calls_a_second");
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const LiveJob& a, const LiveJob& b) { return Trouble(a.state) < Trouble(b.state); });
  return jobs;
}

LiveJobs::Answer LiveJobs::Ask() const {
  ChildRun run;
  run.output = run.errors = ChildStream::kKeep;
  run.most_output = kMostOutput;
  run.limit_ns = kLimit;
  std::vector<std::string> command = {program_, "--json"};
  if (!endpoint_.empty()) command.insert(command.end(), {"--collector", endpoint_});
  const absl::StatusOr<ChildResult> done = RunChild(command, run);
  if (!done.ok()) return {{}, Printable(std::string(done.status().message()), 300)};
  if (const absl::Status ended = done->Ended(); !ended.ok())
    return {{}, Printable(done->errors.empty() ? std::string(ended.message()) : done->errors, 300)};
  return {ParseLiveJobs(done->output), ""};
}

LiveJobs::Answer LiveJobs::Get() {
  const std::lock_guard lock(mutex_);
  if (answered_ns_ != 0 && MonotonicNs() - answered_ns_ < kAgain) return last_;
  last_ = Ask();
  // The second counts from the end of the query, so that requests that waited for a slow answer use that answer.
  answered_ns_ = MonotonicNs();
  return last_;
}

}  // namespace lockstep::serve
