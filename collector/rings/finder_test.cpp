#include "collector/rings/finder.h"
#include "analyzer/util/time_units.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "collector/host/proc.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class RingFinderTest : public support::FolderTest {
 protected:
  void SetUp() override { options_.folders = {folder_ + "/rings"}; }
  void Start() {
    absl::StatusOr<std::unique_ptr<RingFinder>> finder = RingFinder::Start(options_);
    ASSERT_TRUE(finder.ok()) << finder.status();
    finder_ = std::move(*finder);
  }
  bool Wait(const std::function<bool()>& done) {
    const int64_t end = MonotonicNs() + 30 * kSecond;
    for (;;) {
      for (FoundRing ring; finder_->Next(&ring);) found_[ring.name] = std::move(ring);
      if (done()) return true;
      if (MonotonicNs() > end) return false;
      pollfd wait{finder_->fd(), POLLIN, 0};
      poll(&wait, 1, 50);
    }
  }
  bool Found(const std::string& name) const { return found_.count(name) == 1; }
  void File(const std::string& path, mode_t mode = 0600) const {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << "a ring";
    chmod((folder_ + "/" + path).c_str(), mode);
  }
  // Returns how many descriptors this process has for folders whose name ends like this.
  static int OpenFolders(const std::string& end) {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string path = fs::read_symlink(entry.path(), error);
      if (path.size() >= end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0) ++count;
    }
    return count;
  }

  RingFinderOptions options_;
  std::unique_ptr<RingFinder> finder_;
  std::map<std::string, FoundRing> found_;
};

TEST_F(RingFinderTest, RingsAreFoundWheneverFolderJobAndFileAppear) {
  Start();
  ASSERT_TRUE(Wait([&] { return finder_->settled(); }));
  File("rings/job.0/a.ring");
  ASSERT_TRUE(Wait([&] { return Found("a.ring"); }));
  File("rings/job.0/b.ring");
  File("rings/job.1/c.ring");
  File("rings/job.1/not a ring");
  ASSERT_TRUE(Wait([&] { return Found("b.ring") && Found("c.ring"); }));
  EXPECT_EQ(found_["c.ring"].path, folder_ + "/rings/job.1/c.ring");
  EXPECT_EQ(found_["c.ring"].uid, geteuid());
  char text[6];
  EXPECT_EQ(pread(found_["c.ring"].fd.get(), text, 6, 0), 6);
  // The removal of a watched folder does not disturb the finder.
  fs::remove_all(folder_ + "/rings/job.1");
  File("rings/job.2/d.ring");
  ASSERT_TRUE(Wait([&] { return Found("d.ring"); }));
  EXPECT_EQ(found_.size(), 4u);
  EXPECT_EQ(finder_->counters().found, 4u);
}

