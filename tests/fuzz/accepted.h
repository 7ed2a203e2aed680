// Counts the inputs that a fuzz target's reader accepted. The reader rejects inputs of an older format version at the
// header, so they test nothing. A replay that looks only for crashes would not notice.
#pragma once

#include <cstddef>

namespace lockstep {

// A target adds one for each input that its reader accepts, even in part. One thread only.
inline size_t fuzz_accepted = 0;

}  // namespace lockstep
