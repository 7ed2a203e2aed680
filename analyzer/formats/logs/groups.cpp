// Reads watchdog lines: which rank, which group, and how far it got.
#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/logs/ranks.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostMs = int64_t{1} << 30, kNsInMs = 1'000'000;
constexpr size_t kMostTimeouts = 64;  // limit for one group on one rank

bool IsWhole(const std::string& group, const std::string& desc) {
  return desc == kWholeDesc || (group == kWholeName && desc.empty());
}

// Decides whether "[Rank 3]" in lines without a group is a rank of the job. The number is not a rank of the job if
// different processes print the same number.
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

// Decides whether labels (tasks, local ranks, files) are the ranks: all lines that have both a label and a rank must
// agree, for several ranks.
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

// One group in one rank's lines.
struct Progress {
  int32_t inside = -1;
  bool numbered = false;  // see WatchdogLine
  int64_t enqueued = kUnknown, completed = kUnknown, failed_at = kUnknown;
  int64_t printed_ns = 0;
  std::string call_site;
  std::map<int64_t, const WatchdogLine*> timeouts;  // indexed by sequence number
};

struct OfRank {
  std::string path;
  bool timed_out = false;
  std::map<std::string, Progress> groups;  // indexed by name
  std::vector<const Said<WatchdogLine>*> bare;
};

class Watchdogs {
 public:
  Watchdogs(const std::vector<FileFacts>& files, Ranks* out) : files_(files), out_(*out), bare_ranks_(files) {}

  void Run() {
    for (const FileFacts& file : files_) {
      for (const auto& said : file.watchdog) speakers_known_ |= said.who.rank >= 0;
      for (const FailedWorker& worker : file.failed)
        more_hosts_ |= worker.rank >= 0 && worker.local >= 0 && worker.local != worker.rank;
    }
    const int64_t newest_issue = NewestIssue();
    for (const FileFacts& file : files_) {
      for (const auto& said : file.watchdog) {
        if (said.what.printed_ns == 0 || said.what.printed_ns >= newest_issue) Take(file, said);
      }
    }
    DropNumbered();
    DropIdle();
    // Ranks of one group are stuck in one operation, so a different number means a different group.
    std::set<int64_t> numbers;
    for (const auto& [rank, of] : ranks_) {
      for (const auto* said : of.bare) {
        // A rank in the job is never smaller than its number on the host, or its task's number.
        const bool too_small = said->what.inside < std::max(said->who.local, said->who.task);
        const int64_t members = MembersBySizes(said->what);
        const bool smaller = members > 0 && out_.said > members;
        bare_count_as_job_ &= said->what.inside < 0 || (said->what.inside == rank && !too_small && !smaller);
        if (of.groups.empty() && said->what.seq >= 0) numbers.insert(said->what.seq);
      }
      for (const auto& [name, group] : of.groups) {
        if (!IsWhole(name, DescOf(name))) continue;
        for (const auto& [seq, line] : group.timeouts) numbers.insert(seq);
      }
    }
    bare_count_as_job_ &= numbers.size() < 2;
    PlaceByOthers();
    for (auto& [rank, of] : ranks_) PlaceBare(rank, &of);
    ClaimCounted();
    for (auto& [rank, of] : ranks_) {
      const bool waited = std::any_of(of.groups.begin(), of.groups.end(), [](const auto& entry) {
        return !entry.second.timeouts.empty() || entry.second.failed_at >= 0;
      });
      if (waited || of.timed_out) out_.waited.insert(rank);
      out_.waits_for_unnamed |= of.timed_out && !waited;
      if (of.groups.empty()) continue;
      Fill(rank, of);
      SetTaken(of, out_.Of(rank, of.path));
      const std::vector<Op>& ops = out_.Of(rank, of.path)->rank.ops;
      out_.waits_for_unnamed |= std::any_of(
          ops.begin(), ops.end(), [](const Op& op) { return ring::IsPointToPoint(op.kind) && op.root_or_peer < 0; });
    }
    for (const FileFacts& file : files_) {
      const auto last = [](const std::set<int32_t>& labels) { return labels.empty() ? -1 : *labels.rbegin(); };
      const int32_t of_kind[] = {last(file.tasks), last(file.locals), file.rank};
      for (size_t kind = 0; kind < 3; ++kind) {
        if (!labels_.AreRanks(kind)) continue;
        out_.world = std::max(out_.world, of_kind[kind] + 1);
        out_.sized = true;
      }
    }
    for (const int32_t rank : signalled_) {
      if (!ranks_.contains(rank))
        out_.Report(
            signal_path_,
            absl::StrCat(
                "rank ", rank,
                "'s watchdog reported a timeout, according to other ranks; its own lines are missing, so add its log"),
            rank);
    }
  }

