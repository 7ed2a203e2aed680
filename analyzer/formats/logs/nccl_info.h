// Lines of NCCL_DEBUG=INFO: calls (NCCL_DEBUG_SUBSYS=COLL), and created communicators (INIT).
#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_NCCL_INFO_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_NCCL_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "recorder/ring/calls.h"

namespace lockstep::logs {

// "hostA:200:217 [3] NCCL INFO ".
struct NcclPlace {
  std::string_view host;
  int64_t pid = 0;
  int32_t gpu = -1;       // number of the GPU in its process
  std::string_view text;  // what follows
};
std::optional<NcclPlace> ParseNcclPlace(std::string_view line);

// "AllReduce: opCount 1a2 sendbuff 0x.. count 1024 datatype 7 op 0 root 0 comm 0x.. [nranks=8] stream 0x..".
struct NcclCall {
  ring::CallKind kind = ring::CallKind::kNone;
  uint64_t op_count = 0;  // per communicator, in hexadecimal; some calls do not increment it
  int64_t count = -1;
  int32_t datatype = -1, reduction = -1, root = -1;
  uint64_t comm = 0;  // address in the process
  int32_t size = 0;
  int32_t global_rank = -1;  // from RCCL
};
std::optional<NcclCall> ParseNcclCall(std::string_view text);

// "ncclCommInitRank comm 0x.. rank 3 nranks 8 cudaDev 3 .. commId 0x.. - Init COMPLETE".
struct NcclInit {
  uint64_t comm = 0, id = 0;
  int32_t rank = -1, size = 0;
};
std::optional<NcclInit> ParseNcclInit(std::string_view text);

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_NCCL_INFO_H_
