// The check verb: runs a job's first steps, and looks for faults in its calls.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/scratch_folder.h"
#include "analyzer/util/time_text.h"
#include "collector/common/say.h"
#include "collector/tools/check/compare.h"
#include "collector/tools/check/job.h"
#include "collector/tools/check/report.h"
#include "collector/tools/check/sites.h"

namespace lockstep::check {
namespace {

constexpr int kNothing = 0, kFound = 1, kCouldNot = 3;

// Loads the rings if the job called NCCL, otherwise the dumps of PyTorch's Flight Recorder.
absl::StatusOr<Bundle> LoadRecords(const std::string& folder, bool cut) {
  absl::StatusOr<Bundle> rings = LoadPaths({RecordsIn(folder)});
  const bool calls =
      rings.ok() && std::any_of(rings->ranks.begin(), rings->ranks.end(), [](const Rank& r) { return !r.ops.empty(); });
  if (calls) return rings;
  std::vector<std::string> torch = {DumpsIn(folder)};
  if (cut) torch.push_back(StacksIn(folder));
  std::erase_if(torch, [](const std::string& path) { return NamesIn(path, 1).empty(); });
  return torch.empty() ? rings : LoadPaths(torch);
}

// Adds what check itself observed when it ended the job at the time limit.
void AddLastLook(const JobEnd& end, Bundle* bundle) {
  for (Rank& rank : bundle->ranks) {
    const auto sample = end.running.find(rank.rank);
    if (sample != end.running.end() && rank.process.sample_gap_ns == 0) {
      rank.process.state = sample->second.state;
      rank.process.wchan = sample->second.wchan;
      rank.process.cpu_ns_between_samples = sample->second.cpu_ns_between_samples;
      rank.process.io_bytes_between_samples = sample->second.io_bytes_between_samples;
      rank.process.sample_gap_ns = sample->second.sample_gap_ns;
    }
    // A dump contains no time, and its file's time may be too late.
    if (rank.source == Source::kFlightRecorder && !rank.set_back) {
      rank.captured_ns = end.cut_ns;
      for (const Op& op : rank.ops) rank.captured_ns = std::max(rank.captured_ns, op.enter_ns);
    }
  }
}

// Returns why this round allows no conclusion although its calls could be read; empty if it does.
std::string WhyUnsure(const JobOptions& options, const JobEnd& end, const Found& found) {
  const std::string after = WholeDurationText(options.end_after_ns);
  std::string none;
  if (found.calls == 0)
    none =
        NamesIn(DumpsIn(options.folder), 1).empty()
            ? "no call was recorded: no rank called NCCL, or finished init_process_group of torch.distributed, or the "
              "output above shows the reason"
            : "no collective was recorded (PyTorch does not record gloo's sends and receives)";
  if (!found.unfinished.empty())
    return absl::StrCat("the job had not finished after ", after,
                        none.empty() ? "; its calls until then show no fault" : absl::StrCat("; ", none));
  if (end.cut_ns > 0) return none.empty() ? "" : absl::StrCat(none, " in ", after);
  const std::string why = end.status == 0 ? "" : absl::StrCat("the job exited with status ", end.status);
  if (!none.empty()) return absl::StrCat(none, why.empty() ? "" : "; ", why);
  return why.empty() ? "" : absl::StrCat(why, "; its calls until then show no fault");
}

// Returns why this round allows no conclusion; empty if it does.
std::string Judge(const JobOptions& options, const absl::StatusOr<JobEnd>& end, Found* found) {
  if (!end.ok()) return std::string(end.status().message());
  if (end->status == 126 || end->status == 127)
    return absl::StrCat("'", options.command[0], "' could not be started, or exited with status ", end->status);
  absl::StatusOr<Bundle> bundle = LoadRecords(options.folder, end->cut_ns > 0);
  if (bundle.ok()) {
    AddCallSites(options.command, &*bundle);
    AnalyzeOptions analyze;
    analyze.late_after_ns = options.late_after_ns;
    if (end->cut_ns > 0) AddLastLook(*end, &*bundle);
    const HowEnded how = end->cut_ns > 0    ? HowEnded::kCut
                         : end->interrupted ? HowEnded::kInterrupted
                         : end->status == 0 ? HowEnded::kWell
                                            : HowEnded::kFailed;
    AnalyzeAndLook(*bundle, analyze, [&](const AnalysisView& view) { *found = FindFaults(view, how); });
  }
  return found->faults.empty() ? WhyUnsure(options, *end, *found) : "";
}

int Check(const settings::ParsedOptions& parsed) {
  JobOptions job;
  job.ranks = static_cast<int>(parsed.Number("ranks"));
  job.late_after_ns = parsed.Nanoseconds("late-after");
  job.end_after_ns = parsed.Nanoseconds("seconds");
  job.command = parsed.operands();
  CheckReport report;
  report.own_libraries = parsed.Flag("own-libraries");
  job.standins = report.own_libraries ? "" : StandinFolder();
  const ScratchFolder temporary("lockstep-check");
  const std::string out = parsed.Text("out");
  if (!out.empty() && !NamesIn(out, 1).empty())
    return settings::UsageError("check", parsed.Wrong(absl::StrCat("--out: ", Printable(out), " is not empty")));
  const std::string top = !out.empty() ? out : temporary.status().ok() ? temporary.path() : "";
  report.standins = job.standins;
  std::error_code error;
  const int64_t rounds = std::max<int64_t>(1, parsed.Number("rounds"));
  for (int64_t round = 1; round <= rounds; ++round) {
    report.rounds = static_cast<int>(round);
    report.found = {};
    job.folder = std::filesystem::absolute(absl::StrCat(top, "/round-", round), error).string();
    std::filesystem::create_directories(job.folder, error);
    if (top.empty() || error) {
      report.could_not = absl::StrCat("cannot create a folder for the records: ", top.empty() ? "TMPDIR" : job.folder);
      break;
    }
    job.delays = round > 1;
    job.seed = static_cast<uint64_t>(round);
    const absl::StatusOr<JobEnd> end = RunOnce(job);
    if (end.ok()) report.end = *end;
    report.could_not = Judge(job, end, &report.found);
    if (!report.found.faults.empty() || !report.could_not.empty() || report.end.interrupted) break;
  }
  if (!out.empty()) report.folder = job.folder;
  const std::string text = parsed.Text("format") == "json" ? ReportAsJson(report) : ReportAsText(report);
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() || fflush(stdout) != 0) return kCouldNot;
  return !report.could_not.empty() ? kCouldNot : report.found.faults.empty() ? kNothing : kFound;
}

}  // namespace
}  // namespace lockstep::check

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  lockstep::SilenceLibraries();
  const absl::StatusOr<lockstep::settings::ParsedOptions> parsed = lockstep::settings::Parse("check", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("check", parsed)) return *status;
  return lockstep::check::Check(*parsed);
}
