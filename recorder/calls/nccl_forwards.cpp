// NCCL functions that are forwarded but not recorded: queries, parameters, and host functions of the device API.
#include "recorder/abi/nccl.h"
#include "recorder/core/real.h"

using namespace lockstep::recorder;

namespace {

// Passes up to eight words in and two registers out. That is enough for every function in the list on x86-64 and
// aarch64, including those that take or return the three-int ncclTeam_t by value. If a function has fewer parameters,
// the other words are whatever the caller left in registers and on its stack; the function ignores them.
using Word = uintptr_t;
using Pair = unsigned __int128;
using AnyFunction = Pair (*)(Word, Word, Word, Word, Word, Word, Word, Word);

}  // namespace

#define LOCKSTEP_FORWARD(NAME, MISSING)                                                       \
  LOCKSTEP_EXPORT Pair NAME(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h) { \
    static RealFunction function = {#NAME};                                                   \
    const auto real = reinterpret_cast<AnyFunction>(RealNccl(&function, LOCKSTEP_CALLER));    \
    if (LOCKSTEP_UNLIKELY(real == nullptr)) return static_cast<Pair>(MISSING);                \
    return real(a, b, c, d, e, f, g, h);                                                      \
  }
LOCKSTEP_FORWARDED_NAMES(LOCKSTEP_FORWARD)

#define LOCKSTEP_FORWARD_TEXT(NAME, MISSING)                                                   \
  LOCKSTEP_EXPORT const char* NAME(Word of) {                                                  \
    static RealFunction function = {#NAME};                                                    \
    const auto real = reinterpret_cast<decltype(&NAME)>(RealNccl(&function, LOCKSTEP_CALLER)); \
    return real != nullptr ? real(of) : MISSING;                                               \
  }
LOCKSTEP_TEXT_NAMES(LOCKSTEP_FORWARD_TEXT)
