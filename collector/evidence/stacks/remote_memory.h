// Memory of another process. The contents are untrusted.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace lockstep {

class ProcessHelper;

class RemoteMemory {
 public:
  virtual ~RemoteMemory() = default;
  // Reads all `size` bytes, or returns false with undefined contents of `out`.
  virtual bool Read(uint64_t address, void* out, size_t size) const = 0;

  template <typename T>
  bool Get(uint64_t address, T* out) const {
    return Read(address, out, sizeof(T));
  }
};

// Uses process_vm_readv, which takes no lock of the process and does not stop it. Needs ptrace permission. If that is
// refused, uses the recorder's helper in the process, if there is one.
class ProcessMemory : public RemoteMemory {
 public:
  // `helper` may be null, and must outlive this object.
  explicit ProcessMemory(pid_t pid, const ProcessHelper* helper = nullptr) : pid_(pid), helper_(helper) {}
  bool Read(uint64_t address, void* out, size_t size) const override;
  // Reads as much as is readable from the start; returns -1 and sets errno if nothing is.
  ssize_t ReadSome(uint64_t address, void* out, size_t size) const;

 private:
  const pid_t pid_;
  const ProcessHelper* const helper_;
  mutable bool refused_ = false;
};

}  // namespace lockstep
