#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/testing/peers.h"

namespace lockstep::wire {
namespace {

Message BeatOf(uint64_t lost) {
  Heartbeat beat;
  beat.set_records_lost(lost);
  return *Encode(Type::kHeartbeat, beat);
}

TEST(WireTransport, MessagesGoBothWaysUnderCurve) {
  const TestKeys keys;
  TestServer server(LoopbackServer(keys.ServerSecurity()));
  TestClient agent(server.endpoint(), keys.Of("agent"));
  const auto step = [&] {
    server.Step();
    agent.Step();
  };
  ASSERT_TRUE(Until([&] { return server.received.size() == 1; }, step)) << agent.client->last_error();
  EXPECT_EQ(server.received[0].role, Role::kAgent);
  EXPECT_EQ(server.received[0].message.header.type, Type::kHello);
  EXPECT_TRUE(agent.client->connected());
  Digest digest;
  digest.set_host(std::string(2'000'000, 'd'));
  ASSERT_TRUE(agent.client->Send(*Encode(Type::kDigest, digest)).ok());
  ASSERT_TRUE(agent.client->Send(BeatOf(3)).ok());
  CollectRequest request;
  request.set_request(9);
  ASSERT_TRUE(server.server->Send(server.received[0].peer, *Encode(Type::kCollect, request)).ok());
  ASSERT_TRUE(Until([&] { return server.received.size() == 3 && agent.received.size() == 1; }, step));
  Digest back;
  ASSERT_TRUE(DecodeBody(server.received[1].message, &back).ok());
  EXPECT_EQ(back.host(), digest.host());
  CollectRequest asked;
  ASSERT_TRUE(DecodeBody(agent.received[0], &asked).ok());
  EXPECT_EQ(asked.request(), 9u);
  EXPECT_EQ(server.server->counters().connections, 1u);
  EXPECT_EQ(server.server->peers(), 1u);
}

// poll() on the descriptors must be sufficient: no message may be left without a wake-up.
TEST(WireTransport, DescriptorsWakeThePollingThread) {
  TestServer server(LoopbackServer());
  TestClient agent(server.endpoint());
  int beats = 0, acks = 0;
  server.on = [&](const Received& one) {
    if (one.message.header.type != Type::kHeartbeat) return;
    beats++;
    ChunkAck ack;
    (void)server.server->Send(one.peer, *Encode(Type::kAck, ack));
  };
  int sent = 0;
  const int64_t end = MonotonicNs() + 30'000'000'000;
  while (acks < 500 && MonotonicNs() < end) {
    pollfd fds[] = {{server.server->fd(), POLLIN, 0}, {agent.client->fd(), POLLIN, 0}};
    // Only pings and the connection have timers, so a lost wake-up would extend the 500 rounds to a minute.
    poll(fds, 2, 500);
    if (fds[0].revents != 0) server.Step();
    agent.Step();
    for (const Message& message : agent.received) acks += message.header.type == Type::kAck;
    agent.received.clear();
    if (agent.client->connected() && sent == acks && agent.client->Send(BeatOf(1)).ok()) sent++;
  }
  EXPECT_EQ(acks, 500);
  EXPECT_EQ(beats, 500);
}

TEST(WireTransport, HeartbeatsAreDroppedAndDigestsAreNot) {
  ServerOptions options = LoopbackServer();
  options.most_waiting_heartbeats = 50;
  options.most_waiting_chunk_bytes = 1000;
  TestServer server(options);
  TestClient agent(server.endpoint());
  Digest digest;
  Chunk chunk;
  chunk.set_data(std::string(400, 'c'));
  const Message kinds[] = {BeatOf(1), *Encode(Type::kDigest, digest), *Encode(Type::kChunk, chunk)};
  // The receiver takes one message for every ten that are sent.
  int sent = 0;
  const ServerCounters* counters = &server.server->counters();
  ASSERT_TRUE(Until([&] { return counters->received == 301; },
                    [&] {
                      agent.Step();
                      for (int i = 0; i < 10 && sent < 300; i++) sent += agent.client->Send(kinds[sent % 3]).ok();
                      if (std::optional<Received> one = server.server->Receive())
                        server.received.push_back(*std::move(one));
                      counters = &server.server->counters();
                    }));
  server.Step();
  EXPECT_EQ(server.Count(Type::kDigest), 100u);
  EXPECT_EQ(server.Count(Type::kHeartbeat) + counters->shed_heartbeats, 100u);
  EXPECT_EQ(server.Count(Type::kChunk) + counters->shed_chunks, 100u);
  EXPECT_GT(counters->shed_heartbeats, 0u);
  EXPECT_GT(counters->shed_chunks, 0u);
}

TEST(WireTransport, UnknownPeersAndFullQueuesAreDistinguished) {
  TestServer server(LoopbackServer());
  auto agent = std::make_unique<TestClient>(server.endpoint());
  ASSERT_TRUE(Until([&] { return server.received.size() == 1; },
                    [&] {
                      server.Step();
                      agent->Step();
                    }));
  const uint64_t peer = server.received[0].peer;
  EXPECT_TRUE(server.server->Knows(peer));
  EXPECT_EQ(server.server->Send(peer + 1000, BeatOf(0)).code(), absl::StatusCode::kNotFound);
  // This peer reads nothing. Its queue and the network's buffers fill up, and the server continues.
  Chunk large;
  std::string noise(1'000'000, '\0');
  for (size_t i = 0; i < noise.size(); i++) noise[i] = static_cast<char>((i * 2654435761u) >> 13);
  large.set_data(noise);
  const Message frame = *Encode(Type::kChunk, large);
  absl::Status status;
  for (int i = 0; i < 5000 && status.ok(); i++) status = server.server->Send(peer, frame);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  TestClient other(server.endpoint());
  EXPECT_TRUE(Until([&] { return server.received.size() == 2; },
                    [&] {
                      server.Step();
                      other.Step();
                    }))
      << "a slow peer held up another peer";
  agent.reset();
  EXPECT_TRUE(Until([&] { return server.server->Send(peer, BeatOf(0)).code() == absl::StatusCode::kNotFound; },
                    [&] { server.Step(); }));
  EXPECT_FALSE(server.server->Knows(peer));
}

TEST(WireTransport, ClientsFallBackAndReturn) {
  const TestKeys keys;
  auto first = std::make_unique<TestServer>(LoopbackServer(keys.ServerSecurity()));
  TestServer second(LoopbackServer(keys.ServerSecurity()));
  const std::string endpoint = first->endpoint();
  TestClient agent({endpoint, second.endpoint()}, keys.Of("agent"), Hello::AGENT, 1000);
  const auto step = [&] {
    if (first != nullptr) first->Step();
    second.Step();
    agent.Step();
  };
  ASSERT_TRUE(Until([&] { return first->received.size() == 1; }, step));
  EXPECT_EQ(agent.client->endpoint(), endpoint);
  first.reset();
  ASSERT_TRUE(Until([&] { return second.received.size() == 1; }, step)) << agent.client->last_error();
  EXPECT_EQ(agent.client->endpoint(), second.endpoint());
  EXPECT_TRUE(agent.client->connected());
  ServerOptions again = LoopbackServer(keys.ServerSecurity());
  again.endpoints = {endpoint};
  first = std::make_unique<TestServer>(again);
  ASSERT_TRUE(Until([&] { return first->received.size() == 1; }, step))
      << "the client did not return to the first server";
  EXPECT_EQ(agent.client->endpoint(), endpoint);
  EXPECT_EQ(agent.hellos, 3);
  EXPECT_TRUE(Until([&] { return second.Count(Type::kBye) == 1; }, step)) << "the client left without a Bye";
}

TEST(WireTransport, AWelcomeMayNameAFallback) {
  auto relay = std::make_unique<TestServer>(LoopbackServer());
  TestServer root(LoopbackServer());
  relay->on = [&](const Received& one) {
    Welcome welcome;
    welcome.add_fallback("ipc:///run/socket");  // another machine's
    welcome.add_fallback("nonsense");
    welcome.add_fallback(root.endpoint());
    (void)relay->server->Send(one.peer, *Encode(Type::kWelcome, welcome));
  };
  TestClient agent(relay->endpoint());
  const auto step = [&] {
    if (relay != nullptr) relay->Step();
    root.Step();
    agent.Step();
  };
  ASSERT_TRUE(Until([&] { return agent.received.size() == 1; }, step));
  relay.reset();
  ASSERT_TRUE(Until([&] { return root.received.size() == 1; }, step)) << agent.client->last_error();
  EXPECT_EQ(agent.client->endpoint(), root.endpoint());
}

// A stopped server keeps its connections but answers nothing.
TEST(WireTransport, SilenceIsNoticedOnAnOpenConnection) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto server = Server::Bind(LoopbackServer());
    const std::string endpoint = server.ok() ? (*server)->endpoints()[0] : "";
    if (write(pipe_fds[1], endpoint.c_str(), endpoint.size() + 1) < 0) _exit(1);
    for (;;) {
      while ((*server)->Receive()) {
      }
      poll(nullptr, 0, 5);
    }
  }
  char endpoint[256] = {};
  ASSERT_GT(read(pipe_fds[0], endpoint, sizeof endpoint - 1), 0);
  TestServer second(LoopbackServer());
  TestClient agent({endpoint, second.endpoint()}, {}, Hello::AGENT, 1000);
  const auto step = [&] {
    second.Step();
    agent.Step();
  };
  ASSERT_TRUE(Until([&] { return agent.hellos == 1; }, step));
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  EXPECT_TRUE(Until([&] { return second.received.size() == 1; }, step));
  EXPECT_NE(agent.client->last_error().find("has been silent for"), std::string::npos) << agent.client->last_error();
  ASSERT_EQ(kill(child, SIGCONT), 0);
  EXPECT_TRUE(Until([&] { return agent.hellos == 3 && agent.client->endpoint() == endpoint; }, step));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(WireTransport, AServerThatWasAwayIsFoundAgain) {
  auto server = std::make_unique<TestServer>(LoopbackServer());
  ServerOptions again = LoopbackServer();
  again.endpoints = {server->endpoint()};
  TestClient agent(server->endpoint());
  const auto step = [&] {
    if (server != nullptr) server->Step();
    agent.Step();
  };
  for (int round = 0; round < 3; round++) {
    ASSERT_TRUE(Until([&] { return !server->received.empty(); }, step)) << round;
    server.reset();
    ASSERT_TRUE(Until([&] { return !agent.client->connected(); }, step)) << round;
    EXPECT_FALSE(agent.client->Send(BeatOf(1)).ok());
    EXPECT_FALSE(agent.client->last_error().empty());
    server = std::make_unique<TestServer>(again);
  }
  EXPECT_EQ(agent.hellos, 3);
}

// The socket refuses connections of other users, because of the identity that the kernel reports.
TEST(WireTransport, ALocalSocketAcceptsOnlyItsUserAndRoot) {
  const TestFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  ServerOptions options;
  options.endpoints = {"ipc://" + folder.path() + "/socket"};
  TestServer server(options);
  ASSERT_EQ(chmod((folder.path() + "/socket").c_str(), 0777), 0);
  TestClient own(server.endpoint());
  ASSERT_TRUE(Until([&] { return server.received.size() == 1; },
                    [&] {
                      server.Step();
                      own.Step();
                    }));
  if (geteuid() != 0) GTEST_SKIP() << "needs root to act as two users";
  const pid_t child = fork();
  if (child == 0) {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(2);
    TestClient other(server.endpoint());
    const bool let_in =
        Until([&] { return !other.received.empty() || other.client->connected(); }, [&] { other.Step(); }, 3);
    _exit(let_in ? 1 : 0);
  }
  int status = -1;
  ASSERT_TRUE(Until([&] { return waitpid(child, &status, WNOHANG) == child; }, [&] { server.Step(); }));
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(server.received.size(), 1u) << "another user's Hello must not arrive";
}

TEST(WireTransport, InvalidEndpointsAreRefused) {
  ClientOptions client;
  client.endpoints = {"ipc://"};
  EXPECT_FALSE(Client::Connect(client).ok());
  client.endpoints = {};
  EXPECT_FALSE(Client::Connect(client).ok());
  client.endpoints = {"tcp://192.0.2.1:9"};
  EXPECT_FALSE(Client::Connect(client).ok()) << "no keys";
  TestServer server(LoopbackServer());
  ServerOptions taken = LoopbackServer();
  taken.endpoints = {server.endpoint()};
  const auto refused = Server::Bind(taken);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find(server.endpoint()), std::string::npos);
}

}  // namespace
}  // namespace lockstep::wire
