// lockstep-analyze: reads what was recorded and says what stopped the job.
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/cli/terminal_progress.h"
#include "analyzer/engine/engine.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/load/load.h"
#include "analyzer/model/topology.h"
#include "analyzer/report/before.h"
#include "analyzer/report/report.h"
#include "analyzer/report/start.h"
#include "analyzer/report/words.h"
#include "analyzer/settings/merge.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/interrupt.h"
#include "analyzer/util/large_pages.h"

#ifndef LOCKSTEP_VERSION
#define LOCKSTEP_VERSION "0.1.0"
#endif

namespace lockstep {
namespace {

constexpr int kUsage = 2, kFailed = 3;

constexpr char kHelp[] =
    "Usage: lockstep analyze [OPTION]... PATH...\n"
    "Say which rank stopped a distributed job, or on what its ranks disagree, and why.\n"
    "\n"
    "PATH is an incident folder, a .lsd dump, a ring file of a dead process, or PyTorch Flight Recorder\n"
    "dumps (pickle or JSON), or a folder of these; found by content. Several paths are one job.\n"
    "\n"
    "  --format FORMAT       text (default), json or html\n"
    "  --output FILE         write the report to FILE instead of standard output\n"
    "  --late-after SECONDS  an operation younger than this is no sign of a stall (default 5)\n"
    "  --topology FILE       where hosts stand: lines HOST RACK SWITCH, or Slurm's topology.conf\n"
    "      --redact LEVEL    take names out first: no, paths (folders become hashes) or stacks (also names of files, "
    "functions\n"
    "                        and threads that are not public) (LOCKSTEP_REDACT; default no)\n"
    "      --start           after the text, where the start of the job went: the making of communicators\n"
    "      --archive URL     say of the culprits whether they were culprits before, as the archive of lockstep "
    "archive\n"
    "                        knows it: http://HOST:PORT/DATABASE (LOCKSTEP_ARCHIVE; asked for 1.5 s at most)\n"
    "  -h, --help            show this and exit\n"
    "      --version         show the version and exit\n"
    "\n"
    "Exit status: 0 healthy; 1 findings, or data is missing; 2 wrong usage; 3 nothing readable, or the\n"
    "report could not be written; 130 ended by Ctrl-C, with nothing half-written.\n";

struct Options {
  std::vector<std::string> paths;
  std::string format = "text";
  std::string output, topology, archive;
  AnalyzeOptions analyze;
  RedactLevel redact = RedactLevel::kNo;
  bool help = false, version = false, start = false;
};

// Empty: understood. Else what is wrong, one line.
std::string Parse(int argc, char** argv, Options* options) {
  bool only_paths = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (only_paths || argument.size() < 2 || argument[0] != '-') {
      if (argument.empty()) return "an empty PATH";
      options->paths.emplace_back(argument);
      continue;
    }
    if (argument == "--") {
      only_paths = true;
    } else if (argument == "-h" || argument == "--help") {
      options->help = true;
    } else if (argument == "--version") {
      options->version = true;
    } else if (argument == "--start") {
      options->start = true;
    } else {
      const size_t equals = argument.find('=');
      const std::string_view name = argument.substr(0, equals);
      if (name != "--format" && name != "--output" && name != "--topology" && name != "--late-after" &&
          name != "--archive" && name != "--redact")
        return absl::StrCat("unknown option ", Printable(name, 100));
      std::string value;
      if (equals != std::string_view::npos) {
        value = argument.substr(equals + 1);
      } else if (++i < argc) {
        value = argv[i];
      } else {
        return absl::StrCat("option ", std::string(name), " needs a value");
      }
      if (name == "--format") {
        if (value != "text" && value != "json" && value != "html")
          return absl::StrCat("unknown format ", Printable(value, 100), "; it is text, json or html");
        options->format = value;
      } else if (name == "--output") {
        if (value.empty()) return "option --output needs a file name";
        options->output = value;
      } else if (name == "--archive") {
        if (value.empty()) return "option --archive needs a URL";
        options->archive = value;
      } else if (name == "--redact") {
        const absl::StatusOr<RedactLevel> level = ParseRedactLevel(value);
        if (!level.ok()) return std::string(level.status().message());
        options->redact = *level;
      } else if (name == "--topology") {
        if (value.empty()) return "option --topology needs a file name";
        options->topology = value;
      } else {
        double seconds = 0;
        if (!absl::SimpleAtod(value, &seconds) || !std::isfinite(seconds) || seconds < 0 || seconds > 1e9) {
          return absl::StrCat("--late-after ", Printable(value, 100), " is no number of seconds");
        }
        options->analyze.late_after_ns = static_cast<int64_t>(seconds * 1e9);
      }
    }
  }
  if (options->archive.empty()) options->archive = ArchiveFromEnvironment();
  if (!options->help && !options->version && options->paths.empty()) return "no PATH given";
  return "";
}

absl::Status Write(const std::string& path, std::string_view text) {
  AtomicFile file = AtomicFile::Output(path.empty() ? "-" : path, ".lockstep-report.");
  if (absl::Status status = file.Append(text); !status.ok()) return status;
  return file.Commit();
}

int Complain(const std::string& text, int status) {
  fprintf(stderr, "lockstep analyze: %s\n", Printable(text).c_str());
  return status;
}

int Run(int argc, char** argv) {
  // A reader that went away is an error of write(), not the end of this process without a word.
  signal(SIGPIPE, SIG_IGN);
  Options options;
  const absl::StatusOr<settings::Merged> merged = settings::Merge("analyze", {argv + 1, argv + argc});
  if (!merged.ok()) return Complain(std::string(merged.status().message()), kUsage);
  settings::Tell(*merged);
  settings::Arguments arguments(argv[0], merged->words);
  if (const std::string wrong = Parse(arguments.argc(), arguments.argv(), &options); !wrong.empty()) {
    return Complain(absl::StrCat(merged->Explain(wrong), "; try 'lockstep analyze --help'"), kUsage);
  }
  std::string report;
  int status = 0;
  InterruptWatch* interrupts = nullptr;
  if (options.help) {
    report = kHelp;
  } else if (options.version) {
    report = "lockstep " LOCKSTEP_VERSION "\n";
  } else {
    static InterruptWatch& watch = *new InterruptWatch;  // for as long as the program runs
    interrupts = &watch;
    LoadProgress load;
    TerminalProgress progress("lockstep analyze", load);
    // Never freed: the program ends soon, and millions of small pieces take their time.
    static auto& bundle = *new absl::StatusOr<Bundle>(LoadPaths(options.paths, &load));
    const auto complain = [&](const absl::Status& wrong, int exit_status) {
      const auto quiet = progress.EndLine();
      return Complain(std::string(wrong.message()), exit_status);
    };
    if (!bundle.ok()) return complain(bundle.status(), kFailed);
    std::string key;
    const absl::StatusOr<Redactor> redactor = MakeRedactor(options.redact, "", &key);
    if (!redactor.ok()) return complain(redactor.status(), kUsage);
    redactor->Redact(&*bundle);
    if (!options.topology.empty()) {
      if (const absl::Status added = AddTopology(options.topology, &*bundle); !added.ok())
        return complain(added, kUsage);
    }
    progress.Doing(absl::StrCat("analysing ", bundle->ranks.size(), bundle->ranks.size() == 1 ? " rank" : " ranks"));
    const Verdict verdict = Analyze(*bundle, options.analyze);
    Before before;
    if (!options.archive.empty()) {
      progress.Doing("asking the archive");
      before = AskBefore(options.archive, verdict, options.paths.size() == 1 ? CapturedRealNs(options.paths[0]) : 0);
    }
    status = ExitStatus(verdict);
    MergedStacks stacks;
    std::string why;
    if (options.format == "html" && options.paths.size() == 1 &&
        !ReadStacks(options.paths[0] + "/stacks.json", &stacks, &why)) {
      stacks.refused = {why};
    }
    for (MergedStack& stack : stacks.stacks) {
      for (std::string& frame : stack.frames) frame = redactor->Frame(frame);
    }
    for (std::string& text : stacks.refused) text = redactor->Text(text);
    progress.Doing("writing the report");
    report = options.format == "json"   ? ReportJson(verdict, before)
             : options.format == "html" ? ReportHtml(verdict, *bundle, &stacks, before)
                                        : ReportText(verdict, *bundle, before);
    if (options.start && options.format == "text") report += "\n" + StartUpReport(verdict);
  }
  std::unique_lock<std::mutex> whole;
  struct stat info;
  const bool is_file = !options.output.empty() && (stat(options.output.c_str(), &info) != 0 || S_ISREG(info.st_mode));
  if (interrupts != nullptr && is_file) whole = std::unique_lock(interrupts->writing());
  if (const absl::Status written = Write(options.output, report); !written.ok())
    return Complain(std::string(written.message()), kFailed);
  return status;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::UseLargePages(argv);
  try {
    return lockstep::Run(argc, argv);
  } catch (const std::bad_alloc&) {
    fputs("lockstep analyze: out of memory; give it fewer files, or more memory\n", stderr);
    return lockstep::kFailed;
  }
}
