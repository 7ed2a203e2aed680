#include "analyzer/engine/unwrapped.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_split.h"
#include "analyzer/util/nccl_version.h"

namespace lockstep {
namespace {

constexpr size_t kMostLibraries = 4;
constexpr int kMostNames = 6;

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
    NotSeen* not_seen = verdict->add_not_seen();
    not_seen->set_kind(NotSeen::NOT_WRAPPED);
    Detail* detail = not_seen->mutable_detail();
    detail->mutable_ranks()->Assign(ranks.begin(), ranks.end());
    detail->set_name(NcclVersionText(version));
    if (version > newest) detail->set_other_name(NcclVersionText(newest));
    detail->set_count(unwrapped);
    for (const absl::string_view name : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
      if (unwrapped > 0 && detail->members_size() < kMostNames) detail->add_members(std::string(name));
    }
  }
}

}  // namespace lockstep
