// Compares every datatype and reduction with a serial computation that has its own number formats.
#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>

#include "tests/standin/ranks.h"

namespace standin_test {
namespace {

constexpr int kRanks = 4;
constexpr size_t kCount = 5003;  // several chunks of the wide types, even if each destination has its own part

struct Format {
  const char* name;
  ncclDataType_t type;
  size_t bytes;
  char kind;               // i, u: integers; f: float or double; s: a small float
  int exponent, mantissa;  // bits of a small float
  bool finite;             // whether the format has no infinities
};
constexpr Format kFormats[] = {
    {"int8", ncclInt8, 1, 'i', 0, 0, false},
    {"uint8", ncclUint8, 1, 'u', 0, 0, false},
    {"int32", ncclInt32, 4, 'i', 0, 0, false},
    {"uint32", ncclUint32, 4, 'u', 0, 0, false},
    {"int64", ncclInt64, 8, 'i', 0, 0, false},
    {"uint64", ncclUint64, 8, 'u', 0, 0, false},
    {"float16", ncclFloat16, 2, 's', 5, 10, false},
    {"float32", ncclFloat32, 4, 'f', 0, 0, false},
    {"float64", ncclFloat64, 8, 'f', 0, 0, false},
    {"bfloat16", ncclBfloat16, 2, 's', 8, 7, false},
    {"float8e4m3", ncclFloat8e4m3, 1, 's', 4, 3, true},
    {"float8e5m2", ncclFloat8e5m2, 1, 's', 5, 2, false},
};

std::ostream& operator<<(std::ostream& out, const Format& format) { return out << format.name; }

// A small float, implemented by enumeration: lists all finite non-negative values in order, and rounds by searching the
// list.
class SmallFloats {
 public:
  explicit SmallFloats(const Format& format) : format_(format) {
    const int bias = (1 << (format.exponent - 1)) - 1;
    const int codes = 1 << (format.exponent + format.mantissa);
    for (int code = 0; code < codes; ++code) {
      const int exponent = code >> format.mantissa;
      const int mantissa = code & ((1 << format.mantissa) - 1);
      if (format.finite ? code == codes - 1 : exponent == (1 << format.exponent) - 1) {
        break;
      }
      const double fraction = static_cast<double>(mantissa) / (1 << format.mantissa);
      values_.push_back(exponent == 0 ? fraction * std::pow(2.0, 1 - bias)
                                      : (1 + fraction) * std::pow(2.0, exponent - bias));
    }
  }
  double Value(unsigned code) const {
    const unsigned sign = 1u << (format_.exponent + format_.mantissa);
    const double size = values_[code & (sign - 1)];
    return code & sign ? -size : size;
  }
  // Rounds to nearest, ties to the even code. The tests stay below the largest value.
  unsigned Code(double value) const {
    const double size = std::fabs(value);
    const auto above = std::lower_bound(values_.begin(), values_.end(), size);
    auto code = static_cast<size_t>(above - values_.begin());
    if (code == values_.size()) {
      --code;
    } else if (code > 0) {
      const double up = values_[code] - size;
      const double down = size - values_[code - 1];
      if (down < up || (down == up && code % 2 == 1)) {
        --code;
      }
    }
    const unsigned sign = std::signbit(value) ? 1u << (format_.exponent + format_.mantissa) : 0;
    return static_cast<unsigned>(code) | sign;
  }

 private:
  const Format format_;
  std::vector<double> values_;
};

using Bytes = std::vector<unsigned char>;

// Returns small values, so that no sum or product leaves the smallest format's range. The values have fractions if the
// format can represent them.
Bytes Input(const Format& format, int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) * 1000 + static_cast<unsigned>(format.type));
  Bytes bytes(count * format.bytes);
  const SmallFloats* small = nullptr;
  std::unique_ptr<SmallFloats> own;
  if (format.kind == 's') {
    own = std::make_unique<SmallFloats>(format);
    small = own.get();
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t whole = static_cast<int64_t>(random() % 4) - (format.kind == 'u' ? 0 : 1);
    const double fraction = static_cast<double>(random() % 64) / 64.0;
    unsigned char* at = bytes.data() + i * format.bytes;
    if (format.kind == 'i' || format.kind == 'u') {
      memcpy(at, &whole, format.bytes);
    } else if (format.type == ncclFloat32) {
      const auto value = static_cast<float>(static_cast<double>(whole) + fraction / 3);
      memcpy(at, &value, 4);
    } else if (format.type == ncclFloat64) {
      const double value = static_cast<double>(whole) + fraction / 3;
      memcpy(at, &value, 8);
    } else {
      const unsigned code = small->Code(static_cast<double>(whole) + fraction);
      memcpy(at, &code, format.bytes);
    }
  }
  return bytes;
}

enum class Op { kSum, kProd, kMax, kMin, kAvg, kPreMulSum };
constexpr std::pair<Op, const char*> kOps[] = {{Op::kSum, "sum"}, {Op::kProd, "prod"}, {Op::kMax, "max"},
                                               {Op::kMin, "min"}, {Op::kAvg, "avg"},   {Op::kPreMulSum, "premulsum"}};

