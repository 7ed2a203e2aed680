// Reads memory that the program named and that may be unmapped: a configuration's string, the variable for a late
// handle.
#ifndef LOCKSTEP_RECORDER_BASE_HOST_MEMORY_H_
#define LOCKSTEP_RECORDER_BASE_HOST_MEMORY_H_

#include <stddef.h>

namespace lockstep::recorder {

// Copies `bytes` of this process's memory. False if some of it is not mapped; `to` is then undefined. Uses system
// calls: for cold paths only.
bool ReadHostMemory(const void* from, void* to, size_t bytes) noexcept;

// Copies text up to its end, to the end of the mapping, or size - 1 bytes; appends a zero.
void ReadHostText(const char* from, char* to, size_t size) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_HOST_MEMORY_H_
