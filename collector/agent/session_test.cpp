#include "collector/agent/session.h"
#include "analyzer/util/time_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/escaping.h"
#include "analyzer/model/rank_set.h"

namespace lockstep {
namespace {

class FakeSource final : public AgentSource {
 public:
  explicit FakeSource(int ranks, int comms) : digests_(static_cast<size_t>(ranks)) {
    identity_.set_job("job");
    for (int rank = 0; rank < ranks; ++rank) {
      ring::Snapshot& digest = digests_[static_cast<size_t>(rank)];
      digest.process.rank = rank;
      for (int comm = 0; comm < comms; ++comm) {
        ring::CommSnapshot entry;
        entry.index = static_cast<uint32_t>(comm);
        entry.id = 1000 + static_cast<uint64_t>(comm);
        entry.name = "communicator_" + std::to_string(comm);
        entry.size = ranks;
        entry.member_rank = rank;
        entry.state = ring::CommState::kReady;
        digest.comms.push_back(entry);
      }
    }
  }
  // Every communicator issues one more operation. Rank `sits` does not join, so the others wait in the call.
  void Step(int64_t now, int32_t sits = -1) {
    for (ring::Snapshot& digest : digests_) {
      const bool here = digest.process.rank != sits;
      for (ring::CommSnapshot& comm : digest.comms) {
        if (!here) continue;
        ++comm.issued_seq;
        comm.issued_ns = now;
        comm.checkpoints.push_back({comm.issued_seq, comm.issued_seq * 77});
        if (comm.checkpoints.size() > 8) comm.checkpoints.erase(comm.checkpoints.begin());
      }
      if (sits < 0 || !here) continue;
      ring::ThreadSnapshot thread;
      thread.call = ring::CallKind::kAllReduce;
      thread.comm = 0;
      thread.seq = digest.comms[0].issued_seq;
      thread.since_ns = now;
      digest.threads = {thread};
    }
  }
  void Release() {
    for (ring::Snapshot& digest : digests_) digest.threads.clear();
  }

  ring::ProcessInfo& process(int rank) { return digests_[static_cast<size_t>(rank)].process; }
  void Look(int64_t) override {
    ++looks;
    sights_.clear();
    for (size_t i = 0; i < digests_.size(); ++i) {
      RankSight sight;
      sight.view = ViewOf(digests_[i]);
      sight.view.slot = static_cast<int32_t>(i);
      sight.view.alive = !all_ended;
      sight.rank = digests_[i].process.rank;
      sight.digest = &digests_[i];
      sights_.push_back(std::move(sight));
    }
  }
  size_t jobs() const override { return 1; }
  const JobIdentity& job(size_t) const override { return identity_; }
  absl::Span<const RankSight> ranks(size_t) const override { return sights_; }
  bool NextEnded(ProcessEnded* out) override {
    if (told_ || ended_rank < 0) return false;
    told_ = true;
    out->set_rank(ended_rank);
    return true;
  }
  void TellAgain() override { told_ = false; }
  void FillDigest(const CollectRequest&, Digest* out) override {
    for (size_t i = 0; i < digests_.size(); ++i) {
      RankDigest* digest = out->add_ranks();
      digest->mutable_rank()->set_rank(static_cast<int32_t>(i));
      digest->mutable_rank()->set_source(std::string(digest_bytes, 'x'));
    }
    out->add_communicators()->set_id("c");
  }
  void Gather(const CollectRequest& request) override { gathered.push_back(request); }
  bool NextEvidence(HostEvidence* out) override {
    if (evidence.empty()) return false;
    *out = evidence.back();
    evidence.pop_back();
    return true;
  }

  int looks = 0;
  int32_t ended_rank = -1;
  bool all_ended = false;
  size_t digest_bytes = 10;
  std::vector<CollectRequest> gathered;
  std::vector<HostEvidence> evidence;

