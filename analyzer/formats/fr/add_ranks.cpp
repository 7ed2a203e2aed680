#include "analyzer/formats/fr/add_ranks.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/formats/fr/groups.h"
#include "analyzer/util/parallel.h"

namespace lockstep::fr {
namespace {

// Adds `texts` to the job's string table. Returns the translation of a file's indexes to it.
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

}  // namespace

void AddRanks(std::vector<FileData> files, Bundle* bundle, std::vector<Problem>* problems) {
  std::vector<std::vector<uint32_t>> memberships;
  MergeGroups(&files, bundle, &memberships);
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
}

}  // namespace lockstep::fr
