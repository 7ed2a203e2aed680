// Unwinds call stacks from captured registers and stack memory, with elfutils' libdwfl. Reads ELF and DWARF from a
// foreign process's files, which may be damaged or hostile, so only processes that may crash use this.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "collector/evidence/stacks/proc_maps.h"
#include "collector/evidence/stacks/stack_capture.h"
#include "proto/process.pb.h"

namespace lockstep {

class ProcessHelper;

class Unwinder {
 public:
  // Opens the code files, so that later calls only need to read. Symbols come from the files themselves and from
  // separate debug files below /usr/lib/debug of this host and of the process. `helper` may be null, and must outlive
  // this object.
  Unwinder(pid_t pid, const std::vector<Mapping>& maps, const ProcessHelper* helper = nullptr);
  ~Unwinder();

  // Addresses of the frames, innermost first, at most `limit`. `problem` is the reason why the stack is cut off; empty
  // if it is complete.
  struct Addresses {
    std::vector<uint64_t> pcs;  // these addresses already point into the calling instruction
    bool truncated = false;
    std::string problem;
  };
  Addresses Unwind(const ThreadCapture& thread, size_t limit);

  // Returns function, module and offset of an address, from a cache.
  const StackFrame& Describe(uint64_t pc);
  // Adds source file and line if DWARF has them. This can be slow.
  void AddLine(uint64_t pc);

  // Returns the files of the described frames (StackFrame::module counts from 1), then other NCCL libraries.
  std::vector<StackModule> Modules() const;
  // Returns the address of a symbol in a mapped file; 0 if there is no such symbol.
  uint64_t Symbol(const MappedFile& file, const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
