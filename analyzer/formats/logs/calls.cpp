// Reads calls that NCCL printed: which rank made them, on which communicator, and their numbers there.
#include <algorithm>
#include <iterator>
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

// One process's part in a communicator.
struct Part {
  const NcclProcess* process = nullptr;
  const NcclComm* comm = nullptr;
  const FileFacts* file = nullptr;
  int32_t rank = -1;  // global rank
  std::string kind;   // kind of the communicator
};

// Returns "" for 0, " B" for 1, " C" for 2. Uses letters, because names that differ only in digits count as one kind.
std::string Letters(int ordinal) {
  std::string letters;
  for (int left = ordinal; left > 0; left /= 26) letters.insert(letters.begin(), static_cast<char>('A' + left % 26));
  return letters.empty() ? "" : " " + letters;
}

class Calls {
 public:
  Calls(const std::vector<FileFacts>& files, Ranks* out) : out_(*out) {
    for (const FileFacts& file : files) {
      for (const NcclProcess& process : file.nccl) {
        (process.comms.empty() ? bare_ : processes_).emplace_back(&file, &process);
        for (const NcclComm& comm : process.comms) largest_ = std::max(largest_, comm.size);
        memberships_ += process.comms.size();
        if (process.who.task >= 0) ++of_task_[process.who.task];
        if (file.rank >= 0) ++of_file_[file.rank];
      }
    }
    // More processes than members: no communicator contains the whole job, so none numbers its ranks.
    if (processes_.size() > static_cast<size_t>(largest_)) world_ = static_cast<int32_t>(processes_.size());
  }

