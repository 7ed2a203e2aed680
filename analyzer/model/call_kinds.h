// Facts about each kind of NCCL call, in one table. recorder/ring/calls.h has the names and the classes (collective,
// point-to-point, one-sided).
#pragma once

#include <cstdint>

#include "recorder/ring/calls.h"

namespace lockstep {

struct CallFacts {
  enum class Side : uint8_t { kNone, kInput, kOutput };
  enum class Output : uint8_t { kAny, kSame, kTimesMembers, kByMembers };

  bool needs_every_member = false;  // no member completes the call before all members have entered it
  bool has_root = false;            // Op::root_or_peer is the root
  bool may_be_sends = false;        // a framework records one call for NCCL's sends and receives with every peer
  Side counted = Side::kNone;       // the side of a framework's record with the element count that NCCL gets
  Output output = Output::kAny;     // number of output elements, relative to the input
  bool inputs_agree = true;         // all members pass the same number of elements, and get the same number
  bool outputs_agree = true;
  bool has_every_input = true;   // all members pass an input; false for a scatter, where only the root does
  bool has_every_output = true;  // all members get an output; false for a gather, where only the root does
  // Op::count is one member's part of the payload, so the whole payload is `members` times as large.
  bool count_is_one_members = true;
  bool payload_is_whole = false;  // nccl-tests counts the data of all members as the payload
  // nccl-tests' factor from payload to bus traffic, in units of (members - 1) / members; 0 means factor 1.
  int bus_passes = 0;
};

// Returns the facts about a collective. Other calls get defaults, which do not apply to them.
const CallFacts& CallFactsOf(ring::CallKind kind);

inline bool NeedsEveryMember(ring::CallKind kind) { return CallFactsOf(kind).needs_every_member; }

// Returns the kind of call that matches a send or receive.
constexpr ring::CallKind OtherSideOf(ring::CallKind kind) {
  return kind == ring::CallKind::kSend ? ring::CallKind::kRecv : ring::CallKind::kSend;
}

}  // namespace lockstep
