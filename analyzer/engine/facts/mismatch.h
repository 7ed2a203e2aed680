// Finds operations that matched by number although their arguments differ.
#pragma once

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
  // Member ranks of a send and its receive; -1 for a collective.
  int32_t sender = -1, receiver = -1;
  // For an all-to-all in which one member is wrong: this member's other (sender, receiver) pairs with this number that
  // do not match, ascending.
  std::vector<std::pair<int32_t, int32_t>> pairs;
  // Indexes into Bundle::ranks of members whose call differs from the majority's; all members if there is no majority.
  std::vector<int32_t> odd_ranks;
  bool majority = false;
  bool by_siblings = false;  // the majority is among communicators with the same role, not among the members
  int32_t members_seen = 0;
  const Op* odd_op = nullptr;  // the call of one of odd_ranks, and that rank
  int32_t odd_rank = -1;
  const Op* usual_op = nullptr;  // null if a call contradicts itself or sizes do not add up
  int32_t usual_rank = -1;
  std::string odd_text, usual_text;  // the argument that differs
  Evidence why;                      // why the ranks are considered wrong, if not by majority; otherwise FACT
};

// Returns the first mismatch of every communicator, by sequence number. Sends and receives are handled separately.
std::vector<Mismatch> FindMismatches(const Model& model);

// Adds sends and receives that matched with different counts or datatypes. Corresponding members of other communicators
// of the class show which side is wrong.
void FindPointToPointMismatches(const Model& model, std::vector<Mismatch>* found);

// Returns whether a send and its receive have the same number of elements and the same datatype, as far as known.
bool ExchangeFits(const Op& a, const Op& b);

// Compares two differing calls with number `seq` with those that the corresponding members of communicators with the
// same role made. Returns which of the two disagrees with them: 0 the first, 1 the second, -1 undecided.
int WitnessesAgainst(const Model& model, uint32_t comm, int64_t seq, const Op& first, const Op& second);

// Returns the arguments of a call as text: "AllReduce of 4096 x float32, sum".
std::string ArgumentsText(const Bundle& bundle, const Op& op);

// Returns the first argument in which the two calls differ, or FINDING_UNSPECIFIED if all known arguments agree. Sets
// the texts of the argument, unless null.
FindingKind CompareCalls(const Bundle& bundle, const Op& a, const Op& b, std::string* a_text, std::string* b_text);

}  // namespace lockstep
