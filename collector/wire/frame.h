// The frame header before every message between Lockstep's programs, and checked parsing of messages. A ZeroMQ message
// has two parts: this header, and a Protobuf message of the header's type (proto/wire.proto), as a zstd frame if
// kCompressed is set. Everything read here comes from the network and is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"
#include "proto/wire.pb.h"

namespace lockstep::wire {

// The numbers are part of the protocol and are never reused.
enum class Type : uint8_t {
  kHello = 1,
  kWelcome = 2,
  kHeartbeat = 3,
  kLate = 4,
  kEnded = 5,
  kCollect = 6,
  kDigest = 7,
  kEvidence = 8,
  kChunk = 9,
  kAck = 10,
  kClientRequest = 11,
  kClientReply = 12,
  kPing = 13,  // no body; answered with kPong
  kPong = 14,
  kBye = 15,  // no body; the peer continues on another connection, so its data is not missing
  kStacks = 16,
};
constexpr uint8_t kHighestType = 16;
constexpr uint8_t kProtocol = 1;
constexpr uint8_t kCompressed = 1;                   // flag: the body is compressed
constexpr size_t kMostHops = 8;                      // maximum number of relays that a message may pass
constexpr size_t kMostWireBytes = size_t{4} << 20;   // maximum size of a body as sent
constexpr size_t kMostBodyBytes = size_t{16} << 20;  // maximum size of a body after decompression
constexpr size_t kMostChunkBytes = size_t{1} << 20;  // maximum file content in a chunk
constexpr size_t kCompressFrom = 1024;               // bytes; smaller bodies are sent uncompressed

// On the wire, little-endian: magic "LKSP", protocol, type, flags, hops, raw bytes (u32), then `hops` tokens (u64).
struct Header {
  uint8_t protocol = kProtocol;
  Type type = Type::kPing;
  uint8_t flags = 0;
  uint32_t raw_bytes = 0;  // size of the body before compression
  // Tokens of the connections that a message came through, each added by the receiving relay. On the way down, each
  // relay removes the last one.
  std::vector<uint64_t> route;
};

std::string EncodeHeader(const Header& header);
// Errors: kUnimplemented for unknown types and flags (ignore the message: the peer is newer), kInvalidArgument for
// everything else.
absl::StatusOr<Header> DecodeHeader(std::string_view bytes);

struct Message {
  Header header;
  std::string body;  // as sent, perhaps compressed
};

// A message without a body: a ping, a pong or a bye.
inline Message Bare(Type type) {
  Message message;
  message.header.type = type;
  return message;
}

// Compresses bodies from kCompressFrom, except chunks, if that saves more than an eighth. Fails if the message exceeds
// the limits.
absl::StatusOr<Message> Encode(Type type, const google::protobuf::MessageLite& message);
// Returns the first message of a connection, without a host.
Hello MakeHello(Hello::Role role, uint64_t instance);
// Parses the body into `message`; the caller chooses its type by header.type. Refuses bodies over kMostWireBytes or
// kMostBodyBytes, and messages that CheckShape (shape.h) refuses.
absl::Status DecodeBody(const Message& frame, google::protobuf::MessageLite* message);

}  // namespace lockstep::wire