template <class T>
T Combine(Op op, T a, T b) {
  switch (op) {
    case Op::kProd: return static_cast<T>(a * b);
    case Op::kMax: return a > b ? a : b;
    case Op::kMin: return a < b ? a : b;
    default: return static_cast<T>(a + b);
  }
}

// PreMulSum multiplies the input of rank r by r + 1.
template <class T, class Load, class Store>
void Serial(const std::vector<Bytes>& inputs, size_t width, Op op, Bytes* out, Load load, Store store) {
  const size_t count = inputs[0].size() / width;
  for (size_t i = 0; i < count; ++i) {
    T sum{};
    for (size_t r = 0; r < inputs.size(); ++r) {
      T value = load(inputs[r].data() + i * width);
      if (op == Op::kPreMulSum) {
        Bytes scaled(width);
        store(static_cast<T>(value * static_cast<T>(r + 1)), scaled.data());
        value = load(scaled.data());
      }
      sum = r == 0 ? value : Combine(op, sum, value);
    }
    if (op == Op::kAvg) {
      sum = static_cast<T>(sum / static_cast<T>(inputs.size()));
    }
    store(sum, out->data() + i * width);
  }
}

Bytes Expected(const Format& format, Op op, const std::vector<Bytes>& inputs) {
  Bytes out(inputs[0].size());
  const auto plain = [&]<class T>(T) {
    Serial<T>(
        inputs, sizeof(T), op, &out,
        [](const unsigned char* at) {
          T value;
          memcpy(&value, at, sizeof value);
          return value;
        },
        [](T value, unsigned char* at) { memcpy(at, &value, sizeof value); });
  };
  switch (format.type) {
    case ncclInt8: plain(int8_t{}); break;
    case ncclUint8: plain(uint8_t{}); break;
    case ncclInt32: plain(int32_t{}); break;
    case ncclUint32: plain(uint32_t{}); break;
    case ncclInt64: plain(int64_t{}); break;
    case ncclUint64: plain(uint64_t{}); break;
    case ncclFloat32: plain(float{}); break;
    case ncclFloat64: plain(double{}); break;
    default: {
      const SmallFloats small(format);
      Serial<float>(
          inputs, format.bytes, op, &out,
          [&](const unsigned char* at) {
            unsigned code = 0;
            memcpy(&code, at, format.bytes);
            return static_cast<float>(small.Value(code));
          },
          [&](float value, unsigned char* at) {
            const unsigned code = small.Code(value);
            memcpy(at, &code, format.bytes);
          });
    }
  }
  return out;
}

ncclRedOp_t Handle(Op op, const Format& format, int rank, ncclComm_t comm) {
  if (op != Op::kPreMulSum) {
    return static_cast<ncclRedOp_t>(op);
  }
  unsigned char scalar[8] = {};
  const int64_t whole = rank + 1;
  const auto real = static_cast<float>(whole);
  const auto wide = static_cast<double>(whole);
  if (format.kind == 'i' || format.kind == 'u') {
    memcpy(scalar, &whole, 8);
  } else if (format.type == ncclFloat32) {
    memcpy(scalar, &real, 4);
  } else if (format.type == ncclFloat64) {
    memcpy(scalar, &wide, 8);
  } else {
    const unsigned code = SmallFloats(format).Code(wide);
    memcpy(scalar, &code, format.bytes);
  }
  ncclRedOp_t made = ncclSum;
  if (rank % 2 == 0) {
    RANK_NCCL(ncclRedOpCreatePreMulSum(&made, scalar, format.type, ncclScalarHostImmediate, comm));
  } else {
    void* device = ToDevice(Bytes(scalar, scalar + 8));
    RANK_NCCL(ncclRedOpCreatePreMulSum(&made, device, format.type, ncclScalarDevice, comm));
  }
  return made;
}

Bytes Block(const Bytes& bytes, size_t index, size_t width) {
  return Bytes(bytes.begin() + static_cast<ptrdiff_t>(index * width),
               bytes.begin() + static_cast<ptrdiff_t>((index + 1) * width));
}

class Results : public testing::TestWithParam<Format> {};