TEST_F(RingFinderTest, OnlyPrivateRegularFilesAreAccepted) {
  File("rings/job.0/good.ring");
  File("rings/job.0/group.ring", 0620);
  File("rings/job.0/world.ring", 0602);
  File("secret");
  const std::string folder = folder_ + "/rings/job.0/";
  ASSERT_EQ(mkfifo((folder + "pipe.ring").c_str(), 0600), 0);
  ASSERT_EQ(symlink("../../secret", (folder + "link.ring").c_str()), 0);
  ASSERT_EQ(symlink("/", (folder_ + "/rings/root.0").c_str()), 0);
  fs::create_directory(folder + "folder.ring");
  const int unix_socket = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, (folder + "socket.ring").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(unix_socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(unix_socket);
  {
    std::ofstream large(folder + "large.ring");
    fs::permissions(folder + "large.ring", fs::perms::owner_all);
  }
  fs::resize_file(folder + "large.ring", uint64_t{1} << 40);
  const bool other_user = geteuid() == 0;
  if (other_user) {
    File("rings/job.0/stranger.ring");
    ASSERT_EQ(chown((folder + "stranger.ring").c_str(), 12345, 12345), 0);
  }
  Start();
  ASSERT_TRUE(Wait([&] { return Found("good.ring") && finder_->settled(); }));
  EXPECT_EQ(found_.size(), 1u);
  const RingFinderCounters counters = finder_->counters();
  EXPECT_EQ(counters.refused_mode, 2u);
  EXPECT_EQ(counters.refused_kind, 4u);  // a pipe, a link, a folder, a socket
  EXPECT_EQ(counters.refused_size, 1u);
  EXPECT_EQ(counters.refused_owner, other_user ? 1u : 0u);
}

TEST_F(RingFinderTest, ARingInMemoryIsFoundByItsLinkAndOutlivesItsProcess) {
  fs::create_directories(folder_ + "/rings/job.0");
  const std::string job = folder_ + "/rings/job.0/";
  File("secret");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t process = fork();
  if (process == 0) {
    const auto link = [&](const char* name, const std::string& called) {
      const int fd = memfd_create(called.c_str(), MFD_CLOEXEC);
      fchmod(fd, 0600);
      bool done = ftruncate(fd, 4096) == 0 && pwrite(fd, "in memory", 9, 0) == 9;
      const std::string target = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
      done &= symlink(target.c_str(), (job + name).c_str()) == 0;
      if (!done) _exit(1);
    };
    link("right.ring", "right.ring");
    link("wrong.ring", "anything else");
    const int other = open((folder_ + "/secret").c_str(), O_RDONLY);
    const std::string target = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(other);
    if (symlink(target.c_str(), (job + "file.ring").c_str()) != 0) _exit(1);
    if (write(ready[1], "r", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char word = 0;
  ASSERT_EQ(read(ready[0], &word, 1), 1);
  ASSERT_EQ(symlink((folder_ + "/secret").c_str(), (job + "plain.ring").c_str()), 0);
  Start();
  ASSERT_TRUE(Wait([&] { return Found("right.ring") && finder_->settled(); }));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  char text[10] = {};
  EXPECT_EQ(pread(found_["right.ring"].fd.get(), text, 9, 0), 9);
  EXPECT_STREQ(text, "in memory");
  EXPECT_EQ(found_["right.ring"].path, job + "right.ring");
  EXPECT_EQ(found_.size(), 1u) << "the finder followed a link to something other than a memory file of its name";
}

TEST_F(RingFinderTest, ManyFilesCauseNoHarm) {
  for (int i = 0; i < 600; ++i) File("rings/job.0/" + std::to_string(i) + ".ring");
  for (int i = 0; i < 1100; ++i) fs::create_directory(folder_ + "/rings/empty." + std::to_string(i));
  Start();
  ASSERT_TRUE(Wait([&] { return found_.size() == 600; }));
  EXPECT_LE(finder_->counters().folders, 1026u);  // 1,024 folders of one user, and their parent folder
}

TEST_F(RingFinderTest, AHangingFolderBlocksOnlyTheFinderAndIsReported) {
  // Like a folder on a dead server: accessing it never returns.
  struct Server {
    std::mutex mutex;
    std::condition_variable back;
    bool away = false;
  };
  const auto server = std::make_shared<Server>();
  const std::string dead = folder_ + "/dead";
  options_.folders.push_back(dead);
  options_.before_path = [server, dead](const std::string& path) {
    if (path != dead) return;
    std::unique_lock lock(server->mutex);
    server->back.wait(lock, [&] { return !server->away; });
  };
  File("rings/job.0/a.ring");
  File("dead/job.0/b.ring");
  Start();
  ASSERT_TRUE(Wait([&] { return Found("a.ring") && Found("b.ring"); }));
  EXPECT_EQ(finder_->counters().stuck_ns, 0);
  {
    std::lock_guard lock(server->mutex);
    server->away = true;
  }
  File("dead/c.ring");
  ASSERT_TRUE(Wait([&] { return finder_->counters().stuck_ns > 0; }));
  EXPECT_EQ(finder_->counters().stuck_at, dead);
  {
    std::lock_guard lock(server->mutex);
    server->away = false;
  }
  server->back.notify_all();
  ASSERT_TRUE(Wait([&] { return Found("c.ring"); }));
  EXPECT_TRUE(Wait([&] { return finder_->counters().stuck_ns == 0; }));
  {
    std::lock_guard lock(server->mutex);
    server->away = true;
  }
  File("dead/d.ring");
  ASSERT_TRUE(Wait([&] { return finder_->counters().stuck_ns > 0; }));
  const int64_t begin = MonotonicNs();
  finder_.reset();
  EXPECT_LT(MonotonicNs() - begin, 20 * kSecond) << "the finder must not wait for the folder";
  {
    std::lock_guard lock(server->mutex);
    server->away = false;
  }
  server->back.notify_all();
}

// A script prepares the job for a while, and then becomes the job through exec.
TEST_F(RingFinderTest, AProcessThatExecutesAnotherProgramIsCheckedAgain) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  fs::create_directories(folder_ + "/later/job.0");
  std::ofstream(folder_ + "/later/job.0/later.ring") << "ring";
  chmod((folder_ + "/later/job.0/later.ring").c_str(), 0600);
  const pid_t pid = fork();
  if (pid == 0) {
    close(go[1]);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(1);
    setenv("LOCKSTEP_DIR", (folder_ + "/later").c_str(), 1);
    dup2(go[0], 0);
    execl("/bin/cat", "cat", nullptr);
    _exit(1);
  }
  close(go[0]);
  options_.folders.clear();
  options_.look_ns = 1'000'000;
  Start();
  const uint64_t looks = finder_->counters().looks;
  EXPECT_TRUE(Wait([&] { return finder_->counters().looks >= looks + 4; }));
  EXPECT_FALSE(Found("later.ring"));
  EXPECT_EQ(write(go[1], "g", 1), 1);
  EXPECT_TRUE(Wait([&] { return Found("later.ring"); }));
  close(go[1]);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

void WriteRing(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << "ring";
  chmod(path.c_str(), 0600);
}

// A process in its own mount namespace. It runs `inside` and then waits to be killed, with its environment at that
// time. `inside` may pause: it calls its argument, which returns after Go().
class Container {
 public:
  explicit Container(const std::function<bool(const std::function<bool()>& pause)>& inside) {
    int ready[2], go[2];
    if (pipe(ready) != 0) return;
    if (pipe(go) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(ready[0]);
      close(go[1]);
      const auto tell = [&] { return write(ready[1], "r", 1) == 1; };
      const auto pause = [&] {
        char byte = 0;
        return tell() && read(go[0], &byte, 1) == 1;
      };
      if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) _exit(77);
      if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(77);
      if (!inside(pause) || !tell()) _exit(1);
      // Other processes see the environment of the last exec.
      dup2(go[0], 0);
      execl("/bin/cat", "cat", nullptr);
      _exit(1);
    }
    close(ready[1]);
    close(go[0]);
    ready_ = ready[0];
    go_ = go[1];
  }
  ~Container() { End(); }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;
  // Waits until the process has paused or run `inside`. Returns false if it could not be created.
  bool Ready() const {
    char byte = 0;
    return read(ready_, &byte, 1) == 1;
  }
  bool Go() const { return write(go_, "g", 1) == 1; }
  void End() {
    if (pid_ <= 0) return;
    close(go_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(ready_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int ready_ = -1, go_ = -1;
};

constexpr char kNoNamespaces[] = "namespaces cannot be made here (unshare or mount refused)";

TEST_F(RingFinderTest, RingsInsideAContainerAreFoundAndSurviveIt) {
  Container container([this](const auto&) {
    if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0 ||
        mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=1m") != 0)
      return false;
    WriteRing("/dev/shm/lockstep-0/job.0/inside.ring");
    WriteRing(folder_ + "/own/job.0/chosen.ring");
    setenv("LOCKSTEP_DIR", (folder_ + "/own").c_str(), 1);
    return true;
  });
  if (!container.Ready()) GTEST_SKIP() << kNoNamespaces;
  options_.folders.clear();
  options_.all_users = geteuid() == 0;
  options_.look_ns = 100'000'000;
  Start();
  if (geteuid() == 0) {
    EXPECT_TRUE(Wait([&] { return Found("inside.ring"); }));
  }
  EXPECT_TRUE(Wait([&] { return Found("chosen.ring"); }));
  EXPECT_EQ(found_["chosen.ring"].path, folder_ + "/own/job.0/chosen.ring");
  EXPECT_TRUE(Wait([&] { return finder_->counters().containers >= 1; }));
  // While the folder is listed, it is open twice.
  EXPECT_TRUE(Wait([&] { return OpenFolders("/own/job.0") == 1; }));
  container.End();
  // The container has ended. Its folders are closed, but its rings are still open.
  EXPECT_TRUE(Wait([&] { return OpenFolders("/own/job.0") == 0; }));
  char text[4];
  EXPECT_EQ(pread(found_["chosen.ring"].fd.get(), text, 4, 0), 4);
}

// A container's creator enters the namespace before it has its own /dev/shm or root.
TEST_F(RingFinderTest, AnUnfinishedContainerIsCheckedAgain) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Container container([](const auto& pause) {
    if (!pause() || mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) return false;
    WriteRing("/dev/shm/lockstep-0/job.0/half.ring");
    return true;
  });
  if (!container.Ready()) GTEST_SKIP() << kNoNamespaces;
  options_.folders.clear();
  options_.all_users = true;
  options_.look_ns = 1'000'000;
  Start();
  EXPECT_TRUE(Wait([&] { return finder_->counters().looks >= 4 && finder_->counters().containers >= 1; }));
  EXPECT_FALSE(Found("half.ring"));
  EXPECT_TRUE(container.Go());
  EXPECT_TRUE(Wait([&] { return Found("half.ring"); }));
}

}  // namespace
}  // namespace lockstep
