// Tests lockstep-agent as a process, with real jobs and an imitated collector.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "analyzer/formats/load/load.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/util/time_units.h"
#include "collector/common/runtime_folder.h"
#include "collector/host/environment.h"
#include "collector/host/proc.h"
#include "collector/wire/server.h"
#include "proto/wire.pb.h"
#include "tests/support/files.h"
#include "zstd.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// Starts a program with these variables added; stdout and stderr go to `log`. `before` runs in the child.
pid_t Spawn(const std::vector<std::string>& words, const std::vector<std::string>& variables, const std::string& log,
            const std::function<void()>& before = {}) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent && getppid() != 0) _exit(1);  // 0: the parent is in another PID namespace
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(out, 1);
  dup2(out, 2);
  close_range(3, ~0U, 0);
  if (before) before();
  for (const std::string& variable : variables) putenv(strdup(variable.c_str()));
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  _exit(127);
}

// Plays the collector: keeps every chunk and message that arrives.
class PlayedCollector {
 public:
  explicit PlayedCollector(const std::string& endpoint, uint64_t instance = 7) : instance_(instance) {
    wire::ServerOptions options;
    options.endpoints = {endpoint};
    absl::StatusOr<std::unique_ptr<wire::Server>> server = wire::Server::Bind(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  std::string endpoint() const { return server_->endpoints()[0]; }
  bool met() const { return peer_ != 0; }  // an agent has connected

  void Send(wire::Type type, const google::protobuf::MessageLite& message) {
    if (peer_ != 0) (void)server_->Send(peer_, *wire::Encode(type, message));
  }
  void Turn() {
    pollfd wait{server_->fd(), POLLIN, 0};
    poll(&wait, 1, 20);
    while (std::optional<wire::Received> got = server_->Receive()) Take(*got);
  }
  bool Until(const std::function<bool()>& done, int64_t limit_ns = 60 * kSecond) {
    const int64_t end = MonotonicNs() + limit_ns;
    while (!done()) {
      if (MonotonicNs() > end) return false;
      Turn();
    }
    return true;
  }
  // Sends a request for `ranks` (empty: all) of the newest job. Returns its number.
  uint64_t Ask(CollectRequest::Phase phase, const Ranks& ranks = {}) {
    CollectRequest request;
    request.set_request(++requests_);
    request.set_phase(phase);
    request.set_incident("incident");
    *request.mutable_job() = job;
    ranks.To(request.mutable_ranks());
    Send(wire::Type::kCollect, request);
    return requests_;
  }
  bool Whole(const std::string& file) const {
    const auto found = files.find(file);
    return found != files.end() && found->second.size > 0 && found->second.bytes == found->second.size;
  }

  struct File {
    std::string content;
    uint64_t bytes = 0, size = 0;
  };
  JobIdentity job;
  bool acknowledge = true;
  std::vector<Heartbeat> heartbeats;
  std::vector<LateReport> late;
  std::vector<ProcessEnded> ended;
  std::vector<Digest> digests;
  std::vector<HostEvidence> evidence;
  std::map<std::string, int> ids;  // chunk IDs, and how often each one arrived
  std::map<std::string, File> files;
  size_t largest_heartbeat = 0;

 private:
  void Take(const wire::Received& got) {
    peer_ = got.peer;
    const auto decode = [&](google::protobuf::MessageLite* into) {
      EXPECT_TRUE(wire::DecodeBody(got.message, into).ok());
    };
    switch (got.message.header.type) {
      case wire::Type::kHello: {
        Welcome welcome;
        welcome.set_version("test");
        welcome.set_instance(instance_);
        welcome.set_protocol(1);
        Send(wire::Type::kWelcome, welcome);
        break;
      }
      case wire::Type::kHeartbeat:
        heartbeats.emplace_back();
        decode(&heartbeats.back());
        job = heartbeats.back().job();
        largest_heartbeat = std::max(largest_heartbeat, heartbeats.back().ByteSizeLong());
        break;
      case wire::Type::kLate:
        late.emplace_back();
        decode(&late.back());
        break;
      case wire::Type::kEnded:
        ended.emplace_back();
        decode(&ended.back());
        break;
      case wire::Type::kDigest:
        digests.emplace_back();
        decode(&digests.back());
        break;
      case wire::Type::kEvidence:
        evidence.emplace_back();
        decode(&evidence.back());
        break;
      case wire::Type::kChunk: {
        Chunk chunk;
        decode(&chunk);
        if (ids[chunk.id()]++ == 0) Store(chunk);
        if (!acknowledge) break;
        ChunkAck ack;
        ack.add_id(chunk.id());
        Send(wire::Type::kAck, ack);
        break;
      }
      default: break;
    }
  }
  void Store(const Chunk& chunk) {
    std::string raw(chunk.raw_bytes(), '\0');
    ASSERT_EQ(ZSTD_decompress(raw.data(), raw.size(), chunk.data().data(), chunk.data().size()), raw.size());
    File& file = files[chunk.file()];
    file.content.resize(std::max<size_t>(file.content.size(), chunk.offset() + raw.size()));
    file.content.replace(chunk.offset(), raw.size(), raw);
    file.bytes += raw.size();
    if (chunk.last()) file.size = chunk.offset() + raw.size();
  }

  const uint64_t instance_;
  std::unique_ptr<wire::Server> server_;
  uint64_t peer_ = 0, requests_ = 0;
};

class AgentVerbTest : public support::FolderTest {
 protected:
  void SetUp() override { collector_ = std::make_unique<PlayedCollector>("ipc://" + folder_ + "/collector.sock"); }
  void TearDown() override {
    for (const pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    if (HasFailure()) {
      fprintf(stderr, "--- agent.log\n%s--- agent's stderr\n%s",
              support::ReadFile(folder_ + "/spool/agent.log").c_str(),
              support::ReadFile(folder_ + "/agent.err").c_str());
    }
  }

  pid_t StartAgent(std::vector<std::string> more = {}, const std::function<void()>& before = {}) {
    std::vector<std::string> words = {LOCKSTEP_AGENT, "--spool", folder_ + "/spool", "--late-after", "1"};
    if (std::find(more.begin(), more.end(), "--rings") == more.end())
      more.insert(more.end(), {"--rings", folder_ + "/rings"});
    words.insert(words.end(), more.begin(), more.end());
    const pid_t pid =
        Spawn(words, {"LOCKSTEP_RUNTIME_DIR=" + folder_ + "/run", "LOCKSTEP_COLLECTOR=" + collector_->endpoint()},
              folder_ + "/agent.err", before);
    children_.push_back(pid);
    return pid;
  }
  int End(pid_t pid, int signal) {
    if (signal != 0) kill(pid, signal);
    int status = 0;
    waitpid(pid, &status, 0);
    std::erase(children_, pid);
    return status;
  }
  // Starts the workload's ranks, each as a process with the recorder; returns their PIDs.
  std::vector<pid_t> StartJob(int ranks, const std::string& job, const std::vector<std::string>& options) {
    std::vector<pid_t> pids;
    const int port = *FreePort();
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> words = {LOCKSTEP_TRAINSIM};
      words.insert(words.end(), options.begin(), options.end());
      const std::string number = std::to_string(rank);
      pids.push_back(
          Spawn(words,
                {"RANK=" + number, "LOCAL_RANK=" + number, "WORLD_SIZE=" + std::to_string(ranks),
                 "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port), "LOCKSTEP_DIR=" + folder_ + "/rings",
                 "LOCKSTEP_JOB=" + job, "LOCKSTEP_GPU=full", "LOCKSTEP_RING_KIB=512", "LD_PRELOAD=" LOCKSTEP_LIBRARY,
                 "LD_LIBRARY_PATH=" LOCKSTEP_STANDIN},
                folder_ + "/job.log"));
      children_.push_back(pids.back());
    }
    return pids;
  }
  bool Alive(size_t ranks) {
    return collector_->Until([&] {
      return !collector_->heartbeats.empty() && Ranks::From(collector_->heartbeats.back().alive())->size() == ranks;
    });
  }

  std::unique_ptr<PlayedCollector> collector_;
  std::vector<pid_t> children_;
};

const std::vector<std::string> kLong = {"--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000"};

TEST_F(AgentVerbTest, AHangIsReportedWithDigestsEvidenceAndRings) {
  const pid_t agent = StartAgent();
  const std::vector<pid_t> ranks = StartJob(
      4, "hang",
      {"--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--fault", "rank=3,step=5,kind=stall-host,comm=dp"});
  ASSERT_TRUE(Alive(4));
  ASSERT_TRUE(collector_->Until([&] { return !collector_->late.empty(); }));
  const LateReport& late = collector_->late[0];
  EXPECT_EQ(late.job().job(), "hang");
  EXPECT_GE(late.in_flight_ns(), late.limit_ns());
  EXPECT_LE(late.in_flight_ns(), late.limit_ns() + 5 * kSecond);
  EXPECT_FALSE(Ranks::From(late.waiting())->Contains(3));
  EXPECT_LE(collector_->largest_heartbeat, 4u * 512);

  collector_->Ask(CollectRequest::DIGEST);
  ASSERT_TRUE(collector_->Until([&] { return !collector_->digests.empty(); }));
  EXPECT_EQ(collector_->digests[0].ranks_size(), 4);
  EXPECT_EQ(collector_->digests[0].refused(), "");
  collector_->Ask(CollectRequest::EVIDENCE, {3});
  ASSERT_TRUE(collector_->Until([&] { return !collector_->evidence.empty() && collector_->evidence.back().last(); }));
  ASSERT_EQ(collector_->evidence[0].reports_size(), 1);
  EXPECT_EQ(collector_->evidence[0].reports(0).rank(), 3);
  EXPECT_EQ(collector_->evidence[0].reports(0).pid(), ranks[3]);
  collector_->Ask(CollectRequest::EVERYTHING);
  const std::string host = collector_->digests[0].host();
  ASSERT_TRUE(
      collector_->Until([&] { return collector_->Whole(host + ".lsd") && collector_->Whole(host + ".evidence.lsd"); }));
  const std::string path = folder_ + "/" + host + ".lsd";
  std::ofstream(path, std::ios::binary) << collector_->files[host + ".lsd"].content;
  const absl::StatusOr<Bundle> bundle = LoadPaths({path});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->ranks.size(), 4u);

  // Tools on this host find the collector through the runtime folder.
  const absl::StatusOr<CollectorPlace> place = ReadCollectorPlace(folder_ + "/run");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->endpoint, collector_->endpoint());
  const int status = End(agent, SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_FALSE(ReadCollectorPlace(folder_ + "/run").ok());
  const std::string said = support::ReadFile(folder_ + "/agent.err");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(AgentVerbTest, RingsOfDeadRanksAreSavedAndTheFirstDeathIsReportedFirst) {
  StartAgent();
  const std::vector<pid_t> ranks = StartJob(4, "deaths", kLong);
  ASSERT_TRUE(Alive(4));
  kill(ranks[2], SIGKILL);
  siginfo_t dead{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(ranks[2]), &dead, WEXITED | WNOWAIT), 0);
  for (const int rank : {0, 1, 3}) kill(ranks[static_cast<size_t>(rank)], SIGTERM);
  ASSERT_TRUE(collector_->Until([&] { return collector_->ended.size() == 4; }));
  EXPECT_EQ(collector_->ended[0].rank(), 2);
  EXPECT_EQ(collector_->ended[0].state().life(), ProcessState::KILLED);
  EXPECT_EQ(collector_->ended[0].state().signal(), SIGKILL);
  int saved = 0;
  EXPECT_TRUE(collector_->Until([&] {
    saved = 0;
    for (const auto& entry : fs::directory_iterator(folder_ + "/spool/rings"))
      saved += entry.path().filename().string()[0] == '.' ? 0 : 1;
    return saved == 4;
  })) << saved;
  collector_->Ask(CollectRequest::EVERYTHING);
  ASSERT_TRUE(collector_->Until([&] { return collector_->files.size() == 1; }));
}

TEST_F(AgentVerbTest, AKilledAgentResendsChunksWithTheirIdsAndKeepsSavedRings) {
  const std::vector<pid_t> ranks = StartJob(4, "kills", kLong);
  std::mt19937 random(1);
  pid_t agent = StartAgent();
  ASSERT_TRUE(Alive(4));
  const std::string host = collector_->heartbeats.back().host();
  collector_->acknowledge = false;
  std::set<std::string> before;
  for (int round = 0; round < 8; ++round) {
    collector_->Ask(round % 2 == 0 ? CollectRequest::EVERYTHING : CollectRequest::EVIDENCE);
    const int64_t end = MonotonicNs() + static_cast<int64_t>(random() % 700) * 1'000'000;
    while (MonotonicNs() < end) collector_->Turn();
    End(agent, SIGKILL);
    // Chunks that arrived are still in the spool, because none was acknowledged.
    std::set<std::string> spooled;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/spool/files")) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file() && name.size() > 38) spooled.insert(name.substr(name.size() - 38, 32));
    }
    for (const auto& [id, times] : collector_->ids) {
      std::string hex;
      for (const char c : id) {
        char two[3];
        snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
        hex += two;
      }
      EXPECT_EQ(spooled.count(hex), 1u) << "a chunk that was sent is neither acknowledged nor kept";
    }
    // Waits until this agent has found the ranks. Heartbeats of the previous agent may still arrive, and the ring of a
    // rank that exits before the agent finds it is not saved.
    const int64_t started = MonotonicNs();
    agent = StartAgent();
    ASSERT_TRUE(collector_->Until([&] {
      if (collector_->heartbeats.empty()) return false;
      const Heartbeat& last = collector_->heartbeats.back();
      return last.mono_ns() > started && Ranks::From(last.alive())->size() == 4;
    }));
  }
  collector_->acknowledge = true;
  kill(ranks[1], SIGSEGV);
  ASSERT_TRUE(collector_->Until([&] {
    if (!fs::exists(folder_ + "/spool/rings")) return false;
    for (const auto& entry : fs::directory_iterator(folder_ + "/spool/rings")) {
      if (entry.path().filename().string().find(".r1.") != std::string::npos &&
          entry.path().filename().string()[0] != '.')
        return true;
    }
    return false;
  }));
  End(agent, SIGKILL);
  agent = StartAgent();
  // Everything in the spool is sent, so it becomes empty.
  ASSERT_TRUE(collector_->Until([&] { return fs::is_empty(folder_ + "/spool/files"); }, 90 * kSecond));
  ASSERT_TRUE(collector_->Until([&] {
    return !collector_->heartbeats.empty() && Ranks::From(collector_->heartbeats.back().ended())->Contains(1);
  }));
}

