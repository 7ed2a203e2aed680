// Estimates the memory of a Protobuf message before it is parsed. An empty submessage takes two bytes on the wire and
// hundreds of bytes in memory, so 16 MiB of empty submessages would take gigabytes.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"

namespace lockstep::wire {

constexpr size_t kMostParsedBytes = size_t{96} << 20;
constexpr int kMostDepth = 16;  // nesting of messages

// Returns OK if `bytes`, parsed as the type of `type`, would stay within both limits. They may still be invalid.
// Refuses groups, which the protocol does not have. Does not check lite messages.
absl::Status CheckShape(std::string_view bytes, const google::protobuf::MessageLite& type);

}  // namespace lockstep::wire
