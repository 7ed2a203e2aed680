#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "analyzer/report/before.h"
#include "analyzer/report/report.h"
#include "collector/tools/archive/http.h"
#include "collector/tools/archive/incident_rows.h"
#include "collector/tools/archive/job_days.h"
#include "collector/tools/archive/operation_rows.h"
#include "collector/tools/archive/questions.h"
#include "collector/tools/archive/spool.h"
#include "collector/tools/archive/store.h"
#include "tests/support/files.h"

namespace lockstep::archive {
namespace {

class ArchiveTest : public support::FolderTest {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  std::map<std::string, std::vector<Json>> Rows(const IncidentName& name) {
    std::map<std::string, std::vector<Json>> rows;
    const absl::Status status = MakeRows(
        folder_, name,
        [&](const std::string& table, const Json& row) {
          rows[table].push_back(row);
          return absl::OkStatus();
        },
        &notes_);
    EXPECT_TRUE(status.ok()) << status;
    return rows;
  }
  std::string notes_;
};

constexpr char kManifest[] =
    R"({"format":1,"tool_version":"0.1.0","job":"llm-7b","step":"s","restart_count":2,"uid":7,"captured_real_ns":1795305600000000001})";

TEST(Target, UnsafeUrlsAreRefused) {
  EXPECT_EQ(ParseTarget("http://127.0.0.1:8123/fleet", false)->base, "http://127.0.0.1:8123/");
  EXPECT_EQ(ParseTarget("http://me@localhost/fleet", false)->user, "me");
  EXPECT_EQ(ParseTarget("https://ch.example.org/fleet", false)->base, "https://ch.example.org:8443/");
  EXPECT_EQ(ParseTarget("http://[::1]:99/fleet", false)->base, "http://[::1]:99/");
  EXPECT_TRUE(ParseTarget("http://ch.example.org/fleet", true).ok());
  for (const char* url : {"http://ch.example.org/fleet",
                          "http://127.0.0.1.example.org/fleet",
                          "http://127.1/fleet",
                          "http://1270.0.0.1/f",
                          "http://localhost.evil/f",
                          "http://127.0.0.1@evil.example/f",
                          "ftp://127.0.0.1/f",
                          "127.0.0.1/f",
                          "http://127.0.0.1",
                          "http://127.0.0.1/",
                          "http:///f",
                          "http://127.0.0.1:0/f",
                          "http://127.0.0.1:99999/f",
                          "http://127.0.0.1:x/f",
                          "http://127.0.0.1/a;drop",
                          "http://127.0.0.1/a?x=1",
                          "http://127.0.0.1/1a",
                          "http://127.0.0.1/a b",
                          "http://a:b@127.0.0.1/f",
                          "",
                          "://",
                          "http://@localhost/f"}) {
    EXPECT_FALSE(ParseTarget(url, false).ok()) << url;
  }
  EXPECT_NE(ParseTarget("http://a:secret@127.0.0.1/f", false).status().message().find("password"),
            absl::string_view::npos);
  EXPECT_EQ(ParseTarget("http://a:secret@127.0.0.1/f", false).status().message().find("secret"),
            absl::string_view::npos);
}

TEST(Target, TemporaryErrorsAreRecognized) {
  EXPECT_TRUE(IsTemporaryAnswer(500, "Code: 252, e.displayText() = DB::Exception: Too many parts"));
  EXPECT_TRUE(IsTemporaryAnswer(503, ""));
  EXPECT_TRUE(IsTemporaryAnswer(502, "<html>Bad Gateway"));
  EXPECT_FALSE(IsTemporaryAnswer(500, "Code: 60, e.displayText() = DB::Exception: Table x doesn't exist"));
  EXPECT_FALSE(IsTemporaryAnswer(404, "nothing here"));
  EXPECT_FALSE(IsTemporaryAnswer(500, "Code: 62"));
}

TEST(Literals, MayContainAnyByte) {
  EXPECT_EQ(Quoted("n17"), "'n17'");
  EXPECT_EQ(Quoted("a'b\\c"), "'a\\x27b\\x5cc'");
  EXPECT_EQ(Quoted(std::string("\0\xff", 2)), "'\\x00\\xff'");
  EXPECT_EQ(Quoted("{host}"), "'\\x7bhost\\x7d'");  // a placeholder inside an argument is not a placeholder
}

TEST(Answers, AnswersOfEveryKindAreParsed) {
  const auto answer = ParseAnswer(
      R"({"meta":[{"name":"n","type":"UInt64"},{"name":"t","type":"String"}],"data":[["5","x\u001b[31m"],[null,"y"]],"rows":2})");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->rows[0][0], "5");
  EXPECT_EQ(AsTable(*answer, 0).find('\x1b'), std::string::npos);
  EXPECT_NE(AsJson(*answer).find("\"n\": 5"), std::string::npos);
  for (const char* text : {"", "Code: 60", "[]", "{}", R"({"meta":1,"data":[]})", R"({"meta":[{}],"data":[]})",
                           R"({"meta":[],"data":[[1]]})", R"({"meta":[{"name":"n","type":"UInt64"}],"data":[[1,2]]})",
                           R"({"meta":[{"name":"n","type":"UInt64"}],"data":[[1)",
                           R"({"meta":[{"name":"n","type":"UInt64"}],"data":[1]})"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseAnswer(text).status())) << text;
  }
  EXPECT_FALSE(ParseAnswer(std::string(1'000'000, '[')).ok());
}

TEST(Queries, HaveADescriptionAndNoUnusedArgument) {
  ASSERT_GE(ReadyQueries().size(), 5u);
  for (const auto& [name, purpose] : ReadyQueries()) {
    EXPECT_FALSE(purpose.empty()) << name;
    QueryArguments arguments;
    arguments.host = arguments.cluster = "x' OR 1=1 --";
    const absl::StatusOr<std::string> statement = ReadyQuery(name, arguments);
    ASSERT_TRUE(statement.ok()) << name;
    EXPECT_EQ(statement->find('{'), std::string::npos) << *statement;
    EXPECT_EQ(statement->find("x' OR"), std::string::npos);
  }
  EXPECT_FALSE(ReadyQuery("schema_1", {}).ok());
  EXPECT_FALSE(ReadyQuery("host", {}).ok());  // without a host, the query would read all rows
  EXPECT_NE(ReadyQuery("nothing", {}).status().message().find("culprits"), absl::string_view::npos);
}

TEST(Before, TheQuestionIsBuiltAndTheAnswerParsed) {
  Verdict verdict;
  EXPECT_EQ(BeforeQuestion(verdict, 0), "");
  Finding* finding = verdict.add_findings();
  EXPECT_EQ(BeforeQuestion(verdict, 0), "");
  finding->add_culprits()->set_host("n17");
  finding->add_evidence()->set_place("save (train.py:88)");
  const std::string question = BeforeQuestion(verdict, 42);
  EXPECT_NE(question.find("save (train.py:88)"), std::string::npos);
  const absl::StatusOr<std::string> statement = BeforeStatement(question, "");
  ASSERT_TRUE(statement.ok());
  EXPECT_NE(statement->find("real_ns < 42"), std::string::npos);
  EXPECT_EQ(statement->find("cluster"), std::string::npos);
  EXPECT_NE(BeforeStatement(question, "a'b")->find("cluster = 'a\\x27b'"), std::string::npos);

  Answer answer;
  answer.columns = {"what", "name", "times", "newest", "newest_kind"};
  answer.numeric = {false, false, true, true, false};
  answer.rows = {{"all", "", "41", "1795305600000000000", ""},
                 {"host", "n17", "3", "1795132800000000000", "GPU_STALL"}};
  Before before = TakeBefore(BeforeAnswer(question, answer));
  ASSERT_EQ(before.items.size(), 1u);
  EXPECT_EQ(before.items[0].text,
            "host n17 was the culprit of 3 of the last 41 incidents, last 2026-11-20 (GPU_STALL)");
  answer.rows.pop_back();
  before = TakeBefore(BeforeAnswer(question, answer));
  ASSERT_EQ(before.items.size(), 1u);
  EXPECT_EQ(before.items[0].text, "host n17: not among the culprits of the last 41 incidents");
  EXPECT_EQ(TakeBefore(BeforeAnswer(question, absl::UnavailableError("away"))).unknown, "away");
  answer.rows = {{"all", "", "x", "y", ""}, {"host", "n17", "-3", "", "\x1b[31m"}};
  EXPECT_TRUE(TakeBefore(BeforeAnswer(question, answer)).items.empty());
  for (const char* text : {"", "x", "[]", "{}", R"({"before":1})", R"({"before":[1,{},{"what":"host"},{"what":7}]})"}) {
    EXPECT_TRUE(TakeBefore(text).items.empty()) << text;
  }
}

TEST(Best, TheQuestionNamesOperationsAndTheAnswerIsParsed) {
  const absl::StatusOr<std::string> statement = BestStatement(
      R"({"speeds":[{"operation":"All'Reduce","bytes":1500,"ranks":8,"hosts":1},7,{"operation":5}],"until_real_ns":42})");
  ASSERT_TRUE(statement.ok()) << statement.status();
  EXPECT_NE(statement->find("('All\\x27Reduce', 1024, 8, 1)"), std::string::npos) << *statement;
  EXPECT_NE(statement->find("real_ns < 42"), std::string::npos);
  for (const char* text : {"", "[]", "{}", R"({"speeds":7})", R"({"speeds":[{"operation":1}]})"})
    EXPECT_FALSE(BestStatement(text).ok()) << text;
  Answer answer;
  answer.columns = {"operation", "size_class", "ranks", "hosts", "best", "incidents"};
  answer.numeric = {false, true, true, true, true, true};
  answer.rows = {{"AllReduce", "1024", "8", "1", "2e10", "41"}};
  const auto best = nlohmann::json::parse(BestAnswer(answer))["best"];
  ASSERT_EQ(best.size(), 1u);
  EXPECT_EQ(best[0]["bus_bytes_per_s"], 2e10);
  EXPECT_EQ(best[0]["incidents"], 41);
  EXPECT_EQ(BestAnswer(absl::UnavailableError("away")), "{\"best\":[]}\n");
}

TEST(Sizes, AreRoundedDownToAPowerOfTwo) {
  EXPECT_EQ(SizeClass(0), 0u);
  EXPECT_EQ(SizeClass(1023), 512u);
  EXPECT_EQ(SizeClass(1024), 1024u);
}

TEST(Before, TheRowIsInEveryReport) {
  Verdict verdict;
  verdict.set_verdict(VERDICT_HUNG);
  verdict.add_findings()->set_kind(HOST_STALL);
  Before before = TakeBefore(
      R"({"before":[{"what":"host","name":"n<17>","culprit_of":3,"incidents":41,"last_real_ns":1795132800000000000,"last_kind":"GPU_STALL"}]})");
  EXPECT_NE(ReportText(verdict, Bundle(), before).find("was the culprit of 3 of the last 41"), std::string::npos);
  EXPECT_NE(ReportHtml(verdict, Bundle(), nullptr, before).find("host n&lt;17&gt; was the culprit"), std::string::npos);
  const auto json = nlohmann::json::parse(ReportJson(verdict, before));
  EXPECT_EQ(json["before"][0]["culprit_of"], 3);
  EXPECT_EQ(json["before_unknown"], "");
  before = Before();
  before.unknown = "the archive did not answer within 1.5 s";
  EXPECT_NE(ReportText(verdict, Bundle(), before).find("before   unknown: the archive did not answer"),
            std::string::npos);
}

TEST_F(ArchiveTest, AnIncidentHasTheSameNameInAnyFolder) {
  EXPECT_TRUE(absl::IsInvalidArgument(NameIncident(folder_).status()));
  Write("verdict.json", "{}");
  EXPECT_TRUE(absl::IsFailedPrecondition(NameIncident(folder_).status()));
  Write("manifest.json", kManifest);
  const absl::StatusOr<IncidentName> name = NameIncident(folder_);
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->incident, "llm-7b/s/2/7@1795305600000000001");
  EXPECT_EQ(name->day, "2026-11-22");
  Write(".gathering.json", "{}");
  EXPECT_TRUE(absl::IsFailedPrecondition(NameIncident(folder_).status()));
  unlink((folder_ + "/.gathering.json").c_str());
  for (const char* text :
       {"", "[]", "{}", R"({"captured_real_ns":"x"})", R"({"captured_real_ns":-1})",
        R"({"captured_real_ns":18446744073709551615})", R"({"captured_real_ns":1e30})", R"({"captured_real_ns":1})"}) {
    Write("manifest.json", text);
    EXPECT_FALSE(NameIncident(folder_).ok()) << text;
  }
  unlink((folder_ + "/manifest.json").c_str());
  ASSERT_EQ(mkfifo((folder_ + "/manifest.json").c_str(), 0600), 0);
  EXPECT_FALSE(NameIncident(folder_).ok());  // reading the name does not wait for a writer
}

TEST_F(ArchiveTest, AVerdictBecomesRows) {
  Write("manifest.json", kManifest);
  Write(
      "verdict.json",
      R"json({"verdict":"HUNG","findings":[{"kind":"HOST_STALL","culprit_ranks":[5,6],"culprits":[{"rank":5,"host":"n17","gpu":1},
    {"rank":6,"host":"n17"}],"communicator":{"id":"00ff","name":"dp_12","size":4},"operation":"AllReduce","sequence":41,"victim_count":6,"confidence":0.9,
    "evidence":[{"text":"rank 5 stack: read < save (train.py:88)","place":"save (train.py:88)"}],"summary":"s"}],"ranks_expected":8,"ranks_read":8,
    "bandwidths":[{"communicator":{"id":"00ff","name":"dp_12","size":4},"operation":"AllReduce","bytes":1024,"operations":9,"bus_bytes_per_s":1e9}],
    "speeds":[{"operation":"AllReduce","bytes":1500,"ranks":4,"hosts":2,"communicators":1,"operations":9,"bus_bytes_per_s":1e9},7],
    "start_up":{"total_ns":5000000000,"creations_total":1,"creations":[{"communicator":{"name":"world","size":8},"call":"CommInitRank","median_ns":3}]}})json");
  absl::StatusOr<IncidentName> name = NameIncident(folder_);
  ASSERT_TRUE(name.ok());
  name->cluster = "east";
  auto rows = Rows(*name);
  ASSERT_EQ(rows["incidents"].size(), 1u);
  const Json& incident = rows["incidents"][0];
  EXPECT_EQ(incident["hosts"], Json::array({"n17"}));
  EXPECT_EQ(incident["places"], Json::array({"save (train.py:88)"}));
  EXPECT_EQ(incident["start_up_ns"], 5000000000);
  EXPECT_EQ(rows["findings"][0]["comm_class"], "dp_*");
  EXPECT_EQ(rows["culprits"].size(), 2u);
  EXPECT_EQ(rows["links"].size(), 1u);
  ASSERT_EQ(rows["speeds"].size(), 1u);
  EXPECT_EQ(rows["speeds"][0]["size_class"], 1024);
  EXPECT_EQ(rows["speeds"][0]["cluster"], "east");
  EXPECT_EQ(rows["creations"].size(), 1u);
  EXPECT_NE(notes_.find("no index.lsi"), std::string::npos);
}

