// Runs the life-cycle programs with and without the recorder, and reads the rings they left or copied aside.
#ifndef LOCKSTEP_RECORDER_TESTING_LIVES_RUNS_H_
#define LOCKSTEP_RECORDER_TESTING_LIVES_RUNS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "recorder/ring/reader.h"

namespace lockstep {

class LivesRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/lockstep_lives_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  struct Outcome {
    int status = -1;
    std::string out;
  };
  Outcome Run(const std::string& program, const std::string& environment) const {
    const std::string command = environment + " timeout 100 " + program + " >'" + folder_ + "/out' 2>&1";
    Outcome outcome;
    outcome.status = std::system(command.c_str());
    std::ifstream file(folder_ + "/out");
    outcome.out = {std::istreambuf_iterator<char>(file), {}};
    return outcome;
  }
  std::string Recorded() const {
    return "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCKSTEP_DIR='" + folder_ + "/rings' LIVES_COPIES='" + folder_ +
           "/copies' LD_PRELOAD='" LOCKSTEP_LIBRARY "' ";
  }
  // Both runs end well and print the same; gives what they printed.
  std::string RunBoth(const std::string& mode, const std::string& environment = "", const std::string& nccl = kNccl,
                      const std::string& runtime = kCudart, const std::string& prefix = "cuda") const {
    const std::string program = "'" LIVES_HOST "' " + mode + " '" + nccl + "' '" + runtime + "' " + prefix;
    const std::string more = environment + " LIVES_NCCL='" + nccl + "' ";
    const Outcome plain = Run(program, more);
    const Outcome recorded = Run(program, more + Recorded());
    EXPECT_EQ(plain.status, 0) << plain.out;
    EXPECT_EQ(recorded.status, 0) << recorded.out;
    EXPECT_EQ(recorded.out, plain.out);
    return recorded.out;
  }
  std::vector<ring::Snapshot> Read(const std::string& where) const {
    std::vector<ring::Snapshot> snapshots;
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/" + where, none)) {
      if (!entry.is_regular_file() || entry.path().extension() != ".ring") continue;
      ring::Snapshot snapshot;
      std::string error;
      EXPECT_TRUE(ring::ReadRingFile(entry.path(), {}, &snapshot, &error)) << error;
      EXPECT_THAT(snapshot.problems, ::testing::IsEmpty()) << entry.path();
      snapshots.push_back(std::move(snapshot));
    }
    EXPECT_EQ(snapshots.size(), 1u) << where;
    snapshots.resize(1);
    return snapshots;
  }
  ring::Snapshot AtEnd() const { return Read("rings")[0]; }
  ring::Snapshot Copied(const std::string& name) const { return Read("copies/" + name)[0]; }

  static constexpr const char* kNccl = LIVES_STANDIN "/lib/libnccl.so.2";
  static constexpr const char* kCudart = LIVES_STANDIN "/lib/libcudart.so.13";

  std::string folder_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_RECORDER_TESTING_LIVES_RUNS_H_
