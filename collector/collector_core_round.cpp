// The part of CollectorCore that asks for digests, has them analysed and judges: from late to a verdict.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/report.h"
#include "collector/collector_core.h"
#include "collector/say.h"

namespace lockstep {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSaySame = 30 * kSecond;
constexpr size_t kMostLines = 32;  // of late lines kept

void Keep(std::vector<std::string>* lines, std::string line) {
  lines->push_back(std::move(line));
  if (lines->size() > kMostLines) lines->erase(lines->begin());
}

// "rank 878 (RANK_NOT_ARRIVED)", "ranks 8 and 7 more (...)".
std::string FirstCulprit(const Finding& finding) {
  const int culprits = finding.culprit_ranks_size();
  return absl::StrCat(culprits == 0   ? "nobody to be named"
                      : culprits == 1 ? absl::StrCat("rank ", finding.culprit_ranks(0))
                                      : absl::StrCat("ranks ", finding.culprit_ranks(0), " and ", culprits - 1, " more"),
                      " (", FindingKind_Name(finding.kind()), ")");
}

bool IsStall(VerdictKind kind) { return kind == VERDICT_HUNG || kind == VERDICT_DESYNC || kind == VERDICT_CRASHED; }

}  // namespace

void CollectorCore::OnDigest(const wire::Received& received) {
  auto digest = std::make_shared<DigestEnvelope>();
  if (!Decode(received.message, digest.get())) return;
  Job* job = nullptr;
  for (const auto& [key, candidate] : jobs_) {
    if (candidate->request != 0 && candidate->request == digest->request()) job = candidate.get();
  }
  const std::string host = CleanUtf8(digest->host(), 256);
  if (job == nullptr || job->analysing || host.empty()) return;
  ++counters_.digests;
  job->digest_ns = now_;
  if (job->complete.count(host) != 0) return;  // twice, after a reconnection
  JobHost* entry = nullptr;
  if (const auto known = job->hosts.find(host); known != job->hosts.end()) {
    entry = &known->second;
  } else if (job->hosts.size() < options_.most_hosts) {
    entry = &job->hosts[host];
    entry->heard_ns = now_;
  }
  if (entry == nullptr) return;
  if (!entry->direct) {
    entry->address = {received.peer, received.message.header.route};
    entry->life = digest->job().life();  // as its agent tells jobs of one name apart
  }
  // Which ranks these are stands inside; a first look is enough here.
  Ranks ranks;
  for (const std::string& packed : digest->ranks()) {
    const int32_t rank = RankOfDigest(packed);
    if (rank < 0 || rank > kMostRank) continue;
    ranks.Add(rank);
  }
  job->got.Unite(ranks);
  if (!entry->direct) entry->ranks.Unite(ranks);
  const uint32_t part = ++job->parts[host];
  if (!digest->refused().empty() || part >= std::max<uint32_t>(digest->parts(), 1)) job->complete.insert(host);
  const std::shared_ptr<DigestRound> round = job->round;
  const bool samples = job->samples;
  actions_->Work({CoreTask::Lane::kAnalysis,
                  [round, digest, samples, now = now_] { samples ? round->Sample(*digest, now) : round->Add(*digest); }, [](int64_t) {}});
}

// Each by the number under which it knows the job.
void CollectorCore::AskHosts(Job* job, CollectRequest request, const Ranks& ranks) {
  for (const auto& [name, host] : job->hosts) {
    if (!host.direct || (!ranks.empty() && !ranks.Intersects(host.ranks))) continue;
    request.mutable_job()->set_life(host.life);
    Send(host.address, wire::Type::kCollect, request);
  }
  for (const auto& [at, relay] : job->relays) {
    request.mutable_job()->set_life(at.life);
    if (ranks.empty() || ranks.Intersects(relay.seen.All())) Send({at.peer, {}}, wire::Type::kCollect, request);
  }
}

