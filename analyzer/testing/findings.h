// Helpers for tests that examine a verdict.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep::testing {

inline std::vector<int32_t> Culprits(const Finding& finding) {
  return {finding.culprit_ranks().begin(), finding.culprit_ranks().end()};
}

// Returns the verdict and its findings as text, for the message of a failing test.
inline std::string Show(const Verdict& verdict) {
  std::string text = VerdictKind_Name(verdict.verdict());
  for (const Finding& finding : verdict.findings()) {
    text += "\n" + FindingKind_Name(finding.kind()) + " [";
    for (const int32_t rank : finding.culprit_ranks()) text += std::to_string(rank) + " ";
    text += "] " + finding.summary() + " | " + finding.pattern();
    for (const Evidence& evidence : finding.evidence()) text += "\n   " + evidence.text();
  }
  return text;
}

// Expects exactly one finding, of this kind and with these ranks.
inline void ExpectOnly(const Verdict& verdict, FindingKind kind, const std::vector<int32_t>& ranks) {
  ASSERT_EQ(verdict.findings_size(), 1) << Show(verdict);
  EXPECT_EQ(FindingKind_Name(verdict.findings(0).kind()), FindingKind_Name(kind)) << Show(verdict);
  EXPECT_EQ(Culprits(verdict.findings(0)), ranks) << Show(verdict);
}

}  // namespace lockstep::testing
