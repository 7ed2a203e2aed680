// NCCL version numbers as text.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// Returns the number that ncclGetVersion returns, as text: 2804 is 2.8.4, 23203 is 2.32.3.
std::string NcclVersionText(int32_t code);

}  // namespace lockstep
