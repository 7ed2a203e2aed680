#include "analyzer/formats/fr/member_list.h"

#include <algorithm>
#include <utility>

#include "analyzer/formats/fr/names.h"

namespace lockstep::fr {

MemberList::MemberList(std::vector<int32_t> ranks)
    : list_(std::make_shared<const std::vector<int32_t>>(std::move(ranks))) {}

const std::vector<int32_t>& MemberList::ranks() const {
  static const std::vector<int32_t> kEmpty;
  return list_ == nullptr ? kEmpty : *list_;
}

int32_t MemberList::PlaceOf(int32_t rank) const {
  const std::vector<int32_t>& list = ranks();
  // The list of all ranks usually counts from 0.
  if (rank >= 0 && static_cast<size_t>(rank) < list.size() && list[static_cast<size_t>(rank)] == rank) return rank;
  const auto at = std::find(list.begin(), list.end(), rank);
  return at == list.end() ? -1 : static_cast<int32_t>(at - list.begin());
}

MemberList MemberLists::Parse(std::string_view text) {
  if (const auto known = by_text_.find(absl::string_view(text.data(), text.size())); known != by_text_.end())
    return known->second;
  std::vector<int32_t> ranks;
  if (!ParseRankList(text, &ranks)) return {};
  ranks.shrink_to_fit();
  return by_text_.emplace(std::string(text), MemberList(std::move(ranks))).first->second;
}

}  // namespace lockstep::fr
