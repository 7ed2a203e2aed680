// The part of JobTable that finds senders that stopped reporting, and jobs that are over.
#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_units.h"
#include "collector/service/core/job_table.h"

namespace lockstep {
namespace {

constexpr int64_t kPassedOver = 2 * kSecond;  // a job's heartbeats stopped while those of another job continue

}  // namespace

// Returns whether the sender no longer reports this job, although it is not silent.
bool JobTable::PassedOver(uint64_t peer, int64_t heard_ns) const {
  const auto info = peers_.find(peer);
  return info != peers_.end() && info->second.beat_ns - heard_ns > kPassedOver &&
         shared_.now - info->second.beat_ns < shared_.options.silent_after_ns;
}

// Ranks of a silent sender may have been started elsewhere, so they no longer count as alive. After a long silence, the
// sender is forgotten.
void JobTable::LookForSilentFamilies() {
  for (auto family = families_.begin(); family != families_.end();) {
    for (auto heard = family->second.heard.begin(); heard != family->second.heard.end();) {
      const int64_t silent = shared_.now - heard->second.ns;
      if (silent > kForgetAfter) {
        family->second.sorted.Leave(heard->first);
        heard = family->second.heard.erase(heard);
        continue;
      }
      if (silent >= shared_.options.silent_after_ns && silent < shared_.options.silent_after_ns + 2 * kSecond)
        family->second.sorted.Silent(heard->first);
      ++heard;
    }
    // The numbers of the family's jobs are kept while the family has jobs.
    const bool over = family->second.heard.empty() && std::none_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
                        return BaseKeyOf(job.second->identity) == family->first;
                      });
    family = over ? families_.erase(family) : std::next(family);
  }
}

void JobTable::LookWhetherOver(Job* job) {
  bool anybody = !job->relays.empty(), living = false, ended = false;
  for (const auto& [name, host] : job->hosts) {
    anybody |= host.direct;
    living |= host.direct && (!host.seen.alive.empty() || host.seen.ended.empty());
  }
  for (const auto& [at, relay] : job->relays) living |= !relay.seen.alive.empty() || relay.seen.ended.empty();
  ended = anybody && !living;
  // A job that died is judged first. It is over if it ended well, if no sender reports it, or if it had ended before
  // this collector started.
  const bool over =
      !anybody || (ended && (!job->lived || job->ended_badly.empty() || job->detector.level() == Level::kHung));
  if (over == job->over) return;
  job->over = over;
  if (over)
    shared_.Say(absl::StrCat("job ", job->name,
                             !anybody     ? ": no agent reports this job any more"
                             : job->lived ? " has ended"
                                          : " had already ended"));
  events_.BeganOrEnded(job);
}

void JobTable::LookForSilence(Job* job) {
  std::vector<SenderKey> left;
  for (const auto& [name, host] : job->hosts) {
    if (host.direct && shared_.now - host.heard_ns >= shared_.options.silent_after_ns &&
        PassedOver(host.address.peer, host.heard_ns)) {
      left.push_back({"", name, host.address.peer, host.life, true});
    }
  }
  for (const auto& [at, relay] : job->relays) {
    if (shared_.now - relay.heard_ns >= shared_.options.silent_after_ns && PassedOver(at.peer, relay.heard_ns))
      left.push_back({"", "", at.peer, at.life, false});
  }
  for (const SenderKey& sender : left) LeaveJob(job, sender);
  LookForSilentHosts(job);
  LookForSilentRelays(job);
}

void JobTable::LookForSilentHosts(Job* job) {
  for (auto& [name, host] : job->hosts) {
    if (!host.direct) continue;
    const int64_t silent = shared_.now - host.heard_ns;
    if (silent < shared_.options.silent_after_ns || host.seen.alive.empty()) continue;
    if (!host.silent) {
      host.silent = true;
      shared_.Say(
          absl::StrCat("job ", job->name, ": the agent of ", name, " has gone silent (ranks ", host.ranks.Text(), ")"));
    }
    // Checks whether the host now reports through a relay.
    bool moved = false;
    for (const auto& [at, relay] : job->relays) {
      if (!relay.silent && relay.heard_ns > host.heard_ns && relay.seen.alive.ContainsAll(host.seen.alive))
        moved = true;
    }
    if (moved) {
      job->detector.progress().Forget(host.child);
      job->detector.HostBack(name);
      host.direct = host.silent = false;
      host.child = 0;
    } else {
      job->detector.HostSilent(shared_.now, name, silent);
    }
  }
}

void JobTable::LookForSilentRelays(Job* job) {
  for (auto relay = job->relays.begin(); relay != job->relays.end();) {
    JobRelay& entry = relay->second;
    const int64_t silent = shared_.now - entry.heard_ns;
    if (silent < shared_.options.silent_after_ns) {
      ++relay;
      continue;
    }
    if (!entry.silent) {
      entry.silent = true;
      shared_.Say(absl::StrCat("job ", job->name, ": the relay on ", entry.host, " has gone silent (", entry.seen.hosts,
                               " agents behind it)"));
    }
    Ranks others;
    for (const auto& [name, host] : job->hosts) {
      if (host.direct && !host.silent) others.Unite(host.seen.alive);
    }
    for (const auto& [at, other] : job->relays) {
      if (!other.silent) others.Unite(other.seen.alive);
    }
    if (others.ContainsAll(entry.seen.alive)) {
      // The relay's agents now report directly or through other relays.
      job->detector.progress().Forget(entry.child);
      job->detector.HostBack(entry.host);
      relay = job->relays.erase(relay);
    } else {
      job->detector.HostSilent(shared_.now, entry.host, silent);
      ++relay;
    }
  }
}

void JobTable::LookForSilence() {
  LookForSilentFamilies();
  for (const auto& [key, job] : jobs_) {
    LookForSilence(job.get());
    LookWhetherOver(job.get());
  }
}

void JobTable::Rebase() {
  for (const auto& [key, job] : jobs_) {
    job->detector.Rebase(shared_.now);
    for (auto& [name, host] : job->hosts) host.heard_ns = std::max(host.heard_ns, shared_.now - kSecond);
    for (auto& [at, relay] : job->relays) relay.heard_ns = std::max(relay.heard_ns, shared_.now - kSecond);
  }
}

void JobTable::Sweep(int64_t hold_early_ns) {
  const int64_t forget = kForgetAfter;
  std::erase_if(early_, [&](const Early& early) { return shared_.now - early.at_ns > hold_early_ns; });
  absl::erase_if(peers_, [&](const auto& peer) { return shared_.now - peer.second.heard_ns > forget; });
  std::erase_if(jobs_,
                [&](const auto& job) { return shared_.now - job.second->heard_ns > forget && !job.second->analysing; });
  CoreCounters& counters = shared_.counters;
  counters.jobs = counters.agents = counters.agents_silent = counters.ranks = 0;
  for (const auto& [key, job] : jobs_) {
    if (job->over) continue;
    ++counters.jobs;
    for (const auto& [name, host] : job->hosts) {
      counters.agents += host.direct;
      counters.agents_silent += host.direct && host.silent;
    }
    for (const auto& [at, relay] : job->relays) {
      counters.agents += relay.seen.hosts;
      counters.agents_silent += relay.silent ? relay.seen.hosts : relay.seen.silent_hosts;
    }
    counters.ranks += job->All().size();
  }
}

}  // namespace lockstep
