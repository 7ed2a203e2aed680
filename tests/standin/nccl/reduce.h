// NCCL's datatypes and reductions on the CPU.
#ifndef LOCKSTEP_TESTS_STANDIN_NCCL_REDUCE_H_
#define LOCKSTEP_TESTS_STANDIN_NCCL_REDUCE_H_

#include <nccl.h>

#include <cstddef>

namespace standin {

// 0: no such datatype.
size_t TypeBytes(ncclDataType_t type);

// A reduction as a rank carries it out: PreMulSum is a sum whose inputs are multiplied by `scalar` before they are
// sent.
struct Reduction {
  ncclRedOp_t op = ncclSum;
  bool premultiply = false;
  alignas(8) unsigned char scalar[8] = {};  // of the operation's datatype
};

// Sums up chunks of the ranks in rank order. Small floats are accumulated as float and rounded once, at Finish().
class Accumulator {
 public:
  Accumulator(ncclDataType_t type, ncclRedOp_t op) : type_(type), op_(op) {}
  // The first call starts a chunk of `count` elements; later ones may bring fewer.
  void Add(const void* data, size_t count);
  // Writes the chunk's result and forgets it. `nranks` divides an average.
  void Finish(void* out, size_t count, int nranks);

  static constexpr size_t kMaxElements = 32 * 1024;

 private:
  ncclDataType_t type_;
  ncclRedOp_t op_;
  bool empty_ = true;
  alignas(8) unsigned char sum_[kMaxElements * 8];
};

// to[i] = from[i] * scalar.
void Multiply(ncclDataType_t type, void* to, const void* from, size_t count, const void* scalar);

// One element, for tests and for the small floats: value as double and back, rounded to nearest even.
double ToDouble(ncclDataType_t type, const void* element);
void FromDouble(ncclDataType_t type, double value, void* element);

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_NCCL_REDUCE_H_
