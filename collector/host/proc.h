// Facts from /proc about processes. Every result is a snapshot: the process may be gone a moment later.
#ifndef LOCKSTEP_COLLECTOR_HOST_PROC_H_
#define LOCKSTEP_COLLECTOR_HOST_PROC_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/util/clock.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"

namespace lockstep {

// How another's child ended, as waitpid returns it: from /proc while it is a zombie, from its pidfd (Linux 6.15 and
// later) after it was reaped.
std::optional<int> ReadWaitStatus(pid_t pid, int pidfd);

// CPU and I/O used so far by a process and its descendants.
struct Activity {
  bool valid = false;
  bool running = false;  // a descendant runs, or waits for a core
  int64_t mono_ns = 0;
  int64_t cpu_ns = 0;
  int64_t io_bytes = 0;  // read and written, and page faults of mapped files; -1: unreadable
};

// Parents and children of all processes at one moment. Reading it costs one small file a process.
class ProcessTree {
 public:
  static ProcessTree Read();
  // All descendants of `root`, without it; parents come before children.
  std::vector<pid_t> Below(pid_t root) const;

 private:
  std::multimap<pid_t, pid_t> children_;
};
std::vector<pid_t> Descendants(pid_t root);

Activity ReadActivity(pid_t pid, const ProcessTree& tree);
Activity ReadActivity(pid_t pid);

// First line of /proc/PID/wchan; empty if it is unreadable or the process runs.
std::string ReadWchan(pid_t pid);
// Kernel frames (if readable) or the system call of the process's main thread, innermost first.
std::vector<std::string> ReadKernelStack(pid_t pid);

// Threads of a process in uninterruptible sleep, and the kernel function of the first (empty: hidden). Examines at most
// 1,024 threads.
struct SleepingThreads {
  uint32_t count = 0;
  uint32_t running = 0;  // threads that run, or wait for a core
  std::string wchan;
};
SleepingThreads ReadThreadsInD(pid_t pid);
// Files on disk that are open for writing, at most `limit`, of its first 1,024 descriptors. Asks the kernel for names
// and flags only, never for the files themselves: access to one on a dead server would never return.
std::vector<std::string> ReadWrittenFiles(pid_t pid, size_t limit = 32);

// Whether the process has mapped a file whose name starts with `prefix` ("libnccl"); nullopt: unreadable maps.
struct Mapped {
  bool lockstep = false;
  bool nccl = false;
  bool dynamic = false;  // a dynamic loader is mapped
};
std::optional<Mapped> ReadMapped(pid_t pid, const std::string& library);
// Value of NAME in the process's initial environment; nullopt: unset or unreadable.
std::optional<std::string> ReadEnvironment(pid_t pid, const std::string& name);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_HOST_PROC_H_