TEST_F(AgentVerbTest, AnotherCollectorGetsEverythingAgain) {
  StartAgent();
  // The agent does not report a rank that ended before the agent started.
  ASSERT_TRUE(collector_->Until([&] { return collector_->met(); }));
  const std::vector<pid_t> ranks = StartJob(
      4, "again",
      {"--tp", "2", "--pp", "1", "--dp", "2", "--steps", "100000", "--fault", "rank=1,step=4,kind=kill,comm=tp"});
  ASSERT_TRUE(collector_->Until([&] { return !collector_->ended.empty() && !collector_->late.empty(); }));
  const std::string endpoint = collector_->endpoint();
  collector_.reset();
  collector_ = std::make_unique<PlayedCollector>(endpoint, 8);
  ASSERT_TRUE(collector_->Until(
      [&] { return !collector_->ended.empty() && !collector_->late.empty() && !collector_->heartbeats.empty(); }));
  EXPECT_EQ(collector_->ended[0].rank(), 1);
  bool members = false;
  ASSERT_TRUE(collector_->Until([&] {
    for (const Heartbeat& heartbeat : collector_->heartbeats) {
      for (const CommunicatorBeat& beat : heartbeat.moved()) members |= beat.members().first_size() > 0;
    }
    return members;
  }));
}

