// The clean verb.
#include <cstdio>
#include <ctime>
#include <string>

#include "analyzer/settings/merge.h"
#include "collector/common/retention.h"
#include "collector/rings/clean.h"

int main(int argc, char** argv) {
  lockstep::CleanOptions options;
  std::string error;
  const absl::StatusOr<lockstep::settings::Merged> merged = lockstep::settings::Merge("clean", {argv + 1, argv + argc});
  if (!merged.ok()) return fprintf(stderr, "lockstep: %s\n", std::string(merged.status().message()).c_str()), 2;
  lockstep::settings::Tell(*merged);
  lockstep::settings::Arguments arguments(argv[0], merged->words);
  if (!lockstep::ParseCleanOptions(arguments.argc(), arguments.argv(), &options, &error)) {
    fprintf(stderr, "lockstep: %s\n", merged->Explain(error).c_str());
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
  if (options.incidents.empty()) return cleaned.failed == 0 ? 0 : 1;
  lockstep::RetentionRequest request;
  request.limits = {options.keep_s, options.keep_bytes};
  request.now_s = time(nullptr);
  request.dry_run = options.dry_run;
  request.say_kept = true;
  request.say = [](const std::string& line) { puts(line.c_str()); };
  const absl::StatusOr<lockstep::Retained> done = lockstep::RetainIncidents(options.incidents, request);
  if (!done.ok()) {
    fprintf(stderr, "lockstep: %s\n", std::string(done.status().message()).c_str());
    return 2;
  }
  printf("%s %d incident%s, %llu MiB; kept %d\n", options.dry_run ? "would remove" : "removed", done->removed,
         done->removed == 1 ? "" : "s", static_cast<unsigned long long>(done->removed_bytes >> 20), done->kept);
  return cleaned.failed == 0 && done->failed == 0 ? 0 : 1;
}
