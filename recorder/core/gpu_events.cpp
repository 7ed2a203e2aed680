#include "recorder/core/gpu_events.h"

#include "recorder/core/gpu_marks.h"
#include "recorder/core/note.h"
#include "recorder/core/process.h"

namespace lockstep::recorder {
namespace {

constexpr uint32_t kPairs = 256;  // maximum number of operations in progress on one stream
constexpr uint32_t kPairsAtOnce = 64;
constexpr uint32_t kNoPair = UINT32_MAX;

// An event with a time delays the GPU by 2 us between two dependent kernels. An event without a time has no measurable
// cost (H100, results/gpu.md).
struct Pair {
  void *start, *end;    // events with times
  void *began, *ended;  // events without times; null if every operation is timed
};
constexpr unsigned kWithoutTime = 2;

enum FlightStage : uint32_t { kStartRecorded = 1, kEndRecorded = 2, kDropped = 3 };

struct Flight {
  uint64_t ticket;
  uint64_t enter;  // ticks just before the start was recorded
  uint32_t pair;
  uint32_t stage;
  bool timed;  // the events with times are in use
  bool whole;  // start and end belong to one operation
};

enum StreamState : uint32_t { kUnused = 0, kLive = 1, kEnded = 2 };

// Counters never decrease and are used modulo kPairs.
struct StreamEvents {
  uint32_t state;
  void* context;
  unsigned long long context_id;
  uint32_t made;
  Pair pairs[kPairs];
  uint32_t free[kPairs];
  uint32_t freed, taken;  // `freed` is written by the consumer, `taken` by the producer
  Flight flights[kPairs];
  uint32_t begun, done;  // `begun` is written by the producer, `done` by the consumer
  bool open;             // the newest flight waits for its end; used by the producer only
  // Used only by the consumer. GPU times of this stream count from the first anchor event.
  void* anchor;
  bool anchored;
  double anchor_ns;
  // At `bounded_ns`, CPU time minus GPU time is at least `low` and at most `high`.
  bool bounded;
  double low, high;
  int64_t bounded_ns;
};
StreamEvents g_events[ring::kMaxStreams];

uint64_t g_times_written;

constexpr double kCloseEnough = 2e5;    // ns: sufficient accuracy of the clock offset
constexpr double kDrift = 5e-5;         // the largest drift between two clocks, in seconds per second
constexpr double kAnchorEvery = 1e9;    // ns; intervals measured in single precision must stay short
constexpr double kFloatError = 1.2e-7;  // relative error of an elapsed time

bool MakePair(Pair* pair) noexcept {
  if (g_driver.event_create(&pair->start, 0) != 0 || g_driver.event_create(&pair->end, 0) != 0) return false;
  if (g.gpu_sample == 1) return true;
  return g_driver.event_create(&pair->began, kWithoutTime) == 0 &&
         g_driver.event_create(&pair->ended, kWithoutTime) == 0;
}

void* StartOf(const Pair& pair, bool timed) noexcept {
  return timed || pair.began == nullptr ? pair.start : pair.began;
}
void* EndOf(const Pair& pair, bool timed) noexcept { return timed || pair.ended == nullptr ? pair.end : pair.ended; }

void PushFree(StreamEvents* events, uint32_t pair) noexcept {
  events->free[events->freed % kPairs] = pair;
  StoreRelease(&events->freed, events->freed + 1);  // pairs with TakePair
}

uint32_t TakePair(StreamEvents* events) noexcept {
  if (LoadAcquire(&events->freed) == events->taken) return kNoPair;
  const uint32_t pair = events->free[events->taken % kPairs];
  StoreRelease(&events->taken, events->taken + 1);
  return pair;
}

// Called by the consumer with the context current, to keep events ready for the producer.
void Refill(StreamEvents* events) noexcept {
  if (events->made >= kPairs || events->freed - LoadAcquire(&events->taken) >= events->made / 2) return;
  RelaxedCapture relaxed;
  for (uint32_t i = 0; i < kPairsAtOnce && events->made < kPairs; ++i) {
    Pair* pair = &events->pairs[events->made];
    if (!MakePair(pair)) return;
    PushFree(events, events->made++);
  }
}

// Returns whether the events belong to this context.
bool AreOf(const StreamEvents& events, void* context, unsigned long long id) noexcept {
  return events.made != 0 && events.context == context && events.context_id == id;
}

}  // namespace

LOCKSTEP_COLD bool MakeEvents(uint32_t stream, void* context) noexcept {
  if (g_driver.event_create == nullptr || g_driver.event_record == nullptr || g_driver.event_query == nullptr ||
      g_driver.event_elapsed == nullptr) {
    AddNote("LOCKSTEP_GPU=events: the driver has no events; GPU progress is not recorded");
    return false;
  }
  StreamEvents* events = &g_events[stream];
  unsigned long long id = 0;
  if (g_driver.context_id != nullptr) g_driver.context_id(context, &id);
  if (!AreOf(*events, context, id)) {
    // Events of another context are abandoned: the context may be gone, and the events with it.
    *events = StreamEvents{};
    events->context = context;
    events->context_id = id;
    if (g_driver.event_create(&events->anchor, 0) != 0) return false;
    for (uint32_t i = 0; i < kPairsAtOnce; ++i) {
      if (!MakePair(&events->pairs[i])) break;
      PushFree(events, events->made++);
    }
    if (events->made == 0) return false;
  }
  events->open = false;
  events->bounded = false;
  StartPolling();
  StoreRelease(&events->state, static_cast<uint32_t>(kLive));
  return true;
}

bool HasEvents(uint32_t stream) noexcept {
  const StreamEvents& events = g_events[stream];
  return LoadAcquire(&events.freed) != events.taken && LoadAcquire(&events.state) == kLive;
}

bool RecordStart(uint32_t stream, void* handle, uint64_t ticket, uint64_t now, bool timed,
                 DriverResult* result) noexcept {
  StreamEvents* events = &g_events[stream];
  *result = 0;
  if (LoadAcquire(&events->state) != kLive) return false;
  const uint32_t pair = TakePair(events);
  if (pair == kNoPair) return false;
  Flight* flight = &events->flights[events->begun % kPairs];
  *result = g_driver.event_record(StartOf(events->pairs[pair], timed), handle);
  // A pair that could not be used returns to the pool through the consumer.
  *flight = {ticket, now, pair, *result == 0 ? kStartRecorded : kDropped, timed, false};
  StoreRelease(&events->begun, events->begun + 1);  // pairs with PollStream
  events->open = *result == 0;
  return *result == 0;
}

bool RecordEnd(uint32_t stream, void* handle, uint64_t ticket, DriverResult* result) noexcept {
  StreamEvents* events = &g_events[stream];
  *result = 0;
  if (LoadAcquire(&events->state) != kLive) return false;
  if (events->open) {
    events->open = false;
    Flight* flight = &events->flights[(events->begun - 1) % kPairs];
    *result = g_driver.event_record(EndOf(events->pairs[flight->pair], flight->timed), handle);
    flight->whole = flight->ticket == ticket;
    flight->ticket = ticket;
    StoreRelease(&flight->stage, *result == 0 ? kEndRecorded : kDropped);  // pairs with PollStream
    return *result == 0;
  }
  const uint32_t pair = TakePair(events);
  if (pair == kNoPair) return false;
  *result = g_driver.event_record(EndOf(events->pairs[pair], false), handle);
  events->flights[events->begun % kPairs] = {ticket, 0, pair, *result == 0 ? kEndRecorded : kDropped, false, false};
  StoreRelease(&events->begun, events->begun + 1);
  return *result == 0;
}

void DropStart(uint32_t stream) noexcept {
  StreamEvents* events = &g_events[stream];
  if (!events->open) return;
  events->open = false;
  StoreRelease(&events->flights[(events->begun - 1) % kPairs].stage, kDropped);
}

void ForgetStreamEvents(uint32_t stream) noexcept { g_events[stream] = StreamEvents{}; }

void ForgetAllEvents() noexcept {
  g_times_written = 0;
  for (StreamEvents& events : g_events) {
    if (events.made != 0) events = StreamEvents{};
  }
}

namespace {

// Sets the GPU time at which the flight ended, counted from the stream's first anchor, and its duration. Returns false
// if the driver reports no time. At most once a second, the end event becomes the new anchor.
bool Measure(StreamEvents* events, Pair* pair, double* end_ns, double* duration_ns, double* error_ns) noexcept {
  float milliseconds = 0;
  if (g_driver.event_elapsed(&milliseconds, pair->start, pair->end) != 0 || !(milliseconds >= 0)) return false;
  *duration_ns = static_cast<double>(milliseconds) * 1e6;
  double since = 0;
  if (events->anchored) {
    if (g_driver.event_elapsed(&milliseconds, events->anchor, pair->end) != 0) return false;
    since = static_cast<double>(milliseconds) * 1e6;
  }
  *error_ns = since * kFloatError;
  *end_ns = events->anchor_ns + since;
  if (!events->anchored || since > kAnchorEvery) {
    void* const anchor = events->anchor;
    events->anchor = pair->end;
    pair->end = anchor;
    events->anchor_ns = *end_ns;
    events->anchored = true;
  }
  return true;
}

// A start cannot precede its recording, and an end cannot follow its observation, so every operation bounds the
// offset between the clocks of CPU and GPU.
void Bound(StreamEvents* events, double low, double high, double error_ns, int64_t now_ns) noexcept {
  const double leak = static_cast<double>(now_ns - events->bounded_ns) * kDrift + error_ns;
  const double low_before = events->low - leak, high_before = events->high + leak;
  // If the bounds contradict each other, a clock was set, and the earlier bounds are void.
  if (events->bounded && low_before <= high && low <= high_before) {
    if (low_before > low) low = low_before;
    if (high_before < high) high = high_before;
  }
  events->low = low;
  events->high = high;
  events->bounded = true;
  events->bounded_ns = now_ns;
}

struct TickScale {
  uint64_t ticks;
  int64_t ns;
  double ns_per_tick;
};

// Returns the rate of the counter relative to CLOCK_MONOTONIC, measured since the file was created.
TickScale ReadScale() noexcept {
  const ring::ClockTriple& first = g.map.header->triples[0];
  TickScale scale = {Now(), static_cast<int64_t>(MonotonicNs()), 1.0};
  const uint64_t hz = g.map.header->tick_hz;
  if (hz != 0) scale.ns_per_tick = 1e9 / static_cast<double>(hz);
  if (scale.ticks > first.ticks && scale.ns - first.mono_ns > 10000000)
    scale.ns_per_tick = static_cast<double>(scale.ns - first.mono_ns) / static_cast<double>(scale.ticks - first.ticks);
  return scale;
}

uint64_t TicksAt(const TickScale& scale, double ns) noexcept {
  const double back = (static_cast<double>(scale.ns) - ns) / scale.ns_per_tick;
  return back >= static_cast<double>(scale.ticks) ? 1 : scale.ticks - static_cast<uint64_t>(back > 0 ? back : 0);
}

void WriteTime(uint32_t stream, uint64_t ticket, uint64_t started, uint64_t completed, double uncertainty_ns) noexcept {
  const uint64_t n = g_times_written++;
  ring::TimeSlot* slot = &g.map.times[n & (g.map.capacities.times - 1)];
  StoreRelease(&slot->guard, uint64_t{0});
  FenceRelease();
  Store(&slot->ticket, ticket);
  Store(&slot->started, started);
  Store(&slot->completed, completed);
  Store(&slot->stream, stream);
  Store(&slot->uncertainty_ns, uncertainty_ns < 4e9 ? static_cast<uint32_t>(uncertainty_ns) : UINT32_MAX);
  StoreRelease(&slot->guard, n + 1);
}

void TimeFlight(uint32_t stream, const Flight& flight) noexcept {
  StreamEvents* events = &g_events[stream];
  double end = 0, duration = 0, error = 0;
  if (!Measure(events, &events->pairs[flight.pair], &end, &duration, &error)) return;
  const TickScale now = ReadScale();
  const double enter = static_cast<double>(now.ns) - static_cast<double>(now.ticks - flight.enter) * now.ns_per_tick;
  Bound(events, enter - (end - duration), static_cast<double>(now.ns) - end, error, now.ns);
  const double completed = end + events->high;
  WriteTime(stream, flight.ticket, TicksAt(now, completed - duration), TicksAt(now, completed),
            events->high - events->low);
}

// Stops polling the stream after a driver error. An error is not a completion: an operation in flight may or may not
// have ended before it.
void EndStream(uint32_t stream, DriverResult error) noexcept {
  StoreRelease(&g.map.streams[stream].given, Load(&g.map.marks[stream].completed) + 1);
  if (IsGpuError(error)) {
    NoteGpuError(&g_tables.streams[stream], error);
  } else {
    AddNote("GPU events of a stream stopped: the driver refused a query");
  }
  StoreRelease(&g_events[stream].state, static_cast<uint32_t>(kEnded));
}

}  // namespace

Look PollStream(uint32_t stream) noexcept {
  StreamEvents* events = &g_events[stream];
  if (LoadAcquire(&events->state) != kLive) return Look::kIdle;
  const uint32_t begun = LoadAcquire(&events->begun);
  if (events->done == begun) return Look::kIdle;
  const InContext context(events->context);
  if (context.result() != 0) return Look::kIdle;
  ring::MarkLine* mark = &g.map.marks[stream];
  while (events->done != begun) {
    Flight* flight = &events->flights[events->done % kPairs];
    const uint32_t stage = LoadAcquire(&flight->stage);
    const Pair& pair = events->pairs[flight->pair];
    if (stage != kDropped) {
      if (flight->enter != 0 && Load(&mark->started) < flight->ticket) {
        const DriverResult started = g_driver.event_query(StartOf(pair, flight->timed));
        if (started != 0) {
          if (started != kDriverNotReady) EndStream(stream, started);
          break;
        }
        Store(&mark->started, flight->ticket);
      }
      if (stage == kStartRecorded) break;
      const DriverResult completed = g_driver.event_query(EndOf(pair, flight->timed));
      if (completed != 0) {
        if (completed != kDriverNotReady) EndStream(stream, completed);
        break;
      }
      if (flight->timed && flight->whole) TimeFlight(stream, *flight);
      // Stored after the times: a reader that sees the operation completed may expect them.
      StoreRelease(&mark->completed, flight->ticket);
    }
    PushFree(events, flight->pair);
    StoreRelease(&events->done, events->done + 1);
  }
  Refill(events);
  if (events->done == LoadAcquire(&events->begun)) return Look::kIdle;
  return events->bounded && events->high - events->low < kCloseEnough ? Look::kBusy : Look::kKeen;
}

}  // namespace lockstep::recorder
