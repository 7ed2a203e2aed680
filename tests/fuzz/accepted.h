// Counts the inputs that a fuzz target's reader accepted. After a change of a format version, the reader would reject
// all stored inputs at the header, and a replay would test nothing without noticing.
#pragma once

#include <cstddef>

namespace lockstep {

// A target adds one for each input that its reader accepts, even in part. Not thread-safe.
inline size_t fuzz_accepted = 0;

}  // namespace lockstep
