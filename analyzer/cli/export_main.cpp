// lockstep-export: recordings for other people's tools.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/cli/terminal_progress.h"
#include "analyzer/engine/engine.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/export/export.h"
#include "analyzer/load/load.h"
#include "analyzer/report/words.h"
#include "analyzer/settings/merge.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/interrupt.h"

#ifndef LOCKSTEP_VERSION
#define LOCKSTEP_VERSION "0.1.0"
#endif

namespace lockstep {
namespace {

constexpr int kUsage = 2, kFailed = 3;

constexpr char kHelp[] =
    "Usage: lockstep export PATH... --perfetto FILE | --chrome FILE | --csv FILE [OPTION]...\n"
    "Write a recording in a form that other tools read.\n"
    "\n"
    "PATH is what lockstep analyze reads. More than one of the three may be given.\n"
    "\n"
    "  --perfetto FILE         a trace for ui.perfetto.dev: hosts, ranks, threads, streams, and arrows\n"
    "                          from those that wait to the culprit\n"
    "  --chrome FILE           the same as Chrome's trace JSON\n"
    "  --csv FILE              one line an operation (RFC 4180), with a header line\n"
    "  --ranks A-B[,C-D...]    these ranks only\n"
    "  --around-stop SECONDS   only what lies this close to the moment the job stopped\n"
    "  --redact LEVEL          take names out first: no, paths or stacks, as lockstep analyze does (LOCKSTEP_REDACT)\n"
    "  -h, --help              show this and exit\n"
    "      --version           show the version and exit\n"
    "\n"
    "FILE appears whole or not at all; - is standard output.\n"
    "Exit status: 0 written; 2 wrong usage; 3 nothing readable, or a file could not be written; 130 ended by\n"
    "Ctrl-C, with nothing half-written.\n";

struct Options {
  std::vector<std::string> paths;
  std::string perfetto, chrome, csv;
  ExportOptions select;
  RedactLevel redact = RedactLevel::kNo;
  bool help = false, version = false;
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
      continue;
    }
    if (argument == "-h" || argument == "--help") {
      options->help = true;
      continue;
    }
    if (argument == "--version") {
      options->version = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name(argument.substr(0, equals));
    if (name != "--perfetto" && name != "--chrome" && name != "--csv" && name != "--ranks" && name != "--around-stop" &&
        name != "--redact")
      return absl::StrCat("unknown option ", Printable(name, 100));
    if (equals == std::string_view::npos && ++i >= argc) return absl::StrCat("option ", name, " needs a value");
    const std::string value(equals == std::string_view::npos ? std::string_view(argv[i]) : argument.substr(equals + 1));
    if (name == "--ranks") {
      if (!ParseRankRanges(value, &options->select.ranks))
        return absl::StrCat("--ranks ", Printable(value, 100), " is no list like 0-7,16");
    } else if (name == "--redact") {
      const absl::StatusOr<RedactLevel> level = ParseRedactLevel(value);
      if (!level.ok()) return std::string(level.status().message());
      options->redact = *level;
    } else if (name == "--around-stop") {
      double seconds = 0;
      if (!absl::SimpleAtod(value, &seconds) || !std::isfinite(seconds) || seconds < 0 || seconds > 1e9)
        return absl::StrCat("--around-stop ", Printable(value, 100), " is no number of seconds");
      options->select.around_stop_ns = static_cast<int64_t>(seconds * 1e9);
    } else {
      if (value.empty()) return absl::StrCat("option ", name, " needs a file name");
      (name == "--perfetto" ? options->perfetto : name == "--chrome" ? options->chrome : options->csv) = value;
    }
  }
  if (options->help || options->version) return "";
  if (options->paths.empty()) return "no PATH given";
  if (options->perfetto.empty() && options->chrome.empty() && options->csv.empty())
    return "none of --perfetto, --chrome, --csv given";
  if ((options->perfetto == "-") + (options->chrome == "-") + (options->csv == "-") > 1)
    return "only one of them can go to standard output";
  return "";
}

int Complain(const std::string& text, int status) {
  fprintf(stderr, "lockstep export: %s\n", Printable(text).c_str());
  return status;
}

using Exporter = absl::StatusOr<ExportCounts> (*)(const Bundle&, const Verdict&, const ExportOptions&,
                                                  const ExportWriter&);

// Empty: written. Else what is wrong.
std::string Write(const std::string& path, Exporter exporter, const Bundle& bundle, const Verdict& verdict,
                  const ExportOptions& select, InterruptWatch* interrupts, TerminalProgress* progress) {
  AtomicFile file = AtomicFile::Output(path, ".lockstep-export.");
  struct stat info;
  // Of a pipe's reader nobody knows when it comes: an interrupt does not wait for it.
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
    // What is left of it after an error its destructor takes away.
    if (is_file) interrupts->Unfinished(file.temporary());
  }
  if (!status.ok()) return std::string(status.message());
  std::string text = absl::StrCat(path == "-" ? "standard output" : path, ": ", counts->operations, " operations of ",
                                  counts->ranks, counts->ranks == 1 ? " rank" : " ranks");
  if (counts->without_time > 0) absl::StrAppend(&text, "; ", counts->without_time, " carry no time");
  if (counts->left_out > 0) absl::StrAppend(&text, "; ", counts->left_out, " left out, too many at once on one row");
  const auto quiet = progress->EndLine();
  fprintf(stderr, "lockstep export: %s\n", Printable(text).c_str());
  return "";
}

