// The part of CollectorCore that answers users' tools: `lockstep top`, `lockstep dump`, `lockstep run --collector`.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_units.h"
#include "collector/service/core.h"

namespace lockstep {
namespace {

constexpr int64_t kWatchFor = 60 * kSecond;
constexpr size_t kMostWatchers = 4096;
constexpr size_t kMostJobsInReply = 64;
constexpr int kMostKin = 64;

std::string NoSuchJob(const std::string& name, const std::string& known) {
  return absl::StrCat(
      "no job '", name, "' is known; ",
      known.empty()
          ? "no other job is known either: does an agent run on its hosts, and does this collector accept its key?"
          : absl::StrCat("known: ", known));
}

}  // namespace

// Returns the living jobs with that name or, if none is alive, all jobs with it. "NAME#1" is the first of several.
std::vector<Job*> CollectorCore::Named(const std::string& name) {
  std::vector<Job*> living, alike, same, same_living;
  for (const auto& [key, job] : jobs_) {
    const NameMatch match = MatchName(*job, name);
    if (match == NameMatch::kThis) return {job.get()};
    if (match == NameMatch::kNone) continue;
    alike.push_back(job.get());
    if (!job->over) living.push_back(job.get());
    if (match != NameMatch::kSame) continue;
    // "train" means one generation of the job, not "train/0/1".
    same.push_back(job.get());
    if (!job->over) same_living.push_back(job.get());
  }
  return !same_living.empty() ? same_living : !living.empty() ? living : !same.empty() ? same : alike;
}

// Like FillStatus, but if several jobs have one name, the first has a number too.
void CollectorCore::FillJob(const Job& job, JobStatus* status) {
  FillStatus(job, now_, status);
  if (job.number == 0 && HasNamesake(job)) status->mutable_job()->set_job(job.identity.job() + "#1");
}

bool CollectorCore::HasNamesake(const Job& job) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& other) {
    return other.second.get() != &job && !other.second->over &&
           BaseKeyOf(other.second->identity) == BaseKeyOf(job.identity);
  });
}

// A watcher may name communicators. Then it watches only the job that has one of them, if there is such a job.
bool CollectorCore::Watches(const Watcher& watcher, const Job& job) {
  if (MatchName(job, watcher.job) == NameMatch::kNone) return false;
  if (watcher.kin.empty()) return true;
  const auto has = [&](const Job& one) {
    return std::any_of(watcher.kin.begin(), watcher.kin.end(),
                       [&](uint64_t comm) { return one.communicators.contains(comm); });
  };
  if (has(job)) return true;
  const std::vector<Job*> named = Named(watcher.job);
  return std::none_of(named.begin(), named.end(), [&](const Job* other) { return has(*other); });
}

void CollectorCore::TellWatchers(const std::string& key, const Incident* incident) {
  Job* job = Find(key);
  if (job == nullptr) return;
  for (const Watcher& watcher : watchers_) {
    if (!Watches(watcher, *job)) continue;
    ClientReply reply;
    reply.set_request(watcher.request);
    FillJob(*job, reply.add_jobs());
    if (incident != nullptr) *reply.mutable_incident() = *incident;
    Send(watcher.address, wire::Type::kClientReply, reply);
  }
}

void CollectorCore::TickWatchers() {
  for (Watcher& watcher : watchers_) {
    if (now_ < watcher.next_ns) continue;
    watcher.next_ns = now_ + kSecond;
    ClientReply reply;
    reply.set_request(watcher.request);
    for (Job* job : Named(watcher.job)) {
      if (reply.jobs_size() < static_cast<int>(kMostJobsInReply) && Watches(watcher, *job))
        FillJob(*job, reply.add_jobs());
    }
    Send(watcher.address, wire::Type::kClientReply, reply);
  }
  std::erase_if(watchers_, [this](const Watcher& watcher) { return now_ > watcher.until_ns; });
}

