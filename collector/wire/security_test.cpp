// Tests attacks by hostile peers on loopback sockets. Honest peers must still be served.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>
#include <zstd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "collector/testing/peers.h"

namespace lockstep::wire {
namespace {

int Dial(const std::string& endpoint) {
  const int port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// A misbehaving peer with an admitted key, which sends raw message parts.
class RawPeer {
 public:
  RawPeer(const std::string& endpoint, const Security& security)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_DEALER)) {
    const auto own = ReadSecretKey(security.own_key);
    const auto server = ServerKeys(security);
    EXPECT_TRUE(own.ok() && server.ok());
    SetString(socket_, ZMQ_CURVE_SERVERKEY, server->at(0));
    SetString(socket_, ZMQ_CURVE_PUBLICKEY, own->public_key);
    SetString(socket_, ZMQ_CURVE_SECRETKEY, own->secret_key);
    SetInt(socket_, ZMQ_LINGER, 0);
    EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0);
  }
  ~RawPeer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  void Send(const std::vector<std::string>& parts) {
    for (size_t i = 0; i < parts.size(); i++) {
      zmq_send(socket_, parts[i].data(), parts[i].size(), ZMQ_DONTWAIT | (i + 1 < parts.size() ? ZMQ_SNDMORE : 0));
    }
  }
  void Send(const Message& message) { Send({EncodeHeader(message.header), message.body}); }

 private:
  void* context_;
  void* socket_;
};

class WireSecurity : public ::testing::Test {
 protected:
  WireSecurity() : server_(LoopbackServer(keys_.ServerSecurity())) {}
  const ServerCounters& counters() { return server_.server->counters(); }
  // Checks that an honest agent can connect and is served.
  void HonestAgentIsServed() {
    TestClient agent(server_.endpoint(), keys_.Of("agent"));
    Heartbeat beat;
    beat.set_host("honest");
    bool sent = false;
    size_t heard = 0;
    EXPECT_TRUE(Until(
        [&] {
          heard = 0;
          for (const Received& one : server_.received) {
            Heartbeat back;
            heard += one.message.header.type == Type::kHeartbeat && DecodeBody(one.message, &back).ok() &&
                     back.host() == "honest";
          }
          return heard > 0;
        },
        [&] {
          server_.Step();
          agent.Step();
          if (!sent) sent = agent.client->connected() && agent.client->Send(*Encode(Type::kHeartbeat, beat)).ok();
        }))
        << agent.client->last_error();
    server_.received.clear();
  }

  TestKeys keys_;
  TestServer server_;
};

TEST_F(WireSecurity, UnknownKeysAreRefusedAndCounted) {
  TestClient stranger(server_.endpoint(), keys_.Of("stranger"));
  ASSERT_TRUE(Until([&] { return counters().refused_keys > 0 && !stranger.client->last_error().empty(); },
                    [&] {
                      server_.Step();
                      stranger.Step();
                    }));
  EXPECT_NE(stranger.client->last_error().find("does not know this key"), std::string::npos)
      << stranger.client->last_error();
  EXPECT_TRUE(server_.received.empty());
  EXPECT_EQ(stranger.hellos, 0);
  HonestAgentIsServed();
}

TEST_F(WireSecurity, PeersWithoutKeysAreRefused) {
  TestClient plain(server_.endpoint(), {});
  ASSERT_TRUE(Until([&] { return counters().handshakes_failed > 0 && !plain.client->last_error().empty(); },
                    [&] {
                      server_.Step();
                      plain.Step();
                    }));
  EXPECT_NE(plain.client->last_error().find("requires keys"), std::string::npos) << plain.client->last_error();
  EXPECT_TRUE(server_.received.empty());
  HonestAgentIsServed();
}

TEST_F(WireSecurity, AServerWithAnotherKeyGetsNoMessages) {
  const TestKeys others;
  TestServer impostor(LoopbackServer(others.ServerSecurity()));
  TestClient agent(impostor.endpoint(), keys_.Of("agent"));
  ASSERT_TRUE(Until([&] { return !agent.client->last_error().empty(); },
                    [&] {
                      impostor.Step();
                      agent.Step();
                    }));
  EXPECT_NE(agent.client->last_error().find("a different key"), std::string::npos) << agent.client->last_error();
  EXPECT_EQ(agent.hellos, 0);
  EXPECT_TRUE(impostor.received.empty());
}

