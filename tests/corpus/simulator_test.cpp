// Checks that the simulator obeys the rules of the real machine.
#include "tests/corpus/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "tests/corpus/capture.h"
#include "tests/corpus/program.h"

namespace lockstep::corpus {
namespace {

Job MakeJobOf(const std::string& text, int32_t ranks, int32_t steps, uint64_t seed, bool shared_stream = false) {
  Layout layout;
  std::string error;
  EXPECT_TRUE(MakeLayout(text, ranks, seed, &layout, &error)) << error;
  layout.shared_stream = shared_stream;
  return MakeJob(layout, ranks, steps, seed);
}

SimOptions WholeHistory() {
  SimOptions options;
  options.ring_depth = 8192;
  return options;
}

struct Ended {
  int32_t rank;
  Record record;
  const Instr* instr;
};

// Returns every operation that any rank recorded.
std::vector<Ended> All(const Simulator& run) {
  std::vector<Ended> all;
  for (int32_t r = 0; r < run.job().ranks; ++r) {
    const RankRun& rank = run.ranks()[static_cast<size_t>(r)];
    for (uint64_t n = 0; n < rank.records; ++n) {
      const Record& record = rank.ring[n];
      const Instr& in = (*run.job().programs[static_cast<size_t>(r)])[record.instr];
      if (in.act == Act::kCall || in.act == Act::kAllToAllV) all.push_back({r, record, &in});
    }
  }
  return all;
}

void CheckRules(const Simulator& run) {
  const Job& job = run.job();
  std::map<std::tuple<int32_t, bool, uint32_t>, std::vector<const Ended*>> collectives;
  std::map<std::tuple<int32_t, int32_t, int32_t, uint32_t>, std::pair<const Ended*, const Ended*>> pairs;
  std::map<std::pair<int32_t, uint8_t>, int64_t> last;
  const std::vector<Ended> all = All(run);
  for (const Ended& e : all) {
    if (e.record.captured) continue;
    if (e.record.start != kNever) {
      EXPECT_GE(e.record.start, e.record.enter);
    }
    if (e.record.finish != kNever) {
      ASSERT_NE(e.record.start, kNever);
      EXPECT_GT(e.record.finish, e.record.start);
    }
    // A stream works in order.
    int64_t& before = last[{e.rank, e.record.replay != 0 ? StreamOf(e.instr->slot) : e.record.stream}];
    if (e.record.finish != kNever) {
      ASSERT_NE(before, kNever) << "completed after an operation that did not complete";
      EXPECT_GE(e.record.finish, before);
    }
    before = std::max(before, e.record.finish);
    const int32_t comm = job.comm_of[static_cast<size_t>(e.rank)][e.instr->slot];
    const int32_t me = job.member_of[static_cast<size_t>(e.rank)][e.instr->slot];
    if (e.instr->kind == CallKind::kSend) {
      pairs[{comm, me, e.instr->root_or_peer, e.record.seq}].first = &e;
    } else if (e.instr->kind == CallKind::kRecv) {
      pairs[{comm, e.instr->root_or_peer, me, e.record.seq}].second = &e;
    } else {
      collectives[{comm, e.instr->act == Act::kAllToAllV, e.record.seq}].push_back(&e);
    }
  }
  for (const auto& [key, members] : collectives) {
    const size_t size = job.comms[static_cast<size_t>(std::get<0>(key))].members.size();
    int64_t last_start = 0, first_finish = kNever;
    bool same = true;
    for (const Ended* e : members) {
      last_start = std::max(last_start, e->record.start);
      first_finish = std::min(first_finish, e->record.finish);
      same &= e->instr->kind == members[0]->instr->kind && e->instr->count == members[0]->instr->count &&
              e->instr->datatype == members[0]->instr->datatype;
    }
    if (first_finish != kNever && same) {
      EXPECT_EQ(members.size(), size) << "a collective completed before all members reached it";
      EXPECT_GE(first_finish, last_start);
    }
  }
  for (const auto& [key, pair] : pairs) {
    for (const Ended* side : {pair.first, pair.second}) {
      if (side == nullptr || side->record.finish == kNever) continue;
      const Ended* other = side == pair.first ? pair.second : pair.first;
      ASSERT_NE(other, nullptr) << "a send or receive completed alone";
      EXPECT_GE(side->record.finish, other->record.start);
    }
  }
}

class Layouts : public ::testing::TestWithParam<std::pair<const char*, int32_t>> {};

TEST_P(Layouts, HealthyJobsFinish) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Job job = MakeJobOf(GetParam().first, GetParam().second, 3, seed);
    Simulator run(job, WholeHistory());
    run.Run();
    EXPECT_TRUE(run.finished()) << GetParam().first << " seed " << seed;
    CheckRules(run);
    for (const Ended& e : All(run)) EXPECT_TRUE(e.record.finish != kNever || e.record.captured);
  }
}

