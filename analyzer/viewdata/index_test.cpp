#include "analyzer/viewdata/index.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "analyzer/formats/lsd/writer.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/testing/job.h"
#include "analyzer/viewdata/facts.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class ViewIndexTest : public ::testing::Test {
 protected:
  ViewIndexTest() {
    fs::create_directory(folder_);
    testing::Job job(2, 2, 2, 12);
    job.ranks[5].host_fault_at = job.Find(5, "dp", 10);
    job.ranks[5].host_fault = testing::HostFault::kStall;
    bundle_ = job.Run();
    for (size_t first = 0; first < 8; first += 4) {
      EXPECT_TRUE(WriteLsd(bundle_, {first, first + 1, first + 2, first + 3}, DumpHeader(),
                           (folder_ / ("h" + std::to_string(first) + ".lsd")).string())
                      .ok());
    }
  }

  const support::TempFolder temp_;
  const fs::path base_ = temp_.path(), folder_ = base_ / "incident";
  const support::EnvironmentVariable cache_{"XDG_CACHE_HOME", base_ / "cache"};
  Bundle bundle_;
};

// An incident with more operations than are loaded: the index contains every one, as if all had been loaded.
TEST_F(ViewIndexTest, TheIndexHasEveryOperationEvenIfFewAreLoaded) {
  const auto whole = EnsureViewIndex({folder_.string()}, nullptr);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->made);
  const std::string first = (base_ / "whole.lsi").string();
  fs::rename(whole->path, first);
  ViewIndexOptions options;
  options.limits.all = 10;
  options.limits.newest = 80;
  options.limits.history = 10;
  options.limits.at_least = 4;
  ViewIndexProgress progress;
  const auto part = EnsureViewIndex({folder_.string()}, &progress, options);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_TRUE(part->made);
  EXPECT_EQ(progress.done, progress.total);
  auto a = IndexReader::Open(first), b = IndexReader::Open(part->path);
  ASSERT_TRUE(a.ok() && b.ok());
  uint64_t unknown = 0;
  ASSERT_EQ((*a)->operations(), (*b)->operations());
  for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
    ASSERT_EQ((*a)->ranks()[r].ops, bundle_.ranks[r].ops.size());
    ASSERT_EQ((*b)->ranks()[r].ops, bundle_.ranks[r].ops.size());
    for (uint64_t i = 0; i < bundle_.ranks[r].ops.size(); ++i) {
      const IndexOp x = (*a)->op(r, (*a)->ranks()[r].first_op + i), y = (*b)->op(r, (*b)->ranks()[r].first_op + i);
      EXPECT_EQ(x.kind, y.kind);
      EXPECT_EQ(x.state, y.state);
      EXPECT_EQ(x.membership, y.membership);
      EXPECT_EQ(x.seq, y.seq);
      EXPECT_EQ(x.enter_ns, y.enter_ns);
      EXPECT_EQ(x.stream, y.stream);
      unknown += y.kind == ring::CallKind::kNone;
    }
  }
  EXPECT_EQ(unknown, 0u);
  const auto facts = ReadViewFacts(**b), all = ReadViewFacts(**a);
  ASSERT_TRUE(facts.ok() && all.ok());
  EXPECT_EQ(facts->first_ns(), all->first_ns());
  EXPECT_EQ(facts->last_ns(), all->last_ns());
  ASSERT_GE(facts->anomalies_size(), 1);
  EXPECT_EQ(facts->anomalies(0).ranks().bounds(0), 5);
}

// If reading is slow, ranks are shown as they arrive, without a verdict. Then the complete data is shown.
TEST_F(ViewIndexTest, RanksAreShownEarlyWithoutAVerdict) {
  testing::Job job(2, 2, 16, 4);
  job.ranks[5].host_fault_at = job.Find(5, "dp", 2);
  job.ranks[5].host_fault = testing::HostFault::kStall;
  const Bundle bundle = job.Run();
  for (const auto& file : fs::directory_iterator(folder_)) fs::remove(file.path());
  for (size_t first = 0; first < 64; first += 2) {
    ASSERT_TRUE(WriteLsd(bundle, {first, first + 1}, DumpHeader(),
                         (folder_ / ("h" + std::to_string(100 + first) + ".lsd")).string())
                    .ok());
  }
  std::vector<size_t> shown;
  ViewIndexOptions options;
  options.partial_from_s = 0;
  options.partial = [&](const std::string& path) {
    const auto index = IndexReader::Open(path);
    ASSERT_TRUE(index.ok()) << index.status();
    const auto facts = ReadViewFacts(**index);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->verdict().verdict(), VERDICT_UNSPECIFIED);
    EXPECT_EQ(facts->anomalies_size() + facts->missing_size() + facts->classes_size(), 0);
    ASSERT_EQ(facts->unknown_size(), 1);
    EXPECT_NE(facts->unknown(0).find("of 32 files"), std::string::npos) << facts->unknown(0);
    shown.push_back((*index)->ranks().size());
    EXPECT_GT((*index)->operations(), 0u);
  };
  const auto made = EnsureViewIndex({folder_.string()}, nullptr, options);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(shown, (std::vector<size_t>{4, 16}));
  const auto index = IndexReader::Open(made->path);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ((*index)->ranks().size(), 64u);
  // Data that is read quickly is not shown in parts.
  shown.clear();
  options.partial_from_s = 1e6;
  fs::remove(made->path);
  ASSERT_TRUE(EnsureViewIndex({folder_.string()}, nullptr, options).ok());
  EXPECT_TRUE(shown.empty());
}

