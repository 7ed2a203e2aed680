#include "analyzer/report/circumstances.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/report/code.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/roofline.h"
#include "analyzer/report/words/words.h"
#include "analyzer/util/nccl_version.h"

namespace lockstep {
namespace {

constexpr int64_t kEarliestRealNs = 1'000'000'000'000'000'000;  // 2001: earlier values are not wall-clock times
constexpr int64_t kMostNs = INT64_MAX / 4;

// Returns when the newest data was captured; 0 if unknown.
int64_t NewestRealNs(const Bundle& bundle) {
  int64_t newest = 0;
  for (const Rank& rank : bundle.ranks) {
    if (rank.captured_ns <= 0 || rank.set_back) continue;
    newest = std::max(newest, std::clamp(rank.captured_ns, -kMostNs, kMostNs) +
                                  std::clamp(rank.real_minus_mono_ns, -kMostNs, kMostNs));
  }
  return newest > kEarliestRealNs ? newest : 0;
}

bool IsStuck(const Verdict& verdict) {
  return verdict.verdict() == VERDICT_HUNG || verdict.verdict() == VERDICT_LATE ||
         verdict.verdict() == VERDICT_DESYNC || verdict.verdict() == VERDICT_CRASHED;
}

int64_t StuckNs(const Verdict& verdict) {
  if (!IsStuck(verdict)) return 0;
  if (verdict.stalled_ns() > 0) return verdict.stalled_ns();
  return verdict.verdict() == VERDICT_HUNG && !verdict.findings().empty() ? verdict.findings(0).duration_ns() : 0;
}

// Returns whether the rank uses a GPU. Lockstep's own record consists of NCCL calls, which need one. A framework's
// backend may not.
bool SeesGpu(const Rank& rank) {
  return rank.source != Source::kFlightRecorder || rank.gpu_index >= 0 || !rank.gpu_pci.empty() ||
         rank.nccl_version > 0 || rank.cuda_version > 0;
}

std::string Framework(const Bundle& bundle) {
  std::string python;
  bool torch = false;
  for (const Rank& rank : bundle.ranks) {
    const ProcessEvidence* evidence = rank.process.evidence.get();
    if (evidence == nullptr) continue;
    if (python.empty()) python = evidence->python_version();
    torch = torch || std::any_of(evidence->modules().begin(), evidence->modules().end(),
                                 [](const StackModule& m) { return absl::StrContains(m.path(), "/libtorch"); });
    if (torch && !python.empty()) break;
  }
  return absl::StrCat(torch ? "PyTorch" : "", torch && !python.empty() ? ", " : "",
                      python.empty() ? "" : absl::StrCat("Python ", python));
}

std::string NcclVersions(const Bundle& bundle) {
  int32_t oldest = 0, newest = 0;
  for (const Rank& rank : bundle.ranks) {
    if (rank.nccl_version <= 0) continue;
    oldest = oldest == 0 ? rank.nccl_version : std::min(oldest, rank.nccl_version);
    newest = std::max(newest, rank.nccl_version);
  }
  if (newest == 0) return "";
  return absl::StrCat(NcclVersionText(oldest), oldest == newest ? "" : absl::StrCat(" to ", NcclVersionText(newest)));
}

std::string TimeText(int64_t real_ns) { return UtcText(real_ns, "%Y-%m-%d %H:%M:%S UTC"); }

}  // namespace

Verdict WithCircumstances(const Verdict& verdict, const Bundle& bundle) {
  Verdict out = verdict;
  out.set_tool_version(LOCKSTEP_VERSION);
  if (const int64_t captured = NewestRealNs(bundle); captured > 0) {
    out.set_captured_real_ns(captured);
    if (const int64_t stuck = StuckNs(verdict); stuck > 0 && stuck < captured)
      out.set_hung_since_real_ns(captured - stuck);
  }
  for (const Rank& rank : bundle.ranks) {
    if (rank.step.empty()) continue;
    out.set_job_step(rank.step);
    break;
  }
  if (std::string framework = Framework(bundle); !framework.empty()) out.set_framework(std::move(framework));
  if (std::string nccl = NcclVersions(bundle); !nccl.empty()) out.set_nccl_version(std::move(nccl));
  SetCodeDifferences(bundle, &out);
  SetLineRate(bundle, &out);
  SetRooflines({}, &out);
  if (bundle.ranks.empty() || std::any_of(bundle.ranks.begin(), bundle.ranks.end(), SeesGpu)) return out;
  for (Finding& finding : *out.mutable_findings()) {
    if (finding.reason() == REASON_UNSPECIFIED) continue;
    finding.set_cpu_only(true);
    PutIntoWords(&finding);
  }
  return out;
}

std::string LastedText(const Verdict& verdict) {
  const int64_t stuck = StuckNs(verdict);
  return stuck > 0 ? DurationText(stuck) : "";
}

std::vector<std::string> CircumstanceTexts(const Verdict& verdict) {
  std::vector<std::string> texts;
  if (!verdict.job().empty())
    texts.push_back(
        absl::StrCat(Printable(verdict.job(), 80),
                     verdict.job_step().empty() ? "" : absl::StrCat(" step ", Printable(verdict.job_step(), 40))));
  // Prints both times in whole seconds, as far apart as the rounded duration in the headline.
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t captured = verdict.captured_real_ns(), since = verdict.hung_since_real_ns();
  if (since > 0)
    texts.push_back(
        absl::StrCat(verdict.verdict() == VERDICT_HUNG ? "hung since " : "no progress since ",
                     TimeText(captured - captured % kSecond - (captured - since + kSecond / 2) / kSecond * kSecond)));
  if (captured > 0) texts.push_back(absl::StrCat("data taken ", TimeText(captured)));
  if (verdict.ranks_expected() > 0) texts.push_back(RanksReadText(verdict));
  if (!verdict.tool_version().empty()) texts.push_back(absl::StrCat("lockstep ", verdict.tool_version()));
  if (!verdict.nccl_version().empty()) texts.push_back(absl::StrCat("NCCL ", verdict.nccl_version()));
  if (!verdict.framework().empty()) texts.push_back(Printable(verdict.framework(), 80));
  return texts;
}

}  // namespace lockstep