TEST_P(Layouts, HealthyJobsFinishOnASharedStream) {
  if (std::string(GetParam().first) == "graph") return;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Job job = MakeJobOf(GetParam().first, GetParam().second, 3, seed, true);
    Simulator run(job, WholeHistory());
    run.Run();
    EXPECT_TRUE(run.finished()) << GetParam().first << " seed " << seed;
    CheckRules(run);
    std::map<std::pair<int32_t, uint8_t>, uint32_t> tickets;
    std::set<Slot> on_compute;
    for (const Ended& e : All(run)) {
      EXPECT_NE(e.record.finish, kNever);
      const bool alone = !ring::IsPointToPoint(e.instr->kind) && !e.instr->async;
      EXPECT_EQ(e.record.stream, alone ? kComputeStream : StreamOf(e.instr->slot));
      if (alone) on_compute.insert(e.instr->slot);
      // A stream numbers its launches consecutively; the operations of a group share one number.
      uint32_t& ticket = tickets[{e.rank, e.record.stream}];
      EXPECT_TRUE(e.record.ticket == ticket + 1 || (e.record.group != 0 && e.record.ticket == ticket));
      ticket = e.record.ticket;
    }
    EXPECT_GE(on_compute.size(), job.layout.shape == Shape::kMegatron ? 3u : 1u);
    for (const auto& [at, ticket] : tickets) {
      const StreamRun& stream = run.ranks()[static_cast<size_t>(at.first)].streams[at.second];
      EXPECT_EQ(stream.issued, ticket);
      EXPECT_EQ(stream.done, ticket);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, Layouts,
                         ::testing::Values(std::pair{"3d", 8}, std::pair{"interleaved", 8}, std::pair{"cp", 8},
                                           std::pair{"moe", 8}, std::pair{"fsdp", 8}, std::pair{"hsdp", 8},
                                           std::pair{"ddp", 8}, std::pair{"graph", 8},
                                           std::pair{"tp2-cp2-pp4-dp4-ep2", 64}, std::pair{"tp4-pp4-dp4-vpp2", 64},
                                           std::pair{"tp2-pp8-dp4-vpp2-mb8", 64}, std::pair{"hsdp8", 64},
                                           std::pair{"moe", 64}));

TEST(SimulatorTest, TheSameSeedGivesTheSameRun) {
  const Job job = MakeJobOf("3d", 8, 3, 5);
  Simulator a(job, WholeHistory()), b(job, WholeHistory());
  a.Run();
  b.Run();
  EXPECT_EQ(a.stop_time(), b.stop_time());
  const std::vector<Ended> x = All(a), y = All(b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i].record.finish, y[i].record.finish);
}

// Inserts `act` before the first call of the step on that slot and returns its program index.
size_t Put(Job* job, int32_t rank, Act act, Slot slot, uint64_t step, uint64_t count = 0) {
  Program* program = job->Own(rank);
  bool in_step = false;
  for (size_t i = 0; i < program->size(); ++i) {
    const Instr& in = (*program)[i];
    if (in.act == Act::kStep) in_step = in.count == step;
    if (!in_step || in.act != Act::kCall || in.slot != slot) continue;
    Instr fault{.act = act};
    fault.count = count;
    fault.fault = 1;
    program->insert(program->begin() + static_cast<std::ptrdiff_t>(i), fault);
    return i;
  }
  ADD_FAILURE() << "the program has no such call";
  return 0;
}