TEST_F(WireSecurity, KeysCanBeAddedAndRemovedWhileTheServerRuns) {
  TestClient agent(server_.endpoint(), keys_.Of("agent"));
  TestClient stranger(server_.endpoint(), keys_.Of("stranger"));
  const auto step = [&] {
    server_.Step();
    agent.Step();
    stranger.Step();
  };
  ASSERT_TRUE(Until([&] { return agent.hellos == 1 && counters().refused_keys > 0; }, step));
  // The keys are rotated: the stranger's key is added and the agent's is removed. The stranger is admitted, and the
  // agent's open connection loses its rights.
  std::filesystem::copy(keys_.known() + "/../stranger.pub", keys_.known() + "/stranger.pub");
  std::filesystem::remove(keys_.known() + "/agent.pub");
  ASSERT_TRUE(Until([&] { return stranger.hellos == 1; }, step)) << stranger.client->last_error();
  server_.received.clear();
  ASSERT_TRUE(Until([&] { return counters().role_refused > 0; },
                    [&] {
                      step();
                      (void)agent.client->Send(*Encode(Type::kHeartbeat, Heartbeat()));
                    }));
}

TEST_F(WireSecurity, RolesMaySendOnlyTheirOwnMessages) {
  const auto request = [](ClientRequest::Kind kind) {
    ClientRequest message;
    message.set_kind(kind);
    message.set_request(5);
    return *Encode(Type::kClientRequest, message);
  };
  // The client claims more than its key allows.
  TestClient reader(server_.endpoint(), keys_.Of("reader"), Hello::OPERATOR);
  TestClient agent(server_.endpoint(), keys_.Of("agent"));
  TestClient person(server_.endpoint(), keys_.Of("operator"), Hello::OPERATOR);
  const auto step = [&] {
    server_.Step();
    reader.Step();
    agent.Step();
    person.Step();
  };
  ASSERT_TRUE(Until([&] { return server_.Count(Type::kHello) == 3; }, step));
  server_.received.clear();
  ASSERT_TRUE(reader.client->Send(request(ClientRequest::DUMP)).ok());
  ASSERT_TRUE(reader.client->Send(request(ClientRequest::STATUS)).ok());
  ASSERT_TRUE(agent.client->Send(request(ClientRequest::DUMP)).ok());
  ASSERT_TRUE(agent.client->Send(request(ClientRequest::STATUS)).ok());
  ASSERT_TRUE(agent.client->Send(*Encode(Type::kCollect, CollectRequest())).ok());
  ASSERT_TRUE(agent.client->Send(*Encode(Type::kAck, ChunkAck())).ok());
  ASSERT_TRUE(person.client->Send(*Encode(Type::kChunk, Chunk())).ok());
  ASSERT_TRUE(reader.client->Send(*Encode(Type::kDigest, Digest())).ok());
  Message routed = *Encode(Type::kDigest, Digest());
  routed.header.route = {1};  // this peer is not a relay
  ASSERT_TRUE(agent.client->Send(routed).ok());
  ASSERT_TRUE(person.client->Send(request(ClientRequest::DUMP)).ok());
  ASSERT_TRUE(Until(
      [&] {
        return counters().role_refused == 7 && counters().malformed == 1 && server_.received.size() == 2 &&
               !reader.received.empty();
      },
      step))
      << counters().role_refused << " " << counters().malformed << " " << server_.received.size();
  EXPECT_EQ(server_.Count(Type::kClientRequest), 2u);
  for (const Received& one : server_.received) {
    ClientRequest asked;
    ASSERT_TRUE(DecodeBody(one.message, &asked).ok());
    EXPECT_EQ(asked.kind() == ClientRequest::DUMP, one.role == Role::kOperator);
  }
  ClientReply reply;
  ASSERT_TRUE(DecodeBody(reader.received[0], &reply).ok());
  EXPECT_NE(reply.error().find("role reader"), std::string::npos);
  EXPECT_EQ(reply.request(), 5u);
}

