#include "collector/service/core/job.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

constexpr size_t kMostHostLines = 256, kMostCulprits = 8;
constexpr int64_t kLatesShown = 600 * kSecond;

const char* StateWord(const Job& job) {
  if (job.over) return "ended";
  switch (job.detector.level()) {
    case Level::kHung: return "hung";
    case Level::kLate: return "late";
    default: return "moving";
  }
}

}  // namespace

std::string BaseKeyOf(const JobIdentity& identity) {
  return absl::StrCat(identity.uid(), "/", identity.job(), "/", identity.step(), "/", identity.restart_count());
}

std::string NameOf(const JobIdentity& identity) {
  std::string name = identity.job().empty() ? "unnamed" : identity.job();
  if (!identity.step().empty() || identity.restart_count() != 0) {
    absl::StrAppend(&name, "/", identity.step().empty() ? "0" : identity.step(), "/", identity.restart_count());
  }
  return name;
}

NameMatch MatchName(const Job& job, const std::string& name) {
  const JobIdentity& identity = job.identity;
  const std::string plain = NameOf(identity), hash = absl::StrCat("#", job.number + 1);
  const std::string rest = absl::StrCat("/", identity.step(), "/", identity.restart_count());
  if (name == plain + hash || name == absl::StrCat(identity.job(), hash, rest)) return NameMatch::kThis;
  if (name == plain || name == identity.job() + rest) return NameMatch::kSame;
  return name.empty() || name == identity.job() ? NameMatch::kAlike : NameMatch::kNone;
}

std::vector<uint64_t> CommunicatorsOf(const Job& job) {
  std::vector<uint64_t> comms(job.communicators.begin(), job.communicators.end());
  std::sort(comms.begin(), comms.end());
  if (comms.size() > 64) comms.resize(64);
  return comms;
}

Ranks Job::All() const {
  Ranks all;
  for (const auto& [name, host] : hosts) {
    if (host.direct) all.Unite(host.seen.All());
  }
  for (const auto& [at, relay] : relays) all.Unite(relay.seen.All());
  return all;
}

bool Job::MembersUnknown() const {
  bool unknown = detector.progress().size() == 0;
  detector.progress().ForEach([&](const MergedComm& comm) {
    unknown |= comm.known > 0 && comm.size > 0 && comm.known < static_cast<uint32_t>(comm.size);
  });
  return unknown;
}

std::vector<DigestHole> Job::Holes(int64_t now) const {
  constexpr size_t kMostHoles = 64;
  std::vector<DigestHole> holes;
  const auto add = [&](DigestHole hole) {
    if (holes.size() < kMostHoles) holes.push_back(std::move(hole));
  };
  Ranks left = wanted;
  left.Subtract(got);
  for (const auto& [name, host] : hosts) {
    if (!host.direct || complete.count(name) != 0) continue;
    Ranks ranks = host.seen.All();
    ranks.Subtract(got);
    if (ranks.empty()) continue;
    left.Subtract(ranks);
    const int64_t silent = now - host.heard_ns;
    add({host.silent ? absl::StrCat("the agent of ", name, " has been silent for ", DurationText(silent),
                                    ": nothing is known about its ranks ", ranks.Text())
                     : absl::StrCat("the agent of ", name, " did not answer in time: nothing is known about its ranks ",
                                    ranks.Text()),
         name, ranks, host.silent ? silent : 0});
  }
  for (const auto& [at, relay] : relays) {
    if (relay.silent) {
      Ranks ranks = relay.seen.All();
      ranks.Subtract(got);
      if (ranks.empty()) continue;
      left.Subtract(ranks);
      const int64_t silent = now - relay.heard_ns;
      add({absl::StrCat("the relay on ", relay.host, " has been silent for ", DurationText(silent),
                        ": nothing is known about ranks ", ranks.Text()),
           "", ranks, silent});
    } else if (relay.seen.silent_hosts > 0) {
      std::string named;
      for (const std::string& host : relay.seen.silent_named) absl::StrAppend(&named, named.empty() ? "" : ", ", host);
      add({absl::StrCat(relay.seen.silent_hosts, " agents behind the relay on ", relay.host, " are silent: ", named),
           "",
           {},
           0});
    }
  }
  if (!left.empty()) add({absl::StrCat("digests did not arrive in time from ranks ", left.Text()), "", left, 0});
  if (!duplicates.empty()) {
    add({absl::StrCat("ranks ", duplicates.Text(), " are reported by several hosts: one of each is left out"),
         "",
         {},
         0});
  }
  return holes;
}

