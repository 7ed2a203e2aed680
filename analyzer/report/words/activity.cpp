#include "analyzer/report/words/activity.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/report/words/commands.h"

namespace lockstep {
namespace {

// Returns whether the stack shows a PyTorch data loader without worker processes.
bool LoadsItself(const Finding& finding) {
  return std::ranges::any_of(finding.evidence(), [](const Evidence& evidence) {
    return std::ranges::any_of(evidence.frames(), [](const Frame& frame) {
      return absl::StrContains(frame.function(), "_SingleProcessDataLoaderIter");
    });
  });
}

// Returns " /ckpt" of "/ckpt (nfs4)"; empty if the mount is unknown or a shell would need quotes.
std::string PathOf(std::string_view mount) {
  const std::string_view path = mount.substr(0, mount.rfind(" ("));
  const bool plain = std::ranges::all_of(
      path, [](unsigned char c) { return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-'; });
  return path.starts_with('/') && plain ? absl::StrCat(" ", std::string(path)) : "";
}

}  // namespace

std::vector<std::string> ActivityAdvice(const Finding& finding) {
  const std::string& activity = finding.activity();
  const bool still = finding.moving() == "not moving";
  if ((activity == "checkpoint" || activity == "storage") && finding.activity_hosts() > 1) {
    return {
        "Check the file servers: several hosts wait for this file system.",
        absl::StrCat(still ? "If they stay like this, restart" : "If the ranks make progress, wait. If not, restart",
                     " from the previous checkpoint and save to another file system. Do not drain a host for "
                     "this.")};
  }
  if (activity == "checkpoint") {
    return {Step("Check its file system",
                 HostCommand(finding, absl::StrCat("timeout 5 df -h", PathOf(finding.activity_mount())))),
            absl::StrCat(still ? "If it stays like this, restart" : "If the rank makes progress, wait. If not, restart",
                         " from the previous checkpoint and save to another file system.")};
  }
  if (activity == "storage") {
    return {Step("Check its mounts", HostCommand(finding, "'dmesg -T | tail; timeout 5 df -h'")),
            RestartStep(finding, "If all stalled ranks are on this host, restart")};
  }
  if (activity == "data loading" && LoadsItself(finding)) {
    return {"Find out what the data set waits for: a file? a download? a lock?",
            "Compare the sample that this rank is loading with the other ranks' samples."};
  }
  if (activity == "data loading") {
    return {Step("Check the data loader's workers", LookCommand(finding, "ps -l --ppid")),
            "Look for a worker that is dead, stuck, or out of shared memory (df -h /dev/shm).",
            "Compare the sample that this rank is loading with the other ranks' samples."};
  }
  if (activity == "compilation") {
    return {"If the rank makes progress, wait: compilation ends on its own.",
            "If ranks compile again in later steps, look for changing shapes, and share the compile cache."};
  }
  if (activity == "garbage collection") {
    return {"Call gc.disable(), and gc.collect() at the same step on all ranks.", "Or call gc.freeze() after start-up.",
            "Check whether the number of Python objects grows on this rank."};
  }
  if (activity == "interpreter lock") {
    return {Step("See who holds the lock", LookCommand(finding)),
            "It is a thread in native code that does not release the interpreter lock.",
            "Do not wait for a framework's dump of this process: writing one needs the same lock."};
  }
  if (activity == "rendezvous") {
    return {
        "Find the process that this rank waits for.",
        "That process must set the key, send the message or make the call.",
        "Check that all ranks of the group reach this line. Look for a branch that only some ranks take, or a group "
        "that only some ranks create."};
  }
  return {};
}

}  // namespace lockstep