 private:
  // A process ends soon after its watchdog has caught a timeout. If a rank has lines from before and after the call of
  // the newest timed-out operation, the older lines are from an earlier attempt. Returns the time of this call; 0 if
  // there was no earlier attempt.
  int64_t NewestIssue() const {
    int64_t newest = 0;
    for (const FileFacts& file : files_) {
      for (const auto& said : file.watchdog) {
        const WatchdogLine& line = said.what;
        if (line.caught && line.printed_ns > 0 && line.ran_ms > 0 && line.ran_ms < kMostMs)
          newest = std::max(newest, line.printed_ns - line.ran_ms * kNsInMs);
      }
    }
    std::set<int32_t> before, after;
    for (const FileFacts& file : files_) {
      for (const auto& said : file.watchdog) {
        if (said.what.printed_ns > 0) (said.what.printed_ns < newest ? before : after).insert(RankOf(file, said));
      }
    }
    before.erase(-1);
    const bool restarted =
        std::any_of(before.begin(), before.end(), [&](int32_t rank) { return after.contains(rank); });
    return restarted ? newest : 0;
  }

  // Drops groups that each process numbers itself, if one number means different groups: two ranks have the same
  // position in the group, or the positions are not in the order of the ranks.
  void DropNumbered() {
    std::map<std::string, std::map<int32_t, int32_t>> places;  // by group name: ranks by position
    std::set<std::string> drop;
    for (const auto& [rank, of] : ranks_) {  // ascending
      for (const auto& [name, group] : of.groups) {
        if (!group.numbered || group.inside < 0) continue;
        std::map<int32_t, int32_t>& ranks = places[name];
        if (!ranks.empty() && ranks.rbegin()->first >= group.inside) drop.insert(name);
        ranks.try_emplace(group.inside, rank);
      }
    }
    if (drop.empty()) return;
    for (auto& [rank, of] : ranks_) std::erase_if(of.groups, [&](const auto& e) { return drop.contains(e.first); });
    out_.Report(
        files_[0].path,
        absl::StrCat("\"PG ", *drop.begin(),
                     "\" is not the same process group on all ranks: this PyTorch version numbers the groups of "
                     "each process separately. The log lines about it show only that those ranks waited, not for "
                     "whom"));
  }

  // All ranks print the counters of the whole job's group. If no rank waits there, and several ranks print nothing
  // else, drops these ranks, because nothing shows which of them others wait for.
  void DropIdle() {
    const auto waits = [&](const auto& group) {
      return IsWhole(group.first, DescOf(group.first)) && !group.second.timeouts.empty();
    };
    for (const auto& [rank, of] : ranks_) {
      if (!of.bare.empty() || std::any_of(of.groups.begin(), of.groups.end(), waits)) return;
    }
    const auto done = [&](const auto& group) {
      return IsWhole(group.first, DescOf(group.first)) && group.second.enqueued == group.second.completed;
    };
    const auto idle = [&](const auto& entry) {
      const OfRank& of = entry.second;
      return !of.timed_out && std::all_of(of.groups.begin(), of.groups.end(), done);
    };
    if (std::count_if(ranks_.begin(), ranks_.end(), idle) > 1) std::erase_if(ranks_, idle);
  }

  int32_t RankOf(const FileFacts& file, const Said<WatchdogLine>& said) const {
    const WatchdogLine& line = said.what;
    const Speaker& who = said.who;
    const int32_t local = more_hosts_ ? -1 : who.local;
    if (who.rank >= 0) return who.rank;
    if (line.group.empty())
      return FirstKnown({bare_ranks_.Of(who, line.inside, file.rank), who.task, file.rank, local});
    if (IsWhole(line.group, line.desc)) return FirstKnown({line.inside, who.task, file.rank, local});
    return FirstKnown({who.task, file.rank, local});
  }

