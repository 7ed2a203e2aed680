#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "analyzer/settings/merge.h"
#include "recorder/ring/settings.h"
#include "tests/support/files.h"

namespace lockstep::settings {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Problem(const absl::Status& status) {
  return std::string(status.message());
}

TEST(SettingsTableTest, EveryNameIsItsOwn) {
  std::set<std::string> keys, options;
  for (const Row& row : Table()) {
    EXPECT_TRUE(keys.insert(row.section + " " + row.key).second) << row.section << " " << row.key;
    EXPECT_TRUE(row.option.empty() || options.insert(row.section + " " + row.option).second) << row.option;
    EXPECT_FALSE(row.variable.empty()) << row.key;
    EXPECT_EQ(row.variable.rfind("LOCKSTEP", 0), 0u);
    EXPECT_TRUE(row.needs.empty() || FindByKey(row.section, row.needs) != nullptr) << row.key;
    EXPECT_TRUE(row.excludes.empty() || FindByKey(row.section, row.excludes) != nullptr) << row.key;
  }
  EXPECT_NE(FindByKey("recorder", "gpu"), nullptr);
}

TEST(SettingsTableTest, WhatIsMeantIsFound) {
  const std::vector<std::string> known = {"late-after", "listen", "out"};
  EXPECT_EQ(Nearest("late-aftr", known), "late-after");
  EXPECT_EQ(Nearest("lisen", known), "listen");
  EXPECT_EQ(Nearest("zzzzzz", known), "");
  EXPECT_EQ(Nearest(std::string(1000, 'x'), known), "");
}

TEST(SettingsFileTest, SectionsKeysAndComments) {
  File file;
  ASSERT_TRUE(ParseText("f",
                        "# a comment\n; another\n\n[common]\r\ncollector = tcp://head:9470\n[ Agent "
                        "]\nSPOOL_BYTES=500M\nlog = /a = b # c\n",
                        &file)
                  .ok());
  ASSERT_EQ(file.entries.size(), 3u);
  EXPECT_EQ(file.entries[0].section, "common");
  EXPECT_EQ(file.entries[0].value, "tcp://head:9470");
  EXPECT_EQ(file.entries[1].key, "spool-bytes");
  EXPECT_EQ(file.entries[1].line, 7);
  EXPECT_EQ(file.entries[2].value, "/a = b # c");
  EXPECT_THAT(file.told, IsEmpty());
}

TEST(SettingsFileTest, WhatIsWrongIsNamedWithFileLineAndKey) {
  const auto problem = [](const std::string& text) {
    File file;
    return Problem(ParseText("/etc/x", text, &file));
  };
  EXPECT_EQ(problem("[agent]\nlate-after = soon\n"),
            "/etc/x, line 2: [agent] late-after takes a number of seconds, not 'soon'");
  EXPECT_THAT(problem("spool = /x\n"), HasSubstr("/etc/x, line 1: 'spool = /x' stands in no section; put [common]"));
  EXPECT_THAT(problem("[agent\n"), HasSubstr("a section is a line like [agent]"));
  EXPECT_THAT(problem("[agent]\nspool\n"), HasSubstr("line 2: 'spool' is neither"));
  EXPECT_THAT(problem("[agent]\nspool =\n"), HasSubstr("[agent] spool takes a value"));
  EXPECT_THAT(problem("[agent]\n= x\n"), HasSubstr("no key"));
  EXPECT_THAT(problem("[agent]\nalone = perhaps\n"), HasSubstr("takes yes or no"));
  EXPECT_THAT(problem("[agent]\ncollector = head\n"), HasSubstr("tcp://ADDRESS:PORT"));
  EXPECT_THAT(problem("[analyze]\nformat = xml\n"), HasSubstr("takes one of text, json, html, not 'xml'"));
  EXPECT_THAT(problem("[clean]\nolder-than = 7w\n"), HasSubstr("7d"));
  EXPECT_THAT(problem(std::string(600, '#')), HasSubstr("longer than 512"));
  EXPECT_THAT(problem(std::string("[agent]\nlog = a\0b\n", 17)), HasSubstr("zero byte"));
  EXPECT_THAT(problem("[agent]\nlate-after = \x1b[31m\n"), HasSubstr("not '?[31m'"));
}

TEST(SettingsFileTest, UnknownKeysAreToldWithTheNearest) {
  File file;
  ASSERT_TRUE(ParseText("f",
                        "[agent]\nspol = /x\nlisten = tcp://x:1\nqqqqqqqqq = 1\n[agnet]\nwhat = ever\n[agent]\nspool = "
                        "/a\nspool = /b\n",
                        &file)
                  .ok());
  ASSERT_EQ(file.told.size(), 5u);
  EXPECT_EQ(file.told[0].text, "f, line 2: [agent] has no key 'spol'; is 'spool' meant?");
  EXPECT_THAT(file.told[1].text, HasSubstr("it belongs to [collector]"));
  EXPECT_THAT(file.told[2].text, HasSubstr("lockstep config shows"));
  EXPECT_THAT(file.told[3].text, HasSubstr("is [agent] meant?"));
  EXPECT_THAT(file.told[4].text, HasSubstr("given in line 8 already"));
}

TEST(SettingsFileTest, RandomBytesAreReadOrRefused) {
  std::mt19937 random(7);
  const char* const pieces[] = {"[agent]", "[recorder]", "spool", "=",    "\n", " ",         "#",         "late-after",
                                "5",       "[",          "]",     "\xff", "\r", "collector", "tcp://a:1", ","};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) {
      text += random() % 8 == 0 ? std::string(1, static_cast<char>(random())) : pieces[random() % std::size(pieces)];
    }
    File file;
    if (ParseText("f", text, &file).ok()) {
      for (const Entry& entry : file.entries) {
        const Row* row = nullptr;
        for (const Row& candidate : Table()) {
          if (candidate.key == entry.key &&
              (entry.section == kCommon ? candidate.common : candidate.section == entry.section))
            row = &candidate;
        }
        ASSERT_NE(row, nullptr);
        ASSERT_EQ(WrongValue(*row, entry.value), "");
      }
    }
  }
}