JobState StateOf(const Job& job) {
  JobState state{job.identity.job(), StateWord(job), {}};
  if (job.number > 0) absl::StrAppend(&state.job, "#", job.number + 1);
  // An incident that is over does not explain why the job is late or has ended.
  if (state.state != "hung" || job.last_incident == nullptr || job.last_incident->verdict().findings().empty())
    return state;
  for (const Culprit& culprit : job.last_incident->verdict().findings(0).culprits()) {
    if (state.culprits.size() < kMostCulprits) state.culprits.push_back(culprit);
  }
  return state;
}

void FillStatus(const Job& job, int64_t now, JobStatus* status) {
  *status->mutable_job() = job.identity;
  if (job.number > 0) status->mutable_job()->set_job(absl::StrCat(job.identity.job(), "#", job.number + 1));
  status->set_state(StateWord(job));
  status->set_since_real_ns(job.level_real_ns);
  status->set_started_real_ns(job.began_real_ns);
  status->set_restarts_inside(job.restarts_inside);
  status->set_restarted_real_ns(job.restarted_real_ns);
  HeartbeatFacts all;
  uint32_t agents = 0, silent = 0;
  for (const auto& [name, host] : job.hosts) {
    if (!host.direct) continue;
    ++agents;
    all.Add(host.seen);
    if (!host.silent) continue;
    ++silent;
    if (status->blind_size() < 64) {
      status->add_blind(absl::StrCat("agent of ", name, " silent for ", DurationText(now - host.heard_ns), " (ranks ",
                                     host.seen.All().Text(4), ")"));
    }
  }
  std::set<std::string> told;
  const auto blind = [&](const HeartbeatFacts& seen) {
    for (const std::string& line : seen.blind) {
      if (status->blind_size() < 64 && told.insert(line).second) status->add_blind(line);
    }
  };
  for (const auto& [name, host] : job.hosts) {
    if (host.direct && !host.silent) blind(host.seen);
  }
  for (const auto& [at, relay] : job.relays) {
    if (!relay.silent) blind(relay.seen);
    agents += relay.seen.hosts;
    silent += relay.silent ? relay.seen.hosts : relay.seen.silent_hosts;
    all.Add(relay.seen);
    if (relay.silent)
      status->add_blind(absl::StrCat("relay on ", relay.host, " silent for ", DurationText(now - relay.heard_ns)));
    for (const std::string& host : relay.seen.silent_named) {
      if (status->blind_size() < 64) status->add_blind(absl::StrCat("agent of ", host, " silent"));
    }
  }
  const auto ranks = static_cast<uint32_t>(all.All().size());
  status->set_ranks(ranks);
  status->set_ranks_expected(std::max(static_cast<uint32_t>(std::max(job.world_size, 0)), ranks));
  status->set_agents(agents);
  status->set_agents_silent(silent);
  all.ended.To(status->mutable_dead());
  all.stopped.To(status->mutable_stopped());
  all.in_d.To(status->mutable_in_d());
  status->set_records_lost(all.records_lost);
  status->set_heartbeat_lag_ns(all.oldest_age_ns);
  all.recorders.To(status);
  if (!job.duplicates.empty())
    status->add_blind(absl::StrCat("ranks ", job.duplicates.Text(), " are reported by several hosts"));
  for (auto line = job.lates.rbegin(); line != job.lates.rend() && now - line->at_ns <= kLatesShown; ++line) {
    status->add_late_arrivals(WithAge(*line, now));
  }
  for (auto line = job.desyncs.rbegin(); line != job.desyncs.rend(); ++line)
    status->add_disagreements(WithAge(*line, now));
  for (const TimedLine& line : job.hosts_found.hardware) status->add_hardware(WithAge(line, now));
  for (const std::string& line : job.hosts_found.blind) {
    if (status->blind_size() < 64) status->add_blind(line);
  }
  if (job.last_incident != nullptr) {
    Incident* incident = status->mutable_last_incident();
    *incident = *job.last_incident;
    // Links are measured only from complete records, so these values come from the last incident.
    for (const Finding& finding : incident->verdict().findings()) {
      if (finding.kind() == SLOW_LINK && status->slow_links_size() < 16) status->add_slow_links(Headline(finding));
    }
  }

  FillCommunicators(job, now, status);
  FillStages(job, status);

  std::vector<HostStatus> hosts;
  for (const auto& [name, host] : job.hosts) {
    HostStatus line;
    line.set_host(name);
    Ranks ranks = host.direct ? host.seen.All() : host.ranks;
    ranks.To(line.mutable_ranks());
    line.set_silent(host.silent);
    Ranks troubled = host.seen.stopped;
    troubled.Unite(host.seen.in_d);
    troubled.Unite(host.seen.ended);
    line.set_troubled(static_cast<uint32_t>(troubled.size()));
    hosts.push_back(std::move(line));
  }
  std::stable_sort(hosts.begin(), hosts.end(), [](const HostStatus& a, const HostStatus& b) {
    return std::make_tuple(a.silent(), a.troubled()) > std::make_tuple(b.silent(), b.troubled());
  });
  status->set_hosts_total(agents);
  for (size_t i = 0; i < std::min(hosts.size(), kMostHostLines); ++i) *status->add_hosts() = hosts[i];
}

