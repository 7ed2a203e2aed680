// Parses JSON from untrusted files, and reads members of objects: what is missing, or has another type, gets a default.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep {

// Drops values nested deeper than `most_depth` objects and arrays, because copying, comparing and printing JSON uses
// stack for each level. Returns a discarded value if the text is not JSON.
template <typename Json = nlohmann::json>
Json ParseJson(std::string_view text, int most_depth = 32) {
  return Json::parse(
      text, [most_depth](int depth, typename Json::parse_event_t, Json&) { return depth < most_depth; },
      /*allow_exceptions=*/false);
}

// Null if `object` has no such member, or is no object.
template <typename Json>
const Json& JsonMember(const Json& object, const char* key) {
  static const Json& none = *new Json();
  const auto at = object.find(key);
  return at == object.end() ? none : *at;
}

// An empty list if there is none.
template <typename Json>
const Json& JsonList(const Json& object, const char* key) {
  static const Json& none = *new Json(Json::array());
  const Json& list = JsonMember(object, key);
  return list.is_array() ? list : none;
}

template <typename Json>
std::string JsonText(const Json& object, const char* key) {
  const Json& value = JsonMember(object, key);
  return value.is_string() ? value.template get<std::string>() : "";
}

// A number outside the range of T also counts as missing.
template <typename T = int64_t, typename Json>
T JsonInteger(const Json& object, const char* key, T otherwise = 0) {
  const Json& value = JsonMember(object, key);
  const auto in_range = [&](auto number) { return std::in_range<T>(number) ? static_cast<T>(number) : otherwise; };
  if (value.is_number_unsigned()) return in_range(value.template get<uint64_t>());
  return value.is_number_integer() ? in_range(value.template get<int64_t>()) : otherwise;
}

template <typename Json>
double JsonReal(const Json& object, const char* key) {
  const Json& value = JsonMember(object, key);
  return value.is_number() ? value.template get<double>() : 0;
}

template <typename Json>
bool JsonFlag(const Json& object, const char* key) {
  return JsonMember(object, key) == true;
}

}  // namespace lockstep