class SettingsTest : public support::FolderTest {
 protected:
  void SetUp() override {
    for (const Row& row : Table()) unsetenv(row.variable.c_str());
    unsetenv("LOCKSTEP_CONFIG");
    if (access(ring::kConfigFile, F_OK) == 0) GTEST_SKIP() << ring::kConfigFile << " is there";
  }
  void TearDown() override {
    for (const Row& row : Table()) unsetenv(row.variable.c_str());
    unsetenv("LOCKSTEP_CONFIG");
  }
  void Write(const std::string& text, mode_t mode = 0644) {
    const std::string path = folder_ + "/lockstep.conf";
    std::ofstream(path) << text;
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    setenv("LOCKSTEP_CONFIG", path.c_str(), 1);
  }
  static std::vector<std::string> Words(std::string_view section, std::vector<std::string> words = {}) {
    const absl::StatusOr<Merged> merged = Merge(section, std::move(words));
    if (!merged.ok()) return {"error: " + std::string(merged.status().message())};
    return merged->words;
  }
};

TEST_F(SettingsTest, WithoutAnythingTheWordsStayAsTheyAre) {
  EXPECT_THAT(Words("run", {"-n4", "--", "train", "--late-after", "x"}),
              ElementsAre("-n4", "--", "train", "--late-after", "x"));
}

TEST_F(SettingsTest, FileThenEnvironmentThenOptions) {
  Write("[common]\nlate-after = 7\n[agent]\nspool = /file\nspool-bytes = 1G\nhost = one\n");
  EXPECT_THAT(Words("agent"),
              ElementsAre("--spool", "/file", "--spool-bytes", "1G", "--host", "one", "--late-after", "7"));
  setenv("LOCKSTEP_SPOOL", "/environment", 1);
  setenv("LOCKSTEP_AGENT_LATE_AFTER", "8", 1);
  EXPECT_THAT(Words("agent", {"--host=two"}),
              ElementsAre("--spool", "/environment", "--spool-bytes", "1G", "--late-after", "8", "--host=two"));
  EXPECT_THAT(Words("agent", {"--spool", "/option", "--host", "--spool-bytes"}),
              ElementsAre("--spool-bytes", "1G", "--late-after", "8", "--spool", "/option", "--host", "--spool-bytes"));
  EXPECT_THAT(Words("collector"), ElementsAre("--late-after", "7"));
}

