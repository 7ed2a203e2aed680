#include "collector/service/relay/relay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "collector/evidence/stack_tree.h"
#include "collector/testing/peers.h"

namespace lockstep {
namespace {

using wire::Encode;
using wire::LoopbackServer;
using wire::Message;
using wire::Received;
using wire::TestClient;
using wire::TestServer;
using wire::Type;
using wire::Until;

JobIdentity JobOf(uint32_t restart = 0) {
  JobIdentity job;
  job.set_job("train");
  job.set_restart_count(restart);
  return job;
}

Message BeatOf(const std::string& host, const Ranks& alive, uint64_t issued, uint64_t comm = 0xa1) {
  Heartbeat beat;
  *beat.mutable_job() = JobOf();
  beat.set_host(host);
  alive.To(beat.mutable_alive());
  CommunicatorBeat* moved = beat.add_moved();
  moved->set_id(comm);
  moved->set_size(8);
  moved->set_name("dp");
  moved->set_issued_min(issued);
  moved->set_issued_max(issued);
  moved->set_total_max(issued);
  alive.To(moved->mutable_members());
  return *Encode(Type::kHeartbeat, beat);
}

Message HelloOf(const std::string& host, uint64_t instance) {
  Hello hello;
  hello.set_role(Hello::AGENT);
  hello.set_host(host);
  hello.set_instance(instance);
  return *Encode(Type::kHello, hello);
}

// A simulated agent. It sends a Hello on each new connection.
struct Agent {
  std::string host;
  uint64_t instance = 0;
  std::unique_ptr<wire::Client> client;
  std::vector<Message> received;
  std::vector<uint64_t> welcomes;  // instance numbers of the Welcomes

  Agent(const std::string& name, uint64_t number, const std::vector<std::string>& endpoints)
      : host(name), instance(number) {
    wire::ClientOptions options;
    options.endpoints = endpoints;
    options.security.insecure = true;
    options.silent_after_ns = 2'000'000'000;
    client = *wire::Client::Connect(options);
  }
  void Step() {
    if (client->Tick(MonotonicNs())) (void)client->Send(HelloOf(host, instance));
    while (std::optional<Message> message = client->Receive()) {
      Welcome welcome;
      if (message->header.type == Type::kWelcome && wire::DecodeBody(*message, &welcome).ok())
        welcomes.push_back(welcome.instance());
      received.push_back(*std::move(message));
    }
  }
  size_t Count(Type type) const {
    size_t count = 0;
    for (const Message& message : received) count += message.header.type == type;
    return count;
  }
};

class RelayTest : public ::testing::Test {
 protected:
  RelayTest() : root_(std::make_unique<TestServer>(LoopbackServer())) {
    Root();
    StartRelay("tcp://127.0.0.1:*");
  }
  void StartRelay(const std::string& endpoint) {
    RelayOptions options;
    options.server = LoopbackServer();
    options.server.endpoints = {endpoint};
    options.upstream.endpoints = {root_->endpoint()};
    options.upstream.security.insecure = true;
    options.upstream.silent_after_ns = 2'000'000'000;
    options.host = "relay0";
    options.instance = ++instances_;
    options.heartbeat_ns = 50'000'000;
    options.late_ns = 50'000'000;
    options.silent_after_ns = 500'000'000;
    auto relay = Relay::Start(options);
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
  }
  void Root(uint64_t instance = 77) {
    root_->on = [this, instance](const Received& one) {
      if (one.message.header.type == Type::kHello) {
        relay_peer_ = one.peer;
        Welcome welcome;
        welcome.set_instance(instance);
        Message frame = *Encode(Type::kWelcome, welcome);
        frame.header.route = one.message.header.route;
        (void)root_->server->Send(one.peer, frame);
      }
      Heartbeat beat;
      if (one.message.header.type == Type::kHeartbeat && wire::DecodeBody(one.message, &beat).ok())
        beats_.push_back(beat);
      root_->received.push_back(one);
    };
  }
  void Step() {
    if (root_ != nullptr) root_->Step();
    if (relay_ != nullptr) relay_->Step(MonotonicNs(), 0);
    for (auto& agent : agents_) agent->Step();
  }
  Agent* Add(const std::string& host, uint64_t instance) {
    agents_.push_back(std::make_unique<Agent>(host, instance, std::vector<std::string>{relay_->endpoints()[0]}));
    Agent* agent = agents_.back().get();
    EXPECT_TRUE(Wait([&] { return !agent->welcomes.empty(); })) << agent->client->last_error();
    return agent;
  }
  bool Wait(const std::function<bool()>& done) {
    return Until(done, [this] { Step(); });
  }
  // Returns the newest merged heartbeat of a communicator, or nullptr.
  const CommunicatorBeat* Newest(uint64_t comm) const {
    for (auto beat = beats_.rbegin(); beat != beats_.rend(); ++beat) {
      for (const CommunicatorBeat& moved : beat->moved()) {
        if (moved.id() == comm) return &moved;
      }
    }
    return nullptr;
  }
  std::vector<const Received*> Of(Type type) const {
    std::vector<const Received*> all;
    for (const Received& one : root_->received) {
      if (one.message.header.type == type) all.push_back(&one);
    }
    return all;
  }