 private:
  JobIdentity identity_;
  std::vector<ring::Snapshot> digests_;
  std::vector<RankSight> sights_;
  bool told_ = false;
};

class FakeStore final : public ChunkStore {
 public:
  explicit FakeStore(int chunks, size_t bytes) {
    for (int i = 0; i < chunks; ++i) {
      Chunk chunk;
      chunk.set_id("chunk-" + std::to_string(1000 + i) + "-----");
      chunk.set_data(std::string(bytes, 'd'));
      chunks_[chunk.id()] = chunk;
    }
  }
  bool Next(Chunk* out) override {
    for (const auto& [id, chunk] : chunks_) {
      if (!out_.insert(id).second) continue;
      *out = chunk;
      return true;
    }
    return false;
  }
  void Acked(const std::string& id) override { chunks_.erase(id); }
  void Refused(const std::string& id, const std::string&) override { chunks_.erase(id); }
  void Return(const std::string& id) override {
    if (id.empty()) out_.clear();
    out_.erase(id);
  }
  size_t held() const override { return chunks_.size(); }

 private:
  std::map<std::string, Chunk> chunks_;
  std::set<std::string> out_;
};

class AgentSessionTest : public ::testing::Test {
 protected:
  void Make(int ranks = 4, int comms = 2, int chunks = 0, size_t chunk_bytes = 1000) {
    source_ = std::make_unique<FakeSource>(ranks, comms);
    store_ = std::make_unique<FakeStore>(chunks, chunk_bytes);
    options_.host = "node1";
    options_.log = [this](const std::string& line) { logged_.push_back(line); };
    session_ =
        std::make_unique<AgentSession>(options_, source_.get(), store_.get(), [this](const wire::Message& message) {
          if (!up_) return absl::UnavailableError("down");
          sent_.push_back(message);
          return absl::OkStatus();
        });
  }
  void Welcome(uint64_t instance = 1) {
    lockstep::Welcome welcome;
    welcome.set_instance(instance);
    Receive(wire::Type::kWelcome, welcome);
  }
  void Receive(wire::Type type, const google::protobuf::MessageLite& message) {
    session_->Receive(*wire::Encode(type, message), now_);
  }
  void Connect(uint64_t instance = 1) {
    session_->Connected(now_);
    Welcome(instance);
  }
  // Lets time pass, as the session's owner does.
  void Run(int64_t ns, const std::function<void()>& each_second = {}) {
    const int64_t end = now_ + ns;
    while (now_ < end) {
      const int64_t before = now_ / kSecond;
      now_ = std::min(end, std::max(session_->next(), now_ + 1'000'000));
      if (each_second && now_ / kSecond != before) each_second();
      session_->Tick(now_, 0);
    }
  }
  template <typename T>
  std::vector<T> Sent(wire::Type type) const {
    std::vector<T> messages;
    for (const wire::Message& message : sent_) {
      if (message.header.type != type) continue;
      messages.emplace_back();
      EXPECT_TRUE(wire::DecodeBody(message, &messages.back()).ok());
    }
    return messages;
  }

