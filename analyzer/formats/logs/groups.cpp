// Watchdog lines: which rank, which group, how far.
#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/logs/ranks.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostTimeouts = 64;  // of one group on one rank

bool IsWhole(const std::string& group, const std::string& desc) {
  return desc == kWholeDesc || (group == kWholeName && desc.empty());
}

// Whether "[Rank 3]" of lines without a group is the rank in the job. Not if different processes print the same number.
class BareRanks {
 public:
  explicit BareRanks(const std::vector<FileFacts>& files) {
    std::map<int32_t, std::set<int32_t>> tasks, insides_of_task, of_file;
    for (const FileFacts& file : files) {
      for (const auto& said : file.watchdog) {
        if (!said.what.group.empty() || said.what.inside < 0) continue;
        if (said.who.task >= 0) {
          tasks[said.what.inside].insert(said.who.task);
          insides_of_task[said.who.task].insert(said.what.inside);
        }
        if (file.rank >= 0) of_file[said.what.inside].insert(file.rank);
      }
    }
    const auto several = [](const auto& entry) { return entry.second.size() > 1; };
    by_task_ = std::any_of(tasks.begin(), tasks.end(), several) &&
               std::none_of(insides_of_task.begin(), insides_of_task.end(), several);
    by_file_ = !by_task_ && std::any_of(of_file.begin(), of_file.end(), several);
  }

  int32_t Of(const Speaker& who, int32_t inside, int32_t file_rank) const {
    if (by_task_ && who.task >= 0) return who.task;
    if (by_file_ && file_rank >= 0) return file_rank;
    return inside;
  }

 private:
  bool by_task_ = false, by_file_ = false;
};

int32_t FirstKnown(std::initializer_list<int32_t> ranks) {
  for (const int32_t rank : ranks) {
    if (rank >= 0) return rank;
  }
  return -1;
}

// Labels that are no ranks (tasks, local ranks, files): whether they belong to all lines that name their rank, and to
// several.
class Labels {
 public:
  void Add(size_t kind, int32_t label, int32_t rank) {
    if (label < 0) return;
    wrong_[kind] |= label != rank;
    ranks_[kind].insert(rank);
  }
  bool AreRanks(size_t kind) const { return !wrong_[kind] && ranks_[kind].size() > 1; }

 private:
  bool wrong_[3] = {};
  std::set<int32_t> ranks_[3];
};

// One group in the lines of one rank.
struct Progress {
  int32_t inside = -1;
  int64_t enqueued = kUnknown, completed = kUnknown, failed_at = kUnknown;
  int64_t printed_ns = 0;
  std::string call_site;
  std::map<int64_t, const WatchdogLine*> timeouts;  // by number
};

struct OfRank {
  std::string path;
  std::map<std::string, Progress> groups;  // by name
  std::vector<const Said<WatchdogLine>*> bare;
};

class Watchdogs {
 public:
  Watchdogs(const std::vector<FileFacts>& files, Ranks* out) : files_(files), out_(*out), bare_ranks_(files) {}

  void Run() {
    for (const FileFacts& file : files_) {
      for (const auto& said : file.watchdog) Take(file, said);
    }
    for (const auto& [rank, of] : ranks_) {
      for (const auto* said : of.bare) bare_count_as_job_ &= said->what.inside < 0 || said->what.inside == rank;
    }
    for (auto& [rank, of] : ranks_) PlaceBare(rank, &of);
    ClaimCounted();
    for (auto& [rank, of] : ranks_) {
      if (of.groups.empty()) continue;
      Fill(rank, of);
      SetTaken(of, out_.Of(rank, of.path));
    }
    for (const FileFacts& file : files_) {
      const int32_t of_kind[] = {file.last_task, file.last_local, file.rank};
      for (size_t kind = 0; kind < 3; ++kind) {
        if (!labels_.AreRanks(kind)) continue;
        out_.world = std::max(out_.world, of_kind[kind] + 1);
        out_.sized = true;
      }
    }
    for (const int32_t rank : signalled_) {
      if (!ranks_.contains(rank))
        out_.Report(signal_path_,
                    absl::StrCat("rank ", rank,
                                 "'s watchdog found a timeout, as others say; its own lines "
                                 "are not here: add its log"),
                    rank);
    }
  }

