// Queries the recorder's own thread in a process (LOCKSTEP_HELPER=on, recorder/core/helper.h) through the process's
// ring file. The thread returns memory and a few files of /proc that the system refuses. The ring file is untrusted: it
// is not mapped for reading, and answers are trusted no more than the process's memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/util/unique_fd.h"
#include "recorder/ring/layout.h"

namespace lockstep {

class ProcessHelper {
 public:
  // `ring` is the descriptor of the ring file, which is not owned; it is reopened for writing. Returns null if the
  // process has no such thread, if access is refused, or if another program uses the thread for longer than `limit_ns`.
  // *why has the reason (empty if the process was started without the thread).
  static std::unique_ptr<ProcessHelper> Open(int ring, int64_t limit_ns, std::string* why);
  ~ProcessHelper();

  // Like process_vm_readv: reads as much as is readable from the start, or returns -1 and sets errno. After half a
  // second without an answer, the thread is not used again (ETIMEDOUT).
  ssize_t Memory(uint64_t address, void* out, size_t size) const;
  std::string Maps() const;
  // `thread` is the process's own number for the thread.
  std::string Wchan(pid_t thread) const;
  std::string Syscall(pid_t thread) const;

 private:
  ProcessHelper() = default;
  int64_t Ask(ring::HelperQuestion question, uint64_t address, uint64_t length, pid_t thread, void* out) const;

  UniqueFd fd_;
  uint64_t place_ = 0;
  void* map_ = nullptr;  // first page of the helper's area; only for futexes, never read or written here
  mutable bool dead_ = false;
};

}  // namespace lockstep
