#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analyzer/browser/explore/explore.h"
#include "analyzer/browser/serve/listing.h"
#include "analyzer/browser/serve/readers.h"
#include "analyzer/browser/serve/site.h"
#include "analyzer/browser/serve/tls.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/http/server.h"
#include "analyzer/util/time_units.h"
#include "analyzer/viewdata/facts.h"
#include "tests/support/files.h"

namespace lockstep::serve {
namespace {

using namespace http;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr char kEvil[] = "<script>document.title='owned'</script>\"'&\xe2\x80\xae\x1b[31m";

int StatusOf(std::string_view head) {
  Request request;
  return ParseRequest(head, &request);
}

TEST(ServeHttp, RequestsAreParsedStrictly) {
  Request request;
  ASSERT_EQ(ParseRequest("HEAD /a/b?by=job HTTP/1.1\r\nAccept: */*\r\nhost:\tLocalHost:80 \r\n\r\n", &request), 0);
  EXPECT_TRUE(request.head);
  EXPECT_EQ(request.path, "/a/b");
  EXPECT_EQ(request.query, "by=job");
  EXPECT_EQ(request.host, "localhost:80");
  const std::string host = "\r\nHost: localhost\r\n";
  EXPECT_EQ(StatusOf("GET / HTTP/1.0" + host + "\r\n"), 0);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", ""})
    EXPECT_EQ(StatusOf(absl::StrCat(method, " / HTTP/1.1", host, "\r\n")), 405) << method;
  EXPECT_EQ(StatusOf("GET / HTTP/2.0" + host + "\r\n"), 505);
  for (const std::string& wrong :
       {std::string(), std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), "GET / FTP/1.1" + host + "\r\n",
        "GET http://evil/ HTTP/1.1" + host + "\r\n", "GET //a b HTTP/1.1" + host + "\r\n",
        "GET /\x7f HTTP/1.1" + host + "\r\n", "GET /\xff HTTP/1.1" + host + "\r\n",
        std::string("GET / HTTP/1.1\r\n\r\n"), "GET / HTTP/1.1" + host + "Host: other\r\n\r\n",
        "GET / HTTP/1.1" + host + " folded: x\r\n\r\n", "GET / HTTP/1.1" + host + "no colon\r\n\r\n",
        "GET / HTTP/1.1" + host + ": empty\r\n\r\n", "GET / HTTP/1.1" + host + "a: b\nc: d\r\n\r\n",
        "GET / HTTP/1.1" + host + "Content-Length: 5\r\n\r\n",
        "GET / HTTP/1.1" + host + "Transfer-Encoding: chunked\r\n\r\n", "GET / HTTP/1.1" + host + "\r\nmore",
        "GET / HTTP/1.1" + host, "GET / HTTP/1.1" + host + std::string("a: \0\r\n\r\n", 8)}) {
    EXPECT_EQ(StatusOf(wrong), 400) << wrong;
  }
  EXPECT_EQ(StatusOf("GET /" + std::string(4000, 'a') + " HTTP/1.1" + host + "\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1" + host + "A: " + std::string(kMostHeadBytes, 'a') + "\r\n\r\n"), 431);
  std::string fields;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&fields, "a", i, ": b\r\n");
  EXPECT_EQ(StatusOf("GET / HTTP/1.1" + host + fields + "\r\n"), 431);
}

TEST(ServeHttp, EveryAnswerRestrictsWhatTheBrowserMayDo) {
  for (const int status : {200, 400, 403, 404, 405, 421, 431, 500}) {
    const std::string head = ResponseHead(TextResponse(status, "four"));
    EXPECT_TRUE(absl::StartsWith(head, absl::StrCat("HTTP/1.1 ", status, " ")));
    for (const char* field :
         {"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n",
          "X-Content-Type-Options: nosniff\r\n", "Cache-Control: no-store\r\n", "Referrer-Policy: no-referrer\r\n",
          "X-Frame-Options: DENY\r\n", "Content-Length: 4\r\n", "Connection: close\r\n\r\n"}) {
      EXPECT_THAT(head, HasSubstr(field));
    }
  }
}

