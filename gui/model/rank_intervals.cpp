#include "gui/model/rank_intervals.h"

#include <algorithm>

namespace lockstep::gui {

RankIntervals RankIntervals::Of(int32_t first, int32_t last) {
  RankIntervals out;
  if (first <= last) out.runs_.emplace_back(first, last);
  return out;
}

RankIntervals RankIntervals::Of(std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  RankIntervals out;
  for (const int32_t rank : ranks) {
    if (!out.runs_.empty() && rank <= int64_t{out.runs_.back().second} + 1) {
      out.runs_.back().second = rank;
    } else {
      out.runs_.emplace_back(rank, rank);
    }
  }
  return out;
}

RankIntervals RankIntervals::Of(const RankRuns& runs) {
  RankIntervals out;
  for (int i = 0; i + 1 < runs.bounds_size(); i += 2) {
    const int32_t first = runs.bounds(i), last = runs.bounds(i + 1);
    if (first > last) continue;
    if (out.runs_.empty() || first > int64_t{out.runs_.back().second} + 1) {
      out.runs_.emplace_back(first, last);
    } else {
      out.Add(first, last);
    }
  }
  return out;
}

int64_t RankIntervals::size() const {
  int64_t sum = 0;
  for (const auto& [first, last] : runs_) sum += int64_t{last} - first + 1;
  return sum;
}

bool RankIntervals::Contains(int32_t rank) const { return Intersects(rank, rank); }

bool RankIntervals::Intersects(int32_t first, int32_t last) const {
  const auto it = std::lower_bound(runs_.begin(), runs_.end(), first,
                                   [](const auto& run, int32_t value) { return run.second < value; });
  return it != runs_.end() && it->first <= last;
}

void RankIntervals::Add(int32_t first, int32_t last) {
  if (first > last) return;
  std::vector<std::pair<int32_t, int32_t>> out;
  out.reserve(runs_.size() + 1);
  bool placed = false;
  for (const auto& run : runs_) {
    if (int64_t{run.second} + 1 < first) {
      out.push_back(run);
    } else if (run.first > int64_t{last} + 1) {
      if (!placed) out.emplace_back(first, last);
      placed = true;
      out.push_back(run);
    } else {
      first = std::min(first, run.first);
      last = std::max(last, run.second);
    }
  }
  if (!placed) out.emplace_back(first, last);
  runs_ = std::move(out);
}

RankIntervals RankIntervals::Union(const RankIntervals& other) const {
  std::vector<std::pair<int32_t, int32_t>> all(runs_);
  all.insert(all.end(), other.runs_.begin(), other.runs_.end());
  std::sort(all.begin(), all.end());
  RankIntervals out;
  for (const auto& run : all) {
    if (!out.runs_.empty() && run.first <= int64_t{out.runs_.back().second} + 1) {
      out.runs_.back().second = std::max(out.runs_.back().second, run.second);
    } else {
      out.runs_.push_back(run);
    }
  }
  return out;
}

RankIntervals RankIntervals::Intersection(const RankIntervals& other) const {
  RankIntervals out;
  size_t a = 0, b = 0;
  while (a < runs_.size() && b < other.runs_.size()) {
    const int32_t first = std::max(runs_[a].first, other.runs_[b].first),
                  last = std::min(runs_[a].second, other.runs_[b].second);
    if (first <= last) out.runs_.emplace_back(first, last);
    (runs_[a].second < other.runs_[b].second ? a : b)++;
  }
  return out;
}

RankIntervals RankIntervals::Minus(const RankIntervals& other) const {
  RankIntervals out;
  for (const auto& [begin, end] : runs_) {
    int64_t first = begin;
    for (auto it = std::lower_bound(other.runs_.begin(), other.runs_.end(), begin,
                                    [](const auto&run, int32_t v) { return run.second < v; });
         it != other.runs_.end() && it->first <= end; ++it) {
      if (it->first > first) out.runs_.emplace_back(static_cast<int32_t>(first), it->first - 1);
      first = int64_t{it->second} + 1;
    }
    if (first <= end) out.runs_.emplace_back(static_cast<int32_t>(first), end);
  }
  return out;
}

std::vector<int32_t> RankIntervals::Ranks(size_t limit) const {
  std::vector<int32_t> out;
  for (const auto& [first, last] : runs_) {
    for (int64_t rank = first; rank <= last && out.size() < limit; ++rank) out.push_back(static_cast<int32_t>(rank));
  }
  return out;
}

QString RankIntervals::Text(int columns) const {
  QString out;
  for (const auto& [first, last] : runs_) {
    const QString next = first == last ? QString::number(first) : QString("%1-%2").arg(first).arg(last);
    if (out.size() + next.size() > columns) return QString("%1, .. (%2 ranks)").arg(out).arg(size());
    out += (out.isEmpty() ? "" : ", ") + next;
  }
  return out;
}

}  // namespace lockstep::gui
