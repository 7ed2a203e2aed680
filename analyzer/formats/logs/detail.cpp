// Reports of TORCH_DISTRIBUTED_DEBUG=DETAIL: calls that differ, ranks that did not reach a barrier.
#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/logs/ranks.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostImplied = 1 << 17;  // calls that fingerprints imply

}  // namespace

void AddFingerprints(const std::vector<FileFacts>& files, Ranks* ranks) {
  struct Call {
    const Fingerprint* print;
    const std::string* path;
  };
  std::map<int64_t, std::map<int32_t, Call>> calls;  // number -> rank
  int64_t implied = 0;
  const auto add = [&](int32_t rank, const Fingerprint& print, const std::string& path, bool replace) {
    if (rank < 0) return;
    auto& of_seq = calls[print.seq == kUnknown ? 1 : print.seq];
    if (replace) {
      of_seq.insert_or_assign(rank, Call{&print, &path});
    } else {
      of_seq.try_emplace(rank, Call{&print, &path});
    }
  };
  for (const FileFacts& file : files) {
    for (const auto& said : file.fingerprints) {
      if (said.who.rank >= 0 && said.who.rank != said.what.own) {
        ranks->Report(file.path,
                      absl::StrCat("line ", said.number,
                                   ": calls differ in a group that it does not name; "
                                   "not used"),
                      said.who.rank);
        continue;
      }
      add(said.what.own, said.what.own_call, file.path, true);
      add(said.what.other, said.what.other_call, file.path, false);
    }
  }
  for (const FileFacts& file : files) {
    for (const auto& said : file.fingerprints) {
      if (said.who.rank >= 0 && said.who.rank != said.what.own) continue;
      for (int32_t rank = 0; rank < said.what.other && implied < kMostImplied; ++rank, ++implied)
        add(rank, said.what.own_call, file.path, false);
    }
  }
  for (const auto& [seq, of_seq] : calls) {
    for (const auto& [rank, call] : of_seq) {
      fr::FileData* const data = ranks->Of(rank, *call.path);
      data->rank.only_active = true;
      const uint32_t index = Ranks::GroupOf(data, kWholeName, kWholeDesc);
      fr::UsedGroup& used = data->used[index];
      Op op;
      op.membership = index;
      op.seq = seq;
      op.state = OpState::kIncomplete;
      op.record_id = static_cast<int64_t>(data->rank.ops.size());
      op.index = op.record_id;
      op.kind = fr::ParseOpName(call.print->op).kind;
      if (op.kind == ring::CallKind::kNone) op.kind = ring::CallKind::kOtherCollective;
      if (op.kind == ring::CallKind::kOtherCollective) op.name = Ranks::Intern(data, call.print->op);
      op.input_elements = call.print->elements;
      if (!call.print->dtype.empty()) op.dtypes = Ranks::Intern(data, absl::StrCat(call.print->dtype, " -> "));
      data->rank.ops.push_back(op);
      used.progress.issued = std::max(used.progress.issued, seq);
      used.collectives = std::max(used.collectives, seq);
      used.collective_zero |= seq == 0;
    }
  }
}

void AddBarriers(const std::vector<FileFacts>& files, Ranks* ranks) {
  std::map<int32_t, std::pair<bool, const std::string*>> came;  // the rank, and the file that names it
  for (const FileFacts& file : files) {
    for (const auto& said : file.barriers) {
      for (const int32_t rank : said.what.missing) came.insert_or_assign(rank, std::pair(false, &file.path));
      if (said.what.arrived >= 0) came.try_emplace(said.what.arrived, true, &file.path);
    }
  }
  if (std::none_of(came.begin(), came.end(), [](const auto& entry) { return !entry.second.first; })) return;
  for (const auto& [rank, how] : came) {
    const auto& [arrived, path] = how;
    fr::FileData* const data = ranks->Of(rank, *path);
    // A separate group: these barriers are in no group's counters.
    const uint32_t index = Ranks::GroupOf(data, "monitored_barrier", "");
    fr::UsedGroup& used = data->used[index];
    used.progress.issued = used.collectives = arrived ? 1 : kNone;
    used.progress.completed = kNone;
    if (!arrived) continue;
    Op op;
    op.membership = index;
    op.seq = 1;
    op.kind = ring::CallKind::kBarrier;
    op.state = OpState::kIncomplete;
    op.retired = true;
    op.record_id = static_cast<int64_t>(data->rank.ops.size());
    op.index = op.record_id;
    op.name = Ranks::Intern(data, "monitored_barrier");
    data->rank.ops.push_back(op);
    data->rank.captured_ns = 0;
  }
}

}  // namespace lockstep::logs