TEST_F(AgentVerbTest, TwoSimultaneousJobsStaySeparate) {
  StartAgent();
  StartJob(2, "one", {"--tp", "2", "--pp", "1", "--dp", "1", "--steps", "100000"});
  StartJob(2, "two", {"--tp", "2", "--pp", "1", "--dp", "1", "--steps", "100000"});
  std::set<std::string> jobs;
  ASSERT_TRUE(collector_->Until([&] {
    for (const Heartbeat& heartbeat : collector_->heartbeats) {
      if (Ranks::From(heartbeat.alive())->size() == 2) jobs.insert(heartbeat.job().job());
    }
    return jobs.size() == 2;
  }));
}

TEST_F(AgentVerbTest, BehindARelayItAlsoRemovesTheFileThatNamesTheCollector) {
  const pid_t agent = StartAgent({"--collector", "ipc://" + folder_ + "/relay.sock," + collector_->endpoint()});
  ASSERT_TRUE(collector_->Until([&] { return ReadCollectorPlace(folder_ + "/run").ok(); }));
  EXPECT_EQ(ReadCollectorPlace(folder_ + "/run")->endpoint, collector_->endpoint());
  End(agent, SIGTERM);
  EXPECT_FALSE(ReadCollectorPlace(folder_ + "/run").ok());
}

