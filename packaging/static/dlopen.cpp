// dlopen for the static program. A shared library that the program opened would load the host's C library, usually
// another version, next to the linked one. The program opens only NVML and elfutils' debuginfod. Both count as missing,
// and their callers report that.
#include <dlfcn.h>

extern "C" {

void* dlopen(const char*, int) { return nullptr; }
char* dlerror() {
  static char text[] = "a static program cannot open shared libraries; use the distribution's package of Lockstep";
  return text;
}
void* dlsym(void*, const char*) { return nullptr; }
int dlclose(void*) { return -1; }

}  // extern "C"
