#include "collector/agent/host_workshop.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
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

constexpr size_t kMostOrders = 256;                   // with this many processes or dumps waiting, no more are accepted
constexpr size_t kMostDumpBytes = size_t{512} << 20;  // maximum memory for the rings of one dump
constexpr size_t kMostExamined = size_t{32} << 20, kExaminedPart = size_t{1} << 20;
constexpr int64_t kExamineLimit = 30 * kSecond;

// "HOST.lsd", or "HOST.evidence.lsd" in the evidence phase.
std::string FileNameOf(const std::string& host, CollectRequest::Phase phase) {
  std::string name = DumpFileName(host);
  if (phase == CollectRequest::EVIDENCE) name.insert(name.size() - 4, ".evidence");
  return name;
}

}  // namespace

HostEvidence HostWorkshop::Envelope(const CollectRequest& request) const {
  HostEvidence evidence;
  *evidence.mutable_job() = request.job();
  evidence.set_host(options_.host);
  evidence.set_request(request.request());
  return evidence;
}

void HostWorkshop::AnswerNothing(const CollectRequest& request, std::string problem, bool last) {
  ready_.push_back(Envelope(request));
  ready_.back().set_problem(std::move(problem));
  ready_.back().set_last(last);
  finished_.Push([](int64_t) {});  // wakes the owner
}

void HostWorkshop::Take(WorkOrder taken) {
  if (taken.request.phase() == CollectRequest::EXAMINE) return Examine(taken.request);
  const auto order = std::make_shared<const WorkOrder>(std::move(taken));
  const CollectRequest& request = order->request;
  if (request.phase() == CollectRequest::EVIDENCE && !open_.contains(request.request())) GatherAll(order);
  const bool stacks_alone = request.phase() == CollectRequest::EVIDENCE && request.ranks().first().empty() &&
                            !request.merged().first().empty();
  if (!stacks_alone && !order->rings.empty()) MakeDump(order);
}

void HostWorkshop::GatherAll(const std::shared_ptr<const WorkOrder>& order) {
  const CollectRequest& request = order->request;
  if (order->rings.empty()) return AnswerNothing(request, "", true);
  if (gathering_ >= kMostOrders) {
    // Without `last`, the collector asks again later.
    return AnswerNothing(request,
                         absl::StrCat("no evidence from ", options_.host, " yet: ", gathering_,
                                      " processes of earlier requests are still being examined"),
                         false);
  }
  open_[request.request()] = {request, order->rings.size()};
  gathering_ += order->rings.size();
  for (const WorkRing& ring : order->rings) {
    auto report = std::make_shared<EvidenceReport>();
    evidence_.Push([this, order, &ring, report] { *report = Gather(ring); },
                   [this, number = request.request(), report](int64_t) { TakeReport(number, std::move(*report)); });
  }
}

