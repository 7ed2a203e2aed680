#include "collector/evidence/stack_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> RandomStack(std::mt19937* random) {
  std::vector<std::string> frames;  // innermost frame first
  const int depth = 1 + static_cast<int>((*random)() % 6);
  for (int i = 0; i < depth; ++i)
    frames.push_back(std::string(1, static_cast<char>('a' + (*random)() % 3)) + std::to_string(depth - i));
  return frames;
}

std::string TextOf(const StackTree& tree) {
  std::string text;
  for (const std::string& line : tree.Lines()) text += line + "\n";
  return text;
}

TEST(StackTree, MergingInAnyOrderGivesTheSameTree) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const size_t most = seed % 3 == 0 ? 8 : 4096;
    std::vector<std::pair<std::vector<std::string>, int>> stacks;
    for (int rank = 0; rank < 200; ++rank) stacks.push_back({RandomStack(&random), rank});
    StackTree all(most);
    for (const auto& [frames, rank] : stacks) all.Add(frames, rank);
    ASSERT_LE(all.stacks(), most);

    std::shuffle(stacks.begin(), stacks.end(), random);
    std::vector<StackTree> parts;
    for (size_t at = 0; at < stacks.size();) {
      StackTree part(most);
      for (size_t end = std::min(stacks.size(), at + 1 + random() % 40); at < end; ++at)
        part.Add(stacks[at].first, stacks[at].second);
      // Every part takes the form in which it arrives over the network.
      parts.push_back(StackTree::FromMessage(part.ToMessage(), most));
    }
    while (parts.size() > 1) {
      const size_t a = random() % parts.size();
      StackTree one = StackTree::FromMessage(parts[a].ToMessage(), most);
      std::vector<StackTree> rest;
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i != a) rest.push_back(StackTree::FromMessage(parts[i].ToMessage(), most));
      }
      rest[random() % rest.size()].Merge(one);
      parts.swap(rest);
    }
    ASSERT_TRUE(parts[0] == all) << "seed " << seed << "\n" << TextOf(parts[0]) << "\ninstead of\n" << TextOf(all);
    EXPECT_EQ(TextOf(parts[0]), TextOf(all));
  }
}

TEST(StackTree, TheTextShowsSharedPathsAndRareStacksFirst) {
  StackTree tree;
  for (int rank = 0; rank < 7; ++rank) tree.Add({"futex_wait", "AllReduce", "step (train.py:12)", "main"}, rank);
  tree.Add({"write", "save (torch/serialization.py:9)", "main"}, 7);
  EXPECT_EQ(TextOf(tree),
            "0-7: main\n"
            "  7: save (torch/serialization.py:9) > write\n"
            "  0-6: step (train.py:12) > AllReduce > futex_wait\n");
  tree.Add({"main"}, 8);
  EXPECT_THAT(TextOf(tree), HasSubstr("8: innermost here\n"));
}

TEST(StackTree, TheMiddleOfDeepStacksIsCut) {
  std::vector<std::string> frames;
  for (int i = 0; i < 5000; ++i) frames.push_back("f" + std::to_string(i));
  StackTree tree;
  tree.Add(frames, 1);
  EXPECT_THAT(TextOf(tree), HasSubstr("1: f4999 > f4998"));
  EXPECT_THAT(TextOf(tree), HasSubstr("> ... >"));
  EXPECT_THAT(TextOf(tree), HasSubstr("> f1 > f0\n"));
  EXPECT_TRUE(StackTree::FromMessage(tree.ToMessage()) == tree);
}

TEST(StackTree, HostileMessagesAreHarmless) {
  StackTree tree;
  for (int rank = 0; rank < 50; ++rank) tree.Add({"x" + std::to_string(rank % 7), "y", "main"}, rank);
  const std::string good = tree.ToMessage().SerializeAsString();
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 1 + i % 5; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    StackTreeMessage message;
    if (message.ParseFromString(bad)) {
      EXPECT_LE(StackTree::FromMessage(message, 16).stacks(), 16u);
    }
  }
  StackTreeMessage message;
  for (uint32_t i = 0; i < 10; ++i) {
    message.add_parent(i + 5);
    message.add_text(i);
    message.add_runs(UINT32_MAX);
  }
  EXPECT_EQ(StackTree::FromMessage(message).stacks(), 0u);
}

TEST(StackTree, ManyRanksGiveASmallTree) {
  StackTree tree;
  for (int rank = 0; rank < 24576; ++rank) tree.Add({rank == 1736 ? "read" : "futex_wait", "step", "main"}, rank);
  EXPECT_LT(tree.ToMessage().ByteSizeLong(), 200u);
  EXPECT_THAT(TextOf(tree), HasSubstr("0-1735, 1737-24575: futex_wait"));
}

}  // namespace
}  // namespace lockstep