  AgentSessionOptions options_;
  std::unique_ptr<FakeSource> source_;
  std::unique_ptr<FakeStore> store_;
  std::vector<std::string> logged_;
  std::unique_ptr<AgentSession> session_;
  std::vector<wire::Message> sent_;
  bool up_ = true;
  int64_t now_ = 1000 * kSecond;
};

TEST_F(AgentSessionTest, BeforeTheWelcomeOnlyHelloIsSent) {
  Make();
  Run(3 * kSecond, [&] { source_->Step(now_); });
  EXPECT_TRUE(sent_.empty());
  session_->Connected(now_);
  source_->ended_rank = 2;
  Run(12 * kSecond, [&] { source_->Step(now_); });
  for (const wire::Message& message : sent_) EXPECT_EQ(message.header.type, wire::Type::kHello);
  EXPECT_GE(sent_.size(), 2u);  // repeated, because no answer arrives
  sent_.clear();
  lockstep::Welcome no;
  no.set_refused("unknown key");
  Receive(wire::Type::kWelcome, no);
  EXPECT_EQ(session_->refused(), "unknown key");
  Run(2 * kSecond);
  EXPECT_TRUE(Sent<Heartbeat>(wire::Type::kHeartbeat).empty());
  Welcome();
  EXPECT_TRUE(session_->welcome());
  Run(2 * kSecond, [&] { source_->Step(now_); });
  EXPECT_EQ(Sent<ProcessEnded>(wire::Type::kEnded).size(), 1u);
  EXPECT_GE(Sent<Heartbeat>(wire::Type::kHeartbeat).size(), 2u);
}

TEST_F(AgentSessionTest, AHeartbeatEverySecondSaysWhatMoved) {
  Make();
  Connect();
  Run(10 * kSecond, [&] { source_->Step(now_); });
  std::vector<Heartbeat> beats = Sent<Heartbeat>(wire::Type::kHeartbeat);
  EXPECT_GE(beats.size(), 10u);
  EXPECT_LE(beats.size(), 12u);
  bool named = false;
  for (const CommunicatorBeat& beat : beats[0].moved())
    named |= beat.name() == "communicator_0" && Ranks::From(beat.members())->size() == 4;
  for (const CommunicatorBeat& beat : beats[1].moved())
    named |= beat.name() == "communicator_0" && Ranks::From(beat.members())->size() == 4;
  EXPECT_TRUE(named);
  EXPECT_EQ(Ranks::From(beats.back().alive())->size(), 4u);
  EXPECT_EQ(beats.back().moved_size(), 2);
  EXPECT_EQ(beats.back().moved(0).issued_min(), beats.back().moved(0).issued_max());
  Run(3 * kSecond);
  sent_.clear();
  Run(3 * kSecond);
  for (const Heartbeat& beat : Sent<Heartbeat>(wire::Type::kHeartbeat)) EXPECT_EQ(beat.moved_size(), 0);
}

TEST_F(AgentSessionTest, TheLastHeartbeatReportsEndsSinceTheOneBefore) {
  Make();
  Connect();
  Run(3 * kSecond);
  sent_.clear();
  source_->all_ended = true;
  session_->Leave(now_ + 1, 0);
  const std::vector<Heartbeat> beats = Sent<Heartbeat>(wire::Type::kHeartbeat);
  ASSERT_EQ(beats.size(), 1u);
  EXPECT_EQ(Ranks::From(beats[0].alive())->size(), 0u);
  EXPECT_EQ(Ranks::From(beats[0].ended())->size(), 4u);
}

TEST_F(AgentSessionTest, AHeartbeatReportsVersionsAndCosts) {
  int64_t cpu = 0;
  options_.cpu_ns = [&] { return cpu; };
  options_.blind = [] {
    return std::vector<std::string>{"cannot look for new rings: /mnt has not responded for 30 s"};
  };
  options_.version = "0.1.0";
  Make(8);
  for (int rank = 0; rank < 8; ++rank) {
    ring::ProcessInfo& process = source_->process(rank);
    process.recorder_version = rank == 3 ? "0.0.9" : "0.1.0";
    process.gpu_marks = rank < 4 ? ring::GpuMarks::kFull : ring::GpuMarks::kDone;
    process.own_call_ns = 20 + static_cast<uint32_t>(rank);
    process.ring_bytes = 4 << 20;
  }
  Connect();
  Run(25 * kSecond, [&] { cpu += 7'000'000; });
  const Heartbeat beat = Sent<Heartbeat>(wire::Type::kHeartbeat).back();
  ASSERT_EQ(beat.recorders_size(), 3);
  std::map<std::string, RecorderFacts> told;
  for (const RecorderFacts& facts : beat.recorders()) told[facts.version() + " " + facts.gpu_mode()] = facts;
  EXPECT_EQ(Ranks::From(told["0.1.0 full"].ranks())->List(), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(told["0.1.0 full"].call_ns(), 22u);
  EXPECT_EQ(told["0.1.0 full"].ring_bytes(), 3u * (4 << 20));
  EXPECT_EQ(Ranks::From(told["0.0.9 full"].ranks())->List(), (std::vector<int32_t>{3}));
  EXPECT_EQ(Ranks::From(told["0.1.0 done"].ranks())->size(), 4u);
  ASSERT_EQ(beat.agent_version_size(), 1);
  EXPECT_EQ(beat.agent_version(0), options_.version);
  EXPECT_NEAR(beat.agent_cpu_permille(), 7, 1);
  ASSERT_EQ(beat.blind_size(), 1);
  EXPECT_THAT(beat.blind(0), ::testing::EndsWith(": cannot look for new rings: /mnt has not responded for 30 s"));
}

TEST_F(AgentSessionTest, TwoHundredCommunicatorsFitInto500BytesARankAndAllAreSentEventually) {
  Make(8, 200);
  Connect();
  Run(30 * kSecond, [&] { source_->Step(now_); });
  std::set<uint64_t> told;
  for (const Heartbeat& beat : Sent<Heartbeat>(wire::Type::kHeartbeat)) {
    EXPECT_LE(beat.ByteSizeLong(), 8u * 512);
    for (const CommunicatorBeat& comm : beat.moved()) told.insert(comm.id());
  }
  EXPECT_EQ(told.size(), 200u);
  EXPECT_GT(session_->counters().beats_put_off, 0u);
}

TEST_F(AgentSessionTest, AnUnsentChangeIsInTheNextHeartbeat) {
  Make();
  Connect();
  up_ = false;
  Run(5 * kSecond, [&] { source_->Step(now_); });
  up_ = true;
  EXPECT_GE(session_->counters().heartbeats_dropped, 4u);
  Run(2 * kSecond);
  std::set<int> members;
  uint64_t highest = 0;
  for (const Heartbeat& beat : Sent<Heartbeat>(wire::Type::kHeartbeat)) {
    for (const CommunicatorBeat& comm : beat.moved()) {
      if (comm.members().first_size() > 0) members.insert(static_cast<int>(comm.id()));
      highest = std::max(highest, comm.issued_max());
    }
  }
  EXPECT_EQ(members.size(), 2u);
  EXPECT_GE(highest, 4u);
}

TEST_F(AgentSessionTest, AWaitPastItsLimitIsReportedWithinASecondAndSoIsItsEnd) {
  Make();
  Connect();
  Run(20 * kSecond, [&] { source_->Step(now_); });
  EXPECT_TRUE(Sent<LateReport>(wire::Type::kLate).empty());
  const int64_t since = now_;
  source_->Step(now_, 3);
  while (Sent<LateReport>(wire::Type::kLate).empty() && now_ < since + 60 * kSecond) Run(kSecond / 10);
  const LateReport late = Sent<LateReport>(wire::Type::kLate).at(0);
  EXPECT_FALSE(late.over());
  EXPECT_LE(now_ - since, late.limit_ns() + kSecond);
  EXPECT_GE(late.in_flight_ns(), late.limit_ns());
  EXPECT_FALSE(Ranks::From(late.waiting())->Contains(3));
  EXPECT_TRUE(Ranks::From(late.waiting())->Contains(0));
  // A restarted collector gets the report again.
  sent_.clear();
  Connect(2);
  EXPECT_FALSE(Sent<LateReport>(wire::Type::kLate).empty());
  sent_.clear();
  source_->Release();
  source_->Step(now_);
  Run(3 * kSecond, [&] { source_->Step(now_); });
  ASSERT_FALSE(Sent<LateReport>(wire::Type::kLate).empty());
  EXPECT_TRUE(Sent<LateReport>(wire::Type::kLate)[0].over());
}

TEST_F(AgentSessionTest, TimeInWhichTheAgentWasStoppedBlamesNoRank) {
  Make();
  Connect();
  Run(10 * kSecond, [&] { source_->Step(now_); });
  source_->Step(now_, 3);
  Run(kSecond);
  now_ += 3600 * kSecond;  // this process was suspended
  session_->Tick(now_, 0);
  EXPECT_TRUE(Sent<LateReport>(wire::Type::kLate).empty());
}

TEST_F(AgentSessionTest, ALargeDigestComesInNumberedParts) {
  Make(20, 1);
  source_->digest_bytes = 200'000;
  Connect();
  CollectRequest request;
  request.set_request(5);
  request.set_phase(CollectRequest::DIGEST);
  Receive(wire::Type::kCollect, request);
  const std::vector<Digest> parts = Sent<Digest>(wire::Type::kDigest);
  ASSERT_GE(parts.size(), 4u);
  std::set<int32_t> ranks;
  for (const Digest& part : parts) {
    EXPECT_EQ(part.parts(), parts.size());
    EXPECT_EQ(part.request(), 5u);
    for (const RankDigest& rank : part.ranks()) ranks.insert(rank.rank().rank());
  }
  EXPECT_EQ(ranks.size(), 20u);
  EXPECT_EQ(parts[0].communicators_size(), 1);
}

TEST_F(AgentSessionTest, AnswersWaitForTheConnectionButNotForAnotherCollector) {
  Make();
  Connect();
  CollectRequest request;
  request.set_request(5);
  request.set_phase(CollectRequest::DIGEST);
  up_ = false;
  Receive(wire::Type::kCollect, request);
  up_ = true;
  Run(kSecond);
  EXPECT_EQ(Sent<Digest>(wire::Type::kDigest).size(), 1u);
  up_ = false;
  Receive(wire::Type::kCollect, request);
  up_ = true;
  Connect(2);
  Run(kSecond);
  EXPECT_EQ(Sent<Digest>(wire::Type::kDigest).size(), 1u);
  EXPECT_EQ(session_->counters().dropped, 1u);
}

TEST_F(AgentSessionTest, AtMostFourChunksAreInFlightAndAreResentUntilAcknowledged) {
  options_.chunk_bytes_per_second = 1e6;
  Make(4, 2, 40, 200'000);
  Connect();
  Run(2 * kSecond);
  EXPECT_EQ(Sent<Chunk>(wire::Type::kChunk).size(), 4u);
  // With immediate acknowledgments, 40 chunks of 200 kB (which compress to almost nothing) arrive within moments.
  std::set<std::string> acked;
  for (int i = 0; i < 2000 && store_->held() > 0; ++i) {
    for (const Chunk& chunk : Sent<Chunk>(wire::Type::kChunk)) {
      if (!acked.insert(chunk.id()).second) continue;
      ChunkAck ack;
      ack.add_id(chunk.id());
      Receive(wire::Type::kAck, ack);
    }
    Run(kSecond / 10);
  }
  EXPECT_EQ(store_->held(), 0u);
  EXPECT_EQ(session_->counters().chunks_acked, 40u);
  EXPECT_EQ(session_->counters().chunks_sent_again, 0u);
}

TEST_F(AgentSessionTest, AnUnacknowledgedChunkIsSentAgainLaterAndAtOnceOnANewConnection) {
  Make(4, 2, 1);
  Connect();
  Run(kSecond);
  ASSERT_EQ(Sent<Chunk>(wire::Type::kChunk).size(), 1u);
  Run(28 * kSecond);
  EXPECT_EQ(Sent<Chunk>(wire::Type::kChunk).size(), 1u);
  Run(4 * kSecond);
  EXPECT_EQ(Sent<Chunk>(wire::Type::kChunk).size(), 2u);
  Connect(1);
  Run(kSecond);
  const std::vector<Chunk> chunks = Sent<Chunk>(wire::Type::kChunk);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].id(), chunks[2].id());
  ChunkAck refused;
  refused.add_id(chunks[0].id());
  refused.set_refused("unknown incident");
  Receive(wire::Type::kAck, refused);
  EXPECT_EQ(store_->held(), 0u);
  ASSERT_FALSE(logged_.empty());
  EXPECT_EQ(logged_.back(),
            "the collector does not accept chunks " + absl::BytesToHexString(chunks[0].id()) + ": unknown incident");
}

TEST_F(AgentSessionTest, InvalidMessagesAreCountedAndDropped) {
  Make();
  Connect();
  const uint64_t before = session_->counters().malformed;
  wire::Message junk;
  junk.header.type = wire::Type::kCollect;
  junk.body = "\xff\xff\xff";
  junk.header.raw_bytes = 3;
  session_->Receive(junk, now_);
  Receive(wire::Type::kHeartbeat, Heartbeat());
  CollectRequest bad;
  bad.set_phase(CollectRequest::DIGEST);
  bad.mutable_ranks()->add_first(5);  // the set of ranks has no `last`
  Receive(wire::Type::kCollect, bad);
  bad.clear_ranks();
  bad.set_phase(CollectRequest::PHASE_UNSPECIFIED);
  Receive(wire::Type::kCollect, bad);
  EXPECT_EQ(session_->counters().malformed, before + 4);
  EXPECT_TRUE(Sent<Digest>(wire::Type::kDigest).empty());
}

}  // namespace
}  // namespace lockstep
