#include "collector/common/verdict_hook.h"
#include "tests/support/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

class Said {
 public:
  void Add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class VerdictHookTest : public support::FolderTest {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }
  static HookOptions Options(
      const std::string& command, std::function<void(const std::string&)> say = [](const auto&) {}) {
    HookOptions options;
    options.command = command;
    options.first_pause_ns = 1'000'000;
    options.starts = 4;
    options.say = std::move(say);
    return options;
  }
  static HookOptions Options(const std::string& command, Said& said) {
    return Options(command, [&said](const std::string& line) { said.Add(line); });
  }
  std::string Content(const std::string& name) { return support::ReadFile(folder_ + "/" + name); }
};

TEST_F(VerdictHookTest, TheCommandGetsTheWholeVerdict) {
  const std::string json(1 << 20, 'v');
  EXPECT_TRUE(RunWithInput({"/bin/sh", "-c", "cat > " + folder_ + "/out"}, json, 60'000'000'000).ok());
  EXPECT_EQ(Content("out"), json);
}

TEST_F(VerdictHookTest, TheCommandGetsCleanAndBoundedVariables) {
  const std::string json =
      R"({"verdict": "HUNG", "job": "17/0#2", "findings": [{"kind": "HOST_STALL"}], "recommended": {
    "action": "exclude", "hosts": ["n3", "-n4", "n5 n6", "n7\nn8", "", 9, "a.b_c-1"], "ranks": [5, 7], "confidence": 0.97,
    "why": "rank 5 \"<!channel>\"\n\u001b[2J\u202e"}})";
  EXPECT_THAT(VerdictVariables(json),
              testing::ElementsAre("LOCKSTEP_VERDICT=HUNG", "LOCKSTEP_VERDICT_FINDING=HOST_STALL",
                                   "LOCKSTEP_VERDICT_JOB=17/0#2", "LOCKSTEP_VERDICT_JOB_ID=17",
                                   "LOCKSTEP_VERDICT_ACTION=exclude", "LOCKSTEP_VERDICT_CONFIDENCE=0.9700",
                                   "LOCKSTEP_VERDICT_HOSTS=n3 a.b_c-1", "LOCKSTEP_VERDICT_HOSTS_LEFT_OUT=5",
                                   "LOCKSTEP_VERDICT_RANKS=5 7", "LOCKSTEP_VERDICT_WHY=rank 5 \"<!channel>\" ?[2J?"));
  nlohmann::json large = nlohmann::json::parse(json);
  large["job"] = std::string(1 << 20, 'j');
  large["recommended"]["why"] = std::string(1 << 20, 'w');
  for (int i = 0; i < 100'000; ++i) {
    large["recommended"]["hosts"].push_back(std::string(253, 'h'));
    large["recommended"]["ranks"].push_back(i);
  }
  size_t bytes = 0;
  for (const std::string& variable : VerdictVariables(large.dump())) bytes += variable.size();
  EXPECT_LT(bytes, 100'000u);
  for (const char* other : {"", "[]", "7", "{", R"({"recommended": 7, "findings": [7]})"})
    EXPECT_THAT(VerdictVariables(other), testing::Contains("LOCKSTEP_VERDICT_ACTION=")) << other;
  setenv("LOCKSTEP_VERDICT_OLD", "1", 1);
  {
    VerdictHook hook(Options("env | grep ^LOCKSTEP_VERDICT > " + folder_ + "/out"));
    hook.Run("17", {json, "", ""});
  }
  unsetenv("LOCKSTEP_VERDICT_OLD");
  EXPECT_THAT(Content("out"), testing::AllOf(testing::HasSubstr("LOCKSTEP_VERDICT_HOSTS=n3 a.b_c-1\n"),
                                             testing::Not(testing::HasSubstr("OLD"))));
}

