#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsd/writer.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ring::CallKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kNodes = 4, kPerNode = 4, kRanks = kNodes * kPerNode;
constexpr int64_t kNow = 1'000'000'000'000;

// Each node is a tensor-parallel group. Every `world_every`-th call is on the world communicator. `change` may modify
// a rank.
Bundle MakeJob(int calls, const std::function<void(int, Rank*)>& change = nullptr, int world_every = 100) {
  Bundle bundle;
  bundle.job = "window";
  bundle.ranks_expected = kRanks;
  for (int c = 0; c <= kNodes; ++c) {
    Communicator comm;
    comm.id = absl::StrCat("000000000000000", c);
    comm.name = c == kNodes ? "world" : absl::StrCat("tp_", c);
    comm.size = c == kNodes ? kRanks : kPerNode;
    for (int m = 0; m < comm.size; ++m) comm.members.push_back(c == kNodes ? m : c * kPerNode + m);
    bundle.comms.push_back(std::move(comm));
  }
  for (int r = 0; r < kRanks; ++r) {
    Rank rank;
    rank.rank = r;
    rank.world_size = kRanks;
    rank.host = absl::StrCat("node", r / kPerNode);
    rank.job = "window";
    rank.source = Source::kDump;
    rank.captured_ns = kNow;
    rank.process.life = Life::kRunning;
    rank.threads.emplace_back();
    rank.threads[0].calls = static_cast<uint64_t>(calls);
    for (int k = 0; k < 2; ++k) {
      Membership m;
      m.comm = static_cast<uint32_t>(k == 0 ? r / kPerNode : kNodes);
      m.member_rank = k == 0 ? r % kPerNode : r;
      m.state = ring::CommState::kReady;
      m.issued = m.launched = 0;
      rank.memberships.push_back(std::move(m));
    }
    for (int i = 0; i < calls; ++i) {
      Op op;
      op.membership = i % world_every == world_every - 1 ? 1 : 0;
      op.kind = i % 2 == 0 ? CallKind::kAllGather : CallKind::kReduceScatter;
      op.state = OpState::kCompleted;
      op.datatype = 9;
      op.count = 1024;
      op.seq = rank.memberships[op.membership].launched = ++rank.memberships[op.membership].issued;
      op.thread = 0;
      op.index = i;
      op.enter_ns = kNow - 60'000'000'000 - (calls - i) * 10'000;
      op.return_ns = op.enter_ns + 2'000;
      rank.ops.push_back(op);
    }
    if (change) change(r, &rank);
    bundle.ranks.push_back(std::move(rank));
  }
  return bundle;
}

class LoadWindowTest : public ::testing::Test {
 protected:
  LoadWindowTest() : folder_(absl::StrCat(::testing::TempDir(), "load_window_", getpid(), "_", counter_++)) {
    fs::create_directories(folder_);
    limits_.all = 1000;
    limits_.newest = kRanks * 100;
    limits_.history = 100'000;
  }
  ~LoadWindowTest() override { fs::remove_all(folder_); }

  void Write(const Bundle& bundle) {
    for (size_t n = 0; n < kNodes; ++n) {
      std::vector<size_t> ranks;
      for (size_t r = 0; r < kPerNode; ++r) ranks.push_back(n * kPerNode + r);
      ASSERT_TRUE(WriteLsd(bundle, ranks, {}, absl::StrCat(folder_, "/", n, ".lsd")).ok());
    }
  }
  Bundle Load(const LoadLimits& limits) {
    auto bundle = LoadPaths({folder_}, nullptr, limits);
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return std::move(bundle).value();
  }
  static std::string Note(const Bundle& bundle) {
    for (const Problem& p : bundle.problems) {
      if (p.note) return p.text;
    }
    return "";
  }
  // Rewrites the files in the older format without histories and descriptions.
  void MakeOld() {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      std::string out(kLsdMagic);
      for (size_t at = kLsdMagic.size(); at < bytes.size();) {
        uint64_t length = 0;
        for (int shift = 0;; shift += 7) {
          const auto byte = static_cast<unsigned char>(bytes[at++]);
          length |= static_cast<uint64_t>(byte & 0x7f) << shift;
          if (byte < 0x80) break;
        }
        DumpRecord record;
        ASSERT_TRUE(record.ParseFromArray(bytes.data() + at, static_cast<int>(length)));
        at += length;
        if (record.has_history()) continue;
        if (record.has_ops()) {
          OpChunk* ops = record.mutable_ops();
          ops->clear_described();
          ops->clear_newest_ns();
          ops->clear_keep();
          ops->clear_lanes();
        }
        record.clear_crc();
        std::string message = record.SerializeAsString();
        const uint32_t crc = Crc32c(message);
        message.push_back(static_cast<char>(kLsdCrcTag));
        for (int shift = 0; shift < 32; shift += 8) message.push_back(static_cast<char>(crc >> shift & 0xff));
        for (uint64_t left = message.size();; left >>= 7) {
          out.push_back(static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0)));
          if (left <= 0x7f) break;
        }
        out += message;
      }
      std::ofstream(entry.path(), std::ios::binary) << out;
    }
  }

  static int counter_;
  const std::string folder_;
  LoadLimits limits_;
};
int LoadWindowTest::counter_ = 0;