TEST(ServeHttp, LargeAnswersAreCompressedForBrowsersThatAcceptIt) {
  Request request;
  const std::string begin = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: ";
  for (const char* takes : {"gzip", "gzip, deflate, br", "br,gzip"}) {
    ASSERT_EQ(ParseRequest(absl::StrCat(begin, takes, "\r\n\r\n"), &request), 0);
    EXPECT_TRUE(request.gzip) << takes;
  }
  for (const char* takes : {"", "br", "gzip;q=0", "xgzip"}) {
    ASSERT_EQ(ParseRequest(absl::StrCat(begin, takes, "\r\n\r\n"), &request), 0);
    EXPECT_FALSE(request.gzip) << takes;
  }
  Response small = TextResponse(200, "small"), large = TextResponse(200, std::string(1'000'000, 'x'));
  Compress(&small);
  Compress(&large);
  EXPECT_EQ(*small.body, "small");
  EXPECT_THAT(ResponseHead(small), Not(HasSubstr("Content-Encoding")));
  EXPECT_LT(large.body->size(), 100'000u);
  EXPECT_EQ(large.body->substr(0, 2), "\x1f\x8b");
  EXPECT_THAT(ResponseHead(large), HasSubstr("Content-Encoding: gzip\r\n"));
  EXPECT_THAT(ResponseHead(large), HasSubstr(absl::StrCat("Content-Length: ", large.body->size(), "\r\n")));
}

class ServeTest : public support::FolderTest {
 protected:
  // Writes an incident with a verdict but no data, and returns its folder.
  std::string Put(const std::string& name, int64_t at_s, const std::string& job, const std::string& host) {
    const std::string folder = folder_ + "/all/" + name;
    fs::create_directories(folder);
    const std::string quoted = absl::StrReplaceAll(job, {{"\"", "\\\""}, {"\x1b", "\\u001b"}});
    EXPECT_TRUE(WriteFileSafely(folder + "/manifest.json", "{}").ok());
    EXPECT_TRUE(WriteFileSafely(folder + "/verdict.json",
                                absl::StrCat(R"({"verdict":"HUNG","ranks_expected":8,"ranks_read":7,"job":")", quoted,
                                             R"(","captured_real_ns":)", at_s,
                                             R"(000000000,"findings":[{"culprit_ranks":[3,4],"headline":")", quoted,
                                             R"( hangs","culprits":[{"host":")", host, R"("},{"host":"other"}]}]})"))
                    .ok());
    return folder;
  }
  Response Get(Site* site, const std::string& path, const std::string& host = "127.0.0.1:8080") {
    const size_t question = path.find('?');
    Request request;
    request.path = path.substr(0, question);
    if (question != std::string::npos) request.query = path.substr(question + 1);
    request.host = host;
    return site->Answer(request);
  }
  std::string All() const { return folder_ + "/all"; }
  static std::string IdOf(Site* site, const std::string& name) {
    for (const Listed& incident : site->listing().All()) {
      if (incident.name == name) return incident.id;
    }
    return "";
  }
};

TEST_F(ServeTest, OnlyTheTokenGivesAccess) {
  Put("a", 1, "train", "n1");
  const std::string token = MakeToken();
  EXPECT_EQ(token.size(), 32u);
  EXPECT_NE(token, MakeToken());
  Site site({All()}, token);
  EXPECT_EQ(Get(&site, "/" + token + "/").status, 200);
  EXPECT_EQ(Get(&site, "/" + token).status, 200);
  for (const std::string& path :
       {std::string("/"), std::string(), std::string("/favicon.ico"), "/" + token + "a/", "//" + token,
        "/" + token.substr(1) + "/", "/" + std::string(32, 'a') + "/", "/?" + token}) {
    const Response response = Get(&site, path);
    EXPECT_EQ(response.status, 403) << path;
    EXPECT_THAT(*response.body, Not(HasSubstr("train")));
  }
}

TEST_F(ServeTest, OtherHostNamesForThisAddressGetNothing) {
  Site site({folder_}, "token");
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:1", "localhost", "localhost:65535", "127.0.0.2:80", "[::1]", "[::1]:80"})
    EXPECT_EQ(Get(&site, "/token/", host).status, 200) << host;
  for (const char* host : {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil", "localhost:80:80",
                           "localhost:", "127.0.0.1:abc", "10.0.0.1", "127.1", "[::1]:", "[::1]80", "[::2]:80",
                           "evil@localhost", "localhost:123456"}) {
    EXPECT_EQ(Get(&site, "/token/", host).status, 421) << host;
  }
}

