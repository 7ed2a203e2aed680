#include "analyzer/formats/fr/older.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep::fr {
namespace {

using ring::CallKind;

// Numbers in one hashed block. Also the number of collectives of each group that are always kept, so that every block
// with an operation that is left out ends before the group's newest collective.
constexpr int64_t kBlock = 32;
constexpr size_t kLeast = 128;

bool IsNumberedCollective(const Op& op) {
  return op.seq >= 0 && op.kind != CallKind::kGroup && !ring::IsPointToPoint(op.kind);
}

// Hashes what all members must agree on.
uint64_t Signature(const Op& op, const std::vector<std::string>& strings) {
  const auto text = [&](uint32_t index) {
    return index < strings.size() ? std::string_view(strings[index]) : std::string_view();
  };
  const CallFacts& facts = CallFactsOf(op.kind);
  const bool sized = !op.batch_end;
  return absl::HashOf(op.kind, op.kind == CallKind::kOtherCollective ? text(op.name) : "",
                      sized && facts.inputs_agree ? op.input_elements : 0,
                      sized && facts.outputs_agree ? op.output_elements : 0,
                      sized && facts.has_every_input && facts.has_every_output ? text(op.dtypes) : "",
                      facts.has_root ? op.root_or_peer : 0);
}

// Fills UsedGroup::older with every block that the file has completely.
void HashCollectives(FileData* file) {
  struct Growing {
    OlderCalls::Block block = {.number = -1};
    int64_t last = -1;  // newest number
    bool whole = false;
  };
  std::vector<Growing> growing(file->used.size());
  const auto close = [&](uint32_t group) {
    Growing& g = growing[group];
    if (g.whole && g.last % kBlock == kBlock - 1) file->used[group].older.blocks.push_back(g.block);
    g.whole = false;
  };
  for (const Op& op : file->rank.ops) {
    if (!IsNumberedCollective(op)) continue;
    Growing& g = growing[op.membership];
    if (op.seq / kBlock != g.block.number) {
      close(op.membership);
      g = {{.number = op.seq / kBlock}, op.seq, op.seq % kBlock == 0};
    }
    g.whole &= op.seq == g.last || op.seq == g.last + 1;
    g.last = op.seq;
    g.block.hash = absl::HashOf(g.block.hash, Signature(op, file->strings));
    if (op.kind == CallKind::kAlltoAll)
      g.block.balance += static_cast<uint64_t>(op.input_elements) - static_cast<uint64_t>(op.output_elements);
  }
  for (uint32_t group = 0; group < growing.size(); ++group) close(group);
}

}  // namespace

size_t NewestOfEach(uint64_t entries, size_t files) {
  return std::max<uint64_t>(kLeast, entries / std::max<size_t>(files, 1));
}

void LeaveOutOlder(size_t newest, absl::Span<const CallRange> needed, FileData* file) {
  std::vector<Op>& ops = file->rank.ops;
  if (ops.size() <= 2 * newest) return;
  HashCollectives(file);
  size_t cut = ops.size() - newest;
  while (cut > 0 && ops[cut].in_batch && ops[cut - 1].in_batch && ops[cut].group == ops[cut - 1].group) --cut;
  std::vector<int64_t> last(file->used.size(), -1), newest_left_out(file->used.size(), -1);
  for (const Op& op : ops) {
    if (IsNumberedCollective(op)) last[op.membership] = std::max(last[op.membership], op.seq);
  }
  const auto keeps = [&](size_t i) {
    const Op& op = ops[i];
    if (i >= cut || IsInFlight(op.state)) return true;
    if (!IsNumberedCollective(op)) return false;
    return op.seq > last[op.membership] - kBlock || std::ranges::any_of(needed, [&](const CallRange& calls) {
             return calls.group == op.membership && op.seq >= calls.first && op.seq <= calls.last;
           });
  };
  bool gap = false;
  size_t kept = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!keeps(i)) {
      gap = true;
      ++file->used[ops[i].membership].older.left_out;
      if (IsNumberedCollective(ops[i])) newest_left_out[ops[i].membership] = ops[i].seq;
      continue;
    }
    ops[kept] = ops[i];
    ops[kept++].after_gap = gap;
    gap = false;
  }
  file->rank.not_loaded = ops.size() - kept;
  ops.resize(kept);
  ops.shrink_to_fit();
  for (size_t group = 0; group < file->used.size(); ++group) {
    // Blocks of operations that are all kept are compared call by call.
    std::erase_if(file->used[group].older.blocks,
                  [&](const OlderCalls::Block& block) { return block.number * kBlock > newest_left_out[group]; });
  }
}

std::vector<std::vector<CallRange>> DifferingCalls(const std::vector<FileData>& files,
                                                   const std::vector<std::vector<uint32_t>>& memberships) {
  struct Seen {
    uint64_t hash = 0, balance = 0;
    int32_t members = 0;
    bool differs = false;
  };
  std::vector<absl::flat_hash_map<int64_t, Seen>> seen;  // by communicator and block
  const auto each = [&](auto&& take) {
    for (size_t f = 0; f < files.size(); ++f) {
      for (uint32_t group = 0; group < files[f].used.size(); ++group) {
        if (const uint32_t at = memberships[f][group]; at != kNoIndex)
          take(f, group, files[f].rank.memberships[at].comm, files[f].used[group].older);
      }
    }
  };
  std::vector<int32_t> users;  // by communicator: files with operations of it
  each([&](size_t, uint32_t, uint32_t comm, const OlderCalls& older) {
    if (comm >= seen.size()) seen.resize(comm + 1), users.resize(comm + 1);
    ++users[comm];
    for (const OlderCalls::Block& block : older.blocks) {
      Seen& all = seen[comm][block.number];
      if (all.members++ == 0) all.hash = block.hash;
      all.differs |= block.hash != all.hash;
      all.balance += block.balance;
    }
  });
  std::vector<int64_t> first(seen.size(), INT64_MAX);
  for (size_t comm = 0; comm < seen.size(); ++comm) {
    for (const auto& [number, all] : seen[comm]) {
      // What the members of an all-to-all send is together what they receive.
      if (all.differs || (all.members == users[comm] && all.balance != 0)) first[comm] = std::min(first[comm], number);
    }
  }
  std::vector<std::vector<CallRange>> found;
  each([&](size_t f, uint32_t group, uint32_t comm, const OlderCalls&) {
    if (first[comm] == INT64_MAX) return;
    found.resize(files.size());
    found[f].push_back({group, first[comm] * kBlock, first[comm] * kBlock + kBlock - 1});
  });
  return found;
}

}  // namespace lockstep::fr
