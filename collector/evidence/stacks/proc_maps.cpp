#include "collector/evidence/stacks/proc_maps.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr size_t kMostMapsBytes = 32 << 20;

// Removes and returns the next word of the text.
absl::string_view Word(absl::string_view* text) {
  const size_t begin = std::min(text->find_first_not_of(' '), text->size());
  text->remove_prefix(begin);
  const absl::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(word.size());
  return word;
}

bool Hex(absl::string_view word, uint64_t* value) { return !word.empty() && absl::SimpleHexAtoi(word, value); }

bool ParseLine(absl::string_view line, Mapping* out) {
  // 7f3c67800000-7f3c6788b000 r--p 00000000 fe:00 1234    /usr/lib/libpython3.13.so.1.0
  const absl::string_view range = Word(&line), rights = Word(&line), offset = Word(&line);
  Word(&line);
  const absl::string_view inode = Word(&line);
  const size_t dash = range.find('-');
  if (dash == range.npos || rights.size() < 4) return false;
  if (!Hex(range.substr(0, dash), &out->start) || !Hex(range.substr(dash + 1), &out->end) || out->start >= out->end)
    return false;
  if (!Hex(offset, &out->offset) || !absl::SimpleAtoi(inode, &out->inode)) return false;
  out->readable = rights[0] == 'r';
  out->executable = rights[2] == 'x';
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  out->deleted = absl::EndsWith(line, " (deleted)");
  out->path = std::string(absl::StripSuffix(line, " (deleted)"));
  return true;
}

}  // namespace

std::vector<Mapping> ParseMaps(absl::string_view text) {
  constexpr size_t kMost = 65536;
  std::vector<Mapping> maps;
  while (!text.empty() && maps.size() < kMost) {
    const absl::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    Mapping mapping;
    if (ParseLine(line, &mapping)) maps.push_back(std::move(mapping));
  }
  std::sort(maps.begin(), maps.end(), [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
  return maps;
}

std::vector<Mapping> ReadMaps(pid_t pid) {
  return ParseMaps(ReadSmallFile(absl::StrCat("/proc/", pid, "/maps"), kMostMapsBytes));
}

const Mapping* FindMapping(const std::vector<Mapping>& maps, uint64_t address) {
  auto after =
      std::upper_bound(maps.begin(), maps.end(), address, [](uint64_t a, const Mapping& m) { return a < m.start; });
  if (after == maps.begin()) return nullptr;
  --after;
  return address < after->end ? &*after : nullptr;
}

std::vector<MappedFile> MappedFiles(const std::vector<Mapping>& maps) {
  std::vector<MappedFile> files;
  for (size_t i = 0; i < maps.size();) {
    const Mapping& first = maps[i];
    size_t last = i;
    const bool named = !first.path.empty() && (first.path[0] == '/' || first.path == "[vdso]");
    MappedFile file{first.path, first.start, first.end, first.inode, first.deleted, first.executable};
    ++i;
    if (!named || first.offset != 0) continue;
    // The zero-initialized part is mapped without a file; later mappings of the file still belong to it.
    for (size_t next = i; next < maps.size(); ++next) {
      const Mapping& m = maps[next];
      // Small files have their code in their first page, which is then mapped twice. A second copy of a whole file
      // starts with its header again, which is not executable.
      const bool goes_on = m.offset > 0 || (m.executable && !first.executable && m.start == maps[next - 1].end);
      const bool same = m.path == first.path && m.inode == first.inode && goes_on;
      const bool gap = m.path.empty() && m.start == maps[next - 1].end;
      if (!same && !gap) break;
      if (!same) continue;
      last = next;
      file.end = m.end;
      file.executable |= m.executable;
    }
    i = std::max(i, last + 1);
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace lockstep
