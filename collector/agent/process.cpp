#include "collector/agent/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/agent/host_source.h"
#include "collector/agent/log.h"
#include "collector/agent/own_collector.h"
#include "collector/agent/session.h"
#include "collector/agent/spool.h"
#include "collector/common/metrics/metrics.h"
#include "collector/common/runtime_folder.h"
#include "collector/common/say.h"
#include "collector/evidence/evidence.h"
#include "collector/host/environment.h"
#include "collector/host/host_network.h"
#include "collector/host/proc.h"
#include "collector/rings/finder.h"
#include "collector/rings/ring_retention.h"
#include "collector/wire/client.h"
#include "collector/wire/tool_client.h"

namespace lockstep {
namespace {

constexpr int64_t kFlushLimit = 2 * kSecond;  // limit for writing to disk after SIGTERM
constexpr int64_t kSendLimit = 3 * kSecond;   // limit for sending over the network afterwards

class AgentProcess {
 public:
  explicit AgentProcess(const AgentOptions& options) : options_(options) {}

  ~AgentProcess() {}

  int Main() {
    if (const absl::Status status = Start(); !status.ok()) {
      Say(absl::StrCat("agent: ", status.message()));
      return absl::IsInvalidArgument(status) ? 2 : 1;
    }
    // The only line on the terminal; everything else goes into the log.
    Say(absl::StrCat("agent: watching ", options_.host, ", collector ",
                     own_collector_ != nullptr     ? absl::StrCat("its own, incidents in ", options_.out)
                     : options_.collectors.empty() ? "none"
                                                   : absl::StrJoin(options_.collectors, ", "),
                     options_.security.insecure ? " WITHOUT KEYS" : "", ", log ", options_.log));
    Log(absl::StrCat("agent ", LOCKSTEP_VERSION, " started, pid ", getpid(), ", spool ", options_.spool));
    Loop();
    End();
    return 0;
  }

 private:
  void Log(const std::string& line) { log_.Write(line); }

  absl::Status Start() {
    if (options_.given.Flag("alone") && !options_.security.insecure) options_.security = wire::Security();
    if (!options_.given.Flag("alone") && options_.collectors.empty()) {
      const absl::StatusOr<CollectorAddress> here = FindCollector({});
      if (here.ok() && wire::IsLocal(here->endpoint)) options_.collectors = {here->endpoint};
    }
    for (const std::string& endpoint : options_.collectors) {
      if (absl::Status status = wire::CheckSecurity(options_.security, endpoint, false); !status.ok()) return status;
    }
    // A collector drops messages that the role does not allow, and reports this only in its own log.
    if (!options_.collectors.empty() && !options_.security.own_key.empty()) {
      const absl::StatusOr<wire::KeyPair> key = wire::ReadSecretKey(options_.security.own_key);
      if (!key.ok()) return key.status();
      if (key->role != wire::Role::kAgent) {
        return absl::FailedPreconditionError(
            absl::StrCat("key ", options_.security.own_key, " is of role ", wire::RoleName(key->role),
                         ": an agent needs a key of role agent (lockstep keygen --role agent)"));
      }
    }
    // Library threads must not receive this program's signals.
    sigset_t ours;
    sigemptyset(&ours);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ours, signal);
    sigprocmask(SIG_BLOCK, &ours, nullptr);
    signal(SIGPIPE, SIG_IGN);
    signals_.reset(signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.ok()) return absl::UnavailableError(absl::StrCat("cannot handle signals: ", strerror(errno)));
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
      files.rlim_cur = files.rlim_max;
      setrlimit(RLIMIT_NOFILE, &files);
    }

    SpoolOptions spool;
    spool.folder = options_.spool;
    spool.most_bytes = options_.given.Bytes("spool-bytes");
    absl::StatusOr<std::unique_ptr<Spool>> opened = Spool::Open(spool);
    if (!opened.ok()) return opened.status();
    spool_ = std::move(*opened);
    if (absl::Status status = log_.Open(options_.log); !status.ok()) return status;

    std::string key;
    const absl::StatusOr<Redactor> redactor = MakeRedactor(options_.redact, options_.security.own_key, &key);
    if (!redactor.ok()) return redactor.status();
    SetHostRedaction(*redactor);
    if (redactor->on()) Log(absl::StrCat("redacting ", RedactLevelName(options_.redact), ", key ", key));

    HostSourceOptions source;
    source.host = options_.host;
    source.boot_id = BootId();
    source.version = LOCKSTEP_VERSION;
    ThisHostNetwork();  // read now: a broken adapter can make this slow
    const RackAndSwitch place = PlaceOf(CurrentEnvironment());
    source.rack = place.rack;
    source.leaf_switch = place.leaf_switch;
    source.gather = [](pid_t pid, int ring) {
      EvidenceOptions evidence;
      evidence.ring = ring;
      return GatherEvidence(pid, evidence);
    };
    source.log = [this](const std::string& line) { Log(HostRedaction().Text(line)); };
    absl::StatusOr<std::unique_ptr<HostSource>> made = HostSource::Make(source, spool_.get());
    if (!made.ok()) return made.status();
    source_ = std::move(*made);
    if (absl::Status status = StartOwnCollector(); !status.ok()) return status;