  uint64_t instances_ = 100;
  std::unique_ptr<TestServer> root_;
  std::unique_ptr<Relay> relay_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::vector<Heartbeat> beats_;
  uint64_t relay_peer_ = 0;
};

TEST_F(RelayTest, HeartbeatsOfChildrenAreMerged) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41)).ok());
  ASSERT_TRUE(b->client->Send(BeatOf("node1", Ranks::Between(4, 7), 40)).ok());
  ASSERT_TRUE(Wait([&] {
    const CommunicatorBeat* beat = Newest(0xa1);
    return beat != nullptr && beat->issued_min() == 40 && beat->issued_max() == 41;
  }));
  const CommunicatorBeat* beat = Newest(0xa1);
  EXPECT_EQ(*Ranks::From(beat->at_min()), Ranks::Between(4, 7));
  EXPECT_EQ(beats_.back().hosts(), 2u);
  EXPECT_TRUE(beats_.back().host().empty());
  EXPECT_EQ(*Ranks::From(beats_.back().alive()), Ranks::Between(0, 7));
  // Members are sent only when they change.
  std::set<size_t> told;
  for (const Heartbeat& one : beats_) {
    for (const CommunicatorBeat& moved : one.moved()) {
      if (moved.members().first_size() > 0) told.insert(Ranks::From(moved.members())->size());
    }
  }
  EXPECT_EQ(*told.rbegin(), 8u);
  beats_.clear();
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 42)).ok());
  ASSERT_TRUE(Wait([&] { return Newest(0xa1) != nullptr; }));
  EXPECT_EQ(Newest(0xa1)->issued_max(), 42u);
  EXPECT_EQ(Newest(0xa1)->members().first_size(), 0);
}

TEST_F(RelayTest, AnswersFollowTheRouteBack) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  Chunk chunk;
  chunk.set_host("node1");
  chunk.set_data("bytes");
  ASSERT_TRUE(b->client->Send(*Encode(Type::kChunk, chunk)).ok());
  ASSERT_TRUE(Wait([&] { return Of(Type::kChunk).size() == 1; }));
  const Received& came = *Of(Type::kChunk)[0];
  ASSERT_EQ(came.message.header.route.size(), 1u);
  EXPECT_EQ(came.role, wire::Role::kRelay);
  ChunkAck ack;
  ack.add_id("0123456789abcdef");
  Message answer = *Encode(Type::kAck, ack);
  answer.header.route = came.message.header.route;
  ASSERT_TRUE(root_->server->Send(came.peer, answer).ok());
  ASSERT_TRUE(Wait([&] { return b->Count(Type::kAck) == 1; }));
  EXPECT_EQ(a->Count(Type::kAck), 0u);
  // An invalid route is counted and has no effect.
  answer.header.route = {12345};
  ASSERT_TRUE(root_->server->Send(came.peer, answer).ok());
  ASSERT_TRUE(Wait([&] { return relay_->counters().answers_lost == 1; }));
}

