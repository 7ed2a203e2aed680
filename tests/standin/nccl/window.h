// A window. All members know every member's part.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace standin {

struct WindowPart {
  void* address;
  size_t size;
  int pid;
};

}  // namespace standin

struct ncclWindow_vidmem {
  ncclComm* comm;
  void* pointer;
  size_t size;
  void* registration;
  std::vector<standin::WindowPart> parts;  // indexed by member rank
};
