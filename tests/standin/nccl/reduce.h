// Computes NCCL's datatypes and reductions on the CPU.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace standin {

// Returns 0 for an unknown datatype.
size_t TypeBytes(ncclDataType_t type);

// A reduction as a rank runs it. PreMulSum is a sum; each rank multiplies its input by `scalar` before sending it.
struct Reduction {
  ncclRedOp_t op = ncclSum;
  bool premultiply = false;
  alignas(8) unsigned char scalar[8] = {};  // value in the operation's datatype
};

// Reduces chunks of the ranks, in rank order. Small floats are accumulated as float and rounded once, in Finish().
class Accumulator {
 public:
  Accumulator(ncclDataType_t type, ncclRedOp_t op) : type_(type), op_(op) {}
  // The first call starts a chunk of `count` elements. Later calls may bring fewer elements.
  void Add(const void* data, size_t count);
  // Writes the chunk's result and resets. `nranks` divides an average.
  void Finish(void* out, size_t count, int nranks);

  static constexpr size_t kMaxElements = 32 * 1024;

 private:
  ncclDataType_t type_;
  ncclRedOp_t op_;
  bool empty_ = true;
  alignas(8) unsigned char sum_[kMaxElements * 8];
};

// Sets to[i] = from[i] * scalar.
void Multiply(ncclDataType_t type, void* to, const void* from, size_t count, const void* scalar);

}  // namespace standin
