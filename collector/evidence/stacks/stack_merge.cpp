#include "collector/evidence/stacks/stack_merge.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace lockstep {
namespace {

bool Evaluates(const StackFrame& frame) { return absl::StartsWith(frame.function(), "_PyEval_EvalFrameDefault"); }

// Returns whether this is a CPython function between two Python functions, or between main() and the first one. In a
// stripped interpreter, most of these functions have no name.
bool IsInterpreterCall(const StackFrame& frame, uint32_t interpreter) {
  const absl::string_view name = frame.function();
  if (name.empty()) return frame.module() == interpreter;
  constexpr absl::string_view kPrefixes[] = {"_PyEval_",
                                             "PyEval_Eval",
                                             "_PyFunction_",
                                             "_PyObject_",
                                             "PyObject_Call",
                                             "PyObject_Vectorcall",
                                             "_PyVectorcall",
                                             "PyVectorcall",
                                             "_PyCFunction",
                                             "cfunction_",
                                             "method_vectorcall",
                                             "vectorcall_",
                                             "object_vacall",
                                             "slot_tp_",
                                             "function_",
                                             "call_function",
                                             "do_call_core",
                                             "type_call",
                                             "run_mod",
                                             "run_eval_code",
                                             "pyrun_",
                                             "PyRun_",
                                             "_PyRun_",
                                             "Py_RunMain",
                                             "pymain_",
                                             "Py_BytesMain",
                                             "builtin_exec",
                                             "thread_run",
                                             "pythread_wrapper",
                                             "_PyMethodDef",
                                             "_PyMethodDescriptor",
                                             "classmethod_",
                                             "_Py_Call",
                                             "PyNumber_",
                                             "PyIter_Next",
                                             "gen_send_ex",
                                             "gen_iternext"};
  for (absl::string_view prefix : kPrefixes) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

bool StartsThreads(absl::string_view name) {
  constexpr absl::string_view kNames[] = {"_start",
                                          "__libc_start_main",
                                          "__libc_start_call_main",
                                          "start_thread",
                                          "clone3",
                                          "__clone3",
                                          "__GI___clone3",
                                          "__GI___clone",
                                          "__clone",
                                          "clone",
                                          "__libc_start_main_impl"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

std::vector<StackFrame> MergeStacks(const std::vector<StackFrame>& native, const std::vector<PythonFrame>& python) {
  std::vector<StackFrame> merged;
  size_t next = 0;
  uint32_t interpreter = 0;
  for (const StackFrame& frame : native) {
    if (Evaluates(frame)) interpreter = frame.module();
  }
  const auto add = [&merged](const PythonFrame& frame) {
    StackFrame out;
    out.set_kind(StackFrame::PYTHON);
    out.set_function(frame.function);
    out.set_file(frame.file);
    out.set_line(frame.line);
    merged.push_back(std::move(out));
  };
  for (const StackFrame& frame : native) {
    if (Evaluates(frame) && next < python.size()) {
      // Calls from Python to C match IsInterpreterCall(), too. An innermost frame without a name stays, because nothing
      // more precise is known.
      while (!merged.empty() && merged.back().kind() == StackFrame::NATIVE &&
             IsInterpreterCall(merged.back(), interpreter) &&
             (merged.size() > 1 || !merged.back().function().empty())) {
        merged.pop_back();
      }
      bool last = false;
      while (!last && next < python.size()) {
        last = python[next].outermost_of_call;
        add(python[next++]);
      }
    } else if (next == 0 || !IsInterpreterCall(frame, interpreter)) {
      merged.push_back(frame);
    }
  }
  while (next < python.size()) add(python[next++]);
  // Every thread has the same frames before its first function.
  while (merged.size() > 1 && StartsThreads(merged.back().function())) merged.pop_back();
  return merged;
}

}  // namespace lockstep
