#include "collector/service/core/rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/say.h"

namespace lockstep {
namespace {

// For this long after its first message, a job is not judged while members of its communicators are unknown. After a
// restart, agents report one by one, so the others would seem to be missing.
constexpr int64_t kGatherAfter = 10 * kSecond;
// A round of digests ends when all have arrived, or after the third limit. After the first limit, it ends if missing
// hosts were asked again and nothing arrived during the second limit (or a quarter of the time so far).
constexpr int64_t kDigestLeast = 2 * kSecond, kDigestQuiet = kSecond, kDigestMost = 15 * kSecond;
constexpr int64_t kSaySame = 30 * kSecond;
constexpr size_t kMostSampleRequests = 64;  // maximum number of requests whose answers are still used
// Limits for answers that wait while a round is being judged: their number and total size.
constexpr size_t kMostHeld = 4096, kMostHeldBytes = size_t{16} << 20;

bool IsStall(VerdictKind kind) { return kind == VERDICT_HUNG || kind == VERDICT_DESYNC || kind == VERDICT_CRASHED; }

}  // namespace

void Rounds::OnDigest(const wire::Received& received) {
  auto digest = std::make_shared<DigestEnvelope>();
  if (!shared_.Decode(received.message, digest.get())) return;
  const uint64_t request = digest->request();
  Job* job = nullptr;
  bool sample = false;
  for (const auto& [key, candidate] : jobs_.jobs()) {
    sample = candidate->sample_requests.count(request) != 0;
    if (!sample && (request == 0 || (candidate->full_request != request && candidate->again_request != request)))
      continue;
    job = candidate.get();
    break;
  }
  const std::string host = CleanUtf8(digest->host(), 256);
  if (job == nullptr || host.empty()) {
    if (shared_.Gave(request)) ++shared_.counters.digests_late;
    return;
  }
  JobHost* entry = nullptr;
  if (const auto known = job->hosts.find(host); known != job->hosts.end()) {
    entry = &known->second;
  } else if (job->hosts.size() < kMostHosts) {
    entry = &job->hosts[host];
    entry->heard_ns = shared_.now;
  }
  if (entry == nullptr) return;
  // Reads only the rank of each digest. A task decodes the rest.
  Ranks ranks;
  for (const std::string& packed : digest->ranks()) {
    const int32_t rank = RankOfDigest(packed);
    if (rank < 0 || rank > kMostRank) continue;
    ranks.Add(rank);
  }
  if (!entry->direct) {
    entry->address = {received.peer, received.message.header.route};
    entry->life = digest->job().life();  // the agent's number for jobs with one name
    entry->ranks.Unite(ranks);
  }
  sample ? OnSample(job, ranks, std::move(digest)) : OnFullDigest(job, host, ranks, std::move(digest));
}

void Rounds::OnFullDigest(Job* job, const std::string& host, const Ranks& ranks,
                          std::shared_ptr<DigestEnvelope> digest) {
  const uint64_t request = digest->request();
  if (job->request != job->full_request || job->analysing) {
    if (job->complete.count(host) != 0) return;
    ++shared_.counters.digests_late;
    // Repeats the round only if it will wait longer. Otherwise a slow fleet would be asked again and again.
    const int64_t took = std::min(shared_.now - job->full_asked_ns, kDigestMost);
    if (took <= job->patience_ns) return;
    job->patience_ns = std::min(took + took / 2, kDigestMost);
    job->gather_again = true;
    return;
  }
  ++shared_.counters.digests;
  job->digest_ns = std::max(job->digest_ns, shared_.now);
  if (job->complete.count(host) != 0) return;  // the digest was sent twice after a reconnection
  const uint32_t part = ++job->parts[{host, request}];
  if (!digest->refused().empty() || part >= std::max<uint32_t>(digest->parts(), 1)) job->complete.insert(host);
  if (job->again_request != 0 && job->got.Intersects(ranks)) {
    // The first answer did arrive, so ranks that are already in the round are skipped.
    google::protobuf::RepeatedPtrField<std::string> packed;
    packed.Swap(digest->mutable_ranks());
    for (std::string& one : packed) {
      if (!job->got.Contains(RankOfDigest(one))) digest->add_ranks(std::move(one));
    }
  }
  job->got.Unite(ranks);
  shared_.Work(CoreTask::Lane::kAnalysis,
               [round = job->round, digest = std::move(digest), now = shared_.now] { round->Add(*digest, now); });
}

// Accepts the answer to any sample request, because a slow agent may answer after the next request.
void Rounds::OnSample(Job* job, const Ranks& ranks, std::shared_ptr<DigestEnvelope> digest) {
  const int64_t asked_ns = job->sample_requests[digest->request()];
  if (job->analysing) {
    // While a round is being judged, it must not change, so samples wait.
    const size_t bytes = digest->ByteSizeLong();
    if (job->held.size() >= kMostHeld || job->held_bytes + bytes > kMostHeldBytes) {
      ++shared_.counters.digests_late;
      return;
    }
    ++shared_.counters.digests;
    job->held_bytes += bytes;
    job->held.push_back({std::move(digest), asked_ns, shared_.now});
    return;
  }
  if (job->round == nullptr) return;
  ++shared_.counters.digests;
  if (job->request != 0) {
    job->got.Unite(ranks);
    job->digest_ns = shared_.now;
  }
  shared_.Work(CoreTask::Lane::kAnalysis,
               [round = job->round, digest, asked_ns, now = shared_.now] { round->Sample(*digest, asked_ns, now); });
}

// If `ranks` is empty, all ranks are asked.
void Rounds::AskForDigests(const Job& job, uint64_t number, const Ranks& ranks) {
  CollectRequest request;
  request.set_request(number);
  *request.mutable_job() = job.identity;
  request.set_phase(CollectRequest::DIGEST);
  if (!ranks.empty()) ranks.To(request.mutable_ranks());
  jobs_.AskHosts(job, request, ranks);
}

void Rounds::Start(Job* job, bool by_hand) {
  ++shared_.counters.rounds;
  job->request = job->full_request = shared_.NextRequest();
  job->again_request = 0;
  job->samples = job->gather_again = false;
  job->by_hand = by_hand;
  job->asked_ns = job->full_asked_ns = job->digest_ns = shared_.now;
  job->wanted = job->All();
  job->got = Ranks();
  job->parts.clear();
  job->complete.clear();
  job->sample_requests.clear();
  job->held.clear();
  job->held_bytes = 0;
  job->round = std::make_shared<DigestRound>();
  AskForDigests(*job, job->request, {});
}

void Rounds::StartSamples(Job* job, const std::vector<int32_t>& ranks) {
  if (job->round == nullptr) return Start(job, false);
  job->request = shared_.NextRequest();
  job->samples = true;
  job->by_hand = false;
  job->asked_ns = job->digest_ns = shared_.now;
  job->wanted = Ranks::Of(ranks);
  job->got = Ranks();
  job->sample_requests[job->request] = shared_.now;
  if (job->sample_requests.size() > kMostSampleRequests) job->sample_requests.erase(job->sample_requests.begin());
  AskForDigests(*job, job->request, job->wanted);
}

bool Rounds::AllAreIn(const Job& job) {
  bool all = job.got.ContainsAll(job.wanted);
  if (job.samples) return all;
  for (const auto& [name, host] : job.hosts) {
    if (host.direct && !host.silent && job.complete.count(name) == 0) all = false;
    // Does not wait for an agent that is silent or has refused.
  }
  if (all) return true;
  Ranks left = job.wanted;
  left.Subtract(job.got);
  for (const auto& [name, host] : job.hosts) {
    if (!host.direct) continue;
    if (!host.silent && job.complete.count(name) == 0) return false;
    left.Subtract(host.seen.All());
  }
  for (const auto& [at, relay] : job.relays) {
    if (relay.silent) left.Subtract(relay.seen.All());
  }
  return left.empty();
}

bool Rounds::IsIn(Job* job) {
  const int64_t since = shared_.now - job->asked_ns;
  if (AllAreIn(*job)) {
    if (!job->samples) job->patience_ns = std::min(since + since / 2, kDigestMost);
    return true;
  }
  if (since >= kDigestMost) return true;
  const int64_t quiet = shared_.now - job->digest_ns;
  if (job->samples) return since >= kDigestLeast && quiet >= kDigestQuiet;
  // Until the first answer, all hosts may be slow. Repeating the request would slow them down further.
  if (job->got.empty() || since < std::max(kDigestLeast, job->patience_ns)) return false;
  if (quiet < std::max(kDigestQuiet, since / 4)) return false;
  if (job->again_request != 0) return true;
  AskOnceMore(job);
  return false;
}

// Repeats the request in case it or an answer was lost in a full queue. This also gives a slow agent more time.
void Rounds::AskOnceMore(Job* job) {
  job->again_request = shared_.NextRequest();
  job->digest_ns = shared_.now + kDigestQuiet;  // waits this long again for the answers
  Ranks missing = job->wanted;
  missing.Subtract(job->got);
  if (missing.empty()) return;
  AskForDigests(*job, job->again_request, missing);
}

void Rounds::Finish(Job* job) {
  job->analysing = true;
  job->digests_in_ns = shared_.now;
  const std::shared_ptr<DigestRound> round = job->round;
  if (job->samples) {
    return jobs_.WorkFor(
        job, CoreTask::Lane::kAnalysis, [round] { round->LookForRoot(); }, [this](Job* job) { Judge(job, false); });
  }
  DigestRound::Facts facts;
  facts.job = job->identity.job();
  facts.ranks_expected = job->world_size;
  facts.holes = job->holes = job->Holes(shared_.now);
  Ranks missing = job->All();
  missing.Subtract(job->got);
  if (!missing.empty()) facts.members = MembersWith(job->detector.progress(), missing);
  facts.clocks = jobs_.clocks();
  facts.asked_ns = job->asked_ns;
  facts.late_after_ns = shared_.options.limits.late_after;
  facts.dead_settle_ns = shared_.options.limits.dead_settle;
  facts.ends_follow_ns = job->detector.ends_follow_ns();
  auto flying = std::make_shared<absl::flat_hash_map<uint64_t, Flying>>();
  jobs_.WorkFor(
      job, CoreTask::Lane::kAnalysis,
      [round, facts, flying] {
        round->Analyse(facts);
        *flying = FlyingOf(round->bundle());
      },
      [this, flying](Job* job) {
        job->flying = std::move(*flying);
        job->flying_ns = job->asked_ns;
        AfterAnalysis(job);
      });
}

void Rounds::AfterAnalysis(Job* job) {
  job->analysing = false;
  job->request = 0;
  job->world_size = std::max(job->world_size, job->round->bundle().ranks_expected);
  const std::string cause = ProvenCause(job->round->verdict());
  const bool known_now = !cause.empty() && !job->said_cause;
  if (job->said_round_ns == 0 || job->by_hand || known_now || shared_.now - job->said_round_ns > kSaySame) {
    job->said_round_ns = shared_.now;
    job->said_cause = !cause.empty();
    shared_.Say(absl::StrCat("job ", job->name, ": digests of ", CountText(job->round->ranks()), " of ",
                             CountText(static_cast<uint64_t>(std::max(0, job->world_size))), " ranks in ",
                             DurationText(job->digests_in_ns - job->asked_ns), ", read in ",
                             DurationText(shared_.now - job->digests_in_ns), ": ",
                             cause.empty() ? "the cause is not known yet" : cause));
  }
  if (job->by_hand) {
    job->by_hand = false;
    return incidents_.Make(job, nullptr);
  }
  Judge(job, true);
}

void Rounds::Judge(Job* job, bool all_ranks) {
  job->analysing = false;
  job->request = 0;
  std::vector<Job::HeldSample> held;
  held.swap(job->held);
  job->held_bytes = 0;
  if (job->detector.level() == Level::kHung) return;
  const Decision decision = job->detector.Judge(shared_.now, job->round->root(), all_ranks);
  Decide(job, decision);
  if (decision.hung()) return Declare(job, decision);
  for (Job::HeldSample& sample : held) {
    shared_.Work(CoreTask::Lane::kAnalysis,
                 [round = job->round, sample] { round->Sample(*sample.digest, sample.asked_ns, sample.received_ns); });
  }
}

// Returns whether an earlier process of this collector declared this hang, and forgets the earlier declaration. The job
// may have been stuck all the time, and users must be notified only once.
bool Rounds::WasDeclared(Job* job, const Decision& decision) {
  const std::string identity = job->identity.SerializeAsString();
  for (auto before = incidents_.book().before.begin(); before != incidents_.book().before.end(); ++before) {
    if (before->desync_comm != 0 || before->identity.SerializeAsString() != identity ||
        !before->Is(job->round->verdict(), shared_.RealNow() - decision.age_ns))
      continue;
    shared_.Say(absl::StrCat("job ", job->name, ": already declared: ", before->folder));
    incidents_.book().before.erase(before);
    return true;
  }
  return false;
}

void Rounds::Declare(Job* job, const Decision& decision) {
  if (WasDeclared(job, decision)) return;
  if (IsStall(job->round->verdict().verdict())) return incidents_.Make(job, &decision);
  // According to the digests alone, the job may still move, but the detector knows more.
  job->analysing = true;
  const std::shared_ptr<DigestRound> round = job->round;
  const Decision held = decision;
  jobs_.WorkFor(
      job, CoreTask::Lane::kAnalysis, [round, held] { round->Reanalyse(std::max<int64_t>(held.age_ns, 1)); },
      [this, held](Job* job) {
        job->analysing = false;
        incidents_.Make(job, &held);
      });
}

void Rounds::Decide(Job* job, const Decision& decision) {
  shared_.actions->Decided(decision, job->name, shared_.RealNow());
  switch (decision.level) {
    case Level::kLate:
      Keep(&job->lates, {shared_.now, LateText(decision)});
      // A single rank that stops makes thousands of communicators late. The decision log lists all of them.
      if (job->said_late_ns == 0 || shared_.now - job->said_late_ns > kSaySame) {
        // Missing members are most likely victims themselves, so no rank is blamed before the cause is known.
        shared_.Say(absl::StrCat("job ", job->name, ": late: ", OperationText(decision), " is in flight for ",
                                 DurationText(decision.age_ns), " (limit ", DurationText(decision.limit_ns),
                                 "); looking for the cause"));
        job->said_late_ns = shared_.now;
      }
      break;
    case Level::kHung:
      ++shared_.counters.hung;
      shared_.Say(absl::StrCat("job ", job->name, ": hung (", decision.rule, "): ", decision.reason));
      break;
    case Level::kRecovered:
      ++shared_.counters.recovered;
      job->said_late_ns = job->said_round_ns = 0;
      job->said_cause = false;
      if (decision.rule == "restart") {
        ++job->restarts_inside;
        job->restarted_real_ns = shared_.RealNow();
      }
      shared_.Say(
          absl::StrCat("job ", job->name, ": recovered after ", DurationText(decision.age_ns), ": ", decision.reason));
      break;
    case Level::kMoving: break;
  }
}

void Rounds::Tick(Job* job) {
  // A job that is over has no late ranks.
  const bool judged = job->lived && (!job->over || job->detector.level() == Level::kHung);
  if (judged) {
    for (const Decision& decision : job->detector.Tick(shared_.now)) Decide(job, decision);
  }
  if (job->analysing) return;
  if (job->request != 0 && job->over && !job->by_hand) {
    job->request = 0;  // the host that was asked no longer reports the job
    if (!job->samples) job->round = nullptr;
  } else if (job->request != 0) {
    if (IsIn(job)) Finish(job);
  } else if (job->dump_wanted) {
    job->dump_wanted = false;
    Start(job, true);
  } else if (judged && !job->over) {
    if (job->gather_again) job->detector.GatherAgain();
    job->gather_again = false;
    const Wish wish = job->detector.Wanted(shared_.now);
    if (wish.digests) {
      const bool all_here = shared_.now - job->met_ns >= kGatherAfter || !job->MembersUnknown();
      if (all_here) Start(job, false);
    } else if (!wish.samples.empty()) {
      StartSamples(job, wish.samples);
    }
  }
  if (job->detector.level() != job->level) {
    job->level = job->detector.level();
    job->level_real_ns = shared_.RealNow();
    clients_.Tell(job->key, nullptr);
  }
}

}  // namespace lockstep
