#include "analyzer/formats/ring/format_reader.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/ring/loader.h"
#include "analyzer/formats/ring/runs.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/system.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

// Returns what this host knows about the process that wrote a ring. Empty unless the ring was recorded on this host and
// in this PID namespace.
Process LookFor(const ring::ProcessInfo& info) {
  Process process;
  if (BootId().empty() || info.boot_id.empty() || info.pid <= 0) return process;
  if (BootId() != info.boot_id) {
    // This host has rebooted since the recording.
    if (info.host == HostName()) process.life = Life::kGone;
    return process;
  }
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) != 0 ||
      (info.pid_namespace_inode != 0 && info.pid_namespace_inode != space.st_ino))
    return process;
  const std::optional<ProcStat> now = ReadProcStat(info.pid);
  if (!now || now->start_ticks != info.start_ticks || now->ended()) {
    process.life = Life::kGone;
  } else {
    process.life = Life::kRunning;
    process.state = std::string(1, now->state);
  }
  return process;
}

}  // namespace

bool IsRing(std::string_view head) { return ring::LooksLikeRing(head.data(), head.size()); }

void ReadRings(const std::vector<std::string>& paths, const ReadControl& control, Records* records) {
  std::vector<RingInput> rings;
  for (const std::string& path : paths) {
    if (control.Cancelled()) return;
    const UniqueFd file = OpenToRead(path);
    RingInput input;
    std::string error;
    if (!file.ok()) {
      records->problems.push_back({path, -1, absl::StrCat("cannot be read: ", strerror(errno)), -1});
    } else if (!ring::ReadRing(file.get(), {}, &input.snapshot, &error)) {
      records->problems.push_back({path, -1, CleanUtf8(error, 512), -1});
    } else {
      input.path = path;
      input.process = LookFor(input.snapshot.process);
      rings.push_back(std::move(input));
    }
    control.Done(1);
  }
  NameRuns(&rings);
  AddRings(std::move(rings), &records->library);
}

}  // namespace lockstep
