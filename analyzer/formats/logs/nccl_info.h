// Reads lines of NCCL_DEBUG=INFO: calls (NCCL_DEBUG_SUBSYS=COLL), created communicators (INIT), and warnings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "recorder/ring/calls.h"

namespace lockstep::logs {

// "hostA:200:217 [3] NCCL INFO ", "hostA:200:217 [3] misc/socket.cc:58 NCCL WARN ".
struct NcclPlace {
  std::string_view host;
  int64_t pid = 0;
  int32_t gpu = -1;  // the GPU's number in its process
  bool warning = false;
  std::string_view text;  // the rest of the line
};
std::optional<NcclPlace> ParseNcclPlace(std::string_view line);

// "AllReduce: opCount 1a2 sendbuff 0x.. count 1024 datatype 7 op 0 root 0 comm 0x.. [nranks=8] stream 0x..".
struct NcclCall {
  ring::CallKind kind = ring::CallKind::kNone;
  uint64_t op_count = 0;  // counted per communicator, in hexadecimal; some calls do not increment it
  int64_t count = -1;
  int32_t datatype = -1, reduction = -1, root = -1;
  uint64_t comm = 0;  // an address in the process
  int32_t size = 0;
  int32_t global_rank = -1;  // printed by RCCL
};
std::optional<NcclCall> ParseNcclCall(std::string_view text);

// "ncclCommInitRank comm 0x.. rank 3 nranks 8 cudaDev 3 .. commId 0x.. - Init START", then "- Init COMPLETE". Since
// 2.23, a split has "parent 0x.. splitCount 2 color 1 key 3" instead of commId.
struct NcclInit {
  enum class What { kBegun, kMade, kGone } what = What::kMade;
  ring::CallKind call = ring::CallKind::kNone;  // kNone if the line does not show it
  uint64_t comm = 0, id = 0;
  int32_t rank = -1, size = 0;
  std::string pci;      // "0000:1b:00.0"; empty if not printed
  uint64_t parent = 0;  // address of the communicator that is split; 0 if there is none
  int64_t ordinal = 0;  // number among the splits of `parent`; 0 if not printed
  int64_t color = 0;
};
std::optional<NcclInit> ParseNcclInit(std::string_view text);

}  // namespace lockstep::logs
