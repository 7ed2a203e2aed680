// Compares the first screen for each family of findings at 8, 64 and 1,024 ranks with files that people review.
// LOCKSTEP_WRITE_VERDICTS=1 writes the files again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "analyzer/engine/replay/judge.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/report.h"
#include "analyzer/util/printable.h"
#include "tests/corpus/scenario.h"
#include "tests/support/files.h"

namespace lockstep::corpus {
namespace {

constexpr size_t kScreenLines = 24, kScreenColumns = 80;

struct Family {
  int scenario;
  const char* name;
  Marks marks = Marks::kFull;
  bool fr = false, gloo = false;
};
constexpr Family kFamilies[] = {
    {1, "skipped"},
    {3, "other-call"},
    {6, "splits"},
    {7, "data-loader"},
    {8, "checkpoint"},
    {13, "killed"},
    {15, "stopped"},
    {16, "gpu-kernel"},
    {18, "link"},
    {22, "orders"},
    {26, "open-group"},
    {28, "creation"},
    {29, "missing-data"},
    {33, "slow-gpu", Marks::kTimed},
    {39, "two-faults"},
    // PyTorch's Flight Recorder files contain the call sites.
    {.scenario = 1, .name = "skipped-flight-recorder", .fr = true},
    {.scenario = 3, .name = "other-call-flight-recorder", .fr = true},
    {.scenario = 3, .name = "other-call-gloo", .fr = true, .gloo = true},
    {.scenario = 7, .name = "data-loader-gloo", .fr = true, .gloo = true},
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

class VerdictTexts : public ::testing::TestWithParam<Family> {};

TEST_P(VerdictTexts, FitOneScreenAndReadAsReviewed) {
  for (const int32_t ranks : {8, 64, 1024}) {
    const std::string name = absl::StrCat(GetParam().name, "-", ranks);
    SCOPED_TRACE(name);
    Request request;
    request.scenario = GetParam().scenario;
    request.ranks = ranks;
    // Slowness needs several training steps.
    request.depth = GetParam().marks == Marks::kTimed ? 256 : 64;
    request.marks = GetParam().marks;
    request.fr = GetParam().fr;
    request.gloo = GetParam().gloo;
    if (request.gloo) request.layout = "ddp";
    std::string why;
    if (!Applies(request, &why)) continue;
    support::TempFolder folder;
    ASSERT_TRUE(Generate(request, folder.path(), &why)) << why;
    absl::StatusOr<Bundle> bundle = LoadPaths({folder.path() + "/data"});
    ASSERT_TRUE(bundle.ok()) << bundle.status();
    // Paths must not depend on this run's folder.
    for (Rank& rank : bundle->ranks) rank.path = "/incidents/train/node.lsd";
    for (Problem& problem : bundle->problems)
      if (!problem.path.empty()) problem.path = "/incidents/train/node.lsd";
    Verdict verdict = WithCircumstances(replay::AnalyzeAndProve(*bundle, {}), *bundle);
    verdict.set_tool_version("1.0");
    const std::string text = VerdictText(verdict, *bundle);
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    EXPECT_LE(lines.size(), kScreenLines) << text;
    const auto advice = std::find_if(lines.begin(), lines.end(),
                                     [](const std::string& line) { return absl::StartsWith(line, "  do "); });
    EXPECT_LT(advice - lines.begin(), 3) << text;
    for (const std::string& line : lines) EXPECT_LE(Columns(line), kScreenColumns) << line;
    const std::string file = absl::StrCat(LOCKSTEP_VERDICTS, "/", name, ".txt");
    if (getenv("LOCKSTEP_WRITE_VERDICTS") != nullptr) {
      std::ofstream(file) << text;
    } else {
      EXPECT_EQ(text, support::ReadFile(file));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, VerdictTexts, ::testing::ValuesIn(kFamilies), [](const auto& info) {
  return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
});

}  // namespace
}  // namespace lockstep::corpus