TEST_F(VerdictHookTest, TheCommandMayIgnoreItsInput) {
  EXPECT_TRUE(RunWithInput({"/bin/sh", "-c", "exit 0"}, std::string(1 << 20, 'v'), 60'000'000'000).ok());
  EXPECT_FALSE(RunWithInput({"/bin/sh", "-c", "exit 3"}, "", 60'000'000'000).ok());
  EXPECT_FALSE(RunWithInput({"/no/such/program"}, "", 60'000'000'000).ok());
}

TEST_F(VerdictHookTest, AHungCommandIsEndedWithItsChildren) {
  const absl::Status status = RunWithInput({"/bin/sh", "-c", "sleep 1000 & wait"}, "x", 200'000'000);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

// The process that runs the hook is killed at various moments and restarted. The command must run once and get its
// whole input.
TEST_F(VerdictHookTest, AfterKillsAndRestartsTheCommandRunsOnce) {
  const std::string json(300'000, 'v');
  for (int round = 0; round < 30; ++round) {
    const std::string mark = folder_ + "/mark" + std::to_string(round), out = folder_ + "/out" + std::to_string(round);
    for (int life = 0; life < 3; ++life) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        {
          std::atomic<bool> over = false;
          VerdictHook hook(
              Options("cat >> " + out + "; echo end >> " + out, [&over](const std::string&) { over = true; }));
          hook.Run("job", {json, "", mark});
          while (!over) usleep(1000);
        }
        _exit(0);
      }
      if (life < 2) {
        usleep(static_cast<useconds_t>((round * 397 + life * 211) % 6000));  // a random moment
        kill(child, SIGKILL);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
    }
    for (int i = 0; i < 600 && Content("out" + std::to_string(round)).find("end") == std::string::npos; ++i)
      usleep(10'000);
    EXPECT_EQ(Content("out" + std::to_string(round)), json + "end\n") << "round " << round;
  }
}

TEST_F(VerdictHookTest, TheCommandRunsEvenIfItsMarkCannotBeWritten) {
  {
    VerdictHook hook(Options("cat >> " + folder_ + "/out"));
    hook.Run("job", {"v", "", folder_ + "/no/such/folder/mark"});
    for (int i = 0; i < 600 && Content("out") != "v"; ++i) usleep(100'000);
  }
  EXPECT_EQ(Content("out"), "v");
}

TEST_F(VerdictHookTest, OneJobRunsOneCommandAtATimeAndTheNewestVerdictIsNext) {
  Said said;
  {
    // The command fails if another instance is running at the same time.
    VerdictHook hook(Options(
        "mkdir " + folder_ + "/busy || exit 1; cat >> " + folder_ + "/out; sleep 0.3; rmdir " + folder_ + "/busy",
        said));
    hook.Run("job", {"1", "", ""});
    for (int i = 0; i < 600 && Content("out") != "1"; ++i) usleep(100'000);
    EXPECT_EQ(Content("out"), "1");
    hook.Run("job", {"2", "", ""});
    hook.Run("job", {"3", "", ""});
    for (int i = 0; i < 600 && Content("out") != "13"; ++i) usleep(100'000);
  }
  EXPECT_EQ(Content("out"), "13");
  ASSERT_EQ(said.lines().size(), 2u);
  EXPECT_EQ(said.lines()[0].find("failed"), std::string::npos) << said.lines()[0];
}

TEST_F(VerdictHookTest, AFailingCommandIsRepeatedAFewTimes) {
  Said said;
  {
    VerdictHook hook(
        Options("echo $LOCKSTEP_INCIDENT >> " + folder_ + "/out; [ $(wc -l < " + folder_ + "/out) -ge 3 ]", said));
    hook.Run("job", {"v", "/incident", folder_ + "/mark"});
    for (int i = 0; i < 600 && said.lines().size() < 3; ++i) usleep(10'000);
  }
  EXPECT_EQ(Content("out"), "/incident\n/incident\n/incident\n");
  ASSERT_EQ(said.lines().size(), 3u);
  EXPECT_NE(said.lines()[0].find("attempt 1 of 4"), std::string::npos) << said.lines()[0];
  EXPECT_NE(said.lines()[2].find("accepted"), std::string::npos) << said.lines()[2];
  Said never;
  {
    VerdictHook hook(Options("echo >> " + folder_ + "/never; exit 3", never));
    hook.Run("job", {"v", "", ""});
    for (int i = 0; i < 600 && never.lines().size() < 4; ++i) usleep(10'000);
    usleep(200'000);
  }
  EXPECT_EQ(Content("never"), "\n\n\n\n");
}

TEST_F(VerdictHookTest, AtTheEndCommandsThatNoOtherProgramWouldRunAreRun) {
  {
    VerdictHook hook(Options("cat >> " + folder_ + "/out"));
    hook.Run("job", {"v", "", ""});
  }
  EXPECT_EQ(Content("out"), "v");
  // A hook that ends between two attempts does not make the next one. Without the mark, the next program does.
  Said said;
  {
    HookOptions options = Options("exit 3", said);
    options.first_pause_ns = 600'000'000'000;
    VerdictHook hook(options);
    hook.Run("job", {"v", "", folder_ + "/mark"});
    for (int i = 0; i < 600 && said.lines().empty(); ++i) usleep(10'000);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/mark"));
}

}  // namespace
}  // namespace lockstep
