// Counts from ncclras: ranks that launched fewer operations than the others, and do not move.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/logs/ranks.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostCounts = 1 << 18;  // of all communicators together

struct Reported {
  const RasComm* comm;
  const FileFacts* file;
};

// Each rank's count; -1: the report does not list it. Only one class may be too large to be listed.
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

}  // namespace

void AddCounts(const std::vector<FileFacts>& files, Ranks* ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<Reported>> reports;  // id and kind, in order
  int32_t largest = 0;
  int64_t left = kMostCounts;
  size_t used = 0;
  for (const FileFacts& file : files) {
    for (const RasComm& comm : file.ras) {
      reports[{comm.id, comm.op}].push_back({&comm, &file});
      largest = std::max(largest, comm.size);
    }
  }
  for (const auto& [key, of] : reports) {
    const Reported& last = of.back();
    const std::string where = absl::StrCat("line ", last.comm->number, ": ");
    // Ranks of a job that runs differ by an operation or two at any moment.
    if (of.size() < 2 || of[of.size() - 2].comm->classes != last.comm->classes) {
      ranks->Report(last.file->path,
                    absl::StrCat(where, of.size() < 2 ? "one report of ncclras alone does not tell whether "
                                                        "counts still grow: add a second one, ten seconds later"
                                                      : "counts of ncclras still grew between its reports"));
      continue;
    }
    int64_t size = last.comm->size, sum = 0, least = INT64_MAX;
    for (const RasClass& klass : last.comm->classes) {
      sum += klass.count;
      least = std::min(least, klass.launched);
    }
    if (size == 0) size = sum;
    std::vector<int64_t> counts;
    if (sum == size && size >= largest && size <= left && used < kMostGroupsOfRank)
      counts = CountsOf(*last.comm, static_cast<int32_t>(size));
    if (counts.empty()) {
      ranks->Report(last.file->path, absl::StrCat(where, "which ranks of the job are in communicator ", last.comm->id,
                                                  " is not known: not used"));
      continue;
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
