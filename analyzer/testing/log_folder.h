// A folder with logs, and the result of reading them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/testing/findings.h"
#include "tests/support/files.h"

namespace lockstep::testing {

class LogsTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Bundle Load() const {
    absl::StatusOr<Bundle> bundle = LoadPaths({folder_.path()});
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return bundle.ok() ? *std::move(bundle) : Bundle();
  }
  Verdict Told() const { return Analyze(Load()); }
  // Returns the problems found while loading. Expects a verdict that names no rank.
  std::string Said() const {
    const Bundle bundle = Load();
    const Verdict verdict = Analyze(bundle);
    EXPECT_EQ(verdict.verdict(), VERDICT_INCOMPLETE_DATA);
    EXPECT_EQ(verdict.findings_size(), 0) << Show(verdict);
    std::string text;
    for (const Problem& problem : bundle.problems) absl::StrAppend(&text, problem.text, "\n");
    return text;
  }

  const support::TempFolder folder_;
};

// Returns the line "[Rank 3] Watchdog caught ...", without the usual prefix.
inline std::string Caught(int inside, int seq, const std::string& op = "ALLREDUCE", int elements = 64) {
  return absl::StrCat("[E1120 10:00:01.5 ProcessGroupNCCL.cpp:632] [Rank ", inside,
                      "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=", seq, ", OpType=", op,
                      ", NumelIn=", elements, ", NumelOut=", elements,
                      ", Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n");
}
inline std::string Counters(const std::string& group, int inside, int enqueued, int completed) {
  return absl::StrCat("[E1120 10:00:01.6 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID ", group, " Rank ", inside,
                      "]  failure detected by watchdog at work sequence id: ", completed + 1,
                      " PG status: last enqueued work: ", enqueued, ", last completed work: ", completed, "\n");
}
inline std::string Of(int rank) { return absl::StrCat("[rank", rank, "]:"); }
inline std::string TimedOut(int rank, int seq, const std::string& op = "ALLREDUCE", int elements = 64) {
  return Of(rank) + Caught(rank, seq, op, elements) + Of(rank) + Counters("0(default_pg)", rank, seq, seq - 1);
}

// Returns torchrun's report of a failed rank, and of rank 0, which failed later.
inline std::string Torchrun(int rank, int code, const std::string& time) {
  const std::string line(60, '-'), end(60, '=');
  const auto worker = [](int number, int exit_code, const std::string& at) {
    return absl::StrCat("[0]:\n  time      : 2026-11-20_10:00:", at, "\n  host      : node", number,
                        "\n  rank      : ", number, " (local_rank: 0)\n  exitcode  : ", exit_code,
                        " (pid: ", 100 + number, ")\n  error_file: <N/A>\n");
  };
  return absl::StrCat("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n", end,
                      "\ntrain.py FAILED\n", line, "\nFailures:\n", worker(0, -15, "58"), line,
                      "\nRoot Cause (first observed failure):\n", worker(rank, code, time), end, "\n");
}

}  // namespace lockstep::testing
