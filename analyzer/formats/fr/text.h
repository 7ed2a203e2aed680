// Small text helpers for std::string_view, because the distribution's Abseil has its own string_view.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace lockstep::fr {

// Names and texts from files are cut to this many columns.
inline constexpr size_t kMostNameColumns = 80;

constexpr bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr char ToLower(char c) { return IsUpper(c) ? static_cast<char>(c + 32) : c; }
constexpr bool IsWord(char c) { return IsDigit(c) || (ToLower(c) >= 'a' && ToLower(c) <= 'z'); }

inline std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = ToLower(c);
  return out;
}

inline std::string_view Strip(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// Parses all of `text`, except surrounding blanks, as a decimal number. Returns false for any other text.
template <typename Integer>
bool ParseNumber(std::string_view text, Integer* out) {
  text = Strip(text);
  Integer value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || text.empty()) return false;
  *out = value;
  return true;
}

}  // namespace lockstep::fr