TEST_F(RelayTest, RequestsGoToTheHostsOfTheirRanks) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  Agent* other = Add("node2", 3);
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 1)).ok());
  ASSERT_TRUE(b->client->Send(BeatOf("node1", Ranks::Between(4, 7), 1)).ok());
  Heartbeat foreign;
  *foreign.mutable_job() = JobOf(1);  // another generation with the same ranks
  Ranks::Between(0, 7).To(foreign.mutable_alive());
  ASSERT_TRUE(other->client->Send(*Encode(Type::kHeartbeat, foreign)).ok());
  ASSERT_TRUE(Wait([&] { return relay_->counters().heartbeats_in == 3 && relay_->connected(); }));
  const auto ask = [&](uint64_t number, const Ranks& ranks) {
    CollectRequest request;
    *request.mutable_job() = JobOf();
    request.set_request(number);
    request.set_phase(CollectRequest::DIGEST);
    ranks.To(request.mutable_ranks());
    ASSERT_TRUE(root_->server->Send(relay_peer_, *Encode(Type::kCollect, request)).ok());
  };
  ask(1, {5});
  ask(2, {});
  ASSERT_TRUE(Wait([&] { return b->Count(Type::kCollect) == 2 && a->Count(Type::kCollect) == 1; }));
  EXPECT_EQ(other->Count(Type::kCollect), 0u);
}

TEST_F(RelayTest, LateReportsOfOneWaitAreMerged) {
  std::vector<Agent*> all;
  for (int i = 0; i < 8; i++) all.push_back(Add("node" + std::to_string(i), static_cast<uint64_t>(i + 1)));
  for (int i = 0; i < 8; i++) {
    ASSERT_TRUE(all[static_cast<size_t>(i)]->client->Send(BeatOf(all[static_cast<size_t>(i)]->host, {i}, 41)).ok());
    LateReport late;
    *late.mutable_job() = JobOf();
    late.set_communicator(0xa1);
    late.set_sequence(912);
    late.set_host(all[static_cast<size_t>(i)]->host);
    late.set_in_flight_ns(5'000'000'000 + i);
    Ranks({i}).To(late.mutable_waiting());
    ASSERT_TRUE(all[static_cast<size_t>(i)]->client->Send(*Encode(Type::kLate, late)).ok());
  }
  Ranks waiting;
  ASSERT_TRUE(Wait([&] {
    waiting = Ranks();
    for (const Received* one : Of(Type::kLate)) {
      LateReport late;
      EXPECT_TRUE(wire::DecodeBody(one->message, &late).ok());
      EXPECT_EQ(late.sequence(), 912u);
      waiting.Unite(*Ranks::From(late.waiting()));
    }
    return waiting.size() == 8;
  }));
  EXPECT_LT(Of(Type::kLate).size(), 8u);
}

TEST_F(RelayTest, SilentChildrenAreReportedAsGaps) {
  Agent* a = Add("node0", 1);
  Add("node1", 2);
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41)).ok());
  ASSERT_TRUE(agents_[1]->client->Send(BeatOf("node1", Ranks::Between(4, 7), 40)).ok());
  ASSERT_TRUE(Wait([&] { return !beats_.empty() && beats_.back().hosts() == 2; }));
  agents_.pop_back();  // the child's connection ends
  const auto lives = [&] { (void)a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41)); };
  ASSERT_TRUE(Wait([&] {
    lives();
    return beats_.back().silent_hosts() == 1 && beats_.back().hosts() == 1;
  }));
  EXPECT_EQ(beats_.back().silent_host(0), "node1");
  EXPECT_EQ(*Ranks::From(beats_.back().alive()), Ranks::Between(0, 3));
  // The agent restarted on the same host, so no rank is missing.
  Agent* again = Add("node1", 3);
  ASSERT_TRUE(again->client->Send(BeatOf("node1", Ranks::Between(4, 7), 41)).ok());
  ASSERT_TRUE(Wait([&] {
    lives();
    return beats_.back().silent_hosts() == 0 && beats_.back().hosts() == 2;
  }));
  EXPECT_EQ(*Ranks::From(beats_.back().alive()), Ranks::Between(0, 7));
}

