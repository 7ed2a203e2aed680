#include "collector/agent/saved_ring.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

// Returns a part of a saved ring's name, without dots, because dots separate the parts.
std::string NamePart(const std::string& text, size_t most) {
  return text.empty() ? "_" : absl::StrReplaceAll(FileNameFrom(text, most), {{".", "_"}});
}

}  // namespace

std::string SavedRingName(uid_t user, pid_t pid, int32_t rank, const ring::ProcessInfo& info, const Process& process) {
  const std::string end = process.life == Life::kKilled   ? absl::StrCat("k", process.signal)
                          : process.life == Life::kExited ? absl::StrCat("x", process.exit_code)
                                                          : "g0";
  return absl::StrCat(user, "-", NamePart(info.job, 60), ".", NamePart(info.step, 20), ".", info.restart_count, ".r",
                      rank, ".", pid, "-", info.start_ticks, ".", end, "-", process.ended_mono_ns, ".ring");
}

void ReadSavedRingName(const std::string& name, uid_t* user, pid_t* pid, Process* process) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  if (parts.size() != 7 || parts[5].size() < 2) return;
  const std::vector<std::string> end = absl::StrSplit(parts[5].substr(1), '-');
  int number = 0;
  if (end.size() == 2 && absl::SimpleAtoi(end[0], &number) && absl::SimpleAtoi(end[1], &process->ended_mono_ns)) {
    process->life = parts[5][0] == 'k' ? Life::kKilled : parts[5][0] == 'x' ? Life::kExited : Life::kGone;
    (parts[5][0] == 'k' ? process->signal : process->exit_code) = number;
  }
  // The agent owns the copy, so the name starts with the UID of the ring's owner.
  uint32_t uid = 0;
  if (const size_t dash = parts[0].find('-');
      dash != std::string::npos && absl::SimpleAtoi(parts[0].substr(0, dash), &uid))
    *user = uid;
  if (!absl::SimpleAtoi(parts[4].substr(0, parts[4].find('-')), pid)) *pid = 0;
}

}  // namespace lockstep
