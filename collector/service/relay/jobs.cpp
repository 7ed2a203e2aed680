// The part of Relay that separates jobs with the same name, and tracks which of them still have reporters.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collector/service/relay/relay.h"

namespace lockstep {
namespace {

constexpr size_t kMostEarly = 4096;  // maximum number of small messages: late reports and exits
constexpr size_t kMostEarlyBytes = 16384;
constexpr size_t kMostJobs = 1024;

std::string BaseOf(JobIdentity identity) {
  identity.clear_life();
  return identity.SerializeAsString();
}

std::string ChildKey(uint32_t number, uint32_t life) { return absl::StrCat(number, "/", life); }

}  // namespace

// Finds the child's job among jobs with the same name. Asks children that were assigned to the wrong job to report
// everything again.
void Relay::Sort(Child* child, const Heartbeat& beat, const std::string& key) {
  ChildJob& said = child->jobs[key];
  std::vector<uint64_t> comms;
  for (const CommunicatorBeat& moved : beat.moved()) {
    if (moved.size() >= 0) comms.push_back(moved.id());
  }
  const std::string base = BaseOf(beat.job());
  std::vector<Namesakes::Move> moves;
  const int life = namesakes_[base].Report(ChildKey(child->number, beat.job().life()), said.facts.alive,
                                           said.facts.ended, comms, &moves);
  const auto put = [&](Child* one, ChildJob* entry, int number) {
    JobIdentity identity = beat.job();
    identity.set_life(static_cast<uint32_t>(number));
    const std::string ours = number == Namesakes::kUndecided ? "" : identity.SerializeAsString();
    if (entry->job == ours) return;
    const bool moved = !entry->job.empty();
    if (const auto before = jobs_.find(entry->job); before != jobs_.end()) before->second->progress.Forget(one->number);
    entry->job = ours;
    if (ours.empty()) return;
    if (jobs_.count(ours) == 0) {
      if (jobs_.size() >= kMostJobs) {
        counters_.malformed++;
        entry->job.clear();
        return;
      }
      jobs_[ours] = std::make_unique<Job>();
      jobs_[ours]->identity = identity;
    }
    if (moved && upstream_instance_ != 0) WelcomeChild(one->peer);
  };
  put(child, &said, life);
  for (const Namesakes::Move& move : moves) {
    for (auto& [peer, other] : children_) {
      for (auto& [other_key, entry] : other.jobs) {
        JobIdentity identity;
        if (&entry == &said || !identity.ParseFromString(other_key) ||
            ChildKey(other.number, identity.life()) != move.sender)
          continue;
        if (BaseOf(identity) == base) put(&other, &entry, move.to);
      }
    }
  }
}

// Sets *ours to this relay's identity for the child's job `said`. If it is unknown, holds the message and returns
// false.
bool Relay::Named(const wire::Received& received, const JobIdentity& said, JobIdentity* ours) {
  *ours = said;
  const Child* child = ChildOf(received.peer);
  const auto entry =
      child == nullptr ? std::map<std::string, ChildJob>::const_iterator() : child->jobs.find(said.SerializeAsString());
  if (child != nullptr && entry != child->jobs.end() && !entry->second.job.empty()) {
    ours->ParseFromString(entry->second.job);
    return true;
  }
  if (early_.size() < kMostEarly && received.message.body.size() <= kMostEarlyBytes) early_.push_back({received, now_});
  return false;
}

void Relay::TakeEarly(uint64_t peer) {
  std::deque<Early> held;
  held.swap(early_);
  for (Early& early : held) {
    if (early.received.peer != peer) {
      early_.push_back(std::move(early));
    } else if (now_ - early.at_ns < kEarlyExpires) {
      const size_t before = early_.size();
      const int64_t at = early.at_ns;
      FromChild(std::move(early.received));
      if (early_.size() > before) early_.back().at_ns = at;
    }
  }
}

// The child no longer reports the job. If no other child does, reports upstream that the job is over.
void Relay::Leave(Child* child, const std::string& said) {
  const auto entry = child->jobs.find(said);
  if (entry == child->jobs.end()) return;
  const std::string key = entry->second.job;
  Unsort(*child, said);
  child->jobs.erase(entry);
  const auto job = jobs_.find(key);
  if (job == jobs_.end()) return;
  job->second->progress.Forget(child->number);
  if (HasReporter(key)) return;
  ReportOver(job->second->identity);
  jobs_.erase(job);
}

void Relay::Unsort(const Child& child, const std::string& said) {
  JobIdentity identity;
  if (!identity.ParseFromString(said)) return;
  const auto sorted = namesakes_.find(BaseOf(identity));
  if (sorted == namesakes_.end()) return;
  sorted->second.Leave(ChildKey(child.number, identity.life()));
  if (sorted->second.empty()) namesakes_.erase(sorted);
}

bool Relay::HasReporter(const std::string& job) const {
  return std::any_of(children_.begin(), children_.end(), [&](const auto& child) {
    return std::any_of(child.second.jobs.begin(), child.second.jobs.end(),
                       [&](const auto& said) { return said.second.job == job; });
  });
}

void Relay::ReportOver(const JobIdentity& job) {
  std::erase_if(
      late_, [&](const auto& late) { return late.second.report.job().SerializeAsString() == job.SerializeAsString(); });
  if (!welcomed_) return;
  Heartbeat beat;
  *beat.mutable_job() = job;
  beat.set_over(true);
  upstream_->Send(wire::Type::kHeartbeat, beat).IgnoreError();
}

// Forgets jobs that only silent children reported. A new collector need not know them.
void Relay::ForgetSilentJobs() {
  std::set<std::string> lived;
  for (const auto& [peer, child] : children_) {
    if (child.silent) continue;
    for (const auto& [key, said] : child.jobs) lived.insert(said.job);
  }
  for (auto& [peer, child] : children_) {
    std::erase_if(child.jobs, [&, &child = child](const auto& said) {
      if (lived.count(said.second.job) != 0) return false;
      Unsort(child, said.first);
      return true;
    });
  }
  std::erase_if(jobs_, [&](const auto& job) { return lived.count(job.first) == 0; });
}

// Call when the child becomes silent: its ranks may have been started elsewhere.
void Relay::MarkSilent(const Child& child) {
  for (const auto& [said, entry] : child.jobs) {
    JobIdentity identity;
    if (!identity.ParseFromString(said)) continue;
    if (const auto sorted = namesakes_.find(BaseOf(identity)); sorted != namesakes_.end())
      sorted->second.Silent(ChildKey(child.number, identity.life()));
  }
}

}  // namespace lockstep
