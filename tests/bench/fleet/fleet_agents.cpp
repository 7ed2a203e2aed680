// Many agents in one process: the agents' own session and transport over synthetic ranks. fleet.py starts some of these and
// gives them commands on standard input:
//   run RESTART T0_NS FAULT_RANK FAULT_STEP   the job begins anew at T0 (CLOCK_MONOTONIC); FAULT_STEP -1: without a fault
//   stats                                     answered by one line of JSON
//   quit
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>
#include <zstd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/lsd_writer.h"
#include "analyzer/ring_loader.h"
#include "collector/agent_session.h"
#include "collector/host_source.h"
#include "collector/incident.h"
#include "collector/rank_set.h"
#include "collector/wire/client.h"
#include "tests/bench/fleet/synthetic_job.h"

namespace lockstep::fleet {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

struct Options {
  int ranks = 1024, stages = 8, first_host = 0, hosts = 0;
  size_t records = 256;
  int64_t step_ns = kSecond;
  int64_t heartbeat_ns = kSecond;
  std::vector<std::string> endpoints;
  std::string key, server_key, scratch = "/dev/shm";
};

// Chunks in memory, in the order of their making; evidence first.
class MemoryStore : public ChunkStore {
 public:
  void Put(Chunk chunk, bool evidence) {
    bytes += chunk.data().size();
    (evidence ? evidence_ : everything_).push_back(std::move(chunk));
  }
  bool Next(Chunk* out) override {
    for (std::deque<Chunk>* queue : {&evidence_, &everything_}) {
      if (queue->empty()) continue;
      *out = queue->front();
      out_[queue->front().id()] = {std::move(queue->front()), queue == &evidence_};
      queue->pop_front();
      return true;
    }
    return false;
  }
  void Acked(const std::string& id) override { acked += out_.erase(id); }
  void Refused(const std::string& id, const std::string& why) override {
    if (out_.erase(id) != 0 && refused++ == 0) fprintf(stderr, "fleet_agents: a chunk was refused: %s\n", why.c_str());
  }
  void Return(const std::string& id) override {
    for (auto at = out_.begin(); at != out_.end();) {
      if (id.empty() || at->first == id) {
        (at->second.second ? evidence_ : everything_).push_front(std::move(at->second.first));
        at = out_.erase(at);
      } else {
        ++at;
      }
    }
  }
  void Cancel(uint64_t request) override {
    for (std::deque<Chunk>* queue : {&evidence_, &everything_}) {
      std::erase_if(*queue, [&](const Chunk& chunk) { return chunk.request() == request; });
    }
  }
  size_t held() const override { return evidence_.size() + everything_.size() + out_.size(); }
  uint64_t bytes = 0, acked = 0, refused = 0;

 private:
  std::deque<Chunk> evidence_, everything_;
  std::map<std::string, std::pair<Chunk, bool>> out_;
};

// The eight ranks of one host.
class SyntheticHost : public AgentSource {
 public:
  SyntheticHost(const Options& options, const SyntheticJob& job, int host, MemoryStore* store)
      : options_(options), job_(job), host_(host), store_(store), snapshots_(kRanksPerHost), sights_(kRanksPerHost) {
    Restart();
  }

  void Restart() {
    identity_.set_job("fleet");
    identity_.set_restart_count(job_.restart_count());
    identity_.set_uid(1000);
    for (int i = 0; i < kRanksPerHost; i++) job_.Fill(First() + i, &snapshots_[static_cast<size_t>(i)]);
    done_.clear();
  }

  void Look(int64_t mono_ns) override {
    for (int i = 0; i < kRanksPerHost; i++) {
      ring::Snapshot& snapshot = snapshots_[static_cast<size_t>(i)];
      RankSight& sight = sights_[static_cast<size_t>(i)];
      job_.Move(First() + i, mono_ns, &snapshot);
      sight.view = ViewOf(snapshot);
      sight.view.slot = static_cast<int32_t>(job_.restart_count()) * kRanksPerHost + i;
      sight.view.alive = true;
      sight.rank = First() + i;
      sight.state = 'S';
      sight.digest = &snapshot;
    }
  }
  size_t jobs() const override { return 1; }
  const JobIdentity& job(size_t) const override { return identity_; }
  absl::Span<const RankSight> ranks(size_t) const override { return sights_; }
  bool NextEnded(ProcessEnded*) override { return false; }
  void TellAgain() override {}

  void FillDigest(const CollectRequest& request, Digest* out) override {
    if (request.job().SerializeAsString() != identity_.SerializeAsString()) {
      out->set_refused("no rank of this job is here");
      return;
    }
    const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
    EncodeDigest(BundleNow(0), wanted.ok() ? wanted->List() : std::vector<int32_t>(), out);
    const int64_t now = Now(CLOCK_MONOTONIC);
    for (RankDigest& digest : *out->mutable_ranks()) {
      digest.set_progress_age_ns(job_.Stalled(now) ? now - job_.fault_ns() : 1'000'000);
      digest.set_activity_age_ns(digest.progress_age_ns());
      // As samples that begin when nothing has moved for a while would have it.
      if (job_.Stalled(now)) digest.set_idle_ns(std::max<int64_t>(0, now - job_.fault_ns() - 3 * kSecond));
    }
  }

