// The memo of a pickle: values that later opcodes refer to by number.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

class PickleMemo {
 public:
  // Returns false if there are too many entries.
  bool Put(uint64_t index, const Value& value) {
    if (puts_++ >= kMaxValues) return false;
    if (index < near_.size()) {
      if (near_[index].type != Type::kMissing || !far_.empty()) overwrites_++;
      near_[index] = value;
    } else if (index == near_.size()) {
      if (!far_.empty()) overwrites_++;
      near_.push_back(value);
    } else {
      PutFar(index, value);
    }
    return true;
  }
  // nullptr if the number is unused.
  const Value* Find(uint64_t index) const {
    if (index < near_.size() && near_[index].type != Type::kMissing) [[likely]]
      return &near_[index];
    return FindFar(index);
  }
  // Replaces the value of a used number.
  void Replace(uint64_t index, const Value& value) {
    if (index < near_.size()) {
      near_[index] = value;
    } else {
      far_[index] = value;
    }
  }

  // The number of stored values, which MEMOIZE uses next. May be set back in order to read the same bytes again.
  uint64_t puts() const { return puts_; }
  void SetPuts(uint64_t puts) { puts_ = puts; }

  // Changes whenever a number that was used may refer to another value.
  uint64_t overwrites() const { return overwrites_; }

 private:
  // Numbers up to this far beyond those of a counting writer are in an array, others in a map.
  static constexpr uint64_t kSlack = 4096;

  [[gnu::noinline]] void PutFar(uint64_t index, const Value& value) {
    overwrites_++;
    if (index < puts_ + kSlack) {
      near_.resize(index + 1);
      near_[index] = value;
    } else {
      far_[index] = value;
    }
  }
  // A number can be in both if the array grew past it.
  [[gnu::noinline]] const Value* FindFar(uint64_t index) const {
    auto found = far_.find(index);
    return found == far_.end() ? nullptr : &found->second;
  }

  std::vector<Value> near_;
  absl::flat_hash_map<uint64_t, Value> far_;
  uint64_t puts_ = 0;
  uint64_t overwrites_ = 0;
};

}  // namespace lockstep::fr
