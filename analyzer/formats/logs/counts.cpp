// Reads counts from ncclras: ranks that launched fewer operations than the others and make no progress.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/logs/ranks.h"
#include "analyzer/util/rank_text.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostCounts = 1 << 18;  // limit over all communicators

struct Reported {
  const RasComm* comm;
  const FileFacts* file;
};

// Returns each rank's count; -1 if the report does not list it. Empty if several classes do not list their ranks.
std::vector<int64_t> CountsOf(const RasComm& comm, int32_t size) {
  std::vector<int64_t> counts(static_cast<size_t>(size), -1);
  const RasClass* unlisted = nullptr;
  for (const RasClass& of : comm.classes) {
    if (of.ranks.empty()) {
      if (unlisted != nullptr) return {};
      unlisted = &of;
    }
    for (const RasRank& rank : of.ranks) {
      if (rank.rank < size) counts[static_cast<size_t>(rank.rank)] = of.launched;
    }
  }
  for (int64_t& count : counts) {
    if (count < 0 && unlisted != nullptr) count = unlisted->launched;
  }
  return counts;
}

// The job's ranks by host and PID.
using Processes = std::map<std::pair<std::string, int64_t>, int32_t>;

// Returns whether a communicator of this size is the whole job, according to the reports.
bool IsWhole(const RasReports& ras, int32_t size) { return size >= (ras.gpus > 0 ? ras.gpus : ras.largest); }

// Adds the ranks of processes that a report lists. If no communicator numbers them all, they are assumed to follow the
// order of hosts and GPUs.
void AddProcesses(const RasReports& ras, Processes* processes) {
  if (ras.gpus == 0) return;
  if (IsWhole(ras, ras.largest)) return processes->insert(ras.largest_ranks.begin(), ras.largest_ranks.end());
  std::map<std::string, std::map<int32_t, int64_t>> by_host;  // PIDs by GPU
  for (const auto& [process, gpus] : ras.processes) {
    if (gpus.size() == 1) by_host[process.first].emplace(*gpus.begin(), process.second);
  }
  size_t on_host = 0, all = 0;
  for (const auto& [host, gpus] : by_host) on_host = std::max(on_host, gpus.size()), all += gpus.size();
  // False if a process has several GPUs, or the report does not list all hosts' processes.
  const bool even = on_host * by_host.size() == all && all == ras.processes.size();
  if (even && ras.host_order.size() == by_host.size()) {
    int32_t rank = 0;
    for (const std::string& host : ras.host_order) {
      for (const auto& [gpu, pid] : by_host[host]) processes->try_emplace({host, pid}, rank++);
    }
  }
  if (!ras.processes.empty() || ras.hosts != 1) return;
  const auto add = [&](const RasRank& rank) {
    if (rank.gpu >= 0 && rank.gpu < ras.gpus) processes->try_emplace({rank.host, rank.pid}, rank.gpu);
  };
  for (const RasOdd& odd : ras.odd) add(odd.rank);
  for (const RasComm& comm : ras.comms) {
    for (const RasClass& of : comm.classes) std::for_each(of.ranks.begin(), of.ranks.end(), add);
  }
}

// Returns the job rank of each member. Empty if a member is not listed, or its process is unknown.
std::vector<int32_t> MembersOf(const RasComm& comm, int64_t size, const Processes& processes) {
  std::vector<int32_t> members(static_cast<size_t>(size), -1);
  for (const RasClass& of : comm.classes) {
    for (const RasRank& rank : of.ranks) {
      const auto known = processes.find({rank.host, rank.pid});
      if (rank.rank < size && known != processes.end()) members[static_cast<size_t>(rank.rank)] = known->second;
    }
  }
  const std::set<int32_t> different(members.begin(), members.end());
  if (different.size() < members.size() || different.contains(-1)) members.clear();
  return members;
}

// Returns whether a process has different numbers in the job and in this communicator.
bool NumberedOtherwise(const RasComm& comm, const Processes& processes) {
  for (const RasClass& of : comm.classes) {
    for (const RasRank& rank : of.ranks) {
      const auto known = processes.find({rank.host, rank.pid});
      if (known != processes.end() && known->second != rank.rank) return true;
    }
  }
  return false;
}

