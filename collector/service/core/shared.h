// What every part of the core uses: options, its owner (CoreActions), the clock, counters, request numbers, sending and
// tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/util/time_units.h"
#include "collector/detect/detector.h"
#include "collector/incident/store.h"
#include "collector/service/core/job.h"
#include "collector/wire/frame.h"
#include "collector/wire/server.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct CoreOptions {
  std::string out = ".";  // parent folder of incidents
  std::string version;
  uint64_t instance = 0;  // random for each process
  DetectorLimits limits;
  StoreLimits store;
  uint64_t quota = uint64_t{1} << 40;       // maximum size of all incidents that this process gathers, in bytes
  int64_t silent_after_ns = 5'000'000'000;  // time without a message after which an agent or relay is silent
  size_t evidence_ranks = 64;
  size_t everything_hosts = 16;         // maximum number of hosts that send whole rings at the same time
  int64_t give_up_ns = 60'000'000'000;  // after this time without an answer, the incident continues without the host
};

inline constexpr int64_t kForgetAfter = 600 * kSecond;   // time without a message after which a job is forgotten
inline constexpr int64_t kEvidenceLimit = 15 * kSecond;  // for all evidence of an incident
inline constexpr int64_t kAskAgain = 10 * kSecond;  // time without an answer before a host is asked again for rings
inline constexpr size_t kMostHosts = 65536;         // of one job

// Slow work for one of the owner's threads. Tasks of one lane run one after another, in order.
struct CoreTask {
  enum class Lane { kAnalysis, kDisk, kFinal };
  Lane lane = Lane::kAnalysis;
  std::function<void()> run;              // on any thread; must not touch the core
  std::function<void(int64_t now)> done;  // called after `run` by the core's owner, on the core's thread
};

class CoreActions {
 public:
  virtual ~CoreActions() = default;
  // May fail silently, because every request is repeated.
  virtual void Send(uint64_t peer, const wire::Message& message) = 0;
  // Returns the connections of agents and relays.
  virtual std::vector<uint64_t> Reporters() const = 0;
  virtual void Work(CoreTask task) = 0;
  virtual void Say(const std::string& line) = 0;
  // Prints a verdict in the form of verdict.txt.
  virtual void Print(const std::string& block) = 0;
  virtual void Decided(const Decision& decision, const std::string& job, int64_t real_ns) = 0;
  // Runs the command of --on-verdict, if there is one. `folder` is the incident's folder; empty if nothing can be
  // written.
  virtual void OnVerdict(const std::string& job, const std::string& json, const std::string& folder) = 0;
  // Loads the incident's folder, analyzes it and rewrites its verdict files; runs on the final lane, possibly in
  // another process.
  virtual absl::Status Finalise(const std::string& folder, Incident* incident) = 0;
};

// Counted since the start; each one is a metric.
struct CoreCounters {
  uint64_t heartbeats = 0, late = 0, hung = 0, recovered = 0, verdicts = 0, rounds = 0, digests = 0, digests_late = 0,
           evidence = 0;
  uint64_t chunks = 0, chunk_bytes = 0, chunks_refused = 0, chunks_put_off = 0, malformed = 0, requests_refused = 0;
  uint64_t jobs = 0, agents = 0, agents_silent = 0, ranks = 0;  // current numbers
  int64_t heartbeat_lag_ns = 0;                                 // age of the oldest part of the newest heartbeats
};

// Owned by one thread.
class CoreShared {
 public:
  CoreShared(const CoreOptions& options, CoreActions* actions);
  ~CoreShared() { *alive_ = false; }
  CoreShared(const CoreShared&) = delete;
  CoreShared& operator=(const CoreShared&) = delete;

  // Sets both clocks; messages advance only the monotonic one. Returns the time since the last call; 0 for the first.
  int64_t Tick(int64_t mono_ns, int64_t real_ns);
  int64_t RealNow() const { return real_ns_ + (now - tick_ns_); }

  uint64_t NextRequest() { return request_base_ | ++requests_; }
  // Returns whether this process issued the number.
  bool Gave(uint64_t request) const { return request > request_base_ && request <= (request_base_ | requests_); }

  // Decodes a message. If the message is invalid, counts it and returns false.
  bool Decode(const wire::Message& message, google::protobuf::MessageLite* into);
  void Send(const Address& to, wire::Type type, const google::protobuf::MessageLite& message);
  void Say(const std::string& line) { actions->Say(line); }
  // Runs `run` as a task and then `done` on the core's thread, unless the core is gone.
  void Work(CoreTask::Lane lane, std::function<void()> run, std::function<void()> done);
  // Runs a task without follow-up work, which working() does not count.
  void Work(CoreTask::Lane lane, std::function<void()> run) {
    actions->Work({lane, std::move(run), [](int64_t) {}});
  }
  bool working() const { return tasks_out_ != 0; }

  const CoreOptions options;
  CoreActions* const actions;
  CoreCounters counters;
  int64_t now = 0;  // monotonic time of the last tick or message

 private:
  int64_t tick_ns_ = 0, real_ns_ = 0;
  uint64_t request_base_ = 0, requests_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  size_t tasks_out_ = 0;
};

}  // namespace lockstep
