// Runs programs with and without the recorder, and reads the rings that they write.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/files.h"

namespace lockstep::support {

struct Outcome {
  int status = -1;  // from waitpid
  std::string out, err;
};

class PreloadRuns : public FolderTest {
 protected:
  Outcome Shell(const std::string& command) const {
    Outcome outcome;
    outcome.status = std::system(("(" + command + ") >'" + folder_ + "/out' 2>'" + folder_ + "/err'").c_str());
    outcome.out = ReadFile(folder_ + "/out");
    outcome.err = ReadFile(folder_ + "/err");
    return outcome;
  }
  // `preload` is the value of LD_PRELOAD. If it is empty, the program runs without the recorder.
  Outcome Run(const std::string& program, const std::string& preload, const std::string& environment = "") const {
    return Shell("LOCKSTEP_DIR='" + rings_ + "' " + environment + " LD_PRELOAD='" + preload + "' timeout 60 " +
                 program);
  }
  // Checks that both runs succeeded and printed the same: one without the recorder, and one with it.
  static void ExpectEqual(const Outcome& plain, const Outcome& recorded) {
    EXPECT_EQ(plain.status, 0) << plain.out << plain.err;
    EXPECT_EQ(recorded.status, plain.status) << recorded.out << recorded.err;
    EXPECT_EQ(recorded.out, plain.out) << recorded.err;
  }

  std::vector<std::string> RingPaths(const std::string& under = "") const {
    std::vector<std::string> paths;
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(under.empty() ? rings_ : under, none)) {
      if (entry.is_regular_file() && entry.path().extension() == ".ring") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  static ring::Snapshot ReadRing(const std::string& path) {
    ring::Snapshot snapshot;
    std::string error;
    EXPECT_TRUE(ring::ReadRingFile(path, {}, &snapshot, &error)) << error;
    EXPECT_THAT(snapshot.problems, ::testing::IsEmpty()) << path;
    return snapshot;
  }
  std::vector<ring::Snapshot> Rings(const std::string& under = "") const {
    std::vector<ring::Snapshot> snapshots;
    for (const std::string& path : RingPaths(under)) snapshots.push_back(ReadRing(path));
    return snapshots;
  }
  ring::Snapshot OnlyRing(const std::string& under = "") const {
    std::vector<ring::Snapshot> rings = Rings(under);
    EXPECT_THAT(rings, ::testing::SizeIs(1)) << under;
    return rings.empty() ? ring::Snapshot() : std::move(rings[0]);
  }

  std::string rings_ = folder_ + "/rings";
};

}  // namespace lockstep::support
