#include "recorder/core/streams.h"

#include "recorder/core/gpu_marks.h"
#include "recorder/core/graphs.h"

namespace lockstep::recorder {
namespace {

constexpr uintptr_t kLegacy = 1, kPerThread = 2;
constexpr uint64_t kRetired = UINT64_MAX;  // value of StreamCell::owner after the thread has ended

bool IsDefault(const void* handle) noexcept { return reinterpret_cast<uintptr_t>(handle) <= kPerThread; }

// Maps an event to the stream and ticket of its last record. If all places for the event are full, another entry is
// overwritten. So a dependency can be lost but is never wrong.
struct EventEntry {
  const void* event;
  uint64_t value;  // (stream + 1) << 48 | ticket
};
constexpr uint32_t kEvents = 4096;
constexpr uint32_t kEventProbes = 8;
constexpr uint64_t kTicketMask = (uint64_t{1} << 48) - 1;
EventEntry g_events[kEvents];
uint32_t g_default_streams;  // number of default streams in the table

uint32_t EventSlot(const void* event) noexcept {
  return static_cast<uint32_t>(Mix(reinterpret_cast<uintptr_t>(event)) % kEvents);
}

// Returns an unused cell or, if there is none, one whose stream is destroyed and idle. That cell's tickets continue to
// increase.
uint32_t ClaimStream() noexcept {
  uint32_t index = Load(&g.streams_used);
  while (index < g.map.capacities.streams && !Swap(&g.streams_used, index, index + 1)) index = Load(&g.streams_used);
  if (index < g.map.capacities.streams) return index;
  for (index = 0; index < g.map.capacities.streams; ++index) {
    const ring::StreamCell* cell = &g.map.streams[index];
    const bool retired = cell->handle <= kPerThread && Load(&cell->owner) == kRetired;
    if (Load(&cell->in_use) != 1 || (cell->handle <= kPerThread && !retired) ||
        (!retired && Load(&g_tables.stream_handles[index]) != nullptr)) {
      continue;
    }
    // Pending markers would report progress of the previous stream.
    if (Load(&cell->marked) != 0 && Load(&g.map.marks[index].completed) + 1 < Load(&cell->given)) continue;
    if (Swap<uint32_t>(&g.map.streams[index].in_use, 1, 2)) return index;
  }
  return kNone;
}

uint32_t NewStream(const void* handle, int32_t device, uint64_t owner) noexcept {
  const uint32_t index = ClaimStream();
  if (index == kNone) return kNone;
  ring::StreamCell* cell = &g.map.streams[index];
  cell->handle = reinterpret_cast<uintptr_t>(handle);
  cell->device = device;
  Store(&cell->owner, owner);  // ForgetThreadStreams also checks places that are being filled
  cell->marked = 0;
  cell->first_error = 0;
  cell->given = 0;
  cell->timed_every = 0;
  cell->starts_marked = 0;
  for (ring::Dependency& dependency : cell->depends_on) Store(&dependency.stream_plus_one, 0u);
  StreamLocal* local = &g_tables.streams[index];
  local->cell = cell;
  local->mark = &g.map.marks[index];
  local->device_mark = 0;
  local->ways = 0;
  local->tries = 8;
  local->timed = false;
  Store(&local->busy, 0u);
  memset(local->held, 0, sizeof(local->held));
  EnableMarks(local);
  StoreRelease(&cell->in_use, 1u);
  if (IsDefault(handle)) Store(&g_default_streams, 1u);
  Raise(&g.map.header->streams_used, index + 1);
  StoreRelease(&g_tables.stream_handles[index], handle);
  return index;
}

// 0 and 1 mean the same stream if the program was not built for per-thread default streams.
uintptr_t PlainValue(uintptr_t value) noexcept { return value == kLegacy ? 0 : value; }
uint64_t DefaultOwner(const ThreadState* thread, uintptr_t value) noexcept {
  return value == kPerThread ? uint64_t{thread->index} + 1 : 0;
}

uint32_t FindDefault(uintptr_t value, int32_t device, uint64_t owner) noexcept {
  const uint32_t used = Load(&g.streams_used);
  for (uint32_t i = 0; i < used && i < g.map.capacities.streams; ++i) {
    const ring::StreamCell* cell = &g.map.streams[i];
    if (LoadAcquire(&cell->in_use) != 0 && cell->handle == PlainValue(value) && cell->device == device &&
        Load(&cell->owner) == owner) {
      return i;
    }
  }
  return kNone;
}

// Called for every event and copy on a default stream, so it returns at once if no operation used a default stream. A
// default stream without operations gets no place in the table.
uint32_t KnownDefault(const void* handle) noexcept {
  if (LOCKSTEP_LIKELY(Load(&g_default_streams) == 0)) return kNone;
  const ThreadState* thread = Thread();
  const auto value = reinterpret_cast<uintptr_t>(handle);
  return thread != nullptr ? FindDefault(value, CurrentDevice(), DefaultOwner(thread, value)) : kNone;
}

}  // namespace

uint32_t KnownStream(const void* handle) noexcept {
  if (IsDefault(handle)) return KnownDefault(handle);
  const uint32_t used = Load(&g.streams_used);
  for (uint32_t i = 0; i < used && i < ring::kMaxStreams; ++i) {
    if (LoadAcquire(&g_tables.stream_handles[i]) == handle) return i;
  }
  return kNone;
}

uint32_t ForgetStream(const void* handle) noexcept {
  const uint32_t index = IsDefault(handle) ? kNone : KnownStream(handle);
  if (index != kNone) StoreRelease(&g_tables.stream_handles[index], static_cast<const void*>(nullptr));
  return index;
}

void KeepStream(uint32_t index, const void* handle) noexcept { StoreRelease(&g_tables.stream_handles[index], handle); }

void ForgetThreadStreams(uint32_t thread) noexcept {
  const uint32_t used = Load(&g.streams_used);
  for (uint32_t i = 0; i < used && i < g.map.capacities.streams; ++i) {
    Swap(&g.map.streams[i].owner, uint64_t{thread} + 1, kRetired);
    Swap<uint32_t>(&g_tables.streams[i].busy, thread + 1, 0);
  }
}

LOCKSTEP_COLD uint32_t FindStreamSlow(ThreadState* thread, const void* handle, int32_t device) noexcept {
  if (handle == UnknownStream()) return kNone;
  ErrnoKeeper keep;
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (!IsDefault(handle)) {
    uint32_t index = KnownStream(handle);
    if (index == kNone) index = NewStream(handle, device >= 0 ? device : CurrentDevice(), 0);
    if (index != kNone) thread->streams[(value >> 4 ^ value >> 9) & 7] = {handle, index};
    return index;
  }
  if (device < 0) device = CurrentDevice();
  const uint32_t known = FindDefault(value, device, DefaultOwner(thread, value));
  if (known != kNone) return known;
  return NewStream(reinterpret_cast<const void*>(PlainValue(value)), device, DefaultOwner(thread, value));
}

void NoteEventRecorded(const void* event, const void* stream) noexcept {
  const TableTime timed;
  uint32_t index = KnownStream(stream);
  uint64_t capture = 0;
  // An event that is recorded during a capture only orders captured work, so it has no ticket.
  if (index != kNone && Capturing() && LookForCapture(g_tables.streams[index], &capture) != Capture::kNo) index = kNone;
  uint64_t value = 0;
  if (index != kNone) {
    value = (uint64_t{index} + 1) << 48 | (Load(&g.map.streams[index].issued) & kTicketMask);
  }
  const uint32_t first = EventSlot(event);
  uint32_t place = kNone;
  for (uint32_t probe = 0; probe < kEventProbes; ++probe) {
    EventEntry* entry = &g_events[(first + probe) % kEvents];
    const void* there = LoadAcquire(&entry->event);
    if (there == event) {
      StoreRelease(&entry->value, value);
      return;
    }
    if (place == kNone && (there == nullptr || Load(&entry->value) == 0)) place = (first + probe) % kEvents;
  }
  if (value == 0) return;
  EventEntry* entry = &g_events[place != kNone ? place : first];
  StoreRelease(&entry->value, uint64_t{0});
  StoreRelease(&entry->event, event);
  StoreRelease(&entry->value, value);
}

uint32_t EventStream(const void* event, uint64_t* ticket) noexcept {
  const uint32_t first = EventSlot(event);
  for (uint32_t probe = 0; probe < kEventProbes; ++probe) {
    const EventEntry* entry = &g_events[(first + probe) % kEvents];
    if (LoadAcquire(&entry->event) != event) continue;
    const uint64_t value = LoadAcquire(&entry->value);
    if (value == 0) return kNone;
    *ticket = value & kTicketMask;
    return static_cast<uint32_t>(value >> 48) - 1;
  }
  return kNone;
}

namespace {

// Returns true if the entry is unused, or the markers show that the work waited for is complete.
bool IsOver(const ring::Dependency& wait) noexcept {
  const uint32_t stream = Load(&wait.stream_plus_one);
  return stream == 0 || (Load(&g.map.streams[stream - 1].marked) != 0 &&
                         Load(&g.map.marks[stream - 1].completed) >= Load(&wait.ticket));
}

// Returns the place, among the waits of `target`, for a wait for `source`. An earlier, unfinished wait for the same
// stream delays the work between the two waits, so it is kept if there is room. Without markers, this is unknown, and
// the newest wait counts.
uint32_t PlaceOfWait(const ring::StreamCell& target, uint32_t source, uint16_t after) noexcept {
  const bool marked = Load(&g.map.streams[source].marked) != 0;
  uint32_t same = kNone, over = kNone, oldest = 0;
  for (uint32_t i = 0; i < ring::kDependencies; ++i) {
    const ring::Dependency& wait = target.depends_on[i];
    const bool is_same = Load(&wait.stream_plus_one) == source + 1;
    // There was no work between the two waits, so the later one replaces the earlier one.
    if (is_same && (!marked || Load(&target.waits_after[i]) == after)) return i;
    if (is_same && (same == kNone || Load(&wait.ticket) > Load(&target.depends_on[same].ticket))) same = i;
    if (over == kNone && IsOver(wait)) over = i;
    if (Load(&wait.ticket) < Load(&target.depends_on[oldest].ticket)) oldest = i;
  }
  if (over != kNone) return over;
  return same != kNone ? same : oldest;
}

}  // namespace

void NoteStreamWaits(const void* stream, const void* event) noexcept {
  const TableTime timed;
  uint64_t ticket = 0;
  const uint32_t source = EventStream(event, &ticket);
  if (source == kNone) return;
  ThreadState* thread = Thread();
  if (thread == nullptr) return;
  const uint32_t target = IsDefault(stream) ? KnownDefault(stream) : FindStream(thread, stream, -1);
  if (target == kNone || target == source) return;
  ring::StreamCell* cell = &g.map.streams[target];
  const uint16_t after = ring::PackGiven(Load(&cell->issued));
  const uint32_t at = PlaceOfWait(*cell, source, after);
  ring::Dependency* place = &cell->depends_on[at];
  Store(&place->stream_plus_one, 0u);
  FenceRelease();
  Store(&place->ticket, ticket);
  Store(&place->check, ring::DependencyCheck(source + 1, ticket));
  Store(&cell->waits_after[at], after);
  StoreRelease(&place->stream_plus_one, source + 1);
}

void ForgetEvent(const void* event) noexcept {
  const uint32_t first = EventSlot(event);
  for (uint32_t probe = 0; probe < kEventProbes; ++probe) {
    EventEntry* entry = &g_events[(first + probe) % kEvents];
    if (LoadAcquire(&entry->event) == event) StoreRelease(&entry->value, uint64_t{0});
  }
}

void ForgetEvents() noexcept {
  g_default_streams = 0;
  memset(g_events, 0, sizeof(g_events));
}

bool EnterWait(ring::CallKind kind, uint32_t stream, uint64_t ticket) noexcept {
  ThreadState* thread = Thread();
  if (thread == nullptr || thread->inside != nullptr) return false;
  ring::ThreadCell* cell = thread->cell;
  const uint64_t now = Now();
  if (LOCKSTEP_UNLIKELY(now >= Load(&g.next_calibration))) {
    Calibrate(now);
    if (!Recording()) return false;
  }
  // A deeper stack frame means a nested wait, made by NCCL or the runtime. Otherwise an exception or a jump left the
  // recorded wait, and this wait replaces it.
  const void* frame = __builtin_frame_address(0);
  if (Load(&cell->wait) != 0 && reinterpret_cast<uintptr_t>(frame) < reinterpret_cast<uintptr_t>(thread->wait_frame)) {
    return false;
  }
  thread->wait_frame = frame;
  Store(&cell->wait_stream, stream == kNone ? ring::kNoIndex16 : stream);
  Store(&cell->wait_ticket, ticket);
  Store(&cell->wait_since_ticks, now);
  StoreRelease(&cell->wait, static_cast<uint16_t>(kind));
  return true;
}

void LeaveWait() noexcept {
  if (!Recording()) return;
  ThreadState* thread = Thread();
  if (thread == nullptr) return;
  ring::ThreadCell* cell = thread->cell;
  StoreRelease(&cell->wait, uint16_t{0});
  Store(&cell->last_wait_ticks, Now());
  Store(&cell->waits, Load(&cell->waits) + 1);
}

}  // namespace lockstep::recorder
