#include "collector/evidence/stacks/python_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

// Memory of a simulated process, which contains only what the test wrote.
class FakeMemory : public RemoteMemory {
 public:
  bool Read(uint64_t address, void* out, size_t size) const override {
    for (size_t i = 0; i < size; ++i) {
      const auto found = bytes_.find(address + i);
      if (found == bytes_.end()) return false;
      static_cast<uint8_t*>(out)[i] = found->second;
    }
    return true;
  }
  // Returns the address of `size` zero bytes, with unreadable memory around them.
  uint64_t Room(size_t size) {
    const uint64_t at = next_;
    for (size_t i = 0; i < size; ++i) bytes_[at + i] = 0;
    next_ += (size + 0x1f) / 0x10 * 0x10;
    return at;
  }
  template <typename T>
  void Put(uint64_t address, T value) {
    uint8_t raw[sizeof value];
    memcpy(raw, &value, sizeof value);
    for (size_t i = 0; i < sizeof value; ++i) {
      ASSERT_TRUE(bytes_.count(address + i)) << "the layout points outside the structure";
      bytes_[address + i] = raw[i];
    }
  }
  void PutBytes(uint64_t address, const std::string& data) {
    for (size_t i = 0; i < data.size(); ++i) Put(address + i, data[i]);
  }
  std::map<uint64_t, uint8_t> bytes_;

 private:
  uint64_t next_ = 0x10000;
};

// An interpreter in that memory, laid out as in the given version.
struct FakePython {
  explicit FakePython(const PythonLayout& layout) : l(layout) {
    code_type = memory.Room(256);
    const uint64_t name = memory.Room(8);
    memory.PutBytes(name, "code");
    memory.Put(code_type + l.type_name, name);
    runtime = memory.Room(8192);
    interpreter = memory.Room(16384);
    memory.Put(runtime + l.interpreters_head, interpreter);
  }
  uint64_t Text(const std::string& text) {
    const uint64_t at = memory.Room(l.text_ascii + text.size());
    memory.Put(at + l.text_length, uint64_t{text.size()});
    memory.Put(at + l.text_state, uint32_t{1 << 2 | 1 << 5 | 1 << 6});
    memory.PutBytes(at + l.text_ascii, text);
    return at;
  }
  uint64_t WideText(const std::u16string& text) {
    const uint64_t at = memory.Room(l.text_compact + 2 * text.size());
    memory.Put(at + l.text_length, uint64_t{text.size()});
    memory.Put(at + l.text_state, uint32_t{2 << 2 | 1 << 5});
    for (size_t i = 0; i < text.size(); ++i) memory.Put(at + l.text_compact + 2 * i, static_cast<uint16_t>(text[i]));
    return at;
  }
  uint64_t Code(uint64_t name, const std::string& file, int32_t first_line, const std::string& lines) {
    const uint64_t table = memory.Room(l.bytes_data + lines.size());
    memory.Put(table + l.bytes_length, uint64_t{lines.size()});
    memory.PutBytes(table + l.bytes_data, lines);
    const uint64_t at = memory.Room(l.code_size + 64);
    memory.Put(at + l.object_type, code_type);
    memory.Put(at + l.code_name, name);
    memory.Put(at + l.code_file, Text(file));
    memory.Put(at + l.code_first_line, first_line);
    memory.Put(at + l.code_lines, table);
    return at;
  }
  uint64_t Frame(uint64_t code, int64_t at_byte, uint64_t back, uint8_t entry = 0) {
    const uint64_t at = memory.Room(l.frame_size);
    memory.Put(at + l.frame_code, code | (l.code_tag & 1));
    memory.Put(at + l.frame_back, back);
    switch (l.instruction) {
      case PythonLayout::Instruction::kByteIndex:
        memory.Put(at + l.frame_instruction, static_cast<int32_t>(at_byte));
        break;
      case PythonLayout::Instruction::kUnitIndex:
        memory.Put(at + l.frame_instruction, static_cast<int32_t>(at_byte / 2));
        break;
      case PythonLayout::Instruction::kPointer:
        memory.Put(at + l.frame_instruction, code + l.code_bytes + static_cast<uint64_t>(at_byte));
        break;
    }
    if (l.frame_entry != 0) memory.Put(at + l.frame_entry, entry);
    return at;
  }
  uint64_t Thread(uint64_t frame, uint64_t id, uint64_t native) {
    const uint64_t at = memory.Room(512);
    memory.Put(at + l.thread_id, id);
    if (l.native_thread_id != 0) memory.Put(at + l.native_thread_id, native);
    uint64_t top = frame;
    if (l.by_cframe) {
      top = memory.Room(32);
      memory.Put(top + l.cframe_frame, frame);
    }
    memory.Put(at + l.thread_frame, top);
    uint64_t first = 0;
    memory.Get(interpreter + l.interpreter_threads, &first);
    memory.Put(at + l.thread_next, first);
    memory.Put(interpreter + l.interpreter_threads, at);
    return at;
  }