TEST_F(SettingsTest, AProgramsOwnSectionCountsMoreThanTheCommonOne) {
  Write("[agent]\nlate-after = 9\n[common]\nlate-after = 7\n");
  EXPECT_THAT(Words("agent"), ElementsAre("--late-after", "9"));
  EXPECT_THAT(Words("run", {"-n", "2"}), ElementsAre("--late-after", "7", "-n", "2"));
}

TEST_F(SettingsTest, Lists) {
  Write("[agent]\ncollector = tcp://a:1,tcp://b:2\nrings = /a:/b\n");
  EXPECT_THAT(Words("agent"),
              ElementsAre("--collector", "tcp://a:1", "--collector", "tcp://b:2", "--rings", "/a", "--rings", "/b"));
  EXPECT_THAT(Words("agent", {"--rings", "/c"}),
              ElementsAre("--collector", "tcp://a:1", "--collector", "tcp://b:2", "--rings", "/c"));
  const absl::StatusOr<Merged> merged = Merge("agent", {"--rings", "/c", "--rings=/d"});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->values.back().text, "/c:/d");
}

TEST_F(SettingsTest, FlagsCanBeTakenBack) {
  Write("[agent]\ninsecure = yes\ncontainers = no\n");
  EXPECT_THAT(Words("agent"), ElementsAre("--insecure", "--no-containers"));
  EXPECT_THAT(Words("agent", {"--insecure=no"}), ElementsAre("--no-containers"));
  EXPECT_THAT(Words("agent", {"--no-containers=no", "--insecure=yes"}), ElementsAre("--insecure"));
  EXPECT_THAT(Words("agent", {"--insecure=perhaps"})[0], HasSubstr("--insecure takes no value"));
  setenv("LOCKSTEP_AGENT_INSECURE", "off", 1);
  EXPECT_THAT(Words("agent"), ElementsAre("--no-containers"));
}

TEST_F(SettingsTest, WhatExcludesSomethingPutsItOutOfForce) {
  Write("[agent]\ncollector = tcp://a:1\nout = /incidents\n[run]\ngpu = full\n[collector]\nserver-key = k\n");
  EXPECT_THAT(Words("agent", {"--alone"}), ElementsAre("--out", "/incidents", "--alone"));
  EXPECT_THAT(Words("agent"), ElementsAre("--collector", "tcp://a:1")) << "out is for --alone";
  EXPECT_THAT(Words("run", {"--profiler", "x"}), ElementsAre("--profiler", "x"));
  EXPECT_THAT(Words("collector"), IsEmpty());
  EXPECT_THAT(Words("collector", {"--upstream", "tcp://x:1"}),
              ElementsAre("--server-key", "k", "--upstream", "tcp://x:1"));
  EXPECT_THAT(Words("collector", {"--server-key", "k"}), ElementsAre("--server-key", "k"))
      << "said by hand it is a mistake to tell";
}

TEST_F(SettingsTest, WhatHasNoOptionGoesIntoTheEnvironment) {
  Write("[common]\nkeys = /from/file\n[recorder]\ndir = /rings\nhost = node7\n");
  EXPECT_THAT(Words("agent"), ElementsAre("--host", "node7"));
  EXPECT_STREQ(getenv("LOCKSTEP_KEYS"), "/from/file");
  EXPECT_STREQ(getenv("LOCKSTEP_DIR"), "/rings");
  unsetenv("LOCKSTEP_DIR");
  EXPECT_THAT(Words("clean"), ElementsAre("--dir", "/rings"));
}

TEST_F(SettingsTest, TheRecorderTakesItsOwn) {
  Write("[recorder]\ngpu = off\n[agent]\nhost = x\n");
  const absl::StatusOr<Merged> merged = Merge("recorder", {});
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->values.size(), 1u);
  EXPECT_EQ(merged->values[0].text, "off");
  EXPECT_EQ(getenv("LOCKSTEP_GPU"), nullptr);
}

TEST_F(SettingsTest, ProblemsOfOthersAreNotToldToEverybody) {
  Write("[collector]\nlisen = x\n[common]\ncolector = y\n");
  const absl::StatusOr<Merged> merged = Merge("agent", {});
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->told.size(), 1u);
  EXPECT_THAT(merged->told[0], HasSubstr("is 'collector' meant?"));
}

