// Tests that recorded frames (collector/wire/golden) are read and written again unchanged, and that a server accepts
// frames of newer protocols.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "collector/testing/peers.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/support/files.h"

namespace lockstep::wire {
namespace {

struct Golden {
  std::string name, path, text;
  Type type = Type::kHello;
  std::unique_ptr<google::protobuf::Message> message;
};

std::unique_ptr<google::protobuf::Message> Empty(Type type) {
  switch (type) {
    case Type::kHello: return std::make_unique<Hello>();
    case Type::kWelcome: return std::make_unique<Welcome>();
    case Type::kHeartbeat: return std::make_unique<Heartbeat>();
    case Type::kLate: return std::make_unique<LateReport>();
    case Type::kEnded: return std::make_unique<ProcessEnded>();
    case Type::kCollect: return std::make_unique<CollectRequest>();
    case Type::kDigest: return std::make_unique<Digest>();
    case Type::kEvidence: return std::make_unique<HostEvidence>();
    case Type::kChunk: return std::make_unique<Chunk>();
    case Type::kAck: return std::make_unique<ChunkAck>();
    case Type::kClientRequest: return std::make_unique<ClientRequest>();
    case Type::kClientReply: return std::make_unique<ClientReply>();
    case Type::kStacks: return std::make_unique<StackReport>();
    default: return nullptr;
  }
}

// Returns the recorded frames. Each name starts with the number of the message type.
std::vector<Golden> All() {
  std::vector<Golden> all;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_GOLDEN)) {
    if (entry.path().extension() != ".textproto") continue;
    Golden golden;
    golden.name = entry.path().stem();
    golden.path = entry.path().parent_path() / golden.name;
    golden.type = static_cast<Type>(atoi(golden.name.c_str()));
    golden.message = Empty(golden.type);
    if (golden.message == nullptr) {
      ADD_FAILURE() << golden.name << ": unknown type";
      continue;
    }
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(support::ReadFile(entry.path()), golden.message.get()))
        << golden.name;
    all.push_back(std::move(golden));
  }
  std::sort(all.begin(), all.end(), [](const Golden& a, const Golden& b) { return a.name < b.name; });
  return all;
}

// Returns "HEADER\nBODY\n" in hexadecimal.
std::string HexOf(const Message& message) {
  return absl::BytesToHexString(EncodeHeader(message.header)) + "\n" + absl::BytesToHexString(message.body) + "\n";
}

Message Recorded(const Golden& golden) {
  std::string header, body;
  std::istringstream lines(support::ReadFile(golden.path + ".hex"));
  std::getline(lines, header);
  std::getline(lines, body);
  const absl::StatusOr<Header> decoded = DecodeHeader(absl::HexStringToBytes(header));
  EXPECT_TRUE(decoded.ok()) << golden.name << ": " << decoded.status();
  return {decoded.ok() ? *decoded : Header(), absl::HexStringToBytes(body)};
}

TEST(Golden, FramesOfThisProtocolAreReadAndWrittenUnchanged) {
  const std::vector<Golden> all = All();
  EXPECT_EQ(all.size(), 13u);
  for (const Golden& golden : all) {
    SCOPED_TRACE(golden.name);
    const absl::StatusOr<Message> now = Encode(golden.type, *golden.message);
    ASSERT_TRUE(now.ok());
    if (getenv("LOCKSTEP_WRITE_GOLDEN") != nullptr) std::ofstream(golden.path + ".hex") << HexOf(*now);
    EXPECT_EQ(HexOf(*now), support::ReadFile(golden.path + ".hex"));
    const Message recorded = Recorded(golden);
    EXPECT_EQ(recorded.header.type, golden.type);
    EXPECT_EQ(recorded.header.protocol, 1);
    const auto read = Empty(golden.type);
    ASSERT_TRUE(DecodeBody(recorded, read.get()).ok());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*read, *golden.message)) << read->DebugString();
  }
}

TEST(Golden, AServerAcceptsFramesOfPeersOneAndTwoProtocolsAhead) {
  const std::vector<Golden> all = All();
  for (const uint8_t protocol : {1, 2, 3}) {
    SCOPED_TRACE(static_cast<int>(protocol));
    TestServer server(LoopbackServer());
    TestClient agent(server.endpoint());
    const auto step = [&] {
      server.Step();
      agent.Step();
    };
    ASSERT_TRUE(Until([&] { return server.received.size() == 1; }, step));
    std::vector<const Golden*> sent;
    for (const Golden& golden : all) {
      const bool agents = golden.type == Type::kHeartbeat || golden.type == Type::kLate ||
                          golden.type == Type::kEnded || golden.type == Type::kDigest ||
                          golden.type == Type::kEvidence || golden.type == Type::kChunk || golden.type == Type::kStacks;
      if (!agents) continue;
      Message message = Recorded(golden);
      message.header.protocol = protocol;
      // A newer program sends unknown fields.
      if (protocol > 1) {
        message.body += "\xf2\x3f\x03new";
        message.header.raw_bytes = static_cast<uint32_t>(message.body.size());
      }
      ASSERT_TRUE(agent.client->Send(message).ok());
      sent.push_back(&golden);
    }
    ASSERT_TRUE(Until([&] { return server.received.size() == 1 + sent.size(); }, step)) << server.received.size();
    EXPECT_EQ(server.server->counters().malformed, 0u);
    for (const Golden* golden : sent) {
      const auto found = std::find_if(server.received.begin(), server.received.end(),
                                      [&](const Received& one) { return one.message.header.type == golden->type; });
      ASSERT_NE(found, server.received.end()) << golden->name;
      const auto read = Empty(golden->type);
      ASSERT_TRUE(DecodeBody(found->message, read.get()).ok()) << golden->name;
      read->DiscardUnknownFields();
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*read, *golden->message)) << read->DebugString();
    }
  }
}

}  // namespace
}  // namespace lockstep::wire
