// Tests the table of confidences, and that no rule contains a confidence or a sentence of evidence.
#include "analyzer/engine/calibration/confidence.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <type_traits>
#include <vector>

#include "analyzer/engine/facts/cause.h"

namespace lockstep {
namespace {

TEST(ConfidenceTest, StrongerEvidenceAllowsHigherConfidence) {
  double before = 0;
  for (int grade = GRADE_GUESS; grade <= GRADE_RECORDED; ++grade) {
    // No measured finding has this reason, so only the grade counts.
    const double most = ConfidenceOf(static_cast<Grade>(grade), REASON_UNSPECIFIED, false, false);
    EXPECT_GT(most, before) << Grade_Name(grade);
    before = most;
  }
  EXPECT_LT(before, 1);
}

TEST(ConfidenceTest, ConfidencesAreInRange) {
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

TEST(ConfidenceTest, FindingsThatWereOftenWrongHaveLowConfidence) {
  // Two of three ranks without data were not at fault, although others waited for them (confidence_table.inc).
  EXPECT_LT(ConfidenceOf(GRADE_OPEN, REASON_NO_DATA_OTHERS_WAIT, false, false),
            ConfidenceOf(GRADE_OPEN, REASON_TWO_STREAMS_STUCK, true, false));
}

void EachLine(const std::function<void(const std::string& path, const std::string& line)>& see) {
  size_t files = 0;
  for (const char* folder : {"", "facts", "rules", "slow"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(LOCKSTEP_ENGINE_FOLDER "/") + folder)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".cpp") || path.ends_with("_test.cpp")) continue;
      ++files;
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);) see(path, line);
    }
  }
  EXPECT_GT(files, 20u);
}

// A confidence is a measured frequency, so no rule contains one.
TEST(ConfidenceTest, NoRuleWritesANumber) {
  const std::regex number(R"(confidence\w*\(?\s*=?\s*[^;]*\b[01]\.\d)");
  EachLine([&](const std::string& path, const std::string& line) {
    EXPECT_FALSE(std::regex_search(line, number)) << path << ": " << line;
  });
}

// Evidence consists of kinds and fields; analyzer/report/words makes the sentences.
TEST(ConfidenceTest, NoRuleWritesEvidenceInWords) {
  static_assert(!std::is_constructible_v<EvidenceItem, std::string, std::vector<int32_t>>);
  static_assert(!std::is_constructible_v<EvidenceItem, const char*, std::vector<int32_t>>);
  const std::regex sentence(R"((vidence\w*(\(\))?|fields|\be)(->|\.)(set|mutable)_text\(|add_blind\()");
  EachLine([&](const std::string& path, const std::string& line) {
    EXPECT_FALSE(std::regex_search(line, sentence)) << path << ": " << line;
  });
}

}  // namespace
}  // namespace lockstep
