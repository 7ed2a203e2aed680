// The NCCL version that the library imitates. The same objects are linked once for each version, with that version's
// export list.
#pragma once

namespace standin {

extern const int kVersion;     // what ncclGetVersion returns
extern const int kDatatypes;   // ncclNumTypes of that version
extern const int kReductions;  // ncclNumOps of that version

}  // namespace standin