    RingFinderOptions finder;
    finder.folders = options_.given.List("rings");
    finder.containers = options_.given.Flag("containers");
    finder.all_users = geteuid() == 0;
    absl::StatusOr<std::unique_ptr<RingFinder>> found = RingFinder::Start(finder);
    if (!found.ok()) return found.status();
    finder_ = std::move(*found);
    RingRetentionOptions retention;
    retention.folders = options_.given.List("rings");
    retention.all_users = finder.all_users;
    retention.age_s = options_.given.Age("keep-rings");
    retention.bytes = options_.given.Bytes("keep-ring-bytes");
    retainer_ = std::make_unique<RingRetainer>(retention, source.log);

    if (!options_.collectors.empty()) {
      wire::ClientOptions client;
      client.endpoints = options_.collectors;
      client.security = options_.security;
      absl::StatusOr<std::unique_ptr<wire::Client>> connected = wire::Client::Connect(client);
      if (!connected.ok()) return connected.status();
      client_ = std::move(*connected);
    }
    AgentSessionOptions session;
    session.host = options_.host;
    session.boot_id = source.boot_id;
    session.version = source.version;
    session.rack = source.rack;
    session.leaf_switch = source.leaf_switch;
    session.late_after_ns = options_.given.Nanoseconds("late-after");
    session.log = source.log;
    session.cpu_ns = [] { return ClockNs(CLOCK_PROCESS_CPUTIME_ID); };
    session.blind = [this] {
      std::vector<std::string> blind = blind_;
      for (std::string& line : blind) line = HostRedaction().Text(line);
      return blind;
    };
    session.instance = RandomInstance();
    session_ =
        std::make_unique<AgentSession>(session, source_.get(), spool_.get(), [this](const wire::Message& message) {
          return client_ == nullptr ? absl::UnavailableError("no collector") : client_->Send(message);
        });

    if (const std::string address = options_.given.Text("metrics"); !address.empty()) {
      absl::StatusOr<std::unique_ptr<MetricsServer>> metrics = MetricsServer::Start(address);
      if (!metrics.ok()) return metrics.status();
      metrics_ = std::move(*metrics);
      Log(absl::StrCat("metrics on 127.0.0.1:", metrics_->port(), "/metrics"));
    }
    WritePlace();
    return absl::OkStatus();
  }

  absl::Status StartOwnCollector() {
    if (!options_.given.Flag("alone")) return absl::OkStatus();
    const absl::StatusOr<std::string> folder = MakeRuntimeFolder();
    if (!folder.ok()) return folder.status();
    if (absl::Status status = CheckPrivateFolder(*folder); !status.ok()) return status;
    OwnCollectorOptions own;
    own.folder = *folder;
    own.out = options_.out;
    own.log = options_.spool + "/collector.log";
    own.late_after_ns = options_.given.Nanoseconds("late-after");
    absl::StatusOr<std::vector<std::string>> settled = SettledOptions(options_.given.config_files);
    if (!settled.ok()) return settled.status();
    own.more = *std::move(settled);
    // If an option is given twice, the last one counts.
    for (const char* option : {"on-verdict", "on-verdict-timeout"}) {
      const std::string value = options_.given.Given(option) ? options_.given.Text(option) : "";
      if (!value.empty()) own.more.insert(own.more.end(), {absl::StrCat("--", option), value});
    }
    own.say = [this](const std::string& line) { Log(line); };
    absl::StatusOr<std::unique_ptr<OwnCollector>> started = OwnCollector::Start(own);
    if (!started.ok()) return started.status();
    own_collector_ = std::move(*started);
    options_.collectors = {own_collector_->endpoint()};
    return absl::OkStatus();
  }

  // Writes the file through which the tools on this host find the collector.
  void WritePlace() {
    if (options_.collectors.empty()) return;
    const absl::StatusOr<std::string> folder = MakeRuntimeFolder();
    if (!folder.ok()) {
      Log(absl::StrCat("tools on this host cannot find the collector automatically: ", folder.status().message()));
      return;
    }
    // Relays come first and do not answer tools. The keys are in the same order.
    const std::string& collector = options_.collectors.back();
    const std::string& keys = options_.security.server_key;
    const size_t comma = keys.rfind(',');
    const std::string key = comma == std::string::npos ? keys : keys.substr(comma + 1);
    // Keeps the entry of a collector on this host, which knows its own address best.
    const absl::StatusOr<CollectorPlace> there = ReadCollectorPlace(*folder);
    const bool here =
        there.ok() && (wire::IsLocal(there->endpoint) || absl::StartsWith(there->endpoint, "tcp://127.0.0.1:"));
    if (here && !wire::IsLocal(collector)) return;
    const absl::Status status = WriteCollectorPlace(*folder, {collector, key});
    if (!status.ok()) {
      Log(absl::StrCat("tools on this host cannot find the collector automatically: ", status.message()));
    } else if (!there.ok() || there->endpoint != collector) {
      place_folder_ = *folder;
    }
  }

