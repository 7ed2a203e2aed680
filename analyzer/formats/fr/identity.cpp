#include "analyzer/formats/fr/identity.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/util/printable.h"

namespace lockstep::fr {
namespace {

// Returns whether a list may contain ranks inside the group: all numbers from 0 on. A list of the job's first ranks
// looks the same.
bool MayCountInside(const MemberList& list) {
  const std::vector<int32_t>& members = list.ranks();
  return members.empty() || (members.front() == 0 && static_cast<size_t>(members.back()) + 1 == members.size());
}

// Returns the group descriptions with at least one list of job ranks. All lists of such a group contain job ranks.
absl::flat_hash_set<std::string> OfTheJob(const std::vector<FileData>& files) {
  absl::flat_hash_set<std::string> out;
  for (const FileData& file : files) {
    for (const GroupClaim& claim : file.claims) {
      if (!claim.desc.empty() && claim.desc != "undefined" && !MayCountInside(claim.members)) out.insert(claim.desc);
    }
  }
  return out;
}

enum class Name { kUnknown, kRight, kWrong };

struct Finding {
  Name name = Name::kUnknown;
  int32_t rank = -1;  // if the name is wrong: the only rank that is in all groups; -1 if there are several or none
  std::string group;  // if the name is wrong: the first group that does not contain the rank
};

Finding Judge(const FileData& file, int32_t rank, const absl::flat_hash_set<std::string>& of_the_job) {
  Finding out;
  std::vector<const GroupClaim*> claims;
  for (const GroupClaim& claim : file.claims) {
    if (MayCountInside(claim.members) && !of_the_job.contains(claim.desc)) continue;
    claims.push_back(&claim);
    if (!claim.members.Contains(rank) && out.group.empty()) out.group = claim.name;
  }
  if (claims.empty()) return out;
  out.name = out.group.empty() ? Name::kRight : Name::kWrong;
  if (out.name == Name::kRight) return out;
  std::vector<int32_t> common =
      (*std::min_element(claims.begin(), claims.end(), [](const GroupClaim* a, const GroupClaim* b) {
        return a->members.size() < b->members.size();
      }))->members.ranks();
  for (const GroupClaim* claim : claims)
    std::erase_if(common, [&](int32_t rank) { return !claim->members.Contains(rank); });
  if (common.size() == 1) out.rank = common[0];
  return out;
}

// How badly the numbers at one position of the names fit as ranks of these files; lower is better.
struct Price {
  bool mostly_misfits = false, no_word = false;
  size_t misfits_and_doubles = 0;
  bool in_folder = false;
  auto operator<=>(const Price&) const = default;
};

using NamedFile = std::pair<FileData*, FileName>;

// Handles names that number ranks inside a host, as in node-1/trace_3. Assumes that all hosts have equally many ranks;
// every file must get its own rank that fits all of its groups. Returns the indexes of the host's number and the number
// inside the host, and sets *host_size to the ranks per host.
std::optional<std::pair<size_t, size_t>> HostAndPlace(const std::vector<NamedFile>& named, int32_t listed,
                                                      const absl::flat_hash_set<std::string>& of_the_job,
                                                      int32_t* host_size) {
  const std::vector<NamedNumber>& numbers = named[0].second.numbers;
  for (size_t host = 0; host < numbers.size() && listed >= 0; ++host) {
    for (size_t place = 0; place < numbers.size() && numbers[host].in_folder; ++place) {
      if (numbers[place].in_folder) continue;
      *host_size = 0;
      for (const auto& [file, name] : named) *host_size = std::max(*host_size, name.numbers[place].value + 1);
      absl::flat_hash_set<int64_t> distinct;
      const bool fits = std::all_of(named.begin(), named.end(), [&](const NamedFile& one) {
        const int32_t at = one.second.numbers[host].value, inside = one.second.numbers[place].value;
        const int64_t rank = int64_t{at} * *host_size + inside;
        return at >= 0 && inside >= 0 && rank <= listed && distinct.insert(rank).second &&
               Judge(*one.first, static_cast<int32_t>(rank), of_the_job).name != Name::kWrong;
      });
      if (fits) return std::pair(host, place);
    }
  }
  return std::nullopt;
}

}  // namespace

void NameRanks(std::vector<FileData>* files) {
  std::vector<std::string> paths;
  for (const FileData& file : *files) paths.push_back(file.rank.path);
  const size_t shared = SharedFolders(paths);
  std::map<std::string, std::vector<NamedFile>> rules;
  int32_t listed = -1;  // the largest rank in any list
  for (FileData& file : *files) {
    for (const GroupClaim& claim : file.claims) {
      if (claim.members.empty()) continue;
      listed = std::max({listed, claim.members.ranks().back(), static_cast<int32_t>(claim.members.size()) - 1});
    }
    if (file.rank.rank >= 0) continue;
    FileName name = ParseFileName(file.rank.path, shared);
    std::string shape = name.shape;
    rules[std::move(shape)].emplace_back(&file, std::move(name));
  }
  const absl::flat_hash_set<std::string> of_the_job = OfTheJob(*files);
  for (auto& [unused, named] : rules) {
    size_t best = SIZE_MAX;
    Price least;
    bool doubles = false;
    const size_t numbers = named[0].second.numbers.size();
    for (size_t i = 0; i < numbers; ++i) {
      absl::flat_hash_set<int32_t> distinct;
      size_t misfits = 0;
      for (const auto& [file, name] : named) {
        const int32_t value = name.numbers[i].value;
        distinct.insert(value);
        misfits += value < 0 || (listed >= 0 && value > listed) ||
                   (numbers > 1 && Judge(*file, value, of_the_job).name == Name::kWrong);
      }
      const NamedNumber& first = named[0].second.numbers[i];
      const Price price = {numbers > 1 && misfits * 2 > named.size(), !first.after_rank,
                           misfits + named.size() - distinct.size(), first.in_folder};
      if (best != SIZE_MAX && price > least) continue;
      best = i, least = price, doubles = distinct.size() < named.size();
    }
    if (best == SIZE_MAX) continue;
    int32_t host_size = 0;
    if (const auto both = doubles ? HostAndPlace(named, listed, of_the_job, &host_size) : std::nullopt) {
      for (auto& [file, name] : named)
        file->rank.rank = name.numbers[both->first].value * host_size + name.numbers[both->second].value;
      continue;
    }
    for (auto& [file, name] : named) {
      file->rank.rank = name.numbers[best].value;
      if (file->rank.rank >= 0) file->rank.host = HostInName(file->rank.path, name.numbers[best]);
    }
  }
}

void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems) {
  const absl::flat_hash_set<std::string> of_the_job = OfTheJob(*files);
  std::vector<Finding> findings;
  size_t right = 0, wrong = 0;
  bool each_its_own = true;
  std::set<std::pair<std::string_view, int32_t>> ranks;  // by folder
  for (const FileData& file : *files) {
    findings.push_back(Judge(file, file.rank.rank, of_the_job));
    const Finding& found = findings.back();
    right += found.name == Name::kRight;
    wrong += found.name == Name::kWrong;
    if (found.name == Name::kWrong)
      each_its_own &= found.rank >= 0 && ranks.insert({Folder(file.rank.path), found.rank}).second;
  }
  // If at least as many files contradict their names as confirm them, but do not each get their own rank, the groups
  // use a different numbering (a job inside a job).
  const bool count_otherwise = wrong >= right && !each_its_own;
  std::vector<FileData> kept;
  for (size_t i = 0; i < files->size(); i++) {
    FileData& file = (*files)[i];
    const Finding& found = findings[i];
    if (file.rank.rank < 0 && found.rank < 0) {
      problems->push_back({.path = file.rank.path,
                           .text = "not used: its name contains no rank (unlike nccl_trace_rank_5, for example), and "
                                   "its pg_config fits more than one; rename the file"});
      continue;
    }
    if (found.name != Name::kWrong || (count_otherwise && file.rank.rank >= 0)) {
      kept.push_back(std::move(file));
      continue;
    }
    const std::string why = file.rank.rank < 0 ? std::string("its name contains no rank")
                                               : absl::StrCat("its name contains rank ", file.rank.rank,
                                                              ", but its pg_config belongs to a rank in group '",
                                                              Printable(found.group, kMostNameColumns),
                                                              "', which does not contain rank ", file.rank.rank);
    if (found.rank < 0) {
      problems->push_back({.path = file.rank.path,
                           .text = absl::StrCat("not used: ", why, "; rename the file"),
                           .rank = file.rank.rank,
                           .like = "another rank's name"});
      continue;
    }
    problems->push_back(
        {.path = file.rank.path,
         .text = absl::StrCat(why, "; rank ", found.rank,
                              " is the only rank in all its groups, so the file is used as that rank's dump"),
         .rank = found.rank,
         .like = "taken for another rank's"});
    file.rank.rank = found.rank;
    kept.push_back(std::move(file));
  }
  for (FileData& file : kept) {
    for (Problem& problem : file.problems) problem.rank = file.rank.rank;
  }
  *files = std::move(kept);
}

}  // namespace lockstep::fr
