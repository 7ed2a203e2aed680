// Facts about processes from /proc. Every result is a snapshot: the process may exit a moment later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/util/clock.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"

namespace lockstep {

struct Process;

// Returns how another process's child ended, as waitpid does. /proc shows it while the child is a zombie; after that,
// its pidfd does (Linux 6.15 and later). Returns nullopt if neither does.
std::optional<int> ReadWaitStatus(pid_t pid, int pidfd);
// Sets how the process ended, but not when, from a waitpid status; -1 if unknown.
void SetEnd(int wait_status, Process* process);

// CPU and I/O that a process and its descendants have used so far.
struct Activity {
  bool valid = false;
  bool running = false;  // a descendant is running, or waits for a core
  int64_t mono_ns = 0;
  int64_t cpu_ns = 0;
  int64_t io_bytes = 0;  // bytes read and written, and page faults of mapped files; -1 if unreadable
};

// Parents and children of all processes at one moment. Reads one small file per process.
class ProcessTree {
 public:
  static ProcessTree Read();
  // Returns all descendants of `root`, without `root`; parents precede children.
  std::vector<pid_t> Below(pid_t root) const;

 private:
  std::multimap<pid_t, pid_t> children_;
};
std::vector<pid_t> Descendants(pid_t root);

Activity ReadActivity(pid_t pid, const ProcessTree& tree);
Activity ReadActivity(pid_t pid);

// Returns the first line of /proc/PID/wchan; empty if it is unreadable or the process is running.
std::string ReadWchan(pid_t pid);
// Returns the functions in the file "stack" of a process's or thread's folder in /proc, innermost first:
// "hrtimer_nanosleep+0x8d/0x120". Empty without the permission.
std::vector<std::string> ReadKernelFrames(const std::string& folder);
// Returns the kernel frames (if readable) or the system call of the process's main thread, innermost first.
std::vector<std::string> ReadKernelStack(pid_t pid);

// Threads of a process in uninterruptible sleep, and the kernel function of the first one (empty if hidden). Examines
// at most 1,024 threads.
struct SleepingThreads {
  uint32_t count = 0;
  uint32_t running = 0;  // threads that are running, or wait for a core
  std::string wchan;
};
SleepingThreads ReadThreadsInD(pid_t pid);
// Files on disk that are open for writing, at most `limit`, among the process's first 1,024 descriptors, without its
// standard streams; and the mount of each: "/mnt/lustre (lustre)", as the process sees it; empty if unknown. Asks the
// kernel only for names, flags and mount numbers, because accessing a file on a dead server would never return.
struct WrittenFiles {
  std::vector<std::string> paths, mounts;
};
WrittenFiles ReadWrittenFiles(pid_t pid, size_t limit = 32);
// Returns the mounts in a /proc/PID/mountinfo, by number.
std::map<int64_t, std::string> ParseMounts(std::string_view mountinfo);

// Which files the process has mapped; nullopt if its maps are unreadable. `library` is the path of liblockstep.so.
struct Mapped {
  bool lockstep = false;
  bool nccl = false;
  bool torch = false;
  bool gpu = false;      // the process uses a GPU
  bool dynamic = false;  // a dynamic loader or libc is mapped
  bool ring = false;     // the recorder writes a ring
};
std::optional<Mapped> ReadMapped(pid_t pid, const std::string& library);
// Returns the value of NAME in the process's initial environment; nullopt if unset or unreadable.
std::optional<std::string> ReadEnvironment(pid_t pid, const std::string& name);

}  // namespace lockstep