TEST_F(AgentVerbTest, RingsAreSavedWithoutACollector) {
  StartAgent({"--collector", "ipc://" + folder_ + "/nobody.sock"});
  const std::vector<pid_t> ranks = StartJob(2, "alone", {"--tp", "2", "--pp", "1", "--dp", "1", "--steps", "100000"});
  const auto rings = [&](const std::string& folder) {
    int count = 0;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
      const std::string name = entry.path().filename();
      count += entry.path().extension() == ".ring" && name[0] != '.' ? 1 : 0;
    }
    return count;
  };
  ASSERT_TRUE(collector_->Until([&] { return rings(folder_ + "/rings") == 2; }));
  // The agent may not have found these rings yet. It must also save a ring whose process has already ended.
  kill(ranks[0], SIGKILL);
  EXPECT_TRUE(collector_->Until([&] { return rings(folder_ + "/spool/rings") >= 1; }));
}

TEST_F(AgentVerbTest, OnAFullDiskItContinuesAndReportsWhatIsMissing) {
  fs::create_directories(folder_ + "/disk");
  bool mounted = true;
  const pid_t probe = fork();
  if (probe == 0)
    _exit(unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  mount("tmpfs", (folder_ + "/disk").c_str(), "tmpfs", 0, "size=600k") == 0
              ? 0
              : 1);
  int status = 0;
  waitpid(probe, &status, 0);
  mounted = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!mounted) GTEST_SKIP() << "cannot mount a file system here";
  const pid_t agent = StartAgent({"--spool", folder_ + "/disk/spool", "--log", folder_ + "/agent.log"}, [&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", (folder_ + "/disk").c_str(), "tmpfs", 0, "size=600k") != 0) {
      _exit(1);
    }
  });
  const std::vector<pid_t> ranks = StartJob(4, "full", kLong);
  ASSERT_TRUE(Alive(4));
  // Rings of half a MiB do not all fit.
  for (const pid_t rank : ranks) kill(rank, SIGABRT);
  ASSERT_TRUE(collector_->Until([&] { return collector_->ended.size() == 4; }));
  collector_->Ask(CollectRequest::EVIDENCE, {0, 1, 2, 3});
  ASSERT_TRUE(collector_->Until([&] {
    const std::string log = support::ReadFile(folder_ + "/agent.log");
    return log.find("could not save the ring") != std::string::npos ||
           log.find("no space in the spool") != std::string::npos;
  }));
  const size_t beats = collector_->heartbeats.size();
  ASSERT_TRUE(collector_->Until([&] { return collector_->heartbeats.size() > beats + 1; }));
  EXPECT_EQ(kill(agent, 0), 0);
}

