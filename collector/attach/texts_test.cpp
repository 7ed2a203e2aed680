// What attach reads beside stacks: output files, and NCCL's RAS.
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
#include <string>
#include <thread>
#include <vector>

#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/attach/log_tails.h"
#include "collector/attach/ras_query.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A process whose standard output and error are these; ended with this object.
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
    // Until it has them, they are ours.
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

UniqueFd Open(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

TEST(LogTails, OneOfEachFileFromAWholeLineOn) {
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

TEST(LogTails, PipesAndDevicesAreLeftAlone) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const UniqueFd from(pipe_fds[0]), to(pipe_fds[1]);
  const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  const Writer writer(to.get(), null.get());
  EXPECT_THAT(ReadLogTails({writer.pid()}, 10 * kSecond), IsEmpty());
  EXPECT_THAT(ReadLogTails({999'999'999}, 10 * kSecond), IsEmpty());
}

TEST(LogTails, FilesThatTheProcessMayNotReadAreLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may read what others may not";
  const support::TempFolder folder;
  const std::string path = folder.path() + "/secret";
  support::WriteFile(path, "secret\n");
  const UniqueFd secret = Open(path);
  ASSERT_EQ(chmod(path.c_str(), 0200), 0);
  const Writer writer(secret.get(), secret.get());
  EXPECT_THAT(ReadLogTails({writer.pid()}, 10 * kSecond), IsEmpty());
}

class RasTest : public ::testing::Test {
 protected:
  RasTest() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    port_ = ntohs(address.sin_port);
  }

  UniqueFd listener_;
  int port_ = 0;
};

TEST_F(RasTest, TheAnswerOfAProcessOfTheJob) {
  EXPECT_TRUE(ListensForRas({getpid()}, port_));
  EXPECT_FALSE(ListensForRas({1}, port_)) << "somebody else's";
  EXPECT_FALSE(ListensForRas({getpid()}, 1));
  std::string asked;
  std::thread server([&] {
    const UniqueFd client(accept(listener_.get(), nullptr, nullptr));
    char bytes[256];
    while (asked.find("verbose status\n") == std::string::npos) {
      const ssize_t got = read(client.get(), bytes, sizeof bytes);
      if (got <= 0) break;
      asked.append(bytes, static_cast<size_t>(got));
    }
    EXPECT_EQ(write(client.get(), "Job summary\n", 12), 12);
  });
  EXPECT_EQ(QueryRas(30 * kSecond, port_), "Job summary\n");
  server.join();
}

TEST_F(RasTest, SilenceEnds) {
  EXPECT_EQ(QueryRas(kSecond / 5, port_), "");
  EXPECT_EQ(QueryRas(kSecond / 5, 1), "");
}

}  // namespace
}  // namespace lockstep