  void Take(const FileFacts& file, const Said<WatchdogLine>& said) {
    const WatchdogLine& line = said.what;
    const Speaker& who = said.who;
    const int32_t rank = RankOf(file, said);
    // At its end, a process prints one of its earlier lines again, without the prefix.
    if (line.group.empty() && speakers_known_ && who.rank < 0 && who.task < 0) return;
    if (line.signalled_by >= 0) {
      signalled_.insert(line.signalled_by);
      if (signal_path_.empty()) signal_path_ = file.path;
    }
    if (rank < 0) {
      out_.unplaced_waits |= line.caught;
      if (unplaced_++ == 0)
        out_.Report(file.path, absl::StrCat("line ", said.number,
                                            ": no line shows its rank; this line and others like it are not used"));
      return;
    }
    labels_.Add(0, said.who.task, rank);
    labels_.Add(1, said.who.local, rank);
    labels_.Add(2, file.rank, rank);
    OfRank& of = ranks_[rank];
    if (of.path.empty()) of.path = file.path;
    of.timed_out |= line.own_timeout || (line.caught && (said.who.rank >= 0 || !line.group.empty()));
    if (line.group.empty()) {
      of.bare.push_back(&said);
      return;
    }
    if (of.groups.size() >= kMostGroupsOfRank && !of.groups.contains(line.group)) {
      if (too_many_++ == 0)
        out_.Report(file.path, absl::StrCat("more than ", kMostGroupsOfRank, " process groups; the rest is not used"),
                    rank);
      return;
    }
    if (!line.desc.empty()) descs_.try_emplace(line.group, line.desc);
    Progress* const group = &of.groups[line.group];
    group->numbered |= line.numbered;
    // "[Rank 3] Watchdog caught" does not name the group, but the rank's next line with the same numbers does.
    constexpr ptrdiff_t kMostBetween = 16;
    const auto oldest = of.bare.end() - std::min<ptrdiff_t>(kMostBetween, std::ssize(of.bare));
    const auto told = std::find_if(oldest, of.bare.end(), [&](const Said<WatchdogLine>* bare) {
      return bare->what.seq >= 0 && bare->what.seq == line.failed_at && bare->what.inside == line.inside;
    });
    if (told != of.bare.end()) {
      Merge((*told)->what, group);
      of.bare.erase(told);
    }
    Merge(line, group);
  }

  static void Merge(const WatchdogLine& line, Progress* group) {
    if (line.inside >= 0) group->inside = line.inside;
    // If there are several lines, the last one counts.
    if (line.enqueued != kUnknown) group->enqueued = line.enqueued;
    if (line.completed != kUnknown) group->completed = line.completed;
    if (line.failed_at >= 0) group->failed_at = line.failed_at;
    if (line.printed_ns > 0) group->printed_ns = line.printed_ns;
    if (!line.call_site.empty()) group->call_site = line.call_site;
    if (line.seq >= 0 && (group->timeouts.size() < kMostTimeouts || group->timeouts.contains(line.seq)))
      group->timeouts[line.seq] = &line;
  }

  // If a rank prints no line with a group, its operation belongs to the group for which other ranks print the same
  // operation.
  void PlaceByOthers() {
    using Call = std::tuple<int64_t, std::string, int64_t, int64_t>;
    const auto call = [](const WatchdogLine& line) {
      return Call(line.seq, line.op, line.elements_in, line.elements_out);
    };
    std::map<Call, std::set<std::string>> groups;
    for (const auto& [rank, of] : ranks_) {
      for (const auto& [name, group] : of.groups) {
        for (const auto& [seq, line] : group.timeouts) groups[call(*line)].insert(name);
      }
    }
    for (auto& [rank, of] : ranks_) {
      if (!of.groups.empty()) continue;
      std::map<std::string, Progress> placed;
      std::erase_if(of.bare, [&](const Said<WatchdogLine>* said) {
        const auto known = groups.find(call(said->what));
        if (said->what.seq < 0 || known == groups.end() || known->second.size() != 1) return false;
        Merge(said->what, &placed[*known->second.begin()]);
        return true;
      });
      of.groups = std::move(placed);
    }
  }

