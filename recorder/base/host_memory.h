// Reads memory that the program passed by address and that may not be mapped. This can be a string of a configuration,
// or the variable of a handle that NCCL fills in later.
#pragma once

#include <stddef.h>

namespace lockstep::recorder {

// Copies `bytes` of this process's memory. False if some of it is not mapped; `to` is then undefined. Uses system
// calls: for cold paths only.
bool ReadHostMemory(const void* from, void* to, size_t bytes) noexcept;

// Copies a string up to its end, the end of the mapping, or size - 1 bytes, and appends a zero.
void ReadHostText(const char* from, char* to, size_t size) noexcept;

}  // namespace lockstep::recorder
