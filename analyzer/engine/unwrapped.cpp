#include "analyzer/engine/unwrapped.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/nccl_version.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {
namespace {

constexpr size_t kMostLibraries = 4, kMostNames = 6;

}  // namespace

void SayWhatIsNotWrapped(const Bundle& bundle, Verdict* verdict) {
  std::map<std::tuple<int32_t, int32_t, uint32_t, std::string>, std::vector<int32_t>> libraries;
  for (const Rank& rank : bundle.ranks) {
    if (rank.newest_nccl <= 0 || rank.nccl_version <= 0) continue;
    if (rank.nccl_version > rank.newest_nccl || rank.unwrapped > 0)
      libraries[{rank.nccl_version, rank.newest_nccl, rank.unwrapped, rank.unwrapped_names}].push_back(rank.rank);
  }
  size_t said = 0;
  for (const auto& [library, ranks] : libraries) {
    if (said++ == kMostLibraries) break;
    const auto& [version, newest, unwrapped, text] = library;
    std::string line = absl::StrCat("NCCL ", NcclVersionText(version), ranks.size() == 1 ? " of rank " : " of ranks ",
                                    FoldRanks(ranks));
    if (version > newest)
      absl::StrAppend(&line, " is newer than the recorder, which knows up to ", NcclVersionText(newest));
    if (unwrapped == 0) {
      absl::StrAppend(&line, ": it knows all functions of this version, but not what is new in their arguments");
    } else {
      std::vector<std::string> names = absl::StrSplit(text, ' ', absl::SkipEmpty());
      names.resize(std::min(names.size(), kMostNames));
      for (std::string& name : names) name = Printable(name, 64);
      const size_t more = unwrapped - std::min<size_t>(names.size(), unwrapped);
      absl::StrAppend(&line, version > newest ? ": " : " has functions that the recorder does not know: ", "calls of ",
                      absl::StrJoin(names, ", "),
                      names.empty() ? ""
                      : more > 0    ? " and "
                                    : "",
                      more > 0 ? absl::StrCat(more, names.empty() ? " functions" : " more") : "", " are not recorded");
    }
    verdict->add_blind(line);
  }
}

}  // namespace lockstep
