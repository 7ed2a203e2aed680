// Reads the memory of a foreign Python process. An input is a minor version (one byte, from kOldestPython on) and the
// offset of the runtime (three bytes, little endian), followed by the memory from address 65536 on; nothing else is
// readable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "collector/evidence/stacks/python_frames.h"
#include "collector/evidence/stacks/python_layout.h"
#include "collector/evidence/stacks/remote_memory.h"
#include "tests/fuzz/accepted.h"

namespace {

using namespace lockstep;

constexpr uint64_t kBase = 65536;
constexpr size_t kMostFrames = 64;

class InputMemory : public RemoteMemory {
 public:
  InputMemory(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool Read(uint64_t address, void* out, size_t size) const override {
    const uint64_t at = address - kBase;
    if (address < kBase || at > size_ || size > size_ - at) return false;
    std::copy_n(data_ + at, size, static_cast<uint8_t*>(out));
    return true;
  }

 private:
  const uint8_t* const data_;
  const size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const int minor = kOldestPython + data[0] % (kNewestPython - kOldestPython + 1);
  const uint64_t runtime = kBase + (data[1] | data[2] << 8 | static_cast<uint64_t>(data[3]) << 16);
  const InputMemory memory(data + 4, size - 4);
  bool free_threaded = false;
  std::optional<PythonLayout> layout = LayoutFromDebugOffsets(memory, runtime, &free_threaded);
  if (!layout) layout = LayoutOf(minor);
  if (!layout) return 0;
  PythonCode code(memory, *layout);
  size_t described = 0;
  std::vector<PythonThread> threads = ReadPythonThreads(memory, *layout, runtime);
  threads.resize(std::min<size_t>(threads.size(), 16));
  for (const PythonThread& thread : threads) {
    bool truncated = false;
    const std::vector<PythonFrameRef> frames = ReadPythonFrames(memory, *layout, thread.state, kMostFrames, &truncated);
    if (frames.size() > kMostFrames) std::abort();
    for (const PythonFrameRef& ref : frames) {
      const std::optional<PythonFrame> frame = code.Describe(ref);
      if (!frame) continue;
      ++described;
      // Text for a terminal must not contain control characters.
      for (const std::string& text : {frame->function, frame->file}) {
        for (const char c : text) {
          if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) std::abort();
        }
      }
    }
  }
  fuzz_accepted += described > 0 ? 1 : 0;
  return 0;
}