// A generation that has ended is not reported to a later collector.
TEST_F(RelayTest, AJobThatEndedIsForgotten) {
  Agent* a = Add("node0", 1);
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41)).ok());
  ASSERT_TRUE(Wait([&] { return !beats_.empty(); }));
  Heartbeat next;
  *next.mutable_job() = JobOf(1);
  next.set_host("node0");
  int64_t last_old = MonotonicNs();
  ASSERT_TRUE(Wait([&] {
    (void)a->client->Send(*Encode(Type::kHeartbeat, next));
    for (const Heartbeat& beat : beats_) {
      if (beat.job().restart_count() == 0) last_old = MonotonicNs();
    }
    beats_.clear();
    return MonotonicNs() - last_old > 1'000'000'000;
  }));
}

// A generation with a late wait ends while no collector is connected. The next collector must not hear of either.
TEST_F(RelayTest, ANewCollectorHearsNothingOfAGenerationThatEndedBefore) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  const auto lives = [](const std::string& host, const Ranks& ranks, uint32_t restart, bool over = false) {
    Heartbeat beat;
    EXPECT_TRUE(wire::DecodeBody(BeatOf(host, ranks, 41), &beat).ok());
    *beat.mutable_job() = JobOf(restart);
    beat.set_over(over);
    return *Encode(Type::kHeartbeat, beat);
  };
  ASSERT_TRUE(a->client->Send(lives("node0", Ranks::Between(0, 3), 0)).ok());
  ASSERT_TRUE(b->client->Send(lives("node1", Ranks::Between(4, 7), 0)).ok());
  ASSERT_TRUE(Wait([&] { return !beats_.empty() && beats_.back().hosts() == 2; }));
  const std::string endpoint = root_->endpoint();
  root_.reset();
  ASSERT_TRUE(Wait([&] { return !relay_->connected(); }));
  LateReport late;
  *late.mutable_job() = JobOf(0);
  late.set_host("node0");
  late.set_communicator(0xa1);
  late.set_in_flight_ns(6'000'000'000);
  late.set_limit_ns(5'000'000'000);
  ASSERT_TRUE(a->client->Send(*Encode(Type::kLate, late)).ok());
  ASSERT_TRUE(Wait([&] { return relay_->counters().late_in == 1; }));
  const uint64_t before = relay_->counters().heartbeats_in;
  for (Agent* agent : {a, b}) {
    const Ranks ranks = agent == a ? Ranks::Between(0, 3) : Ranks::Between(4, 7);
    ASSERT_TRUE(agent->client->Send(lives(agent->host, ranks, 0, true)).ok());
    ASSERT_TRUE(agent->client->Send(lives(agent->host, ranks, 1)).ok());
  }
  ASSERT_TRUE(Wait([&] { return relay_->counters().heartbeats_in >= before + 4; }));
  beats_.clear();
  wire::ServerOptions options = LoopbackServer();
  options.endpoints = {endpoint};
  root_ = std::make_unique<TestServer>(options);
  Root(78);
  ASSERT_TRUE(Wait([&] { return beats_.size() >= 3; }));
  for (const Heartbeat& beat : beats_) EXPECT_EQ(beat.job().restart_count(), 1u);
  EXPECT_TRUE(Of(Type::kLate).empty());
}

TEST_F(RelayTest, JobsWithTheSameNameStaySeparate) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  Agent* both = Add("node2", 3);
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41, 0xa1)).ok());
  ASSERT_TRUE(Wait([&] { return relay_->counters().heartbeats_in == 1; }));
  ASSERT_TRUE(b->client->Send(BeatOf("node1", Ranks::Between(0, 3), 52, 0xb1)).ok());
  ASSERT_TRUE(Wait([&] { return relay_->counters().heartbeats_in == 2; }));
  // The third host runs ranks of both jobs. Its agent has numbered the jobs in the opposite order.
  const auto numbered = [](uint32_t life, uint64_t issued, uint64_t comm) {
    Heartbeat beat;
    EXPECT_TRUE(wire::DecodeBody(BeatOf("node2", Ranks::Between(4, 7), issued, comm), &beat).ok());
    beat.mutable_job()->set_life(life);
    return *Encode(Type::kHeartbeat, beat);
  };
  ASSERT_TRUE(both->client->Send(numbered(0, 51, 0xb1)).ok());
  ASSERT_TRUE(both->client->Send(numbered(1, 40, 0xa1)).ok());
  const auto last = [&](uint32_t life) -> const Heartbeat* {
    for (auto beat = beats_.rbegin(); beat != beats_.rend(); ++beat) {
      if (beat->job().life() == life) return &*beat;
    }
    return nullptr;
  };
  ASSERT_TRUE(
      Wait([&] { return last(0) != nullptr && last(1) != nullptr && last(0)->hosts() == 2 && last(1)->hosts() == 2; }));
  for (const Heartbeat& beat : beats_) {
    for (const CommunicatorBeat& moved : beat.moved()) EXPECT_EQ(moved.id(), beat.job().life() == 0 ? 0xa1u : 0xb1u);
  }
  EXPECT_EQ(*Ranks::From(last(0)->alive()), Ranks::Between(0, 7));
  EXPECT_EQ(*Ranks::From(last(1)->alive()), Ranks::Between(0, 7));

  // A request goes to the job's hosts, with each host's own number for the job.
  CollectRequest request;
  *request.mutable_job() = JobOf();
  request.mutable_job()->set_life(1);
  request.set_request(9);
  request.set_phase(CollectRequest::DIGEST);
  ASSERT_TRUE(root_->server->Send(relay_peer_, *Encode(Type::kCollect, request)).ok());
  ASSERT_TRUE(Wait([&] { return b->Count(Type::kCollect) == 1 && both->Count(Type::kCollect) == 1; }));
  EXPECT_EQ(a->Count(Type::kCollect), 0u);
  const auto asked = [](const Agent& agent) {
    CollectRequest got;
    for (const Message& message : agent.received) {
      if (message.header.type != Type::kCollect) continue;
      EXPECT_TRUE(wire::DecodeBody(message, &got).ok());
    }
    return got.job().life();
  };
  EXPECT_EQ(asked(*b), 0u);
  EXPECT_EQ(asked(*both), 0u);

  // Late ranks and exits get the relay's number.
  LateReport late;
  *late.mutable_job() = JobOf();
  late.set_communicator(0xb1);
  late.set_host("node2");
  late.set_in_flight_ns(6'000'000'000);
  Ranks({4}).To(late.mutable_waiting());
  ASSERT_TRUE(both->client->Send(*Encode(Type::kLate, late)).ok());
  ProcessEnded ended;
  *ended.mutable_job() = JobOf();
  ended.mutable_job()->set_life(1);
  ended.set_host("node2");
  ended.set_rank(5);
  ASSERT_TRUE(both->client->Send(*Encode(Type::kEnded, ended)).ok());
  ASSERT_TRUE(Wait([&] { return Of(Type::kLate).size() == 1 && Of(Type::kEnded).size() == 1; }));
  ASSERT_TRUE(wire::DecodeBody(Of(Type::kLate)[0]->message, &late).ok());
  EXPECT_EQ(late.job().life(), 1u);
  ASSERT_TRUE(wire::DecodeBody(Of(Type::kEnded)[0]->message, &ended).ok());
  EXPECT_EQ(ended.job().life(), 0u);
  EXPECT_EQ(Of(Type::kEnded)[0]->message.header.route.size(), 1u);
}

