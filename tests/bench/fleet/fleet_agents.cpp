// Many agents in one process, with real sessions and transport, and synthetic ranks. fleet.py starts some of these
// processes and sends commands on standard input:
//   run RESTART T0_NS FAULT_RANK FAULT_STEP   the job starts again at T0 (CLOCK_MONOTONIC); FAULT_STEP -1: no fault
//   stats                                     answers with one line of JSON
//   quit
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collector/agent/session.h"
#include "collector/wire/client.h"
#include "tests/bench/fleet/synthetic_host.h"
#include "tests/bench/fleet/synthetic_job.h"

namespace lockstep::fleet {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kGrid = 10'000'000;
constexpr size_t kConnecting = 64;  // handshakes at a time

int64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

struct Options {
  int ranks = 1024, stages = 8, first_host = 0, hosts = 0;
  SyntheticHostOptions host;
  int64_t step_ns = kSecond;
  int64_t heartbeat_ns = kSecond;
  std::vector<std::string> endpoints;
  std::string key, server_key;
};

struct SimulatedAgent {
  MemoryStore store;
  std::unique_ptr<SyntheticHost> source;
  std::unique_ptr<wire::Client> client;
  std::unique_ptr<AgentSession> session;
  int64_t due_ns = 0, ticked_ns = 0;
};

class Fleet {
 public:
  explicit Fleet(Options options)
      : options_(std::move(options)), job_(options_.ranks, options_.stages, options_.step_ns) {}

  int Run() {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    context_ = zmq_ctx_new();
    zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, 8 * options_.hosts + 64);  // closed sockets count until libzmq reaps them
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    job_.Restart(0, Now(CLOCK_MONOTONIC), 0, -1);
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    epoll_event standard{};
    standard.events = EPOLLIN;
    standard.data.u64 = UINT64_MAX;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &standard);
    agents_.resize(static_cast<size_t>(options_.hosts));
    size_t made = 0;
    std::vector<epoll_event> events(1024);
    while (!quit_) {
      // Connects the agents in batches, as in reality. In one batch, handshakes would wait for each other, time out and
      // start again.
      while (welcomed_ < made && agents_[welcomed_].session->welcome()) welcomed_++;
      for (int i = 0; i < 16 && made < std::min(agents_.size(), welcomed_ + kConnecting); i++) {
        if (!Make(made)) return 1;
        made++;
      }
      const int64_t now = Now(CLOCK_MONOTONIC);
      const int64_t wait = due_.empty() ? 0 : std::clamp<int64_t>(due_.top().first - now, 0, kSecond / 10);
      const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                   static_cast<int>((wait + 999'999) / 1'000'000));
      for (int i = 0; i < ready; i++) {
        if (events[static_cast<size_t>(i)].data.u64 == UINT64_MAX) {
          Commands();
        } else {
          Step(events[static_cast<size_t>(i)].data.u64, false);
        }
      }
      const int64_t until = Now(CLOCK_MONOTONIC);
      for (int i = 0; i < 512 && !due_.empty() && due_.top().first <= until; i++) {
        const auto [due, index] = due_.top();
        due_.pop();
        if (agents_[index].due_ns == due) Step(index, true);
      }
    }
    return 0;
  }

 private:
  bool Make(size_t index) {
    SimulatedAgent& agent = agents_[index];
    const int host = options_.first_host + static_cast<int>(index);
    agent.source = std::make_unique<SyntheticHost>(options_.host, job_, host, &agent.store);
    wire::ClientOptions client;
    // Distributes the agents over the relays; each agent has the other relays as fallbacks.
    for (size_t i = 0; i < options_.endpoints.size(); i++) {
      client.endpoints.push_back(options_.endpoints[(static_cast<size_t>(host) + i) % options_.endpoints.size()]);
    }
    client.security.own_key = options_.key;
    client.security.server_key = options_.server_key;
    client.context = context_;
    absl::StatusOr<std::unique_ptr<wire::Client>> made = wire::Client::Connect(client);
    if (!made.ok()) {
      fprintf(stderr, "fleet_agents: %s\n", std::string(made.status().message()).c_str());
      return false;
    }
    agent.client = *std::move(made);
    AgentSessionOptions session;
    session.host = job_.HostOf(host);
    session.boot_id = absl::StrCat("boot-", host);
    session.version = "fleet";
    session.instance = (uint64_t{random_()} << 32) | random_();
    session.heartbeat_ns = options_.heartbeat_ns;
    // Longer than the heartbeat interval, so that the agent reads its rings only for heartbeats and when a limit
    // passes.
    session.look_ns = 2 * options_.heartbeat_ns;
    wire::Client* const link = agent.client.get();
    agent.session =
        std::make_unique<AgentSession>(session, agent.source.get(), &agent.store,
                                       [link](const wire::Message& message) { return link->Send(message); });
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, agent.client->fd(), &event);
    Schedule(index, Now(CLOCK_MONOTONIC));
    return true;
  }

  void Schedule(size_t index, int64_t at) {
    agents_[index].due_ns = at;
    due_.push({at, index});
  }

  void Step(size_t index, bool due) {
    SimulatedAgent& agent = agents_[index];
    const int64_t now = Now(CLOCK_MONOTONIC);
    if (!due && agent.session == nullptr) return;
    if (agent.client->Tick(now)) agent.session->Connected(now);
    while (std::optional<wire::Message> message = agent.client->Receive()) agent.session->Receive(*message, now);
    if (due || now >= agent.session->next()) agent.session->Tick(now, Now(CLOCK_REALTIME));
    // Agents that are due at about the same time are stepped together. Otherwise the process would wake once for each.
    const int64_t next =
        (std::clamp<int64_t>(agent.session->next(), now, now + options_.heartbeat_ns) / kGrid + 1) * kGrid;
    if (due || next < agent.due_ns) Schedule(index, next);
  }

