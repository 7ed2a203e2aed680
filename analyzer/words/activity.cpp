#include "analyzer/words/activity.h"

namespace lockstep {

std::vector<std::string> ActivityAdvice(const Finding& finding) {
  const std::string& activity = finding.activity();
  if ((activity == "checkpoint" || activity == "storage") && finding.activity_hosts() > 1) {
    return {
        "Look at the file system itself: its servers, quota, and the network to it; several hosts wait for it at once.",
        "If it moves, wait; if not, move the checkpoint elsewhere and restart from the one before. Drain no host for "
        "it."};
  }
  if (activity == "checkpoint") {
    return {"Look at the file system that the checkpoint goes to, from this host: full, slow, or its server away.",
            "If it moves, wait; if not, move the checkpoint elsewhere and restart from the one before."};
  }
  if (activity == "storage") {
    return {"Look at the file systems mounted on this host (server away, disk errors in its kernel log).",
            "If all stalled ranks are on it, drain the host."};
  }
  if (activity == "data loading") {
    return {"Look at the loader's workers on this host: dead, out of shared memory, waiting for storage.",
            "Compare the sample this rank is at with the others'."};
  }
  if (activity == "compilation") {
    return {
        "Wait if it moves: compilation ends by itself.",
        "If it happens again in later steps, look for shapes that change (recompilation) and share the compile cache."};
  }
  if (activity == "garbage collection") {
    return {
        "Collect on all ranks at the same step (gc.disable, then gc.collect every N steps), or gc.freeze after start.",
        "Look for growth of Python objects on this rank."};
  }
  if (activity == "interpreter lock") {
    return {"Find the thread that holds the interpreter lock: native code that does not release it.",
            "A framework's own dump may never come from this process, because it needs the same lock."};
  }
  if (activity == "rendezvous") {
    return {
        "Find out which process it waits for there: who sets the key, or who is missing from the barrier (its stack "
        "names the call).",
        "Check that all ranks of the group come to this place: a branch that only some take, a group made on some "
        "ranks only."};
  }
  return {};
}

}  // namespace lockstep
