// A group whose members may read the recorder's files (LOCKSTEP_GROUP).
#pragma once

#include <stdint.h>

namespace lockstep::recorder {

// `name` is a number or a name in /etc/group. Does not use libc's look-up, which allocates and may load libraries.
// Returns -1 if there is no such group.
int64_t FindGroup(const char* name) noexcept;

// Exposed for tests: parses one line of /etc/group, without its line end. Returns -1 if the line is invalid or
// describes another group.
int64_t GroupOfLine(const char* line, const char* name) noexcept;

// Lets the group read `fd`, a file or folder that the recorder created. Returns false if that is not permitted; then
// only the owner can read it.
bool LetGroupRead(long fd, int64_t group, bool folder) noexcept;

}  // namespace lockstep::recorder
