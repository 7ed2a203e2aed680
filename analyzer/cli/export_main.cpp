// lockstep-export: converts recordings for other tools.
#include <google/protobuf/stubs/logging.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/cli/terminal_progress.h"
#include "analyzer/engine/engine.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/export/export.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/interrupt.h"

namespace lockstep {
namespace {

constexpr int kFailed = 3;

// Returns an empty string if the file was written, otherwise the error.
std::string Write(const std::string& path, ExportFunction exporter, const Bundle& bundle, const Verdict& verdict,
                  const ExportOptions& select, InterruptWatch* interrupts, TerminalProgress* progress) {
  AtomicFile file = AtomicFile::Output(path, ".lockstep-export.");
  struct stat info;
  // A pipe may have no reader yet, and an interrupt must not wait for one.
  const bool is_file = path != "-" && (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode));
  const auto locked = [&] {
    return is_file ? std::unique_lock(interrupts->writing()) : std::unique_lock<std::mutex>();
  };
  progress->Doing(absl::StrCat("writing ", path == "-" ? "standard output" : Printable(path)));
  {
    const std::unique_lock<std::mutex> lock = locked();
    if (const absl::Status opened = file.Append(""); !opened.ok()) return std::string(opened.message());
    if (is_file) interrupts->Unfinished(file.temporary());
  }
  const absl::StatusOr<ExportCounts> counts =
      exporter(bundle, verdict, select, [&file](std::string_view bytes) { return file.Append(bytes); });
  absl::Status status = counts.status();
  {
    const std::unique_lock<std::mutex> lock = locked();
    if (counts.ok()) status = file.Commit();
    // After an error, the file's destructor removes the unfinished file.
    if (is_file) interrupts->Unfinished(file.temporary());
  }
  if (!status.ok()) return std::string(status.message());
  std::string text = absl::StrCat(path == "-" ? "standard output" : path, ": ", counts->operations, " operations of ",
                                  counts->ranks, counts->ranks == 1 ? " rank" : " ranks");
  if (counts->without_time > 0) absl::StrAppend(&text, "; ", counts->without_time, " without times");
  if (counts->left_out > 0)
    absl::StrAppend(&text, "; ", counts->left_out, " omitted, because too many overlap in one row");
  const auto quiet = progress->EndLine();
  fprintf(stderr, "lockstep export: %s\n", Printable(text).c_str());
  return "";
}

int Run(const settings::ParsedOptions& options) {
  std::vector<std::pair<std::string, const ExportFormat*>> files;
  for (const ExportFormat& format : kExportFormats) {
    if (options.Given(format.name)) files.emplace_back(options.Text(format.name), &format);
  }
  if (files.empty()) {
    const auto option = [](std::string* out, const ExportFormat& format) { absl::StrAppend(out, "--", format.name); };
    return settings::UsageError(
        "export", options.Wrong(absl::StrCat("none of ", absl::StrJoin(kExportFormats, ", ", option), " given")));
  }
  if (std::count_if(files.begin(), files.end(), [](const auto& file) { return file.first == "-"; }) > 1)
    return settings::UsageError("export", options.Wrong("only one of these files can be standard output"));
  ExportOptions select;
  select.ranks = options.Ranks("ranks");
  if (options.Given("around-stop")) select.around_stop_ns = options.Nanoseconds("around-stop");
  InterruptWatch& interrupts = *new InterruptWatch;  // lives as long as the program
  const absl::StatusOr<Redactor> redactor = MakeRedactor(ParseRedactLevel(options.Text("redact")).value());
  if (!redactor.ok()) return settings::UsageError("export", redactor.status());
  LoadProgress load;
  TerminalProgress progress("lockstep export", load);
  absl::StatusOr<Bundle> bundle = LoadPaths(options.operands(), &load);
  const auto fail = [&progress](const std::string& wrong) {
    const auto quiet = progress.EndLine();
    return settings::Complain("export", wrong, kFailed);
  };
  if (!bundle.ok()) return fail(std::string(bundle.status().message()));
  redactor->Redact(&*bundle);
  {
    const auto quiet = progress.EndLine();
    for (const Problem& problem : bundle->problems) {
      if (problem.note && problem.path.empty())
        fprintf(stderr, "lockstep export: %s\n", Printable(problem.text).c_str());
    }
  }
  progress.Doing(absl::StrCat("analyzing ", bundle->ranks.size(), bundle->ranks.size() == 1 ? " rank" : " ranks"));
  const Verdict verdict = Analyze(*bundle);
  for (const auto& [path, format] : files) {
    if (const std::string wrong = Write(path, format->write, *bundle, verdict, select, &interrupts, &progress);
        !wrong.empty())
      return fail(wrong);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // the reader of a file already reports its errors
  return lockstep::settings::RunVerb("export", argc, argv, lockstep::Run);
}
