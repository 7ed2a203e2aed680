#include "collector/common/namesakes.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr int kMostAsked = 3;
constexpr size_t kMostComms = size_t{1} << 18;  // maximum per sender

}  // namespace

int Namesakes::Report(const std::string& name, const Ranks& alive, const Ranks& ended, absl::Span<const uint64_t> comms,
                      std::vector<Move>* moves) {
  const auto [entry, fresh] = senders_.try_emplace(name);
  Sender& sender = entry->second;
  if (fresh) {
    sender.order = ++orders_;
    sender.node = static_cast<uint32_t>(up_.size());
    up_.push_back(sender.node);
  }
  bool more = false;
  for (const uint64_t comm : comms) {
    if (sender.comms.size() >= kMostComms || !sender.comms.insert(comm).second) continue;
    more = true;
    Join(sender.node, comm);
  }
  Ranks lives = alive, ends = ended;
  lives.Subtract(sender.alive);
  ends.Subtract(sender.ended);
  ends.Subtract(sender.alive);
  sender.alive = alive;
  sender.ended = ended;
  // Regroups: a rank in two places may separate senders, and a new communicator may join them.
  bool sort = several_ && (fresh || more || sender.job == kUndecided || !lives.empty() || !ends.empty());
  if (!sort && (lives.Intersects(alive_) || lives.Intersects(ended_) || ends.Intersects(alive_))) {
    Gather();  // the sets still contain ranks that have left
    sort = true;
  }
  alive_.Unite(lives);
  ended_.Unite(ends);
  if (sort) {
    Sort(moves);
  } else if (fresh) {
    sender.job = only_job_;
    jobs_ = std::max(jobs_, only_job_ + 1);
  }
  return sender.job;
}

void Namesakes::Silent(const std::string& name) {
  if (const auto found = senders_.find(name); found != senders_.end()) found->second.alive = Ranks();
}

void Namesakes::Leave(const std::string& name) {
  rejoin_ |= senders_.erase(name) != 0;
  if (!senders_.empty()) return;
  const int jobs = jobs_;
  *this = Namesakes();
  jobs_ = only_job_ = jobs;
}

uint32_t Namesakes::Top(uint32_t node) {
  while (up_[node] != node) node = up_[node] = up_[up_[node]];
  return node;
}

void Namesakes::Join(uint32_t node, uint64_t comm) {
  const auto [entry, fresh] = first_.try_emplace(comm, node);
  const uint32_t a = Top(node), b = Top(entry->second);
  if (!fresh && a != b) up_[std::max(a, b)] = std::min(a, b);
}

void Namesakes::RejoinAll() {
  rejoin_ = false;
  up_.clear();
  first_.clear();
  for (auto& [name, sender] : senders_) {
    sender.node = static_cast<uint32_t>(up_.size());
    up_.push_back(sender.node);
    for (const uint64_t comm : sender.comms) Join(sender.node, comm);
  }
}

int Namesakes::Of(const std::string& name) const {
  const auto found = senders_.find(name);
  return found == senders_.end() ? kUndecided : found->second.job;
}

void Namesakes::Gather() {
  alive_ = ended_ = Ranks();
  for (const auto& [name, sender] : senders_) {
    alive_.Unite(sender.alive);
    ended_.Unite(sender.ended);
  }
}

void Namesakes::Sort(std::vector<Move>* moves) {
  std::vector<std::pair<const std::string*, Sender*>> senders;
  for (auto& [name, sender] : senders_) senders.emplace_back(&name, &sender);
  std::sort(senders.begin(), senders.end(),
            [](const auto& a, const auto& b) { return a.second->order < b.second->order; });
  if (rejoin_) RejoinAll();
  struct Part {
    size_t first = 0;
    std::vector<size_t> members;
    Ranks alive, ended;
    bool named = false;  // a sender of the part has a communicator
    int job = kUndecided;
  };
  std::vector<Part> parts;
  absl::flat_hash_map<uint32_t, size_t> part_of;
  for (size_t i = 0; i < senders.size(); ++i) {
    const Sender& sender = *senders[i].second;
    const auto [entry, fresh] = part_of.try_emplace(Top(sender.node), parts.size());
    if (fresh) parts.push_back({i, {}, {}, {}, false, kUndecided});
    Part& part = parts[entry->second];
    part.members.push_back(i);
    part.alive.Unite(sender.alive);
    part.ended.Unite(sender.ended);
    part.named |= !sender.comms.empty();
    // If senders of several jobs share communicators, the lowest job number is kept.
    if (sender.job != kUndecided && (part.job == kUndecided || sender.job < part.job)) part.job = sender.job;
  }
  // Parts with a job come first, then the others in the order of arrival, so that no part moves needlessly.
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    if ((a.job == kUndecided) != (b.job == kUndecided)) return b.job == kUndecided;
    return a.job != b.job ? a.job < b.job : a.first < b.first;
  });
  struct Taken {
    Ranks alive, ended;
    bool any = false;
  };
  std::map<int, Taken> jobs;
  for (int job = 0; job < jobs_; ++job) jobs[job];
  const auto fits = [&](const Part& part, const Taken& job) {
    if (part.alive.Intersects(job.alive)) return false;
    // The whole job had ended, and this part has one of its ranks alive.
    if (job.alive.empty() && part.alive.Intersects(job.ended)) return false;
    return !part.alive.empty() || !part.ended.Intersects(job.alive);
  };
  bool undecided = false;
  for (Part& part : parts) {
    int job = part.job != kUndecided && fits(part, jobs[part.job]) ? part.job : kUndecided;
    if (job == kUndecided && (part.named || part.job == kUndecided)) {
      // Skips jobs that have no senders any more.
      for (auto& [number, taken] : jobs) {
        if (job == kUndecided && number != part.job && taken.any && fits(part, taken)) job = number;
      }
    }
    if (job == kUndecided && !part.named) {
      job = part.job;  // no communicator is known, so the part stays in its job
      if (job == kUndecided && ++senders[part.first].second->asked <= kMostAsked) {
        undecided = true;
        continue;
      }
    }
    if (job == kUndecided) job = jobs_++;
    Taken& taken = jobs[job];
    taken.any = true;
    taken.alive.Unite(part.alive);
    taken.ended.Unite(part.ended);
    for (const size_t i : part.members) {
      Sender& sender = *senders[i].second;
      if (sender.job == job) continue;
      if (sender.job != kUndecided && moves != nullptr) moves->push_back({*senders[i].first, sender.job, job});
      sender.job = job;
    }
  }
  several_ = undecided || std::any_of(senders.begin(), senders.end(),
                                      [&](const auto& s) { return s.second->job != senders[0].second->job; });
  if (!several_) only_job_ = senders[0].second->job;
}

}  // namespace lockstep
