// Adds PyTorch's and Horovod's reports of calls that differ, and of ranks that did not reach a barrier or a call.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/logs/ranks.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostImplied = 1 << 17;  // limit on the calls that are inferred from fingerprints

// Finds which ranks of the job are the members of the group, from lines that its processes print ("Rank 1 is running").
class Members {
 public:
  // `said` is the number of ranks in the job, if a line contains it.
  Members(const std::vector<FileFacts>& files, int32_t said) {
    int32_t named = 0;
    for (const FileFacts& file : files) {
      named += file.rank >= 0 ? 1 : 0;
      for (const auto& line : file.fingerprints) last_ = std::max({last_, line.what.own, line.what.other});
    }
    // If there are fewer named files than members, a file is from a host, so its number is not a rank.
    for (const FileFacts& file : files) {
      for (const auto& line : file.fingerprints) Add(line, last_ < named ? file.rank : -1);
    }
    // Members are numbered like the job if the group is as large as the job, or if two members have their rank's
    // number.
    whole_ &= said == last_ + 1 || ranks_.size() > 1 || of_job_;
    if (whole_) ranks_.clear();
  }

  // True if the members' numbers are ranks of the job.
  bool whole() const { return whole_; }
  // True if members of several groups have the same numbers, or if the lines do not show which ranks they are.
  bool unclear() const { return unclear_; }
  int32_t RankOf(int32_t member) const {
    if (whole_) return member;
    const auto at = ranks_.find(member);
    return at == ranks_.end() ? -1 : at->second;
  }
  // Returns the rank of each member; empty if a member up to the last one in any line is unknown.
  std::vector<int32_t> All() const {
    std::vector<int32_t> out;
    for (const auto& [member, rank] : ranks_) {
      if (member != static_cast<int32_t>(out.size())) return {};
      out.push_back(rank);
    }
    return static_cast<int32_t>(out.size()) > last_ ? out : std::vector<int32_t>();
  }
  int32_t last() const { return last_; }

 private:
  void Add(const Said<FingerprintLine>& said, int32_t file_rank) {
    of_job_ |= said.what.of_job;
    const int32_t member = said.what.own;
    const int32_t rank = FirstKnown({said.who.rank, said.who.task, file_rank});
    // A rank in the job is never smaller than its number on the host.
    unclear_ |= rank < 0 && member < said.who.local;
    whole_ &= rank < 0 || rank == member;
    if (rank < 0) return;
    const auto [at, fresh] = ranks_.try_emplace(member, rank);
    unclear_ |= !fresh && at->second != rank;
  }

  bool whole_ = true, unclear_ = false, of_job_ = false;
  int32_t last_ = -1;
  std::map<int32_t, int32_t> ranks_;  // indexed by member
};

constexpr char kDiffering[] = "the group whose calls differ";

// Returns "AllGather #12 of [20, 10]".
std::string TextOf(const Fingerprint& print) {
  const ring::CallKind kind = fr::ParseOpName(print.op).kind;
  const bool named = kind != ring::CallKind::kNone && kind != ring::CallKind::kOtherCollective;
  return absl::StrCat(named ? ring::CallName(kind) : print.op.c_str(),
                      print.seq == kUnknown ? "" : absl::StrCat(" #", print.seq),
                      print.shape.empty() ? "" : absl::StrCat(" of ", print.shape));
}

}  // namespace

