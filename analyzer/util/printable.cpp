#include "analyzer/util/printable.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// Decodes one code point at `i`; returns 0 with *length 1 if the bytes are not valid UTF-8.
uint32_t CodePoint(std::string_view text, size_t i, size_t* length) {
  const auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<unsigned char>(text[k])); };
  const uint32_t lead = byte(i);
  *length = 1;
  if (lead < 0x80) return lead;
  const size_t size = lead >= 0xc2 && lead < 0xe0   ? 2
                      : lead >= 0xe0 && lead < 0xf0 ? 3
                      : lead >= 0xf0 && lead < 0xf5 ? 4
                                                    : 0;
  if (size == 0 || i + size > text.size()) return 0;
  uint32_t value = lead & (0xffu >> (size + 1));
  for (size_t k = 1; k < size; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
    value = value << 6 | (byte(i + k) & 0x3f);
  }
  if ((size == 3 && value < 0x800) || (size == 4 && (value < 0x10000 || value > 0x10ffff)) ||
      (value >= 0xd800 && value < 0xe000))
    return 0;
  *length = size;
  return value;
}

// Returns whether this is a control character, or changes the direction or appearance of the text around it.
bool Harmful(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x34f || c == 0x61c || c == 0x180e ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

}  // namespace

void AppendPrintable(std::string_view text, size_t limit, std::string* out) {
  size_t columns = 0, length = 1;
  for (size_t i = 0; i < text.size(); i += length, ++columns) {
    if (columns >= limit) {
      out->append("..");
      return;
    }
    const uint32_t c = CodePoint(text, i, &length);
    if (c == '\n' || c == '\t' || c == '\r') {
      out->push_back(' ');
    } else if (Harmful(c)) {
      out->push_back('?');
    } else {
      out->append(text, i, length);
    }
  }
}

std::string Printable(std::string_view text, size_t limit) {
  std::string out;
  AppendPrintable(text, limit, &out);
  return out;
}

std::string PrintableAscii(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : Printable(text, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 || byte >= 0xc0) out.push_back(byte < 0x80 ? c : '?');
  }
  return out;
}

std::string CleanUtf8(std::string_view text, size_t limit) {
  std::string out;
  out.reserve(std::min(text.size(), limit));
  size_t length = 1;
  for (size_t i = 0; i < text.size(); i += length) {
    const uint32_t c = CodePoint(text, i, &length);
    if (out.size() + length > limit) break;
    if (c != 0) {
      out.append(text, i, length);
    } else {
      out.push_back('?');
    }
  }
  return out;
}

std::string FileNameFrom(std::string_view text, size_t limit) {
  std::string name;
  for (const char c : text.substr(0, limit)) {
    const bool plain =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || (c == '.' && !name.empty());
    name.push_back(plain ? c : '_');
  }
  return name;
}

size_t Columns(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

namespace {

// Returns the end of the first word. A command between backquotes is one word if it has at most `room` columns.
size_t EndOfWord(std::string_view text, size_t room) {
  size_t end = std::min(text.find(' '), text.size());
  const size_t open = text.find('`');
  if (open >= end) return end;
  const size_t close = text.find('`', open + 1);
  if (close == std::string_view::npos) return end;
  const size_t whole = std::min(text.find(' ', close), text.size());
  return Columns(text.substr(0, whole)) <= room ? std::max(whole, end) : end;
}

}  // namespace

void AppendWrapped(std::string_view first_prefix, std::string_view text, size_t indent, size_t width, LongWords words,
                   std::string* out) {
  std::string line(first_prefix);
  const std::string margin(indent, ' ');
  bool empty = true;
  while (!text.empty()) {
    const size_t space = EndOfWord(text, width > indent ? width - indent : 0);
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    if (!empty && Columns(line) + 1 + Columns(word) > width) {
      out->append(line).push_back('\n');
      line = margin;
      empty = true;
    }
    if (!empty) line.push_back(' ');
    while (words == LongWords::kCut && Columns(line) + Columns(word) > width) {
      size_t cut = 0;
      for (size_t columns = Columns(line); columns < width; ++columns) {
        do ++cut;
        while (cut < word.size() && (static_cast<unsigned char>(word[cut]) & 0xc0) == 0x80);
      }
      out->append(line).append(word, 0, cut).push_back('\n');
      word.remove_prefix(cut);
      line = margin;
    }
    line.append(word);
    empty = false;
  }
  out->append(line).push_back('\n');
}

void KeepFirst(size_t most, std::string_view rest, std::vector<std::string>* lines) {
  if (lines->size() <= most) return;
  const size_t more = lines->size() - most;
  lines->resize(most);
  lines->push_back(absl::StrCat("and ", more, " more", std::string(rest)));
}

}  // namespace lockstep