TEST_P(Results, EveryReductionEqualsASerialOne) {
  const Format& format = GetParam();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    Rank me(id, kRanks, rank);
    const size_t block = kCount * format.bytes;
    std::vector<Bytes> inputs;  // kRanks blocks for each rank
    for (int r = 0; r < kRanks; ++r) {
      inputs.push_back(Input(format, r, kCount * kRanks));
    }
    const size_t own = static_cast<size_t>(rank);
    for (const auto& [op, name] : kOps) {
      const ncclRedOp_t handle = Handle(op, format, rank, me.comm);
      const Bytes expected = Expected(format, op, inputs);
      unsigned char* send = ToDevice(inputs[own]);
      unsigned char* recv = ToDevice(Bytes(block * kRanks, 0xee));
      RANK_NCCL(ncclAllReduce(send, recv, kCount * kRanks, format.type, handle, me.comm, me.stream));
      RANK_CUDA(cudaStreamSynchronize(me.stream));
      RANK_CHECK(ToHost(recv, block * kRanks) == expected);
      RANK_NCCL(ncclReduceScatter(send, recv, kCount, format.type, handle, me.comm, me.stream));
      RANK_CUDA(cudaStreamSynchronize(me.stream));
      RANK_CHECK(ToHost(recv, block) == Block(expected, own, block));
      RANK_NCCL(ncclReduce(send, recv, kCount * kRanks, format.type, handle, 1, me.comm, me.stream));
      RANK_CUDA(cudaStreamSynchronize(me.stream));
      RANK_CHECK(rank != 1 || ToHost(recv, block * kRanks) == expected);
      RANK_NCCL(ncclAllReduce(send, send, kCount * kRanks, format.type, handle, me.comm, me.stream));
      RANK_CUDA(cudaStreamSynchronize(me.stream));
      RANK_CHECK(ToHost(send, block * kRanks) == expected);
      RANK_CUDA(cudaFree(send));
      RANK_CUDA(cudaFree(recv));
      if (op == Op::kPreMulSum) {
        RANK_NCCL(ncclRedOpDestroy(handle, me.comm));
        RANK_CHECK(ncclAllReduce(nullptr, nullptr, 1, format.type, handle, me.comm, me.stream) == ncclInvalidArgument);
      }
    }
    RANK_NCCL(ncclCommDestroy(me.comm));
  });
  EXPECT_EQ(statuses, AllWell(kRanks));
}

TEST_P(Results, DataArrivesAtTheRightPlace) {
  const Format& format = GetParam();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    Rank me(id, kRanks, rank);
    const size_t block = kCount * format.bytes;
    std::vector<Bytes> inputs;
    for (int r = 0; r < kRanks; ++r) {
      inputs.push_back(Input(format, r, kCount * kRanks));
    }
    const size_t own = static_cast<size_t>(rank);
    unsigned char* send = ToDevice(inputs[own]);
    unsigned char* recv = ToDevice(Bytes(block * kRanks, 0xee));
    const auto joined = [&](auto part) {
      Bytes all;
      for (size_t r = 0; r < kRanks; ++r) {
        const Bytes piece = part(r);
        all.insert(all.end(), piece.begin(), piece.end());
      }
      return all;
    };
    RANK_NCCL(ncclAllGather(send, recv, kCount, format.type, me.comm, me.stream));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    const Bytes gathered = joined([&](size_t r) { return Block(inputs[r], 0, block); });
    RANK_CHECK(ToHost(recv, block * kRanks) == gathered);
    RANK_NCCL(ncclAlltoAll(send, recv, kCount, format.type, me.comm, me.stream));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(ToHost(recv, block * kRanks) == joined([&](size_t r) { return Block(inputs[r], own, block); }));
    RANK_NCCL(ncclGather(send, recv, kCount, format.type, 2, me.comm, me.stream));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(rank != 2 || ToHost(recv, block * kRanks) == gathered);
    RANK_NCCL(ncclScatter(send, recv, kCount, format.type, 3, me.comm, me.stream));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(ToHost(recv, block) == Block(inputs[3], own, block));
    RANK_NCCL(ncclBroadcast(send, recv, kCount * kRanks, format.type, 1, me.comm, me.stream));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(ToHost(recv, block * kRanks) == inputs[1]);
    RANK_NCCL(ncclBcast(send, kCount * kRanks, format.type, 3, me.comm, me.stream));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(ToHost(send, block * kRanks) == inputs[3]);
    RANK_NCCL(ncclCommDestroy(me.comm));
  });
  EXPECT_EQ(statuses, AllWell(kRanks));
}

INSTANTIATE_TEST_SUITE_P(Types, Results, testing::ValuesIn(kFormats),
                         [](const testing::TestParamInfo<Format>& info) { return std::string(info.param.name); });

TEST(PreMulSum, HandlesAreSpecificToACommunicator) {
  const auto statuses = RunRanks(1, [](int) {
    ncclComm_t comms[2];
    RANK_NCCL(ncclCommInitAll(comms, 2, nullptr));
    float scalar = 2;
    ncclRedOp_t ops[2];
    for (int i = 0; i < 2; ++i) {
      RANK_NCCL(ncclRedOpCreatePreMulSum(&ops[i], &scalar, ncclFloat, ncclScalarHostImmediate, comms[i]));
      RANK_CHECK(ops[i] >= ncclNumOps);
    }
    RANK_CHECK(ops[0] != ops[1]);
    RANK_CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ops[0], comms[1], nullptr) == ncclInvalidArgument);
  });
  EXPECT_EQ(statuses, AllWell(1));
}

}  // namespace
}  // namespace standin_test
