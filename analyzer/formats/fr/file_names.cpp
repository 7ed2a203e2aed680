#include "analyzer/formats/fr/file_names.h"

#include <algorithm>

#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"

namespace lockstep::fr {
namespace {

constexpr size_t kMostDigits = 9;
constexpr size_t kMostNumbers = 16;  // further numbers in a name are ignored

bool IsSeparator(char c) { return c == '_' || c == '-' || c == '.' || c == '=' || c == ' '; }

// Returns whether the text ends in the word "rank" with the meaning of a rank in the job.
bool EndsInRank(std::string_view before) {
  while (!before.empty() && IsSeparator(before.back())) before.remove_suffix(1);
  const std::string text = Lower(before.substr(before.size() - std::min<size_t>(before.size(), 16)));
  if (!text.ends_with("rank")) return false;
  std::string_view word = std::string_view(text).substr(0, text.size() - 4);
  while (!word.empty() && IsSeparator(word.back())) word.remove_suffix(1);
  return !word.ends_with("local") && !word.ends_with("group") && !word.ends_with("node");
}

size_t NameBegins(std::string_view path) {
  return path.rfind('/') + 1;  // 0 if there is no slash, because npos + 1 == 0
}

// Returns the end of the name, without extensions that only describe the encoding.
size_t NameEnds(std::string_view path) {
  size_t end = path.size();
  for (bool cut = true; cut;) {
    cut = false;
    for (std::string_view extension : {".gz", ".json", ".pkl", ".pickle", ".pt", ".bin"}) {
      if (!Lower(path.substr(0, end)).ends_with(extension)) continue;
      end -= extension.size();
      cut = true;
    }
  }
  return end;
}

}  // namespace

std::string_view Folder(std::string_view path) { return path.substr(0, NameBegins(path)); }

FileName ParseFileName(std::string_view path, size_t shared) {
  FileName out;
  const size_t name = NameBegins(path);
  // Includes the innermost shared folder.
  size_t begin = std::min(shared, name);
  if (begin > 0) begin = NameBegins(path.substr(0, begin - 1));
  const size_t end = NameEnds(path);
  for (size_t at = begin; at < end;) {
    if (!IsDigit(path[at])) {
      out.shape.push_back(path[at++]);
      continue;
    }
    NamedNumber number;
    number.first = at;
    while (at < end && IsDigit(path[at])) at++;
    number.count = at - number.first;
    number.in_folder = number.first < name;
    out.shape.push_back('0');
    if (number.count > kMostDigits || !ParseNumber(path.substr(number.first, number.count), &number.value) ||
        number.value > kMaxRank)
      number.value = -1;  // a time, or an identifier
    number.after_rank = EndsInRank(path.substr(begin, number.first - begin));
    if (number.first < shared && !number.after_rank) number.value = -1;
    if (out.numbers.size() < kMostNumbers) out.numbers.push_back(number);
  }
  return out;
}

size_t SharedFolders(const std::vector<std::string>& paths) {
  if (paths.empty()) return 0;
  std::string_view shared = paths[0];
  shared = shared.substr(0, NameBegins(shared));
  for (std::string_view path : paths) {
    while (!path.starts_with(shared)) shared = shared.substr(0, NameBegins(shared.substr(0, shared.size() - 1)));
  }
  return shared.size();
}

int32_t RankInName(std::string_view path) {
  const FileName name = ParseFileName(path, NameBegins(path));
  const NamedNumber* best = nullptr;
  for (const NamedNumber& number : name.numbers) {
    if (number.value >= 0 && (best == nullptr || number.after_rank || !best->after_rank)) best = &number;
  }
  return best == nullptr ? -1 : best->value;
}

std::string HostInName(std::string_view path, const NamedNumber& rank) {
  const size_t begin = NameBegins(path), end = NameEnds(path);
  if (rank.first < begin) return "";
  const std::string_view before = path.substr(begin, rank.first - begin);
  std::string_view host;
  if (rank.after_rank) {
    host = path.substr(rank.first + rank.count, end - rank.first - rank.count);
  } else if (size_t at = before.rfind("rank_"); at != std::string_view::npos) {
    host = before.substr(at + 5);
  } else if (before.ends_with("_dump_")) {
    host = before.substr(0, before.size() - 6);
  }
  while (!host.empty() && IsSeparator(host.back())) host.remove_suffix(1);
  while (!host.empty() && IsSeparator(host.front())) host.remove_prefix(1);
  // A rank may be followed by various texts: a time, a process ID, an attempt.
  const std::string begin_of_host = Lower(host.substr(0, 4));
  if (rank.after_rank && begin_of_host != "node" && begin_of_host != "host") return "";
  return std::any_of(host.begin(), host.end(), IsWord) ? std::string(host) : "";
}

}  // namespace lockstep::fr
