#include "analyzer/formats/fr/identity.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/util/printable.h"

namespace lockstep::fr {
namespace {

// A list that counts inside its group runs from 0 without a gap; so does one of the job's first ranks.
bool MayCountInside(const std::vector<int32_t>& members) {
  return members.empty() || (members.front() == 0 && static_cast<size_t>(members.back()) + 1 == members.size());
}

// Descriptions of groups of which one list at least holds ranks of the job: then all do.
absl::flat_hash_set<std::string> OfTheJob(const std::vector<FileData>& files) {
  absl::flat_hash_set<std::string> out;
  for (const FileData& file : files) {
    for (const GroupClaim& claim : file.claims) {
      if (!claim.desc.empty() && claim.desc != "undefined" && !MayCountInside(claim.members)) out.insert(claim.desc);
    }
  }
  return out;
}

bool Holds(const std::vector<int32_t>& members, int32_t rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

enum class Name { kUnknown, kRight, kWrong };

struct Finding {
  Name name = Name::kUnknown;
  int32_t rank = -1;  // of a wrong name: the only rank that is in all groups; -1: several are, or none
  std::string group;  // of a wrong name: the first that lacks the rank
};

Finding Judge(const FileData& file, const absl::flat_hash_set<std::string>& of_the_job) {
  Finding out;
  std::vector<const GroupClaim*> claims;
  for (const GroupClaim& claim : file.claims) {
    if (MayCountInside(claim.members) && !of_the_job.contains(claim.desc)) continue;
    claims.push_back(&claim);
    if (!Holds(claim.members, file.rank.rank) && out.group.empty()) out.group = claim.name;
  }
  if (claims.empty()) return out;
  out.name = out.group.empty() ? Name::kRight : Name::kWrong;
  if (out.name == Name::kRight) return out;
  std::vector<int32_t> common =
      (*std::min_element(claims.begin(), claims.end(), [](const GroupClaim* a, const GroupClaim* b) {
        return a->members.size() < b->members.size();
      }))->members;
  for (const GroupClaim* claim : claims)
    std::erase_if(common, [&](int32_t rank) { return !Holds(claim->members, rank); });
  if (common.size() == 1) out.rank = common[0];
  return out;
}

}  // namespace

void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems) {
  const absl::flat_hash_set<std::string> of_the_job = OfTheJob(*files);
  std::vector<Finding> findings;
  size_t right = 0, wrong = 0;
  bool each_its_own = true;
  absl::flat_hash_set<int32_t> ranks;
  for (const FileData& file : *files) {
    findings.push_back(Judge(file, of_the_job));
    const Finding& found = findings.back();
    right += found.name == Name::kRight;
    wrong += found.name == Name::kWrong;
    if (found.name == Name::kWrong) each_its_own &= found.rank >= 0 && ranks.insert(found.rank).second;
  }
  // Where most lists lack the rank of the file's name, these are counted in a way of their own (a job inside a job).
  if (wrong == 0 || (wrong >= right && !each_its_own)) return;
  std::vector<FileData> kept;
  for (size_t i = 0; i < files->size(); i++) {
    FileData& file = (*files)[i];
    const Finding& found = findings[i];
    if (found.name != Name::kWrong) {
      kept.push_back(std::move(file));
      continue;
    }
    const std::string why =
        absl::StrCat("its name says rank ", file.rank.rank, ", but its pg_config is of a rank that is in group '",
                     Printable(found.group, kMostNameColumns), "', which rank ", file.rank.rank, " is not in");
    if (found.rank < 0) {
      problems->push_back({file.rank.path, -1, absl::StrCat("not used: ", why, ": rename the file"), file.rank.rank});
      continue;
    }
    problems->push_back({file.rank.path, -1,
                         absl::StrCat(why, "; rank ", found.rank, " alone is in all its groups: taken for that rank's"),
                         found.rank});
    file.rank.rank = found.rank;
    for (Problem& problem : file.problems) problem.rank = found.rank;
    kept.push_back(std::move(file));
  }
  *files = std::move(kept);
}

}  // namespace lockstep::fr
