#include "collector/evidence/stacks/python_layout.h"

#include <cstring>

namespace lockstep {

std::optional<PythonLayout> LayoutOf(int minor) {
  if (minor < kOldestPython || minor > 13) return std::nullopt;
  PythonLayout l;
  l.minor = minor;
  l.thread_next = 8;
  l.gil_holder = 8;
  l.gil_locked = 16;
  l.interpreters_head = minor <= 10 ? 32 : minor <= 12 ? 40 : 632;
  l.interpreter_next = minor <= 12 ? 0 : 7264;
  if (minor <= 10) {  // PyFrameObject
    l.interpreter_threads = 8;
    l.thread_id = 176;
    l.thread_frame = 24;
    l.gil = minor == 8 ? 1152 : 352;
    l.frame_size = 112;
    l.frame_back = 24;
    l.frame_code = 32;
    l.frame_instruction = minor <= 9 ? 104 : 96;
    l.instruction = minor <= 9 ? PythonLayout::Instruction::kByteIndex : PythonLayout::Instruction::kUnitIndex;
    l.entry = PythonLayout::Entry::kEveryFrame;
    l.code_size = 176;
    l.code_file = 104;
    l.code_name = 112;
    l.code_lines = 120;
    l.code_first_line = 40;
    l.lines = minor <= 9 ? PythonLayout::Lines::kLnotab : PythonLayout::Lines::kRanges;
  } else {  // _PyInterpreterFrame
    l.interpreter_threads = minor == 11 ? 16 : minor == 12 ? 72 : 7344;
    l.thread_id = minor == 12 ? 136 : 152;
    l.native_thread_id = l.thread_id + 8;
    l.thread_frame = minor == 13 ? 72 : 56;
    l.by_cframe = minor <= 12;
    l.cframe_frame = minor == 11 ? 8 : 0;
    if (minor == 11) l.gil = 360;
    if (minor >= 12) l.gil_pointer = minor == 12 ? 384 : 16;
    l.frame_size = 80;
    l.frame_back = minor == 11 ? 48 : 8;
    l.frame_code = minor == 11 ? 32 : 0;
    l.frame_instruction = 56;
    l.entry = minor == 11 ? PythonLayout::Entry::kFlag : PythonLayout::Entry::kShim;
    l.frame_entry = minor == 11 ? 68 : 70;
    l.code_size = minor == 11 ? 192 : minor == 12 ? 200 : 208;
    l.code_file = 112;
    l.code_name = 128;  // the qualified name
    l.code_lines = 136;
    l.code_first_line = minor == 11 ? 72 : 68;
    l.code_bytes = minor == 11 ? 184 : minor == 12 ? 192 : 200;
  }
  l.text_ascii = minor <= 11 ? 48 : 40;
  l.text_compact = minor <= 11 ? 72 : 56;
  return l;
}

std::optional<PythonLayout> LayoutFromDebugOffsets(const RemoteMemory& memory, uint64_t runtime, bool* free_threaded) {
  *free_threaded = false;
  // _Py_DebugOffsets: a cookie, the version, then numbers of eight bytes; 3.14 inserted some.
  constexpr size_t kWords = 96;
  uint64_t words[kWords];
  if (!memory.Read(runtime, words, sizeof words) || memcmp(words, "xdebugpy", 8) != 0) return std::nullopt;
  const uint64_t version = words[1], minor = version >> 16 & 0xff;
  if (version >> 24 != 3 || (minor != 13 && minor != 14)) return std::nullopt;
  *free_threaded = words[2] != 0;
  if (*free_threaded) return std::nullopt;
  const bool newer = minor == 14;
  std::optional<PythonLayout> base = LayoutOf(13);
  PythonLayout& l = *base;
  l.minor = static_cast<int>(minor);
  if (newer) {
    l.code_tag = 3;
    l.first_shim = 3;
  }
  const auto at = [&words](size_t byte) { return words[byte / 8]; };
  // Offsets in 3.13. The 3.14 releases insert more words before them: the interpreter's main thread, two generations,
  // two of frames, one of code, and four of sets before texts.
  const size_t after_threads = newer ? 8 : 0, after_interpreter = newer ? 24 : 0, after_frame = newer ? 40 : 0,
               after_code = newer ? 48 : 0, after_lists = newer ? 80 : 0;
  const struct {
    uint32_t* field;
    size_t byte;
  } fields[] = {{&l.interpreters_head, 40},
                {&l.interpreter_next, 64},
                {&l.interpreter_threads, 72},
                {&l.gil_pointer, 112 + after_threads},
                {&l.gil_locked, 136 + after_threads},
                {&l.gil_holder, 144 + after_threads},
                {&l.thread_next, 168 + after_interpreter},
                {&l.thread_frame, 184 + after_interpreter},
                {&l.thread_id, 192 + after_interpreter},
                {&l.native_thread_id, 200 + after_interpreter},
                {&l.frame_size, 224 + after_interpreter},
                {&l.frame_back, 232 + after_interpreter},
                {&l.frame_code, 240 + after_interpreter},
                {&l.frame_instruction, 248 + after_interpreter},
                {&l.frame_entry, 264 + after_interpreter},
                {&l.code_size, 272 + after_frame},
                {&l.code_file, 280 + after_frame},
                {&l.code_name, 296 + after_frame},
                {&l.code_lines, 304 + after_frame},
                {&l.code_first_line, 312 + after_frame},
                {&l.code_bytes, 344 + after_frame},
                {&l.object_type, 360 + after_code},
                {&l.text_state, 544 + after_lists},
                {&l.text_length, 552 + after_lists},
                {&l.text_ascii, 560 + after_lists}};
  for (const auto& field : fields) {
    if (at(field.byte) > 1 << 20) return std::nullopt;
    *field.field = static_cast<uint32_t>(at(field.byte));
  }
  // In memory, the two offsets start at the interpreter, which contains the lock. Converts them to offsets in the lock.
  const uint64_t lock = at(120 + after_threads);
  if (l.gil_holder < lock || l.gil_locked < lock) return std::nullopt;
  l.gil_holder -= static_cast<uint32_t>(lock);
  l.gil_locked -= static_cast<uint32_t>(lock);
  // A structure that is copied as a whole must contain the required fields.
  if (l.frame_size < 16 || l.frame_size > 4096 || l.frame_back + 8 > l.frame_size || l.frame_code + 8 > l.frame_size ||
      l.frame_instruction + 8 > l.frame_size || l.frame_entry >= l.frame_size || l.code_size > 4096 ||
      l.code_file + 8 > l.code_size || l.code_name + 8 > l.code_size || l.code_lines + 8 > l.code_size ||
      l.code_first_line + 4 > l.code_size || l.code_bytes > l.code_size + 64 || l.object_type + 8 > l.code_size) {
    return std::nullopt;
  }
  l.text_compact = l.text_ascii + 16;
  return base;
}

}  // namespace lockstep
