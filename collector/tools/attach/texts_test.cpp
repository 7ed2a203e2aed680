// Tests what attach reads besides stacks: output files, and servers inside the job.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/tools/attach/local_query.h"
#include "collector/tools/attach/log_tails.h"
#include "collector/tools/attach/torch_server.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A process with these descriptors as standard output and error. The destructor kills it.
class Writer {
 public:
  Writer(int out, int err) {
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out, 1);
      dup2(err, 2);
      pause();
      _exit(0);
    }
    // Waits until the child has replaced the descriptors of this process.
    struct stat wanted {
    }, has{};
    fstat(out, &wanted);
    const std::string path = "/proc/" + std::to_string(pid_) + "/fd/2";
    fstat(err, &wanted);
    for (int i = 0; i < 500 && (stat(path.c_str(), &has) != 0 || has.st_ino != wanted.st_ino); ++i) usleep(10'000);
  }
  ~Writer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

UniqueFd Open(const std::string& path) { return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }

TEST(LogTails, EachFilesEndIsReadOnceFromAWholeLine) {
  const support::TempFolder folder;
  const UniqueFd own = Open(folder.path() + "/own"), shared = Open(folder.path() + "/shared");
  std::string text;
  while (text.size() < 600'000) text += "step " + std::to_string(text.size()) + "\n";
  support::WriteFile(folder.path() + "/own", text);
  support::WriteFile(folder.path() + "/shared", "[rank0]: hello\n");
  const Writer first(own.get(), shared.get()), second(shared.get(), shared.get());
  const std::vector<LogTail> tails = ReadLogTails({first.pid(), second.pid()}, 10 * kSecond);
  ASSERT_THAT(tails, SizeIs(2));
  EXPECT_THAT(tails[0].of, ElementsAre(0));
  EXPECT_LE(tails[0].text.size(), 256u << 10);
  EXPECT_EQ(tails[0].text.substr(0, 5), "step ");
  EXPECT_TRUE(text.ends_with(tails[0].text));
  EXPECT_THAT(tails[1].of, ElementsAre(0, 1));
  EXPECT_EQ(tails[1].text, "[rank0]: hello\n");
}

TEST(LogTails, PipesAndDevicesAreNotRead) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const UniqueFd from(pipe_fds[0]), to(pipe_fds[1]);
  const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  const Writer writer(to.get(), null.get());
  EXPECT_THAT(ReadLogTails({writer.pid()}, 10 * kSecond), IsEmpty());
  EXPECT_THAT(ReadLogTails({999'999'999}, 10 * kSecond), IsEmpty());
}

TEST(LogTails, FilesThatTheProcessMayNotReadAreSkipped) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can read what others cannot";
  const support::TempFolder folder;
  const std::string path = folder.path() + "/secret";
  support::WriteFile(path, "secret\n");
  const UniqueFd secret = Open(path);
  ASSERT_EQ(chmod(path.c_str(), 0200), 0);
  const Writer writer(secret.get(), secret.get());
  EXPECT_THAT(ReadLogTails({writer.pid()}, 10 * kSecond), IsEmpty());
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    port_ = ntohs(address.sin_port);
  }

  // Answers each of these requests once.
  void Serve(const std::vector<std::pair<std::string, std::string>>& answers) {
    for (const auto& [question, answer] : answers) {
      const UniqueFd client(accept(listener_.get(), nullptr, nullptr));
      std::string asked;
      char bytes[256];
      while (!asked.ends_with(question)) {
        const ssize_t got = read(client.get(), bytes, sizeof bytes);
        if (got <= 0) break;
        asked.append(bytes, static_cast<size_t>(got));
      }
      EXPECT_TRUE(asked.ends_with(question)) << asked;
      send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  UniqueFd listener_;
  int port_ = 0;
};

TEST_F(ServerTest, AProcessOfTheJobIsAnswered) {
  EXPECT_TRUE(ListensOn({getpid()}, port_));
  EXPECT_FALSE(ListensOn({1}, port_)) << "another user's";
  EXPECT_FALSE(ListensOn({getpid()}, 1));
  std::thread server([&] { Serve({{"verbose status\n", "Job summary\n"}}); });
  EXPECT_EQ(QueryLocal(port_, "timeout 2\nverbose status\n", 1000, 30 * kSecond), "Job summary\n");
  server.join();
}

TEST_F(ServerTest, SilenceEndsAtTheTimeLimit) {
  EXPECT_EQ(QueryLocal(port_, "x", 1000, kSecond / 5), "");
  EXPECT_EQ(QueryLocal(1, "x", 1000, kSecond / 5), "");
}

TEST_F(ServerTest, AnEndlessAnswerIsCut) {
  std::thread server([&] { Serve({{"x", std::string(1 << 20, 'x')}}); });
  const size_t got = QueryLocal(port_, "x", 1000, 30 * kSecond).size();
  EXPECT_GE(got, 1000u);
  EXPECT_LE(got, 1000u + (64 << 10));
  server.join();
}

// Returns a page as PyTorch 2.15 prints it.
std::string Page(const std::string& ranks) {
  return "HTTP/1.0 200 OK\r\n\r\n<!doctype html>\n<h1>FlightRecorder gloo</h1>\n" + ranks + "\n</section>\n";
}

constexpr char kEmpty[] = "<h2>Rank 0: http://n:1/handler/x</h2>\n <pre>{\n  \"pg_status\": {}\n}</pre>\n";

TEST(TorchServer, DumpsOfAnsweringRanksAreTaken) {
  const std::map<int32_t, std::string> dumps = DumpsInPage(
      Page("<h2>Rank 0: http://n:1/x</h2>\n<pre>{\"a\": \"<pre>\"}</pre>\n<h2>Rank 1: http://n:2/x</h2>\n<p>Failed to "
           "fetch: status=503</p>\n<pre>no process group</pre>\n<h2>Rank 12: http://n:3/x</h2>\n<pre>{}</pre>"));
  EXPECT_EQ(dumps, (std::map<int32_t, std::string>{{0, "{\"a\": \"<pre>\"}"}, {12, "{}"}}));
  for (const char* text : {"", "<h2>Rank ", "<h2>Rank 1:", "<h2>Rank 1:<pre>", "<h2>Rank 1:</pre><pre>",
                           "<h2>Rank 1:<pre></pre>", "<h2>Rank -1:<pre>{}</pre>", "<h2>Rank 99999999999:<pre>{}</pre>",
                           "<h2>Rank x:<pre>{}</pre>", "<h2>Rank <pre>{}</pre>", "<h2>Rank 1:<pre>{ cut off"}) {
    EXPECT_THAT(DumpsInPage(text), IsEmpty()) << text;
  }
}

TEST_F(ServerTest, GlooIsQueriedIfNcclRecordedNothing) {
  const std::string calls = "<h2>Rank 0: http://n:1/handler/x</h2>\n <pre>{\"collective_seq_id\": 1}</pre>\n";
  std::thread server([&] {
    Serve({{"GET /fr_trace_nccl_json HTTP/1.0\r\nHost: localhost\r\n\r\n", Page(kEmpty)},
           {"GET /fr_trace_json HTTP/1.0\r\nHost: localhost\r\n\r\n", Page(calls)}});
  });
  EXPECT_EQ(AskTorchServer({getpid()}, 30 * kSecond, port_),
            (std::map<int32_t, std::string>{{0, "{\"collective_seq_id\": 1}"}}));
  server.join();
  EXPECT_THAT(AskTorchServer({1}, 30 * kSecond, port_), IsEmpty()) << "the server belongs to another process";
}

}  // namespace
}  // namespace lockstep
