// Operations that met although their arguments differ.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_MISMATCH_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_MISMATCH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct Mismatch {
  FindingKind kind = FINDING_UNSPECIFIED;
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  // Of a send and its receive: member ranks. -1 for a collective.
  int32_t sender = -1, receiver = -1;
  // Of an exchange of all in which one member is odd: the other pairs of senders and receivers with this number that do
  // not fit, ascending.
  std::vector<std::pair<int32_t, int32_t>> pairs;
  // Members whose call differs from what most issued; all members where there is no majority.
  std::vector<int32_t> odd_ranks;  // into Bundle::ranks
  bool majority = false;
  bool by_siblings = false;  // the majority is not the members' own but that of sibling communicators
  int32_t members_seen = 0;
  const Op* odd_op = nullptr;  // of one of odd_ranks:
  int32_t odd_rank = -1;
  const Op* usual_op = nullptr;  // null when a call contradicts itself
  int32_t usual_rank = -1;
  std::string odd_text, usual_text;  // the differing argument
  std::string reason;                // why just these are taken for odd, where it is not the majority
};

// The first mismatch of every communicator, by sequence number; sends and receives apart from collectives.
std::vector<Mismatch> FindMismatches(const Model& model);

// Sends and receives that met with different counts or datatypes. Which side is wrong is told by the siblings: members
// at the same place of other communicators of the class.
void FindPointToPointMismatches(const Model& model, std::vector<Mismatch>* found);

// Which of two calls that met at `seq` of a communicator the members of its siblings speak against: 0 the first, 1 the
// second, -1 they do not say.
int WitnessesAgainst(const Model& model, uint32_t comm, int64_t seq, const Op& first, const Op& second);

// The arguments of one call in words: "AllReduce of 4096 x float32, sum".
std::string ArgumentsText(const Bundle& bundle, const Op& op);

// FINDING_UNSPECIFIED when the two calls agree as far as both are known; else which argument differs first.
FindingKind CompareCalls(const Bundle& bundle, const Op& a, const Op& b, std::string* a_text, std::string* b_text);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_MISMATCH_H_
