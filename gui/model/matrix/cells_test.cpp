#include "gui/model/matrix/cells.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/job.h"
#include "analyzer/viewdata/facts.h"
#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

using ring::CallKind;

// The expected state of a cell, derived only from the specification, the bundle and the document's facts.
class Oracle {
 public:
  Oracle(const Bundle& bundle, const Document& document) : bundle_(bundle), document_(document) {}

  const Rank* Find(int32_t rank) const {
    for (const Rank& r : bundle_.ranks) {
      if (r.rank == rank) return &r;
    }
    return nullptr;
  }
  static const Membership* Of(const Rank& rank, int32_t comm) {
    for (const Membership& m : rank.memberships) {
      if (m.comm == static_cast<uint32_t>(comm)) return &m;
    }
    return nullptr;
  }
  bool SomebodyLacks(int32_t comm, int64_t seq) const {
    for (const Rank& r : bundle_.ranks) {
      const Membership* m = Of(r, comm);
      if (m != nullptr && m->issued != kUnknown && m->issued < seq) return true;
    }
    return false;
  }
  bool SomebodyIssued(int32_t comm, int64_t seq) const {
    for (const Rank& r : bundle_.ranks) {
      const Membership* m = Of(r, comm);
      if (m != nullptr && m->issued >= seq) return true;
    }
    return false;
  }
  bool Deviates(int32_t rank, int32_t comm, int64_t seq) const {
    for (const CallMismatch& mismatch : document_.facts().mismatches()) {
      if (mismatch.comm() != comm || mismatch.sequence() != seq) continue;
      bool reference = false;
      for (const auto& group : mismatch.groups()) reference |= group.reference();
      for (const auto& group : mismatch.groups()) {
        if (Ranks::Of(group.ranks()).Contains(rank) && !(reference && group.reference())) return true;
      }
    }
    return false;
  }
  ViewState OfOp(const Rank& rank, const Op& op) const {
    const Membership* m = op.membership == kNoIndex ? nullptr : &rank.memberships[op.membership];
    const bool collective = m != nullptr && ring::IsCollective(op.kind);
    const int32_t comm = m == nullptr ? -1 : static_cast<int32_t>(m->comm);
    if (collective && Deviates(rank.rank, comm, op.seq)) return ViewState::kMismatch;
    if (op.state == OpState::kCompleted) return ViewState::kCompleted;
    if (op.state == OpState::kFailed) return ViewState::kFailed;
    if (op.state == OpState::kUnknown || op.state == OpState::kQueued || op.state == OpState::kCaptured)
      return ViewState::kIssued;
    if (collective && SomebodyLacks(comm, op.seq)) return ViewState::kWaiting;
    const int32_t place = document_.FactsAt(document_.RowOf(rank.rank)).wait_class();
    if (m != nullptr && place >= 0) {
      const WaitClass& wait = document_.facts().classes(place);
      const bool waits = wait.kind() == WaitClass::VICTIM || wait.kind() == WaitClass::IN_CYCLE;
      const bool this_call = wait.operation().empty() || (wait.operation() == "Recv") != collective;
      if (waits && this_call && wait.comm() == comm && wait.sequence() == op.seq) return ViewState::kWaiting;
    }
    return op.state == OpState::kEntered   ? ViewState::kIssued
           : op.state == OpState::kStarted ? ViewState::kStarted
                                           : ViewState::kEnqueued;
  }
  ViewState InComm(int32_t comm, int32_t rank, int64_t seq) const {
    const Rank* r = Find(rank);
    const Membership* m = r == nullptr ? nullptr : Of(*r, comm);
    const ViewState deviates = Deviates(rank, comm, seq) ? ViewState::kMismatch : ViewState::kOutside;
    if (m == nullptr) return std::max(ViewState::kNoData, deviates);
    for (const Op& op : r->ops) {
      if (op.membership == static_cast<uint32_t>(m - r->memberships.data()) && op.seq == seq &&
          ring::IsCollective(op.kind)) {
        return std::max(OfOp(*r, op), deviates);
      }
    }
    if (m->issued == kUnknown) return std::max(ViewState::kNoData, deviates);
    if (seq <= m->issued) return std::max(ViewState::kOverwritten, deviates);
    return SomebodyIssued(comm, seq) ? ViewState::kMissing : std::max(ViewState::kOutside, deviates);
  }
  // `back` counts from the newest call; 0 is the next one.
  ViewState InJob(int32_t rank, size_t back) const {
    const Rank* r = Find(rank);
    if (r == nullptr) return ViewState::kNoData;
    if (back == 0) {
      const int row = document_.RowOf(rank);
      const int32_t wait = document_.FactsAt(row).wait_class();
      if (wait >= 0 && wait < document_.facts().classes_size() &&
          document_.facts().classes(wait).kind() == WaitClass::VICTIM)
        return ViewState::kOutside;
      for (const Membership& m : r->memberships) {
        if (m.issued != kUnknown && SomebodyIssued(static_cast<int32_t>(m.comm), m.issued + 1))
          return ViewState::kMissing;
      }
      return ViewState::kOutside;
    }
    if (back <= r->ops.size()) return OfOp(*r, r->ops[r->ops.size() - back]);
    return back - r->ops.size() <= r->records_lost ? ViewState::kOverwritten : ViewState::kOutside;
  }

