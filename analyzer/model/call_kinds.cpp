#include "analyzer/model/call_kinds.h"

#include <array>
#include <cstddef>

namespace lockstep {
namespace {

using ring::CallKind;
using Side = CallFacts::Side;
using Output = CallFacts::Output;

constexpr size_t kKinds = static_cast<size_t>(CallKind::kOtherCollective) + 1;

constexpr std::array<CallFacts, kKinds> Table() {
  std::array<CallFacts, kKinds> facts{};
  const auto of = [&facts](CallKind kind) -> CallFacts& { return facts[static_cast<size_t>(kind)]; };
  of(CallKind::kAllReduce) = {.needs_every_member = true,
                              .counted = Side::kInput,
                              .output = Output::kSame,
                              .count_is_one_members = false,
                              .bus_passes = 2};
  of(CallKind::kReduce) = {.has_root = true, .counted = Side::kInput, .count_is_one_members = false};
  of(CallKind::kBroadcast) = {.has_root = true, .counted = Side::kInput, .count_is_one_members = false};
  of(CallKind::kAllGather) = {.needs_every_member = true,
                              .counted = Side::kInput,
                              .output = Output::kTimesMembers,
                              .payload_is_whole = true,
                              .bus_passes = 1};
  of(CallKind::kReduceScatter) = {.needs_every_member = true,
                                  .counted = Side::kOutput,
                                  .output = Output::kByMembers,
                                  .payload_is_whole = true,
                                  .bus_passes = 1};
  of(CallKind::kAlltoAll) = {.needs_every_member = true,
                             .may_be_sends = true,
                             .inputs_agree = false,
                             .outputs_agree = false,
                             .payload_is_whole = true,
                             .bus_passes = 1};
  of(CallKind::kGather) = {.has_root = true, .may_be_sends = true, .outputs_agree = false, .has_every_output = false};
  of(CallKind::kScatter) = {.has_root = true, .may_be_sends = true, .inputs_agree = false, .has_every_input = false};
  of(CallKind::kBarrier) = {.needs_every_member = true};
  of(CallKind::kCoalesced) = {.inputs_agree = false, .outputs_agree = false};
  return facts;
}

constexpr std::array<CallFacts, kKinds> kFacts = Table();

}  // namespace

const CallFacts& CallFactsOf(CallKind kind) {
  const auto index = static_cast<size_t>(kind);
  return kFacts[index < kKinds ? index : 0];
}

}  // namespace lockstep
