// Merges native and Python frames into one stack.
#pragma once

#include <vector>

#include "collector/evidence/stacks/python_frames.h"
#include "proto/process.pb.h"

namespace lockstep {

// Replaces the interpreter's evaluation frames by Python's frames, and removes the interpreter's own frames that only
// lead from one Python function to the next. Both are innermost first. Python frames without a place in the native
// stack (because it ended early) are added at the end. The C library's frames before main() or a thread's function are
// removed.
std::vector<StackFrame> MergeStacks(const std::vector<StackFrame>& native, const std::vector<PythonFrame>& python);

}  // namespace lockstep
