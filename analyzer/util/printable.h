// Makes text of unknown origin safe to show or store.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Makes text safe for a terminal. These become '?': control characters (C0, DEL, C1), line and paragraph separators,
// characters that reorder the line or have no width, and each byte of invalid UTF-8. Line feeds, carriage returns and
// tabs become spaces. Longer text is cut to `limit` columns, followed by "..".
std::string Printable(std::string_view text, size_t limit = 2000);
// Like Printable, with '?' for every non-ASCII character, for screens that count bytes.
std::string PrintableAscii(std::string_view text, size_t limit = 2000);
// Appends the printable text to `out`.
void AppendPrintable(std::string_view text, size_t limit, std::string* out);

// Valid UTF-8 without NUL, at most `limit` bytes, as Protobuf strings and JSON require. Keeps control characters.
std::string CleanUtf8(std::string_view text, size_t limit = 4096);

// A name for a file: ASCII letters, digits, "_", "-", and "." except at the start; '_' for everything else.
std::string FileNameFrom(std::string_view text, size_t limit);

// Number of columns of a text: one per code point.
size_t Columns(std::string_view text);

// Keeps the first `most` lines, and replaces the others by one line: "and 3 more" and `rest`.
void KeepFirst(size_t most, std::string_view rest, std::vector<std::string>* lines);

enum class LongWords { kCut, kKeep };

// Appends `first_prefix` and the text in lines of at most `width` columns, broken at spaces. Later lines are indented
// by `indent`. A word longer than a line is cut between characters, or kept whole so that it can be copied. Text
// between backquotes counts as one word if it fits a line.
void AppendWrapped(std::string_view first_prefix, std::string_view text, size_t indent, size_t width, LongWords words,
                   std::string* out);

}  // namespace lockstep