int Run(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  Options options;
  const absl::StatusOr<settings::Merged> merged = settings::Merge("export", {argv + 1, argv + argc});
  if (!merged.ok()) return Complain(std::string(merged.status().message()), kUsage);
  settings::Tell(*merged);
  settings::Arguments arguments(argv[0], merged->words);
  if (const std::string wrong = Parse(arguments.argc(), arguments.argv(), &options); !wrong.empty())
    return Complain(absl::StrCat(merged->Explain(wrong), "; try 'lockstep export --help'"), kUsage);
  if (options.help || options.version) {
    const bool printed =
        fputs(options.help ? kHelp : "lockstep " LOCKSTEP_VERSION "\n", stdout) >= 0 && fflush(stdout) == 0;
    return printed ? 0 : Complain(absl::StrCat("cannot write standard output: ", strerror(errno)), kFailed);
  }
  InterruptWatch& interrupts = *new InterruptWatch;  // for as long as the program runs
  std::string key;
  const absl::StatusOr<Redactor> redactor = MakeRedactor(options.redact, "", &key);
  if (!redactor.ok()) return Complain(std::string(redactor.status().message()), kUsage);
  LoadProgress load;
  TerminalProgress progress("lockstep export", load);
  absl::StatusOr<Bundle> bundle = LoadPaths(options.paths, &load);
  const auto fail = [&progress](const std::string& wrong) {
    const auto quiet = progress.EndLine();
    return Complain(wrong, kFailed);
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
  progress.Doing(absl::StrCat("analysing ", bundle->ranks.size(), bundle->ranks.size() == 1 ? " rank" : " ranks"));
  const Verdict verdict = Analyze(*bundle);
  const std::pair<const std::string*, Exporter> all[] = {
      {&options.perfetto, ExportPerfetto}, {&options.chrome, ExportChrome}, {&options.csv, ExportCsv}};
  for (const auto& [path, exporter] : all) {
    if (path->empty()) continue;
    if (const std::string wrong = Write(*path, exporter, *bundle, verdict, options.select, &interrupts, &progress);
        !wrong.empty())
      return fail(wrong);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    return lockstep::Run(argc, argv);
  } catch (const std::bad_alloc&) {
    fputs("lockstep export: out of memory; give it fewer files, or more memory\n", stderr);
    return lockstep::kFailed;
  }
}