// The ranks have their own mounts, /dev/shm and PIDs, as in a container.
TEST_F(AgentVerbTest, RanksInAContainerWithItsOwnProcessNumbersAreFollowed) {
  const auto contain = [this] {
    return unshare(CLONE_NEWNS | CLONE_NEWPID) == 0 &&
           mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64m") == 0;
  };
  const pid_t probe = fork();
  if (probe == 0) _exit(contain() ? 0 : 1);
  int status = 0;
  waitpid(probe, &status, 0);
  if (status != 0) GTEST_SKIP() << "cannot create namespaces here (unshare or mount refused)";

  // With the default folders, jobs of other users on this machine are visible too.
  const pid_t agent =
      Spawn({LOCKSTEP_AGENT, "--spool", folder_ + "/spool"},
            {"LOCKSTEP_RUNTIME_DIR=" + folder_ + "/run", "LOCKSTEP_COLLECTOR=" + collector_->endpoint()},
            folder_ + "/agent.err");
  children_.push_back(agent);
  const std::string job = "contained-" + std::to_string(getpid());
  const int port = *FreePort();
  // The child of the process that unshares is process 1 inside the namespace.
  const pid_t outer = fork();
  if (outer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!contain()) _exit(1);
    const pid_t inner = Spawn({LOCKSTEP_TRAINSIM, "--tp", "1", "--pp", "1", "--dp", "1", "--steps", "100000"},
                              {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1",
                               "MASTER_PORT=" + std::to_string(port), "LOCKSTEP_JOB=" + job, "LOCKSTEP_RING_KIB=512",
                               "LD_PRELOAD=" LOCKSTEP_LIBRARY, "LD_LIBRARY_PATH=" LOCKSTEP_STANDIN},
                              folder_ + "/job.log", [] { mount("proc", "/proc", "proc", 0, nullptr); });
    int ended = 0;
    waitpid(inner, &ended, 0);
    _exit(0);
  }
  children_.push_back(outer);
  const auto beat = [&]() -> const Heartbeat* {
    for (auto at = collector_->heartbeats.rbegin(); at != collector_->heartbeats.rend(); ++at) {
      if (at->job().job() == job) return &*at;
    }
    return nullptr;
  };
  ASSERT_TRUE(collector_->Until([&] { return beat() != nullptr && beat()->alive().first_size() == 1; }));
  // Kills process 1 of the namespace from outside, and with it all processes there.
  std::vector<pid_t> inside = Descendants(outer);
  ASSERT_FALSE(inside.empty());
  kill(inside[0], SIGKILL);
  End(outer, 0);
  ASSERT_TRUE(collector_->Until([&] {
    return std::any_of(collector_->ended.begin(), collector_->ended.end(),
                       [&](const ProcessEnded& e) { return e.job().job() == job; });
  }));
  EXPECT_TRUE(collector_->Until([&] {
    for (const auto& entry : fs::directory_iterator(folder_ + "/spool/rings")) {
      const std::string name = entry.path().filename();
      // The ring is named after the PID that users see on this host.
      if (name[0] != '.' && name.find(job) != std::string::npos)
        return name.find(absl::StrCat(".", inside[0], "-")) != std::string::npos;
    }
    return false;
  }));
  const std::string log = support::ReadFile(folder_ + "/spool/agent.log");
  EXPECT_THAT(log, HasSubstr(absl::StrCat("rank 0 of ", job, " (pid ", inside[0], ")")));
}

