#include "collector/wire/shape.h"

#include <cstdint>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace lockstep::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MessageFactory;

// Size of an empty message of this kind in memory.
size_t EmptyBytes(const Descriptor* kind) {
  thread_local std::unordered_map<const Descriptor*, size_t> known;
  const auto [entry, made] = known.try_emplace(kind, 0);
  if (made) {
    const google::protobuf::Message* message = MessageFactory::generated_factory()->GetPrototype(kind);
    entry->second = message == nullptr ? 4096 : message->SpaceUsedLong();
  }
  return entry->second;
}

bool Varint(std::string_view* bytes, uint64_t* number) {
  *number = 0;
  for (int shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    *number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Adds the message's size in memory to *parsed. Returns false if the message is too large or too deep, or has a group.
// Invalid bytes end the walk, because the parser reports them.
bool Walk(std::string_view bytes, const Descriptor* kind, int depth, size_t* parsed) {
  if (depth > kMostDepth) return false;
  while (!bytes.empty()) {
    uint64_t tag = 0;
    uint64_t value = 0;
    if (!Varint(&bytes, &tag)) return true;
    tag &= 0xffff'ffff;  // as the parser does
    switch (tag & 7) {
      case 0:
        if (!Varint(&bytes, &value)) return true;
        *parsed += 8;
        break;
      case 1:
        if (bytes.size() < 8) return true;
        bytes.remove_prefix(8);
        *parsed += 8;
        break;
      case 5:
        if (bytes.size() < 4) return true;
        bytes.remove_prefix(4);
        *parsed += 8;
        break;
      case 2: {
        if (!Varint(&bytes, &value) || value > bytes.size()) return true;
        const std::string_view inner = bytes.substr(0, value);
        bytes.remove_prefix(value);
        const FieldDescriptor* field = kind->FindFieldByNumber(static_cast<int>(tag >> 3));
        if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          *parsed += EmptyBytes(field->message_type()) + sizeof(void*);
          if (*parsed > kMostParsedBytes || !Walk(inner, field->message_type(), depth + 1, parsed)) return false;
        } else if (field != nullptr && field->is_packable()) {
          *parsed += 8 * inner.size();  // each byte may become a number of eight bytes
        } else {
          *parsed += inner.size() + 48;
        }
        break;
      }
      case 3: return false;  // the parser would read a group and what follows it, and the protocol has no groups
      default: return true;
    }
    if (*parsed > kMostParsedBytes) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckShape(std::string_view bytes, const google::protobuf::MessageLite& type) {
  const auto* message = dynamic_cast<const google::protobuf::Message*>(&type);
  if (message == nullptr) return absl::OkStatus();
  size_t parsed = 0;
  if (!Walk(bytes, message->GetDescriptor(), 0, &parsed)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ", type.GetTypeName(), " of ", bytes.size(), " bytes is refused: it would need more than ",
        kMostParsedBytes >> 20, " MiB of memory, or is nested more than ", kMostDepth, " levels deep, or has a group"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::wire
