#include "collector/service/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/rotating_file.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/common/metrics/metrics.h"
#include "collector/common/own_programs.h"
#include "collector/common/retention.h"
#include "collector/common/runtime_folder.h"
#include "collector/common/say.h"
#include "collector/common/verdict_hook.h"
#include "collector/common/work_lane.h"
#include "collector/detect/decision_log.h"
#include "collector/host/proc.h"
#include "collector/host/reading_group.h"
#include "collector/incident/index.h"
#include "collector/service/core/core.h"
#include "collector/service/relay/relay.h"
#include "collector/wire/server.h"

namespace lockstep {
namespace {

constexpr int64_t kFirstRetention = 5LL * 1'000'000'000, kRetention = 60LL * 1'000'000'000;
constexpr int64_t kTick = 100 * kMs;
constexpr int64_t kBusyTick = 20 * kMs;
constexpr int64_t kGather = 10 * kMs;
constexpr int64_t kPatience = 10 * kSecond;  // time for a relay to reach its collector before a warning
constexpr int kFew = 16;
constexpr int kMostAtOnce = 512;  // maximum number of messages before the clock is read again
constexpr int64_t kFinaliseLimit = 1800 * kSecond;
constexpr int64_t kIndexLimit = 300 * kSecond;

// If few messages arrived last time, sleeps until kGather after the last read, because waking up for each message costs
// more than reading it. If many arrived, returns at once, because a peer's queue is small.
void LetGather(const pollfd& server, int taken, int64_t read_ns) {
  const int64_t left = read_ns + kGather - MonotonicNs();
  if (server.revents == 0 || taken >= kFew || left <= 0) return;
  const timespec wait{0, static_cast<long>(std::min(left, kGather))};
  nanosleep(&wait, nullptr);
}

// Returns the command that runs this program with option `mode` on `folder`.
std::vector<std::string> Self(const char* mode, const std::string& folder) {
  std::vector<std::string> words = OwnProgram("collector");
  words.insert(words.end(), {mode, folder});
  return words;
}

// Returns the address at which a program on this host reaches the endpoint.
std::string FromHere(const std::string& endpoint) {
  for (const char* any : {"tcp://0.0.0.0:", "tcp://*:", "tcp://[::]:"}) {
    if (absl::StartsWith(endpoint, any))
      return absl::StrCat("tcp://127.0.0.1:", endpoint.substr(endpoint.rfind(':') + 1));
  }
  return endpoint;
}

// Returns the endpoints; the default is a socket to which only this user and root can connect.
absl::StatusOr<std::vector<std::string>> ListenAt(const std::vector<std::string>& named) {
  if (!named.empty()) return named;
  const absl::StatusOr<std::string> folder = MakeRuntimeFolder();
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::string> socket = SocketIn(*folder, "collector.sock");
  if (!socket.ok()) return socket.status();
  return std::vector<std::string>{*socket};
}

// Returns a descriptor that becomes readable when a signal arrives that ends the process.
int EndSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t ends;
  sigemptyset(&ends);
  for (int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, number);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

class CollectorProcess : public CoreActions {
 public:
  explicit CollectorProcess(const CollectorOptions& options) : options_(options) {}
  ~CollectorProcess() override {
    if (!place_.empty()) RemoveCollectorPlace(runtime_, place_);
  }

  int Main() {
    const int ends = EndSignals();
    if (absl::Status status = Start(); !status.ok()) {
      Say(std::string(status.message()));
      return 1;
    }
    Loop(ends);
    Say("the collector exits");
    return 0;
  }