TEST_F(AgentVerbTest, WrongArgumentsAndPlacesAreReportedAndNothingStarts) {
  const auto run = [&](std::vector<std::string> words, std::vector<std::string> variables = {}) {
    words.insert(words.begin(), LOCKSTEP_AGENT);
    fs::remove(folder_ + "/agent.err");
    variables.push_back("LOCKSTEP_RUNTIME_DIR=" + folder_ + "/run");
    const pid_t pid = Spawn(words, variables, folder_ + "/agent.err");
    int status = 0;
    waitpid(pid, &status, 0);
    return std::make_pair(WIFEXITED(status) ? WEXITSTATUS(status) : -1, support::ReadFile(folder_ + "/agent.err"));
  };
  EXPECT_EQ(run({"--nonsense"}).first, 2);
  EXPECT_EQ(run({"--spool"}).first, 2);
  EXPECT_EQ(run({"--spool-bytes", "lots"}).first, 2);
  EXPECT_EQ(run({"--late-after", "-1"}).first, 2);
  const std::string spool = "--spool=" + folder_ + "/own";
  const auto open_network =
      run({spool, "--collector", "tcp://192.0.2.1:9470"}, {"HOME=" + folder_, "LOCKSTEP_KEYS=" + folder_});
  EXPECT_EQ(open_network.first, 1);
  EXPECT_THAT(open_network.second, HasSubstr("lockstep keygen"));
  EXPECT_EQ(run({spool, "--metrics", "0.0.0.0:9400", "--collector", collector_->endpoint()}).first, 2);
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_EQ(run({"--spool", folder_ + "/file/spool"}).first, 1);
  EXPECT_EQ(run({"--help"}).first, 0);
}

}  // namespace
}  // namespace lockstep
