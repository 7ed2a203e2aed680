// Merges native and Python frames into one stack.
#pragma once

#include <vector>

#include "collector/evidence/stacks/python_frames.h"
#include "proto/process.pb.h"

namespace lockstep {

// Replaces the interpreter's evaluation frames by Python's frames, and removes the interpreter's own frames between two
// Python functions. Both stacks are innermost first. Python frames without a counterpart in the native stack (because
// it is cut off) are added at the end. Also removes the C library's frames before main() or a thread's function.
std::vector<StackFrame> MergeStacks(const std::vector<StackFrame>& native, const std::vector<PythonFrame>& python);

}  // namespace lockstep
