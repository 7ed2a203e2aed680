#include "tests/standin/nccl/reduce.h"

#include "tests/standin/nccl/level.h"

#include <string.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace standin {

namespace {

// A small float: one sign bit, then `kExponent` and `kMantissa` bits. kFinite: there is no infinity, and only the
// topmost code is NaN (e4m3). kSaturate: too large values become the largest finite value (both 8-bit types).
template <int kExponent, int kMantissa, bool kFinite, bool kSaturate>
struct SmallFloat {
  using Bits = std::conditional_t<kExponent + kMantissa == 7, uint8_t, uint16_t>;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kTop = (1 << kExponent) - 1;
  static constexpr uint32_t kNan = kFinite ? (1u << (kExponent + kMantissa)) - 1
                                           : (static_cast<uint32_t>(kTop) << kMantissa) | (1u << (kMantissa - 1));
  static constexpr uint32_t kLargest = kFinite ? kNan - 1 : (static_cast<uint32_t>(kTop) << kMantissa) - 1;
  Bits bits;

  float Decode() const {
    const uint32_t code = bits;
    const bool negative = (code >> (kExponent + kMantissa)) != 0;
    const auto exponent = static_cast<int>((code >> kMantissa) & static_cast<uint32_t>(kTop));
    const uint32_t mantissa = code & ((1u << kMantissa) - 1);
    float value = 0;
    if (kFinite ? (code & kNan) == kNan : exponent == kTop && mantissa != 0) {
      value = std::numeric_limits<float>::quiet_NaN();
    } else if (!kFinite && exponent == kTop) {
      value = std::numeric_limits<float>::infinity();
    } else if (exponent == 0) {
      value = std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa);
    } else {
      value = std::ldexp(static_cast<float>(mantissa | (1u << kMantissa)), exponent - kBias - kMantissa);
    }
    return negative ? -value : value;
  }

  static SmallFloat Encode(double value) {
    const uint32_t sign = std::signbit(value) ? 1u << (kExponent + kMantissa) : 0;
    const double size = std::fabs(value);
    uint32_t code = 0;
    if (std::isnan(value)) {
      code = kNan;
    } else if (std::isinf(size)) {
      code = kSaturate ? kLargest : static_cast<uint32_t>(kTop) << kMantissa;
    } else if (size != 0) {
      int exponent = 0;
      std::frexp(size, &exponent);
      // The unit in the last place. Below the smallest normal number, it is the unit of the subnormal numbers.
      const int unit = std::max(exponent - 1, 1 - kBias) - kMantissa;
      const double steps = std::nearbyint(std::ldexp(size, -unit));
      // Rounding up past the mantissa carries into the exponent.
      const double wide = steps + static_cast<double>(unit + kMantissa + kBias - 1) * (1 << kMantissa);
      const double limit = kLargest;
      code = wide <= limit ? static_cast<uint32_t>(wide)
                           : (kSaturate ? kLargest : static_cast<uint32_t>(kTop) << kMantissa);
    }
    return {static_cast<Bits>(sign | code)};
  }
};

using Half = SmallFloat<5, 10, false, false>;
using Bfloat = SmallFloat<8, 7, false, false>;
using E4m3 = SmallFloat<4, 3, true, true>;
using E5m2 = SmallFloat<5, 2, false, true>;

template <class T>
struct Traits {
  using Sum = T;
  static Sum Load(T value) { return value; }
  static T Store(Sum value) { return value; }
};
template <int kE, int kM, bool kF, bool kS>
struct Traits<SmallFloat<kE, kM, kF, kS>> {
  using Sum = float;
  static float Load(SmallFloat<kE, kM, kF, kS> value) { return value.Decode(); }
  static SmallFloat<kE, kM, kF, kS> Store(float value) { return SmallFloat<kE, kM, kF, kS>::Encode(value); }
};

// Calls `visit` with a value of the datatype's C++ type.
template <class F>
void WithType(ncclDataType_t type, F visit) {
  switch (type) {
    case ncclInt8: return visit(int8_t{});
    case ncclUint8: return visit(uint8_t{});
    case ncclInt32: return visit(int32_t{});
    case ncclUint32: return visit(uint32_t{});
    case ncclInt64: return visit(int64_t{});
    case ncclUint64: return visit(uint64_t{});
    case ncclFloat16: return visit(Half{});
    case ncclFloat32: return visit(float{});
    case ncclFloat64: return visit(double{});
    case ncclBfloat16: return visit(Bfloat{});
    case ncclFloat8e4m3: return visit(E4m3{});
    case ncclFloat8e5m2: return visit(E5m2{});
    default: return;
  }
}

// Integers wrap around, without signed overflow.
template <class T>
T Plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
// The type is wide enough for any number of ranks.
template <class T>
auto Divisor(int nranks) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    return static_cast<int64_t>(nranks);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(nranks);
  } else {
    return static_cast<T>(nranks);
  }
}
template <class T>
T Times(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

}  // namespace

size_t TypeBytes(ncclDataType_t type) {
  static constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 1};
  const auto index = static_cast<unsigned>(type);
  return index < static_cast<unsigned>(kDatatypes) ? kBytes[index] : 0;
}

void Accumulator::Add(const void* data, size_t count) {
  WithType(type_, [&]<class T>(T) {
    using Sum = typename Traits<T>::Sum;
    const auto* in = static_cast<const T*>(data);
    auto* sum = reinterpret_cast<Sum*>(sum_);
    if (empty_) {
      for (size_t i = 0; i < count; ++i) {
        sum[i] = Traits<T>::Load(in[i]);
      }
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      const Sum value = Traits<T>::Load(in[i]);
      switch (op_) {
        case ncclProd: sum[i] = Times(sum[i], value); break;
        case ncclMax: sum[i] = std::max(sum[i], value); break;
        case ncclMin: sum[i] = std::min(sum[i], value); break;
        default: sum[i] = Plus(sum[i], value); break;
      }
    }
  });
  empty_ = false;
}

void Accumulator::Finish(void* out, size_t count, int nranks) {
  WithType(type_, [&]<class T>(T) {
    using Sum = typename Traits<T>::Sum;
    auto* sum = reinterpret_cast<Sum*>(sum_);
    auto* result = static_cast<T*>(out);
    for (size_t i = 0; i < count; ++i) {
      result[i] = Traits<T>::Store(op_ == ncclAvg ? static_cast<Sum>(sum[i] / Divisor<Sum>(nranks)) : sum[i]);
    }
  });
  empty_ = true;
}

void Multiply(ncclDataType_t type, void* to, const void* from, size_t count, const void* scalar) {
  WithType(type, [&]<class T>(T) {
    T factor;
    memcpy(&factor, scalar, sizeof factor);
    const auto* in = static_cast<const T*>(from);
    auto* out = static_cast<T*>(to);
    for (size_t i = 0; i < count; ++i) {
      out[i] = Traits<T>::Store(Times(Traits<T>::Load(in[i]), Traits<T>::Load(factor)));
    }
  });
}

}  // namespace standin