  void Loop() {
    while (!ending_) Turn(kSecond);
  }

  void Turn(int64_t limit_ns) {
    const int64_t wait = std::clamp<int64_t>(session_->next() - MonotonicNs(), 0, limit_ns);
    pollfd fds[6] = {{signals_.get(), POLLIN, 0}, {source_->ends_fd(), POLLIN, 0},
                     {finder_->fd(), POLLIN, 0},  {source_->work_fd(), POLLIN, 0},
                     {spool_->fd(), POLLIN, 0},   {client_ == nullptr ? -1 : client_->fd(), POLLIN, 0}};
    const timespec timeout{wait / kSecond, wait % kSecond};
    ppoll(fds, 6, &timeout, nullptr);
    // Saves the data of dead processes first.
    if (fds[1].revents != 0) source_->Handle();
    if (fds[0].revents != 0) OnSignals();
    for (FoundRing ring; finder_->Next(&ring);) source_->Adopt(std::move(ring));
    const int64_t now = MonotonicNs();
    if (client_ != nullptr) {
      if (client_->Tick(now)) {
        Log(absl::StrCat("connected to ", client_->endpoint()));
        session_->Connected(now);
      }
      while (const std::optional<wire::Message> message = client_->Receive()) session_->Receive(*message, now);
      if (const std::string error = client_->last_error(); error != last_error_) {
        last_error_ = error;
        if (!error.empty()) Log(error);
      }
    }
    if (fds[4].revents != 0) {
      spool_->ClearWake();
      for (std::string line; spool_->NextProblem(&line);) Log(line);
    }
    const bool news = fds[1].revents != 0 || fds[3].revents != 0 || fds[4].revents != 0;
    if (news || now >= session_->next()) session_->Tick(MonotonicNs(), RealtimeNs());
    if (now >= next_metrics_) {
      next_metrics_ = now + kSecond;
      Publish();
      WatchFinder();
      retainer_->Tick(now, RealtimeNs());
      if (own_collector_ != nullptr) own_collector_->Tick(now);
    }
  }

  // Reports a finder or a mark sampler that is stuck. Only their threads are blocked: rings that were already found are
  // still read.
  void WatchFinder() {
    const RingFinderCounters finder = finder_->counters();
    const MarkSamplerCounters marks = source_->counters().marks;
    blind_.clear();
    const std::string stuck = absl::StrCat("cannot look for new rings: ", finder.stuck_at, " has not responded for ",
                                           finder.stuck_ns / kSecond, " s");
    if (finder.stuck_ns > 0) blind_.push_back(stuck);
    if (marks.stuck_ns > 0)
      blind_.push_back(absl::StrCat("cannot time GPU progress markers: a ring file has not responded for ",
                                    marks.stuck_ns / kSecond, " s"));
    if ((finder.stuck_ns > 0) == finder_stuck_) return;
    finder_stuck_ = finder.stuck_ns > 0;
    Log(finder_stuck_ ? stuck : "looking for new rings again");
  }

