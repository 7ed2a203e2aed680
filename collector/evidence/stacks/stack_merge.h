// Merges native and Python frames into one stack.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_STACK_MERGE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_STACK_MERGE_H_

#include <vector>

#include "collector/evidence/stacks/python_frames.h"
#include "proto/process.pb.h"

namespace lockstep {

// Puts Python's frames in the place of the interpreter's evaluation frames, and leaves out the interpreter's own frames
// that only lead from one Python function to the next. Both innermost first. Python frames for which the native stack
// has no place (it ended early) come last. The C library's frames before main() or a thread's function are left out.
std::vector<StackFrame> MergeStacks(const std::vector<StackFrame>& native, const std::vector<PythonFrame>& python);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_STACK_MERGE_H_
