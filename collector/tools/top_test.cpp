#include "collector/tools/top.h"

#include "collector/testing/peers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::LoopbackServer;
using wire::Received;
using wire::TestClient;
using wire::TestKeys;
using wire::TestServer;
using wire::Type;
using wire::Until;

// A server that reports one job and answers requests.
class Answers {
 public:
  explicit Answers(TestServer* server) : server_(server) {
    server->on = [this](const Received& received) { Take(received); };
  }
  std::vector<ClientRequest> asked;
  uint64_t calls = 0;

 private:
  void Take(const Received& received) {
    ClientRequest request;
    if (received.message.header.type != Type::kClientRequest || !wire::DecodeBody(received.message, &request).ok())
      return;
    asked.push_back(request);
    ClientReply reply;
    reply.set_request(request.request());
    switch (request.kind()) {
      case ClientRequest::STATUS: {
        JobStatus* job = reply.add_jobs();
        job->mutable_job()->set_job("llama");
        job->mutable_job()->set_step("0");
        job->mutable_job()->set_restart_count(3);
        job->set_ranks(8);
        CommunicatorStatus* comm = job->add_communicators();
        comm->set_id(7);
        comm->set_issued_max(calls);
        break;
      }
      case ClientRequest::DETAIL:
        reply.add_lines(request.has_rank() ? "rank on host a" : "main\nread");
        reply.set_done(true);
        break;
      case ClientRequest::DUMP:
        reply.set_progress("asking 8 ranks");
        Send(received.peer, reply);
        reply.clear_progress();
        reply.mutable_incident()->set_path("/incidents/x");
        reply.mutable_incident()->set_text("HUNG\nrank 3");
        reply.set_done(true);
        break;
      default: break;
    }
    Send(received.peer, reply);
  }
  void Send(uint64_t peer, const ClientReply& reply) {
    ASSERT_TRUE(server_->server->Send(peer, *wire::Encode(Type::kClientReply, reply)).ok());
  }

  TestServer* const server_;
};

TEST(TopSessionTest, ShowsJobsAndSendsRequests) {
  TestServer server(LoopbackServer());
  Answers answers(&server);
  TestClient client(server.endpoint());
  TopSession session(client.client.get(), "", Hello::OPERATOR);
  const auto step = [&] {
    server.Step();
    session.Step(MonotonicNs());
  };
  ASSERT_TRUE(Until([&] { return !session.jobs().empty(); }, step));
  EXPECT_EQ(session.jobs()[0].job().job(), "llama");
  EXPECT_EQ(session.silent_ns(MonotonicNs()), 0);

  session.AskRank(session.jobs()[0], 0);
  ASSERT_TRUE(Until([&] { return session.answered(); }, step));
  EXPECT_THAT(session.lines(), ElementsAre("rank on host a"));
  // The request contains rank 0 and the job's full name.
  EXPECT_TRUE(answers.asked.back().has_rank() || answers.asked.back().kind() == ClientRequest::STATUS);
  const auto detail = std::find_if(answers.asked.begin(), answers.asked.end(), [](const ClientRequest& request) {
    return request.kind() == ClientRequest::DETAIL;
  });
  ASSERT_NE(detail, answers.asked.end());
  EXPECT_EQ(detail->job(), "llama/0/3");

  session.AskStacks(session.jobs()[0]);
  EXPECT_FALSE(session.answered());
  ASSERT_TRUE(Until([&] { return session.answered(); }, step));
  EXPECT_THAT(session.lines(), ElementsAre("main", "read"));

  session.Dump(session.jobs()[0]);
  ASSERT_TRUE(Until([&] { return session.answered(); }, step));
  EXPECT_THAT(session.lines(), ElementsAre("asking 8 ranks", "HUNG", "rank 3", "incident: /incidents/x"));
}

TEST(TopSessionTest, CallsPerSecondAreComputedFromTwoStates) {
  TestServer server(LoopbackServer());
  Answers answers(&server);
  answers.calls = 1000;
  TestClient client(server.endpoint());
  TopSession session(client.client.get(), "", Hello::OPERATOR);
  int64_t now = MonotonicNs();
  const auto step = [&] {
    server.Step();
    session.Step(now);
  };
  ASSERT_TRUE(Until([&] { return session.heard(); }, step));
  EXPECT_THAT(session.calls_a_second(), ElementsAre(-1));
  answers.calls = 1500;
  now += 5'000'000'000;
  ASSERT_TRUE(Until([&] { return session.calls_a_second()[0] >= 0; }, step));
  EXPECT_THAT(session.calls_a_second(), ElementsAre(100));
}

TEST(TopSessionTest, AReaderMayViewButNotTakeADump) {
  TestKeys keys;
  TestServer server(LoopbackServer(keys.ServerSecurity()));
  Answers answers(&server);
  TestClient client(server.endpoint(), keys.Of("reader"));
  TopSession session(client.client.get(), "", Hello::READER);
  const auto step = [&] {
    server.Step();
    session.Step(MonotonicNs());
  };
  ASSERT_TRUE(Until([&] { return !session.jobs().empty(); }, step));
  session.Dump(session.jobs()[0]);
  ASSERT_TRUE(Until([&] { return session.answered(); }, step));
  ASSERT_EQ(session.lines().size(), 1u);
  for (const ClientRequest& request : answers.asked) EXPECT_NE(request.kind(), ClientRequest::DUMP);
}

TEST(TopSessionTest, ContinuesWhenACollectorReturns) {
  auto server = std::make_unique<TestServer>(LoopbackServer());
  auto answers = std::make_unique<Answers>(server.get());
  const std::string endpoint = server->endpoint();
  TestClient client(endpoint);
  TopSession session(client.client.get(), "", Hello::OPERATOR);
  const auto step = [&] {
    if (server != nullptr) server->Step();
    session.Step(MonotonicNs());
  };
  ASSERT_TRUE(Until([&] { return session.heard(); }, step));
  answers.reset();
  server.reset();
  ASSERT_TRUE(Until([&] { return session.silent_ns(MonotonicNs()) > 0; }, step));
  EXPECT_FALSE(session.jobs().empty());  // the last state stays on the screen
  wire::ServerOptions options = LoopbackServer();
  options.endpoints = {endpoint};
  server = std::make_unique<TestServer>(options);
  answers = std::make_unique<Answers>(server.get());
  EXPECT_TRUE(Until([&] { return session.silent_ns(MonotonicNs()) == 0; }, step));
}

}  // namespace
}  // namespace lockstep