  // Implements CoreActions.
  void Send(uint64_t peer, const wire::Message& message) override { server_->Send(peer, message).IgnoreError(); }
  std::vector<uint64_t> Reporters() const override { return server_->Reporters(); }
  void Work(CoreTask task) override {
    WorkLane* lane = task.lane == CoreTask::Lane::kAnalysis ? analysis_.get()
                     : task.lane == CoreTask::Lane::kDisk   ? disk_.get()
                                                            : final_.get();
    lane->Push(std::move(task.run), std::move(task.done));
  }
  void Say(const std::string& line) override { lockstep::Say(line); }
  void Print(const std::string& block) override {
    SayBlock(block);
    share_due_ = true;
  }
  void Decided(const Decision& decision, const std::string& job, int64_t real_ns) override {
    if (!decisions_.ok()) return;
    if (absl::Status status = decisions_.Append(DecisionJson(decision, job, real_ns)); !status.ok() && !log_failed_) {
      log_failed_ = true;
      Say(std::string(status.message()));
    }
  }
  void OnVerdict(const std::string& job, const std::string& json, const std::string& folder) override {
    if (hook_ != nullptr) hook_->Run(job, {json, folder, folder.empty() ? "" : ToldMark(folder)});
  }
  absl::Status Finalise(const std::string& folder, Incident* incident) override {
    // Runs a separate process, because the files came from the network, and to free the memory.
    absl::Status status = RunWithInput(Self("--finalise", folder), "", kFinaliseLimit);
    absl::Status read = ReadFinal(folder, incident);  // may exist even if the process failed after writing it
    if (!read.ok() && !status.ok()) return status;
    // No work waits for the index, and the rest of the incident does not depend on it.
    if (read.ok()) {
      index_->Push(
          [folder] {
            const absl::Status made = RunWithInput(Self("--index", folder), "", kIndexLimit + 30 * kSecond);
            if (!made.ok()) lockstep::Say(absl::StrCat("no index for the viewer in ", folder, ": ", made.message()));
          },
          [this](int64_t) { share_due_ = true; });
    }
    return read;
  }

 private:
  absl::Status Start() {
    wire::ServerOptions server;
    absl::StatusOr<std::vector<std::string>> listen = ListenAt(options_.given.List("listen"));
    if (!listen.ok()) return listen.status();
    server.endpoints = *std::move(listen);
    server.security = options_.security;
    for (const std::string& endpoint : server.endpoints) {
      if (absl::Status status = wire::CheckSecurity(options_.security, endpoint, true); !status.ok()) return status;
    }
    const std::string out = options_.given.Given("out") ? options_.given.Text("out") : ".";
    if (const absl::Status status = MakeFolder(out); !status.ok())
      return absl::UnavailableError(absl::StrCat("--out: ", status.message()));
    if (const std::string name = options_.given.Text("group"); !name.empty()) {
      const absl::StatusOr<gid_t> group = FindReadingGroup(name);
      if (!group.ok()) return group.status();
      sharer_ = std::make_unique<IncidentSharer>(*group);
    }
    char real[PATH_MAX];
    out_ = realpath(out.c_str(), real) != nullptr ? real : out;
    lock_.reset(open((out_ + "/.lockstep-collector").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_.ok()) return absl::UnavailableError(absl::StrCat("cannot write to --out ", out_, ": ", strerror(errno)));
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("another collector uses the incident folder ", out_, "; give this collector a different --out"));
    }
    if (absl::Status status = decisions_.Open(out_ + "/decisions.jsonl"); !status.ok())
      Say(std::string(status.message()));
    absl::StatusOr<std::unique_ptr<wire::Server>> bound = wire::Server::Bind(server);
    if (!bound.ok()) return bound.status();
    server_ = std::move(*bound);
    if (const std::string address = options_.given.Text("metrics"); !address.empty()) {
      absl::StatusOr<std::unique_ptr<MetricsServer>> metrics = MetricsServer::Start(address);
      if (!metrics.ok()) return metrics.status();
      metrics_ = std::move(*metrics);
    }
    if (const std::string command = options_.given.Text("on-verdict"); !command.empty()) {
      HookOptions hook;
      hook.command = command;
      hook.limit_ns = options_.given.Nanoseconds("on-verdict-timeout");
      hook.say = [](const std::string& line) { lockstep::Say(line); };
      hook_ = std::make_unique<VerdictHook>(std::move(hook));
    }
    analysis_ = std::make_unique<WorkLane>(&done_);
    disk_ = std::make_unique<WorkLane>(&done_);
    final_ = std::make_unique<WorkLane>(&done_);
    index_ = std::make_unique<WorkLane>(&done_);
    CoreOptions core;
    core.out = out_;
    core.version = LOCKSTEP_VERSION;
    core.instance = RandomInstance();
    core.limits.SetLateAfter(options_.given.Nanoseconds("late-after"));
    core.limits.watchdog = options_.given.Nanoseconds("hang-after");
    core.silent_after_ns = options_.given.Nanoseconds("silent-after");
    core.quota = options_.given.Bytes("quota");
    core.store.host = options_.given.Bytes("host-quota");
    core_ = std::make_unique<CollectorCore>(core, this);
    core_->Tick(MonotonicNs(), RealtimeNs());
    std::vector<std::string> problems;
    for (const IncidentState& state : FindUnfinished(out_, &problems)) core_->Resume(state);
    for (DeclaredBefore& before : FindDeclared(out_)) core_->Remember(std::move(before));
    for (const std::string& problem : problems) Say(problem);
    Say(absl::StrCat("the collector listens on ", absl::StrJoin(server_->endpoints(), ", "), "; incidents go to ",
                     out_));
    WritePlace();
    return absl::OkStatus();
  }

