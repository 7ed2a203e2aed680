#include "collector/detect/lateness.h"

#include <algorithm>

namespace lockstep {
namespace {

// Two reads of the same event differ by less than this, because a ring's clock is recalibrated continuously.
constexpr int64_t kClockTrust = 50'000'000;
constexpr uint64_t kForgetAfterLooks = 4096;  // for communicators that no live ring contains any more

// Returns whether GPU progress markers show the progress of the stream that a thread waits for. If that stream is
// unknown, any stream with markers counts.
bool IsMarked(const DigestView& view, uint32_t stream) {
  if (stream == UINT32_MAX) return !view.streams.empty();
  return std::any_of(view.streams.begin(), view.streams.end(),
                     [stream](const DigestStream& marked) { return marked.index == stream; });
}

}  // namespace

Lateness::CommState* Lateness::Touch(uint64_t comm) {
  CommState& state = comms_[comm];
  if (state.look == look_) return &state;
  state.look = look_;
  state.lowest = UINT64_MAX;
  state.highest = state.total = 0;
  state.issued_ns = state.first_at_highest = 0;
  state.since_ns = 0;
  state.sequence = 0;
  state.doing.clear();
  state.waiting.clear();
  return &state;
}

void Lateness::Count(int64_t now, const DigestView& view) {
  auto [entry, fresh] = slots_.try_emplace(view.slot);
  SlotState& slot = entry->second;
  if (fresh) slot.first_seen_ns = now;
  if (fresh || slot.progress_mark != view.progress_mark) slot.progress_ns = now;
  if (fresh || view.activity_ns > slot.activity_seen_ns + kClockTrust) {
    slot.activity_ns = now;
    slot.activity_seen_ns = view.activity_ns;
  }
  slot.progress_mark = view.progress_mark;
  slot.alive = view.alive;
  slot.waiting_since = 0;
  slot.doing = view.doing;
  // A process that drives several devices may be several members of one communicator.
  absl::flat_hash_map<uint64_t, uint64_t> totals;
  for (const DigestComm& comm : view.comms) totals[comm.id] += comm.total;
  for (const auto& [id, issued] : totals) {
    auto& [total, since] = slot.comms[id];
    if (total != issued || since == 0) since = now;
    total = issued;
  }
  for (const DigestComm& comm : view.comms) {
    if (!comm.active) continue;
    CommState* state = Touch(comm.id);
    members_[comm.id].emplace_back(comm.collectives, view.slot);
    state->lowest = std::min(state->lowest, comm.collectives);
    if (comm.collectives > state->highest || state->first_at_highest == 0) {
      state->highest = comm.collectives;
      state->first_at_highest = comm.issued_ns;
    } else if (comm.collectives == state->highest && comm.issued_ns > 0) {
      state->first_at_highest = std::min(state->first_at_highest, comm.issued_ns);
    }
    if (comm.total >= state->total) {
      state->total = comm.total;
      state->issued_ns = std::max(state->issued_ns, comm.issued_ns);
    }
  }
  if (slot.comms.size() > 2 * view.comms.size() + 64) {
    absl::flat_hash_map<uint64_t, std::pair<uint64_t, int64_t>> left;
    for (const DigestComm& comm : view.comms) left[comm.id] = slot.comms[comm.id];
    slot.comms = std::move(left);
  }
  for (const DigestStream& stream : view.streams) {
    StreamState& known = slot.streams[stream.index];
    if (stream.issued <= stream.completed) {
      known.since_ns = 0;
    } else if (known.since_ns == 0 || known.completed != stream.completed) {
      known.since_ns = now;
    }
    known.completed = stream.completed;
  }
}

void Lateness::NoteWait(const DigestView& view, uint64_t comm, int64_t since, uint64_t sequence,
                        const std::string& doing) {
  since = std::max(since, rebased_ns_);
  if (since <= 0) return;
  SlotState& slot = slots_[view.slot];
  if (slot.waiting_since == 0 || since < slot.waiting_since) {
    slot.waiting_since = since;
    if (!doing.empty()) slot.doing = doing;
  }
  CommState* state = Touch(comm);
  if (state->waiting.empty() || state->waiting.back() != view.slot) state->waiting.push_back(view.slot);
  if (state->since_ns != 0 && state->since_ns <= since) return;
  state->since_ns = since;
  state->sequence = sequence;
  state->doing = doing;
}

void Lateness::FindWaits(int64_t now, const DigestView& view) {
  if (!view.alive) return;
  const SlotState& slot = slots_[view.slot];
  uint64_t last_used = 0;
  int64_t last_issue = 0;
  for (const DigestComm& comm : view.comms) {
    if (!comm.active) continue;
    if (comm.issued_ns > last_issue) {
      last_issue = comm.issued_ns;
      last_used = comm.id;
    }
    const CommState& state = comms_[comm.id];
    if (comm.collectives > state.lowest && state.behind_ns != 0) {
      NoteWait(view, comm.id, state.behind_ns, state.lowest + 1, view.doing);
    }
  }
  for (const DigestStream& stream : view.streams) {
    if (stream.issued <= stream.completed) continue;
    const auto known = slot.streams.find(stream.index);
    NoteWait(view, stream.comm != 0 ? stream.comm : last_used,
             known == slot.streams.end() ? now : known->second.since_ns, stream.seq, view.doing);
  }
  for (const DigestWait& wait : view.waits) {
    if (!ring::IsHostWait(wait.kind)) {
      // Counts from the rank's last action on the communicator, such as another thread's call or an earlier call of a
      // group. The times of actions before the first observation are unknown, so those actions do not count.
      int64_t since = wait.since_ns;
      const auto comm = slot.comms.find(wait.comm);
      if (comm != slot.comms.end() && comm->second.second > slot.first_seen_ns)
        since = std::max(since, comm->second.second);
      // The number of a send or receive counts its peer's, so it numbers no collective.
      NoteWait(view, wait.comm, since, ring::IsPointToPoint(wait.kind) ? 0 : wait.seq, view.doing);
    } else if (!IsMarked(view, wait.stream)) {
      // Without GPU progress markers, it is unknown what the GPU is doing. The last issued operation is the most likely
      // one.
      NoteWait(view, last_used, std::max(wait.since_ns, slot.progress_ns), 0, view.doing);
    }
  }
}

LateEvent Lateness::EventOf(int64_t now, uint64_t id, const CommState& comm) const {
  LateEvent event;
  event.comm = id;
  event.sequence = comm.sequence;
  event.since_ns = comm.since_ns;
  event.in_flight_ns = now - comm.since_ns;
  event.p99_gap_ns = comm.meter.gaps().P99();
  event.gaps = static_cast<uint32_t>(comm.meter.gaps().size());
  event.limit_ns = LearnedLimit(floor_ns_, event.p99_gap_ns);
  event.waiting = comm.waiting;
  std::sort(event.waiting.begin(), event.waiting.end());
  event.doing = comm.doing;
  if (const auto members = members_.find(id); members != members_.end() && comm.highest > comm.lowest) {
    for (const auto& [collectives, slot] : members->second) {
      if (collectives == comm.lowest) event.missing.push_back(slot);
    }
    std::sort(event.missing.begin(), event.missing.end());
  }
  return event;
}

std::vector<LateEvent> Lateness::Observe(int64_t now, const std::vector<DigestView>& views) {
  ++look_;
  members_.clear();
  for (const DigestView& view : views) Count(now, view);
  for (const auto& [id, members] : members_) {
    CommState& comm = comms_[id];
    comm.meter.Look(now, comm.total, comm.issued_ns, rebased_ns_);
    if (comm.highest <= comm.lowest) {
      comm.behind_ns = 0;
    } else if (comm.behind_ns == 0 || comm.behind_low != comm.lowest) {
      comm.behind_low = comm.lowest;
      const bool one = comm.highest == comm.lowest + 1 && comm.first_at_highest > 0;
      comm.behind_ns = one ? std::min(now, comm.first_at_highest) : now;
    }
  }
  for (const DigestView& view : views) FindWaits(now, view);

  std::vector<LateEvent> events;
  for (auto& [id, comm] : comms_) {
    const bool waits = comm.look == look_ && comm.since_ns != 0;
    if (comm.late && (!waits || comm.since_ns > comm.late_since_ns + kClockTrust)) {
      LateEvent event = EventOf(now, id, comm);
      event.over = true;
      event.since_ns = comm.late_since_ns;
      event.in_flight_ns = (waits ? comm.since_ns : now) - comm.late_since_ns;
      events.push_back(std::move(event));
      comm.late = false;
    }
    if (!waits || comm.late || now - comm.since_ns < floor_ns_ || now - comm.since_ns < LimitOf(id)) continue;
    comm.late = true;
    comm.late_since_ns = comm.since_ns;
    events.push_back(EventOf(now, id, comm));
  }
  if (look_ % kForgetAfterLooks == 0) {
    absl::erase_if(comms_, [this](const auto& entry) {
      return !entry.second.late && entry.second.look + kForgetAfterLooks < look_;
    });
  }
  std::sort(events.begin(), events.end(), [](const LateEvent& a, const LateEvent& b) {
    return a.over != b.over ? a.over : std::make_pair(a.since_ns, a.comm) < std::make_pair(b.since_ns, b.comm);
  });
  return events;
}

std::vector<LateEvent> Lateness::Current(int64_t now) const {
  std::vector<LateEvent> events;
  for (const auto& [id, comm] : comms_) {
    if (comm.late) events.push_back(EventOf(now, id, comm));
  }
  std::sort(events.begin(), events.end(), [](const LateEvent& a, const LateEvent& b) { return a.comm < b.comm; });
  return events;
}

void Lateness::Rebase(int64_t now) {
  rebased_ns_ = now;
  for (auto& [number, slot] : slots_) {
    slot.progress_ns = slot.activity_ns = now;
    if (slot.waiting_since != 0) slot.waiting_since = now;
    for (auto& [index, stream] : slot.streams) {
      if (stream.since_ns != 0) stream.since_ns = now;
    }
  }
  for (auto& [id, comm] : comms_) {
    if (comm.since_ns != 0) comm.since_ns = now;
    if (comm.behind_ns != 0) comm.behind_ns = now;
  }
}

int64_t Lateness::LimitOf(uint64_t comm) const {
  const auto found = comms_.find(comm);
  return LearnedLimit(floor_ns_, found == comms_.end() ? 0 : found->second.meter.gaps().P99());
}

const GapMeter* Lateness::MeterOf(uint64_t comm) const {
  const auto found = comms_.find(comm);
  return found == comms_.end() ? nullptr : &found->second.meter;
}

int64_t Lateness::ProgressOf(int32_t slot) const {
  const auto found = slots_.find(slot);
  return found == slots_.end() ? 0 : found->second.progress_ns;
}

int64_t Lateness::ActivityOf(int32_t slot) const {
  const auto found = slots_.find(slot);
  return found == slots_.end() ? 0 : found->second.activity_ns;
}

int64_t Lateness::LongestWait(int64_t now, int32_t* waiting, std::string* doing) const {
  int64_t longest = 0;
  int32_t who = -1, count = 0;
  const SlotState* found = nullptr;
  for (const auto& [number, state] : slots_) {
    if (!state.alive || state.waiting_since == 0) continue;
    ++count;
    // A rank that keeps issuing operations is not stuck in its oldest wait, even if one of its threads is.
    const int64_t waits = now - std::max(state.waiting_since, state.progress_ns);
    if (waits < longest || (waits == longest && (found == nullptr ? waits == 0 : number > who))) continue;
    longest = waits;
    who = number;
    found = &state;
  }
  if (waiting != nullptr) *waiting = found == nullptr ? 0 : count;
  if (found != nullptr && doing != nullptr) *doing = found->doing;
  return longest;
}

int64_t Lateness::NextLimit() const {
  int64_t next = INT64_MAX;
  for (const auto& [id, comm] : comms_) {
    if (comm.look == look_ && comm.since_ns != 0 && !comm.late) next = std::min(next, comm.since_ns + LimitOf(id));
  }
  return next;
}

}  // namespace lockstep