  // Handles lines whose group no later line of the rank names. Assigns each to the only group whose counters fit.
  void PlaceBare(int32_t rank, OfRank* of) {
    for (const auto* said : of->bare) {
      const WatchdogLine& line = said->what;
      Progress* found = nullptr;
      size_t fits = 0;
      bool repeated = false;
      for (auto& [name, group] : of->groups) {
        const auto known = group.timeouts.find(line.seq);
        repeated |= known != group.timeouts.end() && known->second->op == line.op &&
                    known->second->elements_in == line.elements_in && known->second->elements_out == line.elements_out;
        const bool same = line.seq >= 0 && group.failed_at == line.seq;
        const bool between = group.enqueued >= line.seq && group.completed < line.seq;
        const bool other = line.inside >= 0 && group.inside >= 0 && line.inside != group.inside && line.inside != rank;
        if ((!same && !between) || other) continue;
        found = &group;
        ++fits;
      }
      if (repeated) continue;
      const bool labeled = said->who.rank == rank || said->who.task == rank;
      of->timed_out |= line.caught && (bare_count_as_job_ || labeled);
      out_.waits_by_number |= line.caught && !labeled;
      if (line.seq < 0) continue;
      if (found != nullptr && fits == 1) {
        const int32_t inside = found->inside;
        Merge(line, found);
        if (inside >= 0) found->inside = inside;
      } else if (of->groups.empty() && bare_count_as_job_) {
        // Older PyTorch never prints the group. If ranks are numbered like the job's, their group is assumed to be the
        // one of all ranks.
        whole_[rank].push_back(&line);
      } else if (without_group_++ == 0) {
        out_.Report(of->path,
                    absl::StrCat("line ", said->number,
                                 " does not name its process group; this line and others like it are not used"),
                    rank);
      }
    }
    if (of->groups.empty()) {
      for (const WatchdogLine* line : whole_[rank]) Merge(*line, &of->groups[kWholeName]);
    }
  }

  // Returns the number of members that the sizes of an operation imply. For example, the output of an all-gather
  // contains one input from each member. 0 if the sizes imply none.
  static int64_t MembersBySizes(const WatchdogLine& line) {
    const auto times = [](int64_t whole, int64_t part) { return part > 0 && whole % part == 0 ? whole / part : 0; };
    switch (CallFactsOf(fr::ParseOpName(line.op).kind).output) {
      case CallFacts::Output::kTimesMembers: return times(line.elements_out, line.elements_in);
      case CallFacts::Output::kByMembers: return times(line.elements_in, line.elements_out);
      default: return 0;
    }
  }

  // If a group's ranks are numbered like the job's, its members are all ranks up to the last one in any line. If its
  // operations' sizes imply a number of members, that number is used instead.
  void ClaimCounted() {
    struct Use {
      bool counted = true;
      int32_t last = -1, last_inside = -1;
      size_t users = 0;
      std::set<int64_t> sizes;
    };
    std::map<std::string, Use> uses;
    for (const auto& [rank, of] : ranks_) {
      for (const auto& [name, group] : of.groups) {
        Use& use = uses[name];
        use.counted &= group.inside == rank;
        use.last = std::max(use.last, rank);
        use.last_inside = std::max(use.last_inside, group.inside);
        ++use.users;
        for (const auto& [seq, line] : group.timeouts) {
          if (const int64_t size = MembersBySizes(*line); size > 0 && use.sizes.size() < 2) use.sizes.insert(size);
        }
      }
    }
    std::map<std::string, int> of_desc;
    for (const auto& [name, use] : uses) of_desc[DescOf(name)]++;
    constexpr size_t kSparse = 16;  // far more ranks than lines, so the numbers are not ranks
    for (const auto& [name, use] : uses) {
      if (use.sizes.size() != 1) continue;
      const int64_t size = *use.sizes.begin();
      if (size > use.last_inside && size <= static_cast<int64_t>(use.users * kSparse))
        sizes_[name] = static_cast<int32_t>(size);
    }
    for (const auto& [name, use] : uses) {
      // Members of several groups with one description are inferred together later (InferMembers).
      if (IsWhole(name, DescOf(name)) || !use.counted || use.users < 2 || of_desc[DescOf(name)] > 1) continue;
      if (static_cast<size_t>(use.last) >= use.users * kSparse) continue;
      counted_.insert(name);
      std::vector<int32_t>& members = claimed_[name];
      for (int32_t rank = 0; rank <= std::max(use.last, SizeOf(name) - 1); ++rank) members.push_back(rank);
    }
  }