TEST_F(ServeTest, NamesFromFilesStayText) {
  Put(std::string("a<img src=x>"), 1, kEvil, "<b>n1</b>");
  Site site({All()}, "token");
  const Response response = Get(&site, "/token/");
  EXPECT_THAT(*response.body, HasSubstr("&lt;script&gt;document.title"));
  for (const char* evil : {"<script", "<img", "<b>", "\xe2\x80\xae", "\x1b"})
    EXPECT_THAT(*response.body, Not(HasSubstr(evil)));
  EXPECT_THAT(*response.body, HasSubstr("explore.html\">&lt;script"));
  EXPECT_THAT(*response.body, HasSubstr("7 of 8"));
  EXPECT_THAT(*response.body, HasSubstr("n1&lt;/b&gt;, 1 more"));
  EXPECT_THAT(response.policy, HasSubstr("style-src 'sha256-"));
  EXPECT_THAT(response.policy, Not(HasSubstr("script-src")));
}

TEST_F(ServeTest, TheListIsNewestFirstAndCanBeSortedByEachColumn) {
  Put("old", 1000, "b", "n1");
  Put("new", 3000, "c", "n3");
  Put("middle", 2000, "a", "n2");
  Site site({All()}, "token");
  const auto order = [&](const std::string& query) {
    const std::string page = *Get(&site, "/token/" + query).body;
    std::vector<std::pair<size_t, std::string>> at;
    for (const char* name : {"old", "new", "middle"}) at.push_back({page.find(absl::StrCat(">", name, "<")), name});
    std::sort(at.begin(), at.end());
    return std::vector<std::string>{at[0].second, at[1].second, at[2].second};
  };
  EXPECT_THAT(order(""), ElementsAre("new", "middle", "old"));
  EXPECT_THAT(order("?by=nonsense&down=%00"), ElementsAre("new", "middle", "old"));
  EXPECT_THAT(order("?by=when"), ElementsAre("old", "middle", "new"));
  EXPECT_THAT(order("?by=job"), ElementsAre("middle", "old", "new"));
  EXPECT_THAT(order("?by=host&down=1"), ElementsAre("new", "middle", "old"));
  // The next request shows a new incident and reads a changed verdict again.
  Put("later", 4000, "d", "n4");
  const std::string page = *Get(&site, "/token/").body;
  EXPECT_LT(page.find(">later<"), page.find(">new<"));
  Put("old", 5000, "renamed-job", "n1");
  EXPECT_THAT(*Get(&site, "/token/").body, HasSubstr("renamed-job"));
}

// The server would read every listed incident at each request, so it limits their number.
TEST_F(ServeTest, OnlyTheLastWrittenIncidentsAreListed) {
  const std::string early = Put("early", 3000, "a", "n1"), past = Put("past", 4000, "a", "n1");
  fs::last_write_time(early + "/verdict.json", fs::file_time_type::clock::now() - std::chrono::hours(1));
  fs::last_write_time(early + "/manifest.json", fs::file_time_type::clock::now() - std::chrono::hours(1));
  const timespec times[] = {{0, 0}, {int64_t{1} << 62, 0}};  // a time that is too large is not an error
  utimensat(AT_FDCWD, (past + "/verdict.json").c_str(), times, 0);
  Site site({All()}, "token");
  EXPECT_EQ(site.listing().All().size(), 2u);
  for (size_t i = 1; i < Listing::kMostListed; ++i) {
    const std::string folder = absl::StrCat(All(), "/", i);
    fs::create_directories(folder);
    std::ofstream(folder + "/manifest.json") << "{}";
  }
  EXPECT_EQ(site.listing().All().size(), Listing::kMostListed);
  EXPECT_EQ(IdOf(&site, "early"), "");
  EXPECT_NE(IdOf(&site, "past"), "");
}