const Op* Find(const Rank& rank, uint32_t membership, int64_t seq) {
  for (const Op& op : rank.ops) {
    if (op.membership == membership && op.seq == seq) return &op;
  }
  return nullptr;
}

TEST_F(LoadWindowTest, TheNewestCallsAreLoadedAndTheRestIsCounted) {
  Write(MakeJob(2000));
  const Bundle bundle = Load(limits_);
  ASSERT_EQ(bundle.ranks.size(), static_cast<size_t>(kRanks));
  for (const Rank& rank : bundle.ranks) {
    EXPECT_FALSE(rank.damaged);
    EXPECT_GE(rank.ops.size(), 100u);
    EXPECT_LE(rank.ops.size(), 100u + kLsdChunkOps);
    EXPECT_EQ(rank.ops.back().index, 1999);
    EXPECT_EQ(rank.ops.front().index, 2000 - static_cast<int64_t>(rank.ops.size()));
    EXPECT_EQ(rank.not_loaded, 2000 - rank.ops.size());
    int64_t in_comms = 0;
    for (const Membership& m : rank.memberships) in_comms += m.not_loaded;
    EXPECT_EQ(in_comms, static_cast<int64_t>(rank.not_loaded));
  }
  EXPECT_THAT(Note(bundle), HasSubstr("of 32000 recorded operations"));
  EXPECT_THAT(Note(bundle), HasSubstr("no differences"));
  EXPECT_EQ(Analyze(bundle).verdict(), VERDICT_HEALTHY);

  const Bundle all = Load({});
  EXPECT_EQ(all.ranks[3].ops.size(), 2000u);
  EXPECT_EQ(all.ranks[3].not_loaded, 0u);
  EXPECT_EQ(Note(all), "");
}

TEST_F(LoadWindowTest, AnOldMismatchedCallIsLoadedWithItsNeighbors) {
  for (const bool old : {false, true}) {
    SCOPED_TRACE(old ? "file without histories" : "file with histories");
    Write(MakeJob(3000, [](int r, Rank* rank) {
      if (r == 6) rank->ops[700].count = 512;
    }));
    if (old) MakeOld();
    const Bundle bundle = Load(limits_);
    EXPECT_LT(bundle.ranks[13].ops.size(), 300u);
    for (int r = 4; r < 8; ++r) EXPECT_NE(Find(bundle.ranks[r], 0, 694), nullptr) << r;
    EXPECT_THAT(Note(bundle), HasSubstr("differences on 1 communicator or pair, and 1 rank whose"));
    const Verdict verdict = Analyze(bundle);
    ASSERT_GE(verdict.findings_size(), 1);
    EXPECT_EQ(verdict.findings(0).kind(), MISMATCH_COUNT);
    EXPECT_THAT(verdict.findings(0).culprit_ranks(), ElementsAre(6));
    EXPECT_EQ(verdict.findings(0).sequence(), 694);
  }
}

TEST_F(LoadWindowTest, AMismatchOnTheWorldIsFoundAmongAllMembers) {
  Write(MakeJob(
      3000,
      [](int r, Rank* rank) {
        if (r == 9 || r == 14) rank->ops[999].datatype = 7;
      },
      10));
  const Bundle bundle = Load(limits_);
  for (const Rank& rank : bundle.ranks) EXPECT_NE(Find(rank, 1, 100), nullptr) << rank.rank;
  const Verdict verdict = Analyze(bundle);
  ASSERT_GE(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.findings(0).kind(), MISMATCH_DATATYPE);
  EXPECT_THAT(verdict.findings(0).culprit_ranks(), ElementsAre(9, 14));
}

