#include "analyzer/engine/facts/cause.h"

#include <gtest/gtest.h>

#include "analyzer/report/words/evidence.h"

namespace lockstep {
namespace {

Bundle TwoRanks() {
  Bundle bundle;
  bundle.ranks.resize(2);
  bundle.ranks[1].rank = 1;
  return bundle;
}

// Two items are equal for a reader if and only if their sentences are.
void ExpectSame(bool same, const EvidenceItem& a, const EvidenceItem& b) {
  const auto text = [](const EvidenceItem& item) {
    Evidence evidence = item.fields;
    evidence.mutable_ranks()->Assign(item.ranks.begin(), item.ranks.end());
    return EvidenceText(evidence);
  };
  EXPECT_EQ(SameEvidence(a, b), same) << text(a) << "\n" << text(b);
  EXPECT_EQ(text(a) == text(b), same) << text(a) << "\n" << text(b);
}

TEST(SameEvidence, ItemsDifferIfTheirSentencesNameDifferentRanks) {
  const Bundle bundle = TwoRanks();
  ExpectSame(true, EvidenceItem(Evidence::PEERS_STARTED, {0}), EvidenceItem(Evidence::PEERS_STARTED, {1}));
  ExpectSame(false, EvidenceItem(Evidence::NOTHING_OPEN, {0}).Naming(bundle),
             EvidenceItem(Evidence::NOTHING_OPEN, {1}).Naming(bundle));
  ExpectSame(false, EvidenceItem(Evidence::TWO_CALLS, {0, 1}).Naming(bundle),
             EvidenceItem(Evidence::TWO_CALLS, {1, 0}).Naming(bundle));
  ExpectSame(true, EvidenceItem(Evidence::ROLE_DID_NOT_WAIT, {0, 1}).Naming(bundle, {1}),
             EvidenceItem(Evidence::ROLE_DID_NOT_WAIT, {1}).Naming(bundle));
  ExpectSame(false, EvidenceItem(Evidence::STACK, {0}), EvidenceItem(Evidence::STACK, {1}));
}

TEST(SameEvidence, ItemsAreEqualIfRoundedDurationsAndLabelsAre) {
  Bundle bundle;
  Communicator& comm = bundle.comms.emplace_back();
  comm.id = "a";
  comm.name = "tp_0";
  EvidenceItem first(Evidence::IN_OPERATION, {0});
  EvidenceItem second = first;
  first.fields.set_duration_ns(1'210'000'000);
  second.fields.set_duration_ns(1'240'000'000);
  ExpectSame(true, first, second);
  second.fields.set_duration_ns(1'310'000'000);
  ExpectSame(false, first, second);
  EvidenceItem on = EvidenceItem(Evidence::ENDED_BEFORE, {}).CountOf(1, 3).On(bundle, 0);
  comm.id = "b";
  ExpectSame(true, on, EvidenceItem(Evidence::ENDED_BEFORE, {}).CountOf(1, 3).On(bundle, 0));
  comm.name = "tp_1";
  ExpectSame(false, on, EvidenceItem(Evidence::ENDED_BEFORE, {}).CountOf(1, 3).On(bundle, 0));
}

}  // namespace
}  // namespace lockstep