  void Run() {
    if (processes_.empty()) return;
    PlaceByOrder();
    const std::set<int32_t> unclear = UnclearSizes();
    std::map<std::string, std::vector<Part>> comms;
    for (const auto& [file, process] : processes_) {
      const int32_t rank = RankOf(*file, *process);
      if (rank < 0) {
        if (unplaced_++ == 0)
          out_.Report(
              file->path,
              absl::StrCat("line ", process->number, ": no line shows which rank process ", process->pid, " on ",
                           process->host,
                           " is; NCCL_DEBUG_SUBSYS=INIT,COLL would. This process and others like it are not used"));
        continue;
      }
      out_.AddPlace(rank, process->host, process->pid, process->pci);
      std::map<int32_t, int> of_size;
      for (const NcclComm& comm : process->comms) {
        // Ranks create their communicators in the same order. So the order of communicators of one size shows their
        // kind and, if no identity was printed, the communicator itself.
        const int ordinal = of_size[comm.size]++;
        std::string kind = absl::StrCat("comm of ", comm.size, " ranks", Letters(ordinal));
        std::string name = Identity(*process, comm);
        // If the communicator's identity is known, a rank that made no call on it may be the one that others wait for.
        if (unclear.contains(comm.size) || (name.empty() && !Used(comm))) continue;
        if (name.empty()) name = kind;
        comms[std::move(name)].push_back({process, &comm, file, rank, std::move(kind)});
      }
    }
    const auto any = [](const std::vector<Part>& parts, const auto& is) {
      return std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return is(*part.comm); });
    };
    making_ =
        std::any_of(comms.begin(), comms.end(), [&](const auto& entry) { return any(entry.second, InTheMaking); });
    scattered_ = EndsAreScattered(comms);
    if (scattered_)
      out_.Report(processes_[0].first->path,
                  "the ranks' last calls are at many different places: either the job was still running, or the end of "
                  "the log is missing for some ranks. Only calls up to the last one of all ranks are compared");
    // A rank that others wait for may itself wait on a communicator that is not used.
    scattered_ |= !unclear.empty() || std::any_of(comms.begin(), comms.end(), [&](const auto& entry) {
      return any(entry.second, Used) && Mixed(entry.second);
    });
    for (const auto& [name, parts] : comms) {
      // Other communicators show which ranks are missing from one that is being created.
      if (any(parts, Used) || making_) AddComm(name, parts);
    }
    AddBare();
    if (used_order_)
      out_.Report(processes_[0].first->path,
                  "no line shows the ranks of NCCL's processes; assuming that they follow the order of hosts, GPUs and "
                  "processes",
                  -1, true);
  }

 private:
  static bool Used(const NcclComm& comm) { return comm.calls > 0 || comm.all_transfers > 0; }

  static bool InTheMaking(const NcclComm& comm) { return comm.begun && !comm.made && !Used(comm); }

  // Returns whether a hang does not explain where the ranks end, or lines are missing. In a job that hangs, only a few
  // ranks are behind: the one that others wait for, and those that wait for it elsewhere. In a running job, or in
  // truncated logs, ranks end anywhere.
  bool EndsAreScattered(const std::map<std::string, std::vector<Part>>& comms) const {
    constexpr size_t kMostEnds = 3;
    std::set<int32_t> ranks, behind;
    for (const auto& [name, parts] : comms) {
      for (const Part& part : parts) ranks.insert(part.rank);
      bool by_count = false;
      if (!Numbered(parts, &by_count)) continue;
      // If lines are missing in the middle, the last ones may be missing, too.
      if (by_count && std::any_of(parts.begin(), parts.end(), [](const Part& part) { return HasHole(*part.comm); }))
        return true;
      std::map<int64_t, std::vector<int32_t>> ends;
      for (const Part& part : parts) ends[LastOf(part, by_count)].push_back(part.rank);
      const bool few = parts.size() == 2 || ends.begin()->second.size() * 2 < parts.size();
      if (ends.size() > kMostEnds || (ends.size() > 1 && !few)) return true;
      if (ends.size() > 1) behind.insert(ends.begin()->second.begin(), ends.begin()->second.end());
    }
    // Ranks without any line are behind, too.
    const size_t all = std::max(ranks.size(), static_cast<size_t>(largest_));
    return !behind.empty() && (behind.size() + all - ranks.size()) * 2 > all;
  }

  // Returns the sizes of communicators that cannot be matched on all ranks, because the log begins after some of their
  // creations.
  std::set<int32_t> UnclearSizes() {
    std::set<int32_t> identified, nameless, out;
    for (const auto& [file, process] : processes_) {
      // By size: the number of communicators without identity, and whether one began before the log.
      std::map<int32_t, std::pair<int, bool>> of_size;
      for (const NcclComm& comm : process->comms) {
        if (!Identity(*process, comm).empty()) {
          identified.insert(comm.size);
        } else if (Used(comm)) {
          nameless.insert(comm.size);
          auto& [count, began_earlier] = of_size[comm.size];
          began_earlier |= !FromItsBeginning(comm);
          if (++count > 1 && began_earlier) out.insert(comm.size);
        }
      }
    }
    std::set_intersection(identified.begin(), identified.end(), nameless.begin(), nameless.end(),
                          std::inserter(out, out.end()));
    for (const int32_t size : out)
      out_.Report(processes_[0].first->path,
                  absl::StrCat("the log does not begin with the creation of all communicators of ", size,
                               " ranks, so the ranks' communicators cannot be matched and are not compared"));
    return out;
  }

  // Returns the identity that all members print for the communicator; empty if there is none.
  static std::string Identity(const NcclProcess& process, const NcclComm& comm) {
    if (comm.id != 0) return absl::StrCat("comm ", absl::Hex(comm.id));
    constexpr int kMostSplits = 8;  // limit on nested splits
    std::string splits;
    const NcclComm* at = &comm;
    for (int i = 0; at->id == 0; ++i) {
      if (at->parent >= process.comms.size() || i == kMostSplits) return "";
      absl::StrAppend(&splits, "split ", at->ordinal, " color ", at->color, " of ");
      at = &process.comms[at->parent];
    }
    return absl::StrCat(splits, "comm ", absl::Hex(at->id));
  }

  // Adds processes that printed neither a call nor a creation: they are alive, and have not reached the others' calls.
  void AddBare() {
    std::set<std::pair<std::string, int64_t>> known;
    for (const auto& [file, process] : processes_) known.insert({process->host, process->pid});
    for (const auto& [file, process] : bare_) {
      const int32_t rank = known.contains({process->host, process->pid}) ? -1 : RankOf(*file, *process);
      if (rank < 0 || rank >= std::max(world_, largest_) || out_.ranks.contains(rank)) continue;
      Rank& added = out_.Of(rank, file->path)->rank;
      added.host = process->host;
      added.pid = static_cast<int32_t>(process->pid);
    }
  }

  // Numbers processes in the order that launchers use: host, GPU, process. RankOf uses this number if nothing else
  // shows the rank. Needs all ranks, or one host and one process per GPU.
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
    const int32_t world = std::max(world_, largest_);
    if (hosts.size() == 1 && gpus.size() == order.size() && *gpus.begin() >= 0 && *gpus.rbegin() < world) {
      for (const NcclProcess* process : order) by_order_[process] = process->gpu;
    } else if (order.size() == static_cast<size_t>(world)) {
      for (size_t i = 0; i < order.size(); ++i) by_order_[order[i]] = static_cast<int32_t>(i);
    }
  }

  // Returns whether host `a` precedes `b`: node2 precedes node10.
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
      if (comm.rank >= 0 && comm.size == largest_ && world_ == 0) return comm.rank;
    }
    // If several processes have one label, it is a host's.
    if (process.who.task >= 0 && of_task_.at(process.who.task) == 1) return process.who.task;
    if (file.rank >= 0 && of_file_.at(file.rank) == 1) return file.rank;
    const auto placed = by_order_.find(&process);
    used_order_ |= placed != by_order_.end();
    return placed == by_order_.end() ? -1 : placed->second;
  }

  // Returns whether calls have numbers that are equal on all ranks. The number is opCount if it grows with each call.
  // Otherwise it is the calls' order, if all records begin at the same call.
  bool Numbered(const std::vector<Part>& parts, bool* by_count) const {
    const NcclComm* first = nullptr;
    bool same_beginning = true;
    *by_count = true;
    for (const Part& part : parts) {
      if (part.comm->calls == 0) continue;
      if (first == nullptr) first = part.comm;
      // Sends and receives increment the count as well, and differ between ranks.
      *by_count &= part.comm->by_count && part.comm->all_transfers == 0;
      same_beginning &= part.comm->first_op_count == first->first_op_count || part.comm->id != 0;
    }
    return *by_count || same_beginning;
  }

  // Returns whether these are the parts of several communicators.
  static bool Mixed(const std::vector<Part>& parts) {
    std::set<int32_t> ranks;
    for (const Part& part : parts) ranks.insert(part.rank);
    return ranks.size() != parts.size() || parts.size() > static_cast<size_t>(parts[0].comm->size);
  }

  void AddComm(const std::string& name, const std::vector<Part>& parts) {
    const int32_t size = parts[0].comm->size;
    std::set<int32_t> ranks;
    for (const Part& part : parts) ranks.insert(part.rank);
    if (Mixed(parts)) {
      out_.Report(
          parts[0].file->path,
          absl::StrCat(
              parts.size(), " processes use a ", name,
              ", and nothing shows which of them belong together: NCCL_DEBUG_SUBSYS=INIT,COLL would. Not used"));
      return;
    }
    bool by_count = false;
    if (!Numbered(parts, &by_count)) {
      out_.Report(
          parts[0].file->path,
          absl::StrCat("calls on ", name, " do not begin at the same call on all ranks, so they are not compared"));
      return;
    }
    const bool known = std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.comm->rank >= 0; });
    std::vector<int32_t> members;
    // While a communicator is being created, only the largest one is listed: InferMembers() then finds missing members
    // by the positions of members in complete communicators.
    if (known && parts.size() == static_cast<size_t>(size) && (!making_ || size == largest_)) {
      members.assign(parts.size(), -1);
      for (const Part& part : parts) members[static_cast<size_t>(std::min(part.comm->rank, size - 1))] = part.rank;
      if (std::find(members.begin(), members.end(), -1) != members.end()) members.clear();
    } else if (size == largest_ && world_ == 0 && listed_ + size <= MostListed(memberships_)) {
      listed_ += size;
      for (int32_t rank = 0; rank < size; ++rank) members.push_back(rank);
      if (*ranks.rbegin() >= size) members.clear();
    }
    int64_t least = INT64_MAX;
    for (const Part& part : parts) least = std::min(least, LastOf(part, by_count));
    const auto place_of = [&](const Part& part) {
      return part.comm->rank < 0 && size == largest_ && world_ == 0 ? part.rank : part.comm->rank;
    };
    std::map<int32_t, Lanes> lanes;  // indexed by rank inside the communicator
    for (const Part& part : parts) {
      if (place_of(part) >= 0 && FromItsBeginning(*part.comm)) lanes[place_of(part)] = LanesOf(*part.comm);
    }
    // No member returns from a creation before all members have entered it. So lines of the other members are missing
    // here.
    const bool made = std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.comm->made; });
    const bool in_part = made && parts.size() < static_cast<size_t>(size);
    for (const Part& part : parts) {
      AddPart(name, part, by_count, least, InTheMaking(*part.comm) && !in_part);
      if (!scattered_ && lanes.contains(place_of(part))) AddTransfers(name, part, place_of(part), lanes);
    }
    // The list is stored for only one rank, which is enough.
    if (members.empty() || (in_part && making_)) return;
    out_.Of(parts[0].rank, parts[0].file->path)->claims.push_back({name, parts[0].kind, std::move(members)});
  }

  static int64_t FirstOf(const NcclComm& comm) {
    return static_cast<int64_t>(std::min<uint64_t>(comm.first_op_count, fr::kMaxCounter));
  }

  static bool HasHole(const NcclComm& comm) {
    return comm.calls > 0 &&
           static_cast<int64_t>(std::min<uint64_t>(comm.last_op_count, fr::kMaxCounter)) - FirstOf(comm) + 1 >
               comm.calls;
  }

  static int64_t LastOf(const Part& part, bool by_count) {
    const NcclComm& comm = *part.comm;
    if (comm.calls == 0) return by_count ? kNone : 0;
    if (!by_count) return comm.calls;
    return static_cast<int64_t>(std::min<uint64_t>(comm.last_op_count, fr::kMaxCounter));
  }

  // One rank's sends to, or receives from, one peer.
  struct Lane {
    int64_t calls = 0;
    std::map<int64_t, const NcclTransfer*> kept;  // indexed by number

    int64_t oldest() const { return kept.empty() ? calls + 1 : kept.begin()->first; }
  };
  using Lanes = std::map<std::pair<ring::CallKind, int32_t>, Lane>;

  static Lanes LanesOf(const NcclComm& comm) {
    Lanes lanes;
    for (const auto& [key, calls] : comm.transfers) lanes[key].calls = calls;
    for (const NcclTransfer& transfer : comm.newest_transfers)
      lanes[{transfer.call.kind, transfer.call.root}].kept[transfer.number] = &transfer;
    return lanes;
  }

  // Returns whether the record covers the communicator from its beginning: its creation, or a call that NCCL numbers
  // 0.
  static bool FromItsBeginning(const NcclComm& comm) {
    const bool sent = !comm.newest_transfers.empty() && comm.newest_transfers[0].call.op_count == 0;
    return comm.begun || comm.made || sent || (comm.calls > 0 && comm.first_op_count == 0);
  }

  // Sends match receives in order. The records of both sides must begin at the same transfer, because numbers count
  // from the first recorded transfer. If the other side was not issued, or has a different size, the operation cannot
  // be complete.
  void AddTransfers(const std::string& name, const Part& part, int32_t place, const std::map<int32_t, Lanes>& lanes) {
    std::vector<std::pair<const NcclTransfer*, bool>> add;  // bool: the operation cannot be complete
    for (const auto& [key, own] : lanes.at(place)) {
      const auto other = lanes.find(key.second);
      if (other == lanes.end()) continue;
      const auto reverse = other->second.find({OtherSideOf(key.first), place});
      const Lane nothing, &theirs = reverse == other->second.end() ? nothing : reverse->second;
      const int64_t matched = std::min(own.calls, theirs.calls);
      const int64_t from = std::max(own.oldest(), theirs.oldest());
      if (from > matched + 1) continue;
      for (auto at = own.kept.lower_bound(from); at != own.kept.end(); ++at) {
        bool open = at->first > matched;
        if (const auto mate = theirs.kept.find(at->first); !open && mate != theirs.kept.end()) {
          const NcclCall &mine = at->second->call, &others = mate->second->call;
          open = mine.count != others.count || mine.datatype != others.datatype;
        }
        add.emplace_back(at->second, open);
      }
    }
    if (add.empty()) return;
    std::sort(add.begin(), add.end(),
              [](const auto& a, const auto& b) { return a.first->number_in_process < b.first->number_in_process; });
    fr::FileData* const data = out_.Of(part.rank, part.file->path);
    const uint32_t index = Ranks::GroupOf(data, name, part.kind);
    data->used[index].has_p2p = true;
    const NcclTransfer* before = nullptr;
    for (const auto& [transfer, open] : add) {
      Op op = OpOf(index, transfer->call, transfer->number_in_process);
      op.seq = transfer->number;
      op.root_or_peer = transfer->call.root;
      if (open) op.state = OpState::kIncomplete;
      // The lines do not show groups. Sends and receives of one group are adjacent and have the same opCount.
      const bool same = before != nullptr && before->call.op_count == transfer->call.op_count &&
                        before->number_in_process + 1 == transfer->number_in_process;
      if (!same) ++groups_of_transfers_;
      op.group = groups_of_transfers_;
      before = transfer;
      data->rank.ops.push_back(op);
    }
  }

  static Op OpOf(uint32_t membership, const NcclCall& call, int64_t number_in_process) {
    Op op;
    op.membership = membership;
    op.kind = call.kind;
    op.count = call.count;
    if (call.datatype >= 0 && call.datatype < ring::kNoDatatype) op.datatype = static_cast<uint8_t>(call.datatype);
    op.record_id = number_in_process;
    op.index = number_in_process;
    return op;
  }

  void AddPart(const std::string& name, const Part& part, bool by_count, int64_t least, bool making) {
    fr::FileData* const data = out_.Of(part.rank, part.file->path);
    if (data->used.size() >= kMostGroupsOfRank) {
      if (too_many_++ == 0)
        out_.Report(part.file->path,
                    absl::StrCat("more than ", kMostGroupsOfRank, " communicators; the rest is not used"), part.rank);
      return;
    }
    data->rank.host = part.process->host;
    data->rank.pid = static_cast<int32_t>(part.process->pid);
    data->rank.gpu_index = part.process->gpu;
    const uint32_t index = Ranks::GroupOf(data, name, part.kind);
    std::vector<std::pair<int64_t, NcclCall>> calls = part.comm->newest;
    std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const int64_t first = part.comm->calls - static_cast<int64_t>(calls.size());
    const auto number = [&](size_t i) {
      return by_count ? static_cast<int64_t>(std::min<uint64_t>(calls[i].second.op_count, fr::kMaxCounter))
                      : first + static_cast<int64_t>(i) + 1;
    };
    while (scattered_ && !calls.empty() && number(calls.size() - 1) > least) calls.pop_back();
    for (size_t i = 0; i < calls.size(); ++i) {
      const NcclCall& call = calls[i].second;
      Op op = OpOf(index, call, calls[i].first);
      op.seq = number(i);
      // Some member has issued no operation after `least`.
      if (op.seq > least && NeedsEveryMember(call.kind)) op.state = OpState::kIncomplete;
      const CallFacts& facts = CallFactsOf(call.kind);
      const bool reduces = call.kind == ring::CallKind::kAllReduce || call.kind == ring::CallKind::kReduce ||
                           call.kind == ring::CallKind::kReduceScatter;
      // The number of NCCL's built-in reductions. Larger numbers are custom reductions of one communicator.
      constexpr int32_t kBuiltIn = 5;
      if (reduces && call.reduction >= 0 && call.reduction < kBuiltIn)
        op.reduction = static_cast<uint8_t>(call.reduction);
      if (facts.has_root) op.root_or_peer = call.root;
      data->rank.ops.push_back(op);
    }
    fr::UsedGroup& used = data->used[index];
    used.own_group_rank = part.comm->rank;
    used.counted_inside = true;
    used.size_hint = part.comm->size;
    used.origin = part.comm->created_by;
    if (making) used.state = ring::CommState::kInitializing;
    used.progress.p2p_issued = kUnknown;
    if (calls.empty()) {
      used.collectives = used.progress.issued = kNone;
      return;
    }
    used.collectives = used.progress.issued = scattered_ ? least : data->rank.ops.back().seq;
    used.first_collective = by_count ? FirstOf(*part.comm) : 1;
    // Lines are missing wherever the count jumps.
    if (by_count)
      used.unrecorded = std::max<int64_t>(LastOf(part, by_count) - used.first_collective + 1 - part.comm->calls, 0);
    used.collective_zero = used.first_collective == 0;
  }

  Ranks& out_;
  std::vector<std::pair<const FileFacts*, const NcclProcess*>> processes_, bare_;
  int32_t largest_ = 0, world_ = 0;           // world_: 0 if the largest communicator may be the whole job
  std::map<int32_t, int> of_task_, of_file_;  // number of processes by label
  size_t memberships_ = 0;
  int64_t listed_ = 0;  // total number of entries in member lists
  std::map<const NcclProcess*, int32_t> by_order_;
  bool used_order_ = false, making_ = false;
  bool scattered_ = false;  // ranks end at many different calls
  int64_t unplaced_ = 0, too_many_ = 0;
  uint32_t groups_of_transfers_ = 0;
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
