// Reads a frame from the network. The first byte selects the form of the input. 0: the second byte is the length of the
// header, and the rest is header and body, as they arrive. 1: the second byte is the message type, and the rest is a
// body, which the fuzzer packs as a sender does.
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "analyzer/model/rank_set.h"
#include "collector/wire/frame.h"
#include "collector/wire/shape.h"
#include "proto/wire.pb.h"
#include "tests/fuzz/accepted.h"

namespace {

using namespace lockstep;
using namespace lockstep::wire;

std::unique_ptr<google::protobuf::Message> MessageOf(Type type) {
  switch (type) {
    case Type::kHello: return std::make_unique<Hello>();
    case Type::kWelcome: return std::make_unique<Welcome>();
    case Type::kHeartbeat: return std::make_unique<Heartbeat>();
    case Type::kLate: return std::make_unique<LateReport>();
    case Type::kEnded: return std::make_unique<ProcessEnded>();
    case Type::kCollect: return std::make_unique<CollectRequest>();
    case Type::kDigest: return std::make_unique<Digest>();
    case Type::kEvidence: return std::make_unique<HostEvidence>();
    case Type::kStacks: return std::make_unique<StackReport>();
    case Type::kChunk: return std::make_unique<Chunk>();
    case Type::kAck: return std::make_unique<ChunkAck>();
    case Type::kClientRequest: return std::make_unique<ClientRequest>();
    case Type::kClientReply: return std::make_unique<ClientReply>();
    default: return nullptr;
  }
}

void Must(bool truth) {
  if (!truth) std::abort();
}

void CheckSet(const RankSet& message) {
  const absl::StatusOr<Ranks> ranks = Ranks::From(message);
  if (!ranks.ok()) return;
  Must(ranks->empty() || (ranks->front() >= 0 && ranks->back() <= kMostRank));
  Must(ranks->runs().size() <= static_cast<size_t>(message.first_size()));
  RankSet back;
  ranks->To(&back);
  const absl::StatusOr<Ranks> again = Ranks::From(back);
  Must(again.ok() && *again == *ranks);
}

void CheckBody(const Message& frame) {
  const std::unique_ptr<google::protobuf::Message> message = MessageOf(frame.header.type);
  if (message == nullptr) return;
  const absl::Status status = DecodeBody(frame, message.get());
  if (!status.ok()) {
    Must(!status.message().empty());
    return;
  }
  fuzz_accepted++;
  // The check before parsing must guarantee this bound.
  Must(message->SpaceUsedLong() <= 2 * kMostParsedBytes);
  if (const auto* heartbeat = dynamic_cast<const Heartbeat*>(message.get())) {
    CheckSet(heartbeat->alive());
    for (const CommunicatorBeat& beat : heartbeat->moved()) {
      CheckSet(beat.at_min());
      CheckSet(beat.members());
    }
  } else if (const auto* request = dynamic_cast<const CollectRequest*>(message.get())) {
    CheckSet(request->ranks());
  } else if (const auto* late = dynamic_cast<const LateReport*>(message.get())) {
    CheckSet(late->waiting());
  }
  const absl::StatusOr<Message> again = Encode(frame.header.type, *message);
  if (!again.ok()) return;  // the sender compressed the body better than Encode does
  const std::unique_ptr<google::protobuf::Message> back(message->New());
  Must(DecodeBody(*again, back.get()).ok());
  Must(back->SerializeAsString() == message->SerializeAsString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  (void)quiet;
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  Message frame;
  if (data[0] % 2 == 0) {
    const absl::StatusOr<Header> header = DecodeHeader(rest.substr(0, data[1]));
    if (!header.ok()) return 0;
    Must(header->route.size() <= kMostHops && header->raw_bytes <= kMostBodyBytes);
    const std::string encoded = EncodeHeader(*header);
    Must(rest.substr(0, encoded.size()) == encoded);
    frame.header = *header;
    frame.body = rest.substr(std::min<size_t>(data[1], rest.size()));
  } else {
    frame.header.type = static_cast<Type>(data[1] % (kHighestType + 1));
    frame.header.flags = kCompressed;
    frame.header.raw_bytes = static_cast<uint32_t>(rest.size());
    frame.body.resize(ZSTD_compressBound(rest.size()));
    const size_t packed = ZSTD_compress(frame.body.data(), frame.body.size(), rest.data(), rest.size(), 1);
    Must(ZSTD_isError(packed) == 0);
    frame.body.resize(packed);
  }
  CheckBody(frame);
  return 0;
}
