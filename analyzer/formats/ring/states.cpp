#include "analyzer/formats/ring/states.h"

#include <algorithm>
#include <limits>

namespace lockstep {
namespace {

struct Reach {
  int64_t highest_there = kNone;  // highest number that has certainly reached this stage
  // Lowest number that has certainly not reached this stage.
  int64_t lowest_short = std::numeric_limits<int64_t>::max();
  bool all_before_short = false;  // everything before lowest_short on its stream has certainly reached this stage
};

int64_t ReachedNumber(const Reach& reach, const Membership& m) {
  if (m.issued == kNone) return kNone;
  int64_t number = kUnknown;
  if (reach.highest_there >= m.first_seq) number = std::min(reach.highest_there, reach.lowest_short - 1);
  if (reach.lowest_short != std::numeric_limits<int64_t>::max() &&
      (reach.all_before_short || reach.lowest_short == m.first_seq)) {
    number = std::max(number, reach.lowest_short - 1);
  }
  return number == kUnknown || number >= m.first_seq ? number : kNone;
}

void Note(Reach* reach, int64_t seq, bool there, bool all_before) {
  if (there) {
    reach->highest_there = std::max(reach->highest_there, seq);
  } else if (seq < reach->lowest_short) {
    reach->lowest_short = seq;
    reach->all_before_short = all_before;
  }
}

}  // namespace

bool StartsAreMarked(const ring::StreamSnapshot& stream, ring::GpuMarks marks) {
  return marks == ring::GpuMarks::kFull ||
         (marks == ring::GpuMarks::kEvents && (stream.timed_every == 1 || stream.starts_marked));
}

OpState StateOf(ring::OpStage stage, uint64_t ticket, const ring::StreamSnapshot* stream, ring::GpuMarks marks) {
  switch (stage) {
    case ring::OpStage::kEntered: return OpState::kEntered;
    case ring::OpStage::kQueued: return OpState::kQueued;
    case ring::OpStage::kFailed:
    case ring::OpStage::kSimulated: return OpState::kFailed;
    case ring::OpStage::kCaptured: return OpState::kCaptured;
    case ring::OpStage::kLaunched: break;
    default: return OpState::kUnknown;
  }
  if (stream == nullptr || !stream->marked || ticket == 0 || marks == ring::GpuMarks::kOff ||
      marks == ring::GpuMarks::kProfiler) {
    return OpState::kUnknown;
  }
  if (stream->completed >= ticket) return OpState::kCompleted;
  // If the driver did not accept the operation's completion marker, the operation may not even be on the stream.
  if (stream->given < ticket) return OpState::kUnknown;
  if (StartsAreMarked(*stream, marks)) return stream->started >= ticket ? OpState::kStarted : OpState::kEnqueued;
  // Only timed operations, one in StreamSnapshot::timed_every, have a start marker.
  if (marks == ring::GpuMarks::kEvents && stream->started >= ticket) return OpState::kStarted;
  return OpState::kIncomplete;
}

void DeriveProgress(Rank* rank) {
  std::vector<Reach> started(rank->memberships.size()), completed(rank->memberships.size());
  std::vector<bool> marked(rank->memberships.size());
  for (const Op& op : rank->ops) {
    if (op.membership >= rank->memberships.size() || !ring::IsCollective(op.kind) || op.seq < 0) continue;
    Reach &start = started[op.membership], &end = completed[op.membership];
    const ring::StreamSnapshot* stream = op.stream < rank->streams.size() ? &rank->streams[op.stream] : nullptr;
    if (stream != nullptr && stream->marked && op.ticket > 0) marked[op.membership] = true;
    const bool told =
        op.state == OpState::kCompleted || op.state == OpState::kStarted || op.state == OpState::kEnqueued;
    if (rank->time_source == TimeSource::kProfiler && told) marked[op.membership] = true;
    const bool ended_before =
        stream != nullptr && op.ticket > 0 && stream->completed + 1 >= static_cast<uint64_t>(op.ticket);
    const bool started_before =
        stream != nullptr && op.ticket > 0 && stream->started + 1 >= static_cast<uint64_t>(op.ticket);
    switch (op.state) {
      case OpState::kCompleted:
        Note(&end, op.seq, true, false);
        Note(&start, op.seq, true, false);
        break;
      case OpState::kStarted:
        Note(&end, op.seq, false, ended_before);
        Note(&start, op.seq, true, false);
        break;
      case OpState::kEnqueued:
        Note(&end, op.seq, false, ended_before);
        Note(&start, op.seq, false, started_before);
        break;
      case OpState::kIncomplete: Note(&end, op.seq, false, ended_before); break;
      case OpState::kEntered:
      case OpState::kQueued:
        Note(&end, op.seq, false, false);
        Note(&start, op.seq, false, false);
        break;
      case OpState::kUnknown:
      case OpState::kFailed:
      case OpState::kCaptured: break;
    }
  }
  for (size_t i = 0; i < rank->memberships.size(); ++i) {
    Membership& m = rank->memberships[i];
    const bool any_marks = rank->gpu_marks != ring::GpuMarks::kOff && (marked[i] || m.issued == kNone);
    m.completed = any_marks ? ReachedNumber(completed[i], m) : kUnknown;
    m.started = any_marks && rank->start_recorded ? ReachedNumber(started[i], m) : kUnknown;
  }
}

}  // namespace lockstep