  void WritePlace() {
    const absl::StatusOr<std::string> folder = MakeRuntimeFolder();
    CollectorPlace place;
    place.endpoint = FromHere(server_->endpoints()[0]);
    if (!options_.security.insecure && absl::EndsWith(options_.security.own_key, ".key")) {
      const std::string key = options_.security.own_key.substr(0, options_.security.own_key.size() - 4) + ".pub";
      char real[PATH_MAX];
      if (realpath(key.c_str(), real) != nullptr) place.server_key = real;
    }
    absl::Status status = folder.status();
    if (status.ok()) status = WriteCollectorPlace(*folder, place);
    if (!status.ok()) {
      Say(absl::StrCat("lockstep dump and top cannot find this collector automatically: ", status.message()));
      return;
    }
    runtime_ = *folder;
    place_ = place.endpoint;
  }

  void Loop(int ends) {
    int64_t next_tick = 0, next_metrics = 0, next_retain = MonotonicNs() + kFirstRetention;
    bool more = false;
    int taken = 0;
    for (;;) {
      int64_t now = MonotonicNs();
      pollfd polled[3] = {{server_->fd(), POLLIN, 0}, {done_.fd(), POLLIN, 0}, {ends, POLLIN, 0}};
      const int64_t wait = more ? 0 : std::clamp<int64_t>((next_tick - now + kMs - 1) / kMs, 0, 1000);
      poll(polled, 3, static_cast<int>(wait));
      if (polled[2].revents != 0) return;
      LetGather(polled[0], taken, now);
      now = MonotonicNs();
      more = false;
      for (taken = 0;; ++taken) {
        if (taken == kMostAtOnce) {
          more = true;
          break;
        }
        const std::optional<wire::Received> received = server_->Receive();
        if (!received) break;
        core_->Receive(now, *received);
      }
      done_.Run(MonotonicNs());
      now = MonotonicNs();
      if (now >= next_tick) {
        core_->Tick(now, RealtimeNs());
        next_tick = now + (core_->busy() ? kBusyTick : kTick);
      }
      if (now >= next_retain) {
        next_retain = now + kRetention;
        Retain(now);
        share_due_ = true;
      }
      if (share_due_) Share();
      if (metrics_ != nullptr && now >= next_metrics) {
        Publish();
        next_metrics = now + kSecond;
      }
    }
  }

  // Shares incidents with the group given by --group: after a verdict, when an incident is complete, and periodically.
  void Share() {
    share_due_ = false;
    if (sharer_ == nullptr) return;
    index_->Push(
        [this, out = out_] {
          const absl::Status status = sharer_->Share(out);
          if (!status.ok() && status != share_problem_) lockstep::Say(std::string(status.message()));
          share_problem_ = status;
        },
        [](int64_t) {});
  }

  // Runs on the lane that creates indexes, so no incident is removed while its index is being created.
  void Retain(int64_t now) {
    RetentionRequest request;
    request.limits = {options_.given.Age("keep"), options_.given.Bytes("keep-bytes")};
    request.now_s = RealtimeNs() / kSecond;
    request.by_age = clock_.Trust(now, RealtimeNs());
    request.say = [](const std::string& line) { lockstep::Say(line); };
    index_->Push(
        [request = std::move(request), out = out_] {
          if (const absl::StatusOr<Retained> done = RetainIncidents(out, request); !done.ok())
            lockstep::Say(std::string(done.status().message()));
        },
        [](int64_t) {});
  }