TEST_F(WireSecurity, MalformedFramesAreDroppedAndCounted) {
  RawPeer hostile(server_.endpoint(), keys_.Of("agent"));
  const Message hello = HelloOf(Hello::AGENT);
  Digest digest;
  digest.set_host(std::string(5000, 'd'));
  const Message good = *Encode(Type::kDigest, digest);
  const std::string header = EncodeHeader(good.header);
  const auto patched = [&](size_t at, char value) {
    std::string bytes = header;
    bytes[at] = value;
    return bytes;
  };
  hostile.Send(good);  // sent before its Hello
  hostile.Send(hello);
  hostile.Send({""});
  hostile.Send({header});
  hostile.Send({"", ""});
  hostile.Send({header, good.body, "more"});
  hostile.Send({patched(0, 'x'), good.body});
  hostile.Send({patched(4, 0), good.body});                      // protocol 0
  hostile.Send({patched(5, 0), good.body});                      // type 0
  hostile.Send({patched(7, 9), good.body});                      // too many hops
  hostile.Send({patched(11, '\x7f'), good.body});                // a wrong length
  hostile.Send({patched(5, kHighestType + 1), good.body});       // from a newer version: dropped silently
  hostile.Send({header, std::string(kMostWireBytes + 1, 'x')});  // one byte too large
  ASSERT_TRUE(Until([&] { return counters().received == 13; }, [&] { server_.Step(); })) << counters().received;
  EXPECT_EQ(counters().malformed, 10u);
  EXPECT_EQ(counters().unknown_types, 1u);
  EXPECT_EQ(counters().too_large, 1u);
  EXPECT_EQ(server_.received.size(), 1u);
  hostile.Send(good);
  ASSERT_TRUE(Until([&] { return server_.received.size() == 2; }, [&] { server_.Step(); }))
      << "a valid frame after all of these";
  HonestAgentIsServed();
}

TEST_F(WireSecurity, MessagesThatAreFarTooLargeEndTheirConnection) {
  TestClient hostile(server_.endpoint(), keys_.Of("agent"));
  const auto step = [&] {
    server_.Step();
    hostile.Step();
  };
  ASSERT_TRUE(Until([&] { return hostile.hellos == 1; }, step));
  Message huge = HelloOf(Hello::AGENT);
  huge.body.assign(3 * kMostWireBytes, 'x');
  ASSERT_TRUE(hostile.client->Send(huge).ok());
  EXPECT_TRUE(Until([&] { return hostile.hellos == 2; }, step));
  HonestAgentIsServed();
}