  const PythonLayout l;
  FakeMemory memory;
  uint64_t code_type = 0, runtime = 0, interpreter = 0;
};

// Bytes 0 to 3 belong to line 10; from byte 4 on, it is line 12.
std::string TwoLines(PythonLayout::Lines format) {
  switch (format) {
    case PythonLayout::Lines::kLnotab: return std::string("\x04\x02", 2);
    case PythonLayout::Lines::kRanges: return std::string("\x04\x00\x10\x02", 4);
    // One-line form, +0 lines, two units; then the form without columns, +2 lines, eight units.
    case PythonLayout::Lines::kLocations: return std::string("\xd1\x00\x05\xef\x04", 5);
  }
  return "";
}

// Writes an interpreter's description of itself, with the words of 3.13 or of the 3.14 releases.
uint64_t Offsets(FakeMemory* memory, int minor, bool free_threaded = false) {
  const PythonLayout l = *LayoutOf(13);
  const uint64_t at = memory->Room(96 * 8);
  const bool newer = minor >= 14;
  std::vector<uint64_t> words = {0, 3u << 24 | static_cast<uint64_t>(minor) << 16 | 0xf0, free_threaded,
                                 // runtime, interpreter
                                 9000, 8, l.interpreters_head, 9000, 8, l.interpreter_next, l.interpreter_threads};
  if (newer) words.push_back(7352);  // threads.main
  words.insert(words.end(), {4, 4, 4, 4, l.gil_pointer, 5000, 0, 5000 + l.gil_locked, 5000 + l.gil_holder});
  if (newer) words.insert(words.end(), {7992, 0});  // generations of code objects, and of their per-thread copies
  // thread, frame
  words.insert(words.end(), {400, 0, l.thread_next, 16, l.thread_frame, l.thread_id, l.native_thread_id, 200, 40});
  words.insert(words.end(), {newer ? 88u : l.frame_size, l.frame_back, l.frame_code, l.frame_instruction, 72,
                             newer ? 74u : l.frame_entry});
  if (newer) words.insert(words.end(), {64, 0});  // stackpointer, tlbc_index
  words.insert(words.end(), {l.code_size, l.code_file, 120, l.code_name, l.code_lines, l.code_first_line, 52, 96, 104,
                             l.code_bytes});
  if (newer) words.push_back(0);  // co_tlbc
  // objects, types, tuples, lists, sets, dictionaries, floats, integers, bytes, texts
  words.insert(words.end(), {16, l.object_type, 400, 24, 88, 168, 24, 24, 16, 40, 24, 16});
  if (newer) words.insert(words.end(), {200, 24, 40, 32});
  words.insert(words.end(),
               {48, 32, 40, 24, 16, 24, 16, 24, 40, 16, 32, 64, l.text_state, l.text_length, l.text_ascii});
  for (size_t i = 0; i < words.size(); ++i) memory->Put(at + 8 * i, words[i]);
  memory->PutBytes(at, "xdebugpy");
  return at;
}

PythonLayout LayoutFor(int minor) {
  if (minor < 14) return *LayoutOf(minor);
  FakeMemory memory;
  bool free_threaded = true;
  const auto layout = LayoutFromDebugOffsets(memory, Offsets(&memory, minor), &free_threaded);
  EXPECT_TRUE(layout);
  EXPECT_FALSE(free_threaded);
  return layout.value_or(PythonLayout());
}

class EveryVersion : public ::testing::TestWithParam<int> {};

