// lockstep-analyze: reads a recording and reports what stopped the job.
#include <google/protobuf/stubs/logging.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/browser/explore/explore.h"
#include "analyzer/cli/terminal_progress.h"
#include "analyzer/engine/engine.h"
#include "analyzer/engine/replay/conclude.h"
#include "analyzer/engine/replay/judge.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/model/topology.h"
#include "analyzer/report/before.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/report.h"
#include "analyzer/report/roofline.h"
#include "analyzer/report/start.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/interrupt.h"
#include "analyzer/util/large_pages.h"
#include "analyzer/util/system.h"

namespace lockstep {
namespace {

constexpr int kUsage = 2, kFailed = 3;

absl::Status Write(const std::string& path, std::string_view text) {
  AtomicFile file = AtomicFile::Output(path.empty() ? "-" : path, ".lockstep-report.");
  if (absl::Status status = file.Append(text); !status.ok()) return status;
  return file.Commit();
}

// A terminal gets its own width, and colors unless NO_COLOR is set. A file or a pipe gets 80 columns without colors.
TextStyle StyleFor(const std::string& output) {
  TextStyle style;
  winsize window{};
  if (!output.empty() || ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0) return style;
  if (window.ws_col > 0) style.width = std::clamp<size_t>(window.ws_col, 40, 160);
  style.color = EnvironmentValue("NO_COLOR").empty() && EnvironmentValue("TERM") != "dumb";
  return style;
}

int Run(const settings::ParsedOptions& options) {
  const std::vector<std::string>& paths = options.operands();
  if (options.Flag("json-schema")) return Write("", JsonSchema()).ok() ? 0 : kFailed;
  if (paths.empty()) return settings::UsageError("analyze", options.Wrong("no PATH given"));
  const std::string format = options.Text("format"), output = options.Text("output");
  const absl::StatusOr<Roofline> roofline = ReadRoofline(options.Number("line-rate"), options.List("nccl-tests"));
  if (!roofline.ok()) return settings::Complain("analyze", roofline.status().message(), kUsage);
  InterruptWatch& interrupts = *new InterruptWatch;  // lives as long as the program
  LoadProgress load;
  auto progress = std::make_unique<TerminalProgress>("lockstep analyze", load);
  LoadLimits limits;
  limits.job = options.Text("job");
  // Never freed: the program ends soon, and freeing millions of small pieces takes time.
  static auto& bundle = *new absl::StatusOr<Bundle>(LoadPaths(paths, &load, limits));
  const auto complain = [&](const absl::Status& wrong, int exit_status) {
    const auto quiet = progress->EndLine();
    return settings::Complain("analyze", wrong.message(), exit_status);
  };
  if (!bundle.ok()) return complain(bundle.status(), absl::IsInvalidArgument(bundle.status()) ? kUsage : kFailed);
  const absl::StatusOr<Redactor> redactor = MakeRedactor(ParseRedactLevel(options.Text("redact")).value());
  if (!redactor.ok()) return complain(redactor.status(), kUsage);
  redactor->Redact(&*bundle);
  if (const std::string topology = options.Text("topology"); !topology.empty()) {
    if (const absl::Status added = AddTopology(topology, &*bundle); !added.ok()) return complain(added, kUsage);
  }
  progress->Doing(absl::StrCat("analyzing ", bundle->ranks.size(), bundle->ranks.size() == 1 ? " rank" : " ranks"));
  AnalyzeOptions analyze;
  analyze.late_after_ns = options.Nanoseconds("late-after");
  const std::string replay = options.Text("replay");
  Verdict verdict = replay == "auto" ? replay::Conclude(*bundle, analyze)
                                     : WithCircumstances(replay == "yes" ? replay::AnalyzeAndProve(*bundle, analyze)
                                                                         : Analyze(*bundle, analyze),
                                                         *bundle);
  SetRooflines(*roofline, &verdict);
  Before before;
  if (const std::string archive = options.Text("archive"); !archive.empty()) {
    progress->Doing("querying the archive");
    const int64_t captured = paths.size() == 1 ? CapturedRealNs(paths[0]) : 0;
    before = AskBefore(archive, verdict, captured);
    Roofline ever;
    ever.archive = AskBest(archive, verdict, captured);
    SetRooflines(ever, &verdict);
  }
  MergedStacks stacks;
  const bool page = format == "html" || format == "explore";
  if (page && paths.size() == 1) stacks = StacksOf(paths[0]);
  redactor->Redact(&stacks);
  progress->Doing("writing the report");
  std::string report = format == "json"       ? ReportJson(verdict, before)
                       : format == "html"     ? ReportHtml(verdict, *bundle, &stacks, before)
                       : format == "explore"  ? ExplorePage(*bundle, verdict, stacks)
                       : options.Flag("full") ? ReportText(verdict, *bundle, before)
                                              : VerdictText(verdict, *bundle, before, StyleFor(output));
  if (options.Flag("start") && format == "text") report += "\n" + StartUpReport(verdict);
  if (options.Flag("speed") && format == "text") report += "\n" + SpeedReport(verdict);
  const std::string timing = options.Flag("timing") ? progress->Timing() : "";
  progress.reset();  // removes the progress line before the report is printed
  std::unique_lock<std::mutex> whole;
  struct stat info;
  const bool is_file = !output.empty() && (stat(output.c_str(), &info) != 0 || S_ISREG(info.st_mode));
  if (is_file) whole = std::unique_lock(interrupts.writing());
  if (const absl::Status written = Write(output, report); !written.ok())
    return settings::Complain("analyze", written.message(), kFailed);
  fputs(timing.c_str(), stderr);
  return ExitStatus(verdict);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // the reader of a file already reports its errors
  lockstep::UseLargePages(argv);
  return lockstep::settings::RunVerb("analyze", argc, argv, lockstep::Run);
}