 private:
  int32_t RankOf(const FileFacts& file, const Said<WatchdogLine>& said) const {
    const WatchdogLine& line = said.what;
    const Speaker& who = said.who;
    if (who.rank >= 0) return who.rank;
    if (line.group.empty())
      return FirstKnown({bare_ranks_.Of(who, line.inside, file.rank), who.task, file.rank, who.local});
    if (IsWhole(line.group, line.desc)) return FirstKnown({line.inside, who.task, file.rank, who.local});
    return FirstKnown({who.task, file.rank, who.local});
  }

  void Take(const FileFacts& file, const Said<WatchdogLine>& said) {
    const WatchdogLine& line = said.what;
    const int32_t rank = RankOf(file, said);
    if (line.signalled_by >= 0) {
      signalled_.insert(line.signalled_by);
      if (signal_path_.empty()) signal_path_ = file.path;
    }
    if (rank < 0) {
      if (unplaced_++ == 0)
        out_.Report(file.path, absl::StrCat("line ", said.number,
                                            ": nothing says of which rank it is; it and lines like it are not used"));
      return;
    }
    labels_.Add(0, said.who.task, rank);
    labels_.Add(1, said.who.local, rank);
    labels_.Add(2, file.rank, rank);
    OfRank& of = ranks_[rank];
    if (of.path.empty()) of.path = file.path;
    if (line.group.empty()) {
      of.bare.push_back(&said);
      return;
    }
    if (of.groups.size() >= kMostGroupsOfRank && !of.groups.contains(line.group)) {
      if (too_many_++ == 0)
        out_.Report(file.path, absl::StrCat("more than ", kMostGroupsOfRank, " process groups: the rest is not used"),
                    rank);
      return;
    }
    if (!line.desc.empty()) descs_.try_emplace(line.group, line.desc);
    Merge(line, &of.groups[line.group]);
  }

  static void Merge(const WatchdogLine& line, Progress* group) {
    if (line.inside >= 0) group->inside = line.inside;
    // Of several lines the last counts.
    if (line.enqueued != kUnknown) group->enqueued = line.enqueued;
    if (line.completed != kUnknown) group->completed = line.completed;
    if (line.failed_at >= 0) group->failed_at = line.failed_at;
    if (line.printed_ns > 0) group->printed_ns = line.printed_ns;
    if (!line.call_site.empty()) group->call_site = line.call_site;
    if (line.seq >= 0 && (group->timeouts.size() < kMostTimeouts || group->timeouts.contains(line.seq)))
      group->timeouts[line.seq] = &line;
  }

  // "[Rank 3] Watchdog caught" does not name the group; the next line with the same number does.
  void PlaceBare(int32_t rank, OfRank* of) {
    for (const auto* said : of->bare) {
      const WatchdogLine& line = said->what;
      Progress* found = nullptr;
      size_t fits = 0;
      for (auto& [name, group] : of->groups) {
        const bool same = line.seq >= 0 && group.failed_at == line.seq;
        const bool between = group.enqueued >= line.seq && group.completed < line.seq;
        if (!same && !between) continue;
        if (same || fits == 0) found = &group;
        if (same) {
          fits = 1;
          break;
        }
        ++fits;
      }
      if (found != nullptr && fits == 1) {
        const int32_t inside = found->inside;
        Merge(line, found);
        if (inside >= 0) found->inside = inside;
      } else if (of->groups.empty() && bare_count_as_job_) {
        // Older PyTorch never prints it. Ranks numbered like the job's are taken for the group of all.
        whole_[rank].push_back(&line);
      } else if (without_group_++ == 0) {
        out_.Report(
            of->path,
            absl::StrCat("line ", said->number, " does not say its process group; it and its like are not used"), rank);
      }
    }
    if (of->groups.empty()) {
      for (const WatchdogLine* line : whole_[rank]) Merge(*line, &of->groups[kWholeName]);
    }
  }