void CollectorCore::OnClient(const wire::Received& received) {
  ClientRequest request;
  if (!Decode(received.message, &request)) return;
  const Address from{received.peer, received.message.header.route};
  ClientReply reply;
  reply.set_request(request.request());
  const auto fail = [&](std::string why) {
    ++counters_.requests_refused;
    reply.set_error(std::move(why));
    reply.set_done(true);
    Send(from, wire::Type::kClientReply, reply);
  };
  // For a peer behind a relay, the relay has checked the key.
  const bool may_look = received.role == wire::Role::kOperator || received.role == wire::Role::kReader ||
                        received.role == wire::Role::kRelay;
  const bool may_dump = received.role == wire::Role::kOperator || received.role == wire::Role::kRelay;
  if (!may_look) return fail("this key is not an operator's or reader's");
  const std::vector<Job*> jobs = Named(request.job());
  const auto list = [this](const std::vector<Job*>& jobs) {
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(jobs.size(), 16); ++i) {
      absl::StrAppend(&names, i == 0 ? "" : ", ", jobs[i]->name,
                      jobs[i]->number == 0 && HasNamesake(*jobs[i]) ? "#1" : "");
    }
    return names;
  };
  switch (request.kind()) {
    case ClientRequest::STATUS: {
      if (!request.job().empty() && jobs.empty()) return fail(NoSuchJob(request.job(), list(Named(""))));
      for (Job* job : jobs) {
        if (reply.jobs_size() < static_cast<int>(kMostJobsInReply)) FillJob(*job, reply.add_jobs());
      }
      reply.set_done(true);
      return Send(from, wire::Type::kClientReply, reply);
    }
    case ClientRequest::WATCH: {
      for (Watcher& watcher : watchers_) {
        if (watcher.address == from && watcher.request == request.request()) {
          watcher.until_ns = now_ + kWatchFor;
          watcher.kin.assign(request.kin().begin(), request.kin().begin() + std::min(request.kin_size(), kMostKin));
          return;
        }
      }
      if (watchers_.size() >= kMostWatchers) return fail("too many clients watch already");
      watchers_.push_back({from, request.request(), request.job(), now_ + kWatchFor, now_, {}});
      watchers_.back().kin.assign(request.kin().begin(),
                                  request.kin().begin() + std::min(request.kin_size(), kMostKin));
      return;
    }
    case ClientRequest::DETAIL: {
      if (jobs.size() != 1) return fail(jobs.empty() ? "no such job" : absl::StrCat("which job? ", list(jobs)));
      if (request.missing_stacks() && request.fresh()) {
        if (!may_dump)
          return fail(
              "this key may only look (role reader); taking stacks stops processes for a moment and needs one of role "
              "operator");
        if (std::string why = AskFreshStacks(jobs[0], from, request.request()); !why.empty()) return fail(why);
        return;
      }
      FillDetail(*jobs[0], now_, request, &reply);
      reply.set_done(true);
      return Send(from, wire::Type::kClientReply, reply);
    }
    case ClientRequest::DUMP: {
      if (!may_dump) return fail("this key may only look (role reader); taking a dump needs one of role operator");
      if (jobs.empty()) {
        return fail(
            request.job().empty()
                ? std::string(
                      "no job is known: does an agent run on its hosts, and does this collector accept its key?")
                : NoSuchJob(request.job(), list(Named(""))));
      }
      if (jobs.size() > 1) return fail(absl::StrCat("which job? ", list(jobs)));
      Job* job = jobs[0];
      if (job->asking.size() >= 64) return fail("too many clients already wait for a dump of this job");
      for (const auto& [address, number] : job->asking) {
        if (address == from && number == request.request()) return;  // the client sent this request again
      }
      job->asking.push_back({from, request.request()});
      job->asked_everything |= request.everything();
      job->dump_wanted = true;
      reply.set_progress(absl::StrCat("asking ", job->All().size(), " ranks of job ", job->name, " for digests"));
      return Send(from, wire::Type::kClientReply, reply);
    }
    default: return fail("this collector does not know this request: update it");
  }
}

std::vector<JobState> CollectorCore::States() const {
  static constexpr absl::string_view kWorstFirst[] = {"hung", "late", "moving", "ended"};
  std::vector<JobState> states;
  for (const absl::string_view word : kWorstFirst) {
    for (const auto& [key, job] : jobs_) {
      if (JobState state = StateOf(*job); state.state == word) states.push_back(std::move(state));
    }
  }
  return states;
}

JobStatus CollectorCore::StatusOf(const std::string& job) const {
  JobStatus status;
  for (const auto& [key, candidate] : jobs_) {
    if (candidate->name == job || candidate->identity.job() == job) {
      FillStatus(*candidate, now_, &status);
      break;
    }
  }
  return status;
}

}  // namespace lockstep
