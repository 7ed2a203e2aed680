// Reads only the GPU marker lines of a ring file: a few hundred bytes, cheap enough for a hundred reads a second. The
// file is untrusted: it is read with pread into private memory, and positions and numbers are bounded. Depends only on
// libc and libstdc++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::ring {

struct MarksPlace {
  uint64_t offset = 0, stride = 0;
  uint32_t lines = 0;
};

struct Mark {
  uint64_t started = 0, completed = 0;  // tickets
};

// Returns false if the file is not a ring, has no marker lines, or their position is impossible. The position never
// changes.
bool FindMarks(int fd, MarksPlace* out);
// Reads the first `lines` marker lines (or fewer), indexed like StreamSnapshot::index. Returns false if the file is now
// too short.
bool ReadMarks(int fd, const MarksPlace& place, size_t lines, std::vector<Mark>* out);

}  // namespace lockstep::ring