  // Returns the size that the group's operations imply; 0 if unknown.
  int32_t SizeOf(const std::string& name) const {
    const auto at = sizes_.find(name);
    return at == sizes_.end() ? 0 : at->second;
  }

  std::string DescOf(const std::string& name) const {
    const auto at = descs_.find(name);
    if (at != descs_.end()) return at->second;
    return name == kWholeName ? kWholeDesc : "";
  }

  void Fill(int32_t rank, const OfRank& of) {
    // Operations that timed out were issued before those that did not. Times show the order between groups, if printed.
    for (const bool late : {true, false}) {
      std::multimap<int64_t, const std::pair<const std::string, Progress>*> by_time;
      for (const auto& group : of.groups) {
        if (late != (!group.second.timeouts.empty() || group.second.failed_at >= 0)) continue;
        by_time.emplace(group.second.timeouts.empty() ? 0 : IssuedAt(*group.second.timeouts.begin()->second), &group);
      }
      for (const auto& [time, group] : by_time) FillGroup(rank, of, group->first, group->second);
    }
  }

  void FillGroup(int32_t rank, const OfRank& of, const std::string& name, const Progress& group) {
    fr::FileData* const data = out_.Of(rank, of.path);
    data->rank.only_active = true;  // completed operations are not listed
    const uint32_t index = Ranks::GroupOf(data, name, DescOf(name));
    fr::UsedGroup& used = data->used[index];
    used.own_group_rank = group.inside;
    used.counted_inside = true;
    used.size_hint = std::max({group.inside + 1, SizeOf(name), 2});  // no rank waits for itself
    used.may_have_more = SizeOf(name) == 0 && (IsWhole(name, DescOf(name)) || counted_.contains(name));
    // The list is stored for only one rank, which is enough.
    if (auto claim = claimed_.extract(name); !claim.empty())
      data->claims.push_back({name, DescOf(name), std::move(claim.mapped())});
    AddOps(group, index, data);
  }

  // Sets the capture time to when the rank's last line was printed, if the age of each of the rank's current operations
  // is known.
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

  // Returns when the operation that timed out was issued; 0 if unknown.
  static int64_t IssuedAt(const WatchdogLine& line) {
    const bool dated = line.printed_ns > 0 && line.ran_ms > 0 && line.ran_ms < kMostMs;
    return dated ? line.printed_ns - line.ran_ms * kNsInMs : 0;
  }

