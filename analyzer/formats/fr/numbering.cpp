#include "analyzer/formats/fr/numbering.h"

#include <cstddef>

namespace lockstep::fr {
namespace {

// Also returns true if both ways of counting are possible: the entries contain only one of several groups and do not
// begin at 1.
bool CountsAllGroupsTogether(const std::vector<RawOp>& raw, const FileData& file) {
  for (size_t i = 0; i < raw.size(); i++) {
    if (raw[i].collective_seq < 0 || (i > 0 && raw[i].collective_seq != raw[i - 1].collective_seq + 1)) return false;
  }
  return file.used.size() > 1 ||
         (!raw.empty() && raw[0].collective_seq > 1 && file.statuses.empty() && file.claims.size() > 1);
}

}  // namespace

void NumberByGroup(std::vector<RawOp>* raw, FileData* file) {
  std::vector<Op>& ops = file->rank.ops;
  if (!CountsAllGroupsTogether(*raw, *file)) return;
  if ((*raw)[0].collective_seq > 1) {
    file->problems.push_back(
        {.path = file->rank.path,
         .text =
             "numbers the operations of all groups together, and its oldest entries are lost: its operations cannot be "
             "matched with other ranks' operations. Make the recorder keep more entries (TORCHCOMM_FR_BUFFER_SIZE)",
         .rank = file->rank.rank,
         .like = "numbers of all groups together"});
    file->rank.damaged = true;
    ops.clear();
    raw->clear();
    return;
  }
  for (UsedGroup& group : file->used) {
    group.collectives = group.p2ps = 0;
    group.first_collective = kUnknown;
    group.collective_zero = false;
  }
  for (size_t i = 0; i < ops.size(); i++) {
    UsedGroup& group = file->used[ops[i].membership];
    RawOp& one = (*raw)[i];
    ops[i].seq = one.p2p ? ++group.p2ps : ++group.collectives;
    one.collective_seq = group.collectives;
    one.p2p_seq = group.p2ps;
    if (!one.p2p && group.first_collective == kUnknown) group.first_collective = 1;
  }
}

}  // namespace lockstep::fr