// Returns whether one rank is ahead of another in one kind of operation, but behind it in another kind.
bool Crosses(const std::vector<int64_t>& one, const std::vector<int64_t>& other) {
  constexpr size_t kMostDifferent = 64;
  std::set<std::pair<int64_t, int64_t>> different;
  for (size_t i = 0; i < one.size() && i < other.size() && different.size() <= kMostDifferent; ++i) {
    if (one[i] >= 0 && other[i] >= 0) different.emplace(one[i], other[i]);
  }
  // The set is ordered by the first count. Looks for two pairs whose second counts are in the opposite order.
  for (auto a = different.begin(); a != different.end(); ++a) {
    for (auto b = different.begin(); b != a; ++b) {
      if (b->first < a->first && b->second > a->second) return true;
    }
  }
  return false;
}

// A member of a communicator: its rank there and in the job.
struct Member {
  int32_t inside = -1, rank = -1;
};

// `mapped` is true if the member's rank in the job comes from its process, so it may differ from its rank in the
// communicator.
void AddRank(Member member, int64_t count, int64_t least, const Reported& last, bool mapped, Ranks* ranks) {
  const int32_t rank = member.rank;
  fr::FileData* const data = ranks->Of(rank, last.file->path);
  const std::string name =
      absl::StrCat(last.comm->op.empty() ? "operations" : last.comm->op, " of comm ", last.comm->id);
  const uint32_t index = Ranks::GroupOf(data, name, "");
  fr::UsedGroup& used = data->used[index];
  used.own_group_rank = member.inside;
  if (mapped) {
    used.counted_inside = true;
    used.size_hint = last.comm->size;
  }
  used.collectives = used.progress.issued = count == 0 ? kNone : count;
  used.unrecorded = count;  // the report does not show which operation the rank is in
  if (count <= least) return;
  const ring::CallKind kind = last.comm->op.empty() ? ring::CallKind::kNone : fr::ParseOpName(last.comm->op).kind;
  Op& op = Ranks::AddOp(data, index, least + 1, kind, "collective operation");
  op.retired = true;  // some member has not launched it, so it cannot complete
  data->rank.captured_ns = 0;
}

std::string Named(const RasRank& rank, int32_t size) {
  return absl::StrCat("rank ", rank.rank, size > 0 ? absl::StrCat(" of its ", size) : " of it", " (",
                      rank.gpu >= 0 ? absl::StrCat("GPU ", rank.gpu, ", ") : "", "process ", rank.pid, " on ",
                      rank.host, ")");
}

// Returns "rank 5 of its 8 (GPU 13, process 4013 on host1)": the first listed rank among those that launched the
// fewest.
std::string Behind(const RasComm& comm) {
  const auto least = std::min_element(comm.classes.begin(), comm.classes.end(),
                                      [](const RasClass& a, const RasClass& b) { return a.launched < b.launched; });
  if (least->ranks.empty()) return absl::StrCat(least->count, " of its ranks");
  return Named(least->ranks[0], comm.size);
}

// Returns "on communicator 1a2b, 30 ranks launched 640 AllGather, 2 ranks (12, 13) 641".
std::string CountsText(const RasComm& comm) {
  constexpr size_t kMostClasses = 4;
  std::vector<std::string> texts;
  for (const RasClass& of : comm.classes) {
    if (texts.size() == kMostClasses) {
      texts.push_back("..");
      break;
    }
    std::vector<int32_t> listed;
    for (const RasRank& rank : of.ranks) listed.push_back(rank.rank);
    texts.push_back(absl::StrCat(of.count, of.count == 1 ? " rank" : " ranks",
                                 listed.empty() ? "" : absl::StrCat(" (", FoldRanks(std::move(listed)), ")"),
                                 texts.empty() ? " launched " : " ", of.launched,
                                 texts.empty() ? comm.op.empty() ? " operations" : " " + comm.op : ""));
  }
  return absl::StrCat("on communicator ", comm.id, ", ", absl::StrJoin(texts, ", "));
}

