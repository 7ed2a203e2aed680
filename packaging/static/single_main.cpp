// The static `lockstep`: one program that contains every command except the viewer and needs no other file.
// cmake/LockstepStatic.cmake renames each command's main() and defines LOCKSTEP_VERBS, a VERB(NAME) for each.
#include <netdb.h>
#include <nss.h>

#include "collector/common/own_programs.h"
#include "collector/tools/front.h"

extern "C" {
#define VERB(NAME) int lockstep_##NAME##_main(int, char**);
LOCKSTEP_VERBS
#undef VERB

// This function exists in glibc, also in its static library, but nss.h does not always declare it.
int __nss_configure_lookup(const char* database, const char* services);
}

int main(int argc, char** argv) {
  // Other sources for names are shared libraries of the host's glibc. These two are inside this program.
  __nss_configure_lookup("hosts", "files dns");
  for (const char* database : {"passwd", "group", "services", "protocols", "networks"})
    __nss_configure_lookup(database, "files");
  lockstep::DeclareEveryVerb();
#define VERB(NAME) {#NAME, lockstep_##NAME##_main},
  return lockstep::Front(argc, argv, {LOCKSTEP_VERBS});
}
