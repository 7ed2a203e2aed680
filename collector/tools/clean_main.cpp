// The clean verb.
#include <cstdio>
#include <ctime>
#include <string>

#include "analyzer/settings/options.h"
#include "collector/common/retention.h"
#include "collector/rings/clean.h"

int main(int argc, char** argv) {
  const absl::StatusOr<lockstep::settings::ParsedOptions> parsed = lockstep::settings::Parse("clean", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("clean", parsed)) return *status;
  lockstep::CleanOptions options;
  options.folder = parsed->Text("dir");
  options.older_than_s = parsed->Age("older-than");
  options.dry_run = parsed->Flag("dry-run");
  std::string error;
  lockstep::Cleaned cleaned;
  if (!lockstep::CleanRings(options, stdout, &cleaned, &error)) {
    fprintf(stderr, "lockstep: %s\n", error.c_str());
    return 2;
  }
  printf("%s %d ring%s, %llu KiB; kept %d\n", options.dry_run ? "would remove" : "removed", cleaned.removed,
         cleaned.removed == 1 ? "" : "s", static_cast<unsigned long long>(cleaned.bytes >> 10), cleaned.kept);
  const std::string incidents = parsed->Text("incidents");
  if (incidents.empty()) return cleaned.failed == 0 ? 0 : 1;
  lockstep::RetentionRequest request;
  request.limits = {parsed->Age("keep"), parsed->Bytes("keep-bytes")};
  request.now_s = time(nullptr);
  request.dry_run = options.dry_run;
  request.say_kept = true;
  request.say = [](const std::string& line) { puts(line.c_str()); };
  const absl::StatusOr<lockstep::Retained> done = lockstep::RetainIncidents(incidents, request);
  if (!done.ok()) {
    fprintf(stderr, "lockstep: %s\n", std::string(done.status().message()).c_str());
    return 2;
  }
  printf("%s %d incident%s, %llu MiB; kept %d\n", options.dry_run ? "would remove" : "removed", done->removed,
         done->removed == 1 ? "" : "s", static_cast<unsigned long long>(done->removed_bytes >> 20), done->kept);
  return cleaned.failed == 0 && done->failed == 0 ? 0 : 1;
}
