// Replays the calls of a small simulated job with one fault. An input is: the fault, its rank and its position; the
// suspects, as bits; a rank without data; whether fields change; then changes, each with a rank, a record, a field and
// a value. Without changes, the culprit is known, and a replay must not prove another rank.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "analyzer/engine/replay/judge.h"
#include "analyzer/testing/job.h"
#include "tests/fuzz/accepted.h"

namespace {

using namespace lockstep;
using lockstep::testing::HostFault;

constexpr int kRanks = 8;

struct Input {
  const uint8_t* data;
  size_t size;
  uint8_t Next() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
};

// Readers reject larger values (analyzer/formats/bounds.h).
int64_t Number(uint8_t byte) {
  constexpr int64_t kOdd[] = {-3, -1, int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 60};
  return byte < std::size(kOdd) ? kOdd[byte] : byte - static_cast<int64_t>(std::size(kOdd));
}

// Changes a field of a membership or of a record.
void Change(Input* input, Bundle* bundle) {
  Rank& rank = bundle->ranks[input->Next() % bundle->ranks.size()];
  const uint8_t which = input->Next(), field = input->Next();
  const int64_t value = Number(input->Next());
  if (field < 128 && !rank.memberships.empty()) {
    Membership& ms = rank.memberships[which % rank.memberships.size()];
    int64_t* const fields[] = {&ms.issued, &ms.launched, &ms.started, &ms.completed};
    *fields[field % std::size(fields)] = value;
    return;
  }
  if (rank.ops.empty()) return;
  Op& op = rank.ops[which % rank.ops.size()];
  switch (field % 5) {
    case 0: op.seq = value; break;
    case 1: op.count = value; break;
    case 2: op.root_or_peer = static_cast<int32_t>(value); break;
    case 3: op.state = static_cast<OpState>(static_cast<uint64_t>(value) % 9); break;
    default: op.stream = kNoIndex;
  }
}

// Returns a job in which `culprit` is at fault.
Bundle Faulty(uint8_t fault, int culprit, uint8_t place) {
  testing::Job job(2, 2, 2, 3);
  testing::JobRank& rank = job.ranks[static_cast<size_t>(culprit)];
  const size_t at = place % rank.program.size();
  constexpr HostFault kFaults[] = {HostFault::kStall, HostFault::kDie, HostFault::kStop, HostFault::kExit};
  switch (fault % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
      rank.host_fault_at = at;
      rank.host_fault = kFaults[fault % 8];
      break;
    case 4: rank.gpu_stall_at = at; break;
    case 5: rank.program.erase(rank.program.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 6: rank.program.insert(rank.program.begin() + static_cast<std::ptrdiff_t>(at), rank.program[at]); break;
    default: rank.program[at].count *= 2;
  }
  Bundle bundle = job.Run();
  bundle.known_stalled = true;
  return bundle;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input = {data, size};
  const uint8_t fault = input.Next();
  const int culprit = input.Next() % kRanks;
  const uint8_t place = input.Next(), named = input.Next(), lost = input.Next();
  Bundle bundle = Faulty(fault, culprit, place);
  if (lost % 16 < kRanks) std::erase_if(bundle.ranks, [&](const Rank& rank) { return rank.rank == lost % 16; });
  const bool changed = input.Next() % 2 == 1;
  while (changed && input.size > 0) Change(&input, &bundle);

  replay::JudgeOptions options;
  options.most_parts = 1 << 20;
  for (int r = 0; r < kRanks; ++r) {
    if (named >> r & 1) options.suspects.push_back(r);
  }
  replay::Answer answer;
  Verdict verdict = AnalyzeAndLook(bundle, {}, [&](const AnalysisView& view) { answer = Judge(view, options); });
  const Proof& proof = answer.proof;
  if (proof.result() == Proof::RESULT_UNSPECIFIED || proof.text().empty()) std::abort();
  if ((proof.result() == Proof::PROVED) != (proof.why() == Proof::WHY_UNSPECIFIED)) std::abort();
  if (proof.result() == Proof::PROVED || proof.result() == Proof::NOT_PROVED) ++fuzz_accepted;
  if (proof.result() == Proof::PROVED) {
    if (proof.corrected_ranks().empty() || proof.candidates() == 0 || !proof.rivals().empty()) std::abort();
    // If a rank has no data, it may be the culprit.
    const bool guilty = std::find(answer.suspects.begin(), answer.suspects.end(), culprit) != answer.suspects.end();
    if (!changed && lost % 16 >= kRanks && !guilty) std::abort();
  }
  Verdict proved = replay::AnalyzeAndProve(bundle, {}, options);
  if (!proved.findings().empty()) proved.mutable_findings(0)->clear_proof();
  if (proved.SerializeAsString() != verdict.SerializeAsString()) std::abort();
  return 0;
}
