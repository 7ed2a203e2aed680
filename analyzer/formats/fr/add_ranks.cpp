#include "analyzer/formats/fr/add_ranks.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/formats/fr/groups.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/parallel.h"

namespace lockstep::fr {
namespace {

// Adds a file's `texts` to the job's table. Returns the table's index of each text.
std::vector<uint32_t> InternAll(const std::vector<std::string>& texts, std::vector<std::string>* table,
                                absl::flat_hash_map<std::string, uint32_t>* known) {
  std::vector<uint32_t> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) {
    auto [at, added] = known->try_emplace(text, static_cast<uint32_t>(table->size()));
    if (added) table->push_back(text);
    out.push_back(at->second);
  }
  return out;
}

// torchcomms does not record the peer of a send or receive. In a group of two, the peer is the other member.
void NamePeer(const Bundle& bundle, const Rank& rank, Op* op) {
  if (!ring::IsPointToPoint(op->kind) || op->root_or_peer >= 0 || op->membership == kNoIndex) return;
  const Membership& own = rank.memberships[op->membership];
  const Communicator& comm = bundle.comms[own.comm];
  if (comm.members_inferred || comm.may_have_more) return;
  if (comm.size == 2 && (own.member_rank == 0 || own.member_rank == 1)) op->root_or_peer = 1 - own.member_rank;
}

void Translate(const std::vector<uint32_t>& table, uint32_t* index) {
  if (*index != kNoIndex) *index = table[*index];
}

// Returns whether the operation is marked completed and needs every member.
bool TookEveryMember(const Op& op) {
  return op.state == OpState::kCompleted && op.membership != kNoIndex && NeedsEveryMember(op.kind);
}

// If a backend does not record how operations end, a failed operation looks completed. Marks a rank's last operation as
// incomplete if a member did not issue it: the rank waited in it until a peer's connection closed.
void ReopenFailed(Bundle* bundle) {
  if (std::ranges::none_of(bundle->ranks, &Rank::ends_untold)) return;
  // `passed`: the newest operation that a rank completed before it issued another. A member that did not issue this
  // operation has an older dump, which proves nothing.
  std::vector<int64_t> passed(bundle->comms.size(), kNone), issued_by_all(bundle->comms.size(), INT64_MAX);
  for (const Rank& rank : bundle->ranks) {
    for (size_t i = 0; i + 1 < rank.ops.size(); ++i) {
      const Op& op = rank.ops[i];
      if (!TookEveryMember(op)) continue;
      int64_t& newest = passed[rank.memberships[op.membership].comm];
      newest = std::max(newest, op.seq);
    }
  }
  for (const Rank& rank : bundle->ranks) {
    const bool old = std::any_of(rank.memberships.begin(), rank.memberships.end(),
                                 [&](const Membership& m) { return m.issued >= 0 && m.issued < passed[m.comm]; });
    if (old || rank.damaged) continue;
    for (const Membership& m : rank.memberships) {
      if (m.issued >= 0) issued_by_all[m.comm] = std::min(issued_by_all[m.comm], m.issued);
    }
  }
  for (Rank& rank : bundle->ranks) {
    if (!rank.ends_untold || rank.ops.empty() || !TookEveryMember(rank.ops.back())) continue;
    Op& last = rank.ops.back();
    Membership& m = rank.memberships[last.membership];
    if (last.seq <= issued_by_all[m.comm]) continue;
    last.state = OpState::kIncomplete;
    m.completed = std::min(m.completed, last.seq - 1);
  }
}

}  // namespace

void AddRanks(std::vector<FileData> files, const ReadAgain& read_again, Bundle* bundle,
              std::vector<Problem>* problems) {
  std::vector<std::vector<uint32_t>> memberships;
  MergeGroups(&files, bundle, &memberships);
  if (const auto differing = DifferingCalls(files, memberships); !differing.empty()) read_again(differing, &files);
  for (size_t f = 0; f < files.size(); ++f) {
    for (size_t group = 0; group < files[f].used.size(); ++group) {
      if (const uint32_t at = memberships[f][group]; at != kNoIndex)
        files[f].rank.memberships[at].not_loaded += files[f].used[group].older.left_out;
    }
  }
  absl::flat_hash_map<std::string, uint32_t> known_strings, known_shapes;
  std::vector<std::vector<uint32_t>> strings, shapes;
  for (FileData& file : files) {
    problems->insert(problems->end(), file.problems.begin(), file.problems.end());
    strings.push_back(InternAll(file.strings, &bundle->strings, &known_strings));
    shapes.push_back(InternAll(file.shapes, &bundle->shapes, &known_shapes));
  }
  Parallel(files.size(), [&](size_t f, size_t) {
    for (Op& op : files[f].rank.ops) {
      op.membership = memberships[f][op.membership];
      NamePeer(*bundle, files[f].rank, &op);
      Translate(strings[f], &op.name);
      Translate(strings[f], &op.dtypes);
      Translate(strings[f], &op.call_site);
      Translate(shapes[f], &op.input_shape);
      Translate(shapes[f], &op.output_shape);
    }
  });
  for (FileData& file : files) bundle->ranks.push_back(std::move(file.rank));
  ReopenFailed(bundle);
}

}  // namespace lockstep::fr
