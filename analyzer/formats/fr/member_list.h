// The ranks of a group as pg_config lists them. At N ranks, each of N files lists all N ranks, so equal lists share one
// copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace lockstep::fr {

// An immutable list. Copies share its memory and may be read by several threads.
class MemberList {
 public:
  MemberList() = default;
  MemberList(std::vector<int32_t> ranks);  // not explicit, so that a vector can be passed as a list

  const std::vector<int32_t>& ranks() const;
  bool empty() const { return ranks().empty(); }
  size_t size() const { return ranks().size(); }
  std::vector<int32_t>::const_iterator begin() const { return ranks().begin(); }
  std::vector<int32_t>::const_iterator end() const { return ranks().end(); }

  // Returns the index of `rank`; -1 if the list does not contain it.
  int32_t PlaceOf(int32_t rank) const;
  bool Contains(int32_t rank) const { return PlaceOf(rank) >= 0; }
  // Equal lists hash alike.
  template <typename H>
  friend H AbslHashValue(H state, const MemberList& list) {
    return H::combine(std::move(state), list.ranks());
  }
  friend bool operator==(const MemberList& a, const MemberList& b) {
    return a.list_ == b.list_ || a.ranks() == b.ranks();
  }

 private:
  std::shared_ptr<const std::vector<int32_t>> list_;
};

// The lists that one thread has parsed, by their text.
class MemberLists {
 public:
  // Returns the list "[0, 1, 8]"; an empty one for anything else, for a rank above kMaxRank, or for a repeated rank.
  MemberList Parse(std::string_view text);

 private:
  absl::flat_hash_map<std::string, MemberList> by_text_;
};

}  // namespace lockstep::fr