TEST_P(EveryVersion, ThreadsFramesAndLinesAreFoundByTheLayout) {
  const PythonLayout layout = LayoutFor(GetParam());
  FakePython python(layout);
  const std::string lines = TwoLines(layout.lines);
  const uint64_t inner = python.Code(python.Text("Loader.__next__"),
                                     "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 10, lines);
  const uint64_t outer = python.Code(python.WideText(u"tr\u00e4in"), "/home/u/train.py", 10, lines);
  uint64_t frame = 0;
  const bool shim = layout.entry == PythonLayout::Entry::kShim;
  if (shim) frame = python.Frame(python.runtime, 0, 0, GetParam() >= 14 ? 4 : 3);
  frame = python.Frame(outer, 4, frame, layout.entry == PythonLayout::Entry::kFlag ? 1 : 0);
  if (shim) frame = python.Frame(python.runtime, 0, frame, 3);
  frame = python.Frame(inner, 4, frame, layout.entry == PythonLayout::Entry::kFlag ? 1 : 0);
  frame = python.Frame(inner, 2, frame, 0);
  const uint64_t idle = python.Thread(0, 0x7000, 11);
  const uint64_t state = python.Thread(frame, 0x8000, 12);
  uint64_t lock = python.runtime + layout.gil;
  if (layout.gil_pointer != 0) {
    lock = python.memory.Room(64);
    python.memory.Put(python.interpreter + layout.gil_pointer, lock);
  }
  python.memory.Put(lock + layout.gil_holder, state);
  python.memory.Put(lock + layout.gil_locked, int32_t{1});

  const std::vector<PythonThread> threads = ReadPythonThreads(python.memory, layout, python.runtime);
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].state, state);
  EXPECT_EQ(threads[0].thread_id, 0x8000u);
  EXPECT_EQ(threads[0].native_id, GetParam() >= 11 ? 12u : 0u);
  EXPECT_TRUE(threads[0].holds_lock);
  EXPECT_FALSE(threads[1].holds_lock);

  bool truncated = true;
  EXPECT_TRUE(ReadPythonFrames(python.memory, layout, idle, 10, &truncated).empty());
  const std::vector<PythonFrameRef> refs = ReadPythonFrames(python.memory, layout, state, 10, &truncated);
  ASSERT_EQ(refs.size(), 3u);
  EXPECT_FALSE(truncated);
  PythonCode code(python.memory, layout);
  std::vector<std::string> texts;
  std::vector<bool> outermost;
  for (const PythonFrameRef& ref : refs) {
    const std::optional<PythonFrame> described = code.Describe(ref);
    ASSERT_TRUE(described);
    texts.push_back(described->function + " " + described->file + ":" + std::to_string(described->line));
    outermost.push_back(described->outermost_of_call);
  }
  EXPECT_THAT(texts,
              ElementsAre("Loader.__next__ torch/utils/data/dataloader.py:10",
                          "Loader.__next__ torch/utils/data/dataloader.py:12", "tr\u00e4in /home/u/train.py:12"));
  EXPECT_THAT(outermost, ElementsAre(layout.entry == PythonLayout::Entry::kEveryFrame, true, true));

  EXPECT_EQ(ReadPythonFrames(python.memory, layout, state, 2, &truncated).size(), 2u);
  EXPECT_TRUE(truncated);
}

TEST_P(EveryVersion, CyclesEndAndNonsenseIsNotAFrame) {
  const PythonLayout layout = LayoutFor(GetParam());
  FakePython python(layout);
  const uint64_t code = python.Code(python.Text("f"), "f.py", 1, "");
  const uint64_t frame = python.Frame(code, 0, 0);
  python.memory.Put(frame + layout.frame_back, frame);
  const uint64_t state = python.Thread(frame, 1, 1);
  python.memory.Put(state + layout.thread_next, state);
  python.memory.Put(python.interpreter + layout.interpreter_next, python.interpreter);
  EXPECT_EQ(ReadPythonThreads(python.memory, layout, python.runtime).size(), 1u);
  bool truncated = false;
  EXPECT_EQ(ReadPythonFrames(python.memory, layout, state, 64, &truncated).size(), 64u);
  EXPECT_TRUE(truncated);
  PythonCode codes(python.memory, layout);
  EXPECT_FALSE(codes.Describe({python.runtime, 0, false}));
  EXPECT_FALSE(codes.Describe({1, 0, false}));
}