  void Publish() {
    const CoreCounters& core = core_->counters();
    const wire::ServerCounters& server = server_->counters();
    MetricSet set;
    for (const JobState& job : core_->States()) {
      set.GaugeOf("job_state", "1 for the job's current state (moving, late, hung or ended).",
                  {{"job", job.job}, {"state", job.state}}, 1);
      for (const Culprit& culprit : job.culprits) {
        set.GaugeOf("job_culprit_info", "1 for each culprit of a hung job.",
                    {{"job", job.job}, {"host", culprit.host()}, {"rank", absl::StrCat(culprit.rank())}}, 1);
      }
    }
    set.Gauge("collector_jobs", "Jobs that agents report.", core.jobs);
    set.Gauge("collector_ranks", "Ranks of the jobs that agents report.", core.ranks);
    set.Gauge("collector_agents", "Agents, including those behind relays.", core.agents);
    set.Gauge("collector_agents_silent", "Agents that have stopped reporting.", core.agents_silent);
    set.Gauge("collector_peers", "Open connections.", server_->peers());
    set.Gauge("collector_heartbeat_lag_seconds", "Age of the oldest part of the newest heartbeat.",
              core.heartbeat_lag_ns / 1e9);
    set.Counter("collector_heartbeats", "Heartbeats received.", core.heartbeats);
    set.Counter("collector_late_reports", "Reports of waits that became late, or ended.", core.late);
    set.Counter("collector_hung", "Jobs declared hung.", core.hung);
    set.Counter("collector_recovered", "Hung jobs that made progress again.", core.recovered);
    set.Counter("collector_verdicts", "Incidents started.", core.verdicts);
    set.Counter("collector_rounds", "Rounds of digest requests.", core.rounds);
    set.Counter("collector_digests", "Messages with digests.", core.digests);
    set.Counter("collector_digests_late", "Messages with digests that were dropped because their round was over.",
                core.digests_late);
    set.Counter("collector_evidence", "Messages with evidence.", core.evidence);
    set.Counter("collector_chunks", "Chunks of files received from hosts.", core.chunks);
    set.Counter("collector_chunk_bytes", "Bytes of these chunks, compressed.", core.chunk_bytes);
    set.Counter("collector_chunks_refused", "Chunks that were refused permanently.", core.chunks_refused);
    set.Counter("collector_chunks_put_off", "Chunks that agents must resend because the disk is full or slow.",
                core.chunks_put_off);
    set.Counter("collector_requests_refused", "Requests from tools that were refused.", core.requests_refused);
    set.Counter("wire_received", "Messages received.", server.received);
    set.Counter("wire_received_bytes", "Bytes received.", server.received_bytes);
    set.Counter("wire_sent", "Messages sent.", server.sent);
    set.Counter("wire_sent_bytes", "Bytes sent.", server.sent_bytes);
    set.Counter("wire_connections", "Connections that were accepted.", server.connections);
    set.Counter("wire_handshakes_failed", "Connections that failed: another protocol, or no encryption.",
                server.handshakes_failed);
    set.Counter("wire_refused_keys", "Connections with unknown keys.", server.refused_keys);
    set.Counter("wire_malformed", "Malformed messages.", server.malformed + core.malformed);
    set.Counter("wire_unknown_types", "Messages with types or flags of newer versions.", server.unknown_types);
    set.Counter("wire_too_large", "Messages over the size limits.", server.too_large);
    set.Counter("wire_role_refused", "Messages that the sender's role may not send.", server.role_refused);
    set.Counter("wire_flooded", "Messages dropped because one peer sent more than its share.", server.flooded);
    set.Counter("wire_shed_heartbeats", "Heartbeats dropped because the collector fell behind.",
                server.shed_heartbeats);
    set.Counter("wire_shed_chunks", "Chunks that agents must resend because the collector fell behind.",
                server.shed_chunks);
    metrics_->Publish(std::move(set));
  }

