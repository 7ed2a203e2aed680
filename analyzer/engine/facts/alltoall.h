// All-to-all with separate sizes for each pair, made of grouped sends and receives. Sizes may differ between ranks and
// calls, but i's send to j must match j's receive from i. Rules that hold for all other ranks show which side is wrong.
#pragma once

#include <cstdint>

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

enum class SplitSide : uint8_t { kUnknown, kSender, kReceiver };

struct SplitVerdict {
  SplitSide side = SplitSide::kUnknown;
  Evidence why;  // kind and detail of the reason; FACT if the wrong side is unknown

  Detail* Begin(bool sender, Evidence::Kind kind) {
    side = sender ? SplitSide::kSender : SplitSide::kReceiver;
    why.set_kind(kind);
    return why.mutable_detail();
  }
};

// Returns whether the group of the member's send or receive is an all-to-all: it sends to and receives from all other
// members of a communicator with at least three.
bool IsExchangeOfAll(const Model& model, uint32_t comm, int32_t member, const Op& op);

// Returns which member rank is wrong if `send` of `sender` matched `recv` of `receiver` although their counts differ.
// Both calls must be part of an all-to-all.
SplitVerdict JudgeSplits(const Model& model, uint32_t comm, int32_t sender, int32_t receiver, const Op& send,
                         const Op& recv);

}  // namespace lockstep
