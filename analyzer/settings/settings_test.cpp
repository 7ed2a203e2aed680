#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>
#include <set>

#include "analyzer/settings/help.h"
#include "analyzer/settings/options.h"
#include "recorder/ring/settings.h"
#include "tests/support/files.h"

namespace lockstep::settings {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Problem(const absl::Status& status) { return std::string(status.message()); }

TEST(SettingsTableTest, EveryNameIsUnique) {
  std::set<std::string> keys, options;
  for (const Row& row : Table()) {
    EXPECT_TRUE(keys.insert(row.section + " " + row.key).second) << row.section << " " << row.key;
    EXPECT_TRUE(row.option.empty() || options.insert(row.section + " " + row.option).second) << row.option;
    EXPECT_FALSE(row.variable.empty()) << row.key;
    EXPECT_EQ(row.variable.rfind("LOCKSTEP", 0), 0u);
    EXPECT_TRUE(row.needs.empty() || FindByKey(row.section, row.needs) != nullptr) << row.key;
    EXPECT_TRUE(row.excludes.empty() || FindByKey(row.section, row.excludes) != nullptr) << row.key;
  }
  for (const Verb& verb : Verbs()) {
    for (const Group& group : verb.groups) {
      for (const Row& row : group.rows) {
        EXPECT_EQ(row.section, verb.name);
        EXPECT_TRUE(row.hidden || row.option.empty() || IsFlag(row) || !row.value.empty()) << row.option;
      }
    }
  }
  EXPECT_NE(FindByKey("recorder", "gpu"), nullptr);
}

TEST(SettingsTableTest, SimilarNamesAreFound) {
  const std::vector<std::string> known = {"late-after", "listen", "out"};
  EXPECT_EQ(Nearest("late-aftr", known), "late-after");
  EXPECT_EQ(Nearest("lisen", known), "listen");
  EXPECT_EQ(Nearest("zzzzzz", known), "");
  EXPECT_EQ(Nearest(std::string(1000, 'x'), known), "");
}

TEST(SettingsFileTest, SectionsKeysAndCommentsAreRead) {
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

TEST(SettingsFileTest, ErrorsNameFileLineAndKey) {
  const auto problem = [](const std::string& text) {
    File file;
    return Problem(ParseText("/etc/x", text, &file));
  };
  EXPECT_EQ(problem("[agent]\nlate-after = soon\n"),
            "/etc/x, line 2: [agent] late-after takes a number of seconds, not 'soon'");
  EXPECT_THAT(problem("spool = /x\n"), HasSubstr("/etc/x, line 1: 'spool = /x' is not in a section; put [common]"));
  EXPECT_THAT(problem("[agent\n"), HasSubstr("a section header is a line like [agent]"));
  EXPECT_THAT(problem("[agent]\nspool\n"), HasSubstr("line 2: 'spool' is neither"));
  EXPECT_THAT(problem("[agent]\nspool =\n"), HasSubstr("[agent] spool takes a value"));
  EXPECT_THAT(problem("[agent]\n= x\n"), HasSubstr("no key"));
  EXPECT_THAT(problem("[agent]\nalone = perhaps\n"), HasSubstr("takes yes or no"));
  EXPECT_THAT(problem("[agent]\ncollector = head\n"), HasSubstr("tcp://ADDRESS:PORT"));
  EXPECT_THAT(problem("[analyze]\nformat = xml\n"), HasSubstr("takes one of text, json, html, explore, not 'xml'"));
  EXPECT_THAT(problem("[clean]\nolder-than = 7w\n"), HasSubstr("7d"));
  EXPECT_THAT(problem(std::string(600, '#')), HasSubstr("longer than 512"));
  EXPECT_THAT(problem(std::string("[agent]\nlog = a\0b\n", 17)), HasSubstr("zero byte"));
  EXPECT_THAT(problem("[agent]\nlate-after = \x1b[31m\n"), HasSubstr("not '?[31m'"));
}

TEST(SettingsFileTest, UnknownKeysAreReportedWithTheNearestKey) {
  File file;
  ASSERT_TRUE(ParseText("f",
                        "[agent]\nspol = /x\nlisten = tcp://x:1\nqqqqqqqqq = 1\n[agnet]\nwhat = ever\n[agent]\nspool = "
                        "/a\nspool = /b\n",
                        &file)
                  .ok());
  ASSERT_EQ(file.told.size(), 5u);
  EXPECT_EQ(file.told[0].text, "f, line 2: [agent] has no key 'spol'; did you mean 'spool'?");
  EXPECT_THAT(file.told[1].text, HasSubstr("it belongs to [collector]"));
  EXPECT_THAT(file.told[2].text, HasSubstr("lockstep config lists"));
  EXPECT_THAT(file.told[3].text, HasSubstr("did you mean [agent]?"));
  EXPECT_THAT(file.told[4].text, HasSubstr("was already set in line 8"));
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
  // Returns "key=value" for all settings of `verb`, or the error.
  static std::vector<std::string> Set(std::string_view verb, std::vector<std::string> words = {}) {
    if (verb == "run" && words.empty()) words = {"x"};
    const absl::StatusOr<ParsedOptions> options = Parse(verb, std::move(words));
    if (!options.ok()) return {"error: " + Problem(options.status())};
    std::vector<std::string> set;
    for (const Value& value : options->merged().values) set.push_back(value.row->key + "=" + value.text);
    return set;
  }
};

TEST_F(SettingsTest, OptionsOverrideTheEnvironmentWhichOverridesTheFile) {
  Write("[common]\nlate-after = 7\n[agent]\nspool = /file\nspool-bytes = 1G\nhost = one\n");
  EXPECT_THAT(Set("agent"), ElementsAre("spool=/file", "spool-bytes=1G", "host=one", "late-after=7"));
  setenv("LOCKSTEP_SPOOL", "/environment", 1);
  setenv("LOCKSTEP_AGENT_LATE_AFTER", "8", 1);
  EXPECT_THAT(Set("agent", {"--host=two"}),
              ElementsAre("spool=/environment", "spool-bytes=1G", "host=two", "late-after=8"));
  EXPECT_THAT(Set("agent", {"--spool", "/option", "--host", "--spool-bytes"}),
              ElementsAre("spool=/option", "spool-bytes=1G", "host=--spool-bytes", "late-after=8"));
  EXPECT_THAT(Set("collector"), ElementsAre("late-after=7"));
}

TEST_F(SettingsTest, AProgramsSectionOverridesTheCommonOne) {
  Write("[agent]\nlate-after = 9\n[common]\nlate-after = 7\n");
  EXPECT_THAT(Set("agent"), ElementsAre("late-after=9"));
  EXPECT_THAT(Set("run", {"-n", "2", "x"}), ElementsAre("ranks=2", "late-after=7"));
}

TEST_F(SettingsTest, ListsAreSplit) {
  Write("[agent]\ncollector = tcp://a:1,tcp://b:2\nrings = /a:/b\n");
  EXPECT_THAT(Set("agent"), ElementsAre("collector=tcp://a:1,tcp://b:2", "rings=/a:/b"));
  const absl::StatusOr<ParsedOptions> options =
      Parse("agent", {"--rings", "/c:d", "--rings=/e", "--collector", "tcp://c:3,tcp://d:4"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->List("rings"), ElementsAre("/c:d", "/e")) << "a path on the command line may hold a colon";
  EXPECT_THAT(options->List("collector"), ElementsAre("tcp://c:3", "tcp://d:4"));
}

TEST_F(SettingsTest, FlagsCanBeCancelled) {
  Write("[agent]\ninsecure = yes\ncontainers = no\n");
  EXPECT_THAT(Set("agent"), ElementsAre("insecure=yes", "containers=no"));
  EXPECT_THAT(Set("agent", {"--insecure=no"}), ElementsAre("insecure=no", "containers=no"));
  EXPECT_THAT(Set("agent", {"--no-containers=no", "--insecure=yes"}), ElementsAre("insecure=yes", "containers=yes"));
  EXPECT_THAT(Set("agent", {"--insecure=perhaps"})[0], HasSubstr("--insecure takes yes, no or no value"));
  setenv("LOCKSTEP_AGENT_INSECURE", "off", 1);
  EXPECT_FALSE(Parse("agent", {})->Flag("insecure"));
}

TEST_F(SettingsTest, ASettingIsIgnoredIfAnotherExcludesIt) {
  Write("[agent]\ncollector = tcp://a:1\nout = /incidents\n[run]\ngpu = full\n[collector]\nserver-key = k\n");
  EXPECT_THAT(Set("agent", {"--alone"}), ElementsAre("alone=yes", "out=/incidents"));
  EXPECT_THAT(Set("agent"), ElementsAre("collector=tcp://a:1")) << "--out needs --alone";
  EXPECT_THAT(Set("run", {"--profiler", "x"}), ElementsAre("profiler=yes"));
  EXPECT_THAT(Set("collector"), IsEmpty());
  EXPECT_THAT(Set("collector", {"--upstream", "tcp://x:1"}), ElementsAre("upstream=tcp://x:1", "server-key=k"));
  EXPECT_THAT(Set("collector", {"--server-key", "k"})[0], HasSubstr("--server-key works only with --upstream"))
      << "on the command line it is a mistake";
  EXPECT_THAT(Set("agent", {"--alone", "--collector", "tcp://a:1"})[0],
              HasSubstr("--collector and --alone exclude each other"));
  Write("[run]\ncollector = tcp://a:1\nout = /x\n");
  EXPECT_THAT(Set("run")[0], HasSubstr("lockstep.conf, line 3: --out and --collector exclude each other"));
}

TEST_F(SettingsTest, SettingsWithoutAnOptionGoIntoTheEnvironment) {
  Write("[common]\nkeys = /from/file\n[recorder]\ndir = /rings\nhost = node7\n");
  EXPECT_THAT(Set("agent"), ElementsAre("keys=/from/file", "dir=/rings", "host=node7"));
  EXPECT_STREQ(getenv("LOCKSTEP_KEYS"), "/from/file");
  EXPECT_STREQ(getenv("LOCKSTEP_DIR"), "/rings");
  unsetenv("LOCKSTEP_DIR");
  EXPECT_THAT(Set("clean"), ElementsAre("dir=/rings"));
}

TEST_F(SettingsTest, TheRecorderReadsItsSettings) {
  Write("[recorder]\ngpu = off\n[agent]\nhost = x\n");
  const absl::StatusOr<Merged> merged = Merge("recorder");
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->values.size(), 1u);
  EXPECT_EQ(merged->values[0].text, "off");
  EXPECT_EQ(getenv("LOCKSTEP_GPU"), nullptr);
}

TEST_F(SettingsTest, ErrorsInOtherSectionsAreNotReported) {
  Write("[collector]\nlisen = x\n[common]\ncolector = y\n");
  const absl::StatusOr<Merged> merged = Merge("agent");
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->told.size(), 1u);
  EXPECT_THAT(merged->told[0], HasSubstr("did you mean 'collector'?"));
}

TEST_F(SettingsTest, LimitsAreCheckedByTheVerbThatUsesTheValue) {
  Write("[run]\nranks = 99999\n[common]\nlate-after = 0\n");
  EXPECT_THAT(Set("run")[0], HasSubstr("lockstep.conf, line 2: -n takes a whole number from 1 to 4096, not '99999'"));
  EXPECT_THAT(Set("analyze", {"x"}), ElementsAre("late-after=0"));
  EXPECT_THAT(Set("agent")[0], HasSubstr("line 4: --late-after takes a number of seconds above 0"));
  EXPECT_THAT(Set("run", {"-n", "2", "--late-after", "1", "x"}), ElementsAre("ranks=2", "late-after=1"));
}

TEST_F(SettingsTest, HelpWorksWhateverTheFileContains) {
  Write("nonsense");
  EXPECT_TRUE(Parse("agent", {"--help"})->help);
  EXPECT_TRUE(Parse("agent", {"--nonsense", "-V"})->version);
  EXPECT_THAT(Set("agent")[0], HasSubstr("line 1"));
  EXPECT_THAT(Set("agent", {"--no-config", "--alone"}), ElementsAre("alone=yes"));
  EXPECT_THAT(Set("run", {"x", "--no-config"})[0], HasSubstr("line 1")) << "--no-config belongs to the command";
}

TEST_F(SettingsTest, AFileThatOthersMayWriteIsRefused) {
  Write("[agent]\nhost = x\n", 0646);
  EXPECT_THAT(Set("agent")[0], HasSubstr("is writable by everyone"));
  if (geteuid() == 0) {
    const std::string path = folder_ + "/lockstep.conf";
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    ASSERT_EQ(chown(path.c_str(), 1000, 1000), 0);
    EXPECT_THAT(Set("agent")[0], HasSubstr("belongs to user 1000"));
    ASSERT_EQ(chown(path.c_str(), 0, 1000), 0);
    ASSERT_EQ(chmod(path.c_str(), 0664), 0);
    EXPECT_THAT(Set("agent")[0], HasSubstr("by group 1000"));
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    EXPECT_THAT(Set("agent"), ElementsAre("host=x"));
  }
}

TEST_F(SettingsTest, TooLargeAndSpecialFilesAreRefused) {
  Write(std::string(40'000, '\n'));
  EXPECT_THAT(Set("agent")[0], HasSubstr("larger than 32768"));
  setenv("LOCKSTEP_CONFIG", folder_.c_str(), 1);
  EXPECT_THAT(Set("agent")[0], HasSubstr("not a regular file"));
  setenv("LOCKSTEP_CONFIG", (folder_ + "/none").c_str(), 1);
  EXPECT_THAT(Set("agent")[0], HasSubstr("correct or unset it"));
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  setenv("LOCKSTEP_CONFIG", (folder_ + "/pipe").c_str(), 1);
  EXPECT_THAT(Set("agent")[0], HasSubstr("not a regular file"));
}

TEST_F(SettingsTest, AnInvalidVariableIsNamed) {
  setenv("LOCKSTEP_SPOOL_BYTES", "lots", 1);
  EXPECT_THAT(Set("agent")[0], HasSubstr("LOCKSTEP_SPOOL_BYTES takes a number of bytes like 500M or 10G, not 'lots'"));
}

TEST_F(SettingsTest, ValuesThatTheRecorderDoesNotUnderstandAreReported) {
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
      ElementsAre(HasSubstr("LOCKSTEP_HOOK takes one of dlsym, symbols, off, not 'on'"),
                  HasSubstr("LOCKSTEP_RING_KIB takes a whole number, not '64M': the recorder uses its default, 4096")));
  unsetenv("LOCKSTEP_RING_KIB");
  unsetenv("LOCKSTEP_HOOK");
}

TEST_F(SettingsTest, OptionsAndOperandsAreSeparated) {
  absl::StatusOr<ParsedOptions> options =
      Parse("analyze", {"a", "--format=json", "--late-after", "2.5", "-", "--start", "--", "--output", "b"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->operands(), ElementsAre("a", "-", "--output", "b"));
  EXPECT_EQ(options->Text("format"), "json");
  EXPECT_EQ(options->Nanoseconds("late-after"), 2'500'000'000);
  EXPECT_TRUE(options->Flag("start"));
  EXPECT_FALSE(options->Given("output"));
  options = Parse("run", {"-n4", "torchrun", "--quiet", "--", "x"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->Number("ranks"), 4);
  EXPECT_FALSE(options->Flag("quiet")) << "--quiet belongs to the command";
  EXPECT_THAT(options->operands(), ElementsAre("torchrun", "--quiet", "--", "x"));
  EXPECT_EQ(Parse("agent", {"--host", "a", "--host", "b"})->Text("host"), "b") << "the last one counts";
}

TEST_F(SettingsTest, UnsetValuesHaveTheDefaultOfTheTable) {
  const absl::StatusOr<ParsedOptions> agent = Parse("agent", {});
  EXPECT_EQ(agent->Bytes("spool-bytes"), uint64_t{4} << 30);
  EXPECT_EQ(agent->Age("keep-rings"), 7 * 86400);
  EXPECT_EQ(agent->Text("redact"), "no");
  EXPECT_TRUE(agent->Flag("containers"));
  EXPECT_EQ(agent->Text("spool"), "") << "a default in words is not a value";
  EXPECT_EQ(Parse("run", {"x"})->Nanoseconds("hang-after"), 0);
  EXPECT_TRUE(Parse("collector", {})->List("listen").empty());
}

TEST_F(SettingsTest, WrongUsageIsReported) {
  const struct {
    const char* verb;
    std::vector<std::string> words;
    const char* said;
  } cases[] = {
      {"collector", {"--lisen", "x"}, "unknown option '--lisen'; did you mean --listen? (lockstep collector --help"},
      {"collector", {"--qqqqqqqqqqq"}, "unknown option '--qqqqqqqqqqq' ("},
      {"collector", {"job"}, "unexpected argument 'job'"},
      {"collector", {"--listen"}, "--listen takes a value"},
      {"collector", {"--out="}, "--out takes a value"},
      {"collector", {"--listen", "localhost:9470"}, "--listen takes an endpoint, tcp://ADDRESS:PORT"},
      {"collector", {"--listen", "tcp://x:99999"}, "not 'tcp://x:99999'"},
      {"collector", {"--upstream", "tcp://x:*"}, "--upstream takes an endpoint"},
      {"collector", {"--quota", "99999999999T"}, "--quota takes a number of bytes"},
      {"agent", {"--spool-bytes", "1k"}, "--spool-bytes takes a number of bytes like 500M or 10G, from 1M to 1024T"},
      {"agent", {"--late-after", "nan"}, "--late-after takes a number of seconds above 0 and at most 86400, not 'nan'"},
      {"agent", {"--keep-rings", "week"}, "--keep-rings takes an age such as 90s"},
      {"archive", {"--every", "0.01"}, "--every takes a number of seconds from 0.05 to 1000000"},
      {"run", {"-n", "0", "x"}, "-n takes a whole number from 1 to 4096, not '0'"},
      {"run", {"--gpu", "maybe", "x"}, "--gpu takes one of off, done, full, events, watch, auto, not 'maybe'"},
      {"export", {"--ranks", "3-2", "x"}, "--ranks takes a list of ranks like 0-7,16, not '3-2'"},
      {"export", {"--csv", "-"}, "no PATH given"},
      {"export", {""}, "an empty PATH"},
  };
  for (const auto& one : cases) EXPECT_THAT(Set(one.verb, one.words)[0], HasSubstr(one.said));
}

TEST_F(SettingsTest, HelpFitsTheTerminalAndShowsEveryOption) {
  for (const Verb& verb : Verbs()) {
    const std::string help = Help(verb);
    for (const std::string& line : SplitText(help, '\n')) EXPECT_LE(line.size(), 80u) << verb.name << ": " << line;
    EXPECT_EQ(verb.examples.size(), 3u);
    EXPECT_EQ(help.rfind("lockstep " + verb.name + " - " + verb.purpose + "\n\nUsage: lockstep " + verb.name, 0), 0u);
    for (const Group& group : verb.groups) {
      for (const Row& row : group.rows) {
        if (row.option.empty()) continue;
        const bool shown = help.find("\n  " + row.option + (IsFlag(row) ? "" : " " + row.value)) != std::string::npos;
        EXPECT_EQ(shown, !row.hidden) << verb.name << " " << row.option;
      }
    }
    for (const Example& example : verb.examples) {
      std::vector<std::string> words = SplitText(example.command, ' ');
      ASSERT_GT(words.size(), 1u);
      words.erase(words.begin(), words.begin() + 2);
      EXPECT_TRUE(Parse(verb.name, words).ok()) << example.command;
      EXPECT_FALSE(example.meaning.empty()) << example.command;
    }
  }
}

TEST(SettingsTypesTest, ValuesAreParsedAsPeopleWriteThem) {
  uint64_t bytes = 0;
  EXPECT_TRUE(ParseBytes("500k", &bytes) && bytes == 512'000);
  EXPECT_TRUE(ParseBytes("10G", &bytes) && bytes == uint64_t{10} << 30);
  for (const char* wrong : {"", "G", "1X", "-1", "1.5G", "99999999999T"})
    EXPECT_FALSE(ParseBytes(wrong, &bytes)) << wrong;
  int64_t seconds = 0;
  EXPECT_TRUE(ParseAge("36h", &seconds) && seconds == 36 * 3600);
  for (const char* wrong : {"x", "", "-1", "3w", "99999999999999999999"})
    EXPECT_FALSE(ParseAge(wrong, &seconds)) << wrong;
  RankRanges ranges;
  EXPECT_TRUE(ParseRankRanges("2-3,5", &ranges));
  EXPECT_EQ(ranges, (RankRanges{{2, 3}, {5, 5}}));
  for (const char* wrong : {"", "x", "1-", "-1", "3-2", "1-2-3", "1,,2", "99999999999"})
    EXPECT_FALSE(ParseRankRanges(wrong, &ranges)) << wrong;
}

}  // namespace
}  // namespace lockstep::settings