TEST_F(WireSecurity, CompressedMessagesCountWithTheirUnpackedSize) {
  ServerOptions options = LoopbackServer(keys_.ServerSecurity());
  options.bytes_per_second = 16e6;
  TestServer server(options);
  TestClient hostile(server.endpoint(), keys_.Of("agent"));
  const std::string zeros(kMostBodyBytes, '\0');
  Message bomb;
  bomb.header.type = Type::kDigest;
  bomb.header.flags = kCompressed;
  bomb.header.raw_bytes = static_cast<uint32_t>(zeros.size());
  bomb.body.resize(ZSTD_compressBound(zeros.size()));
  bomb.body.resize(ZSTD_compress(bomb.body.data(), bomb.body.size(), zeros.data(), zeros.size(), 1));
  ASSERT_LT(bomb.body.size(), 10'000u);
  int sent = 0;
  ASSERT_TRUE(Until([&] { return sent == 200 && server.server->counters().received > 200; },
                    [&] {
                      server.Step();
                      hostile.Step();
                      while (sent < 200 && hostile.client->Send(bomb).ok()) sent++;
                    }));
  EXPECT_GT(server.server->counters().flooded, 100u);
  for (const Received& one : server.received) {
    Digest digest;
    EXPECT_FALSE(one.message.header.type == Type::kDigest && DecodeBody(one.message, &digest).ok());
  }
}

TEST_F(WireSecurity, FloodsAreCutAndHonestPeersContinue) {
  ServerOptions options = LoopbackServer(keys_.ServerSecurity());
  options.messages_per_second = 500;
  TestServer server(options);
  std::atomic<bool> stop{false};
  std::atomic<int> sent{0};
  std::thread flood([&] {
    TestClient hostile(server.endpoint(), keys_.Of("agent"));
    while (!stop) {
      hostile.Step();
      for (int i = 0; i < 1000; i++) sent += hostile.client->Send(*Encode(Type::kDigest, Digest())).ok();
    }
  });
  TestClient honest(server.endpoint(), keys_.Of("agent"));
  uint64_t hostile_taken = 0;
  int answered = 0, asked = 0;
  server.on = [&](const Received& one) {
    Digest digest;
    if (one.message.header.type != Type::kDigest || !DecodeBody(one.message, &digest).ok()) return;
    if (digest.host().empty()) {
      hostile_taken++;
      return;
    }
    ChunkAck ack;
    EXPECT_TRUE(server.server->Send(one.peer, *Encode(Type::kAck, ack)).ok());
  };
  Digest digest;
  digest.set_host("honest");
  const bool done = Until(
      [&] { return answered >= 100 && server.server->counters().flooded > 5000; },
      [&] {
        server.Step();
        honest.Step();
        for (const Message& message : honest.received) answered += message.header.type == Type::kAck;
        honest.received.clear();
        if (asked == answered && honest.client->connected() && honest.client->Send(*Encode(Type::kDigest, digest)).ok())
          asked++;
      });
  stop = true;
  flood.join();
  EXPECT_TRUE(done) << answered << " answered, " << server.server->counters().flooded << " cut of " << sent;
  // A peer sends a request only after the previous one was answered, so a dropped request would be its last.
  EXPECT_LE(asked - answered, 1);
}

TEST_F(WireSecurity, GarbageOnThePortIsCountedAndHarmless) {
  std::vector<int> fds;
  for (int i = 0; i < 50; i++) {
    const int fd = Dial(server_.endpoint());
    std::string bytes =
        i % 2 == 0 ? std::string("GET / HTTP/1.1\r\n\r\n") : std::string(1000, static_cast<char>(i * 37));
    if (i % 5 == 0) bytes = std::string("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 17) + std::string(100, '\0');
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    fds.push_back(fd);
  }
  HonestAgentIsServed();
  EXPECT_TRUE(Until([&] { return counters().handshakes_failed > 0; }, [&] { server_.Step(); }));
  for (const int fd : fds) close(fd);
  EXPECT_EQ(server_.received.size(), 0u);
  HonestAgentIsServed();
}

// Replayed traffic of an agent is refused, because each handshake uses its own keys.
TEST_F(WireSecurity, ReplayedBytesAreRefused) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::mutex mutex;
  std::string recorded;
  std::thread proxy([&] {
    const int client = accept(listener, nullptr, nullptr);
    const int upstream = Dial(server_.endpoint());
    char buffer[65536];
    pollfd fds[] = {{client, POLLIN, 0}, {upstream, POLLIN, 0}};
    while (poll(fds, 2, 30'000) > 0) {
      for (int i = 0; i < 2; i++) {
        if (fds[i].revents == 0) continue;
        const ssize_t got = recv(fds[i].fd, buffer, sizeof buffer, 0);
        if (got <= 0 || send(fds[1 - i].fd, buffer, static_cast<size_t>(got), MSG_NOSIGNAL) != got) {
          close(client);
          close(upstream);
          return;
        }
        const std::lock_guard<std::mutex> lock(mutex);
        if (i == 0) recorded.append(buffer, static_cast<size_t>(got));
      }
    }
  });
  uint64_t seen = 0;
  {
    TestClient agent("tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)), keys_.Of("agent"));
    ASSERT_TRUE(Until([&] { return server_.received.size() >= 2; },
                      [&] {
                        server_.Step();
                        agent.Step();
                        if (server_.received.size() == 1) (void)agent.client->Send(*Encode(Type::kDigest, Digest()));
                      }));
    seen = counters().received;
  }
  proxy.join();
  // A client that closes its connection sends a last ping.
  EXPECT_TRUE(Until([&] { return counters().received > seen; }, [&] { server_.Step(); }));
  close(listener);
  server_.received.clear();
  const uint64_t before = counters().received;
  const uint64_t failed = counters().handshakes_failed;
  ASSERT_GT(recorded.size(), 300u);
  const int fd = Dial(server_.endpoint());
  ASSERT_EQ(send(fd, recorded.data(), recorded.size(), MSG_NOSIGNAL), static_cast<ssize_t>(recorded.size()));
  EXPECT_TRUE(Until([&] { return counters().handshakes_failed > failed; }, [&] { server_.Step(); }));
  EXPECT_EQ(counters().received, before);
  EXPECT_TRUE(server_.received.empty());
  close(fd);
  HonestAgentIsServed();
}

// The peer is two versions newer. Its additions are ignored, and its other messages are understood.
TEST_F(WireSecurity, NewerPeersAreServed) {
  RawPeer newer(server_.endpoint(), keys_.Of("agent"));
  Message hello = HelloOf(Hello::AGENT);
  hello.header.protocol = kProtocol + 2;
  hello.body += "\xf2\x3f\x03new";
  hello.header.raw_bytes = static_cast<uint32_t>(hello.body.size());
  newer.Send({EncodeHeader(hello.header) + "future", hello.body});
  Header unknown;
  unknown.protocol = kProtocol + 2;
  unknown.type = static_cast<Type>(kHighestType + 3);
  newer.Send({EncodeHeader(unknown), ""});
  newer.Send(*Encode(Type::kHeartbeat, Heartbeat()));
  ASSERT_TRUE(Until([&] { return server_.received.size() == 2; }, [&] { server_.Step(); }));
  Hello said;
  ASSERT_TRUE(DecodeBody(server_.received[0].message, &said).ok());
  EXPECT_EQ(said.host(), "node");
  EXPECT_EQ(counters().unknown_types, 1u);
  EXPECT_EQ(counters().malformed, 0u);
}

}  // namespace
}  // namespace lockstep::wire
