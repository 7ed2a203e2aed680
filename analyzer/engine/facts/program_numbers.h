// Who left its siblings' program, by the numbers of a communicator's calls alone. For the ends of records that hold too
// little to be lined up call by call: a backward pass on a thread of its own ends with the call that was left out, and
// says nothing of it.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_NUMBERS_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_NUMBERS_H_

#include <map>
#include <string>
#include <vector>

#include "analyzer/engine/facts/program.h"
#include "analyzer/engine/facts/program_read.h"

namespace lockstep {

// Ranks that wait in a collective whose number is another call on the same kind of communicator in the records of all
// their siblings, at least two, where the call before is the same, and no other member's record holds that number: with
// it the members would tell. `families`: of ReadPrograms(). At most one a rank, ascending.
std::vector<Divergence> FindLeftByNumber(const Model& model,
                                         const std::map<std::string, std::vector<Program>>& families);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_NUMBERS_H_
