// Parses profiling names of operations and other strings in dumps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyzer/model/bundle.h"
#include "recorder/ring/calls.h"

namespace lockstep::fr {

// Larger numbers are times or process ids, not ranks.
constexpr int32_t kMaxRank = kMaxRanks - 1;

struct OpName {
  // kNone if the name was rejected.
  ring::CallKind kind = ring::CallKind::kNone;
  std::string_view text;        // without the backend: "_all_gather_base", "send 0->3"
  int32_t own = -1, peer = -1;  // for a send or receive: ranks inside the group, or in the job with some backends
  bool batch_end = false;       // the record of a coalesced batch's end
};

// Returns true for bytes that no writer puts into a name: control characters or invalid UTF-8. Such text is damaged.
bool IsGarbled(std::string_view text);

// Parses "nccl:all_reduce" and similar names. Rejects a name with a backend, unless the backend is a known word, with
// or without digits ("nccl2"), a word that contains "ccl" ("msccl", "rcclx"), custom, or custom_... An unknown
// operation of an accepted backend becomes kOtherCollective.
OpName ParseOpName(std::string_view profiling_name);

// Returns whether the file belongs to PyTorch itself, in an installation or in its source tree.
bool IsTorchFile(std::string_view file);

// Parses "[0, 1, 8]". Returns false for anything else, for a rank above kMaxRank, or for a repeated rank.
bool ParseRankList(std::string_view text, std::vector<int32_t>* ranks);

// Returns "2.27.3" as 22703 (ncclGetVersion's format); 0 unless the text begins with two or three numbers below 100.
int32_t ParseLibraryVersion(std::string_view text);

}  // namespace lockstep::fr
