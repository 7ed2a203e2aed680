// A group whose members may read the recorder's files (LOCKSTEP_GROUP).
#ifndef LOCKSTEP_RECORDER_BASE_READING_GROUP_H_
#define LOCKSTEP_RECORDER_BASE_READING_GROUP_H_

#include <stdint.h>

namespace lockstep::recorder {

// A number, or a name of /etc/group; libc's own look-up allocates and may load libraries. -1: no such name.
int64_t FindGroup(const char* name) noexcept;

// For tests: parses one line of such a file, without its line end. -1: another group's line, or not such a line.
int64_t GroupOfLine(const char* line, const char* name) noexcept;

// Lets the group read `fd`, a file or folder that the recorder made. False: not permitted, and only the owner can read
// it.
bool LetGroupRead(long fd, int64_t group, bool folder) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_READING_GROUP_H_
