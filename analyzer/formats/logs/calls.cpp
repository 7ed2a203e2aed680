// Calls that NCCL printed: which rank made them, on which communicator, and their numbers in it.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/ranks.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep::logs {
namespace {

// One process's part of a communicator.
struct Part {
  const NcclProcess* process = nullptr;
  const NcclComm* comm = nullptr;
  const FileFacts* file = nullptr;
  int32_t rank = -1;  // global
};

class Calls {
 public:
  Calls(const std::vector<FileFacts>& files, Ranks* out) : out_(*out) {
    for (const FileFacts& file : files) {
      for (const NcclProcess& process : file.nccl) {
        processes_.emplace_back(&file, &process);
        for (const NcclComm& comm : process.comms) largest_ = std::max(largest_, comm.size);
      }
    }
  }

  void Run() {
    if (processes_.empty()) return;
    PlaceByOrder();
    std::map<std::string, std::vector<Part>> comms;
    for (const auto& [file, process] : processes_) {
      const int32_t rank = RankOf(*file, *process);
      if (rank < 0) {
        if (unplaced_++ == 0)
          out_.Report(file->path, absl::StrCat("line ", process->number, ": nothing says which rank process ",
                                               process->pid, " on ", process->host,
                                               " is; NCCL_DEBUG_SUBSYS=INIT,COLL "
                                               "would. It and those like it are not used"));
        continue;
      }
      std::map<int32_t, int> of_size;
      for (const NcclComm& comm : process->comms) {
        // Without identities, communicators are told apart by their size and the order of first use.
        const int ordinal = comm.id != 0 ? 0 : of_size[comm.size]++;
        if (comm.calls == 0) continue;
        std::string name = comm.id != 0 ? absl::StrCat("comm ", absl::Hex(comm.id))
                                        : absl::StrCat("comm of ", comm.size, " ranks",
                                                       ordinal > 0 ? absl::StrCat(" (", ordinal + 1, ")") : "");
        comms[std::move(name)].push_back({process, &comm, file, rank});
      }
    }
    for (const auto& [name, parts] : comms) AddComm(name, parts);
    if (used_order_)
      out_.Report(
          processes_[0].first->path,
          "no line says the ranks of NCCL's processes: they are taken in the order of hosts, GPUs and processes", -1,
          true);
  }

 private:
  // Without anything better ranks are taken in the order in which launchers give them: by host, GPU and process. All of
  // them must be there, or on one host those that are there have GPUs of their own.
  void PlaceByOrder() {
    std::vector<const NcclProcess*> order;
    std::set<int32_t> gpus;
    for (const auto& [file, process] : processes_) {
      order.push_back(process);
      gpus.insert(process->gpu);
    }
    const auto less = [](const NcclProcess* a, const NcclProcess* b) {
      if (a->host != b->host) return HostBefore(a->host, b->host);
      return a->gpu != b->gpu ? a->gpu < b->gpu : a->pid < b->pid;
    };
    std::sort(order.begin(), order.end(), less);
    std::set<std::string> hosts;
    for (const NcclProcess* process : order) hosts.insert(process->host);
    if (hosts.size() == 1 && gpus.size() == order.size() && *gpus.begin() >= 0 && *gpus.rbegin() < largest_) {
      for (const NcclProcess* process : order) by_order_[process] = process->gpu;
    } else if (order.size() == static_cast<size_t>(largest_)) {
      for (size_t i = 0; i < order.size(); ++i) by_order_[order[i]] = static_cast<int32_t>(i);
    }
  }

  // node2 before node10.
  static bool HostBefore(std::string_view a, std::string_view b) {
    while (!a.empty() && !b.empty()) {
      if (fr::IsDigit(a[0]) && fr::IsDigit(b[0])) {
        const auto digits = [](std::string_view* text) {
          size_t count = 0;
          while (count < text->size() && fr::IsDigit((*text)[count])) ++count;
          std::string_view number = text->substr(0, count);
          text->remove_prefix(count);
          while (number.size() > 1 && number[0] == '0') number.remove_prefix(1);
          return number;
        };
        const std::string_view x = digits(&a), y = digits(&b);
        if (x != y) return x.size() != y.size() ? x.size() < y.size() : x < y;
        continue;
      }
      if (a[0] != b[0]) return a[0] < b[0];
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
    return a.size() < b.size();
  }

  int32_t RankOf(const FileFacts& file, const NcclProcess& process) {
    if (process.who.rank >= 0) return process.who.rank;
    if (process.global_rank >= 0) return process.global_rank;
    for (const NcclComm& comm : process.comms) {
      if (comm.rank >= 0 && comm.size == largest_) return comm.rank;
    }
    if (process.who.task >= 0) return process.who.task;
    if (file.rank >= 0) return file.rank;
    const auto placed = by_order_.find(&process);
    used_order_ |= placed != by_order_.end();
    return placed == by_order_.end() ? -1 : placed->second;
  }

  // Numbers of calls that mean the same on all ranks: opCount where it moves with each call, else their order, from
  // the same beginning.
  bool Numbered(const std::vector<Part>& parts, bool* by_count) const {
    *by_count = std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.comm->by_count; });
    return *by_count || std::all_of(parts.begin(), parts.end(), [&](const Part& p) {
      return p.comm->first_op_count == parts[0].comm->first_op_count;
    });
  }