TEST_F(ArchiveTest, LeftOutRowsAreReported) {
  Write("manifest.json", kManifest);
  Json many = Json::array();
  for (int i = 0; i < 1001; ++i) many.push_back(Json::object());
  Write("verdict.json",
        Json{{"findings", many}, {"bandwidths", many}, {"speeds", many}, {"start_up", {{"creations", many}}}}.dump());
  const absl::StatusOr<IncidentName> name = NameIncident(folder_);
  ASSERT_TRUE(name.ok());
  auto rows = Rows(*name);
  for (const char* table : {"findings", "links", "speeds", "creations"}) EXPECT_EQ(rows[table].size(), 1000u) << table;
  for (const char* what : {"findings", "bandwidths", "speeds", "creations"}) {
    EXPECT_NE(notes_.find("more than 1000 " + std::string(what) + "; the rest are left out\n"), std::string::npos)
        << what;
  }
}

TEST_F(ArchiveTest, HostileVerdictsAreHarmless) {
  Write("manifest.json", kManifest);
  Write("verdict.json", "{}");
  const absl::StatusOr<IncidentName> named = NameIncident(folder_);
  ASSERT_TRUE(named.ok());
  const IncidentName& name = *named;
  std::string many = R"({"findings":[)";
  for (int i = 0; i < 3000; ++i)
    many += std::string(i > 0 ? "," : "") +
            R"({"kind":7,"culprits":[1,{"rank":1e300,"host":5}],"sequence":18446744073709551615,"confidence":1e308})";
  many += "]}";
  for (
      const std::string& text :
      {std::string(R"({"findings":{"a":1},"start_up":[1],"bandwidths":7,"ranks_expected":"x"})"),
       std::string(R"({"findings":[1,null,"x",[[]]]})"), many,
       std::string(
           R"({"verdict":7,"findings":[{"summary":"\u0000x","common_factor":[],"evidence":[1,{"text":2}],"communicator":null}]})")}) {
    Write("verdict.json", text);
    auto rows = Rows(name);
    EXPECT_EQ(rows["incidents"].size(), 1u);
    EXPECT_LE(rows["findings"].size(), 1000u);
  }
  for (const std::string& text :
       {std::string("{"), std::string(R"({"verdict":"\ud800"})"), std::string(R"({"a":1e999})"), std::string(),
        std::string(2'000'000, '['), std::string("{\"a\":") + std::string(1'000'000, '[')}) {
    Write("verdict.json", text);
    EXPECT_FALSE(MakeRows(
                     folder_, name, [](const std::string&, const Json&) { return absl::OkStatus(); }, &notes_)
                     .ok());
  }
  Write("verdict.json", "{}");
  Write("index.lsi", std::string(100'000, 'x'));
  EXPECT_EQ(Rows(name)["incidents"].size(), 1u);
}

TEST_F(ArchiveTest, TheSpoolReturnsWhatWasStored) {
  absl::StatusOr<Spool> spool = Spool::Open(folder_ + "/a/spool", 1 << 20);
  ASSERT_TRUE(spool.ok());
  IncidentName name;
  name.incident = "j/\n/1@2";
  name.real_ns = 2;
  const auto put = [&](size_t rows) {
    return spool->Put(name, [rows](const RowSink& sink) {
      absl::Status status;
      for (size_t i = 0; i < rows && status.ok(); ++i)
        status = sink(i % 100 < 50 ? "findings" : "culprits", Json{{"i", i}, {"text", "\n\t\xff"}});
      return status;
    });
  };
  EXPECT_FALSE(spool->Has(name));
  ASSERT_TRUE(put(200).ok());
  EXPECT_TRUE(spool->Has(name));
  ASSERT_EQ(spool->Files().size(), 1u);
  absl::StatusOr<SpoolReader> reader = SpoolReader::Open(spool->Files()[0]);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->incident(), name.incident);
  size_t rows = 0, batches = 0;
  for (;;) {
    const absl::StatusOr<SpooledBatch> batch = reader->Next(300);
    ASSERT_TRUE(batch.ok());
    if (batch->table.empty()) break;
    EXPECT_LE(batch->rows.size(), 300u);
    for (size_t at = 0; at < batch->rows.size(); at = batch->rows.find('\n', at) + 1)
      EXPECT_EQ(Json::parse(batch->rows.substr(at, batch->rows.find('\n', at) - at))["i"], rows++);
    ++batches;
  }
  EXPECT_EQ(rows, 200u);
  EXPECT_GT(batches, 4u);
  // A row that is too long to be read back is an error.
  EXPECT_TRUE(absl::IsInvalidArgument(spool->Put(name, [](const RowSink& sink) {
    return sink("findings", Json{{"text", std::string(1 << 20, 'x')}});
  })));
  // A full spool refuses the incident and leaves no partial file.
  name.real_ns = 3;
  EXPECT_TRUE(absl::IsResourceExhausted(put(100'000)));
  EXPECT_EQ(spool->Files().size(), 1u);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(spool->folder())) ++files;
  EXPECT_EQ(files, 1u);
}

TEST_F(ArchiveTest, HostileSpoolFilesAreHarmless) {
  for (const char* text :
       {"", "x", "lockstep-archive-rows 1 \n", "lockstep-archive-rows 1 7\n", "lockstep-archive-rows 2 \"x\"\n"}) {
    Write("a.rows", text);
    EXPECT_FALSE(SpoolReader::Open(folder_ + "/a.rows").ok()) << text;
  }
  for (const char* text :
       {"x\n", "system.users\t{}\n", "incidents {}\n", "incidents\t\n", "incidents\t{}", "incidents\t1\n"}) {
    Write("a.rows", std::string("lockstep-archive-rows 1 \"x\"\n") + text);
    absl::StatusOr<SpoolReader> reader = SpoolReader::Open(folder_ + "/a.rows");
    ASSERT_TRUE(reader.ok());
    EXPECT_FALSE(reader->Next(1000).ok()) << text;
  }
  Write("a.rows", "lockstep-archive-rows 1 \"x\"\nincidents\t{" + std::string(3'000'000, 'x'));
  absl::StatusOr<SpoolReader> reader = SpoolReader::Open(folder_ + "/a.rows");
  ASSERT_TRUE(reader.ok());
  EXPECT_FALSE(reader->Next(1000).ok());
}

TEST(JobDays, AreCutAtMidnight) {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto days = ReadJobDays(
      "17|2026-11-20T12:00:00|2026-11-22T06:00:00|64\n18|Unknown|Unknown|\n\n19|1795305600|Unknown\n", 1795305600 + 60);
  ASSERT_TRUE(days.ok()) << days.status();
  ASSERT_EQ(days->size(), 4u);
  EXPECT_EQ((*days)[0].day, "2026-11-20");
  EXPECT_EQ((*days)[0].seconds, 43200u);
  EXPECT_EQ((*days)[1].seconds, 86400u);
  EXPECT_EQ((*days)[2].seconds, 21600u);
  EXPECT_EQ((*days)[2].ranks, 64u);
  EXPECT_EQ((*days)[3].job, "19");
  EXPECT_EQ((*days)[3].seconds, 60u);
  for (const char* text :
       {"x", "a|b|c", "a|1795305600|1795305599", "|1795305600|1795305600", "a|0|1795305600",
        "a|1795305600|99999999999999999999", "a|1795305600|1795305601|many", "a|950000000|1795305600"}) {
    EXPECT_FALSE(ReadJobDays(text, 1795305600).ok()) << text;
  }
}

TEST(DurationsTest, QuantilesAreRightWithinAStep) {
  Durations durations;
  EXPECT_EQ(durations.Quantile(0.5), -1);
  for (int i = 1; i <= 1000; ++i) durations.Add(int64_t{i} * 1'000'000);
  durations.Add(-1);
  EXPECT_EQ(durations.count(), 1000u);
  EXPECT_NEAR(static_cast<double>(durations.Quantile(0.5)), 5e8, 5e8 * 0.04);
  EXPECT_NEAR(static_cast<double>(durations.Quantile(0.95)), 9.5e8, 9.5e8 * 0.04);
}

TEST(DurationsTest, CallsShorterThanTheIndexsMicrosecondCount) {
  Durations durations;
  for (int i = 0; i < 96; ++i) durations.Add(0);
  for (int i = 0; i < 4; ++i) durations.Add(8'000'000);
  EXPECT_EQ(durations.count(), 100u);
  EXPECT_LT(durations.Quantile(0.5), 1000);
  EXPECT_GT(durations.Quantile(0.5), 0);
  EXPECT_LT(durations.Quantile(0.95), 1000) << "only four of a hundred calls are long";
}

}  // namespace
}  // namespace lockstep::archive
