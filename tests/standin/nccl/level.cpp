#include "tests/standin/nccl/level.h"

#include <nccl.h>

#ifndef STANDIN_NCCL_VERSION
#define STANDIN_NCCL_VERSION NCCL_VERSION_CODE
#endif

namespace standin {

// Beyond the header's version: a datatype of 1 byte and a reduction (a maximum) that no header names.
constexpr int kCode = STANDIN_NCCL_VERSION;
extern const int kVersion = kCode;
extern const int kDatatypes = kCode > NCCL_VERSION_CODE ? 13 : kCode >= 22400 ? 12 : kCode >= 21000 ? 10 : 9;
extern const int kReductions = kCode > NCCL_VERSION_CODE ? 6 : kCode >= 21000 ? 5 : 4;

}  // namespace standin
