// What a process that stands still is doing, as far as samples from outside show it: its stacks, the kernel function it
// sleeps in, its open files, and what CPU and I/O it used between two looks. Rules over names, nothing is guessed from
// silence.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_ACTIVITY_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_ACTIVITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/evidence/activity_rules.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

enum class Moving : uint8_t { kUnknown, kNo, kYes };

struct ActivityView {
  Stall stall = Stall::kUnknown;
  Moving moving = Moving::kUnknown;
  bool uninterruptible = false;  // a thread of it sleeps where no signal reaches it (D)
  std::string evidence;          // "a thread in D state in rpc_wait_bit_killable, /lustre/ckpt/3.pt open for writing"
  std::string motion;            // "used 1.9 s of CPU in 2.0 s"; empty where `moving` is not known
};

// Finding::activity: "checkpoint", "storage", ...; empty for kUnknown.
const char* StallName(Stall stall);
// Finding::moving: "moving", "not moving"; empty for kUnknown.
const char* MovingName(Moving moving);

ActivityView ClassifyActivity(const Process& process);

// Whether two ranks may be stalled by one thing: the same is seen on both, or nothing on one, or files on both.
bool SameStall(Stall a, Stall b);

// Fills activity, moving and their evidence and advice from the samples of `ranks` (indexes into Bundle::ranks), and
// the common host where several ranks of one wait for files; where ranks of several hosts do so at once, that it is no
// host's.
void DescribeStall(const Bundle& bundle, const std::vector<int32_t>& ranks, Finding* finding);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_ACTIVITY_H_
