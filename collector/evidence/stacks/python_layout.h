// Where CPython stores the data for a traceback, in 64-bit builds of 3.8 to 3.14. The numbers are offsets from each
// version's public headers (evidence_test reads the stacks of running interpreters). From 3.13 on, an interpreter has
// these numbers in memory; for 3.14, only those are used.
#pragma once

#include <cstdint>
#include <optional>

#include "collector/evidence/stacks/remote_memory.h"

namespace lockstep {

constexpr int kOldestPython = 8, kNewestPython = 14;

struct PythonLayout {
  int minor = 0;
  uint32_t interpreters_head = 0;  // in _PyRuntime
  uint32_t interpreter_next = 0, interpreter_threads = 0;
  uint32_t thread_next = 0, thread_id = 0;
  uint32_t native_thread_id = 0;  // 0 if not stored
  uint32_t thread_frame = 0;      // newest frame, or the structure that points to it
  bool by_cframe = false;
  uint32_t cframe_frame = 0;
  // Offset of the interpreter lock in _PyRuntime. If gil_pointer is not 0, it is the offset in the interpreter of a
  // pointer to the lock. gil_holder and gil_locked are offsets in the lock.
  uint32_t gil = 0, gil_pointer = 0, gil_holder = 0, gil_locked = 0;

  uint32_t frame_size = 0, frame_back = 0, frame_code = 0, frame_instruction = 0;
  enum class Instruction { kByteIndex, kUnitIndex, kPointer } instruction = Instruction::kPointer;
  // How the interpreter marks a frame that C code called. kEveryFrame: every frame is one C call. kFlag: the oldest
  // frame of a call has a flag (3.11). kShim: the C call has an extra frame (3.12); its owner is at least `first_shim`.
  enum class Entry { kEveryFrame, kFlag, kShim } entry = Entry::kShim;
  uint32_t frame_entry = 0;  // a byte: the flag, or the frame's owner
  uint8_t first_shim = 3;
  uint64_t code_tag = 0;  // bits of a frame's pointer to its code that are not part of the address

  uint32_t code_size = 0, code_file = 0, code_name = 0, code_lines = 0, code_first_line = 0, code_bytes = 0;
  enum class Lines { kLnotab, kRanges, kLocations } lines = Lines::kLocations;
  uint32_t text_length = 16, text_state = 32, text_ascii = 0, text_compact = 0;
  uint32_t bytes_length = 16, bytes_data = 32;
  uint32_t object_type = 8, type_name = 24;
};

// Returns the layout of Python 3.`minor`; nullopt if unknown, or only available from the process (3.14).
std::optional<PythonLayout> LayoutOf(int minor);
// Reads the layout from the process's memory, from 3.13 on. Returns nullopt if the layout is missing or invalid. Also
// returns nullopt for a build without the interpreter lock (*free_threaded), because its frames run code that no code
// object contains.
std::optional<PythonLayout> LayoutFromDebugOffsets(const RemoteMemory& memory, uint64_t runtime, bool* free_threaded);

}  // namespace lockstep
