// The doctor verb: says of this host what works and what does not, one line each, and what to do about it.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/settings/merge.h"
#include "collector/common/say.h"
#include "collector/tools/doctor/check.h"
#include "collector/tools/doctor/configuration_check.h"
#include "collector/tools/doctor/host_checks.h"
#include "collector/tools/doctor/network_checks.h"
#include "collector/tools/doctor/recorder_checks.h"
#include "collector/wire/tool_client.h"

namespace lockstep {
namespace {

constexpr int kUsage = 2;
constexpr int64_t kAnswerNs = 3'000'000'000;

struct DoctorOptions {
  std::string nccl;
  int ranks = 0;
  bool json = false, help = false, version = false;
};

absl::StatusOr<DoctorOptions> Parse(const std::vector<std::string>& words) {
  DoctorOptions options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (word == "-h" || word == "--help") {
      options.help = true;
    } else if (word == "-V" || word == "--version") {
      options.version = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (name == "--nccl" || name == "--ranks") {
      if (equals == std::string::npos && i + 1 == words.size())
        return absl::InvalidArgumentError(absl::StrCat(word, " needs a value"));
      const std::string value = equals == std::string::npos ? words[++i] : word.substr(equals + 1);
      if (value.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
      if (name == "--nccl") {
        options.nccl = value;
      } else if (!absl::SimpleAtoi(value, &options.ranks) || options.ranks < 1 || options.ranks > 1024) {
        return absl::InvalidArgumentError(absl::StrCat("--ranks takes a number from 1 to 1024, not '", value, "'"));
      }
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unknown argument '", word, "'"));
    }
  }
  return options;
}

void Help() {
  printf(
      "Usage: lockstep doctor [OPTIONS]\n\n"
      "Checks this host: is there room for rings, are NCCL calls recorded (by a small program that makes some, and by "
      "the\n"
      "NCCL found here, with every GPU hidden), can stacks be read, are keys valid, does the collector answer. Run it "
      "where\n"
      "the job runs: in its container, with its environment.\n\n"
      "%s"
      "  --nccl PATH           the libnccl.so.2 that the job loads (otherwise those found where programs look)\n"
      "  --ranks N             ranks on this host (default 8)\n"
      "  --json                as JSON\n"
      "  -h, --help            this text\n"
      "  -V, --version         the version\n\n"
      "Exit status: 0 all that is needed works, 1 something does not, 2 wrong arguments.\n",
      kToolOptionsHelp);
}

// A file that cannot be read is one of the things to tell, and no reason not to look at the others.
std::vector<std::string> WithNoConfig(std::vector<std::string> words) {
  words.insert(words.begin(), "--no-config");
  return words;
}

int Main(int argc, char** argv) {
  absl::StatusOr<settings::Merged> merged = settings::Merge("doctor", {argv + 1, argv + argc});
  const absl::Status configuration = merged.status();
  if (!merged.ok()) merged = settings::Merge("doctor", WithNoConfig({argv + 1, argv + argc}));
  if (!merged.ok()) return Say(merged.status().message()), kUsage;
  std::vector<std::string> words = std::move(merged->words);
  const absl::StatusOr<ToolOptions> tool = TakeToolOptions(&words);
  const absl::StatusOr<DoctorOptions> options = tool.ok() ? Parse(words) : tool.status();
  if (!options.ok()) {
    Say(absl::StrCat(merged->Explain(std::string(options.status().message())),
                     " (lockstep doctor --help shows the options)"));
    return kUsage;
  }
  if (options->help) return Help(), 0;
  if (options->version) return puts("lockstep " LOCKSTEP_VERSION), 0;

  const Environment environment = CurrentEnvironment();
  const doctor::ProbePlaces probe = doctor::FindProbe();
  std::vector<doctor::Check> checks = doctor::ConfigurationChecks(configuration);
  for (doctor::Check& check : doctor::SwitchChecks(environment)) checks.push_back(std::move(check));
  checks.push_back(doctor::SharedMemoryCheck(environment, options->ranks));
  std::vector<doctor::Check> hooks = doctor::HookChecks(environment, probe);
  const bool recorded = doctor::Healthy(hooks);
  for (doctor::Check& check : hooks) checks.push_back(std::move(check));
  for (doctor::Check& check : doctor::NcclChecks(environment, probe, options->nccl, recorded))
    checks.push_back(std::move(check));
  checks.push_back(doctor::CudaCheck());
  checks.push_back(doctor::PtraceCheck());
  checks.push_back(doctor::NamespaceCheck());
  checks.push_back(doctor::CgroupCheck());
  checks.push_back(doctor::KernelLogCheck());
  checks.push_back(doctor::KeysCheck(*tool));
  checks.push_back(doctor::CollectorCheck(*tool, kAnswerNs));
  const std::string report = options->json ? doctor::ChecksJson(checks) : doctor::ChecksText(checks);
  if (fwrite(report.data(), 1, report.size(), stdout) != report.size() || fflush(stdout) != 0) {
    Say("cannot write to standard output");
    return kUsage;
  }
  return doctor::Healthy(checks) ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::Main(argc, argv);
}
