#include "collector/service/core/clients.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

constexpr int64_t kWatchFor = 60 * kSecond;
constexpr size_t kMostWatchers = 4096;
constexpr size_t kMostJobsInReply = 64;
constexpr int kMostCommunicators = 64;

std::string NoSuchJob(const std::string& name, const std::string& known) {
  return absl::StrCat("unknown job '", name, "'; ",
                      known.empty() ? "no other job is known either. Does an agent run on the job's hosts, and does "
                                      "this collector accept the agent's key?"
                                    : absl::StrCat("known jobs: ", known));
}

}  // namespace

// Returns whether the watcher watches this job. If it names communicators, and a job with the requested name has one of
// them, it watches only such jobs.
bool Clients::Watches(const Watcher& watcher, const Job& job) {
  if (MatchName(job, watcher.job) == NameMatch::kNone) return false;
  if (watcher.communicators.empty()) return true;
  const auto has = [&](const Job& one) {
    return std::any_of(watcher.communicators.begin(), watcher.communicators.end(),
                       [&](uint64_t comm) { return one.communicators.contains(comm); });
  };
  if (has(job)) return true;
  const std::vector<Job*> named = jobs_.Named(watcher.job);
  return std::none_of(named.begin(), named.end(), [&](const Job* other) { return has(*other); });
}

void Clients::Tell(const std::string& key, const Incident* incident) {
  Job* job = jobs_.Find(key);
  if (job == nullptr) return;
  for (const Watcher& watcher : watchers_) {
    if (!Watches(watcher, *job)) continue;
    ClientReply reply;
    reply.set_request(watcher.request);
    jobs_.Fill(*job, reply.add_jobs());
    if (incident != nullptr) *reply.mutable_incident() = *incident;
    shared_.Send(watcher.address, wire::Type::kClientReply, reply);
  }
}

void Clients::Tick() {
  fresh_.Tick();
  examination_.Tick();
  for (Watcher& watcher : watchers_) {
    if (shared_.now < watcher.next_ns) continue;
    watcher.next_ns = shared_.now + kSecond;
    ClientReply reply;
    reply.set_request(watcher.request);
    for (Job* job : jobs_.Named(watcher.job)) {
      if (reply.jobs_size() < static_cast<int>(kMostJobsInReply) && Watches(watcher, *job))
        jobs_.Fill(*job, reply.add_jobs());
    }
    shared_.Send(watcher.address, wire::Type::kClientReply, reply);
  }
  std::erase_if(watchers_, [this](const Watcher& watcher) { return shared_.now > watcher.until_ns; });
}

std::string Clients::NamesOf(const std::vector<Job*>& jobs) {
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(jobs.size(), 16); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", jobs[i]->name,
                    jobs[i]->number == 0 && jobs_.HasNamesake(*jobs[i]) ? "#1" : "");
  }
  return names;
}

void Clients::OnRequest(const wire::Received& received) {
  ClientRequest request;
  if (!shared_.Decode(received.message, &request)) return;
  const Address from{received.peer, received.message.header.route};
  ClientReply reply;
  reply.set_request(request.request());
  const auto fail = [&](std::string why) {
    ++shared_.counters.requests_refused;
    reply.set_error(std::move(why));
    reply.set_done(true);
    shared_.Send(from, wire::Type::kClientReply, reply);
  };
  // The server drops requests from other roles before they arrive here, also from relays.
  const bool may_dump = received.role == wire::Role::kOperator;
  if (!may_dump && received.role != wire::Role::kReader)
    return fail("this request needs a key of role operator or reader");
  const std::vector<Job*> jobs = jobs_.Named(request.job());
  switch (request.kind()) {
    case ClientRequest::STATUS: {
      if (!request.job().empty() && jobs.empty()) return fail(NoSuchJob(request.job(), NamesOf(jobs_.Named(""))));
      for (Job* job : jobs) {
        if (reply.jobs_size() < static_cast<int>(kMostJobsInReply)) jobs_.Fill(*job, reply.add_jobs());
      }
      reply.set_done(true);
      return shared_.Send(from, wire::Type::kClientReply, reply);
    }
    case ClientRequest::WATCH: {
      auto watcher = std::find_if(watchers_.begin(), watchers_.end(), [&](const Watcher& one) {
        return one.address == from && one.request == request.request();
      });
      if (watcher == watchers_.end()) {
        if (watchers_.size() >= kMostWatchers) return fail("too many clients are already watching");
        watcher = watchers_.insert(watcher, {from, request.request(), request.job(), 0, shared_.now, {}});
      }
      watcher->until_ns = shared_.now + kWatchFor;
      const int named = std::min(request.communicators_size(), kMostCommunicators);
      watcher->communicators.assign(request.communicators().begin(), request.communicators().begin() + named);
      return;
    }
    case ClientRequest::DETAIL: {
      if (jobs.size() != 1) return fail(jobs.empty() ? "no such job" : absl::StrCat("which job? ", NamesOf(jobs)));
      if (request.missing_stacks() && request.fresh()) {
        if (!may_dump)
          return fail(
              "this key is read-only (role reader); taking stacks stops processes for a moment and needs a key of role "
              "operator");
        if (std::string why = fresh_.Ask(jobs[0], from, request.request()); !why.empty()) return fail(why);
        return;
      }
      FillDetail(*jobs[0], shared_.now, request, &reply);
      reply.set_done(true);
      return shared_.Send(from, wire::Type::kClientReply, reply);
    }
    case ClientRequest::DUMP: {
      if (!may_dump) return fail("this key is read-only (role reader); requesting a dump needs a key of role operator");
      if (jobs.empty()) {
        return fail(request.job().empty() ? std::string("no job is known. Does an agent run on the job's hosts, and "
                                                        "does this collector accept the agent's key?")
                                          : NoSuchJob(request.job(), NamesOf(jobs_.Named(""))));
      }
      if (jobs.size() > 1) return fail(absl::StrCat("which job? ", NamesOf(jobs)));
      Job* job = jobs[0];
      if (job->asking.size() >= 64) return fail("too many clients are already waiting for a dump of this job");
      for (const auto& [address, number] : job->asking) {
        if (address == from && number == request.request()) return;  // the client has repeated this request
      }
      job->asking.push_back({from, request.request()});
      job->asked_everything |= request.everything();
      job->dump_wanted = true;
      reply.set_progress(absl::StrCat("asking ", job->All().size(), " ranks of job ", job->name, " for digests"));
      return shared_.Send(from, wire::Type::kClientReply, reply);
    }
    case ClientRequest::EXAMINE: {
      if (!may_dump) return fail("this key is read-only (role reader); examining a job needs a key of role operator");
      if (std::string why = examination_.Begin(request, from); !why.empty()) return fail(why);
      return;
    }
    default: return fail("this collector does not support this request: update the collector");
  }
}

}  // namespace lockstep
