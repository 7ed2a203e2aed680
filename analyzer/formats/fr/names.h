// Parses profiling names of operations and other texts of dumps.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_NAMES_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/ring/calls.h"

namespace lockstep::fr {

// Larger numbers are not ranks but times or process ids.
constexpr int32_t kMaxRank = (1 << 20) - 1;

struct OpName {
  // kNone: rejected.
  ring::CallKind kind = ring::CallKind::kNone;
  std::string_view text;        // without the backend: "_all_gather_base", "send 0->3"
  int32_t own = -1, peer = -1;  // of send and receive: ranks inside the group
  bool batch_end = false;       // the record that stands for a coalesced batch
};

// Bytes that no writer puts into a name: controls or invalid UTF-8. Such text was damaged.
bool IsGarbled(std::string_view text);

// "nccl:all_reduce" and the like. The backend is accepted when it follows the naming of collective libraries: a known
// word, digits after a known word ("nccl2"), a word holding "ccl" ("msccl", "rcclx"), or custom, custom_...; or when
// there is none. Any other backend rejects the name. An unknown operation of an accepted backend is kOtherCollective.
OpName ParseOpName(std::string_view profiling_name);

// Files of PyTorch itself: in its installed place, or in its own source tree.
bool IsTorchFile(std::string_view file);

// Parses "[0, 1, 8]". False for anything else, for a rank above kMaxRank, or a repeated rank.
bool ParseRankList(std::string_view text, std::vector<int32_t>* ranks);

// "2.27.3" as 22703 (ncclGetVersion's form); 0 unless it is three small numbers.
int32_t ParseLibraryVersion(std::string_view text);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_NAMES_H_
