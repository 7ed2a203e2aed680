// Documents with facts that a test sets.
#pragma once

#include <gtest/gtest.h>

#include "gui/model/document.h"

namespace lockstep::gui::testing {

// Adds the bundle's ranks that are missing from the facts, and clears references to classes and findings that do not
// exist. If the index cannot be opened, fails the test and returns null.
inline DocumentPtr OpenWith(const Bundle& bundle, ViewFacts facts) {
  for (size_t i = static_cast<size_t>(facts.ranks_size()); i < bundle.ranks.size(); ++i)
    facts.add_ranks()->set_rank(bundle.ranks[i].rank);
  for (RankFacts& rank : *facts.mutable_ranks()) {
    if (rank.wait_class() >= facts.classes_size()) rank.set_wait_class(-1);
  }
  for (WaitClass& c : *facts.mutable_classes()) {
    if (c.finding() >= facts.verdict().findings_size()) c.set_finding(-1);
  }
  auto document = Document::FromBundle(bundle, &facts);
  EXPECT_TRUE(document.ok()) << document.status();
  return document.ok() ? *document : nullptr;
}

}  // namespace lockstep::gui::testing
