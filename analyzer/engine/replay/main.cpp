// lockstep-replay: proves the verdict on a recording by running its calls again.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "analyzer/engine/replay/judge.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/settings/options.h"

namespace lockstep {
namespace {

constexpr int kUsage = 2, kFailed = 3;

int Run(const settings::ParsedOptions& options) {
  LoadLimits limits;
  limits.job = options.Text("job");
  // Never freed, because the program ends soon and freeing millions of small pieces takes time.
  static auto& bundle = *new absl::StatusOr<Bundle>(LoadPaths(options.operands(), nullptr, limits));
  if (!bundle.ok()) {
    const int status = absl::IsInvalidArgument(bundle.status()) ? kUsage : kFailed;
    return settings::Complain("replay", bundle.status().message(), status);
  }
  AnalyzeOptions analyze;
  analyze.late_after_ns = options.Nanoseconds("late-after");
  replay::JudgeOptions judge;
  for (const auto& [first, last] : options.Ranks("suspect")) {
    const int64_t most =
        std::max<int64_t>(bundle->ranks_expected, bundle->ranks.empty() ? 0 : bundle->ranks.back().rank + 1);
    for (int64_t rank = first; rank <= std::min<int64_t>(last, most); ++rank)
      judge.suspects.push_back(static_cast<int32_t>(rank));
  }
  replay::Answer answer;
  AnalyzeAndLook(*bundle, analyze, [&](const AnalysisView& view) { answer = replay::Judge(view, judge); });
  const std::string text = options.Text("format") == "json" ? replay::AnswerJson(answer) : replay::AnswerReport(answer);
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() || fflush(stdout) != 0)
    return settings::Complain("replay", "standard output cannot be written", kFailed);
  return answer.proof.result() == Proof::PROVED ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // a file's reader reports what is wrong with the file
  return lockstep::settings::RunVerb("replay", argc, argv, lockstep::Run);
}