  const CollectorOptions options_;
  std::string out_, runtime_, place_;
  UniqueFd lock_;
  bool log_failed_ = false;
  RotatingFile decisions_;
  TrustedClock clock_;
  bool share_due_ = true;
  std::unique_ptr<IncidentSharer> sharer_;  // like share_problem_, used only by the lane index_
  absl::Status share_problem_;
  std::unique_ptr<wire::Server> server_;
  std::unique_ptr<MetricsServer> metrics_;
  std::unique_ptr<VerdictHook> hook_;
  DoneQueue done_;
  std::unique_ptr<CollectorCore> core_;
  // Destroyed before the core and the queue; index_ is destroyed last of these, because final_ adds tasks to it.
  std::unique_ptr<WorkLane> index_, analysis_, disk_, final_;
};

absl::Status RunRelay(const CollectorOptions& options) {
  const int ends = EndSignals();
  RelayOptions relay;
  absl::StatusOr<std::vector<std::string>> listen = ListenAt(options.given.List("listen"));
  if (!listen.ok()) return listen.status();
  relay.server.endpoints = *std::move(listen);
  relay.server.security = options.security;
  relay.upstream.endpoints = options.upstream;
  relay.upstream.security = options.security;
  const std::string named = EnvironmentValue("LOCKSTEP_HOST");
  relay.host = named.empty() ? HostName() : named;
  relay.version = LOCKSTEP_VERSION;
  relay.instance = RandomInstance();
  relay.silent_after_ns = options.given.Nanoseconds("silent-after");
  relay.boot_id = BootId();
  absl::StatusOr<std::unique_ptr<Relay>> started = Relay::Start(relay);
  if (!started.ok()) return started.status();
  absl::StatusOr<std::unique_ptr<MetricsServer>> metrics = nullptr;
  if (const std::string address = options.given.Text("metrics"); !address.empty())
    metrics = MetricsServer::Start(address);
  if (!metrics.ok()) return metrics.status();
  Say(absl::StrCat("the relay listens on ", absl::StrJoin((*started)->endpoints(), ", "), "; its collector is ",
                   absl::StrJoin(options.upstream, ", ")));
  bool connected = false;
  const auto unreached = [&] {
    const std::string why = (*started)->upstream_error();
    Say(absl::StrCat("the relay cannot reach its collector: ", why.empty() ? "no response" : why));
  };
  int64_t next_metrics = 0, never_reached = MonotonicNs() + kPatience;
  int taken = 0;
  for (;;) {
    const int64_t now = MonotonicNs();
    pollfd polled[3] = {
        {(*started)->server_fd(), POLLIN, 0}, {(*started)->upstream_fd(), POLLIN, 0}, {ends, POLLIN, 0}};
    poll(polled, 3, static_cast<int>(std::clamp<int64_t>(((*started)->NextNs() - now + kMs - 1) / kMs, 0, 1000)));
    if (polled[2].revents != 0) break;
    LetGather(polled[0], taken, now);
    taken = (*started)->Step(MonotonicNs(), RealtimeNs());
    if ((*started)->connected() != connected) {
      connected = !connected;
      never_reached = INT64_MAX;
      connected ? Say("the relay is connected to its collector") : unreached();
    }
    if (MonotonicNs() > never_reached) {
      never_reached = INT64_MAX;
      unreached();
    }
    if (*metrics != nullptr && MonotonicNs() >= next_metrics) {
      next_metrics = MonotonicNs() + kSecond;
      const RelayCounters& counters = (*started)->counters();
      MetricSet set;
      set.Gauge("relay_children", "Agents and relays connected.", counters.children);
      set.Gauge("relay_children_silent", "Connected agents and relays that have stopped reporting.",
                counters.children_silent);
      set.Counter("relay_forwarded", "Messages forwarded.", counters.forwarded);
      set.Counter("relay_forwarded_bytes", "Bytes forwarded.", counters.forwarded_bytes);
      set.Counter("relay_heartbeats_in", "Heartbeats received from children.", counters.heartbeats_in);
      set.Counter("relay_heartbeats_out", "Merged heartbeats sent on.", counters.heartbeats_out);
      set.Counter("relay_late_reports", "Reports of waits from children that became late, or ended.", counters.late_in);
      set.Counter("relay_answers_lost", "Messages for children that could not be sent; they are repeated.",
                  counters.answers_lost);
      set.Counter("relay_chunks_dropped", "Chunks that agents must resend.", counters.chunks_dropped);
      set.Counter("relay_malformed", "Malformed messages.", counters.malformed);
      (*metrics)->Publish(std::move(set));
    }
  }
  Say("the relay exits");
  return absl::OkStatus();
}

}  // namespace

int RunCollector(const CollectorOptions& options) {
  if (const std::string folder = options.given.Text("finalise"); !folder.empty()) {
    const absl::Status status = FinaliseFolder(folder);
    if (!status.ok()) Say(absl::StrCat(folder, ": ", status.message()));
    return status.ok() ? 0 : 1;
  }
  // Processes that complete incidents inherit this variable.
  if (const std::string archive = options.given.Text("archive"); !archive.empty())
    setenv("LOCKSTEP_ARCHIVE", archive.c_str(), 1);
  if (const std::string folder = options.given.Text("index"); !folder.empty()) {
    const absl::Status status = MakeIncidentIndex(folder, kIndexLimit);
    if (!status.ok()) Say(absl::StrCat(folder, ": ", status.message()));
    return status.ok() ? 0 : 1;
  }
  if (options.upstream.empty()) return CollectorProcess(options).Main();
  const absl::Status status = RunRelay(options);
  if (!status.ok()) Say(status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace lockstep
