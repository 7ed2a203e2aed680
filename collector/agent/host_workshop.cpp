#include "collector/agent/host_workshop.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/lsd/convert.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/formats/ring/loader.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_units.h"
#include "collector/common/own_programs.h"
#include "collector/detect/ends.h"
#include "collector/evidence/evidence.h"
#include "collector/host/host_network.h"
#include "collector/host/proc.h"
#include "collector/incident/incident.h"
#include "collector/rings/snapshot_merge.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

constexpr size_t kMostOrders = 256;                   // maximum number of waiting orders of each kind
constexpr size_t kMostDumpBytes = size_t{512} << 20;  // maximum memory for the rings of one dump
constexpr size_t kMostExamined = size_t{32} << 20, kExaminedPart = size_t{1} << 20;
constexpr int64_t kExamineLimit = 30 * kSecond;

// "HOST.lsd", or "HOST.evidence.lsd" in the evidence phase.
std::string FileNameOf(const std::string& host, CollectRequest::Phase phase) {
  std::string name = DumpFileName(host);
  if (phase == CollectRequest::EVIDENCE) name.insert(name.size() - 4, ".evidence");
  return name;
}

class Workshop final : public HostWorkshop {
 public:
  Workshop(const WorkshopOptions& options, Spool* spool) : options_(options), spool_(spool) {}

