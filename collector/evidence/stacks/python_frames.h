// Reads tracebacks of a Python process from its memory. Runs no code in the process and takes none of its locks, so it
// does not matter who holds the interpreter lock. Works in two steps: pointers while the thread is stopped, texts
// afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/evidence/stacks/python_layout.h"
#include "collector/evidence/stacks/remote_memory.h"

namespace lockstep {

// A thread in the interpreter's list.
struct PythonThread {
  uint64_t state = 0;      // PyThreadState
  uint64_t thread_id = 0;  // pthread_t
  uint64_t native_id = 0;  // in the process's PID namespace; 0 if not stored
  bool holds_lock = false;
};
// Returns all threads of all interpreters, at most 4,096. The process may change them during the read; inconsistent
// data is skipped.
std::vector<PythonThread> ReadPythonThreads(const RemoteMemory& memory, const PythonLayout& layout, uint64_t runtime);

// A frame in memory.
struct PythonFrameRef {
  uint64_t code = 0;
  int64_t instruction = 0;  // byte offset into the code, or the address if the layout has one
  // True for the frame that C code called. One native evaluation frame covers all frames up to this one.
  bool outermost_of_call = false;
};
// Innermost first. `truncated` is true if there were more than `limit` frames.
std::vector<PythonFrameRef> ReadPythonFrames(const RemoteMemory& memory, const PythonLayout& layout,
                                             uint64_t thread_state, size_t limit, bool* truncated);

struct PythonFrame {
  std::string function, file;  // `file` is relative to the package ("torch/serialization.py") if there is one
  uint32_t line = 0;           // 0 if unknown
  bool outermost_of_call = false;
  std::string path = "";  // the whole path, as the process sees it
};

// Converts references to texts, with a cache of code objects.
class PythonCode {
 public:
  PythonCode(const RemoteMemory& memory, const PythonLayout& layout) : memory_(memory), layout_(layout) {}
  // Returns nullopt if the memory is not (or no longer) a code object.
  std::optional<PythonFrame> Describe(const PythonFrameRef& frame);

 private:
  struct Code {
    bool valid = false;
    std::string function, file, path;
    int32_t first_line = 0;
    std::string lines;
  };
  const Code& Load(uint64_t address);
  std::string Text(uint64_t address) const;
  std::string Bytes(uint64_t address) const;

  const RemoteMemory& memory_;
  const PythonLayout layout_;
  std::map<uint64_t, Code> codes_;
  size_t held_ = 0;  // size of the held tables
  uint64_t code_type_ = 0;
};

// Returns the line for the byte offset `at` in a table of one of the three formats; 0 if there is none.
uint32_t PythonLine(PythonLayout::Lines format, const std::string& table, int32_t first_line, int64_t at);
// "/usr/lib/python3/dist-packages/torch/serialization.py" -> "torch/serialization.py";
// "/usr/lib/python3.11/threading.py" -> "python3.11/threading.py". CodeFrame recognizes these as libraries.
std::string ShortPythonFile(const std::string& file);

}  // namespace lockstep
