// Text of unknown origin, made safe to show or to store.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Safe for a terminal. Control characters (C0, DEL, C1), line and paragraph separators, characters that reorder the
// line or have no width, and each byte of invalid UTF-8 become '?'. Line feed, carriage return and tab become spaces.
// Longer text is cut to `limit` columns, followed by "..".
std::string Printable(std::string_view text, size_t limit = 2000);
// The same, with '?' for every character outside ASCII, for screens that count bytes.
std::string PrintableAscii(std::string_view text, size_t limit = 2000);
// Printable, appended to `out`.
void AppendPrintable(std::string_view text, size_t limit, std::string* out);

// Valid UTF-8 without NUL of at most `limit` bytes, as Protobuf strings and JSON require; control characters stay.
std::string CleanUtf8(std::string_view text, size_t limit = 4096);

// Number of columns of a text, one per code point.
size_t Columns(std::string_view text);

enum class LongWords { kCut, kKeep };

// Appends `first_prefix` and the text in lines of at most `width` columns, broken at spaces; later lines are indented
// by `indent`. A word longer than a line is cut between characters, or kept whole so that it can be copied. Text
// between backquotes is one word if it fits a line.
void AppendWrapped(std::string_view first_prefix, std::string_view text, size_t indent, size_t width, LongWords words,
                   std::string* out);

}  // namespace lockstep