  ~Workshop() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    if (examiner_.joinable()) examiner_.join();
  }

  absl::Status Begin() {
    if (!event_.ok()) return absl::UnavailableError(absl::StrCat("cannot create an eventfd: ", strerror(errno)));
    threads_.emplace_back([this] { MakeDumps(); });
    for (size_t i = 0; i < options_.evidence_at_once; ++i) threads_.emplace_back([this] { MakeEvidence(); });
    return absl::OkStatus();
  }

  void Take(WorkOrder order) override {
    const uint64_t request = order.request.request();
    const CollectRequest::Phase phase = order.request.phase();
    std::lock_guard lock(mutex_);
    if (phase == CollectRequest::EXAMINE) return BeginToExamine(order.request);
    const std::pair<uint64_t, int> key(request, phase);
    if (phase == CollectRequest::EVIDENCE && !open_.contains(request)) {
      Open& open = open_[request];
      open.request = order.request;
      for (const WorkRing& ring : order.rings) {
        if (tasks_.size() >= kMostOrders) break;
        tasks_.push_back(
            {request, ring.rank, ring.pid, ring.process, UniqueFd(fcntl(ring.fd.get(), F_DUPFD_CLOEXEC, 3))});
        ++open.left;
      }
      if (open.left == 0) Finish(request);
    }
    const bool again = making_.contains(key) || dumps_.size() >= kMostOrders ||
                       spool_->Knows(request, FileNameOf(options_.host, phase));
    const bool stacks_alone = phase == CollectRequest::EVIDENCE && order.request.ranks().first().empty() &&
                              !order.request.merged().first().empty();
    if (!again && !stacks_alone && !order.rings.empty()) {
      making_.insert(key);
      dumps_.push_back(std::move(order));
    }
    work_.notify_all();
  }

  bool Next(HostEvidence* out) override {
    std::lock_guard lock(mutex_);
    if (done_.empty()) return false;
    *out = std::move(done_.front());
    done_.pop_front();
    return true;
  }

  int fd() const override { return event_.get(); }

  void ClearWake() override { event_.Drain(); }

  WorkshopCounters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  struct Open {
    CollectRequest request;
    size_t left = 0;
  };
  struct Task {
    uint64_t request = 0;
    int32_t rank = -1;
    pid_t pid = 0;
    Process process;
    UniqueFd ring;
  };

  void Wake() { event_.Signal(); }

  HostEvidence Envelope(const CollectRequest& request) const {
    HostEvidence evidence;
    *evidence.mutable_job() = request.job();
    evidence.set_host(options_.host);
    evidence.set_request(request.request());
    return evidence;
  }

  // The caller holds the lock.
  void Finish(uint64_t request) {
    HostEvidence evidence = Envelope(open_[request].request);
    evidence.set_last(true);
    open_.erase(request);
    done_.push_back(std::move(evidence));
    Wake();
  }

  // The caller holds the lock.
  void BeginToExamine(const CollectRequest& request) {
    if (examining_) {
      HostEvidence evidence = Envelope(request);
      evidence.set_problem("this host is being examined already");
      evidence.set_last(true);
      done_.push_back(std::move(evidence));
      return Wake();
    }
    examining_ = true;
    if (examiner_.joinable()) examiner_.join();
    examiner_ = std::thread([this, request] {
      std::deque<HostEvidence> answer = ExamineHost(request);
      std::lock_guard lock(mutex_);
      for (HostEvidence& part : answer) done_.push_back(std::move(part));
      examining_ = false;
      Wake();
    });
  }

  // The names come from the network. No shell reads them; they are only compared with names of jobs.
  std::deque<HostEvidence> ExamineHost(const CollectRequest& request) const {
    const std::string& job = request.job().job();
    std::vector<std::string> words = OwnProgram("attach");
    words.insert(words.end(), {absl::StrCat("--stream=", job.empty() ? "attached" : job), "--host=" + options_.host,
                               absl::StrCat("--redact=", RedactLevelName(HostRedaction().level()))});
    if (!job.empty()) words.push_back("--job=" + job);
    if (!request.slurm().empty()) words.push_back("--slurm=" + request.slurm());
    ChildRun run;
    run.output = run.errors = ChildStream::kKeep;
    run.most_output = kMostExamined;
    run.limit_ns = kExamineLimit;
    const absl::StatusOr<ChildResult> result = RunChild(words, run);
    std::deque<HostEvidence> parts;
    if (result.ok() && result->Ended().ok()) {
      for (size_t at = 0; at < result->output.size(); at += kExaminedPart) {
        parts.push_back(Envelope(request));
        parts.back().set_dump(result->output.substr(at, kExaminedPart));
        parts.back().set_dump_offset(at);
      }
      if (!parts.empty()) parts.back().set_dump_bytes(result->output.size());
    }
    if (parts.empty()) parts.push_back(Envelope(request));
    parts.back().set_last(true);
    if (!result.ok()) {
      parts.back().set_problem(std::string(result.status().message()));
    } else if (!result->Ended().ok() && !(WIFEXITED(result->status) && WEXITSTATUS(result->status) == kNothingHere)) {
      std::string errors = result->errors;
      while (!errors.empty() && errors.back() == '\n') errors.pop_back();
      parts.back().set_problem(CleanUtf8(errors.substr(errors.rfind('\n') + 1), 300));
    }
    return parts;
  }

  void MakeEvidence() {
    for (;;) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
        if (stopping_) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      EvidenceReport report;
      if (task.pid > 0 && options_.gather) {
        report = options_.gather(task.pid, task.ring.get());
      } else {
        Rank rank;
        rank.process = task.process;
        if (EndedBadly(rank.process)) AddLogAfterEnd(ReadLogAfterEnd(), &rank.process);
        *report.mutable_process() = EncodeRank(rank).process();
        HostRedaction().Redact(report.mutable_process());
      }
      report.set_rank(task.rank);
      if (report.pid() == 0) report.set_pid(task.pid);
      std::lock_guard lock(mutex_);
      const auto open = open_.find(task.request);
      if (open == open_.end()) continue;  // the order was canceled
      HostEvidence evidence = Envelope(open->second.request);
      *evidence.add_reports() = std::move(report);
      ++counters_.evidence;
      if (--open->second.left == 0) {
        evidence.set_last(true);
        open_.erase(open);
      }
      done_.push_back(std::move(evidence));
      Wake();
    }
  }

  void MakeDumps() {
    for (;;) {
      WorkOrder order;
      {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [this] { return stopping_ || !dumps_.empty(); });
        if (stopping_) return;
        // Dumps of suspects come first.
        auto next = std::find_if(dumps_.begin(), dumps_.end(),
                                 [](const WorkOrder& o) { return o.request.phase() == CollectRequest::EVIDENCE; });
        if (next == dumps_.end()) next = dumps_.begin();
        order = std::move(*next);
        dumps_.erase(next);
      }
      const absl::Status status = MakeDump(&order);
      std::lock_guard lock(mutex_);
      making_.erase({order.request.request(), order.request.phase()});
      ++(status.ok() ? counters_.dumps : counters_.dumps_failed);
      // The collector must not wait for a file that never arrives. A request for ranks of other hosts gets an empty
      // answer.
      if (status.ok() || absl::IsOutOfRange(status)) continue;
      HostEvidence evidence = Envelope(order.request);
      evidence.set_problem(HostRedaction().Text(absl::StrCat("no rings from ", options_.host, ": ", status.message())));
      done_.push_back(std::move(evidence));
      Wake();
    }
  }

  absl::Status MakeDump(WorkOrder* order) {
    std::vector<RingInput> inputs;
    size_t bytes = 0;
    for (WorkRing& ring : order->rings) {
      if (bytes > kMostDumpBytes) {
        inputs.back().snapshot.problems.push_back(
            absl::StrCat("the rings of ", order->rings.size() - inputs.size(),
                         " more processes on this host are left out because their data is too large"));
        break;
      }
      RingInput input;
      input.path = ring.path;
      input.process = std::move(ring.process);
      std::string error;
      if (!ring::ReadRing(ring.fd.get(), {}, &input.snapshot, &error)) {
        if (!ring.at_end) continue;
        input.snapshot = std::move(*ring.at_end);
        input.snapshot.problems.push_back(absl::StrCat("only its digest could be read: ", error));
      } else if (ring.at_end) {
        // The process has exited. Markers that the GPU wrote afterwards are flagged as late.
        ring::Snapshot whole = input.snapshot;
        whole.streams = ring.at_end->streams;
        AddLateMarks(input.snapshot, &whole);
        input.snapshot = std::move(whole);
      }
      if (ring.shown_pid > 0) input.snapshot.process.pid = ring.shown_pid;
      if (ring.marks != nullptr) ring.marks->Fill(&input.snapshot);
      bytes += SnapshotBytes(input.snapshot);
      inputs.push_back(std::move(input));
    }
    if (inputs.empty()) return absl::NotFoundError("none could be read");
    Bundle bundle = BundleFromRings(std::move(inputs));
    HostRedaction().Redact(&bundle);
    const absl::StatusOr<Ranks> wanted = Ranks::From(order->request.ranks());
    std::vector<size_t> chosen;
    for (size_t i = 0; i < bundle.ranks.size(); ++i) {
      if (!wanted.ok() || wanted->empty() || wanted->Contains(bundle.ranks[i].rank)) chosen.push_back(i);
      bundle.ranks[i].path = FileNameOf(options_.host, order->request.phase());
    }
    if (chosen.empty()) return absl::OutOfRangeError("none of the requested ranks is on this host");
    DumpHeader header;
    header.set_tool_version(options_.version);
    header.set_host(options_.host);
    header.set_boot_id(options_.boot_id);
    header.set_rack(options_.rack);
    header.set_leaf_switch(options_.leaf_switch);
    header.set_port_mbits(ThisHostNetwork().port_mbits);
    header.set_ports(ThisHostNetwork().ports);
    header.set_gpus(ThisHostNetwork().gpus);
    header.set_job(order->request.job().job());
    header.set_step(order->request.job().step());
    header.set_restart_count(order->request.job().restart_count());
    header.set_captured_real_ns(RealtimeNs());
    header.set_ranks_expected(bundle.ranks_expected);
    SpoolFile file;
    file.kind = order->request.phase() == CollectRequest::EVIDENCE ? SpoolClass::kEvidence : SpoolClass::kEverything;
    *file.like.mutable_job() = order->request.job();
    file.like.set_host(options_.host);
    file.like.set_incident(order->request.incident());
    file.like.set_file(FileNameOf(options_.host, order->request.phase()));
    file.like.set_request(order->request.request());
    const std::string path = spool_->WorkPath(file.like.file());
    absl::Status status = WriteLsd(bundle, chosen, header, path);
    while (absl::IsResourceExhausted(status) && spool_->MakeRoom(file.kind))
      status = WriteLsd(bundle, chosen, header, path);
    if (status.ok()) spool_->PutFile(file, path);
    return status;
  }

  const WorkshopOptions options_;
  Spool* const spool_;
  EventFd event_;
  std::vector<std::thread> threads_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  bool stopping_ = false;
  std::thread examiner_;
  bool examining_ = false;
  std::deque<Task> tasks_;
  std::deque<WorkOrder> dumps_;
  std::deque<HostEvidence> done_;
  std::map<uint64_t, Open> open_;
  std::set<std::pair<uint64_t, int>> making_;
  WorkshopCounters counters_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostWorkshop>> HostWorkshop::Start(const WorkshopOptions& options, Spool* spool) {
  auto shop = std::make_unique<Workshop>(options, spool);
  if (absl::Status status = shop->Begin(); !status.ok()) return status;
  return shop;
}

}  // namespace lockstep
