// All-to-all with sizes of each pair's own, made of grouped sends and receives. Sizes lawfully differ between ranks and
// from call to call: what must agree is what i sends to j with what j receives from i. Which of the two broke it is
// told by sums that hold for everybody else.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_ALLTOALL_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_ALLTOALL_H_

#include <cstdint>
#include <string>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

enum class SplitSide : uint8_t { kUnknown, kSender, kReceiver };

struct SplitVerdict {
  SplitSide side = SplitSide::kUnknown;
  std::string reason;  // why, in words; empty where the side is not known
};

// Whether this send or receive of the member is part of one group with sends to and receives from everybody else of a
// communicator of three or more.
bool IsExchangeOfAll(const Model& model, uint32_t comm, int32_t member, const Op& op);

// Who is odd where `send` of `sender` met `recv` of `receiver` with another count. Both are part of an exchange of all.
SplitVerdict JudgeSplits(const Model& model, uint32_t comm, int32_t sender, int32_t receiver, const Op& send,
                         const Op& recv);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_ALLTOALL_H_
