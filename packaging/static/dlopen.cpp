// dlopen for the static program. A shared library that the program opened would load the host's C library, usually of
// another version, beside the one that is linked in. The program only asks for NVML and elfutils' debuginfod. Both
// count as absent, and their callers say so.
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
