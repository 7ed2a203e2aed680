// Reads symbols, unwind tables and debug information from a code file of a foreign process. An input is the offset in
// the file at which a thread executes (three bytes, little endian), and the file. The end of the file also serves as
// the thread's stack.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "collector/evidence/stacks/proc_maps.h"
#include "collector/evidence/stacks/stack_capture.h"
#include "collector/evidence/stacks/stack_unwind.h"
#include "tests/fuzz/accepted.h"
#include "tests/fuzz/folder.h"

namespace {

using namespace lockstep;

constexpr size_t kMostFrames = 32, kMostStack = 1024;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 64) return 0;
  const uint64_t place = data[0] | data[1] << 8 | static_cast<uint64_t>(data[2]) << 16;
  data += 3;
  size -= 3;
  const std::string path = FuzzFolder() + "/code";
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) abort();
  close(fd);
  const size_t bytes = (size + 4095) / 4096 * 4096;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  memcpy(memory, data, size);
  Mapping mapping;
  mapping.start = reinterpret_cast<uintptr_t>(memory);
  mapping.end = mapping.start + bytes;
  mapping.inode = 1;
  mapping.readable = mapping.executable = true;
  mapping.path = path;
  ThreadCapture thread;
  thread.tid = thread.inner_tid = getpid();
  thread.have_pc = thread.all_registers = true;
  thread.pc = mapping.start + place % size;
  thread.stack_base = 0x7000'0000;
  const size_t stack = std::min(size, kMostStack);
  thread.stack.assign(data + size - stack, data + size);
  thread.registers[kStackPointerRegister] = thread.stack_base;
  {
    Unwinder unwinder(getpid(), {mapping});
    const std::vector<MappedFile> files = MappedFiles({mapping});
    const uint64_t runtime = unwinder.Symbol(files[0], "_PyRuntime");
    const Unwinder::Addresses addresses = unwinder.Unwind(thread, kMostFrames);
    if (addresses.pcs.empty() || addresses.pcs.size() > kMostFrames) abort();
    bool named = false;
    for (const uint64_t pc : addresses.pcs) named |= !unwinder.Describe(pc).function().empty();
    for (const uint64_t pc : addresses.pcs) unwinder.AddLine(pc);
    if (unwinder.Modules().size() > 1) abort();
    fuzz_accepted += named || runtime != 0 ? 1 : 0;
  }
  munmap(memory, bytes);
  return 0;
}