// Reports ranks that do not answer ncclras, or whose state differs from the others'. These ranks are numbered within a
// communicator, and their current calls are unknown.
void ReportOdd(const FileFacts& file, Ranks* ranks) {
  std::set<std::string> told;  // texts already reported: several reports may repeat one
  for (const RasOdd& odd : file.ras.odd) {
    const bool dead = file.ras.dead.contains({odd.rank.host, odd.rank.pid});
    const std::string what = !odd.status.empty() ? absl::StrCat("has status ", odd.status, ", unlike the others")
                             : dead              ? "is dead"
                                                 : "did not answer";
    std::string text = absl::StrCat("ncclras: ", Named(odd.rank, odd.size), " ", what);
    if (told.insert(text).second) ranks->Tell(file.path, std::move(text));
  }
}

// Adds the processes that ncclras considers dead, if their ranks are known.
void AddDead(const FileFacts& file, const Processes& processes, Ranks* ranks) {
  for (const RasOdd& odd : file.ras.odd) {
    if (!file.ras.dead.contains({odd.rank.host, odd.rank.pid})) continue;
    const auto known = processes.find({odd.rank.host, odd.rank.pid});
    const int32_t number = known != processes.end() ? known->second : IsWhole(file.ras, odd.size) ? odd.rank.rank : -1;
    if (number < 0) continue;
    Rank& rank = ranks->Of(number, file.path)->rank;
    rank.process.life = Life::kGone;
    rank.host = odd.rank.host;
    rank.pid = static_cast<int32_t>(odd.rank.pid);
    rank.gpu_index = odd.rank.gpu;
  }
}

}  // namespace

