// Counts from ncclras: ranks that launched fewer operations than the others, and do not move.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/logs/ranks.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostCounts = 1 << 18;  // over all communicators

struct Reported {
  const RasComm* comm;
  const FileFacts* file;
};

// Each rank's count; -1 if the report does not list it. Only one class may be too large to be listed.
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

void AddRank(int32_t rank, int64_t count, int64_t least, const Reported& last, Ranks* ranks) {
  fr::FileData* const data = ranks->Of(rank, last.file->path);
  const std::string name =
      absl::StrCat(last.comm->op.empty() ? "operations" : last.comm->op, " of comm ", last.comm->id);
  const uint32_t index = Ranks::GroupOf(data, name, "");
  fr::UsedGroup& used = data->used[index];
  used.own_group_rank = rank;
  used.collectives = used.progress.issued = count == 0 ? kNone : count;
  used.unrecorded = count;  // the report does not say in which of them the rank may still be
  if (count <= least) return;
  Op op;
  op.membership = index;
  op.seq = least + 1;
  op.kind = last.comm->op.empty() ? ring::CallKind::kOtherCollective : fr::ParseOpName(last.comm->op).kind;
  if (op.kind == ring::CallKind::kNone) op.kind = ring::CallKind::kOtherCollective;
  op.state = OpState::kIncomplete;
  op.retired = true;  // a member has not launched it, so it cannot end
  op.record_id = static_cast<int64_t>(data->rank.ops.size());
  op.index = op.record_id;
  if (op.kind == ring::CallKind::kOtherCollective) op.name = Ranks::Intern(data, "collective operation");
  data->rank.ops.push_back(op);
  data->rank.captured_ns = 0;
}

std::string Named(const RasRank& rank, int32_t size) {
  return absl::StrCat("rank ", rank.rank, size > 0 ? absl::StrCat(" of its ", size) : " of it", " (GPU ", rank.gpu,
                      ", process ", rank.pid, " on ", rank.host, ")");
}

// Returns "rank 5 of its 8 (GPU 13, process 4013 on host1)": the first listed rank among those that launched least.
std::string Behind(const RasComm& comm) {
  const auto least = std::min_element(comm.classes.begin(), comm.classes.end(),
                                      [](const RasClass& a, const RasClass& b) { return a.launched < b.launched; });
  if (least->ranks.empty()) return absl::StrCat(least->count, " of its ranks");
  return Named(least->ranks[0], comm.size);
}

// Reports ranks that do not answer ncclras, or are in another state than the others. They are numbered within a
// communicator, and nothing shows which calls they are in.
void ReportOdd(const FileFacts& file, Ranks* ranks) {
  std::set<std::string> told;  // several reports repeat it
  for (const RasOdd& odd : file.ras.odd) {
    const bool dead = file.ras.dead.contains({odd.rank.host, odd.rank.pid});
    const std::string what = !odd.status.empty() ? absl::StrCat("has status ", odd.status, ", unlike the others")
                             : dead              ? "is dead"
                                                 : "did not answer";
    std::string text = absl::StrCat("ncclras: ", Named(odd.rank, odd.size), " ", what);
    if (told.insert(text).second) ranks->Report(file.path, std::move(text));
  }
}

}  // namespace

void AddCounts(const std::vector<FileFacts>& files, Ranks* ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<Reported>> reports;  // id and kind, in order
  std::set<std::string> ids;
  int32_t largest = 0;
  int64_t left = kMostCounts;
  size_t used = 0;
  const FileFacts* equal = nullptr;
  for (const FileFacts& file : files) {
    largest = std::max(largest, file.ras.largest);
    if (file.ras.largest > 0 && file.ras.comms.empty()) equal = &file;
    for (const RasComm& comm : file.ras.comms) {
      reports[{comm.id, comm.op}].push_back({&comm, &file});
      ids.insert(comm.id);
      largest = std::max(largest, comm.size);
    }
  }
  bool odd = false;
  for (const FileFacts& file : files) {
    odd |= !file.ras.odd.empty();
    ReportOdd(file, ranks);
  }
  if (reports.empty() && equal != nullptr && !odd) {
    ranks->Report(
        equal->path,
        "a report of ncclras in which the ranks of each communicator launched the same number of operations. This "
        "names no rank: the job runs, or a GPU, the network or a call with other arguments stops all of "
        "them. Flight Recorder dumps or `lockstep attach` show more");
  }
  for (const auto& [key, of] : reports) {
    const Reported& last = of.back();
    const std::string where = absl::StrCat("line ", last.comm->number, ": ");
    // In a running job, ranks differ by an operation or two at any moment.
    if (of.size() < 2 || of[of.size() - 2].comm->classes != last.comm->classes) {
      ranks->Report(last.file->path,
                    absl::StrCat(where, of.size() < 2 ? "a single report of ncclras does not show whether counts still "
                                                        "grow: add a second one, taken ten seconds later"
                                                      : "the counts of ncclras still grew between its reports"));
      continue;
    }
    int64_t size = last.comm->size, sum = 0, least = INT64_MAX;
    for (const RasClass& klass : last.comm->classes) {
      sum += klass.count;
      least = std::min(least, klass.launched);
    }
    if (size == 0) size = sum;
    // A report numbers ranks within their communicator. Numbers of several communicators, none of which is the job,
    // would name different ranks alike.
    const bool whole = size >= largest;
    std::vector<int64_t> counts;
    if (sum == size && (whole || ids.size() == 1) && size <= left && used < kMostGroupsOfRank)
      counts = CountsOf(*last.comm, static_cast<int32_t>(size));
    if (counts.empty()) {
      ranks->Report(
          last.file->path,
          absl::StrCat(where, "not used, because ncclras does not show which ranks of the job are in communicator ",
                       last.comm->id, ". ", Behind(*last.comm), " launched least"));
      continue;
    }
    if (!whole) {
      ranks->Report(last.file->path,
                    absl::StrCat(where, "ranks are numbered as in communicator ", last.comm->id, ", which has ", size,
                                 " of the job's ", largest, " ranks or more: host, GPU and process identify the rank"));
    }
    left -= size;
    ++used;
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      if (counts[rank] >= 0) AddRank(static_cast<int32_t>(rank), counts[rank], least, last, ranks);
    }
    for (const RasClass& klass : last.comm->classes) {
      for (const RasRank& listed : klass.ranks) {
        if (listed.rank >= size) continue;
        Rank& rank = ranks->Of(listed.rank, last.file->path)->rank;
        rank.host = listed.host;
        rank.pid = static_cast<int32_t>(listed.pid);
        rank.gpu_index = listed.gpu;
      }
    }
  }
}

}  // namespace lockstep::logs