  void AddComm(const std::string& name, const std::vector<Part>& parts) {
    const int32_t size = parts[0].comm->size;
    std::set<int32_t> ranks;
    for (const Part& part : parts) ranks.insert(part.rank);
    if (ranks.size() != parts.size() || parts.size() > static_cast<size_t>(size)) {
      out_.Report(parts[0].file->path, absl::StrCat(parts.size(), " processes use a ", name,
                                                    ", and nothing shows which belong together: "
                                                    "NCCL_DEBUG_SUBSYS=INIT,COLL would. Not used"));
      return;
    }
    bool by_count = false;
    if (!Numbered(parts, &by_count)) {
      out_.Report(parts[0].file->path,
                  absl::StrCat("calls on ", name, " do not begin at the same one on all ranks: not compared"));
      return;
    }
    const bool known = std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.comm->rank >= 0; });
    std::vector<int32_t> members;
    if (known && parts.size() == static_cast<size_t>(size)) {
      members.assign(parts.size(), -1);
      for (const Part& part : parts) members[static_cast<size_t>(std::min(part.comm->rank, size - 1))] = part.rank;
      if (std::find(members.begin(), members.end(), -1) != members.end()) members.clear();
    } else if (size == largest_) {
      for (int32_t rank = 0; rank < size; ++rank) members.push_back(rank);
      if (*ranks.rbegin() >= size) members.clear();
    }
    for (const Part& part : parts) AddPart(name, part, by_count);
    // One rank's list is enough.
    if (members.empty() || listed_ + size > kMaxMemberEntries) return;
    listed_ += size;
    out_.Of(parts[0].rank, parts[0].file->path)->claims.push_back({name, "", std::move(members)});
  }

  void AddPart(const std::string& name, const Part& part, bool by_count) {
    fr::FileData* const data = out_.Of(part.rank, part.file->path);
    if (data->used.size() >= kMostGroupsOfRank) {
      if (too_many_++ == 0)
        out_.Report(part.file->path,
                    absl::StrCat("more than ", kMostGroupsOfRank, " communicators: the rest is not used"), part.rank);
      return;
    }
    data->rank.host = part.process->host;
    data->rank.pid = static_cast<int32_t>(part.process->pid);
    data->rank.gpu_index = part.process->gpu;
    const uint32_t index = Ranks::GroupOf(data, name, "");
    std::vector<std::pair<int64_t, NcclCall>> calls = part.comm->newest;
    std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const int64_t first = part.comm->calls - static_cast<int64_t>(calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      const NcclCall& call = calls[i].second;
      Op op;
      op.membership = index;
      op.kind = call.kind;
      op.seq = by_count ? static_cast<int64_t>(std::min<uint64_t>(call.op_count, fr::kMaxCounter))
                        : first + static_cast<int64_t>(i) + 1;
      op.count = call.count;
      if (call.datatype >= 0 && call.datatype < ring::kNoDatatype) op.datatype = static_cast<uint8_t>(call.datatype);
      const CallFacts& facts = CallFactsOf(call.kind);
      const bool reduces = call.kind == ring::CallKind::kAllReduce || call.kind == ring::CallKind::kReduce ||
                           call.kind == ring::CallKind::kReduceScatter;
      // A communicator's own operations have numbers that mean nothing elsewhere.
      constexpr int32_t kBuiltIn = 5;
      if (reduces && call.reduction >= 0 && call.reduction < kBuiltIn)
        op.reduction = static_cast<uint8_t>(call.reduction);
      if (facts.has_root) op.root_or_peer = call.root;
      op.record_id = calls[i].first;
      op.index = op.record_id;
      data->rank.ops.push_back(op);
    }
    fr::UsedGroup& used = data->used[index];
    used.own_group_rank = part.comm->rank;
    used.size_hint = part.comm->size;
    if (calls.empty()) return;
    used.collectives = used.progress.issued = data->rank.ops.back().seq;
    used.first_collective = used.collectives - part.comm->calls + 1;
    used.collective_zero = used.first_collective == 0;
    used.progress.p2p_issued = kUnknown;
  }

  Ranks& out_;
  std::vector<std::pair<const FileFacts*, const NcclProcess*>> processes_;
  int32_t largest_ = 0;
  int64_t listed_ = 0;  // entries of lists of members
  std::map<const NcclProcess*, int32_t> by_order_;
  bool used_order_ = false;
  int64_t unplaced_ = 0, too_many_ = 0;
};

}  // namespace

void AddCalls(const std::vector<FileFacts>& files, Ranks* ranks) {
  Calls(files, ranks).Run();
  for (auto& [rank, data] : ranks->ranks) {
    std::stable_sort(data.rank.ops.begin(), data.rank.ops.end(),
                     [](const Op& a, const Op& b) { return a.record_id < b.record_id; });
  }
}

}  // namespace lockstep::logs
