// Job-wide identities of communicators, derived only from public data. The hash is the one that NCCL calls commHash
// since 2.26, so the identities match NCCL's logs.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace lockstep::recorder {

class NcclHash {
 public:
  void Add(const void* data, size_t size) noexcept {
    const auto* bytes = static_cast<const unsigned char*>(data);
    a_ ^= size;
    for (size_t at = 0; at < size; at += 8) {
      uint64_t chunk = 0;
      memcpy(&chunk, bytes + at, size - at < 8 ? size - at : 8);
      a_ += b_;
      b_ ^= a_;
      a_ ^= a_ >> 31;
      a_ *= 0x9de62bbc8cef3ce3u;
      b_ ^= b_ >> 32;
      b_ *= 0x485cd6311b599e79u;
      a_ += chunk;
    }
  }

  uint64_t Digest() const noexcept {
    uint64_t h = a_;
    h ^= h >> 31;
    h *= 0xbac3bd562846de6bu;
    h += b_;
    h ^= h >> 32;
    h *= 0x995a187a14e7b445u;
    return h;
  }

 private:
  uint64_t a_ = 1, b_ = 1;
};

inline uint64_t RootId(const void* unique_id) noexcept {
  NcclHash hash;
  hash.Add(unique_id, 128);
  return hash.Digest();
}

// Returns the identity of a split's child. `counter` is the parent's child counter, already incremented for this child.
inline uint64_t SplitId(uint64_t parent, int32_t counter, int32_t color) noexcept {
  NcclHash hash;
  hash.Add(&parent, sizeof(parent));
  hash.Add(&counter, sizeof(counter));
  hash.Add(&color, sizeof(color));
  return hash.Digest();
}

// Returns a hash of the set, never 0. The order of the list does not matter, because NCCL sorts it.
inline uint64_t SetHash(const int32_t* ranks, int32_t count) noexcept {
  uint64_t set = 0;
  for (int32_t i = 0; i < count; ++i) {
    NcclHash one;
    one.Add(&ranks[i], sizeof(ranks[i]));
    set += one.Digest();
  }
  return set | 1;
}

// Lockstep's own hash, because NCCL gives all shrinks of one parent the same hash. `use` is how many times the parent
// was shrunk by this set.
inline uint64_t ShrinkId(uint64_t parent, int32_t use, uint64_t set) noexcept {
  NcclHash hash;
  hash.Add("shrink", 6);
  hash.Add(&parent, sizeof(parent));
  hash.Add(&use, sizeof(use));
  hash.Add(&set, sizeof(set));
  return hash.Digest();
}

inline uint64_t Combine(uint64_t magic, int32_t number) noexcept {
  NcclHash hash;
  hash.Add(&magic, sizeof(magic));
  hash.Add(&number, sizeof(number));
  return hash.Digest();
}

}  // namespace lockstep::recorder
