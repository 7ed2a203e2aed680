#include "collector/run/options.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/settings/merge.h"

namespace lockstep {
namespace {

constexpr int kMaxRanks = 4096;
constexpr double kMaxSeconds = 30.0 * 86400;

absl::Status Usage(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(text, " (lockstep run --help shows the options)"));
}

absl::Status ParseSeconds(absl::string_view option, absl::string_view value, int64_t* ns) {
  double seconds = 0;
  if (!absl::SimpleAtod(value, &seconds) || !std::isfinite(seconds) || seconds <= 0 || seconds > kMaxSeconds) {
    return Usage(absl::StrCat(option, " takes a number of seconds above 0, not '", value, "'"));
  }
  *ns = static_cast<int64_t>(seconds * 1e9);
  return absl::OkStatus();
}

absl::Status Apply(absl::string_view option, absl::string_view value, RunOptions* options) {
  if (option == "-n") {
    if (!absl::SimpleAtoi(value, &options->ranks) || options->ranks < 1 || options->ranks > kMaxRanks) {
      return Usage(absl::StrCat("-n takes a number of ranks from 1 to ", kMaxRanks, ", not '", value, "'"));
    }
    return absl::OkStatus();
  }
  if (option == "--collector") {
    if (value.substr(0, 6) != "tcp://" && value.substr(0, 6) != "ipc://") {
      return Usage(absl::StrCat("--collector takes an endpoint like tcp://head:9470, not '", value, "'"));
    }
    options->collector = std::string(value);
    return absl::OkStatus();
  }
  if (option == "--out") {
    if (value.empty()) return Usage("--out takes the name of a folder");
    options->out = std::string(value);
    return absl::OkStatus();
  }
  if (option == "--group") {
    if (value.empty()) return Usage("--group takes a group's name or number");
    options->group = std::string(value);
    return absl::OkStatus();
  }
  if (option == "--gpu") {
    if (value != "off" && value != "done" && value != "full" && value != "events" && value != "watch" &&
        value != "auto") {
      return Usage(absl::StrCat("--gpu takes off, done, full, events, watch or auto, not '", value, "'"));
    }
    options->gpu = std::string(value);
    return absl::OkStatus();
  }
  if (option == "--redact") {
    const absl::StatusOr<RedactLevel> level = ParseRedactLevel({value.data(), value.size()});
    if (!level.ok()) return Usage(std::string(level.status().message()));
    options->redact = *level;
    return absl::OkStatus();
  }
  if (option == "--hang-after") return ParseSeconds(option, value, &options->hang_after_ns);
  return ParseSeconds(option, value, &options->late_after_ns);
}

}  // namespace

const char* RunHelp() {
  return R"(Usage: lockstep run [OPTIONS] -- COMMAND [ARGUMENTS...]

Runs COMMAND with the recorder preloaded, watches it, and says which rank stopped it if it stops.

  -n N                 start N ranks of COMMAND (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT are set);
                       without it COMMAND runs once, as it is (torchrun, mpirun, ...)
  --out DIR            write the incident folder here, also when the job was healthy
  --collector ENDPOINT join the job to a collector: an agent is started for its ranks, hangs and incidents are the
                       collector's, its verdict is said here (keys: lockstep agent --help, lockstep top --help)
  --group GROUP        members of this group, a name or a number, may read the incidents (LOCKSTEP_GROUP, which lets them read
                       the rings too; default: the owner alone)
  --kill-on-hang       end the job when it is hung; exit status 90 (hung) or 91 (ranks disagree)
  --gpu MODE           GPU marks: off, done, full, events, watch or auto (default: LOCKSTEP_GPU, else watch:
                       full, or events where CUDA_DEVICE_MAX_CONNECTIONS is 1)
  --profiler           NCCL's profiler interface instead of marks: kernel times, network steps, statically linked NCCL
                       (a plugin named by NCCL_PROFILER_PLUGIN is left alone)
  --late-after SECONDS a wait shorter than this is nothing to look at (default 5)
  --hang-after SECONDS call a wait this long hung whatever its root is doing; give less than the framework's own
                       watchdog has (default: a root that is seen at work is never called hung)
  --redact LEVEL       what incidents tell: no (everything), paths (folders become hashes) or stacks (also names of files,
                       functions and threads that are not public); docs/security.md (LOCKSTEP_REDACT; default no)
  --quiet              say nothing when the job was healthy
  -h, --help           this text
  -V, --version        the version

The exit status is the job's own. 2: wrong arguments; 126, 127: COMMAND could not be started.
)";
}

namespace {

absl::StatusOr<RunOptions> ParseWords(int argc, char** argv) {
  RunOptions options;
  int at = 1;
  for (; at < argc; ++at) {
    absl::string_view word = argv[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;  // the command, where somebody left out the --
    if (word == "-h" || word == "--help") {
      options.help = true;
      return options;
    }
    if (word == "-V" || word == "--version") {
      options.version = true;
      return options;
    }
    if (word == "--kill-on-hang") {
      options.kill_on_hang = true;
      continue;
    }
    if (word == "--profiler") {
      options.profiler = true;
      continue;
    }
    if (word == "--quiet") {
      options.quiet = true;
      continue;
    }
    absl::string_view option = word, value;
    bool has_value = false;
    if (const size_t equals = word.find('='); word.substr(0, 2) == "--" && equals != word.npos) {
      option = word.substr(0, equals);
      value = word.substr(equals + 1);
      has_value = true;
    } else if (word.substr(0, 2) == "-n" && word.size() > 2) {
      option = "-n";
      value = word.substr(2);
      has_value = true;
    }
    if (option != "-n" && option != "--out" && option != "--collector" && option != "--gpu" &&
        option != "--hang-after" && option != "--late-after" && option != "--redact" && option != "--group") {
      return Usage(absl::StrCat("unknown option '", word, "'"));
    }
    if (!has_value) {
      if (at + 1 >= argc) return Usage(absl::StrCat(option, " takes a value"));
      value = argv[++at];
    }
    if (absl::Status status = Apply(option, value, &options); !status.ok()) return status;
  }
  for (; at < argc; ++at) options.command.push_back(argv[at]);
  if (options.profiler && !options.gpu.empty()) return Usage("--profiler and --gpu exclude each other");
  if (!options.collector.empty() && !options.out.empty())
    return Usage("--out and --collector exclude each other: incidents are the collector's");
  if (options.command.empty()) return Usage("no command given: lockstep run [OPTIONS] -- COMMAND...");
  return options;
}

}  // namespace

absl::StatusOr<RunOptions> ParseRunOptions(int argc, char** argv) {
  const absl::StatusOr<settings::Merged> merged = settings::Merge("run", {argv + 1, argv + argc});
  if (!merged.ok()) return merged.status();
  settings::Tell(*merged);
  settings::Arguments arguments(argv[0], merged->words);
  absl::StatusOr<RunOptions> options = ParseWords(arguments.argc(), arguments.argv());
  if (!options.ok()) return absl::InvalidArgumentError(merged->Explain(std::string(options.status().message())));
  return options;
}

}  // namespace lockstep