void CollectorCore::StartRound(Job* job, bool by_hand) {
  ++counters_.rounds;
  job->request = NextRequest();
  job->samples = false;
  job->by_hand = by_hand;
  job->asked_ns = job->digest_ns = now_;
  job->wanted = job->All();
  job->got = Ranks();
  job->parts.clear();
  job->complete.clear();
  job->round = std::make_shared<DigestRound>();
  CollectRequest request;
  request.set_request(job->request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::DIGEST);
  AskHosts(job, request, {});
}

void CollectorCore::StartSamples(Job* job, const std::vector<int32_t>& ranks) {
  if (job->round == nullptr) return StartRound(job, false);
  job->request = NextRequest();
  job->samples = true;
  job->by_hand = false;
  job->asked_ns = job->digest_ns = now_;
  job->wanted = Ranks::Of(ranks);
  job->got = Ranks();
  job->parts.clear();
  job->complete.clear();
  CollectRequest request;
  request.set_request(job->request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::DIGEST);
  job->wanted.To(request.mutable_ranks());
  AskHosts(job, request, job->wanted);
}

bool CollectorCore::RoundIsIn(const Job& job) const {
  bool all = job.got.ContainsAll(job.wanted);
  if (!job.samples) {
    for (const auto& [name, host] : job.hosts) {
      if (host.direct && !host.silent && job.complete.count(name) == 0) all = false;
      // What a silent agent, or one that has refused, speaks for will not come.
    }
    if (!all) {
      Ranks left = job.wanted;
      left.Subtract(job.got);
      bool only_silent = true;
      for (const auto& [name, host] : job.hosts) {
        if (!host.direct) continue;
        if (host.silent || job.complete.count(name) != 0) left.Subtract(host.seen.All());
        else only_silent = false;
      }
      for (const auto& [at, relay] : job.relays) {
        if (relay.silent) left.Subtract(relay.seen.All());
      }
      all = left.empty() && only_silent;
    }
  }
  if (all) return true;
  const int64_t since = now_ - job.asked_ns;
  if (since >= options_.digest_most_ns) return true;
  return since >= options_.digest_least_ns && now_ - job.digest_ns >= options_.digest_quiet_ns;
}

void CollectorCore::FinishRound(Job* job) {
  job->analysing = true;
  job->digests_in_ns = now_;
  const std::string key = job->key;
  const std::shared_ptr<DigestRound> round = job->round;
  const std::shared_ptr<bool> alive = alive_;
  ++tasks_out_;
  if (job->samples) {
    actions_->Work({CoreTask::Lane::kAnalysis, [] {}, [this, alive, key](int64_t now) {
                      if (!*alive) return;
                      --tasks_out_;
                      now_ = std::max(now_, now);
                      if (Job* job = Find(key)) Judge(job, false);
                    }});
    return;
  }
  DigestRound::Facts facts;
  facts.job = job->identity.job();
  facts.ranks_expected = job->world_size;
  facts.holes = job->Holes(now_);
  facts.clocks = clocks_;
  facts.asked_ns = job->asked_ns;
  facts.late_after_ns = options_.limits.late_after;
  facts.dead_settle_ns = options_.limits.dead_settle;
  actions_->Work({CoreTask::Lane::kAnalysis, [round, facts] { round->Analyse(facts); },
                  [this, alive, key](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    if (Job* job = Find(key)) AfterAnalysis(job);
                  }});
}

void CollectorCore::AfterAnalysis(Job* job) {
  job->analysing = false;
  job->request = 0;
  job->world_size = std::max(job->world_size, job->round->bundle().ranks_expected);
  if (job->said_round_ns == 0 || job->by_hand || now_ - job->said_round_ns > kSaySame) {
    job->said_round_ns = now_;
    const Verdict& verdict = job->round->verdict();
    actions_->Say(absl::StrCat("job ", job->name, ": digests of ", CountText(job->round->ranks()), " of ", CountText(static_cast<uint64_t>(std::max(0, job->world_size))),
                               " ranks in ", DurationText(job->digests_in_ns - job->asked_ns), ", read in ", DurationText(now_ - job->digests_in_ns), ": ",
                               verdict.findings_size() == 0 ? VerdictName(verdict.verdict()) : FirstCulprit(verdict.findings(0))));
  }
  if (job->by_hand) {
    job->by_hand = false;
    return MakeIncident(job, nullptr);
  }
  Judge(job, true);
}

