// Computes how much memory a Protobuf message would take, from its bytes, before it is parsed. Two bytes on the wire
// may be an empty submessage of hundreds of bytes in memory, and 16 MiB of them would be gigabytes.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"

namespace lockstep::wire {

constexpr size_t kMostParsedBytes = size_t{96} << 20;
constexpr int kMostDepth = 16;  // nesting of messages

// OK if `bytes`, parsed as a message of `type`'s kind, stays below these limits. Does not guarantee that they can be
// parsed.
absl::Status CheckShape(std::string_view bytes, const google::protobuf::MessageLite& type);

}  // namespace lockstep::wire