 private:
  const Bundle& bundle_;
  const Document& document_;
};

Bundle RandomJob(std::mt19937* random) {
  auto pick = [&](int n) { return static_cast<int>((*random)() % static_cast<unsigned>(n)); };
  lockstep::testing::Job job(1 + pick(3), 1 + pick(2), 1 + pick(3), 2 + pick(2));
  job.full_marks = pick(2) == 0;
  const int ranks = static_cast<int>(job.ranks.size());
  for (int faults = pick(3); faults > 0; --faults) {
    lockstep::testing::JobRank& rank = job.ranks[static_cast<size_t>(pick(ranks))];
    const size_t at = static_cast<size_t>(pick(static_cast<int>(rank.program.size())));
    switch (pick(4)) {
      case 0: rank.host_fault_at = at, rank.host_fault = lockstep::testing::HostFault::kStall; break;
      case 1: rank.host_fault_at = at, rank.host_fault = lockstep::testing::HostFault::kDie; break;
      case 2: rank.gpu_stall_at = at; break;
      default: rank.program[at].count += 1; break;
    }
  }
  Bundle bundle = job.Run();
  constexpr OpState kStates[] = {OpState::kUnknown, OpState::kEntered,  OpState::kQueued,
                                 OpState::kFailed,  OpState::kCaptured, OpState::kIncomplete};
  for (Rank& rank : bundle.ranks) {
    if (pick(4) == 0 && !rank.ops.empty()) {
      const size_t gone = static_cast<size_t>(pick(static_cast<int>(rank.ops.size())));
      rank.ops.erase(rank.ops.begin(), rank.ops.begin() + static_cast<std::ptrdiff_t>(gone));
      rank.records_lost = gone;
    }
    for (int n = pick(4); n > 0 && !rank.ops.empty(); --n) {
      rank.ops[static_cast<size_t>(pick(static_cast<int>(rank.ops.size())))].state = kStates[pick(6)];
    }
    if (pick(10) == 0)
      rank.memberships[static_cast<size_t>(pick(static_cast<int>(rank.memberships.size())))].issued = kUnknown;
  }
  if (pick(3) == 0 && bundle.ranks.size() > 1)
    bundle.ranks.erase(bundle.ranks.begin() + pick(static_cast<int>(bundle.ranks.size())));
  return bundle;
}

// Replaces some facts of the analysis by random ones: members that differ with and without a reference group, ranks
// without data, wait classes.
ViewFacts RandomFacts(const Bundle& bundle, std::mt19937* random) {
  auto pick = [&](size_t n) { return static_cast<int32_t>((*random)() % static_cast<unsigned>(n)); };
  ViewFacts facts = BuildViewFacts(bundle, Analyze(bundle));
  facts.clear_mismatches();
  facts.clear_classes();
  facts.clear_edges();
  facts.clear_missing();
  for (int n = pick(4); n > 0; --n) {
    CallMismatch* mismatch = facts.add_mismatches();
    mismatch->set_comm(pick(bundle.comms.size()));
    mismatch->set_sequence(pick(12));
    const bool known = pick(2) == 0;
    for (int g = 0; g < 2; ++g) {
      auto* group = mismatch->add_groups();
      group->set_reference(known && g == 0);
      const auto& members = bundle.comms[static_cast<size_t>(mismatch->comm())].members;
      const int32_t rank = members[static_cast<size_t>(pick(members.size()))];
      group->mutable_ranks()->add_bounds(rank);
      group->mutable_ranks()->add_bounds(rank);
    }
  }
  for (const WaitClass::Kind kind : {WaitClass::VICTIM, WaitClass::CAUSE}) {
    WaitClass* wait = facts.add_classes();
    wait->set_kind(kind);
    wait->set_comm(pick(bundle.comms.size()));
    wait->set_sequence(pick(12));
    if (pick(2) == 0)
      wait->set_operation(ring::CallName(pick(2) == 0 ? ring::CallKind::kAllReduce : ring::CallKind::kRecv));
    wait->set_finding(-1);
  }
  for (RankFacts& rank : *facts.mutable_ranks()) rank.set_wait_class(pick(3) - 1);
  for (const Communicator& comm : bundle.comms) {
    for (const int32_t member : comm.members) {
      const bool there =
          std::any_of(bundle.ranks.begin(), bundle.ranks.end(), [&](const Rank& r) { return r.rank == member; });
      if (there || facts.missing_size() > 0) continue;
      RankRuns* runs = facts.add_missing();
      runs->add_bounds(member);
      runs->add_bounds(member);
    }
  }
  return facts;
}

