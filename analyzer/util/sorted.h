// Sets as sorted lists.
#pragma once

#include <algorithm>
#include <vector>

namespace lockstep {

// Sorts the list and removes duplicates.
template <typename Value>
void SortUnique(std::vector<Value>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

}  // namespace lockstep
