// The facts about each rank that the viewer shows.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/formats/lsi/format.h"
#include "analyzer/model/pipeline_name.h"
#include "analyzer/report/state.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/util/printable.h"
#include "analyzer/viewdata/parts.h"

namespace lockstep {
namespace {

constexpr size_t kMostEvidenceBytes = size_t{32} << 20;  // for all ranks together; the rest is in the ranks' files
constexpr size_t kMostStreams = kIndexNoStream;
constexpr size_t kMostFrames = 64;  // frames of a stack to search for the user's code

// Returns a rank's member rank in its largest pipeline communicator; -1 if there is none, or several of that size
// (pairs).
int32_t StageOf(const Rank& rank, const std::vector<Communicator>& comms, const std::vector<bool>& pipeline) {
  int32_t stage = -1, size = 0;
  for (const Membership& m : rank.memberships) {
    if (m.comm >= comms.size() || !pipeline[m.comm] || m.member_rank < 0 || comms[m.comm].size < size) continue;
    stage = comms[m.comm].size == size ? -1 : m.member_rank;
    size = comms[m.comm].size;
  }
  return stage >= static_cast<int32_t>(kIndexMaxRanks) ? -1 : stage;
}

RankFacts::Host HostOf(HostState host) {
  switch (host) {
    case HostState::kElsewhere: return RankFacts::ELSEWHERE;
    case HostState::kInCall: return RankFacts::IN_CALL;
    case HostState::kInWait: return RankFacts::IN_WAIT;
    case HostState::kStopped: return RankFacts::STOPPED;
    case HostState::kDead: return RankFacts::DEAD;
    case HostState::kUnknown: break;
  }
  return RankFacts::UNKNOWN;
}

std::string RecorderText(const Rank& rank) {
  const std::string because = rank.stop_reason.empty() ? "" : absl::StrCat(": ", Printable(rank.stop_reason, 200));
  switch (rank.recorder_state) {
    case ring::RecorderState::kRecording: return "recording";
    case ring::RecorderState::kCleanExit: return "ended with the process";
    case ring::RecorderState::kStopped: return absl::StrCat("stopped", because);
    case ring::RecorderState::kReplaced: return absl::StrCat("replaced by another program", because);
    case ring::RecorderState::kUnknown: break;
  }
  return rank.source == Source::kFlightRecorder ? "Flight Recorder dump" : absl::StrCat("not known", because);
}

bool GpuRecorded(const Rank& rank) {
  return rank.gpu_marks != ring::GpuMarks::kOff || rank.start_recorded || rank.source == Source::kFlightRecorder;
}

int64_t Clamped(int64_t ns) { return std::clamp<int64_t>(ns, -(int64_t{1} << 61), int64_t{1} << 61); }

// Sets the offset for each rank's times, from the alignment by shared operations, otherwise from the wall clocks.
void SetClocks(const ViewInput& in, ViewFacts* facts) {
  const AnalysisView& a = in.analysis;
  const Rank* reference = nullptr;
  int64_t reference_offset = 0;
  std::vector<bool> aligned(in.bundle.ranks.size());
  for (size_t row = 0; row < in.bundle.ranks.size(); ++row) {
    const Rank& rank = in.bundle.ranks[row];
    const int32_t m = in.model_of_row[row];
    if (m < 0 || !a.clocks.Aligned(static_cast<size_t>(m))) continue;
    const HostClock& clock = a.clocks.clocks[a.timing.ranks[static_cast<size_t>(m)].clock];
    int64_t at = rank.captured_ns;
    if (!IsTime(at)) at = clock.epochs.back().last_ns;
    aligned[row] = true;
    const int64_t offset = IsTime(at) ? a.clocks.ToJob(static_cast<size_t>(m), at) - at : clock.epochs.back().offset_ns;
    facts->mutable_ranks(static_cast<int>(row))->set_clock_offset_ns(Clamped(offset));
    facts->mutable_ranks(static_cast<int>(row))
        ->set_clock_uncertainty_ns(std::max<int64_t>(0, a.clocks.Uncertainty(static_cast<size_t>(m), at)));
    if (reference == nullptr) reference = &rank, reference_offset = offset;
  }
  for (size_t row = 0; row < in.bundle.ranks.size(); ++row) {
    if (aligned[row]) continue;
    const Rank& rank = in.bundle.ranks[row];
    if (reference == nullptr) reference = &rank;
    const int64_t offset =
        Clamped(rank.real_minus_mono_ns) - Clamped(reference->real_minus_mono_ns) + Clamped(reference_offset);
    facts->mutable_ranks(static_cast<int>(row))->set_clock_offset_ns(Clamped(offset));
    facts->mutable_ranks(static_cast<int>(row))->set_clock_uncertainty_ns(-1);
  }
}

void SetSpan(const Bundle& bundle, ViewFacts* facts) {
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (size_t row = 0; row < bundle.ranks.size(); ++row) {
    const int64_t offset = facts->ranks(static_cast<int>(row)).clock_offset_ns();
    auto take = [&](int64_t ns) {
      if (!IsTime(ns)) return;
      first = std::min(first, ns + offset);
      last = std::max(last, ns + offset);
    };
    for (const Op& op : bundle.ranks[row].ops) {
      take(op.enter_ns);
      take(op.return_ns);
      take(op.completed_ns);
    }
    take(bundle.ranks[row].captured_ns);
  }
  if (first > last) return;
  facts->set_first_ns(first);
  facts->set_last_ns(last);
}

// Adds the processes' evidence, culprits first, then by rank, as far as there is room.
void SetEvidence(const ViewInput& in, ViewFacts* facts) {
  std::vector<bool> wanted(in.bundle.ranks.size());
  std::vector<size_t> order;
  for (const Finding& finding : in.verdict.findings()) {
    for (const int32_t rank : finding.culprit_ranks()) {
      const Rank* found = FindRank(in.bundle, rank);
      const size_t row = found == nullptr ? 0 : static_cast<size_t>(found - in.bundle.ranks.data());
      if (found == nullptr || wanted[row]) continue;
      wanted[row] = true;
      order.push_back(row);
    }
  }
  for (size_t row = 0; row < in.bundle.ranks.size(); ++row) {
    if (!wanted[row]) order.push_back(row);
  }
  size_t left = kMostEvidenceBytes;
  for (const size_t row : order) {
    const auto& evidence = in.bundle.ranks[row].process.evidence;
    if (evidence == nullptr) continue;
    const size_t bytes = evidence->ByteSizeLong();
    if (bytes > left) continue;
    left -= bytes;
    *facts->mutable_ranks(static_cast<int>(row))->mutable_evidence() = *evidence;
  }
}

}  // namespace

std::string HostStateText(const Rank& rank, HostState host) {
  Culprit as_culprit;
  SetCondition(rank, host, &as_culprit);
  return ConditionText(as_culprit);
}

void SetRanks(const ViewInput& in, ViewFacts* facts) {
  std::vector<bool> pipeline;
  std::vector<int64_t> furthest(in.bundle.comms.size(), kNone);
  for (const Communicator& comm : in.bundle.comms) pipeline.push_back(comm.size > 1 && NamesPipeline(comm.name));
  for (const Rank& rank : in.bundle.ranks) {
    for (const Membership& m : rank.memberships) {
      if (m.comm < furthest.size()) furthest[m.comm] = std::max(furthest[m.comm], m.issued);
    }
  }
  for (size_t row = 0; row < in.bundle.ranks.size(); ++row) {
    const Rank& rank = in.bundle.ranks[row];
    RankFacts* out = facts->add_ranks();
    out->set_rank(rank.rank);
    out->set_path(CleanUtf8(rank.path));
    out->set_gpu_pci(CleanUtf8(rank.gpu_pci, 64));
    out->set_state(CleanUtf8(StateText(in, row, /*of_class=*/false), 400));
    out->set_host_state(in.model_of_row[row] < 0
                            ? RankFacts::UNKNOWN
                            : HostOf(in.analysis.model.ranks[static_cast<size_t>(in.model_of_row[row])].host));
    out->set_stage(StageOf(rank, in.bundle.comms, pipeline));
    out->set_wait_class(-1);
    int64_t lag = 0;
    for (const Membership& m : rank.memberships) {
      if (m.comm >= furthest.size() || m.issued == kUnknown || furthest[m.comm] < 0) continue;
      const int64_t own = m.issued == kNone ? m.first_seq - 1 : m.issued;
      if (own >= -1 && furthest[m.comm] > own) lag = std::max(lag, furthest[m.comm] - own);
    }
    out->set_lag(lag);
    out->set_records_lost(rank.records_lost);
    out->set_damaged(rank.damaged);
    out->set_gpu_recorded(GpuRecorded(rank));
    out->set_recorder(CleanUtf8(RecorderText(rank), 400));
    for (size_t s = 0; s < rank.streams.size() && s < kMostStreams; ++s) out->add_streams(rank.streams[s].index);
  }
  SetClocks(in, facts);
  SetSpan(in.bundle, facts);
  SetEvidence(in, facts);
}

std::string StateText(const ViewInput& in, size_t row, bool of_class) {
  const Rank& rank = in.bundle.ranks[row];
  if (in.model_of_row[row] < 0) return absl::StrCat("unknown: recording ", RecorderText(rank));
  const auto m = static_cast<size_t>(in.model_of_row[row]);
  const HostState host = in.analysis.model.ranks[m].host;
  if (host == HostState::kDead || host == HostState::kStopped) return HostStateText(rank, host);
  if (host == HostState::kElsewhere) {
    const std::string place = PlaceText(rank.process);
    if (!place.empty()) return absl::StrCat("elsewhere: ", place);
  }
  std::string front = FrontText(in.analysis, m, FrontOf(in.analysis, m), of_class);
  if (host == HostState::kElsewhere && !front.empty()) return absl::StrCat(HostStateText(rank, host), "; ", front);
  if (!front.empty()) return front;
  const std::string words = RankStateText(rank, /*with_time=*/false);
  return words.empty() ? HostStateText(rank, host) : words;
}

RankFront FrontOf(const AnalysisView& analysis, size_t r) {
  RankFront out;
  if (analysis.graph == nullptr) return out;
  const WaitGraph& graph = *analysis.graph;
  for (const Edge& e : graph.edges[WaitGraph::HostNode(r)]) {
    if (e.why == Why::kIn && graph.Kind(e.to) == WaitGraph::NodeKind::kCollective) {
      out.front = Front::kWaits;
      out.comm = e.comm;
      out.creation = true;
      return out;
    }
  }
  // If there are several queues, the waiting one shows most.
  for (const Queue& queue : graph.QueuesOf(r)) {
    const GpuFront& front = queue.front;
    if (front.front == Front::kIdle) continue;
    if (out.front != Front::kIdle && !(front.front == Front::kWaits && out.front != Front::kWaits)) continue;
    out.front = front.front;
    out.op = front.op;
    out.comm = front.comm;
    out.mismatch = front.mismatch;
    // If the record of the current operation was overwritten, the graph's edge names the communicator.
    for (const Edge& e : graph.edges[graph.NodeOf(queue)]) {
      if (out.op == nullptr && e.comm != kNoIndex) out.comm = e.comm;
    }
  }
  return out;
}

std::string FrontText(const AnalysisView& analysis, size_t r, const RankFront& front, bool of_class) {
  const Bundle& bundle = analysis.model.bundle;
  if (front.front == Front::kIdle) return "";
  const auto comm = [&] {
    if (!of_class) return CommText(bundle, front.comm);
    const std::string& names = analysis.model.comms[front.comm].names;
    if (!names.empty()) return Printable(names, 80);
    const Communicator& one = bundle.comms[front.comm];
    return one.name.empty() ? absl::StrCat("a group of ", one.size, one.size == 1 ? " rank" : " ranks")
                            : CommLabel(one);
  };
  const std::string on = front.comm == kNoIndex ? "" : absl::StrCat(" on ", comm());
  if (front.creation)
    return absl::StrCat("waiting in the creation of ", front.comm == kNoIndex ? "a communicator" : comm());
  if (front.op == nullptr) return absl::StrCat("in an operation", on, " whose record is overwritten");
  // If this rank's record was overwritten, the operation may come from another member's record.
  const Rank& rank = bundle.ranks[r];
  const bool own = !rank.ops.empty() && front.op >= rank.ops.data() && front.op < rank.ops.data() + rank.ops.size();
  const std::string op = of_class && ring::IsPointToPoint(front.op->kind) ? ring::CallName(front.op->kind)
                         : own                                            ? OpText(bundle, rank, *front.op)
                               : absl::StrCat(OpName(bundle, *front.op), " #", front.op->seq);
  switch (front.front) {
    case Front::kWaits: return absl::StrCat("waiting in ", op, on);
    case Front::kAllArrived: return absl::StrCat("in ", op, on, " with all members, and the operation does not finish");
    case Front::kNotReached:
      return absl::StrCat("its stream has not reached ", op, on, ", but its peers' streams have");
    case Front::kPeersFinished: return absl::StrCat("its GPU did not finish ", op, on, ", but its peers' GPUs did");
    case Front::kMismatched: return absl::StrCat("in ", op, on, ", on which the calls differ");
    case Front::kOverwritten: return absl::StrCat("in an operation", on, " whose record is overwritten");
    case Front::kFailed: return absl::StrCat("its GPU reported an error in ", op, on);
    case Front::kIdle: break;
  }
  return "";
}

std::string PlaceText(const Process& process) {
  for (const auto* stack : {&process.python_stack, &process.stack}) {
    google::protobuf::RepeatedPtrField<Frame> frames;
    for (const std::string& text : Frames(*stack, kMostFrames)) *frames.Add() = ParseFrame(text);
    if (std::string place = CodePlace(frames); !place.empty()) return place;
    if (!frames.empty()) return frames[0].text();
  }
  return "";
}

std::string CommLabel(const Communicator& comm) {
  return Printable(comm.name.empty() ? GroupText(comm) : comm.name, 80);
}

}  // namespace lockstep
