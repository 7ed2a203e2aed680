// Runs the engine on one case of each scenario and format, so that no change loses a scenario. tests/bench/accuracy
// measures its accuracy over many cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "tests/corpus/scenario.h"
#include "tests/support/files.h"

namespace lockstep::corpus {
namespace {

class EachScenario : public ::testing::TestWithParam<int> {};

TEST_P(EachScenario, IsRecognizedInOwnDumpsAndFlightRecorders) {
  for (const bool fr : {false, true}) {
    for (const Marks marks : {Marks::kFull, Marks::kTimed}) {
      Request request;
      request.scenario = GetParam();
      request.seed = 30100 + static_cast<uint64_t>(GetParam());
      request.fr = fr;
      request.marks = marks;
      SCOPED_TRACE(
          absl::StrCat(fr ? "Flight Recorder" : "own dumps", marks == Marks::kTimed ? ", times recorded" : ""));
      std::string why;
      if (!Applies(request, &why)) continue;
      Outcome outcome;
      ASSERT_TRUE(Play(request, &outcome, &why)) << why;
      support::TempFolder folder;
      ASSERT_TRUE(Generate(request, folder.path(), &why)) << why;
      const absl::StatusOr<Bundle> bundle = LoadPaths({folder.path() + "/data"});
      ASSERT_TRUE(bundle.ok()) << bundle.status();
      const Verdict verdict = Analyze(*bundle);
      const Truth& truth = outcome.truth;
      SCOPED_TRACE(truth.what);
      if (truth.healthy) {
        EXPECT_EQ(verdict.findings_size(), 0) << verdict.DebugString();
      } else if (truth.identifiable) {
        ASSERT_GE(verdict.findings_size(), 1);
        const Finding& first = verdict.findings(0);
        const std::vector<int32_t> named(first.culprit_ranks().begin(), first.culprit_ranks().end());
        const std::string& kind = FindingKind_Name(first.kind());
        const bool one = std::ranges::includes(named, truth.culprit_ranks) ||
                         std::ranges::find(truth.set_allowed, named) != truth.set_allowed.end();
        const bool second = !truth.second_ranks.empty() && named == truth.second_ranks;
        EXPECT_TRUE((one && std::ranges::count(truth.kinds_allowed, kind) > 0) ||
                    (second && std::ranges::count(truth.second_kinds, kind) > 0))
            << verdict.DebugString();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, EachScenario, ::testing::Range(1, kScenarios + 1));

}  // namespace
}  // namespace lockstep::corpus