TEST_F(ServeTest, OnlyListedIncidentsAndTheirFilesAreRead) {
  const std::string folder = Put("a", 1, "train", "n1");
  ASSERT_TRUE(WriteFileSafely(folder_ + "/secret", "secret").ok());
  ASSERT_TRUE(WriteFileSafely(folder + "/notes.txt", "secret").ok());
  fs::create_directories(folder_ + "/outside");
  ASSERT_TRUE(WriteFileSafely(folder_ + "/outside/manifest.json", "{}").ok());
  ASSERT_TRUE(WriteFileSafely(folder_ + "/outside/verdict.json", "secret").ok());
  fs::create_symlink(folder_ + "/outside", All() + "/link");
  fs::create_symlink(folder_ + "/secret", folder + "/report.html");
  Site site({All()}, "token");
  ASSERT_EQ(site.listing().All().size(), 1u) << "a link is not an incident";
  const std::string id = IdOf(&site, "a");
  EXPECT_EQ(Get(&site, "/token/" + id + "/verdict.json").status, 200);
  EXPECT_EQ(Get(&site, "/token/" + id + "/verdict.json").type, "application/json; charset=utf-8");
  const std::vector<std::string> none = {"../secret",
                                         "..%2fsecret",
                                         "%2e%2e/secret",
                                         id + "/../secret",
                                         id + "/notes.txt",
                                         id + "/../a/verdict.json",
                                         id + "//verdict.json",
                                         id + "/verdict.json/",
                                         id,
                                         "a/verdict.json",
                                         "/" + folder + "/verdict.json",
                                         id + "/verdict.json%00",
                                         "0000000000000000/verdict.json"};
  for (const std::string& rest : none) {
    const Response response = Get(&site, "/token/" + rest);
    EXPECT_EQ(response.status, 404) << rest;
    EXPECT_THAT(*response.body, Not(HasSubstr("secret"))) << rest;
  }
  // The server does not follow the link, and there is no data for a report.
  const Response report = Get(&site, "/token/" + id + "/report.html");
  EXPECT_EQ(report.status, 500);
  EXPECT_THAT(*report.body, Not(HasSubstr("secret")));
}

