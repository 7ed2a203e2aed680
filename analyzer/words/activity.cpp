#include "analyzer/words/activity.h"

#include "analyzer/words/commands.h"

namespace lockstep {

std::vector<std::string> ActivityAdvice(const Finding& finding) {
  const std::string& activity = finding.activity();
  if ((activity == "checkpoint" || activity == "storage") && finding.activity_hosts() > 1) {
    return {
        "Look at the file system itself: its servers, quota, and the network to it; several hosts wait for it at once.",
        "If it makes progress, wait. If not, write the checkpoint elsewhere and restart from the previous one. Do not "
        "drain a host for it."};
  }
  if (activity == "checkpoint") {
    return {Step("Look at the file system that the checkpoint goes to, from this host: is it full, is its server down?",
                 HostCommand(finding, "df -h")),
            "If it makes progress, wait. If not, write the checkpoint elsewhere and restart from the previous one."};
  }
  if (activity == "storage") {
    return {Step("Look at the file systems mounted on this host: is a server down, are there disk errors?",
                 HostCommand(finding, "'df -h; dmesg -T | tail -50'")),
            RestartStep(finding, "If all stalled ranks are on it, restart")};
  }
  if (activity == "data loading") {
    return {Step("Look at the loader's workers: are they dead, out of shared memory (df -h /dev/shm), or in a wait?",
                 LookCommand(finding, "ps -o pid,stat,wchan:24,args --ppid")),
            "Compare this rank's current sample with those of the other ranks."};
  }
  if (activity == "compilation") {
    return {
        "If it makes progress, wait: compilation ends by itself.",
        "If it happens again in later steps, look for shapes that change (recompilation) and share the compile cache."};
  }
  if (activity == "garbage collection") {
    return {
        "Collect on all ranks at the same step (gc.disable, then gc.collect every N steps), or gc.freeze after start.",
        "Look for growth of Python objects on this rank."};
  }
  if (activity == "interpreter lock") {
    return {Step("Find the thread that holds the interpreter lock, in native code that does not release it",
                 LookCommand(finding)),
            "A framework's own dump may never come from this process, because it needs the same lock."};
  }
  if (activity == "rendezvous") {
    return {
        "Find out which process it waits for: the one that sets the key, or the one missing from the barrier.",
        "Check that all ranks of the group reach this place. Look for a branch that only some take, or a group created "
        "on only some ranks."};
  }
  return {};
}

}  // namespace lockstep