TEST_P(EveryVersion, DamagedMemoryIsHarmless) {
  const PythonLayout layout = LayoutFor(GetParam());
  FakePython python(layout);
  const uint64_t code = python.Code(python.Text("function"), "file.py", 1, TwoLines(layout.lines));
  uint64_t frame = 0;
  for (int i = 0; i < 5; ++i) frame = python.Frame(code, 4, frame);
  const uint64_t state = python.Thread(frame, 1, 1);
  std::mt19937 random(11);
  std::vector<uint64_t> addresses;
  for (const auto& [address, byte] : python.memory.bytes_) addresses.push_back(address);
  for (int i = 0; i < 300; ++i) {
    FakeMemory damaged = python.memory;
    for (int k = 0; k < 200; ++k)
      damaged.bytes_[addresses[random() % addresses.size()]] = static_cast<uint8_t>(random());
    ReadPythonThreads(damaged, layout, python.runtime);
    bool truncated = false;
    PythonCode codes(damaged, layout);
    for (const PythonFrameRef& ref : ReadPythonFrames(damaged, layout, state, 32, &truncated)) codes.Describe(ref);
  }
}

INSTANTIATE_TEST_SUITE_P(Python, EveryVersion, ::testing::Range(kOldestPython, kNewestPython + 1),
                         [](const auto& info) { return "v3_" + std::to_string(info.param); });

TEST(PythonLayout, UnknownVersionsHaveNoLayout) {
  EXPECT_FALSE(LayoutOf(7));
  EXPECT_FALSE(LayoutOf(14)) << "only the process itself has this layout";
  FakeMemory memory;
  const uint64_t at = memory.Room(80 * 8);
  bool free_threaded = false;
  EXPECT_FALSE(LayoutFromDebugOffsets(memory, at, &free_threaded));
  memory.PutBytes(at, "xdebugpy");
  for (const uint64_t version : {0x030d00f0u, 0x030e00f0u}) {
    memory.Put(at + 8, version);
    EXPECT_FALSE(LayoutFromDebugOffsets(memory, at, &free_threaded)) << "a frame has size 0";
  }
  EXPECT_TRUE(LayoutFromDebugOffsets(memory, Offsets(&memory, 13), &free_threaded));
  EXPECT_FALSE(LayoutFromDebugOffsets(memory, Offsets(&memory, 15), &free_threaded)) << "the fields have changed again";
  EXPECT_FALSE(free_threaded);
  EXPECT_FALSE(LayoutFromDebugOffsets(memory, Offsets(&memory, 14, true), &free_threaded));
  EXPECT_TRUE(free_threaded);
}

TEST(PythonLine, CodeWithoutALineHasNone) {
  EXPECT_EQ(PythonLine(PythonLayout::Lines::kRanges, std::string("\x04\x00\x04\x80\x04\x01", 6), 7, 5), 0u);
  EXPECT_EQ(PythonLine(PythonLayout::Lines::kRanges, std::string("\x04\x00\x04\x80\x04\x01", 6), 7, 9), 8u);
  EXPECT_EQ(PythonLine(PythonLayout::Lines::kLocations, std::string("\xf9", 1), 7, 1), 0u);
  EXPECT_EQ(PythonLine(PythonLayout::Lines::kLocations, std::string("\xe8\x05", 2), 7, 0), 5u)
      << "line numbers may decrease";
  EXPECT_EQ(PythonLine(PythonLayout::Lines::kLnotab, std::string("\x02\xff\x02\x05", 4), 7, 2), 6u);
  EXPECT_EQ(PythonLine(PythonLayout::Lines::kLocations, "\x01", 7, 0), 0u);
}

TEST(PythonFile, IsShownFromThePackageOn) {
  EXPECT_EQ(ShortPythonFile("/opt/conda/lib/python3.10/site-packages/torch/serialization.py"),
            "torch/serialization.py");
  EXPECT_EQ(ShortPythonFile("/usr/lib/python3.11/threading.py"), "python3.11/threading.py");
  EXPECT_EQ(ShortPythonFile("/home/me/train.py"), "/home/me/train.py");
  EXPECT_EQ(ShortPythonFile("<frozen importlib._bootstrap>"), "<frozen importlib._bootstrap>");
}

}  // namespace
}  // namespace lockstep