TEST(SimulatorTest, AStalledJobCompletesAllThatItCan) {
  Job job = MakeJobOf("tp2-pp2-dp2", 8, 4, 3);
  Put(&job, 5, Act::kStall, kTp, 2);
  Simulator run(job, WholeHistory());
  run.Run();
  EXPECT_TRUE(run.Struck(0));
  EXPECT_FALSE(run.finished());
  CheckRules(run);
  // All operations that all members reached are complete. An incomplete operation is missing a member.
  std::map<std::pair<int32_t, uint32_t>, std::pair<size_t, size_t>> started_done;
  for (const Ended& e : All(run)) {
    if (ring::IsPointToPoint(e.instr->kind)) continue;
    auto& counts = started_done[{job.comm_of[static_cast<size_t>(e.rank)][e.instr->slot], e.record.seq}];
    counts.first += e.record.start != kNever;
    counts.second += e.record.finish != kNever;
  }
  size_t waiting = 0;
  for (const auto& [key, counts] : started_done) {
    const size_t size = job.comms[static_cast<size_t>(key.first)].members.size();
    if (counts.first == size) {
      EXPECT_EQ(counts.second, size);
    } else {
      EXPECT_EQ(counts.second, 0u);
      waiting += counts.first;
    }
  }
  EXPECT_GT(waiting, 0u);
  // The other CPU threads wait; the culprit does not.
  for (int32_t r = 0; r < 8; ++r) {
    const HostStatus status = run.ranks()[static_cast<size_t>(r)].status;
    EXPECT_EQ(status, r == 5 ? HostStatus::kStalled : HostStatus::kInWait) << r;
  }
}

TEST(SimulatorTest, AnEndlessKernelHoldsUpOnlyItsStream) {
  Job job = MakeJobOf("tp2-pp1-dp4", 8, 3, 3);
  const size_t at = Put(&job, 2, Act::kGpuHang, kTp, 1);
  Simulator run(job, WholeHistory());
  run.Run();
  CheckRules(run);
  bool peer_started = false;
  for (const Ended& e : All(run)) {
    if (e.instr->slot != kTp) continue;
    if (e.rank == 2 && e.record.instr == at + 1) {
      EXPECT_NE(e.record.enter, 0);
      EXPECT_EQ(e.record.start, kNever);
    }
    peer_started |= e.rank == 3 && e.record.start != kNever && e.record.finish == kNever;
  }
  EXPECT_TRUE(peer_started);
}

TEST(SimulatorTest, ADeadProcessCompletesNothingMore) {
  Job job = MakeJobOf("fsdp", 8, 4, 9);
  Put(&job, 4, Act::kDie, kShard, 2, 9);
  Simulator run(job, WholeHistory());
  run.Run();
  CheckRules(run);
  const RankRun& dead = run.ranks()[4];
  EXPECT_EQ(dead.status, HostStatus::kDead);
  EXPECT_EQ(dead.signal, 9);
  for (const Ended& e : All(run)) {
    if (e.rank != 4 || e.record.finish == kNever) continue;
    EXPECT_LE(e.record.finish, dead.status_since + 2 * kMicro);
  }
}

TEST(SimulatorTest, CallsInOppositeOrdersHang) {
  Job job = MakeJobOf("tp2-pp2-dp2", 8, 3, 3);
  Program* program = job.Own(6);
  std::vector<size_t> at;
  for (size_t i = 0; i < program->size(); ++i) {
    if ((*program)[i].act == Act::kCall && ((*program)[i].slot == kEmb || (*program)[i].slot == kMp)) at.push_back(i);
  }
  ASSERT_GE(at.size(), 2u);
  std::swap((*program)[at[0]], (*program)[at[1]]);
  std::swap((*program)[at[0] + 1], (*program)[at[1] + 1]);
  Simulator run(job, WholeHistory());
  run.Run();
  EXPECT_FALSE(run.finished());
  CheckRules(run);
}

TEST(SimulatorTest, DifferentCountsHangButDifferentReductionsDoNot) {
  for (bool count : {true, false}) {
    Job job = MakeJobOf("ddp", 8, 3, 4);
    Program* program = job.Own(1);
    size_t calls = 0;
    for (Instr& in : *program) {
      if (in.act != Act::kCall || ++calls != 9) continue;
      if (count) {
        in.count /= 2;
      } else {
        in.reduction = 2;
      }
    }
    Simulator run(job, WholeHistory());
    run.Run();
    EXPECT_EQ(run.finished(), !count);
    CheckRules(run);
  }
}

