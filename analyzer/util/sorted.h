// Lists, and sets as sorted lists.
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

template <typename List, typename Value>
void Append(const List& values, std::vector<Value>* to) {
  to->insert(to->end(), values.begin(), values.end());
}

// Returns whether the list, sorted or not, contains the value.
template <typename List, typename Value>
bool Contains(const List& list, const Value& value) {
  return std::ranges::find(list, value) != list.end();
}

}  // namespace lockstep
