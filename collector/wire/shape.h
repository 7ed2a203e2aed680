// The memory that a Protobuf message would take, computed from its bytes before it is parsed: two bytes on the wire may
// be an empty submessage of hundreds in memory, and 16 MiB of them would be gigabytes.
#ifndef LOCKSTEP_COLLECTOR_WIRE_SHAPE_H_
#define LOCKSTEP_COLLECTOR_WIRE_SHAPE_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"

namespace lockstep::wire {

constexpr size_t kMostParsedBytes = size_t{96} << 20;
constexpr int kMostDepth = 16;  // of messages in messages

// OK when `bytes`, parsed as a message of `type`'s kind, stays below these. Does not say that they will parse.
absl::Status CheckShape(std::string_view bytes, const google::protobuf::MessageLite& type);

}  // namespace lockstep::wire

#endif  // LOCKSTEP_COLLECTOR_WIRE_SHAPE_H_
