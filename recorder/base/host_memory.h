// Reads memory at an address that the program passed and that may not be mapped. Examples are a string in ncclConfig_t,
// and the variable where NCCL later stores a handle.
#pragma once

#include <stddef.h>

namespace lockstep::recorder {

// Copies `bytes` of this process's memory. Returns false if some of it is not mapped; `to` is then undefined. Uses
// system calls, so only for cold paths.
bool ReadHostMemory(const void* from, void* to, size_t bytes) noexcept;

// Copies a string up to its end, the end of the mapping, or size - 1 bytes, and appends a zero.
void ReadHostText(const char* from, char* to, size_t size) noexcept;

}  // namespace lockstep::recorder