void AddFingerprints(const std::vector<FileFacts>& files, Ranks* ranks) {
  struct Call {
    const Fingerprint* print;
    const std::string* path;
  };
  const Members members(files, ranks->said);
  std::map<int64_t, std::map<int32_t, Call>> calls;  // maps a number to the calls of members
  int64_t implied = 0;
  const auto add = [&](int32_t member, const Fingerprint& print, const std::string& path, bool replace) {
    auto& of_seq = calls[print.seq == kUnknown ? 1 : print.seq];
    if (replace) {
      of_seq.insert_or_assign(member, Call{&print, &path});
    } else {
      of_seq.try_emplace(member, Call{&print, &path});
    }
  };
  bool reported = false;
  for (const FileFacts& file : files) {
    for (const auto& said : file.fingerprints) {
      add(said.what.own, said.what.own_call, file.path, true);
      if (said.what.other < 0) continue;
      add(said.what.other, said.what.other_call, file.path, false);
      if (reported || (!members.unclear() && members.RankOf(said.what.other) >= 0)) continue;
      reported = true;
      ranks->Tell(file.path, absl::StrCat("line ", said.number, ": members ", said.what.own, " and ", said.what.other,
                                          " of a process group make different calls (", TextOf(said.what.own_call),
                                          " and ", TextOf(said.what.other_call),
                                          "), and nothing shows which ranks of the job they are; add the lines of all "
                                          "ranks, with torchrun's or srun's labels"));
    }
  }
  if (members.unclear()) return;
  for (const FileFacts& file : files) {
    for (const auto& said : file.fingerprints) {
      for (int32_t member = 0; member < said.what.other && implied < kMostImplied; ++member, ++implied)
        add(member, said.what.own_call, file.path, false);
    }
  }
  const fr::MemberList all = members.whole() ? std::vector<int32_t>() : members.All();
  for (const auto& [seq, of_seq] : calls) {
    for (const auto& [member, call] : of_seq) {
      const int32_t rank = members.RankOf(member);
      if (rank < 0) continue;
      fr::FileData* const data = ranks->Of(rank, *call.path);
      data->rank.only_active = true;
      const uint32_t index =
          members.whole() ? Ranks::GroupOf(data, kWholeName, kWholeDesc) : Ranks::GroupOf(data, kDiffering, "");
      fr::UsedGroup& used = data->used[index];
      if (!members.whole()) {
        used.own_group_rank = member;
        used.counted_inside = true;
        used.size_hint = members.last() + 1;
        if (data->claims.empty() && !all.empty()) data->claims.push_back({kDiffering, "", all});
      }
      Op& op = Ranks::AddOp(data, index, seq, fr::ParseOpName(call.print->op).kind, call.print->op);
      op.input_elements = call.print->elements;
      if (!call.print->dtype.empty()) op.dtypes = Ranks::Intern(data, absl::StrCat(call.print->dtype, " -> "));
      used.progress.issued = std::max(used.progress.issued, seq);
      used.collectives = std::max(used.collectives, seq);
      used.collective_zero |= seq == 0;
    }
  }
}

namespace {

// Adds an operation that no other line counts. `came`: by rank, whether the rank is in the operation, and the file that
// shows it.
void AddOnly(const std::map<int32_t, std::pair<bool, const std::string*>>& came, const std::string& group,
             ring::CallKind kind, const std::string& name, Ranks* ranks) {
  for (const auto& [rank, how] : came) {
    const auto& [arrived, path] = how;
    fr::FileData* const data = ranks->Of(rank, *path);
    if (!arrived) {
      fr::UsedGroup& used = data->used[Ranks::GroupOf(data, group, "")];
      used.progress.issued = used.collectives = used.progress.completed = kNone;
      continue;
    }
    Ranks::AddStuck(data, group, kind, name);
    data->rank.captured_ns = 0;
  }
}

}  // namespace

void AddBarriers(const std::vector<FileFacts>& files, Ranks* ranks) {
  std::map<int32_t, std::pair<bool, const std::string*>> came;
  bool report = false;
  for (const FileFacts& file : files) {
    for (const auto& said : file.barriers) {
      report |= said.what.of_report;
      for (const int32_t rank : said.what.missing) came.insert_or_assign(rank, std::pair(false, &file.path));
      for (const int32_t rank : said.what.arrived) came.try_emplace(rank, true, &file.path);
    }
  }
  if (std::none_of(came.begin(), came.end(), [](const auto& entry) { return !entry.second.first; })) return;
  if (!report) return AddOnly(came, "monitored_barrier", ring::CallKind::kBarrier, "monitored_barrier", ranks);
  // A report of PyTorch's watchdog numbers ranks inside a group. That group is the whole job if no line names another
  // group.
  for (const FileFacts& file : files) {
    for (const auto& said : file.watchdog) {
      if (said.what.group.empty() || said.what.group == kWholeName || said.what.desc == kWholeDesc) continue;
      return ranks->Tell(*came.begin()->second.second,
                         absl::StrCat("line ", said.number, ": PyTorch reports which ranks of group ", said.what.group,
                                      " did not join a collective, and nothing shows which ranks of the job they are"));
    }
  }
  // The report contains everything that the other lines show about these ranks.
  for (const auto& [rank, how] : came) {
    const auto known = ranks->ranks.find(rank);
    if (known == ranks->ranks.end()) continue;
    known->second.rank.ops.clear();
    known->second.used.clear();
    known->second.claims.clear();
  }
  AddOnly(came, "the group of PyTorch's report", ring::CallKind::kOtherCollective, "collective operation", ranks);
}

