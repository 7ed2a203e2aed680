// Parts of a set that are joined step by step (union-find).
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace lockstep {

class Parts {
 public:
  explicit Parts(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  // Returns the element that represents the part of `i`.
  size_t Find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(size_t a, size_t b) { parent_[Find(b)] = Find(a); }

 private:
  std::vector<size_t> parent_;
};

}  // namespace lockstep
