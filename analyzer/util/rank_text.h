// Texts for numbers and sets of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// "0-3, 6, 8-15, 64-1016 in steps of 8". If that is longer than `limit` columns: the beginning and the total number.
std::string FoldRanks(std::vector<int32_t> ranks, size_t limit = 60);

// "12,345".
std::string CountText(int64_t value);

// "1 rank", "3 ranks".
std::string Counted(int64_t count, const char* one, const char* several);

}  // namespace lockstep