bool HostWorkshop::Next(HostEvidence* out) {
  finished_.Run(0);
  if (ready_.empty()) return false;
  *out = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

void HostWorkshop::Examine(const CollectRequest& request) {
  if (examining_) return AnswerNothing(request, "this host is being examined already", true);
  examining_ = true;
  if (examiner_ == nullptr) examiner_ = std::make_unique<WorkLane>(&finished_);
  auto answer = std::make_shared<std::vector<HostEvidence>>();
  examiner_->Push([this, request, answer] { *answer = ExamineHost(request); },
                  [this, answer](int64_t) {
                    std::move(answer->begin(), answer->end(), std::back_inserter(ready_));
                    examining_ = false;
                  });
}

// The names come from the network. No shell reads them; they are only compared with names of jobs.
std::vector<HostEvidence> HostWorkshop::ExamineHost(const CollectRequest& request) const {
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
  std::vector<HostEvidence> parts;
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

EvidenceReport HostWorkshop::Gather(const WorkRing& ring) const {
  EvidenceReport report;
  if (ring.pid > 0 && options_.gather) {
    report = options_.gather(ring.pid, ring.fd.get());
  } else {
    Rank rank;
    rank.process = ring.process;
    if (EndedBadly(rank.process)) AddLogAfterEnd(ReadLogAfterEnd(), &rank.process);
    *report.mutable_process() = EncodeRank(rank).process();
    HostRedaction().Redact(report.mutable_process());
  }
  report.set_rank(ring.rank);
  if (report.pid() == 0) report.set_pid(ring.pid);
  return report;
}

void HostWorkshop::TakeReport(uint64_t request, EvidenceReport report) {
  --gathering_;
  ++counters_.evidence;
  const auto open = open_.find(request);
  ready_.push_back(Envelope(open->second.request));
  *ready_.back().add_reports() = std::move(report);
  if (--open->second.left > 0) return;
  ready_.back().set_last(true);
  open_.erase(open);
}

void HostWorkshop::MakeDump(const std::shared_ptr<const WorkOrder>& order) {
  const CollectRequest& request = order->request;
  const std::pair<uint64_t, int> key(request.request(), request.phase());
  if (making_.contains(key) || spool_->Knows(request.request(), FileNameOf(options_.host, request.phase()))) return;
  // The collector must not wait for a file that never arrives.
  const auto failed = [this, order](absl::string_view why) {
    AnswerNothing(order->request, HostRedaction().Text(absl::StrCat("no rings from ", options_.host, ": ", why)),
                  false);
  };
  if (making_.size() >= kMostOrders) return failed("too many earlier requests are waiting");
  making_.insert(key);
  auto status = std::make_shared<absl::Status>();
  const auto done = [this, failed, key, status](int64_t) {
    making_.erase(key);
    ++(status->ok() ? counters_.dumps : counters_.dumps_failed);
    // If the host has none of the requested ranks, there is nothing to report.
    if (!status->ok() && !absl::IsOutOfRange(*status)) failed(status->message());
  };
  // Dumps of suspects come first.
  dumps_.Push([this, order, status] { *status = WriteDump(*order); }, done,
              request.phase() == CollectRequest::EVIDENCE);
}

absl::Status HostWorkshop::WriteDump(const WorkOrder& order) const {
  std::vector<RingInput> inputs;
  size_t bytes = 0;
  for (const WorkRing& ring : order.rings) {
    if (bytes > kMostDumpBytes) {
      inputs.back().snapshot.problems.push_back(
          absl::StrCat("the rings of ", order.rings.size() - inputs.size(),
                       " more processes on this host are left out because their data is too large"));
      break;
    }
    RingInput input;
    input.path = ring.path;
    input.process = ring.process;
    std::string error;
    if (!ring::ReadRing(ring.fd.get(), {}, &input.snapshot, &error)) {
      if (!ring.at_end) continue;
      input.snapshot = *ring.at_end;
      input.snapshot.problems.push_back(absl::StrCat("only its digest could be read: ", error));
    } else if (ring.at_end) {
      // The process exited before this read. What the GPU wrote after the exit is marked as late.
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
  const absl::StatusOr<Ranks> wanted = Ranks::From(order.request.ranks());
  std::vector<size_t> chosen;
  for (size_t i = 0; i < bundle.ranks.size(); ++i) {
    if (!wanted.ok() || wanted->empty() || wanted->Contains(bundle.ranks[i].rank)) chosen.push_back(i);
    bundle.ranks[i].path = FileNameOf(options_.host, order.request.phase());
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
  header.set_job(order.request.job().job());
  header.set_step(order.request.job().step());
  header.set_restart_count(order.request.job().restart_count());
  header.set_captured_real_ns(RealtimeNs());
  header.set_ranks_expected(bundle.ranks_expected);
  SpoolFile file;
  file.kind = order.request.phase() == CollectRequest::EVIDENCE ? SpoolClass::kEvidence : SpoolClass::kEverything;
  *file.like.mutable_job() = order.request.job();
  file.like.set_host(options_.host);
  file.like.set_incident(order.request.incident());
  file.like.set_file(FileNameOf(options_.host, order.request.phase()));
  file.like.set_request(order.request.request());
  const std::string path = spool_->WorkPath(file.like.file());
  absl::Status status = WriteLsd(bundle, chosen, header, path);
  while (absl::IsResourceExhausted(status) && spool_->MakeRoom(file.kind))
    status = WriteLsd(bundle, chosen, header, path);
  if (status.ok()) spool_->PutFile(file, path);
  return status;
}

}  // namespace lockstep
