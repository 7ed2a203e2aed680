// The clean verb.
#include <cstdio>

#include "collector/clean.h"

int main(int argc, char** argv) {
  lockstep::CleanOptions options;
  std::string error;
  if (!lockstep::ParseCleanOptions(argc, argv, &options, &error)) {
    fprintf(stderr, "lockstep: %s\n", error.c_str());
    return 2;
  }
  if (options.help) {
    fputs(lockstep::CleanHelp(), stdout);
    return 0;
  }
  lockstep::Cleaned cleaned;
  if (!lockstep::CleanRings(options, stdout, &cleaned, &error)) {
    fprintf(stderr, "lockstep: %s\n", error.c_str());
    return 2;
  }
  printf("%s %d ring%s, %llu KiB; kept %d\n", options.dry_run ? "would remove" : "removed", cleaned.removed,
         cleaned.removed == 1 ? "" : "s", static_cast<unsigned long long>(cleaned.bytes >> 10), cleaned.kept);
  return cleaned.failed == 0 ? 0 : 1;
}