TEST(CellMatrixTest, MatchesTheDefinitionOfEachState) {
  std::mt19937 random(41);
  std::map<ViewState, int> seen;
  for (int round = 0; round < 60; ++round) {
    const Bundle bundle = RandomJob(&random);
    const ViewFacts facts = RandomFacts(bundle, &random);
    auto opened = Document::FromBundle(bundle, &facts);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const Document& document = **opened;
    const Oracle oracle(bundle, document);
    for (int32_t comm = 0; comm < document.comm_count(); ++comm) {
      const auto matrix = BuildCommMatrix(document, comm);
      ASSERT_EQ(matrix->rows, bundle.comms[static_cast<size_t>(comm)].size);
      for (int row = 0; row < matrix->rows; ++row) {
        const int32_t rank = matrix->rank_of_row[static_cast<size_t>(row)];
        EXPECT_EQ(rank, bundle.comms[static_cast<size_t>(comm)].members[static_cast<size_t>(row)]);
        for (int column = 0; column < matrix->columns; ++column) {
          const int64_t seq = matrix->first_seq + column;
          ASSERT_EQ(matrix->At(row, column), oracle.InComm(comm, rank, seq))
              << "round " << round << " comm " << comm << " rank " << rank << " seq " << seq;
          ++seen[matrix->At(row, column)];
          const Selection selection = SelectionOfCell(document, *matrix, row, column);
          EXPECT_EQ(selection.seq_first, seq);
          const CellRange back = CellsOfSelection(document, *matrix, selection);
          ASSERT_EQ(back.rows, std::vector<int>{row});
          ASSERT_EQ(back.column_first, column);
        }
      }
    }
    const auto matrix = BuildJobMatrix(document);
    ASSERT_GE(matrix->rows, document.rank_count());
    for (int row = 0; row < matrix->rows; ++row) {
      const int32_t rank = matrix->rank_of_row[static_cast<size_t>(row)];
      for (int column = 0; column < matrix->columns; ++column) {
        ASSERT_EQ(matrix->At(row, column), oracle.InJob(rank, static_cast<size_t>(matrix->columns - 1 - column)))
            << "round " << round << " rank " << rank << " column " << column << " of " << matrix->columns;
        ++seen[matrix->At(row, column)];
        const Selection selection = SelectionOfCell(document, *matrix, row, column);
        if (selection.record < 0) continue;
        const CellRange back = CellsOfSelection(document, *matrix, selection);
        ASSERT_EQ(back.rows, std::vector<int>{row});
        ASSERT_EQ(back.column_first, column);
      }
    }
  }
  for (const ViewState state : {ViewState::kOutside, ViewState::kCompleted, ViewState::kOverwritten, ViewState::kIssued,
                                ViewState::kEnqueued, ViewState::kStarted, ViewState::kWaiting, ViewState::kNoData,
                                ViewState::kFailed, ViewState::kMismatch, ViewState::kMissing}) {
    EXPECT_GT(seen[state], 0) << ViewStateName(state);
  }
}

TEST(CellMatrixTest, AStalledRankIsTheOneThatIsMissing) {
  auto document = Document::FromBundle(testing::HangBundle());
  ASSERT_TRUE(document.ok()) << document.status();
  const Selection culprit = (*document)->AnomalyAt(0);
  const auto matrix = BuildCommMatrix(**document, culprit.comm);
  const CellRange cells = CellsOfSelection(**document, *matrix, culprit);
  ASSERT_EQ(cells.rows.size(), 1u);
  ASSERT_GE(cells.column_first, 0);
  for (int row = 0; row < matrix->rows; ++row) {
    EXPECT_EQ(matrix->At(row, cells.column_first), row == cells.rows[0] ? ViewState::kMissing : ViewState::kWaiting);
  }
  const auto whole = BuildJobMatrix(**document);
  const CellRange next = CellsOfSelection(**document, *whole, culprit);
  ASSERT_EQ(next.rows.size(), 1u);
  EXPECT_EQ(next.column_first, whole->columns - 1) << "missing calls come after the rank's last call";
  EXPECT_EQ(whole->At(next.rows[0], next.column_first), ViewState::kMissing);
  const Selection back = SelectionOfCell(**document, *whole, next.rows[0], next.column_first);
  EXPECT_EQ(back, culprit);
}

TEST(CellMatrixTest, AnEmptyBundleHasNoCells) {
  auto document = Document::FromBundle(Bundle());
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(BuildJobMatrix(**document)->rows, 0);
  EXPECT_EQ(BuildCommMatrix(**document, 0)->rows, 0);
  EXPECT_EQ(BuildCommMatrix(**document, -1)->rows, 0);
  const auto matrix = BuildJobMatrix(**document);
  EXPECT_TRUE(SelectionOfCell(**document, *matrix, 0, 0).empty());
  EXPECT_TRUE(CellsOfSelection(**document, *matrix, Selection()).rows.empty());
}

TEST(CellMatrixTest, ACancelledBuildReturnsNothing) {
  lockstep::testing::Job job(2, 1, 2, 2);
  auto document = Document::FromBundle(job.Run());
  ASSERT_TRUE(document.ok()) << document.status();
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(BuildJobMatrix(**document, &cancel), nullptr);
  EXPECT_EQ(BuildCommMatrix(**document, 0, &cancel), nullptr);
}

}  // namespace
}  // namespace lockstep::gui