void CountersOnlyIncrease(bool shared_stream) {
  const Job job = MakeJobOf("interleaved", 8, 3, 8, shared_stream);
  Simulator run(job, WholeHistory());
  run.Run();
  for (int32_t r = 0; r < 8; r += 3) {
    RankView before;
    for (int part = 1; part <= 40; ++part) {
      CaptureOptions options;
      options.at = run.stop_time() * part / 40;
      options.depth = 8192;
      const RankView now = Capture(run, options, r);
      EXPECT_GE(now.ops.size(), before.ops.size());
      for (const CommView& c : now.comms) {
        EXPECT_LE(c.done, c.started);
        EXPECT_LE(c.started, c.launched);
        EXPECT_LE(c.launched, c.issued);
        for (const CommView& b : before.comms) {
          if (b.comm != c.comm) continue;
          EXPECT_LE(b.issued, c.issued);
          EXPECT_LE(b.done, c.done);
          EXPECT_LE(b.started, c.started);
        }
      }
      for (const StreamView& s : now.streams) {
        EXPECT_LE(s.completed, s.started);
        EXPECT_LE(s.started, s.issued);
        for (const StreamView::Wait& wait : s.depends) {
          EXPECT_LE(wait.ticket, now.streams.at(wait.stream).issued);
          EXPECT_LE(wait.after, s.issued);
        }
      }
      uint32_t seen[kSlots] = {};
      for (const OpView& op : now.ops) {
        EXPECT_LE(op.enter, options.at);
        EXPECT_LE(op.ticket, op.stream < 0 ? UINT32_MAX : now.streams.at(static_cast<size_t>(op.stream)).issued);
        EXPECT_LE(op.launch, op.comm < 0 ? UINT32_MAX : now.comms.at(static_cast<size_t>(op.comm)).launches);
        if (op.instr->act != Act::kCall || !ring::IsCollective(op.kind)) continue;
        EXPECT_EQ(op.seq, ++seen[op.slot]);
      }
      for (const CommView& c : now.comms) EXPECT_EQ(c.issued, seen[c.slot]);
      before = now;
    }
  }
}

TEST(CaptureTest, CountersOnlyIncrease) { CountersOnlyIncrease(false); }
TEST(CaptureTest, CountersOfASharedStreamOnlyIncrease) { CountersOnlyIncrease(true); }

TEST(CaptureTest, MembersWithEqualCallsHaveEqualHashes) {
  const Job job = MakeJobOf("3d", 8, 3, 8);
  Simulator run(job, WholeHistory());
  run.Run();
  CaptureOptions options;
  options.at = run.stop_time() + kSecond;
  std::map<int32_t, uint64_t> hashes;
  for (int32_t r = 0; r < 8; ++r) {
    for (const CommView& c : Capture(run, options, r).comms) {
      auto [it, fresh] = hashes.try_emplace(c.comm, c.hash);
      EXPECT_EQ(it->second, c.hash);
      if (c.issued >= 16) {
        EXPECT_FALSE(c.checkpoints.empty());
      }
    }
  }
}

TEST(CaptureTest, ShortRingsKeepTheLastOperationsOfEachCommunicator) {
  const Job job = MakeJobOf("tp2-pp2-dp2", 8, 6, 8);
  SimOptions sim;
  sim.ring_depth = 96;
  Simulator run(job, sim);
  run.Run();
  CaptureOptions options;
  options.at = run.stop_time() + kSecond;
  options.depth = 32;
  const RankView view = Capture(run, options, 0);
  std::map<Slot, uint32_t> kept;
  size_t in_ring = 0;
  for (const OpView& op : view.ops) {
    in_ring += !op.recent_only;
    if (op.instr->act == Act::kCall && ring::IsCollective(op.kind)) ++kept[op.slot];
  }
  EXPECT_EQ(in_ring, 32u);
  for (const CommView& c : view.comms) {
    EXPECT_GE(kept[c.slot], std::min<int64_t>(16, c.issued)) << SlotName(c.slot);
    EXPECT_LE(c.retained, c.operations);
  }
}

}  // namespace
}  // namespace lockstep::corpus
