// Helpers for the transport's tests: key folders, and servers and clients that one thread drives.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collector/wire/client.h"
#include "collector/wire/parts.h"
#include "collector/wire/server.h"
#include "proto/wire.pb.h"
#include "tests/support/files.h"

namespace lockstep::wire {

using TestFolder = support::TempFolder;

// Keys of a collector, of one known peer for each role, and of an unknown agent ("stranger").
class TestKeys {
 public:
  TestKeys() {
    for (const Role role : {Role::kAgent, Role::kRelay, Role::kOperator, Role::kReader})
      Make(RoleName(role), role, true);
    Make("collector", Role::kCollector, false);
    Make("stranger", Role::kAgent, false);
  }
  void Make(const std::string& name, Role role, bool known) {
    ASSERT_TRUE(WriteKeyPair(folder_.path() + (known ? "/known" : ""), name, *MakeKeyPair(role)).ok());
  }
  std::string known() const { return folder_.path() + "/known"; }
  Security ServerSecurity() const {
    Security security;
    security.own_key = folder_.path() + "/collector.key";
    security.known_keys = known();
    return security;
  }
  Security Of(const std::string& name) const {
    Security security;
    security.own_key = folder_.path() + (name == "stranger" ? "/" : "/known/") + name + ".key";
    security.server_key = folder_.path() + "/collector.pub";
    return security;
  }

 private:
  TestFolder folder_;
};

inline ServerOptions LoopbackServer(const Security& security = {}) {
  ServerOptions options;
  options.endpoints = {"tcp://127.0.0.1:*"};
  options.security = security;
  options.security.insecure = security.own_key.empty();
  return options;
}

inline Message HelloOf(Hello::Role role) {
  Hello hello;
  hello.set_role(role);
  hello.set_host("node");
  hello.set_protocol(kProtocol);
  return *Encode(Type::kHello, hello);
}

// A client that stores its received messages. It sends Hello on every new connection.
struct TestClient {
  std::unique_ptr<Client> client;
  Hello::Role role = Hello::AGENT;
  int hellos = 0;
  std::vector<Message> received;

  explicit TestClient(const std::string& endpoint, const Security& security = {}, Hello::Role as = Hello::AGENT)
      : TestClient(std::vector<std::string>{endpoint}, security, as) {}
  TestClient(const std::vector<std::string>& endpoints, const Security& security, Hello::Role as,
             int64_t silent_ms = 2000)
      : role(as) {
    ClientOptions options;
    options.endpoints = endpoints;
    options.security = security;
    options.security.insecure = security.own_key.empty() && security.server_key.empty();
    options.silent_after_ns = silent_ms * 1'000'000;
    absl::StatusOr<std::unique_ptr<Client>> made = Client::Connect(options);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) client = *std::move(made);
  }
  void Step() {
    if (client->Tick(MonotonicNs()) && client->Send(HelloOf(role)).ok()) hellos++;
    while (std::optional<Message> message = client->Receive()) received.push_back(*std::move(message));
  }
};

struct TestServer {
  std::unique_ptr<Server> server;
  std::vector<Received> received;
  std::function<void(const Received&)> on;  // if nullptr, messages are kept in `received`

  explicit TestServer(const ServerOptions& options) {
    absl::StatusOr<std::unique_ptr<Server>> made = Server::Bind(options);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) server = *std::move(made);
  }
  const std::string& endpoint() const { return server->endpoints()[0]; }
  void Step() {
    while (std::optional<Received> one = server->Receive()) {
      if (on) {
        on(*one);
      } else {
        received.push_back(*std::move(one));
      }
    }
  }
  size_t Count(Type type) const {
    size_t count = 0;
    for (const Received& one : received) count += one.message.header.type == type;
    return count;
  }
};

// Calls `step` until `done`, for at most `seconds`. Returns whether `done` became true.
inline bool Until(const std::function<bool()>& done, const std::function<void()>& step, int seconds = 30) {
  const int64_t end = MonotonicNs() + seconds * int64_t{1'000'000'000};
  while (MonotonicNs() < end) {
    step();
    if (done()) return true;
    poll(nullptr, 0, 2);
  }
  return false;
}

}  // namespace lockstep::wire
