// Reads memory at addresses that the program passed and that may not be mapped: a string of a configuration, the
// variable of a handle that is filled in later.
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