TEST_F(ServeTest, AFileInTheFolderCannotRunScripts) {
  const std::string folder = Put("a", 1, "train", "n1");
  ASSERT_TRUE(WriteFileSafely(folder + "/report.html", "<script>alert(1)</script>").ok());
  ASSERT_TRUE(WriteFileSafely(folder + "/explore.html", "<script>alert(1)</script>").ok());
  Site site({All()}, "token");
  const std::string id = IdOf(&site, "a");
  const Response report = Get(&site, "/token/" + id + "/report.html");
  EXPECT_EQ(report.status, 200);
  EXPECT_THAT(report.policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(report.policy, HasSubstr("sandbox"));
  EXPECT_THAT(report.policy, Not(HasSubstr("script-src")));
  // Lockstep did not write this page, and the folder has no data.
  EXPECT_EQ(Get(&site, "/token/" + id + "/explore.html").status, 500);
  // The server returns a page that Lockstep wrote unchanged until newer data arrives.
  Verdict verdict;
  verdict.set_job("kept");
  const std::string page = ExplorePage(Bundle(), verdict, {});
  ASSERT_TRUE(WriteFileSafely(folder + "/explore.html", page).ok());
  const Response explore = Get(&site, "/token/" + id + "/explore.html");
  ASSERT_EQ(explore.status, 200) << *explore.body;
  EXPECT_EQ(*explore.body, page);
  EXPECT_EQ(explore.policy, ExplorePolicy());
  ASSERT_TRUE(WriteFileSafely(folder + "/n1.lsd", "x").ok());
  fs::last_write_time(folder + "/n1.lsd", fs::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_EQ(Get(&site, "/token/" + id + "/explore.html").status, 500);
}

TEST_F(ServeTest, ThePageOfALargeJobAsksForItsCalls) {
  const std::string folder = Put("a", 1, "train", "n1");
  Bundle bundle;
  bundle.comms.resize(1);
  bundle.comms[0].id = "00000000000000aa";
  bundle.comms[0].name = "world</script>";
  bundle.comms[0].size = 1100;
  for (int32_t r = 0; r < 1100; ++r) {
    bundle.comms[0].members.push_back(r);
    Rank rank;
    rank.rank = r;
    rank.host = "</script><script>alert(1)</script>";
    Membership m;
    m.comm = 0;
    m.member_rank = r;
    m.issued = m.completed = 1;
    rank.memberships.push_back(m);
    Op op;
    op.membership = 0;
    op.kind = ring::CallKind::kAllReduce;
    op.seq = op.index = 1;
    op.enter_ns = 1'000'000;
    op.state = OpState::kCompleted;
    rank.ops.push_back(op);
    bundle.ranks.push_back(rank);
  }
  const std::string facts = BuildViewFacts(bundle).SerializeAsString();
  ASSERT_TRUE(WriteIndex(bundle, FingerprintSources({folder}), folder + "/index.lsi", facts).ok());
  Site site({All()}, "token");
  const std::string base = "/token/" + IdOf(&site, "a") + "/";
  const Response page = Get(&site, base + "explore.html");
  ASSERT_EQ(page.status, 200) << *page.body;
  EXPECT_EQ(page.policy, ExploreServedPolicy());
  EXPECT_THAT(page.policy, HasSubstr("connect-src 'self'"));
  EXPECT_THAT(*page.body, HasSubstr(ExploreServedPolicy()));
  EXPECT_THAT(*page.body, Not(HasSubstr("<script>alert")));
  const Response grids = Get(&site, base + "grids.json");
  EXPECT_EQ(grids.status, 200);
  EXPECT_EQ(grids.type, "application/json; charset=utf-8");
  EXPECT_EQ(nlohmann::json::parse(*grids.body).size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(*Get(&site, base + "calls.json?0,1099,7").body)["ofRank"], "AQAAAAEAAAABAAAA");
  for (const char* query :
       {"", "?", "?1100", "?-1", "?0,", "?0,,1", "?1;2", "?99999999999999999999", "?0x1", "?rows=1"})
    EXPECT_EQ(Get(&site, base + "calls.json" + query).status, query == std::string("?0,") ? 200 : 404) << query;
  std::string many = "?0";
  for (int i = 0; i < 300; ++i) many += ",0";
  EXPECT_EQ(Get(&site, base + "calls.json" + many).status, 404);
  // A damaged index, an index of older data, or a link: the server does not use it.
  const auto unused = [&] {
    EXPECT_EQ(Get(&site, base + "explore.html").status, 500) << "there is no other data";
    EXPECT_EQ(Get(&site, base + "grids.json").status, 404);
  };
  ASSERT_TRUE(WriteIndex(bundle, 7, folder + "/index.lsi", facts).ok());
  unused();
  ASSERT_TRUE(WriteFileSafely(folder + "/index.lsi", std::string(600, 'x')).ok());
  unused();
  ASSERT_TRUE(WriteIndex(bundle, FingerprintSources({folder}), folder_ + "/elsewhere.lsi", facts).ok());
  fs::remove(folder + "/index.lsi");
  fs::create_symlink(folder_ + "/elsewhere.lsi", folder + "/index.lsi");
  unused();
}

TEST_F(ServeTest, DamagedVerdictsAreStillListed) {
  for (const char* text : {"", "{", "[]", "null", R"({"findings":[7],"job":[],"verdict":{}})",
                           R"({"findings":[{"culprits":[1,{"host":2}]}]})",
                           R"({"captured_real_ns":9223372036854775807,"ranks_read":-5})"}) {
    ASSERT_TRUE(WriteFileSafely(Put("a", 1, "x", "y") + "/verdict.json", text).ok());
    Site site({All()}, "token");
    EXPECT_EQ(Get(&site, "/token/").status, 200) << text;
    EXPECT_EQ(site.listing().All().size(), 1u);
  }
  const std::string open(1'000'000, '['), close(1'000'000, ']');
  for (const std::string& text : {open, open + close, absl::StrCat(R"({"findings":[{"culprits":)", open, close, "}]}"),
                                  absl::StrCat(R"({"findings":[{"culprits":{"a":)", open, close, "}}]}")}) {
    ASSERT_TRUE(WriteFileSafely(Put("a", 1, "x", "y") + "/verdict.json", text).ok());
    Site site({All()}, "token");
    EXPECT_EQ(site.listing().All().size(), 1u);
  }
  Site site({folder_ + "/none"}, "token");
  EXPECT_FALSE(site.listing().Check().ok());
}

TEST(ServeLive, LinesThatAreNotJobsAreSkipped) {
  const std::vector<LiveJob> jobs = ParseLiveJobs(
      "{\n[]\n7\n\xff\n{\"job\":7}\n"
      R"({"job":{"job":"c"},"state":7,"ranks":"x","communicators":{}})"
      "\n"
      R"({"job":{"job":"a\u001b[31m"},"last_incident":{},"calls_a_second":"x"})"
      "\n"
      R"({"job":{"job":"b"},"state":"hung","communicators":[{"missing":{"first":[5],"last":[2147483647]}}]})");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "b") << "those in trouble come first";
  EXPECT_LT(jobs[0].missing.size(), 400u);
  EXPECT_THAT(jobs[1].name, Not(HasSubstr("\x1b")));
  EXPECT_EQ(jobs[1].state, "");
}

TEST(ServeLive, RequestsThatWaitForASlowCollectorGetOneAnswer) {
  const support::TempFolder folder;
  const std::string program = folder.path() + "/top", asked = folder.path() + "/asked";
  ASSERT_TRUE(WriteFileSafely(program, absl::StrCat("#!/bin/sh\necho >> ", asked, "\nsleep 1.1\nexit 1\n")).ok());
  ASSERT_EQ(chmod(program.c_str(), 0700), 0);
  LiveJobs live(program, "");
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) readers.emplace_back([&] { EXPECT_NE(live.Get().problem, ""); });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(support::ReadFile(asked), "\n");
}

TEST(ServeCache, TheOldestPagesAreDropped) {
  PageCache cache(100);
  const auto page = [](size_t bytes) { return std::make_shared<const std::string>(bytes, 'x'); };
  cache.Add("a", page(40));
  cache.Add("b", page(40));
  EXPECT_NE(cache.Find("a"), nullptr);
  cache.Add("c", page(40));
  EXPECT_EQ(cache.Find("b"), nullptr) << "a was requested later";
  EXPECT_NE(cache.Find("a"), nullptr);
  EXPECT_NE(cache.Find("c"), nullptr);
  cache.Add("large", page(101));
  EXPECT_EQ(cache.Find("large"), nullptr);
  cache.Add("d", page(100));
  EXPECT_NE(cache.Find("d"), nullptr);
}

// Connects to the server and sends these bytes.
UniqueFd Connected(uint16_t port, const std::string& sent) {
  UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  EXPECT_EQ(connect(connection.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(send(connection.get(), sent.data(), sent.size(), MSG_NOSIGNAL), static_cast<ssize_t>(sent.size()));
  return connection;
}

std::string Exchange(uint16_t port, const std::string& sent) {
  const UniqueFd connection = Connected(port, sent);
  std::string got;
  char piece[65536];
  for (ssize_t n; (n = recv(connection.get(), piece, sizeof piece, 0)) > 0;) got.append(piece, static_cast<size_t>(n));
  return got;
}

Address Loopback() { return *ParseAddress("127.0.0.1"); }

TEST(ServeServer, AnswersWithinItsLimits) {
  const std::string large(5'000'000, 'x');
  ServerLimits limits;
  limits.connections = 2;
  limits.head_ns = 300 * kMs;
  const auto server = Server::Start(
      Loopback(), 0,
      [&](const Request& request) {
        if (request.path == "/bad") throw std::bad_alloc();
        return TextResponse(200, request.path == "/large" ? large : request.path);
      },
      nullptr, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  const uint16_t port = (*server)->port();
  const std::string rest = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_TRUE(absl::EndsWith(Exchange(port, "GET /a" + rest), "\r\n\r\n/a"));
  EXPECT_TRUE(absl::EndsWith(Exchange(port, "HEAD /a" + rest), "Connection: close\r\n\r\n"));
  EXPECT_THAT(Exchange(port, "HEAD /a" + rest), HasSubstr("Content-Length: 2\r\n"));
  EXPECT_THAT(Exchange(port, "GET /large" + rest), HasSubstr("\r\n\r\n" + large));
  EXPECT_THAT(Exchange(port, "GET /bad" + rest), HasSubstr("500 "));
  EXPECT_THAT(Exchange(port, "POST /a" + rest), HasSubstr("405 "));
  EXPECT_THAT(Exchange(port, "GET /a" + std::string(20'000, 'a')), HasSubstr("431 "));
  EXPECT_THAT(Exchange(port, "GET /slow"), HasSubstr("408 "));
  EXPECT_FALSE(Server::Start(Loopback(), port, nullptr).ok()) << "in use";
  EXPECT_FALSE(Server::Start(*ParseAddress("0.0.0.0"), 0, nullptr).ok()) << "not loopback, and no TLS";
}

TEST(ServeServer, ConnectionsWithoutAPageMakeRoom) {
  ServerLimits limits;
  limits.connections = 2;
  limits.head_ns = limits.stall_ns = 3600 * kSecond;
  const auto server = Server::Start(
      Loopback(), 0,
      [](const Request& request) {
        return TextResponse(request.path == "/no" ? 403 : 200, std::string(request.path == "/a" ? 1 : 50'000'000, 'x'));
      },
      nullptr, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  const uint16_t port = (*server)->port();
  const std::string rest = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  // Clients that send half a request, or do not read a refusal, could occupy all connections for an hour.
  std::vector<UniqueFd> hostile;
  for (int i = 0; i < 10; ++i) hostile.push_back(Connected(port, i % 2 == 0 ? "GET /a" : "GET /no" + rest));
  EXPECT_TRUE(absl::EndsWith(Exchange(port, "GET /a" + rest), "\r\n\r\nx"));
  // Connections that are receiving a page stay open.
  const UniqueFd page = Connected(port, "GET /page" + rest);
  char first = 0;
  ASSERT_EQ(recv(page.get(), &first, 1, 0), 1);
  for (int i = 0; i < 10; ++i) hostile.push_back(Connected(port, "GET /a"));
  EXPECT_TRUE(absl::EndsWith(Exchange(port, "GET /a" + rest), "\r\n\r\nx"));
  size_t got = 1;
  std::vector<char> piece(1 << 20);
  for (ssize_t n; (n = recv(page.get(), piece.data(), piece.size(), 0)) > 0;) got += static_cast<size_t>(n);
  EXPECT_GT(got, 50'000'000u);
}

// Creates a key and a self-signed certificate in `folder`.
void MakePair(const std::string& folder) {
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), X509_free);
  ASSERT_TRUE(key != nullptr && cert != nullptr);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
  X509_set_pubkey(cert.get(), key.get());
  ASSERT_GT(X509_sign(cert.get(), key.get(), EVP_sha256()), 0);
  const auto write = [&](const char* name, const auto& content) {
    std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file((folder + name).c_str(), "w"), BIO_free);
    ASSERT_TRUE(file != nullptr && content(file.get()) == 1);
  };
  write("/cert.pem", [&](BIO* to) { return PEM_write_bio_X509(to, cert.get()); });
  write("/key.pem",
        [&](BIO* to) { return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  ASSERT_EQ(chmod((folder + "/key.pem").c_str(), 0600), 0);
}

TEST(ServeStream, EndlessKeyUpdatesDoNotHoldTheThread) {
  const support::TempFolder folder;
  MakePair(folder.path());
  const auto tls = Tls::Load(folder.path() + "/cert.pem", folder.path() + "/key.pem");
  ASSERT_TRUE(tls.ok()) << tls.status();
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
  const UniqueFd own(pair[0]), other(pair[1]);
  const std::unique_ptr<Stream> stream = (*tls)->Accept(own.get());
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), SSL_free);
  SSL_set_fd(client.get(), other.get());
  Step step = Step::kWantRead;
  for (int i = 0; i < 10 && (step != Step::kDone || SSL_is_init_finished(client.get()) == 0); ++i) {
    SSL_connect(client.get());
    if (step != Step::kDone) step = stream->Begin();
  }
  ASSERT_EQ(step, Step::kDone);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(SSL_key_update(client.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(client.get()), 1);
  }
  char piece[100];
  size_t moved = 0;
  EXPECT_EQ(stream->Read(piece, sizeof piece, &moved), Step::kWantRead);
  int left = 0;
  ASSERT_EQ(ioctl(own.get(), FIONREAD, &left), 0);
  EXPECT_GT(left, 1000) << "one call handles one update";
  ASSERT_EQ(SSL_write(client.get(), "a", 1), 1);
  for (int i = 0; i < 200 && (step = stream->Read(piece, sizeof piece, &moved)) == Step::kWantRead; ++i) {
  }
  EXPECT_EQ(step, Step::kDone);
  EXPECT_EQ(moved, 1u);
}

TEST(ServeServer, EndsWhileAClientIsConnected) {
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(Loopback(), 0, [](const Request&) { return TextResponse(200, std::string(50'000'000, 'x')); });
  ASSERT_TRUE(server.ok()) << server.status();
  const UniqueFd connection = Connected((*server)->port(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  char piece[100];
  ASSERT_GT(recv(connection.get(), piece, sizeof piece, 0), 0);  // the server reads no more of the request
  const int64_t begin = MonotonicNs();
  server->reset();
  EXPECT_LT(MonotonicNs() - begin, 10 * kSecond);
}

// One thread transfers the bytes of all connections, and other threads create the responses.
TEST(ServeServer, SlowClientsDelayNobody) {
  ServerLimits limits;
  limits.answers = 1;
  limits.head_ns = limits.stall_ns = 3600 * kSecond;
  const auto server = Server::Start(
      Loopback(), 0,
      [](const Request& request) { return TextResponse(200, std::string(request.path == "/a" ? 1 : 50'000'000, 'x')); },
      nullptr, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 20; ++i) {
    // Half of the clients read nothing of the response, the others do not finish their request.
    slow.push_back(Connected((*server)->port(),
                             i % 2 == 0 ? "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n" : "GET /large HTTP/1.1"));
  }
  // If one client delayed the others, the delay would be an hour.
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(absl::EndsWith(Exchange((*server)->port(), "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"), "\r\n\r\nx"));
  }
}

TEST(ServeServer, ReadsAddresses) {
  for (const char* own : {"127.0.0.1", "127.8.9.1", "localhost", "::1"}) {
    const std::optional<Address> address = ParseAddress(own);
    ASSERT_TRUE(address) << own;
    EXPECT_TRUE(address->loopback) << own;
    EXPECT_FALSE(address->any) << own;
  }
  for (const char* other : {"0.0.0.0", "10.0.0.1", "::", "fe80::1", "::ffff:127.0.0.1"}) {
    const std::optional<Address> address = ParseAddress(other);
    ASSERT_TRUE(address) << other;
    EXPECT_FALSE(address->loopback) << other;
  }
  for (const char* none : {"", "n1", "127.0.0.1 ", "127.1", "[::1]", "localhost:1"})
    EXPECT_FALSE(ParseAddress(none)) << none;
  EXPECT_EQ(PeerText(ParseAddress("10.1.2.3")->at), "10.1.2.3");
  EXPECT_EQ(PeerText(ParseAddress("::ffff:10.1.2.3")->at), "10.1.2.3");
  EXPECT_EQ(PeerText(ParseAddress("2001:db8:1:2:3:4:5:6")->at), "2001:db8:1:2::");
}

class ReadersTest : public support::FolderTest {
 protected:
  std::string file_ = folder_ + "/readers";
};

TEST_F(ReadersTest, DamagedFilesAdmitNobody) {
  const absl::StatusOr<std::string> key = Readers::Add(file_, "alice");
  ASSERT_TRUE(key.ok()) << key.status();
  Readers readers(file_);
  EXPECT_TRUE(readers.Admit("Bearer " + *key));
  std::string text = support::ReadFile(file_);
  for (const std::string& damaged :
       {std::string(), text + "bob\n", text + "bob " + *key + "\n", text + "bob " + std::string(64, 'X') + "\n",
        text + std::string(3 << 20, '#'), std::string("\0", 1) + text}) {
    ASSERT_TRUE(WriteFileSafely(file_, damaged).ok());
    EXPECT_FALSE(readers.Admit("Bearer " + *key)) << damaged.substr(0, 200);
  }
  ASSERT_TRUE(WriteFileSafely(file_, "# who may read\n\n" + text + "\r\n").ok());
  EXPECT_TRUE(readers.Admit("Bearer " + *key));
}

}  // namespace
}  // namespace lockstep::serve
