#include "analyzer/browser/serve/live.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/browser/serve/json_members.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"

namespace lockstep::serve {
namespace {

using nlohmann::json;

constexpr size_t kMostOutput = 32 << 20, kMostJobs = 1000, kMostRanks = 64;
constexpr int64_t kAgain = kSecond, kLimit = 5 * kSecond;

// "ranks 3, 7" from the runs of a RankSet in JSON; empty if the set is empty.
std::string RanksOf(const json& set) {
  const json &first = Member(set, "first"), &last = Member(set, "last");
  std::vector<int32_t> ranks;
  for (size_t i = 0; first.is_array() && last.is_array() && i < std::min(first.size(), last.size()); ++i) {
    if (!first[i].is_number_integer() || !last[i].is_number_integer()) continue;
    for (int64_t rank = first[i].get<int64_t>(); rank <= last[i].get<int64_t>() && ranks.size() < kMostRanks; ++rank)
      ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks.empty() ? "" : RanksText(ranks);
}

LiveJob JobOf(const json& line) {
  LiveJob job;
  const json &identity = Member(line, "job"), &comms = Member(line, "communicators"),
             &incident = Member(line, "last_incident");
  const std::string step = Text(identity, "step", 100);
  const int64_t restart = Number(identity, "restart_count");
  job.name = Text(identity, "job", 200);
  if (!step.empty() || restart != 0) absl::StrAppend(&job.name, "/", step, "/", restart);
  job.key = absl::StrCat(job.name, " ", Number(identity, "uid"), " ", Number(identity, "life"));
  job.state = Text(line, "state", 40);
  job.since_real_ns = Number(line, "since_real_ns");
  job.ranks = Number(line, "ranks");
  job.expected = std::max(job.ranks, Number(line, "ranks_expected"));
  job.silent_agents = Number(line, "agents_silent");
  for (size_t i = 0; comms.is_array() && i < comms.size(); ++i) {
    const json& comm = comms[i];
    const std::string id = Text(comm, "id", 40), doing = Text(comm, "doing", 100);
    job.issued[id] = static_cast<uint64_t>(std::max<int64_t>(Number(comm, "issued_max"), 0));
    if (i == 0)
      job.oldest = absl::StrCat(Text(comm, "name", 60), " ", doing, ", ", DurationText(Number(comm, "age_ns")));
    if (job.missing.empty()) job.missing = RanksOf(Member(comm, "missing"));
  }
  job.verdict = Text(Member(incident, "verdict"), "verdict", 40);
  const std::string text = Text(incident, "text", 4096), path = Text(incident, "path", 4096);
  const json& whole = Member(incident, "text");
  if (whole.is_string()) {
    const std::string& lines = whole.get_ref<const std::string&>();
    job.sentence = Printable(lines.substr(0, lines.find('\n')), 300);
  }
  job.incident = path.substr(path.rfind('/') + 1);
  return job;
}

// Hung jobs first, then late ones, then those that are moving or have ended.
int Trouble(const std::string& state) { return state == "hung" ? 0 : state == "late" ? 1 : state == "moving" ? 2 : 3; }

}  // namespace

std::vector<LiveJob> ParseLiveJobs(std::string_view output) {
  std::vector<LiveJob> jobs;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(output.data(), output.size()), '\n')) {
    const json parsed = ParseJson(std::string(line));
    if (parsed.is_object() && Member(parsed, "job").is_object() && jobs.size() < kMostJobs)
      jobs.push_back(JobOf(parsed));
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
  Answer answer = Ask();
  // The second counts from the end of the query, so that requests that waited for a slow answer use that answer.
  const int64_t now = MonotonicNs();
  const double seconds = static_cast<double>(now - answered_ns_) / 1e9;
  for (LiveJob& job : answer.jobs) {
    const auto before =
        std::find_if(last_.jobs.begin(), last_.jobs.end(), [&](const LiveJob& one) { return one.key == job.key; });
    if (before == last_.jobs.end()) continue;
    for (const auto& [comm, issued] : job.issued) {
      const auto old = before->issued.find(comm);
      if (old == before->issued.end() || issued < old->second) continue;
      job.calls_a_second = std::max(job.calls_a_second, static_cast<double>(issued - old->second) / seconds);
    }
  }
  answered_ns_ = now;
  last_ = std::move(answer);
  return last_;
}

}  // namespace lockstep::serve
