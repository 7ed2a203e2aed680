// A value that most owners never set. Until it is set, it is as small as a pointer.
#pragma once

#include <memory>
#include <utility>

namespace lockstep {

// Reads as T() until it is set. Owns its value; copies are deep. As safe to share between threads as T.
template <typename T>
class Boxed {
 public:
  Boxed() = default;
  Boxed(const Boxed& other) : value_(other.value_ == nullptr ? nullptr : std::make_unique<T>(*other.value_)) {}
  Boxed(Boxed&&) noexcept = default;
  Boxed& operator=(const Boxed& other) {
    if (this != &other) value_ = other.value_ == nullptr ? nullptr : std::make_unique<T>(*other.value_);
    return *this;
  }
  Boxed& operator=(Boxed&&) noexcept = default;
  Boxed& operator=(T value) {
    value_ = std::make_unique<T>(std::move(value));
    return *this;
  }

  const T& operator*() const { return value_ == nullptr ? Nothing() : *value_; }
  const T* operator->() const { return &**this; }
  // For writing; allocates on first use.
  T& Mutable() {
    if (value_ == nullptr) value_ = std::make_unique<T>();
    return *value_;
  }
  void Clear() { value_.reset(); }

 private:
  static const T& Nothing() {
    static const T nothing;
    return nothing;
  }

  std::unique_ptr<T> value_;
};

}  // namespace lockstep