// Hosts that seemed to belong to one job belong to two. The host that was assigned to the wrong job reports everything
// again.
TEST_F(RelayTest, AHostAssignedToTheWrongJobReportsEverythingAgain) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  Agent* rest = Add("node2", 3);
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41, 0xa1)).ok());
  ASSERT_TRUE(Wait([&] { return relay_->counters().heartbeats_in == 1; }));
  ASSERT_TRUE(b->client->Send(BeatOf("node1", Ranks::Between(4, 7), 52, 0xb1)).ok());
  ASSERT_TRUE(Wait([&] { return !beats_.empty() && beats_.back().hosts() == 2; }));
  const size_t welcomes = b->welcomes.size();
  ASSERT_TRUE(rest->client->Send(BeatOf("node2", Ranks::Between(4, 7), 41, 0xa1)).ok());
  ASSERT_TRUE(Wait([&] { return b->welcomes.size() > welcomes; }));
  EXPECT_EQ(b->welcomes.back(), b->welcomes.front());  // the same instance, so only this host starts over
  beats_.clear();
  ASSERT_TRUE(b->client->Send(BeatOf("node1", Ranks::Between(4, 7), 52, 0xb1)).ok());
  ASSERT_TRUE(Wait([&] {
    return std::any_of(beats_.begin(), beats_.end(), [](const Heartbeat& beat) {
      return beat.job().life() == 1 && beat.hosts() == 1 && beat.moved_size() == 1 && beat.moved(0).id() == 0xb1;
    });
  }));
}

