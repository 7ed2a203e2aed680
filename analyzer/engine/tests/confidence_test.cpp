// The one table of confidences: what it promises, and that no rule writes one of its own.
#include "analyzer/engine/calibration/confidence.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

namespace lockstep {
namespace {

TEST(ConfidenceTest, StrongerEvidenceAllowsMore) {
  double before = 0;
  for (int grade = GRADE_GUESS; grade <= GRADE_RECORDED; ++grade) {
    // No case has a reason that does not exist.
    const double most = ConfidenceOf(static_cast<Grade>(grade), REASON_UNSPECIFIED, false, false);
    EXPECT_GT(most, before) << Grade_Name(grade);
    before = most;
  }
  EXPECT_LT(before, 1);
}

TEST(ConfidenceTest, NeverOutsideItsRange) {
  for (int grade = Grade_MIN; grade <= Grade_MAX; ++grade) {
    for (int reason = 0; reason < Reason_ARRAYSIZE; ++reason) {
      for (const bool several : {false, true}) {
        for (const bool framework : {false, true}) {
          const double c = ConfidenceOf(static_cast<Grade>(grade), static_cast<Reason>(reason), several, framework);
          EXPECT_GT(c, 0);
          EXPECT_LE(c, ConfidenceOf(GRADE_RECORDED, REASON_KILLED, false, false));
        }
      }
    }
  }
}

TEST(ConfidenceTest, FindingsThatWereOftenWrongStateLess) {
  // Two of three ranks without data, though others waited for them, were not at fault (confidence_table.inc).
  EXPECT_LT(ConfidenceOf(GRADE_OPEN, REASON_NO_DATA_OTHERS_WAIT, false, false),
            ConfidenceOf(GRADE_OPEN, REASON_TWO_STREAMS_STUCK, true, false));
}

// A confidence is a measured frequency, so no rule writes one.
TEST(ConfidenceTest, NoRuleWritesANumber) {
  const std::regex number(R"(confidence\w*\(?\s*=?\s*[^;]*\b[01]\.\d)");
  size_t files = 0;
  for (const char* folder : {"facts", "rules", "slow"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(LOCKSTEP_ENGINE_FOLDER "/") + folder)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".cpp") || path.ends_with("_test.cpp")) continue;
      ++files;
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);)
        EXPECT_FALSE(std::regex_search(line, number)) << path << ": " << line;
    }
  }
  EXPECT_GT(files, 20u);
}

}  // namespace
}  // namespace lockstep