  // A group whose ranks count as the job does holds all up to its last.
  void ClaimCounted() {
    struct Use {
      bool counted = true;
      int32_t last = -1;
      size_t users = 0;
    };
    std::map<std::string, Use> uses;
    for (const auto& [rank, of] : ranks_) {
      for (const auto& [name, group] : of.groups) {
        Use& use = uses[name];
        use.counted &= group.inside == rank;
        use.last = std::max(use.last, rank);
        ++use.users;
      }
    }
    std::map<std::string, int> of_desc;
    for (const auto& [name, use] : uses) of_desc[DescOf(name)]++;
    constexpr size_t kSparse = 16;  // far more ranks than lines: numbers of another kind
    for (const auto& [name, use] : uses) {
      // The members of several groups of one description follow from each other.
      if (IsWhole(name, DescOf(name)) || !use.counted || use.users < 2 || of_desc[DescOf(name)] > 1) continue;
      if (static_cast<size_t>(use.last) >= use.users * kSparse) continue;
      counted_.insert(name);
      std::vector<int32_t>& members = claimed_[name];
      for (int32_t rank = 0; rank <= use.last; ++rank) members.push_back(rank);
    }
  }

  std::string DescOf(const std::string& name) const {
    const auto at = descs_.find(name);
    if (at != descs_.end()) return at->second;
    return name == kWholeName ? kWholeDesc : "";
  }

  void Fill(int32_t rank, const OfRank& of) {
    for (const auto& [name, group] : of.groups) {
      fr::FileData* const data = out_.Of(rank, of.path);
      data->rank.only_active = true;  // completed operations are not listed
      const uint32_t index = Ranks::GroupOf(data, name, DescOf(name));
      fr::UsedGroup& used = data->used[index];
      used.own_group_rank = group.inside;
      used.size_hint = group.inside + 1;
      // One rank's list is enough.
      used.may_have_more = IsWhole(name, DescOf(name)) || counted_.contains(name);
      if (auto claim = claimed_.extract(name); !claim.empty())
        data->claims.push_back({name, DescOf(name), std::move(claim.mapped())});
      AddOps(group, index, data);
    }
  }

  // When the rank's last line was printed, where the age of all that it is in is known.
  static void SetTaken(const OfRank& of, fr::FileData* data) {
    int64_t last = 0;
    for (const auto& [name, group] : of.groups) last = std::max(last, group.printed_ns);
    const std::vector<Op>& ops = data->rank.ops;
    const bool dated = !ops.empty() && std::all_of(ops.begin(), ops.end(), [last](const Op& op) {
      return op.enter_ns > 0 && op.enter_ns <= last;
    });
    if (dated) data->rank.captured_ns = last;
    for (Op& op : data->rank.ops) {
      if (!dated) op.enter_ns = 0;
    }
  }