TEST_F(RelayTest, TheEndOfAJobIsForwardedWhenTheLastChildReportsIt) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41)).ok());
  ASSERT_TRUE(b->client->Send(BeatOf("node1", Ranks::Between(4, 7), 41)).ok());
  ASSERT_TRUE(Wait([&] { return !beats_.empty() && beats_.back().hosts() == 2; }));
  Heartbeat over;
  *over.mutable_job() = JobOf();
  over.set_over(true);
  over.set_host("node0");
  ASSERT_TRUE(a->client->Send(*Encode(Type::kHeartbeat, over)).ok());
  ASSERT_TRUE(Wait([&] { return beats_.back().hosts() == 1; }));
  EXPECT_FALSE(beats_.back().over());
  EXPECT_EQ(beats_.back().silent_hosts(), 0u);
  over.set_host("node1");
  ASSERT_TRUE(b->client->Send(*Encode(Type::kHeartbeat, over)).ok());
  ASSERT_TRUE(Wait([&] { return beats_.back().over(); }));
}

// Equal stacks from many hosts are merged on the way up. Stacks that arrive in several messages result in the same
// tree.
TEST_F(RelayTest, StacksOfManyHostsAreOneTree) {
  StackTree all;
  Ranks ranks;
  std::vector<Agent*> agents;
  for (int i = 0; i < 4; ++i) agents.push_back(Add("node" + std::to_string(i), static_cast<uint64_t>(i + 1)));
  for (int i = 0; i < 4; ++i) {
    StackTree own;
    StackReport report;
    *report.mutable_job() = JobOf();
    report.set_request(5);
    for (int rank = 8 * i; rank < 8 * i + 8; ++rank) {
      std::vector<std::string> frames = {"wait", "step", "main"};
      if (rank == 13) frames = {"read", "load_data", "main"};
      own.Add(frames, rank);
      all.Add(frames, rank);
      ranks.Add(rank);
    }
    *report.mutable_tree() = own.ToMessage();
    Ranks::Between(8 * i, 8 * i + 7).To(report.mutable_ranks());
    if (i == 2) report.add_refused("node2: ptrace is refused");
    ASSERT_TRUE(agents[static_cast<size_t>(i)]->client->Send(*Encode(Type::kStacks, report)).ok());
  }
  StackTree merged;
  Ranks told;
  std::vector<std::string> refused;
  size_t taken = 0;
  ASSERT_TRUE(Wait([&] {
    const std::vector<const Received*> messages = Of(Type::kStacks);
    for (; taken < messages.size(); ++taken) {
      StackReport report;
      EXPECT_TRUE(wire::DecodeBody(messages[taken]->message, &report).ok());
      EXPECT_EQ(report.request(), 5u);
      merged.Merge(StackTree::FromMessage(report.tree()));
      told.Unite(*Ranks::From(report.ranks()));
      refused.insert(refused.end(), report.refused().begin(), report.refused().end());
    }
    return told == ranks;
  }));
  EXPECT_TRUE(merged == all);
  EXPECT_EQ(merged.stacks(), 2u);
  EXPECT_LE(taken, 4u);
  EXPECT_EQ(refused, std::vector<std::string>{"node2: ptrace is refused"});
}

