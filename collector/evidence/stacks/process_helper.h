// Asks the recorder's own thread in a process (LOCKSTEP_HELPER=on, recorder/core/helper.h) through the process's ring
// file for memory and a few files of /proc, if the system refuses them to us. The file is not trusted: it is not mapped
// for reading, and its answers count no more than the process's memory.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PROCESS_HELPER_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PROCESS_HELPER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/util/unique_fd.h"
#include "recorder/ring/layout.h"

namespace lockstep {

class ProcessHelper {
 public:
  // `ring`: descriptor of the ring file, not taken over; it is opened again for writing. Null: the process has no such
  // thread, or access is refused, or another program asks for longer than `limit_ns`; *why has the reason (empty: it
  // was started without one).
  static std::unique_ptr<ProcessHelper> Open(int ring, int64_t limit_ns, std::string* why);
  ~ProcessHelper();
  ProcessHelper(const ProcessHelper&) = delete;
  ProcessHelper& operator=(const ProcessHelper&) = delete;

  // Like process_vm_readv: as much as is readable from the start; -1 and errno. After half a second without an answer
  // the thread is not asked again (ETIMEDOUT).
  ssize_t Memory(uint64_t address, void* out, size_t size) const;
  std::string Maps() const;
  // `thread` as the process numbers it.
  std::string Wchan(pid_t thread) const;
  std::string Syscall(pid_t thread) const;

 private:
  ProcessHelper() = default;
  int64_t Ask(ring::HelperQuestion question, uint64_t address, uint64_t length, pid_t thread, void* out) const;

  UniqueFd fd_;
  uint64_t place_ = 0;
  void* map_ = nullptr;  // the first page, only for the futexes: never read or written here
  mutable bool dead_ = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PROCESS_HELPER_H_