void AddStoreBarriers(const std::vector<FileFacts>& files, Ranks* ranks) {
  struct Barrier {
    std::map<int32_t, std::pair<bool, const std::string*>> came;
    int32_t size = 0, count = 0;
    const std::string* path = nullptr;
    bool passed = false;
  };
  std::map<std::string, Barrier> barriers;  // by key in the store
  for (const FileFacts& file : files) {
    for (const auto& [line, who, number] : file.store_barriers) {
      Barrier& barrier = barriers[line.key];
      barrier.path = &file.path;
      barrier.passed |= line.passed;
      barrier.came.try_emplace(line.rank, true, &file.path);
      barrier.size = std::max(barrier.size, line.size);
      barrier.count = std::max(barrier.count, line.count);
    }
  }
  std::erase_if(barriers,
                [](const auto& entry) { return entry.second.passed || entry.second.count == entry.second.size; });
  if (barriers.empty() || !ranks->ranks.empty()) return;
  Barrier& last = barriers.rbegin()->second;
  ranks->said = std::max(ranks->said, last.size);
  const auto arrived = static_cast<int32_t>(last.came.size());
  // If others also joined, their lines are missing.
  if (arrived != last.count || last.came.rbegin()->first >= last.size) {
    const bool more = last.count > last.size;
    ranks->Tell(*last.path,
                absl::StrCat("ranks wait in init_process_group: ", last.count, " of ", last.size, " joined",
                             more ? ". More than expected: another job, or an earlier attempt, uses the same store"
                                  : "; the lines of these ranks would show which others are missing"));
    return;
  }
  if (last.size - last.count > last.count) {  // most were not started, or cannot reach the store
    ranks->Tell(*last.path, absl::StrCat("only ", last.count, " of ", last.size,
                                         " ranks joined in init_process_group: check that the others were started, and "
                                         "that they can reach the store"));
    return;
  }
  for (int32_t rank = 0; rank < last.size; ++rank) last.came.try_emplace(rank, false, last.path);
  AddOnly(last.came, "the store", ring::CallKind::kBarrier, "init_process_group", ranks);
}

void AddStalled(const std::vector<FileFacts>& files, Ranks* ranks) {
  const FileFacts* newest = nullptr;
  for (const FileFacts& file : files) {
    if (!file.stalled.missing.empty()) newest = &file;
  }
  if (newest == nullptr) return;
  const auto& missing = newest->stalled.missing;
  const std::string& tensor = missing.begin()->first;
  const std::set<int32_t>& first = missing.begin()->second;
  const std::string where = absl::StrCat("line ", newest->stalled.number, ": Horovod waits: ");
  if (std::any_of(missing.begin(), missing.end(), [&](const auto& of) { return of.second != first; })) {
    const auto other = std::find_if(missing.begin(), missing.end(), [&](const auto& of) { return of.second != first; });
    ranks->Tell(newest->path,
                absl::StrCat(where, RanksText(first), " did not submit ", tensor, ", and ", RanksText(other->second),
                             " did not submit ", other->first, ": the ranks submit different tensors"));
    return;
  }
  std::map<int32_t, std::pair<bool, const std::string*>> came;
  for (const int32_t rank : first) came.try_emplace(rank, false, &newest->path);
  // At least one rank has submitted the tensor. Ranks are numbered from 0, so the lowest rank that is not missing has
  // submitted it.
  int32_t arrived = 0;
  while (first.contains(arrived)) ++arrived;
  came.try_emplace(arrived, true, &newest->path);
  AddOnly(came, "Horovod", ring::CallKind::kOtherCollective, tensor, ranks);
}

}  // namespace lockstep::logs