// Checks what `lockstep top` shows: all versions and modes combined, and the highest costs.
TEST_F(RelayTest, VersionsAndCostsOfRecordersAreCombined) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  const auto beat = [](const std::string& host, const Ranks& ranks, const std::string& version, uint32_t call_ns,
                       uint32_t permille) {
    Heartbeat heartbeat;
    EXPECT_TRUE(wire::DecodeBody(BeatOf(host, ranks, 41), &heartbeat).ok());
    RecorderFacts* facts = heartbeat.add_recorders();
    ranks.To(facts->mutable_ranks());
    facts->set_version(version);
    facts->set_gpu_mode("done");
    facts->set_call_ns(call_ns);
    facts->set_ring_bytes(1000);
    heartbeat.add_agent_version("0.2.0");
    heartbeat.set_agent_cpu_permille(permille);
    heartbeat.add_blind(host + ": no new rings are found");
    return *Encode(Type::kHeartbeat, heartbeat);
  };
  ASSERT_TRUE(Wait([&] {
    (void)a->client->Send(beat("node0", Ranks::Between(0, 3), "0.2.0", 25, 6));
    (void)b->client->Send(beat("node1", Ranks::Between(4, 7), "0.2.0", 31, 9));
    return !beats_.empty() && beats_.back().hosts() == 2 && beats_.back().recorders_size() == 1 &&
           Ranks::From(beats_.back().recorders(0).ranks())->size() == 8;
  }));
  EXPECT_EQ(beats_.back().recorders(0).call_ns(), 31u);
  EXPECT_EQ(beats_.back().recorders(0).ring_bytes(), 2000u);
  EXPECT_EQ(beats_.back().agent_version_size(), 1);
  EXPECT_EQ(beats_.back().agent_cpu_permille(), 9u);
  ASSERT_EQ(beats_.back().blind_size(), 2);
  EXPECT_EQ(beats_.back().blind(1), "node1: no new rings are found");
}

// The agent returns to its own relay.
TEST_F(RelayTest, AChildThatLeavesIsNotAGap) {
  Agent* a = Add("node0", 1);
  Agent* b = Add("node1", 2);
  ASSERT_TRUE(b->client->Send(BeatOf("node1", Ranks::Between(4, 7), 40)).ok());
  ASSERT_TRUE(Wait([&] { return !beats_.empty() && beats_.back().hosts() == 1; }));
  Message bye;
  bye.header.type = Type::kBye;
  ASSERT_TRUE(b->client->Send(bye).ok());
  agents_.pop_back();
  beats_.clear();
  const int64_t since = MonotonicNs();
  ASSERT_TRUE(Wait([&] {
    (void)a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 41));
    return MonotonicNs() - since > 1'500'000'000;
  }));
  ASSERT_FALSE(beats_.empty());
  EXPECT_EQ(beats_.back().silent_hosts(), 0u);
  EXPECT_EQ(beats_.back().hosts(), 1u);
  EXPECT_EQ(*Ranks::From(beats_.back().alive()), Ranks::Between(0, 3));
}

TEST_F(RelayTest, QueuedMessagesSurviveTheUpstreamsAbsence) {
  Agent* a = Add("node0", 1);
  const std::string endpoint = root_->endpoint();
  root_.reset();
  ASSERT_TRUE(Wait([&] { return !relay_->connected(); }));
  Digest digest;
  digest.set_host("node0");
  ASSERT_TRUE(a->client->Send(*Encode(Type::kDigest, digest)).ok());
  ASSERT_TRUE(a->client->Send(*Encode(Type::kChunk, Chunk())).ok());
  ASSERT_TRUE(Wait([&] { return relay_->counters().forwarded == 2; }));
  wire::ServerOptions options = LoopbackServer();
  options.endpoints = {endpoint};
  root_ = std::make_unique<TestServer>(options);
  Root(78);  // a new collector at the same address
  ASSERT_TRUE(Wait([&] { return Of(Type::kDigest).size() == 1 && Of(Type::kChunk).size() == 1; }));
  // The children learn that there is a new collector.
  ASSERT_TRUE(Wait([&] { return a->welcomes.size() >= 2; }));
  EXPECT_NE(a->welcomes.front(), a->welcomes.back());
}