TEST_F(LoadWindowTest, RareCallsAreComparedIndividually) {
  for (const int at : {299, 2599}) {
    SCOPED_TRACE(at);
    Write(MakeJob(3000, [&](int r, Rank* rank) {
      if (r == 9) rank->ops[static_cast<size_t>(at)].count = 7;
      if (r == 3) rank->ops.erase(rank->ops.begin(), rank->ops.begin() + 150);
    }));
    const Bundle bundle = Load(limits_);
    const Verdict verdict = Analyze(bundle);
    ASSERT_GE(verdict.findings_size(), 1);
    EXPECT_EQ(verdict.findings(0).kind(), MISMATCH_COUNT);
    EXPECT_THAT(verdict.findings(0).culprit_ranks(), ElementsAre(9));
    EXPECT_EQ(verdict.findings(0).sequence(), (at + 1) / 100);
    EXPECT_EQ(bundle.ranks[12].ops.size() + bundle.ranks[12].not_loaded, 3000u);
  }
}

TEST_F(LoadWindowTest, CallsThatAMemberHasNotIssuedAreLoadedHoweverOld) {
  // Without GPU progress markers, only rank 2's progress shows that the world's third call is in flight. 700 calls
  // follow it.
  Write(MakeJob(1000, [](int r, Rank* rank) {
    for (Op& op : rank->ops) op.state = OpState::kUnknown;
    if (r != 2) return;
    std::erase_if(rank->ops, [](const Op& op) { return op.membership == 1 && op.seq > 2; });
    rank->memberships[1].issued = rank->memberships[1].launched = 2;
  }));
  const Bundle bundle = Load(limits_);
  EXPECT_LT(bundle.ranks[5].ops.size(), 300u);
  EXPECT_NE(Find(bundle.ranks[5], 1, 3), nullptr);
  EXPECT_EQ(Find(bundle.ranks[5], 1, 4), nullptr);
}

TEST_F(LoadWindowTest, UnfinishedCallsAreLoadedHoweverOld) {
  Write(MakeJob(1000, [](int, Rank* rank) { rank->ops[150].state = OpState::kStarted; }));
  const Bundle bundle = Load(limits_);
  EXPECT_NE(Find(bundle.ranks[5], 0, 150), nullptr);
}

TEST_F(LoadWindowTest, ACallAfterCallsThatWereNotLoadedIsMarked) {
  Write(MakeJob(3000, [](int, Rank* rank) { rank->ops[150].state = rank->ops[1500].state = OpState::kStarted; }));
  for (const Rank& rank : Load(limits_).ranks) {
    int gaps = 0;
    int64_t next = 0;
    for (const Op& op : rank.ops) {
      EXPECT_EQ(op.after_gap, op.index != next) << rank.rank << ", call " << op.index;
      gaps += op.after_gap;
      next = op.index + 1;
    }
    EXPECT_GE(gaps, 2);
  }
  for (const Rank& rank : Load({}).ranks) {
    for (const Op& op : rank.ops) EXPECT_FALSE(op.after_gap);
  }
}

TEST_F(LoadWindowTest, ARankThatSkippedACallIsLoadedWithPeers) {
  Write(MakeJob(3000, [](int r, Rank* rank) {
    if (r != 10) return;
    rank->ops.erase(rank->ops.begin() + 800);
    for (size_t i = 800; i < rank->ops.size(); ++i) {
      if (rank->ops[i].membership == 0) --rank->ops[i].seq;
    }
    --rank->memberships[0].issued;
    --rank->memberships[0].launched;
  }));
  const Bundle bundle = Load(limits_);
  EXPECT_EQ(bundle.ranks[10].ops.size(), 2999u);
  size_t full = 0;
  for (const Rank& rank : bundle.ranks) full += rank.not_loaded == 0;
  EXPECT_GE(full, 3u);
  EXPECT_LE(full, 8u);
}

TEST_F(LoadWindowTest, OldFilesGiveTheSameSelection) {
  Write(MakeJob(2000));
  const Bundle fresh = Load(limits_);
  MakeOld();
  const Bundle old = Load(limits_);
  ASSERT_EQ(old.ranks.size(), fresh.ranks.size());
  for (size_t r = 0; r < old.ranks.size(); ++r) {
    ASSERT_EQ(old.ranks[r].ops.size(), fresh.ranks[r].ops.size());
    EXPECT_EQ(old.ranks[r].ops.front().index, fresh.ranks[r].ops.front().index);
    EXPECT_EQ(old.ranks[r].not_loaded, fresh.ranks[r].not_loaded);
    EXPECT_EQ(old.ranks[r].memberships[0].not_loaded, fresh.ranks[r].memberships[0].not_loaded);
  }
  EXPECT_EQ(Note(old), Note(fresh));
}

TEST_F(LoadWindowTest, ABundleWithoutItsHistoryIsNotWritten) {
  Write(MakeJob(2000));
  const Bundle bundle = Load(limits_);
  const absl::Status status = WriteLsd(bundle, {0}, {}, folder_ + "/copy.lsd");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fs::exists(folder_ + "/copy.lsd"));
}

}  // namespace
}  // namespace lockstep