  static void AddOps(const Progress& group, uint32_t index, fr::FileData* data) {
    int64_t issued = group.enqueued, completed = group.completed;
    bool p2p = false;
    constexpr int64_t kMostMs = int64_t{1} << 30;
    const auto add = [&](int64_t seq, const WatchdogLine* line) {
      Op op;
      op.membership = index;
      op.seq = seq;
      op.state = OpState::kIncomplete;
      op.retired = line != nullptr;  // the watchdog gave it up
      op.record_id = static_cast<int64_t>(data->rank.ops.size());
      op.index = op.record_id;
      const fr::OpName name = fr::ParseOpName(line == nullptr ? "" : line->op);
      op.kind = name.kind == ring::CallKind::kNone ? ring::CallKind::kOtherCollective : name.kind;
      if (op.kind == ring::CallKind::kOtherCollective)
        op.name = Ranks::Intern(data, line == nullptr || line->op.empty() ? kUntold : line->op);
      if (line != nullptr) {
        op.input_elements = line->elements_in;
        op.output_elements = line->elements_out;
        if (line->printed_ns > 0 && line->ran_ms > 0 && line->ran_ms < kMostMs)
          op.enter_ns = line->printed_ns - line->ran_ms * 1'000'000;
      }
      if (!group.call_site.empty()) op.call_site = Ranks::Intern(data, group.call_site);
      p2p |= ring::IsPointToPoint(op.kind);
      data->rank.ops.push_back(op);
      if (issued == kUnknown || issued < seq) issued = seq;
    };
    for (const auto& [seq, line] : group.timeouts) {
      if (seq > completed || completed == kUnknown) add(seq, line);
    }
    if (data->rank.ops.empty() || data->rank.ops.back().membership != index) {
      // The watchdog prints the counters of every group, the operation only where it timed out.
      if (group.failed_at > completed) {
        add(group.failed_at, nullptr);
      } else if (completed != kUnknown && issued > completed) {
        add(std::max<int64_t>(completed, 0) + 1, nullptr);
      }
    }
    fr::UsedGroup& used = data->used[index];
    fr::Progress& progress = used.progress;
    (p2p ? progress.p2p_issued : progress.issued) = issued;
    (p2p ? progress.p2p_completed : progress.completed) = completed;
    used.has_p2p = p2p;
    (p2p ? used.p2ps : used.collectives) = issued;
    for (const Op& op : data->rank.ops) used.collective_zero |= op.membership == index && op.seq == 0;
  }

 public:
  static constexpr char kUntold[] = "an operation that the log does not name";

 private:
  const std::vector<FileFacts>& files_;
  Ranks& out_;
  const BareRanks bare_ranks_;
  Labels labels_;
  std::map<int32_t, OfRank> ranks_;
  std::map<int32_t, std::vector<const WatchdogLine*>> whole_;
  absl::flat_hash_map<std::string, std::string> descs_;
  std::map<std::string, std::vector<int32_t>> claimed_;
  std::set<std::string> counted_;
  std::set<int32_t> signalled_;
  std::string signal_path_;
  int64_t unplaced_ = 0, without_group_ = 0, too_many_ = 0;
  bool bare_count_as_job_ = true;  // "[Rank 3]" of lines without a group is the job's rank 3
};

// An operation that no line names is the one that another rank names by the same number.
void NameUntold(Ranks* ranks) {
  std::map<std::tuple<std::string, std::string, int64_t>, const Op*> named;
  const auto key = [](const fr::FileData& data, const Op& op) {
    const fr::UsedGroup& group = data.used[op.membership];
    return std::make_tuple(group.name, group.desc, op.seq);
  };
  const auto untold = [](const fr::FileData& data, const Op& op) {
    return op.name != kNoIndex && data.strings[op.name] == Watchdogs::kUntold;
  };
  for (const auto& [rank, data] : ranks->ranks) {
    for (const Op& op : data.rank.ops) {
      if (!untold(data, op) && op.name == kNoIndex) named.try_emplace(key(data, op), &op);
    }
  }
  for (auto& [rank, data] : ranks->ranks) {
    for (Op& op : data.rank.ops) {
      if (!untold(data, op)) continue;
      const auto at = named.find(key(data, op));
      if (at == named.end() || ring::IsPointToPoint(at->second->kind)) continue;
      op.kind = at->second->kind;
      op.name = kNoIndex;
    }
  }
}

}  // namespace

void AddWatchdog(const std::vector<FileFacts>& files, Ranks* ranks) {
  Watchdogs(files, ranks).Run();
  NameUntold(ranks);
}

}  // namespace lockstep::logs