  void OnSignals() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGHUP) {
        log_.Reopen();
      } else {
        ending_ = true;
      }
    }
  }

  void End() {
    source_->Handle();
    session_->Leave(MonotonicNs(), RealtimeNs());
    const int64_t end = MonotonicNs() + kFlushLimit + kSendLimit;
    if (!spool_->Flush(kFlushLimit)) Log("cannot write to the disk; exiting without saving the data");
    ending_ = false;
    // Spooled data stays for the next agent. If the host is about to disappear, this is the last chance to send it.
    while (!ending_ && session_->welcome() && spool_->held() > 0 && MonotonicNs() < end) Turn(50 * kMs);
    if (own_collector_ != nullptr) own_collector_->End(2 * kSecond);
    Log(absl::StrCat("exiting; ", spool_->held(), " chunks are still in the spool"));
    if (!place_folder_.empty()) RemoveCollectorPlace(place_folder_, options_.collectors.back());
  }

  void Publish() {
    if (metrics_ == nullptr) return;
    const AgentSessionCounters session = session_->counters();
    const HostSourceCounters source = source_->counters();
    const SpoolCounters spool = spool_->counters();
    const RingFinderCounters finder = finder_->counters();
    MetricSet set;
    set.Gauge("agent_connected", "1 if a collector has accepted this agent", session_->welcome() ? 1 : 0);
    set.Counter("agent_heartbeats", "Heartbeats sent", session.heartbeats);
    set.CounterOf("agent_dropped", "Heartbeats, answers, files and rings that were dropped, by kind", "kind",
                  "heartbeat", session.heartbeats_dropped);
    set.CounterOf("agent_dropped", "", "kind", "answer", session.dropped);
    set.CounterOf("agent_dropped", "", "kind", "file", spool.files_dropped);
    set.CounterOf("agent_dropped", "", "kind", "ring", spool.rings_dropped);
    set.Counter("agent_heartbeat_bytes", "Heartbeat bytes on the wire", session.heartbeat_bytes);
    set.Gauge("agent_late", "Communicators that are late now", session_->late());
    set.Counter("agent_late_reports", "Waits that became late", session.late);
    set.Counter("agent_requests", "Requests from the collector", session.requests);
    set.Counter("agent_digests", "Digests sent", session.digests);
    set.Counter("agent_evidence", "Processes whose evidence was gathered", source.evidence);
    set.Counter("agent_chunks_sent", "Chunks sent", session.chunks_sent);
    set.Counter("agent_chunks_acknowledged", "Chunks that the collector has written to disk", session.chunks_acked);
    set.Counter("agent_malformed", "Invalid messages", session.malformed);
    set.Gauge("agent_rings", "Rings held", source.rings);
    set.Gauge("agent_processes", "Processes followed", source.live);
    set.Gauge("agent_jobs", "Jobs and generations with ranks on this host", source.jobs);
    set.Counter("agent_ended", "Processes that ended", source.ended);
    set.Counter("agent_ended_badly", "Processes that ended by a signal or with a status other than 0",
                source.ended_badly);
    set.Counter("agent_rings_saved", "Rings saved after abnormal exits", spool.rings_put);
    set.Counter("agent_rings_removed", "Rings of dead processes that were removed", retainer_->removed());
    set.CounterOf("agent_rings_refused", "Files that were refused as rings, by reason", "reason", "kind",
                  finder.refused_kind);
    set.CounterOf("agent_rings_refused", "", "reason", "owner", finder.refused_owner);
    set.CounterOf("agent_rings_refused", "", "reason", "mode", finder.refused_mode);
    set.CounterOf("agent_rings_refused", "", "reason", "size", finder.refused_size);
    set.CounterOf("agent_rings_refused", "", "reason", "many", finder.refused_many + source.refused);
    set.CounterOf("agent_rings_refused", "", "reason", "unreadable", source.unreadable);
    set.Gauge("agent_finder_stuck_seconds",
              "Time for which a file system with a LOCKSTEP_DIR has not responded, so that no new rings can be found",
              finder.stuck_ns / 1e9);
    set.Gauge("agent_spool_bytes", "Size of the spool", spool.bytes);
    set.Gauge("agent_spool_chunks", "Chunks that are not acknowledged", spool.chunks);
    set.Gauge("agent_spool_limit_bytes", "Maximum size of the spool", options_.given.Bytes("spool-bytes"));
    set.Counter("agent_spool_damaged", "Chunks that could not be read back", spool.damaged);
    set.Counter("agent_cpu_seconds", "The agent's own CPU time", ClockNs(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
    set.Gauge("agent_marks_rings", "Rings whose GPU progress markers are read every 10 ms", source.marks.rings);
    set.Gauge("agent_marks_bytes", "Memory that holds the times of GPU progress markers", source.marks.bytes);
    set.Gauge("agent_marks_stuck_seconds",
              "Time for which a ring file has not responded, so that no times of GPU progress markers are recorded",
              source.marks.stuck_ns / 1e9);
    set.Counter("agent_marks_cpu_seconds", "The agent's CPU time for reading GPU progress markers",
                source.marks.cpu_ns / 1e9);
    set.Counter("agent_look_cpu_seconds", "The agent's CPU time for reading digests", source.look_cpu_ns / 1e9);
    metrics_->Publish(std::move(set));
  }

  AgentOptions options_;
  AgentLog log_;
  UniqueFd signals_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<HostSource> source_;
  std::unique_ptr<RingFinder> finder_;
  std::unique_ptr<RingRetainer> retainer_;
  std::unique_ptr<wire::Client> client_;
  std::unique_ptr<AgentSession> session_;
  std::unique_ptr<MetricsServer> metrics_;
  std::unique_ptr<OwnCollector> own_collector_;
  std::string place_folder_, last_error_;
  bool ending_ = false, finder_stuck_ = false;
  std::vector<std::string> blind_;
  int64_t next_metrics_ = 0;
};

}  // namespace

int RunAgent(const AgentOptions& options) { return AgentProcess(options).Main(); }

}  // namespace lockstep