// The tree contains the stacks that the collector merged as well as those in the ranks' data.
TEST_F(ViewIndexTest, MergedStacksOfTheCollectorAreInTheTree) {
  std::ofstream(folder_ / "stacks.json")
      << R"json({"format": 1, "ranks": [[0, 5]], "left_out": [], "refused": ["n9: ptrace is not allowed"], "nodes": [
      {"parent": 0, "frame": "", "ranks": []},
      {"parent": 0, "frame": "main (train.py:1)", "ranks": []},
      {"parent": 1, "frame": "step (train.py:9)", "ranks": [[0, 4]]},
      {"parent": 1, "frame": "load (train.py:88)", "ranks": [[5, 5]]},
      {"parent": 0, "frame": "start_thread", "ranks": [[0, 5]]}]})json";
  const auto made = EnsureViewIndex({folder_.string()}, nullptr);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto index = IndexReader::Open(made->path);
  ASSERT_TRUE(index.ok());
  const auto facts = ReadViewFacts(**index);
  ASSERT_TRUE(facts.ok()) << facts.status();
  auto ranks = [&](const std::string& frame) {
    std::vector<int32_t> bounds;
    for (const StackNode& node : facts->stacks()) {
      if (node.frame() == frame) bounds.assign(node.ranks().bounds().begin(), node.ranks().bounds().end());
    }
    return bounds;
  };
  EXPECT_EQ(ranks("main (train.py:1)"), (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(ranks("step (train.py:9)"), (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(ranks("load (train.py:88)"), (std::vector<int32_t>{5, 5}));
  EXPECT_TRUE(ranks("start_thread").empty()) << "threads without Python sleep in the same places on every rank";
  EXPECT_EQ(facts->stacks(0).kind(), StackFrame::PYTHON);
  bool told = false;
  for (const std::string& line : facts->unknown()) told |= line == "no stacks from n9: ptrace is not allowed";
  EXPECT_TRUE(told);
  // Another tree counts as another source.
  std::ofstream(folder_ / "stacks.json") << "{}";
  const auto again = EnsureViewIndex({folder_.string()}, nullptr);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->made);
}

TEST_F(ViewIndexTest, CancelledBeforeItBegins) {
  ViewIndexProgress progress;
  progress.cancel = true;
  const auto made = EnsureViewIndex({folder_.string()}, &progress);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 2) << "something was left behind";
}

// If the index cannot be written next to the files, in the cache, or as a temporary file, it is kept in memory.
TEST_F(ViewIndexTest, WithoutAWritableFolderTheIndexIsInMemory) {
  fs::create_directory(folder_ / "index.lsi");
  std::ofstream(folder_ / "index.lsi" / "x") << "x";
  std::ofstream(base_ / "cache") << "in the way";
  const support::EnvironmentVariable temporary("TMPDIR", base_ / "absent");
  const auto made = EnsureViewIndex({folder_.string()}, nullptr);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->temporary);
  EXPECT_EQ(made->path.rfind("/dev/shm/", 0), 0u) << made->path;
  EXPECT_TRUE(IndexReader::Open(made->path).ok());
  fs::remove(made->path);
}

TEST_F(ViewIndexTest, BesideOnlyWritesNextToTheFilesOrNowhere) {
  ViewIndexOptions options;
  options.beside_only = true;
  fs::create_directory(folder_ / "index.lsi");  // occupies the name
  std::ofstream(folder_ / "index.lsi" / "x") << "x";
  EXPECT_FALSE(EnsureViewIndex({folder_.string()}, nullptr, options).ok());
  EXPECT_FALSE(fs::exists(base_ / "cache"));
  const auto cached = EnsureViewIndex({folder_.string()}, nullptr);
  ASSERT_TRUE(cached.ok()) << cached.status();
  EXPECT_FALSE(cached->temporary);
  EXPECT_EQ(cached->path.rfind((base_ / "cache" / "lockstep").string(), 0), 0u) << cached->path;
}

}  // namespace
}  // namespace lockstep
