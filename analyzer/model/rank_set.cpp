#include "analyzer/model/rank_set.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/view.pb.h"
#include "proto/wire.pb.h"

namespace lockstep {
namespace {

// Appends a run that starts at or after the start of the last one.
void Append(Ranks::Run run, std::vector<Ranks::Run>* runs) {
  if (!runs->empty() && run.first <= int64_t{runs->back().last} + 1) {
    runs->back().last = std::max(runs->back().last, run.last);
  } else {
    runs->push_back(run);
  }
}

}  // namespace

Ranks::Ranks(std::initializer_list<int32_t> ranks) { *this = Of(std::vector<int32_t>(ranks)); }

Ranks Ranks::Of(std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  Ranks set;
  for (const int32_t rank : ranks) {
    if (rank >= 0 && rank <= kMostRank) Append({rank, rank}, &set.runs_);
  }
  return set;
}

Ranks Ranks::OfRuns(std::vector<Run> runs) {
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
  Ranks set;
  for (const Run& run : runs) Append(run, &set.runs_);
  return set;
}

Ranks Ranks::Between(int32_t first, int32_t last) {
  Ranks set;
  set.AddRun(first, last);
  return set;
}

Ranks Ranks::Of(const RankRuns& runs) {
  Ranks set;
  for (int i = 0; i + 1 < runs.bounds_size(); i += 2) set.AddRun(runs.bounds(i), runs.bounds(i + 1));
  return set;
}

absl::StatusOr<Ranks> Ranks::From(const RankSet& message) {
  const int count = message.first_size();
  if (count != message.last_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank set has ", count, " first ranks and ", message.last_size(), " last ranks"));
  }
  if (static_cast<size_t>(count) > kMostRankRuns) {
    return absl::InvalidArgumentError(absl::StrCat("rank set has ", count, " runs, more than ", kMostRankRuns));
  }
  Ranks set;
  set.runs_.reserve(static_cast<size_t>(count));
  int32_t before = -1;
  for (int i = 0; i < count; i++) {
    const Run run{message.first(i), message.last(i)};
    if (run.first <= before || run.last < run.first || run.last > kMostRank) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank set's run ", i, " is ", run.first, " to ", run.last, " after ", before));
    }
    before = run.last;
    Append(run, &set.runs_);
  }
  return set;
}

Ranks Ranks::FromOrNone(const RankSet& message) {
  absl::StatusOr<Ranks> ranks = From(message);
  return ranks.ok() ? *std::move(ranks) : Ranks();
}

void Ranks::To(RankSet* message) const {
  message->Clear();
  message->mutable_first()->Reserve(static_cast<int>(runs_.size()));
  message->mutable_last()->Reserve(static_cast<int>(runs_.size()));
  for (const Run& run : runs_) {
    message->add_first(run.first);
    message->add_last(run.last);
  }
}

void Ranks::AddRun(int32_t first, int32_t last) {
  first = std::max(first, 0);
  last = std::min(last, kMostRank);
  if (last < first) return;
  // Joins the runs that the new run overlaps or touches.
  const auto begin =
      std::lower_bound(runs_.begin(), runs_.end(), first, [](const Run& run, int32_t at) { return run.last < at - 1; });
  auto end = begin;
  Run whole{first, last};
  for (; end != runs_.end() && end->first <= last + 1; ++end) {
    whole.first = std::min(whole.first, end->first);
    whole.last = std::max(whole.last, end->last);
  }
  if (begin == end) {
    runs_.insert(begin, whole);
  } else {
    *begin = whole;
    runs_.erase(begin + 1, end);
  }
}

void Ranks::Unite(const Ranks& other) {
  if (other.runs_.empty() || this == &other) return;
  if (runs_.empty()) {
    runs_ = other.runs_;
    return;
  }
  // Small sets are inserted without copying this set: thousands of hosts' sets are added to one cluster's set.
  constexpr size_t kFew = 8;
  if (other.runs_.size() <= kFew) {
    for (const Run& run : other.runs_) AddRun(run.first, run.last);
    return;
  }
  std::vector<Run> united;
  united.reserve(runs_.size() + other.runs_.size());
  auto a = runs_.begin();
  auto b = other.runs_.begin();
  while (a != runs_.end() || b != other.runs_.end()) {
    const bool from_a = b == other.runs_.end() || (a != runs_.end() && a->first <= b->first);
    Append(from_a ? *a++ : *b++, &united);
  }
  runs_ = std::move(united);
}

void Ranks::Subtract(const Ranks& other) {
  std::vector<Run> left;
  auto b = other.runs_.begin();
  for (Run run : runs_) {
    while (b != other.runs_.end() && b->last < run.first) ++b;
    auto hole = b;
    for (; hole != other.runs_.end() && hole->first <= run.last && run.first <= run.last; ++hole) {
      if (hole->first > run.first) left.push_back({run.first, hole->first - 1});
      run.first = hole->last + 1;
    }
    if (run.first <= run.last) left.push_back(run);
  }
  runs_ = std::move(left);
}

Ranks Ranks::Common(const Ranks& other) const {
  Ranks common;
  auto a = runs_.begin();
  auto b = other.runs_.begin();
  while (a != runs_.end() && b != other.runs_.end()) {
    const Run both{std::max(a->first, b->first), std::min(a->last, b->last)};
    if (both.first <= both.last) Append(both, &common.runs_);
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  return common;
}

bool Ranks::Contains(int32_t rank) const {
  const auto run =
      std::lower_bound(runs_.begin(), runs_.end(), rank, [](const Run& r, int32_t at) { return r.last < at; });
  return run != runs_.end() && run->first <= rank;
}

bool Ranks::ContainsAll(const Ranks& other) const {
  return std::all_of(other.runs_.begin(), other.runs_.end(), [&](const Run& wanted) {
    const auto run = std::lower_bound(runs_.begin(), runs_.end(), wanted.first,
                                      [](const Run& r, int32_t at) { return r.last < at; });
    return run != runs_.end() && run->first <= wanted.first && wanted.last <= run->last;
  });
}

bool Ranks::Intersects(const Ranks& other) const {
  auto a = runs_.begin();
  auto b = other.runs_.begin();
  while (a != runs_.end() && b != other.runs_.end()) {
    if (std::max(a->first, b->first) <= std::min(a->last, b->last)) return true;
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  return false;
}

size_t Ranks::size() const {
  size_t ranks = 0;
  for (const Run& run : runs_) ranks += static_cast<size_t>(run.last - run.first) + 1;
  return ranks;
}

std::vector<int32_t> Ranks::List(size_t most) const {
  std::vector<int32_t> list;
  list.reserve(std::min(most, size()));
  for (const Run& run : runs_) {
    for (int32_t rank = run.first; rank <= run.last && list.size() < most; rank++) list.push_back(rank);
  }
  return list;
}

std::string Ranks::Text(size_t most_runs) const {
  std::string text;
  size_t said = 0;
  for (size_t i = 0; i < runs_.size() && i < most_runs; i++) {
    const Run& run = runs_[i];
    absl::StrAppend(&text, i == 0 ? "" : ", ", run.first);
    if (run.last > run.first) absl::StrAppend(&text, run.last == run.first + 1 ? ", " : "-", run.last);
    said += static_cast<size_t>(run.last - run.first) + 1;
  }
  if (said < size()) absl::StrAppend(&text, " and ", size() - said, " more");
  return text;
}

}  // namespace lockstep
