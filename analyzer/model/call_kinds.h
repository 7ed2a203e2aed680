// What the analysis knows of each kind of NCCL call: one table. recorder/ring/calls.h has the names and the classes
// (collective, point to point, one-sided).
#ifndef LOCKSTEP_ANALYZER_MODEL_CALL_KINDS_H_
#define LOCKSTEP_ANALYZER_MODEL_CALL_KINDS_H_

#include <cstdint>

#include "recorder/ring/calls.h"

namespace lockstep {

struct CallFacts {
  enum class Side : uint8_t { kNone, kInput, kOutput };
  enum class Output : uint8_t { kAny, kSame, kTimesMembers, kByMembers };

  bool needs_every_member = false;  // no member completes it before all have entered
  bool has_root = false;            // Op::root_or_peer is the root
  bool may_be_sends = false;        // a framework records one call where NCCL has a send and a receive for each peer
  Side counted = Side::kNone;       // the side of a framework's record that has the elements which NCCL is passed
  Output output = Output::kAny;     // elements of the output, by those of the input
  bool inputs_agree = true;         // all members pass as many elements in, and get as many out
  bool outputs_agree = true;
  bool has_every_input = true;  // all members pass an input (of a scatter the root alone does), and get an output
  bool has_every_output = true;
  bool count_is_one_members = true;  // Op::count is one member's part of the payload: the whole is `members` times that
  bool payload_is_whole = false;     // nccl-tests counts the whole as the payload
  int bus_passes = 0;                // times each byte crosses the bus, in units of (members - 1) / members; 0: once
};

// Of every collective; of other calls the defaults, which apply to none of them.
const CallFacts& CallFactsOf(ring::CallKind kind);

inline bool NeedsEveryMember(ring::CallKind kind) {
  return CallFactsOf(kind).needs_every_member;
}

// The send that a receive waits for, and the receive that takes a send. `kind` is one of both.
constexpr ring::CallKind OtherSideOf(ring::CallKind kind) {
  return kind == ring::CallKind::kSend ? ring::CallKind::kRecv : ring::CallKind::kSend;
}

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_MODEL_CALL_KINDS_H_
