// Memory of another process. The contents are hostile.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_REMOTE_MEMORY_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_REMOTE_MEMORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace lockstep {

class ProcessHelper;

class RemoteMemory {
 public:
  virtual ~RemoteMemory() = default;
  // All `size` bytes, or false with useless contents of `out`.
  virtual bool Read(uint64_t address, void* out, size_t size) const = 0;

  template <typename T>
  bool Get(uint64_t address, T* out) const {
    return Read(address, out, sizeof(T));
  }
};

// By process_vm_readv: takes no lock of the process and does not stop it. Needs the rights of ptrace; if they are
// refused, asks the recorder's helper in the process, if there is one.
class ProcessMemory : public RemoteMemory {
 public:
  // `helper` may be null, and must outlive it.
  explicit ProcessMemory(pid_t pid, const ProcessHelper* helper = nullptr) : pid_(pid), helper_(helper) {}
  bool Read(uint64_t address, void* out, size_t size) const override;
  // As much as is readable from the start; -1 and errno if nothing is.
  ssize_t ReadSome(uint64_t address, void* out, size_t size) const;

 private:
  const pid_t pid_;
  const ProcessHelper* const helper_;
  mutable bool refused_ = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_REMOTE_MEMORY_H_