  void Gather(const CollectRequest& request) override {
    const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
    if (request.phase() == CollectRequest::EVIDENCE) {
      Ranks asked = wanted.ok() ? *wanted : Ranks();
      if (const absl::StatusOr<Ranks> merged = Ranks::From(request.merged()); merged.ok()) asked.Unite(*merged);
      HostEvidence evidence;
      *evidence.mutable_job() = identity_;
      evidence.set_host(job_.HostOf(host_));
      evidence.set_request(request.request());
      evidence.set_last(true);
      for (int i = 0; i < kRanksPerHost; i++) {
        const int rank = First() + i;
        if (!asked.empty() && !asked.Contains(rank)) continue;
        EvidenceReport* report = evidence.add_reports();
        report->set_rank(rank);
        report->set_pid(10000 + i);
        ProcessState* state = report->mutable_process();
        state->set_life(ProcessState::RUNNING);
        state->set_state("S");
        state->set_cpu_ns_between_samples(0);
        state->set_io_bytes_between_samples(0);
        state->set_sample_gap_ns(kSecond);
        ThreadStack* thread = state->mutable_evidence()->add_threads();
        for (const char* frame : {"__futex_wait", "pthread_cond_wait", "train_step", "main"}) {
          state->add_stack(frame);
          thread->add_frames()->set_function(frame);
        }
      }
      evidence_.push_back(std::move(evidence));
    }
    const bool stacks_alone = request.phase() == CollectRequest::EVIDENCE && request.ranks().first().empty() && !request.merged().first().empty();
    if (stacks_alone || !done_.insert({request.request(), request.phase()}).second) return;
    PutFile(request);
  }
  void Cancel(uint64_t) override {}
  bool NextEvidence(HostEvidence* out) override {
    if (evidence_.empty()) return false;
    *out = std::move(evidence_.front());
    evidence_.pop_front();
    return true;
  }

 private:
  int First() const { return host_ * kRanksPerHost; }

  Bundle BundleNow(size_t ops) {
    const int64_t now = Now(CLOCK_MONOTONIC);
    std::vector<RingInput> inputs;
    for (int i = 0; i < kRanksPerHost; i++) {
      ring::Snapshot& snapshot = snapshots_[static_cast<size_t>(i)];
      job_.Move(First() + i, now, &snapshot);
      RingInput input;
      input.snapshot = snapshot;
      job_.AddRecent(First() + i, &input.snapshot);
      if (ops > 0) job_.AddOps(First() + i, ops, &input.snapshot);
      input.path = absl::StrCat("ring.", First() + i);
      input.process.life = Life::kRunning;
      input.process.state = "S";
      input.process.cpu_ns_between_samples = job_.Stalled(now) ? 0 : 900'000'000;
      input.process.io_bytes_between_samples = 0;
      input.process.sample_gap_ns = kSecond;
      inputs.push_back(std::move(input));
    }
    return BundleFromRings(std::move(inputs));
  }