  static void AddOps(const Progress& group, uint32_t index, fr::FileData* data) {
    int64_t issued = group.enqueued, completed = group.completed;
    bool p2p = false;
    const auto add = [&](int64_t seq, const WatchdogLine* line) {
      const std::string name = line == nullptr ? "" : line->op;
      Op& op = Ranks::AddOp(data, index, seq, fr::ParseOpName(name).kind, name.empty() ? kUntoldOperation : name);
      op.retired = line != nullptr;  // the watchdog gave up on it
      // A batch involves the peers of its sends and receives, which the line does not name.
      if (op.kind == ring::CallKind::kCoalesced) {
        op.kind = ring::CallKind::kSend;
        op.name = Ranks::Intern(data, "batch of sends or receives");
      }
      if (line != nullptr) {
        op.input_elements = line->elements_in;
        op.output_elements = line->elements_out;
        op.enter_ns = IssuedAt(*line);
      }
      if (!group.call_site.empty()) op.call_site = Ranks::Intern(data, group.call_site);
      p2p |= ring::IsPointToPoint(op.kind);
      if (issued == kUnknown || issued < seq) issued = seq;
    };
    for (const auto& [seq, line] : group.timeouts) {
      if (seq > completed || completed == kUnknown) add(seq, line);
    }
    if (data->rank.ops.empty() || data->rank.ops.back().membership != index) {
      // The watchdog prints every group's counters, but an operation only if that timed out.
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

  const std::vector<FileFacts>& files_;
  Ranks& out_;
  const BareRanks bare_ranks_;
  Labels labels_;
  std::map<int32_t, OfRank> ranks_;
  std::map<int32_t, std::vector<const WatchdogLine*>> whole_;
  absl::flat_hash_map<std::string, std::string> descs_;
  std::map<std::string, std::vector<int32_t>> claimed_;
  std::set<std::string> counted_;
  std::map<std::string, int32_t> sizes_;
  std::set<int32_t> signalled_;
  std::string signal_path_;
  int64_t unplaced_ = 0, without_group_ = 0, too_many_ = 0;
  bool speakers_known_ = false;    // lines start with the rank of their process
  bool more_hosts_ = false;        // a launcher's local rank is not the rank
  bool bare_count_as_job_ = true;  // "[Rank 3]" in lines without a group is rank 3 of the job
};

// If no line names an operation, uses the name that other ranks print for the same number, if they agree.
void NameUntold(Ranks* ranks) {
  std::map<std::tuple<std::string, std::string, int64_t>, const Op*> named;
  const auto key = [](const fr::FileData& data, const Op& op) {
    const fr::UsedGroup& group = data.used[op.membership];
    return std::make_tuple(group.name, group.desc, op.seq);
  };
  const auto untold = [](const fr::FileData& data, const Op& op) {
    return op.name != kNoIndex && data.strings[op.name] == kUntoldOperation;
  };
  for (const auto& [rank, data] : ranks->ranks) {
    for (const Op& op : data.rank.ops) {
      if (untold(data, op) || op.name != kNoIndex) continue;
      const auto [at, fresh] = named.try_emplace(key(data, op), &op);
      if (!fresh && at->second != nullptr && at->second->kind != op.kind) at->second = nullptr;
    }
  }
  for (auto& [rank, data] : ranks->ranks) {
    for (Op& op : data.rank.ops) {
      if (!untold(data, op)) continue;
      const auto at = named.find(key(data, op));
      if (at == named.end() || at->second == nullptr || ring::IsPointToPoint(at->second->kind)) continue;
      op.kind = at->second->kind;
      op.name = kNoIndex;
    }
  }
}

// Returns whether two ranks wait in two groups, and both are members of both. Either they call the groups in different
// orders, or an earlier wait is missing from the log.
bool WaitsCross(const Ranks& ranks) {
  constexpr size_t kMostCompared = 256;
  std::vector<std::pair<const fr::FileData*, const fr::UsedGroup*>> fronts;  // each rank, and the group of its first
                                                                             // operation
  for (const auto& [rank, data] : ranks.ranks) {
    if (data.rank.ops.empty() || fronts.size() == kMostCompared) continue;
    fronts.emplace_back(&data, &data.used[data.rank.ops[0].membership]);
  }
  const auto uses = [](const fr::FileData& data, const fr::UsedGroup& group) {
    return IsWhole(group.name, group.desc) ||
           std::any_of(data.used.begin(), data.used.end(), [&](const auto& own) { return own.name == group.name; });
  };
  for (const auto& [data, group] : fronts) {
    for (const auto& [other, other_group] : fronts) {
      if (group->name != other_group->name && uses(*data, *other_group) && uses(*other, *group)) return true;
    }
  }
  return false;
}

}  // namespace

void AddWatchdog(const std::vector<FileFacts>& files, Ranks* ranks) {
  Watchdogs(files, ranks).Run();
  NameUntold(ranks);
  int32_t named = std::max(ranks->said, ranks->world);
  for (const auto& [rank, data] : ranks->ranks) named = std::max(named, rank + 1);
  if (ranks->ranks.size() >= static_cast<size_t>(named) || !WaitsCross(*ranks)) return;
  // If ranks are missing, it is unknown which wait came first.
  for (auto& [rank, data] : ranks->ranks) {
    data.rank.ops.clear();
    data.used.clear();
    data.claims.clear();
  }
  ranks->waits_for_unnamed = true;
  ranks->Report(files[0].path,
                "ranks wait in several process groups, other ranks have no line, and the log does not show which wait "
                "began first; add the logs of all ranks");
}

}  // namespace lockstep::logs