TEST_F(SettingsTest, ExplainNamesTheSource) {
  Write("[run]\nranks = 99999\n");
  const absl::StatusOr<Merged> merged = Merge("run", {"x"});
  ASSERT_TRUE(merged.ok());
  EXPECT_THAT(merged->Explain("-n takes a number of ranks"), HasSubstr("lockstep.conf, line 2: -n takes"));
  EXPECT_EQ(merged->Explain("--out takes"), "--out takes");
}

TEST_F(SettingsTest, HelpWorksWhateverTheFileSays) {
  Write("nonsense");
  EXPECT_THAT(Words("agent", {"--help"}), ElementsAre("--help"));
  EXPECT_THAT(Words("agent")[0], HasSubstr("line 1"));
  EXPECT_THAT(Words("agent", {"--no-config", "--alone"}), ElementsAre("--alone"));
  EXPECT_THAT(Words("run", {"x", "--no-config"})[0], HasSubstr("line 1")) << "the command's own";
}

TEST_F(SettingsTest, WhoMayWriteTheFile) {
  Write("[agent]\nhost = x\n", 0646);
  EXPECT_THAT(Words("agent")[0], HasSubstr("can be written by everybody"));
  if (geteuid() == 0) {
    const std::string path = folder_ + "/lockstep.conf";
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    ASSERT_EQ(chown(path.c_str(), 1000, 1000), 0);
    EXPECT_THAT(Words("agent")[0], HasSubstr("belongs to user 1000"));
    ASSERT_EQ(chown(path.c_str(), 0, 1000), 0);
    ASSERT_EQ(chmod(path.c_str(), 0664), 0);
    EXPECT_THAT(Words("agent")[0], HasSubstr("by group 1000"));
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    EXPECT_THAT(Words("agent"), ElementsAre("--host", "x"));
  }
}

TEST_F(SettingsTest, WhatIsNoFileOfReasonableSizeIsRefused) {
  Write(std::string(40'000, '\n'));
  EXPECT_THAT(Words("agent")[0], HasSubstr("larger than 32768"));
  setenv("LOCKSTEP_CONFIG", folder_.c_str(), 1);
  EXPECT_THAT(Words("agent")[0], HasSubstr("no regular file"));
  setenv("LOCKSTEP_CONFIG", (folder_ + "/none").c_str(), 1);
  EXPECT_THAT(Words("agent")[0], HasSubstr("mend or unset it"));
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  setenv("LOCKSTEP_CONFIG", (folder_ + "/pipe").c_str(), 1);
  EXPECT_THAT(Words("agent")[0], HasSubstr("no regular file"));
}

TEST_F(SettingsTest, AnEnvironmentThatMakesNoSenseIsNamed) {
  setenv("LOCKSTEP_SPOOL_BYTES", "lots", 1);
  EXPECT_THAT(Words("agent")[0],
              HasSubstr("LOCKSTEP_SPOOL_BYTES takes a number of bytes like 500M or 10G, not 'lots'"));
}

TEST_F(SettingsTest, WhatTheRecorderDoesNotUnderstandIsTold) {
  const std::map<std::string, std::vector<std::string>> good = {
      {"LOCKSTEP", {"0", "Off", "yes", ""}},     {"LOCKSTEP_GPU", {"no", "FULL", "0"}},
      {"LOCKSTEP_CUDA", {"1", "off", "driver"}}, {"LOCKSTEP_RING_KIB", {"8192"}},
      {"LOCKSTEP_BUDGET", {"3%", "off"}},        {"LOCKSTEP_JOB", {"anything"}}};
  for (const auto& [variable, values] : good) {
    for (const std::string& value : values) {
      setenv(variable.c_str(), value.c_str(), 1);
      EXPECT_THAT(WrongRecorderVariables(), ::testing::IsEmpty()) << variable << "=" << value;
    }
    unsetenv(variable.c_str());
  }
  setenv("LOCKSTEP_RING_KIB", "64M", 1);
  setenv("LOCKSTEP_HOOK", "on", 1);
  EXPECT_THAT(
      WrongRecorderVariables(),
      ElementsAre(
          HasSubstr("LOCKSTEP_HOOK takes one of dlsym, symbols, off, not 'on'"),
          HasSubstr("LOCKSTEP_RING_KIB takes a whole number, not '64M': the recorder goes by its default, 4096")));
  unsetenv("LOCKSTEP_RING_KIB");
  unsetenv("LOCKSTEP_HOOK");
}

}  // namespace
}  // namespace lockstep::settings
