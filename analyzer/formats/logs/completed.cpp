// Reads completed operations from NCCL's Inspector. Its files do not contain operations in flight.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/logs/ranks.h"

namespace lockstep::logs {
namespace {

class Completed {
 public:
  Completed(const std::vector<FileFacts>& files, Ranks* out) : out_(*out) {
    for (const FileFacts& file : files) {
      for (const InspectorComm& comm : file.inspected) comms_.push_back({&file, &comm});
    }
  }

  void Run() {
    if (comms_.empty()) return;
    Place();
    std::map<std::string, std::map<int32_t, const Own*>> by_id;  // indexed by communicator, then by rank inside it
    for (const Own& own : comms_) {
      if (!rank_of_.contains({own.comm->host, own.comm->pid})) continue;
      std::map<std::string, int64_t> last;
      for (const InspectorOp& op : own.comm->newest) {
        int64_t& number = last[NameOf(*own.comm, op.kind)];
        number = std::max(number, op.number);
      }
      for (const auto& [name, number] : last)
        last_[name][number].push_back(rank_of_.at({own.comm->host, own.comm->pid}));
    }
    for (const Own& own : comms_) {
      const auto rank = rank_of_.find({own.comm->host, own.comm->pid});
      if (rank == rank_of_.end()) continue;
      Add(rank->second, own);
      by_id[own.comm->id].emplace(own.comm->rank, &own);
    }
    for (const auto& [id, members] : by_id) Claim(members);
    out_.Report(
        comms_[0].file->path,
        "NCCL's Inspector writes only complete operations, so its files do not show which rank the others wait for. "
        "`lockstep attach`, Flight Recorder dumps or NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL would show it");
    SayWhoIsBehind();
  }

 private:
  struct Own {
    const FileFacts* file;
    const InspectorComm* comm;
  };

  // Finds the rank of each process: its rank in the communicator of all ranks.
  void Place() {
    int32_t largest = 0;
    std::set<std::string> whole;
    for (const Own& own : comms_) largest = std::max(largest, own.comm->size);
    std::set<std::pair<std::string, int64_t>> several;
    for (const Own& own : comms_) {
      if (own.comm->size != largest) continue;
      whole.insert(own.comm->id);
      const auto [at, fresh] = rank_of_.try_emplace({own.comm->host, own.comm->pid}, own.comm->rank);
      if (!fresh && at->second != own.comm->rank) several.insert(at->first);
    }
    // Skips a process that drives several ranks.
    for (const auto& process : several) rank_of_.erase(process);
    if (whole.size() == 1) {
      out_.world = std::max(out_.world, largest);
      out_.sized = true;
      return;
    }
    rank_of_.clear();
    out_.Report(
        comms_[0].file->path,
        absl::StrCat(
            whole.size(), " communicators of ", largest,
            " ranks, and none that contains the whole job, so nothing shows which ranks they contain. Not used"));
  }

  static std::string NameOf(const InspectorComm& comm, ring::CallKind kind) {
    return absl::StrCat(ring::CallName(kind), " of comm ", comm.id);
  }

  // NCCL numbers each kind of operation separately, so each kind becomes a group.
  void Add(int32_t rank, const Own& own) {
    fr::FileData* const data = out_.Of(rank, own.file->path);
    data->rank.host = own.comm->host;
    data->rank.pid = static_cast<int32_t>(own.comm->pid);
    std::vector<InspectorOp> ops = own.comm->newest;
    std::sort(ops.begin(), ops.end(), [](const InspectorOp& a, const InspectorOp& b) { return a.number < b.number; });
    for (const InspectorOp& from : ops) {
      if (data->used.size() >= kMostGroupsOfRank) return;
      // Processes write at different times, so operations after the end of one file prove nothing about that file's
      // rank.
      if (from.number > last_.at(NameOf(*own.comm, from.kind)).begin()->first) continue;
      const uint32_t index = Ranks::GroupOf(data, NameOf(*own.comm, from.kind), own.comm->name);
      Op op;
      op.membership = index;
      op.seq = from.number;
      op.kind = from.kind;
      op.state = OpState::kCompleted;
      op.retired = true;
      op.enter_ns = from.called_ns;
      op.started_ns = from.started_ns;
      op.completed_ns = from.completed_ns;
      op.record_id = op.index = static_cast<int64_t>(data->rank.ops.size());
      data->rank.ops.push_back(op);
      data->rank.start_recorded |= from.started_ns > 0;
      if (from.started_ns > 0) data->rank.time_source = TimeSource::kFramework;
      fr::UsedGroup& used = data->used[index];
      used.own_group_rank = own.comm->rank;
      used.size_hint = own.comm->size;
      ++kept_[{rank, index}];
      used.collectives = used.progress.issued = used.progress.completed = std::max(used.collectives, from.number);
      used.unrecorded = std::max<int64_t>(used.collectives - kept_[{rank, index}], 0);
    }
  }

  // If all members are known, the first member's data lists them.
  void Claim(const std::map<int32_t, const Own*>& members) {
    const Own& first = *members.begin()->second;
    if (members.size() != static_cast<size_t>(first.comm->size) || listed_ + first.comm->size > kMaxMemberEntries)
      return;
    std::vector<int32_t> ranks;
    ranks.reserve(members.size());
    for (const auto& [inside, own] : members) ranks.push_back(rank_of_.at({own->comm->host, own->comm->pid}));
    fr::FileData& data = out_.ranks.at(ranks[0]);
    const std::vector<fr::UsedGroup> groups = data.used;
    for (const fr::UsedGroup& group : groups) {
      if (!group.name.ends_with(absl::StrCat(" of comm ", first.comm->id))) continue;
      data.claims.push_back({group.name, group.desc, ranks});
      listed_ += first.comm->size;
    }
  }

  void SayWhoIsBehind() {
    constexpr int kMostShown = 3;
    int shown = 0;
    for (const auto& [group, ranks] : last_) {
      if (ranks.size() < 2 || shown++ == kMostShown) continue;
      const auto& [number, behind] = *ranks.begin();
      out_.Report(
          comms_[0].file->path,
          absl::StrCat("the last ", group, " in the file of rank ", behind[0],
                       behind.size() > 1 ? absl::StrCat(" (and of ", behind.size() - 1, " more)") : "", " is #", number,
                       "; other files reach #", ranks.rbegin()->first,
                       ". Either it wrote its file earlier than the others, or it is still in a later operation"));
    }
  }

  Ranks& out_;
  std::vector<Own> comms_;
  std::map<std::pair<std::string, int64_t>, int32_t> rank_of_;           // indexed by host and process
  std::map<std::pair<int32_t, uint32_t>, int64_t> kept_;                 // number of operations, by rank and group
  std::map<std::string, std::map<int64_t, std::vector<int32_t>>> last_;  // indexed by group: ranks by the newest number
  int64_t listed_ = 0;
};

}  // namespace

void AddCompleted(const std::vector<FileFacts>& files, Ranks* ranks) { Completed(files, ranks).Run(); }

}  // namespace lockstep::logs
