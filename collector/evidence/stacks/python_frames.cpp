#include "collector/evidence/stacks/python_frames.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kMostInterpreters = 64, kMostThreads = 4096;
constexpr size_t kMostText = 1024, kMostTable = 1 << 20, kMostCodes = 1 << 16, kMostHeld = 64 << 20;

template <typename T>
T At(const std::vector<char>& bytes, size_t offset) {
  T value{};
  if (offset + sizeof value <= bytes.size()) memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c >= 0xd800 && c < 0xe000) c = 0xfffd;
  if (c > 0x10ffff) c = 0xfffd;
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

// Python 3.8 and 3.9: pairs of (bytes of code, lines).
uint32_t LnotabLine(const std::string& table, int64_t line, int64_t at) {
  int64_t address = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    address += static_cast<uint8_t>(table[i]);
    if (address > at) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return line > 0 ? static_cast<uint32_t>(line) : 0;
}

// Python 3.10: the same pairs, but each is a range of code; -128 marks code without a line.
uint32_t RangesLine(const std::string& table, int64_t line, int64_t at) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    end += static_cast<uint8_t>(table[i]);
    const int8_t delta = static_cast<int8_t>(table[i + 1]);
    if (delta != -128) line += delta;
    if (at < end) return delta == -128 || line <= 0 ? 0 : static_cast<uint32_t>(line);
  }
  return 0;
}

// From 3.11 on: entries of several bytes; the highest bit of an entry's first byte is set.
uint32_t LocationsLine(const std::string& table, int64_t line, int64_t at) {
  int64_t end = 0;
  for (size_t i = 0; i < table.size();) {
    const uint8_t first = static_cast<uint8_t>(table[i]);
    if ((first & 0x80) == 0) return 0;
    const uint8_t kind = first >> 3 & 15;
    end += 2 * ((first & 7) + 1);
    if (kind == 13 || kind == 14) {
      uint64_t value = 0;
      int shift = 0;
      for (size_t j = i + 1; j < table.size() && shift < 36; ++j, shift += 6) {
        const uint8_t byte = static_cast<uint8_t>(table[j]);
        value |= static_cast<uint64_t>(byte & 0x3f) << shift;
        if ((byte & 0x40) == 0) break;
      }
      line += (value & 1) != 0 ? -static_cast<int64_t>(value >> 1) : static_cast<int64_t>(value >> 1);
    } else if (kind >= 10 && kind <= 12) {
      line += kind - 10;
    }
    if (at < end) return kind == 15 || line <= 0 || line > INT32_MAX ? 0 : static_cast<uint32_t>(line);
    for (++i; i < table.size() && (static_cast<uint8_t>(table[i]) & 0x80) == 0;) ++i;
  }
  return 0;
}

}  // namespace

uint32_t PythonLine(PythonLayout::Lines format, const std::string& table, int32_t first_line, int64_t at) {
  at = std::max<int64_t>(at, 0);
  switch (format) {
    case PythonLayout::Lines::kLnotab: return LnotabLine(table, first_line, at);
    case PythonLayout::Lines::kRanges: return RangesLine(table, first_line, at);
    case PythonLayout::Lines::kLocations: return LocationsLine(table, first_line, at);
  }
  return 0;
}

std::string ShortPythonFile(const std::string& file) {
  for (const char* mark : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = file.rfind(mark);
    if (at != std::string::npos) return file.substr(at + strlen(mark));
  }
  // The standard library: ".../lib/python3.11/threading.py".
  const size_t at = file.rfind("/python3.");
  return at == std::string::npos ? file : file.substr(at + 1);
}

std::vector<PythonThread> ReadPythonThreads(const RemoteMemory& memory, const PythonLayout& layout, uint64_t runtime) {
  std::vector<PythonThread> threads;
  std::set<uint64_t> seen;  // detects a circular list
  uint64_t interpreter = 0;
  if (!memory.Get(runtime + layout.interpreters_head, &interpreter)) return threads;
  for (size_t i = 0; i < kMostInterpreters && interpreter != 0 && seen.insert(interpreter).second; ++i) {
    uint64_t lock = layout.gil == 0 ? 0 : runtime + layout.gil, holder = 0;
    int32_t locked = 0;
    if (layout.gil_pointer != 0) memory.Get(interpreter + layout.gil_pointer, &lock);
    if (lock == 0 || !memory.Get(lock + layout.gil_locked, &locked) || !memory.Get(lock + layout.gil_holder, &holder))
      locked = 0;
    uint64_t state = 0;
    memory.Get(interpreter + layout.interpreter_threads, &state);
    while (state != 0 && threads.size() < kMostThreads && seen.insert(state).second) {
      PythonThread thread;
      thread.state = state;
      if (!memory.Get(state + layout.thread_id, &thread.thread_id)) break;
      if (layout.native_thread_id != 0) memory.Get(state + layout.native_thread_id, &thread.native_id);
      thread.holds_lock = locked == 1 && holder == state;
      threads.push_back(thread);
      if (!memory.Get(state + layout.thread_next, &state)) break;
    }
    if (!memory.Get(interpreter + layout.interpreter_next, &interpreter)) break;
  }
  return threads;
}

