// Which NCCL the library plays. The same objects are linked once per version, each with its own list of exported names.
#ifndef LOCKSTEP_TESTS_STANDIN_NCCL_LEVEL_H_
#define LOCKSTEP_TESTS_STANDIN_NCCL_LEVEL_H_

namespace standin {

extern const int kVersion;     // as ncclGetVersion gives it
extern const int kDatatypes;   // ncclNumTypes of that version
extern const int kReductions;  // ncclNumOps

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_NCCL_LEVEL_H_
