// The GPU mark lines of a ring file alone: a few hundred bytes, cheap enough to be read a hundred times a second.
// Hostile input: pread into own memory, places and numbers bounded. No dependency beyond libc and libstdc++.
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

// False: the file has no such section, or its place is impossible. The place is constant.
bool FindMarks(int fd, MarksPlace* out);
// The first `lines` of them (or fewer), by StreamSnapshot::index. False: the file is now too short.
bool ReadMarks(int fd, const MarksPlace& place, size_t lines, std::vector<Mark>* out);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_RECORDER_RING_MARKS_H_
