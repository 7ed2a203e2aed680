// Reads members of untrusted JSON objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "analyzer/util/printable.h"

namespace lockstep::serve {

// Null if the member is missing, or if `object` is not an object.
inline const nlohmann::json& Member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNone;
  if (!object.is_object()) return kNone;
  const auto at = object.find(key);
  return at == object.end() ? kNone : *at;
}

// Printable; empty if the member is not a string.
inline std::string Text(const nlohmann::json& object, const char* key, size_t limit) {
  const nlohmann::json& value = Member(object, key);
  return value.is_string() ? Printable(value.get_ref<const std::string&>(), limit) : "";
}

// An integer, or its text, which is how Protobuf writes 64-bit numbers. 0 for anything else.
inline int64_t Number(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = Member(object, key);
  int64_t number = 0;
  if (value.is_string() && absl::SimpleAtoi(value.get_ref<const std::string&>(), &number)) return number;
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

}  // namespace lockstep::serve