void AddCounts(const std::vector<FileFacts>& files, Ranks* ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<Reported>> reports;  // id and kind, in order
  std::set<std::string> ids;
  Processes processes;
  int32_t largest = 0;
  int64_t left = kMostCounts;
  size_t used = 0;
  const FileFacts* equal = nullptr;
  for (const FileFacts& file : files) {
    for (const RankProcess& process : file.processes) processes[{process.host, process.pid}] = process.rank;
    largest = std::max({largest, file.ras.largest, file.ras.gpus});
    if (file.ras.largest > 0 && file.ras.comms.empty()) equal = &file;
    for (const RasComm& comm : file.ras.comms) {
      reports[{comm.id, comm.op}].push_back({&comm, &file});
      ids.insert(comm.id);
      largest = std::max(largest, comm.size);
    }
  }
  for (const FileFacts& file : files) AddProcesses(file.ras, &processes);
  bool odd = false, silent = false;  // a process did not answer
  for (const FileFacts& file : files) {
    odd |= !file.ras.odd.empty();
    silent |= std::any_of(file.ras.odd.begin(), file.ras.odd.end(), [](const RasOdd& o) { return o.status.empty(); });
    ReportOdd(file, ranks);
    AddDead(file, processes, ranks);
  }
  if (reports.empty() && equal != nullptr && !odd) {
    ranks->Tell(equal->path,
                "an ncclras report in which the ranks of each communicator launched the same number of operations. "
                "This points to no rank: the job is running, or a GPU, the network or a call with different arguments "
                "stops all of them. Flight Recorder dumps or `lockstep attach` show more");
  }
  std::map<std::string, std::vector<std::vector<int64_t>>> by_comm;  // the counts of each kind, if all are listed
  int64_t listed_ranks = 0;
  for (const auto& [key, of] : reports) {
    const RasComm& comm = *of.back().comm;
    listed_ranks += comm.size;
    if (listed_ranks > kMostCounts) break;
    if (comm.size > 0) by_comm[comm.id].push_back(CountsOf(comm, comm.size));
  }
  std::set<std::string> crossed;
  for (const auto& [id, kinds] : by_comm) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (Crosses(kinds[i], kinds[j])) crossed.insert(id);
      }
    }
  }
  for (const auto& [key, of] : reports) {
    const Reported& last = of.back();
    const std::string where = absl::StrCat("line ", last.comm->number, ": ");
    // In a running job, the counts of ranks differ by one or two at any moment.
    if (of.size() < 2 || of[of.size() - 2].comm->classes != last.comm->classes) {
      ranks->Tell(last.file->path, of.size() < 2
                                       ? absl::StrCat(where, CountsText(*last.comm),
                                                      ". A single ncclras report does not show whether the counts "
                                                      "still grow: add a second one, taken ten seconds later")
                                       : absl::StrCat(where, "the counts still grew between the ncclras reports"));
      continue;
    }
    if (silent) {
      ranks->Tell(last.file->path,
                  absl::StrCat(where, CountsText(*last.comm), ". They may wait for the process that did not answer"));
      continue;
    }
    int64_t size = last.comm->size, sum = 0, least = INT64_MAX, behind = 0;
    for (const RasClass& klass : last.comm->classes) {
      sum += klass.count;
      if (klass.launched < least) least = klass.launched, behind = klass.count;
    }
    if (size == 0) size = sum;
    // Processes run ahead of their GPUs by different numbers of calls, which need not have completed.
    if (2 * behind > sum) {
      ranks->Tell(last.file->path, absl::StrCat(where, CountsText(*last.comm), ". Most ranks launched the fewest"));
      continue;
    }
    // A report numbers ranks within their communicator. If there are several communicators and none is the whole job,
    // one number may mean different ranks.
    const bool whole = size >= largest;
    const std::vector<int32_t> members =
        sum == size && size <= left ? MembersOf(*last.comm, size, processes) : std::vector<int32_t>();
    // The counts of two members fit a call that one skipped or the other added. Only stacks, or counts of other
    // communicators, show who waits for whom.
    const bool pair = members.size() == 2 && ids.size() == 1;
    if (pair || crossed.contains(last.comm->id)) {
      const std::string who = pair ? absl::StrCat("ranks ", members[0], " and ", members[1]) : std::string("ranks");
      ranks->Tell(last.file->path,
                  absl::StrCat(where, who, " launched different calls on communicator ", last.comm->id, " (",
                               last.comm->op.empty() ? "operations" : last.comm->op,
                               "): one of them skipped or added a call, made a call of another kind, or is elsewhere. ",
                               Behind(*last.comm), " launched the fewest"));
      continue;
    }
    const bool numbered =
        processes.empty() ? whole || ids.size() == 1 : whole && !NumberedOtherwise(*last.comm, processes);
    std::vector<int64_t> counts;
    if (sum == size && (numbered || !members.empty()) && size <= left && used < kMostGroupsOfRank)
      counts = CountsOf(*last.comm, static_cast<int32_t>(size));
    if (counts.empty()) {
      ranks->Report(
          last.file->path,
          absl::StrCat(where, "not used, because ncclras does not show which ranks of the job are in communicator ",
                       last.comm->id, ". ", Behind(*last.comm), " launched the fewest"));
      continue;
    }
    if (!whole && members.empty()) {
      ranks->Report(last.file->path,
                    absl::StrCat(where, "rank numbers are those in communicator ", last.comm->id, ", which has ", size,
                                 " of the job's ", largest, " or more ranks; host, GPU and process identify the rank"));
    }
    left -= size;
    ++used;
    const auto rank_of = [&members](int32_t inside) {
      return members.empty() ? inside : members[static_cast<size_t>(inside)];
    };
    for (int32_t inside = 0; inside < static_cast<int32_t>(counts.size()); ++inside) {
      const int64_t count = counts[static_cast<size_t>(inside)];
      if (count >= 0) AddRank({inside, rank_of(inside)}, count, least, last, !members.empty(), ranks);
    }
    for (const RasClass& klass : last.comm->classes) {
      for (const RasRank& listed : klass.ranks) {
        if (listed.rank >= size) continue;
        Rank& rank = ranks->Of(rank_of(listed.rank), last.file->path)->rank;
        rank.host = listed.host;
        rank.pid = static_cast<int32_t>(listed.pid);
        rank.gpu_index = listed.gpu;
      }
    }
  }
}

}  // namespace lockstep::logs
