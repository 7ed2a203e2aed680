#include "analyzer/report/words/activity.h"

#include "analyzer/report/words/commands.h"

namespace lockstep {

std::vector<std::string> ActivityAdvice(const Finding& finding) {
  const std::string& activity = finding.activity();
  if ((activity == "checkpoint" || activity == "storage") && finding.activity_hosts() > 1) {
    return {"Check the file system itself (servers, quota, network): several hosts are waiting for it at once.",
            "If the ranks make progress, wait. If not, write the checkpoint elsewhere and restart from the previous "
            "one. Do not drain a host for this."};
  }
  if (activity == "checkpoint") {
    return {
        Step("Check the checkpoint's file system from this host: is it full, or is its server down?",
             HostCommand(finding, "df -h")),
        "If the rank makes progress, wait. If not, write the checkpoint elsewhere and restart from the previous one."};
  }
  if (activity == "storage") {
    return {Step("Check the file systems mounted on this host: is a server down, or are there disk errors?",
                 HostCommand(finding, "'df -h; dmesg -T | tail -50'")),
            RestartStep(finding, "If all stalled ranks are on this host, restart")};
  }
  if (activity == "data loading") {
    return {Step("Check the data loader's workers: are they dead, waiting, or out of shared memory (df -h /dev/shm)?",
                 LookCommand(finding, "ps -o pid,stat,wchan:24,args --ppid")),
            "Compare the sample that this rank is loading with the other ranks' samples."};
  }
  if (activity == "compilation") {
    return {"If the rank makes progress, wait: compilation ends on its own.",
            "If ranks compile again in later steps, look for changing shapes, and share the compile cache."};
  }
  if (activity == "garbage collection") {
    return {
        "Collect garbage on all ranks at the same step (gc.disable, then gc.collect every N steps), or call gc.freeze "
        "after start-up.",
        "Check whether the number of Python objects grows on this rank."};
  }
  if (activity == "interpreter lock") {
    return {Step("Find the thread that holds the interpreter lock: it is in native code that does not release the lock",
                 LookCommand(finding)),
            "Do not wait for a framework's dump of this process: writing one needs the same lock."};
  }
  if (activity == "rendezvous") {
    return {
        "Find out which process the rank waits for: the one that sets the key, sends the message, or is missing from "
        "the call.",
        "Check that all ranks of the group reach this line. Look for a branch that only some ranks take, or a group "
        "that only some ranks create."};
  }
  return {};
}

}  // namespace lockstep