TEST_F(RelayTest, ARestartedRelayIsAnotherInstance) {
  Agent* a = Add("node0", 1);
  const std::string endpoint = relay_->endpoints()[0];
  relay_.reset();
  ASSERT_TRUE(Wait([&] { return !a->client->connected(); }));
  StartRelay(endpoint);
  ASSERT_TRUE(Wait([&] { return a->welcomes.size() == 2; }));
  EXPECT_NE(a->welcomes[0], a->welcomes[1]);
}

TEST_F(RelayTest, ADeadRelayIsRoutedAround) {
  // The Welcome names the relay's upstream.
  Agent* a = Add("node0", 1);
  relay_.reset();
  ASSERT_TRUE(Wait([&] { return a->client->connected() && a->client->endpoint() == root_->endpoint(); }))
      << a->client->last_error();
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 1)).ok());
  EXPECT_TRUE(Wait([&] { return !beats_.empty() && beats_.back().host() == "node0"; }));
}

TEST_F(RelayTest, RelaysConnectToRelays) {
  RelayOptions options;
  options.server = LoopbackServer();
  options.upstream.endpoints = {relay_->endpoints()[0]};
  options.upstream.security.insecure = true;
  options.host = "relay1";
  options.instance = 5;
  options.heartbeat_ns = 50'000'000;
  auto below = *Relay::Start(options);
  Agent agent("node0", 1, {below->endpoints()[0]});
  const auto step = [&] {
    Step();
    below->Step(MonotonicNs(), 0);
    agent.Step();
  };
  ASSERT_TRUE(Until([&] { return !agent.welcomes.empty(); }, step));
  ASSERT_TRUE(agent.client->Send(BeatOf("node0", Ranks::Between(0, 3), 7)).ok());
  ASSERT_TRUE(agent.client->Send(*Encode(Type::kDigest, Digest())).ok());
  ASSERT_TRUE(Until([&] { return Of(Type::kDigest).size() == 1 && Newest(0xa1) != nullptr; }, step));
  EXPECT_EQ(Newest(0xa1)->issued_max(), 7u);
  const Received& came = *Of(Type::kDigest)[0];
  ASSERT_EQ(came.message.header.route.size(), 2u);
  CollectRequest request;
  request.set_request(9);
  Message answer = *Encode(Type::kCollect, request);
  answer.header.route = came.message.header.route;
  ASSERT_TRUE(root_->server->Send(came.peer, answer).ok());
  EXPECT_TRUE(Until([&] { return agent.Count(Type::kCollect) == 1; }, step));
}

TEST_F(RelayTest, HostileChildrenDoNotHarmOthers) {
  Agent* a = Add("node0", 1);
  Agent* hostile = Add("node1", 2);
  Message bad = BeatOf("node1", Ranks::Between(4, 7), 1);
  bad.body.resize(bad.body.size() / 2);
  ASSERT_TRUE(hostile->client->Send(bad).ok());
  Heartbeat odd;
  *odd.mutable_job() = JobOf();
  odd.mutable_alive()->add_first(9);
  odd.mutable_alive()->add_last(3);
  ASSERT_TRUE(hostile->client->Send(*Encode(Type::kHeartbeat, odd)).ok());
  Heartbeat jobs;
  for (int i = 0; i < 2000; i++) {
    jobs.mutable_job()->set_restart_count(static_cast<uint32_t>(i + 10));
    (void)hostile->client->Send(*Encode(Type::kHeartbeat, jobs));
    if (i % 100 == 0) Step();
  }
  ASSERT_TRUE(a->client->Send(BeatOf("node0", Ranks::Between(0, 3), 7)).ok());
  ASSERT_TRUE(Wait([&] { return Newest(0xa1) != nullptr && relay_->counters().malformed > 0; }));
  EXPECT_EQ(*Ranks::From(Newest(0xa1)->members()), Ranks::Between(0, 3));
}

}  // namespace
}  // namespace lockstep