void CollectorCore::Judge(Job* job, bool all_ranks) {
  job->analysing = false;
  job->request = 0;
  if (job->detector.level() == Level::kHung) return;
  const Decision decision = job->detector.Judge(now_, job->round->root(), all_ranks);
  Decide(job, decision);
  if (decision.hung()) Declare(job, &decision);
}

// By an earlier life of this collector. The job may have stood still all the while; and who is told of it, is told once.
bool CollectorCore::WasDeclared(Job* job) {
  const std::string identity = job->identity.SerializeAsString();
  for (auto before = before_.begin(); before != before_.end(); ++before) {
    if (before->identity.SerializeAsString() != identity || !before->Is(job->round->verdict())) continue;
    actions_->Say(absl::StrCat("job ", job->name, ": this was declared before: ", before->folder));
    before_.erase(before);
    return true;
  }
  return false;
}

void CollectorCore::Declare(Job* job, const Decision* decision) {
  if (WasDeclared(job)) return;
  if (IsStall(job->round->verdict().verdict())) return MakeIncident(job, decision);
  // The digests alone look like a job that might still move; the detector knows better.
  job->analysing = true;
  const std::shared_ptr<DigestRound> round = job->round;
  const std::shared_ptr<bool> alive = alive_;
  const std::string key = job->key;
  const Decision held = *decision;
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kAnalysis, [round, held] { round->Reanalyse(std::max<int64_t>(held.age_ns, 1)); },
                  [this, alive, key, held](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    if (Job* job = Find(key)) {
                      job->analysing = false;
                      MakeIncident(job, &held);
                    }
                  }});
}

void CollectorCore::Decide(Job* job, const Decision& decision) {
  actions_->Decided(decision, job->name, RealNow());
  switch (decision.level) {
    case Level::kLate:
      Keep(&job->lates, decision.reason);
      // One rank that stops makes thousands of communicators late; every one is in the decision log.
      if (job->said_late_ns == 0 || now_ - job->said_late_ns > kSaySame) {
        actions_->Say(absl::StrCat("job ", job->name, ": late: ", decision.reason));
        job->said_late_ns = now_;
      }
      break;
    case Level::kHung:
      ++counters_.hung;
      actions_->Say(absl::StrCat("job ", job->name, ": hung (", decision.rule, "): ", decision.reason));
      break;
    case Level::kRecovered:
      ++counters_.recovered;
      job->said_late_ns = job->said_round_ns = 0;
      actions_->Say(absl::StrCat("job ", job->name, ": recovered after ", DurationText(decision.age_ns), ": ", decision.reason));
      break;
    case Level::kMoving:
      break;
  }
}

void CollectorCore::TickJob(Job* job) {
  // In what is over nobody can be late.
  const bool judged = job->lived && (!job->over || job->detector.level() == Level::kHung);
  if (judged) {
    for (const Decision& decision : job->detector.Tick(now_)) Decide(job, decision);
  }
  if (job->analysing) return;
  if (job->request != 0 && job->over && !job->by_hand) {
    job->request = 0;  // whom it asked speaks of the job no more
  } else if (job->request != 0) {
    if (RoundIsIn(*job)) FinishRound(job);
  } else if (job->dump_wanted) {
    job->dump_wanted = false;
    StartRound(job, true);
  } else if (judged && !job->over) {
    const Wish wish = job->detector.Wanted(now_);
    if (wish.digests) {
      StartRound(job, false);
    } else if (!wish.samples.empty()) {
      StartSamples(job, wish.samples);
    }
  }
  if (job->detector.level() != job->level) {
    job->level = job->detector.level();
    job->level_real_ns = RealNow();
    TellWatchers(job->key, nullptr);
  }
}

}  // namespace lockstep
