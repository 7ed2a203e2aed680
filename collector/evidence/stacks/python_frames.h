// Tracebacks of a Python process, read from its memory. Nothing runs in the process and no lock of it is taken, so it
// makes no difference who holds the interpreter lock. In two steps: pointers while the thread stands still, texts
// afterwards.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PYTHON_FRAMES_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PYTHON_FRAMES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/evidence/stacks/python_layout.h"
#include "collector/evidence/stacks/remote_memory.h"

namespace lockstep {

// A thread as the interpreter knows it.
struct PythonThread {
  uint64_t state = 0;      // PyThreadState
  uint64_t thread_id = 0;  // pthread_t
  uint64_t native_id = 0;  // as the process's pid namespace numbers it; 0: not kept
  bool holds_lock = false;
};
// All threads of all interpreters, at most 4,096. The process may change them meanwhile: what does not fit is left out.
std::vector<PythonThread> ReadPythonThreads(const RemoteMemory& memory, const PythonLayout& layout, uint64_t runtime);

// A frame as it stands in memory.
struct PythonFrameRef {
  uint64_t code = 0;
  int64_t instruction = 0;         // byte offset into the code, or the address where the layout says so
  bool outermost_of_call = false;  // the frame that C code called: one native evaluation frame covers those up to here
};
// Innermost first. `truncated`: there were more than `limit`.
std::vector<PythonFrameRef> ReadPythonFrames(const RemoteMemory& memory, const PythonLayout& layout,
                                             uint64_t thread_state, size_t limit, bool* truncated);

struct PythonFrame {
  std::string function, file;  // file: from the package on ("torch/serialization.py") where it is in one
  uint32_t line = 0;           // 0 not known
  bool outermost_of_call = false;
};

// Turns references into texts; remembers code objects.
class PythonCode {
 public:
  PythonCode(const RemoteMemory& memory, const PythonLayout& layout) : memory_(memory), layout_(layout) {}
  // nullopt: it is no code object (any more).
  std::optional<PythonFrame> Describe(const PythonFrameRef& frame);

 private:
  struct Code {
    bool valid = false;
    std::string function, file;
    int32_t first_line = 0;
    std::string lines;
  };
  const Code& Load(uint64_t address);
  std::string Text(uint64_t address) const;
  std::string Bytes(uint64_t address) const;

  const RemoteMemory& memory_;
  const PythonLayout layout_;
  std::map<uint64_t, Code> codes_;
  size_t held_ = 0;  // bytes of their tables
  uint64_t code_type_ = 0;
};

// Line of the byte offset `at` by a table of one of the three formats; 0: none.
uint32_t PythonLine(PythonLayout::Lines format, const std::string& table, int32_t first_line, int64_t at);
// "/usr/lib/python3/dist-packages/torch/serialization.py" -> "torch/serialization.py".
std::string ShortPythonFile(const std::string& file);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PYTHON_FRAMES_H_
