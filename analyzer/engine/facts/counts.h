// Ranks that counted other sends and receives than their siblings. Counters outlive the records of what they count:
// where a ring no longer holds the calls in question, they still show who made one more, one less, or one with another
// peer.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_COUNTS_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_COUNTS_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// Into Model::ranks, ascending. Compared are ranks in one role (the same kinds of communicators, the same place in
// those that carry sends) that have issued equally many collectives on each: they stand at one place of one program.
// Only where most of at least three agree.
std::vector<int32_t> FindOddlyCounted(const Model& model);

// Ranks that counted what the program of the ranks in their role nowhere counts. Counts of one program only grow, so
// any two of its places are ordered, and those between two are known while the records last: who is ahead in one
// communicator and behind in another, or between two places and at none, left out or added a call. At most two of a
// role, and only against most of at least three.
std::vector<int32_t> FindOtherPrograms(const Model& model);

// Ranks of which the counts of pairs show one single send or receive that the other side has nothing for, where the
// others have exchanged many with each of their peers: most likely the wrong peer. Own dumps alone count by pairs.
std::vector<int32_t> FindStrangers(const Model& model);

// Of a rank's send or receive in flight, of which a framework's dump does not tell the other side: whether the two have
// nothing but this call for each other in records that hold exchanges of both with others, and another member waits for
// such a call of this rank.
bool TookTheWrongPeer(const Model& model, int32_t rank_index, const Op& op);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_COUNTS_H_
