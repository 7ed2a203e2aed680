#include "analyzer/settings/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "analyzer/settings/table.h"
#include "analyzer/settings/types.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"
#include "recorder/ring/settings.h"

namespace lockstep::settings {
namespace {

std::string Shown(absl::string_view text) { return absl::StrCat("'", Printable({text.data(), text.size()}, 80), "'"); }

bool InSection(const Row& row, const std::string& section) {
  return section == kCommon ? row.common : row.section == section;
}

std::vector<std::string> KeysOf(const std::string& section) {
  std::vector<std::string> keys;
  for (const Row& row : Table()) {
    if (InSection(row, section)) keys.push_back(row.key);
  }
  return keys;
}

// Returns the error for a key that its section does not have, with a suggestion.
std::string UnknownKey(const Entry& entry) {
  std::string text = absl::StrCat(Place(entry), ": [", entry.section, "] has no key ", Shown(entry.key));
  if (const std::string near = Nearest(entry.key, KeysOf(entry.section)); !near.empty())
    return absl::StrCat(text, "; did you mean '", near, "'?");
  std::string where;
  for (const Row& row : Table()) {
    if (row.key == entry.key && where.find("[" + row.section + "]") == std::string::npos) {
      absl::StrAppend(&where, where.empty() ? "" : ", ", "[", row.section, "]");
    }
  }
  if (!where.empty()) return absl::StrCat(text, "; it belongs to ", where);
  return absl::StrCat(text, "; lockstep config lists its keys");
}

bool InUserNamespace() {
  const std::string map = ReadSmallFile("/proc/self/uid_map", 64);
  return !map.empty() && map.find("4294967295") == std::string::npos;
}

}  // namespace

std::string Place(const Entry& entry) {
  return entry.line > 0 ? absl::StrCat(entry.file, ", line ", entry.line) : entry.file;
}

absl::Status ParseText(const std::string& path, const std::string& text, File* file) {
  Entry entry;
  entry.file = path;
  std::vector<std::string> sections = Sections();
  sections.insert(sections.begin(), std::string(kCommon));
  std::map<std::string, int> seen;
  bool known_section = false;
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(Place(entry), ": ", what));
  };
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++entry.line;
    if (line.size() > ring::kMostConfigLine)
      return wrong(absl::StrCat("the line is longer than ", ring::kMostConfigLine, " bytes; shorten it"));
    if (line.find('\0') != line.npos) return wrong("it contains a zero byte, so the file is not a text file");
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      if (line.back() != ']') return wrong(absl::StrCat("a section header is a line like [agent], not ", Shown(line)));
      entry.section = absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(1, line.size() - 2)));
      known_section = std::find(sections.begin(), sections.end(), entry.section) != sections.end();
      if (!known_section) {
        const std::string near = Nearest(entry.section, sections);
        file->told.push_back(
            {entry.section, absl::StrCat(Place(entry), ": there is no section [", Shown(entry.section), "]",
                                         near.empty() ? "; lockstep config lists the sections"
                                                      : absl::StrCat("; did you mean [", near, "]?"))});
      }
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == line.npos)
      return wrong(absl::StrCat(Shown(line), " is neither a comment (#) nor a [section] nor KEY = VALUE"));
    if (entry.section.empty())
      return wrong(absl::StrCat(Shown(line), " is not in a section; put [common] or the program's section above it"));
    entry.key = absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)));
    std::replace(entry.key.begin(), entry.key.end(), '_', '-');
    entry.value = std::string(absl::StripAsciiWhitespace(line.substr(equals + 1)));
    if (entry.key.empty()) return wrong("there is no key before the =");
    if (!known_section) continue;
    const Row* row = nullptr;
    for (const Row& candidate : Table()) {
      if (candidate.key == entry.key && InSection(candidate, entry.section)) row = &candidate;
    }
    if (row == nullptr) {
      file->told.push_back({entry.section, UnknownKey(entry)});
      continue;
    }
    if (const std::string what = WrongValue(*row, entry.value); !what.empty()) {
      return wrong(absl::StrCat("[", entry.section, "] ", entry.key, " ", what,
                                entry.value.empty() ? "" : ", not " + Shown(entry.value)));
    }
    int& before = seen[absl::StrCat(entry.section, ".", entry.key)];
    if (before != 0) {
      file->told.push_back(
          {entry.section, absl::StrCat(Place(entry), ": [", entry.section, "] ", entry.key, " was already set in line ",
                                       before, "; the later value applies")});
    }
    before = entry.line;
    file->entries.push_back(entry);
  }
  return absl::OkStatus();
}

absl::Status ReadConfigFile(const std::string& path, File* file) {
  file->path = path;
  const UniqueFd fd = OpenToRead(path);
  if (!fd.ok() && (errno == ENOENT || errno == ENOTDIR)) return absl::OkStatus();
  if (!fd.ok())
    return absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": ", strerror(errno), "; correct its permissions, or remove it"));
  file->found = true;
  struct stat info {};
  absl::Status status;
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  } else if ((info.st_mode & S_IWOTH) != 0) {
    status = absl::PermissionDeniedError(
        absl::StrCat(path, " is writable by everyone, so it is not read; chmod o-w ", path));
  } else if (geteuid() == 0 && info.st_uid != 0 && !(info.st_uid == 65534 && InUserNamespace())) {
    status = absl::PermissionDeniedError(
        absl::StrCat(path, " belongs to user ", info.st_uid, ", and root reads only its own files; chown root ", path));
  } else if (geteuid() == 0 && (info.st_mode & S_IWGRP) != 0 && info.st_gid != 0) {
    status = absl::PermissionDeniedError(
        absl::StrCat(path, " is writable by group ", info.st_gid,
                     ", and root reads only files that nobody else can write; chmod g-w ", path));
  }
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> text = ReadWholeFile(fd.get(), path, ring::kMostConfigBytes);
  return text.ok() ? ParseText(path, *text, file) : text.status();
}

}  // namespace lockstep::settings
