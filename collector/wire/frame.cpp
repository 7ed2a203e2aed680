#include "collector/wire/frame.h"

#include <zstd.h>

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "collector/wire/shape.h"

namespace lockstep::wire {
namespace {

constexpr std::string_view kMagic = "LKSP";
constexpr size_t kFixedBytes = 12;
constexpr int kZstdLevel = 1;

void Put(uint64_t number, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; i++) out->push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t Get(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; i++) number |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return number;
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

std::string EncodeHeader(const Header& header) {
  std::string bytes(kMagic);
  Put(header.protocol, 1, &bytes);
  Put(static_cast<uint8_t>(header.type), 1, &bytes);
  Put(header.flags, 1, &bytes);
  Put(header.route.size(), 1, &bytes);
  Put(header.raw_bytes, 4, &bytes);
  for (const uint64_t token : header.route) Put(token, 8, &bytes);
  return bytes;
}

absl::StatusOr<Header> DecodeHeader(std::string_view bytes) {
  if (bytes.size() < kFixedBytes || bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat("frame header of ", bytes.size(), " bytes is not Lockstep's"));
  }
  Header header;
  header.protocol = static_cast<uint8_t>(bytes[4]);
  const auto type = static_cast<uint8_t>(bytes[5]);
  header.flags = static_cast<uint8_t>(bytes[6]);
  const auto hops = static_cast<uint8_t>(bytes[7]);
  header.raw_bytes = static_cast<uint32_t>(Get(bytes, 8, 4));
  if (header.protocol == 0) return absl::InvalidArgumentError("frame header names protocol 0");
  if (hops > kMostHops) {
    return absl::InvalidArgumentError(absl::StrCat("frame passed ", hops, " relays, more than ", kMostHops));
  }
  const size_t whole = kFixedBytes + 8 * size_t{hops};
  // The header of a newer protocol may contain more than this version knows; the known fields stay in place.
  if (bytes.size() < whole || (header.protocol <= kProtocol && bytes.size() != whole)) {
    return absl::InvalidArgumentError(absl::StrCat("frame header has ", bytes.size(), " bytes instead of ", whole));
  }
  if (type == 0) return absl::InvalidArgumentError("frame has type 0");
  if (type > kHighestType)
    return absl::UnimplementedError(absl::StrCat("frame has type ", type, " of a newer version"));
  if ((header.flags & ~kCompressed) != 0) {
    return absl::UnimplementedError(absl::StrCat("frame has flags ", header.flags, " of a newer version"));
  }
  if (header.raw_bytes > kMostBodyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame announces ", header.raw_bytes, " bytes, more than ", kMostBodyBytes));
  }
  header.type = static_cast<Type>(type);
  header.route.reserve(hops);
  for (size_t i = 0; i < hops; i++) header.route.push_back(Get(bytes, kFixedBytes + 8 * i, 8));
  return header;
}

absl::StatusOr<Message> Encode(Type type, const google::protobuf::MessageLite& message) {
  Message frame;
  frame.header.type = type;
  const size_t raw = message.ByteSizeLong();
  if (raw > kMostBodyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a ", message.GetTypeName(), " of ", raw,
                                                   " bytes is larger than a message may be (", kMostBodyBytes, ")"));
  }
  if (!message.SerializeToString(&frame.body))
    return absl::InternalError(absl::StrCat("cannot encode a ", message.GetTypeName()));
  frame.header.raw_bytes = static_cast<uint32_t>(raw);
  // A chunk's data is already compressed.
  if (raw >= kCompressFrom && type != Type::kChunk) {
    thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
    std::string packed(ZSTD_compressBound(raw), '\0');
    const size_t size = context == nullptr ? raw
                                           : ZSTD_compressCCtx(context.get(), packed.data(), packed.size(),
                                                               frame.body.data(), raw, kZstdLevel);
    if (ZSTD_isError(size) == 0 && size < raw - raw / 8) {
      packed.resize(size);
      packed.shrink_to_fit();
      frame.body = std::move(packed);
      frame.header.flags |= kCompressed;
    }
  }
  if (frame.body.size() > kMostWireBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a ", message.GetTypeName(), " takes ", frame.body.size(),
                                                   " bytes on the wire, more than ", kMostWireBytes));
  }
  return frame;
}

Hello MakeHello(Hello::Role role, uint64_t instance) {
  Hello hello;
  hello.set_role(role);
  hello.set_version(LOCKSTEP_VERSION);
  hello.set_instance(instance);
  hello.set_protocol(kProtocol);
  hello.set_min_protocol(kProtocol);
  return hello;
}

absl::Status DecodeBody(const Message& frame, google::protobuf::MessageLite* message) {
  const Header& header = frame.header;
  if (frame.body.size() > kMostWireBytes || header.raw_bytes > kMostBodyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message body of ", frame.body.size(), " bytes for ",
                                                   header.raw_bytes, " is larger than a message may be"));
  }
  std::string_view raw = frame.body;
  std::unique_ptr<char[]> unpacked;
  if ((header.flags & kCompressed) != 0) {
    thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
    // Not zeroed: if the header claims too large a size, the unused pages are never touched.
    unpacked.reset(new char[header.raw_bytes + size_t{1}]);
    const size_t size = context == nullptr ? std::numeric_limits<size_t>::max()
                                           : ZSTD_decompressDCtx(context.get(), unpacked.get(), header.raw_bytes,
                                                                 frame.body.data(), frame.body.size());
    if (ZSTD_isError(size) != 0)
      return absl::InvalidArgumentError(absl::StrCat("cannot decompress a message body: ", ZSTD_getErrorName(size)));
    raw = {unpacked.get(), size};
  }
  if (raw.size() != header.raw_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message body has ", raw.size(), " bytes, but its header says ", header.raw_bytes));
  }
  if (absl::Status shape = CheckShape(raw, *message); !shape.ok()) return shape;
  if (!message->ParseFromArray(raw.data(), static_cast<int>(raw.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("a message body is not a ", message->GetTypeName()));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::wire
