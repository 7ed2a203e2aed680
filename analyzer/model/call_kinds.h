// Facts about each kind of NCCL call: one table. recorder/ring/calls.h has the names and the classes (collective, point
// to point, one-sided).
#ifndef LOCKSTEP_ANALYZER_MODEL_CALL_KINDS_H_
#define LOCKSTEP_ANALYZER_MODEL_CALL_KINDS_H_

#include <cstdint>

#include "recorder/ring/calls.h"

namespace lockstep {

struct CallFacts {
  enum class Side : uint8_t { kNone, kInput, kOutput };
  enum class Output : uint8_t { kAny, kSame, kTimesMembers, kByMembers };

  bool needs_every_member = false;  // it completes on no member before all have entered
  bool has_root = false;            // Op::root_or_peer is the root
  bool may_be_sends = false;        // a framework records one call for NCCL's sends and receives with each peer
  Side counted = Side::kNone;       // the side of a framework's record with the elements that NCCL gets
  Output output = Output::kAny;     // elements of the output, from those of the input
  bool inputs_agree = true;         // all members pass equal numbers of elements in, and get equal numbers out
  bool outputs_agree = true;
  bool has_every_input = true;  // all members pass an input (in a scatter only the root does), and get an output
  bool has_every_output = true;
  bool count_is_one_members = true;  // Op::count is one member's part of the payload: the whole is `members` times that
  bool payload_is_whole = false;     // nccl-tests takes the whole as the payload
  int bus_passes = 0;                // how often each byte crosses the bus, in units of (members - 1) / members; 0:
                                     // once
};

// For every collective; other calls have the defaults, which do not apply.
const CallFacts& CallFactsOf(ring::CallKind kind);

inline bool NeedsEveryMember(ring::CallKind kind) {
  return CallFactsOf(kind).needs_every_member;
}

// The matching kind of a send or receive.
constexpr ring::CallKind OtherSideOf(ring::CallKind kind) {
  return kind == ring::CallKind::kSend ? ring::CallKind::kRecv : ring::CallKind::kSend;
}

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_MODEL_CALL_KINDS_H_
