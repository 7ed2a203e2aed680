// The GPU mark lines of a ring file alone: a few hundred bytes, cheap enough to be read a hundred times a second.
// Hostile like the rest: pread into own memory, places and numbers bounded. No dependency beyond libc and libstdc++.
#ifndef LOCKSTEP_RECORDER_RING_MARKS_H_
#define LOCKSTEP_RECORDER_RING_MARKS_H_

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

// False: the file has no such section, or its place is impossible. It does not move while the file lives.
bool FindMarks(int fd, MarksPlace* out);
// The first `lines` of them (fewer where there are fewer), by StreamSnapshot::index. False: the file does not hold them
// any more.
bool ReadMarks(int fd, const MarksPlace& place, size_t lines, std::vector<Mark>* out);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_RECORDER_RING_MARKS_H_