void FillDetail(const Job& job, int64_t now, const ClientRequest& request, ClientReply* reply) {
  const MergedProgress& progress = job.detector.progress();
  if (request.communicator() != 0) {
    const MergedComm* comm = progress.Find(request.communicator());
    if (comm == nullptr) {
      reply->set_error("no rank has used this communicator");
      return;
    }
    reply->add_lines(absl::StrCat("communicator ", comm->name.empty() ? "" : comm->name + " ", absl::Hex(comm->id),
                                  ", ", comm->size, " members, ", comm->known, " known"));
    reply->add_lines(absl::StrCat("collectives issued: ", CountText(comm->issued_min), " to ",
                                  CountText(comm->issued_max), ", the last ", DurationText(now - comm->reached_ns),
                                  " ago"));
    reply->add_lines(absl::StrCat("limit ", DurationText(job.detector.LimitOf(comm->id)), ", learned from ", comm->gaps,
                                  " gaps (99th percentile ", DurationText(comm->p99_gap_ns), ")"));
    if (comm->behind_since_ns != 0) {
      reply->add_lines(absl::StrCat("missing for ", DurationText(now - comm->behind_since_ns), ": ranks ",
                                    progress.Missing(comm->id).Text(32)));
    }
    reply->add_lines(absl::StrCat("members: ", progress.Members(comm->id).Text(32)));
    return;
  }
  if (request.has_rank()) {
    bool found = false;
    for (const auto& [name, host] : job.hosts) {
      const Ranks ranks = host.direct ? host.seen.All() : host.ranks;
      if (!ranks.Contains(request.rank())) continue;
      found = true;
      const HeartbeatFacts& seen = host.seen;
      const char* state = seen.ended.Contains(request.rank())     ? "ended"
                          : seen.stopped.Contains(request.rank()) ? "stopped (T)"
                          : seen.in_d.Contains(request.rank())    ? "in uninterruptible sleep (D)"
                                                                  : "running";
      reply->add_lines(absl::StrCat("rank ", request.rank(), " on ", name, ": ", state,
                                    host.silent ? ", its agent is silent" : "", ", last heard from ",
                                    DurationText(now - host.heard_ns), " ago"));
    }
    if (!found) reply->add_lines(absl::StrCat("no host has reported rank ", request.rank()));
    size_t shown = 0;
    progress.ForEachBehind([&](const MergedComm& comm) {
      if (shown >= 16 || !progress.Missing(comm.id).Contains(request.rank())) return;
      ++shown;
      reply->add_lines(absl::StrCat("missing in ", comm.name.empty() ? absl::StrCat(absl::Hex(comm.id)) : comm.name,
                                    " for ", DurationText(now - comm.behind_since_ns), ": it issued ",
                                    CountText(comm.issued_min), ", others ", CountText(comm.issued_max)));
    });
    return;
  }
  if (request.missing_stacks()) {
    if (job.last_incident == nullptr) {
      reply->add_lines("this job has no incident yet; lockstep dump creates one");
      return;
    }
    for (const Finding& finding : job.last_incident->verdict().findings()) {
      reply->add_lines(Headline(finding));
      for (const Evidence& evidence : finding.evidence()) reply->add_lines("  " + evidence.text());
    }
    return;
  }
  reply->set_error("ask for a communicator, a rank or the stacks of missing ranks");
}

}  // namespace lockstep