std::vector<PythonFrameRef> ReadPythonFrames(const RemoteMemory& memory, const PythonLayout& layout,
                                             uint64_t thread_state, size_t limit, bool* truncated) {
  *truncated = false;
  std::vector<PythonFrameRef> frames;
  uint64_t frame = 0;
  if (!memory.Get(thread_state + layout.thread_frame, &frame)) return frames;
  if (layout.by_cframe && (frame == 0 || !memory.Get(frame + layout.cframe_frame, &frame))) return frames;
  std::vector<char> bytes(layout.frame_size);
  // The limit ends the walk of a circular list.
  for (size_t looked = 0; frame != 0 && looked < 4 * limit; ++looked) {
    if (frames.size() == limit) {
      *truncated = true;
      break;
    }
    if (!memory.Read(frame, bytes.data(), bytes.size())) break;
    frame = At<uint64_t>(bytes, layout.frame_back);
    const uint8_t entry = At<uint8_t>(bytes, layout.frame_entry);
    if (layout.entry == PythonLayout::Entry::kShim && entry >= layout.first_shim) {
      if (!frames.empty()) frames.back().outermost_of_call = true;
      continue;
    }
    PythonFrameRef ref;
    ref.code = At<uint64_t>(bytes, layout.frame_code) & ~layout.code_tag;
    switch (layout.instruction) {
      case PythonLayout::Instruction::kByteIndex: ref.instruction = At<int32_t>(bytes, layout.frame_instruction); break;
      case PythonLayout::Instruction::kUnitIndex:
        ref.instruction = 2 * int64_t{At<int32_t>(bytes, layout.frame_instruction)};
        break;
      case PythonLayout::Instruction::kPointer: ref.instruction = At<int64_t>(bytes, layout.frame_instruction); break;
    }
    ref.outermost_of_call =
        layout.entry == PythonLayout::Entry::kEveryFrame || (layout.entry == PythonLayout::Entry::kFlag && entry != 0);
    frames.push_back(ref);
  }
  return frames;
}

std::string PythonCode::Text(uint64_t address) const {
  uint64_t length = 0;
  uint32_t state = 0;
  if (!memory_.Get(address + layout_.text_length, &length) || !memory_.Get(address + layout_.text_state, &state))
    return "";
  const uint32_t kind = state >> 2 & 7;
  const bool compact = (state >> 5 & 1) != 0, ascii = (state >> 6 & 1) != 0;
  if (!compact || (kind != 1 && kind != 2 && kind != 4)) return "";
  const size_t count = std::min<uint64_t>(length, kMostText);
  std::vector<unsigned char> data(count * kind);
  if (!memory_.Read(address + (ascii ? layout_.text_ascii : layout_.text_compact), data.data(), data.size())) return "";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    uint32_t c = 0;
    memcpy(&c, data.data() + i * kind, kind);
    AppendUtf8(c, &text);
  }
  return Printable(text, kMostText);
}

std::string PythonCode::Bytes(uint64_t address) const {
  uint64_t length = 0;
  if (!memory_.Get(address + layout_.bytes_length, &length) || length > kMostTable) return "";
  std::string bytes(length, '\0');
  if (!memory_.Read(address + layout_.bytes_data, bytes.data(), bytes.size())) return "";
  return bytes;
}

const PythonCode::Code& PythonCode::Load(uint64_t address) {
  const auto found = codes_.find(address);
  if (found != codes_.end()) return found->second;
  if (codes_.size() >= kMostCodes || held_ >= kMostHeld) {
    codes_.clear();
    held_ = 0;
  }
  Code& code = codes_[address];
  std::vector<char> bytes(layout_.code_size);
  if (!memory_.Read(address, bytes.data(), bytes.size())) return code;
  // Memory that is no longer a code object must not become a name.
  const uint64_t type = At<uint64_t>(bytes, layout_.object_type);
  if (type != code_type_) {
    uint64_t name = 0;
    char text[5] = {};
    if (!memory_.Get(type + layout_.type_name, &name) || !memory_.Read(name, text, sizeof text) ||
        memcmp(text, "code", 5) != 0)
      return code;
    code_type_ = type;
  }
  code.function = Text(At<uint64_t>(bytes, layout_.code_name));
  code.path = Text(At<uint64_t>(bytes, layout_.code_file));
  code.file = ShortPythonFile(code.path);
  code.first_line = At<int32_t>(bytes, layout_.code_first_line);
  code.lines = Bytes(At<uint64_t>(bytes, layout_.code_lines));
  code.valid = !code.function.empty();
  held_ += code.lines.size();
  return code;
}

std::optional<PythonFrame> PythonCode::Describe(const PythonFrameRef& ref) {
  const Code& code = Load(ref.code);
  if (!code.valid) return std::nullopt;
  int64_t at = ref.instruction;
  if (layout_.instruction == PythonLayout::Instruction::kPointer)
    at = static_cast<int64_t>(static_cast<uint64_t>(at) - ref.code - layout_.code_bytes);
  PythonFrame frame;
  frame.function = code.function;
  frame.file = code.file;
  frame.path = code.path;
  frame.line = PythonLine(layout_.lines, code.lines, code.first_line, at);
  frame.outermost_of_call = ref.outermost_of_call;
  return frame;
}

}  // namespace lockstep
