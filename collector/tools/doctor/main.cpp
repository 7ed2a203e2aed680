// The doctor verb: prints what works on this host and what does not, one line each, and how to fix it.
#include <cstdio>
#include <string>
#include <vector>

#include "analyzer/settings/options.h"
#include "collector/common/say.h"
#include "collector/tools/doctor/check.h"
#include "collector/tools/doctor/checks.h"
#include "collector/wire/tool_client.h"

namespace lockstep {
namespace {

constexpr int kUsage = 2;
constexpr int64_t kAnswerNs = 3'000'000'000;

int Main(int argc, char** argv) {
  // Reports invalid configuration like other problems, and still runs the other checks.
  absl::StatusOr<settings::ParsedOptions> options = settings::Parse("doctor", argc, argv);
  const absl::Status configuration = options.status();
  if (!options.ok()) {
    std::vector<std::string> words(argv + 1, argv + argc);
    words.insert(words.begin(), "--no-config");
    options = settings::Parse("doctor", words);
  }
  if (const std::optional<int> status = settings::Finished("doctor", options, false)) return *status;
  const ToolOptions tool = MakeToolOptions(*options);
  const int ranks = static_cast<int>(options->Number("ranks"));

  const Environment environment = CurrentEnvironment();
  const doctor::ProbePlaces probe = doctor::FindProbe();
  std::vector<doctor::Check> checks = doctor::ConfigurationChecks(configuration);
  for (doctor::Check& check : doctor::SwitchChecks(environment)) checks.push_back(std::move(check));
  checks.push_back(doctor::SharedMemoryCheck(environment, ranks));
  std::vector<doctor::Check> hooks = doctor::HookChecks(environment, probe);
  const bool recorded = doctor::Healthy(hooks);
  for (doctor::Check& check : hooks) checks.push_back(std::move(check));
  for (doctor::Check& check : doctor::NcclChecks(environment, probe, options->Text("nccl"), recorded))
    checks.push_back(std::move(check));
  checks.push_back(doctor::CudaCheck());
  checks.push_back(doctor::PtraceCheck());
  checks.push_back(doctor::NamespaceCheck());
  checks.push_back(doctor::CgroupCheck());
  checks.push_back(doctor::KernelLogCheck());
  checks.push_back(doctor::KeysCheck(tool));
  checks.push_back(doctor::CollectorCheck(tool, kAnswerNs));
  const std::string report = options->Flag("json") ? doctor::ChecksJson(checks) : doctor::ChecksText(checks);
  if (fwrite(report.data(), 1, report.size(), stdout) != report.size() || fflush(stdout) != 0) {
    Say("cannot write to standard output");
    return kUsage;
  }
  return doctor::Healthy(checks) ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