  void Commands() {
    char buffer[4096];
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
    if (got == 0) quit_ = true;
    if (got <= 0) return;
    typed_.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = typed_.find('\n')) != std::string::npos; typed_.erase(0, end + 1)) {
      const std::string line = typed_.substr(0, end);
      unsigned restart = 0;
      int64_t t0 = 0, step = 0;
      int rank = 0;
      if (sscanf(line.c_str(), "run %u %" SCNd64 " %d %" SCNd64, &restart, &t0, &rank, &step) == 4) {
        job_.Restart(restart, t0, rank, step);
        for (SimulatedAgent& agent : agents_) {
          if (agent.source != nullptr) agent.source->Restart();
        }
        printf("{\"fault_ns\": %lld}\n", static_cast<long long>(job_.fault_ns()));
      } else if (line == "stats") {
        Stats();
      } else if (line == "quit") {
        quit_ = true;
      }
      fflush(stdout);
    }
  }

  void Stats() {
    AgentSessionCounters sum;
    uint64_t connected = 0, welcome = 0, held = 0, late = 0, refused = 0;
    for (const SimulatedAgent& agent : agents_) {
      if (agent.session == nullptr) continue;
      const AgentSessionCounters& one = agent.session->counters();
      connected += agent.client->connected();
      welcome += agent.session->welcome();
      held += agent.store.held();
      refused += agent.store.refused;
      late += one.late;
      sum.heartbeats += one.heartbeats;
      sum.heartbeat_bytes += one.heartbeat_bytes;
      sum.digests += one.digests;
      sum.digest_bytes += one.digest_bytes;
      sum.chunks_acked += one.chunks_acked;
      sum.chunk_bytes += one.chunk_bytes;
      sum.chunks_sent_again += one.chunks_sent_again;
      sum.dropped += one.dropped;
      sum.heartbeats_dropped += one.heartbeats_dropped;
    }
    printf("{\"agents\": %zu, \"connected\": %" PRIu64 ", \"welcome\": %" PRIu64 ", \"held\": %" PRIu64
           ", \"late\": %" PRIu64 ", \"heartbeats\": %" PRIu64 ", \"heartbeat_bytes\": %" PRIu64
           ", \"heartbeats_dropped\": %" PRIu64 ", \"digests\": %" PRIu64 ", \"digest_bytes\": %" PRIu64
           ", \"chunks_acked\": %" PRIu64 ", \"chunk_bytes\": %" PRIu64 ", \"chunks_again\": %" PRIu64
           ", \"chunks_refused\": %" PRIu64 ", \"dropped\": %" PRIu64 "}\n",
           agents_.size(), connected, welcome, held, late, sum.heartbeats, sum.heartbeat_bytes, sum.heartbeats_dropped,
           sum.digests, sum.digest_bytes, sum.chunks_acked, sum.chunk_bytes, sum.chunks_sent_again, refused,
           sum.dropped);
  }

  const Options options_;
  SyntheticJob job_;
  void* context_ = nullptr;
  int epoll_ = -1;
  std::vector<SimulatedAgent> agents_;
  std::priority_queue<std::pair<int64_t, size_t>, std::vector<std::pair<int64_t, size_t>>, std::greater<>> due_;
  std::string typed_;
  size_t welcomed_ = 0;  // the first `welcomed_` agents are welcomed
  bool quit_ = false;
  std::mt19937 random_{std::random_device{}()};
};

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--ranks")
      options.ranks = atoi(value.c_str());
    else if (name == "--stages")
      options.stages = atoi(value.c_str());
    else if (name == "--first-host")
      options.first_host = atoi(value.c_str());
    else if (name == "--hosts")
      options.hosts = atoi(value.c_str());
    else if (name == "--records")
      options.host.records = static_cast<size_t>(atoi(value.c_str()));
    else if (name == "--step-ms")
      options.step_ns = atoll(value.c_str()) * 1'000'000;
    else if (name == "--heartbeat-ms")
      options.heartbeat_ns = atoll(value.c_str()) * 1'000'000;
    else if (name == "--endpoints")
      options.endpoints = absl::StrSplit(value, ',');
    else if (name == "--key")
      options.key = value;
    else if (name == "--server-key")
      options.server_key = value;
    else if (name == "--scratch")
      options.host.scratch = value;
    else
      argc = 0;
  }
  if (argc % 2 == 0 || options.endpoints.empty() || options.hosts < 1 || options.stages < 1 ||
      options.step_ns < 1'000'000 || options.heartbeat_ns < 100'000'000 ||
      options.ranks % (kRanksPerHost * options.stages) != 0 ||
      (options.first_host + options.hosts) * kRanksPerHost > options.ranks) {
    fputs(
        "Usage: fleet_agents --ranks N --stages N --first-host N --hosts N --endpoints A,B --key FILE --server-key "
        "FILE\n"
        "                    [--records N] [--step-ms N] [--heartbeat-ms N] [--scratch FOLDER]\nSee fleet.py.\n",
        stderr);
    return 2;
  }
  return Fleet(std::move(options)).Run();
}

}  // namespace
}  // namespace lockstep::fleet

int main(int argc, char** argv) { return lockstep::fleet::Main(argc, argv); }