  void PutFile(const CollectRequest& request) {
    const bool evidence = request.phase() == CollectRequest::EVIDENCE;
    const Bundle bundle = BundleNow(options_.records);
    const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
    std::vector<size_t> ranks;
    for (size_t i = 0; i < bundle.ranks.size(); i++) {
      if (!evidence || !wanted.ok() || wanted->empty() || wanted->Contains(bundle.ranks[i].rank)) ranks.push_back(i);
    }
    DumpHeader header;
    header.set_host(job_.HostOf(host_));
    header.set_job("fleet");
    header.set_restart_count(job_.restart_count());
    header.set_captured_real_ns(Now(CLOCK_REALTIME));
    header.set_ranks_expected(job_.ranks());
    const std::string path = absl::StrCat(options_.scratch, "/fleet.", getpid(), ".lsd");
    if (const absl::Status status = WriteLsd(bundle, ranks, header, path); !status.ok()) {
      fprintf(stderr, "fleet_agents: %s\n", std::string(status.message()).c_str());
      return;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    unlink(path.c_str());
    std::string name = DumpFileName(header.host());
    if (evidence) name.insert(name.size() - 4, ".evidence");
    ZSTD_CCtx* const context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    for (size_t at = 0; at < bytes.size(); at += wire::kMostChunkBytes) {
      const size_t size = std::min(wire::kMostChunkBytes, bytes.size() - at);
      Chunk chunk;
      std::string id(16, '\0');
      for (char& c : id) c = static_cast<char>(random_());
      chunk.set_id(id);
      *chunk.mutable_job() = identity_;
      chunk.set_host(header.host());
      chunk.set_incident(request.incident());
      chunk.set_file(name);
      chunk.set_offset(at);
      chunk.set_raw_bytes(static_cast<uint32_t>(size));
      chunk.set_last(at + size == bytes.size());
      chunk.set_request(request.request());
      std::string packed(ZSTD_compressBound(size), '\0');
      packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), bytes.data() + at, size));
      chunk.set_data(packed);
      store_->Put(std::move(chunk), evidence);
    }
    ZSTD_freeCCtx(context);
  }

  const Options& options_;
  const SyntheticJob& job_;
  const int host_;
  MemoryStore* const store_;
  JobIdentity identity_;
  std::vector<ring::Snapshot> snapshots_;
  std::vector<RankSight> sights_;
  std::deque<HostEvidence> evidence_;
  std::set<std::pair<uint64_t, int>> done_;
  std::mt19937 random_{std::random_device{}()};
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
  explicit Fleet(Options options) : options_(std::move(options)), job_(options_.ranks, options_.stages, options_.step_ns) {}

  int Run() {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    context_ = zmq_ctx_new();
    zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, 4 * options_.hosts + 64);
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
      // Not all at once: a fleet's agents do not start in the same millisecond either.
      for (int i = 0; i < 16 && made < agents_.size(); i++) {
        if (!Make(made)) return 1;
        made++;
      }
      const int64_t now = Now(CLOCK_MONOTONIC);
      const int64_t wait = made < agents_.size() || due_.empty() ? 0 : std::clamp<int64_t>(due_.top().first - now, 0, kSecond / 10);
      const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), static_cast<int>((wait + 999'999) / 1'000'000));
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
    agent.source = std::make_unique<SyntheticHost>(options_, job_, host, &agent.store);
    wire::ClientOptions client;
    // Spread over the relays, each with the others as fallbacks.
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
    session.look_ns = std::max(session.look_ns, options_.heartbeat_ns / 3);
    wire::Client* const link = agent.client.get();
    agent.session = std::make_unique<AgentSession>(session, agent.source.get(), &agent.store,
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
    const int64_t next = std::clamp<int64_t>(agent.session->next(), now + 1'000'000, now + kSecond / 2);
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
    printf("{\"agents\": %zu, \"connected\": %" PRIu64 ", \"welcome\": %" PRIu64 ", \"held\": %" PRIu64 ", \"late\": %" PRIu64
           ", \"heartbeats\": %" PRIu64 ", \"heartbeat_bytes\": %" PRIu64 ", \"heartbeats_dropped\": %" PRIu64 ", \"digests\": %" PRIu64
           ", \"digest_bytes\": %" PRIu64 ", \"chunks_acked\": %" PRIu64 ", \"chunk_bytes\": %" PRIu64 ", \"chunks_again\": %" PRIu64
           ", \"chunks_refused\": %" PRIu64 ", \"dropped\": %" PRIu64 "}\n",
           agents_.size(), connected, welcome, held, late, sum.heartbeats, sum.heartbeat_bytes, sum.heartbeats_dropped, sum.digests,
           sum.digest_bytes, sum.chunks_acked, sum.chunk_bytes, sum.chunks_sent_again, refused, sum.dropped);
  }

  const Options options_;
  SyntheticJob job_;
  void* context_ = nullptr;
  int epoll_ = -1;
  std::vector<SimulatedAgent> agents_;
  std::priority_queue<std::pair<int64_t, size_t>, std::vector<std::pair<int64_t, size_t>>, std::greater<>> due_;
  std::string typed_;
  bool quit_ = false;
  std::mt19937 random_{std::random_device{}()};
};

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--ranks") options.ranks = atoi(value.c_str());
    else if (name == "--stages") options.stages = atoi(value.c_str());
    else if (name == "--first-host") options.first_host = atoi(value.c_str());
    else if (name == "--hosts") options.hosts = atoi(value.c_str());
    else if (name == "--records") options.records = static_cast<size_t>(atoi(value.c_str()));
    else if (name == "--step-ms") options.step_ns = atoll(value.c_str()) * 1'000'000;
    else if (name == "--heartbeat-ms") options.heartbeat_ns = atoll(value.c_str()) * 1'000'000;
    else if (name == "--endpoints") options.endpoints = absl::StrSplit(value, ',');
    else if (name == "--key") options.key = value;
    else if (name == "--server-key") options.server_key = value;
    else if (name == "--scratch") options.scratch = value;
    else argc = 0;
  }
  if (argc % 2 == 0 || options.endpoints.empty() || options.hosts < 1 || options.stages < 1 || options.step_ns < 1'000'000 ||
      options.heartbeat_ns < 100'000'000 ||
      options.ranks % (kRanksPerHost * options.stages) != 0 || (options.first_host + options.hosts) * kRanksPerHost > options.ranks) {
    fputs("Usage: fleet_agents --ranks N --stages N --first-host N --hosts N --endpoints A,B --key FILE --server-key FILE\n"
          "                    [--records N] [--step-ms N] [--heartbeat-ms N] [--scratch FOLDER]\nSee fleet.py.\n", stderr);
    return 2;
  }
  return Fleet(std::move(options)).Run();
}

}  // namespace
}  // namespace lockstep::fleet

int main(int argc, char** argv) { return lockstep::fleet::Main(argc, argv); }
