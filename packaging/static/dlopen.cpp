// For the static program: a shared library that it opened would bring the host's C library beside the one inside, of
// another version as a rule. Only NVML and elfutils' debuginfod are ever asked for; both are told to be absent, which
// their callers say.
#include <dlfcn.h>

extern "C" {

void* dlopen(const char*, int) {
  return nullptr;
}
char* dlerror() {
  static char text[] = "a static program opens no shared library; the distribution's package of Lockstep can";
  return text;
}
void* dlsym(void*, const char*) {
  return nullptr;
}
int dlclose(void*) {
  return -1;
}

}  // extern "C"
