#include "collector/wire/frame.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include "proto/wire.pb.h"

namespace lockstep::wire {
namespace {

std::string Pack(const std::string& raw) {
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
  return packed;
}

Message Packed(Type type, const std::string& raw) {
  Message frame;
  frame.header.type = type;
  frame.header.flags = kCompressed;
  frame.header.raw_bytes = static_cast<uint32_t>(raw.size());
  frame.body = Pack(raw);
  return frame;
}

TEST(WireFrame, HeadersAreReadBack) {
  Header header;
  header.type = Type::kChunk;
  header.raw_bytes = 123456;
  header.route = {1, 0xffffffffffffffff, 42};
  const std::string bytes = EncodeHeader(header);
  EXPECT_EQ(bytes.size(), 36u);
  const auto back = DecodeHeader(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->type, Type::kChunk);
  EXPECT_EQ(back->raw_bytes, 123456u);
  EXPECT_EQ(back->route, header.route);
}

TEST(WireFrame, BadHeadersAreRefused) {
  Header header;
  header.route = {7};
  const std::string good = EncodeHeader(header);
  ASSERT_TRUE(DecodeHeader(good).ok());
  for (size_t size = 0; size < good.size(); size++) EXPECT_FALSE(DecodeHeader(good.substr(0, size)).ok()) << size;
  EXPECT_FALSE(DecodeHeader(good + "x").ok());
  const auto patched = [&](size_t at, uint8_t value) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(value);
    return DecodeHeader(bytes).status().code();
  };
  EXPECT_EQ(patched(0, 'X'), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(patched(4, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(patched(5, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(patched(5, kHighestType + 1), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(patched(6, 2), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(patched(7, 2), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(patched(7, 255), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(patched(11, 0xff), absl::StatusCode::kInvalidArgument);  // 4 GB
}

// The peer's program is two versions newer: it has a higher protocol number, a longer header, and unknown fields.
TEST(WireFrame, NewerPeersAreUnderstood) {
  Header header;
  header.protocol = kProtocol + 2;
  header.type = Type::kHello;
  Hello hello;
  hello.set_host("node7");
  std::string body = hello.SerializeAsString() + "\xf2\x3f\x03new";  // field 1022
  header.raw_bytes = static_cast<uint32_t>(body.size());
  const auto newer = DecodeHeader(EncodeHeader(header) + "more");
  ASSERT_TRUE(newer.ok()) << newer.status();
  Hello back;
  ASSERT_TRUE(DecodeBody({*newer, body}, &back).ok());
  EXPECT_EQ(back.host(), "node7");
}

TEST(WireFrame, BodiesAreReadBack) {
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{100'000}, size_t{3'000'000}}) {
    Digest digest;
    digest.set_host(std::string(bytes, 'h'));
    const auto frame = Encode(Type::kDigest, digest);
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ((frame->header.flags & kCompressed) != 0, bytes >= kCompressFrom);
    Digest back;
    ASSERT_TRUE(DecodeBody(*frame, &back).ok());
    EXPECT_EQ(back.host().size(), bytes);
  }
  Digest large;
  large.set_host(std::string(kMostBodyBytes, 'h'));
  EXPECT_FALSE(Encode(Type::kDigest, large).ok());
  Chunk chunk;
  chunk.set_data(std::string(kMostWireBytes, 'd'));
  EXPECT_FALSE(Encode(Type::kChunk, chunk).ok());
}

TEST(WireFrame, WrongLengthsAreRefused) {
  Digest digest;
  digest.set_host(std::string(100'000, 'h'));
  const Message good = *Encode(Type::kDigest, digest);
  Digest back;
  for (const uint32_t said : {0u, 1u, good.header.raw_bytes - 1, good.header.raw_bytes + 1, 0xffffffffu}) {
    Message lying = good;
    lying.header.raw_bytes = said;
    EXPECT_FALSE(DecodeBody(lying, &back).ok()) << said;
  }
  for (size_t size : {size_t{0}, size_t{1}, good.body.size() / 2, good.body.size() - 1}) {
    Message cut = good;
    cut.body.resize(size);
    EXPECT_FALSE(DecodeBody(cut, &back).ok()) << size;
  }
  Message plain = good;
  plain.header.flags = 0;
  EXPECT_FALSE(DecodeBody(plain, &back).ok());
}

TEST(WireFrame, CompressionBombsStopAtTheLimit) {
  // A quarter of a gigabyte, compressed to a few kilobytes, with various sizes in the header.
  const std::string bomb = Pack(std::string(size_t{256} << 20, '\0'));
  ASSERT_LT(bomb.size(), kMostWireBytes);
  Digest back;
  for (const size_t said : {size_t{1}, kMostBodyBytes, size_t{0xffffffff}}) {
    Message frame = Packed(Type::kDigest, "");
    frame.header.raw_bytes = static_cast<uint32_t>(said);
    frame.body = bomb;
    EXPECT_FALSE(DecodeBody(frame, &back).ok());
  }
}

TEST(WireFrame, MessagesThatWouldGrowInMemoryAreRefused) {
  std::string many;  // 16 MiB of empty submessages: gigabytes when parsed
  while (many.size() + 2 <= kMostBodyBytes) many += std::string("\x32\x00", 2);
  Heartbeat heartbeat;
  EXPECT_FALSE(DecodeBody(Packed(Type::kHeartbeat, many), &heartbeat).ok());
  many.resize(1000);
  EXPECT_TRUE(DecodeBody(Packed(Type::kHeartbeat, many), &heartbeat).ok());
  EXPECT_EQ(heartbeat.moved_size(), 500);
  // The same after an empty group of an unknown field, which the parser skips; and with a field number whose bits above
  // 32 the parser drops.
  std::string hidden = "\xf3\x3f\xf4\x3f";
  while (hidden.size() + 2 <= kMostBodyBytes) hidden += std::string("\x32\x00", 2);
  EXPECT_FALSE(DecodeBody(Packed(Type::kHeartbeat, hidden), &heartbeat).ok());
  hidden.clear();
  for (int i = 0; i < 1'900'000; i++) hidden += std::string("\xb2\x80\x80\x80\x70\x00", 6);
  EXPECT_FALSE(DecodeBody(Packed(Type::kHeartbeat, hidden), &heartbeat).ok());
  // RankCommunicator.recorded can contain another RankCommunicator.
  std::string nested;
  for (int i = 0; i < 60; i++) {
    RankCommunicator outer;
    ASSERT_TRUE(outer.ParseFromString(nested));
    RankCommunicator next;
    *next.mutable_recorded() = outer;
    nested = next.SerializeAsString();
  }
  RankDigest digest;
  digest.add_communicators();
  ASSERT_TRUE(digest.mutable_communicators(0)->ParseFromString(nested));
  EXPECT_FALSE(DecodeBody(Packed(Type::kDigest, digest.SerializeAsString()), &digest).ok());
}

}  // namespace
}  // namespace lockstep::wire
