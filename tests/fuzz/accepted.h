// How many inputs a fuzz target's reader took. Inputs of an older version of a format are all turned away at its header
// and reach no code, which a replay that only waits for a crash does not notice.
#ifndef LOCKSTEP_TESTS_FUZZ_ACCEPTED_H_
#define LOCKSTEP_TESTS_FUZZ_ACCEPTED_H_

#include <cstddef>

namespace lockstep {

// A target adds one for each input that its reader took, even if not whole. One thread.
inline size_t fuzz_accepted = 0;

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_FUZZ_ACCEPTED_H_
