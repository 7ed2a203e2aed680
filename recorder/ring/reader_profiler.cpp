// Reads what NCCL's profiler interface reported: kernels by channel, network operations by step.
#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "recorder/ring/reader_internal.h"

namespace lockstep::ring::internal {
namespace {

constexpr uint64_t kFarNs = uint64_t{1} << 62;
// The GPU's clock drifts against the CPU's, so only measurements near an operation show the offset at that time.
constexpr int64_t kNearNs = 30'000'000'000;
// The uncertainty in nanoseconds if no CPU call is known near the operation.
constexpr int64_t kUnbounded = 1'000'000;

// Returns the entries that belong to the same use in both reads, with the values of the later read.
template <typename T>
std::vector<T> SettledTable(const Reading& reading, const Table& table) {
  std::vector<T> first = ReadTable<T>(reading, table, table.count);
  std::vector<T> second = ReadTable<T>(reading, table, table.count);
  std::vector<T> result;
  for (size_t i = 0; i < first.size() && i < second.size(); ++i) {
    const uint32_t guard = second[i].guard;
    if (guard != 0 && (guard & 1) == 0 && first[i].guard == guard) result.push_back(second[i]);
  }
  return result;
}

// CPU time minus GPU time, as bounded by one operation: at least `low` and at most `high`.
struct Bound {
  int64_t gpu_ns;
  int64_t low, high;
};

struct Timed {
  size_t kernel;      // position in Snapshot::kernels
  int64_t called_ns;  // when the CPU call was made; 0 if unknown
  int64_t gpu_started, gpu_completed;
  int64_t told_started, told_completed;
};

// Converts GPU times to the CPU clock. An operation cannot start before the CPU call, although NCCL may report it
// after the launch, when it is already running. No event is reported before it happened. The shortest reporting delay
// near an operation bounds how late a time can be.
void LayClocksTogether(const std::vector<Timed>& timed, std::vector<KernelSnapshot>* kernels) {
  std::vector<Bound> bounds;
  for (const Timed& t : timed) {
    Bound bound{t.gpu_started, t.called_ns == 0 ? INT64_MIN : t.called_ns - t.gpu_started,
                t.told_started - t.gpu_started};
    if (t.gpu_completed != 0) bound.high = std::min(bound.high, t.told_completed - t.gpu_completed);
    bounds.push_back(bound);
  }
  std::sort(bounds.begin(), bounds.end(), [](const Bound& a, const Bound& b) { return a.gpu_ns < b.gpu_ns; });
  for (const Timed& t : timed) {
    auto from = std::lower_bound(bounds.begin(), bounds.end(), t.gpu_started - kNearNs,
                                 [](const Bound& bound, int64_t at) { return bound.gpu_ns < at; });
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (; from != bounds.end() && from->gpu_ns <= t.gpu_started + kNearNs; ++from) {
      low = std::max(low, from->low);
      high = std::min(high, from->high);
    }
    KernelSnapshot& kernel = (*kernels)[t.kernel];
    kernel.gpu_times = true;
    kernel.started_ns = t.gpu_started + high;
    if (t.gpu_completed != 0) kernel.completed_ns = std::max(t.gpu_completed + high, kernel.started_ns);
    kernel.uncertainty_ns = low == INT64_MIN || low > high ? kUnbounded : high - low;
  }
}

using CallKey = std::tuple<uint32_t, uint16_t, uint64_t, int32_t>;

// Returns when the CPU calls were entered. An operation that only the profiler reported may have been launched before
// its record was made, unless NCCL reported the call itself.
std::map<CallKey, int64_t> CallTimes(const Snapshot& snapshot) {
  constexpr uint32_t kTellsCalls = 5;
  std::map<uint32_t, bool> own;
  for (const CommSnapshot& comm : snapshot.comms) own[comm.index] = comm.from_profiler;
  std::map<CallKey, int64_t> times;
  for (const OpSnapshot& op : snapshot.ops) {
    if (op.comm == UINT32_MAX || op.seq == 0) continue;
    if (own[op.comm] && (snapshot.profiler.interface_version < kTellsCalls || IsPointToPoint(op.kind))) continue;
    times.try_emplace({op.comm, static_cast<uint16_t>(op.kind), op.seq, IsPointToPoint(op.kind) ? op.root_or_peer : -1},
                      op.enter_ns);
  }
  return times;
}

bool Plausible(uint64_t ns) { return ns != 0 && ns < kFarNs; }

void ReadKernels(Reading* reading) {
  Snapshot* out = reading->out;
  std::map<uint32_t, int32_t> device;
  for (const CommSnapshot& comm : out->comms) device[comm.index] = comm.device;
  const std::map<CallKey, int64_t> calls = CallTimes(*out);
  const Clock& clock = reading->clock;
  std::vector<KernelEntry> entries = SettledTable<KernelEntry>(*reading, reading->kernels);
  std::sort(entries.begin(), entries.end(),
            [](const KernelEntry& a, const KernelEntry& b) { return a.enqueued_ticks < b.enqueued_ticks; });
  std::map<int32_t, std::vector<Timed>> by_device;
  for (const KernelEntry& entry : entries) {
    KernelSnapshot kernel;
    kernel.comm = CommOf(*reading, entry.comm, entry.enqueued_ticks);
    if (kernel.comm == UINT32_MAX || entry.enqueued_ticks == 0) continue;
    kernel.kind = static_cast<CallKind>(entry.kind);
    kernel.peer = entry.peer;
    kernel.seq = entry.seq;
    kernel.count = entry.count;
    kernel.order = entry.order;
    kernel.channels = entry.channels;
    kernel.started_channels = entry.started_channels;
    kernel.completed_channels = entry.completed_channels & entry.started_channels;
    kernel.launched = (entry.flags & kKernelLaunched) != 0;
    kernel.captured = (entry.flags & kKernelCaptured) != 0;
    kernel.ended = (entry.flags & kKernelEnded) != 0;
    kernel.copy_engine = (entry.flags & kKernelCopyEngine) != 0;
    kernel.enqueued_ns = clock.ToNs(entry.enqueued_ticks);
    const int64_t told_started = clock.ToNs(entry.first_started_ticks);
    const int64_t told_completed = clock.ToNs(entry.last_completed_ticks);
    const bool whole =
        kernel.ended && kernel.started_channels != 0 && kernel.completed_channels == kernel.started_channels;
    if (kernel.started_channels != 0) kernel.started_ns = told_started;
    if (whole) kernel.completed_ns = told_completed;
    const size_t at = out->kernels.size();
    if (kernel.started_channels != 0 && told_started != 0 && Plausible(entry.first_started_gpu_ns)) {
      const auto call = calls.find({kernel.comm, entry.kind, entry.seq, IsPointToPoint(kernel.kind) ? entry.peer : -1});
      const int64_t called_ns = call == calls.end() || kernel.captured ? 0 : call->second;
      Timed timed{at, called_ns, static_cast<int64_t>(entry.first_started_gpu_ns), 0, told_started, 0};
      if (whole && told_completed != 0 && Plausible(entry.last_completed_gpu_ns)) {
        timed.gpu_completed = static_cast<int64_t>(entry.last_completed_gpu_ns);
        timed.told_completed = told_completed;
      }
      by_device[device[kernel.comm]].push_back(timed);
    }
    out->kernels.push_back(kernel);
  }
  for (const auto& [number, timed] : by_device) LayClocksTogether(timed, &out->kernels);
}

void ReadProxies(Reading* reading) {
  std::vector<ProxyEntry> entries = SettledTable<ProxyEntry>(*reading, reading->proxies);
  std::sort(entries.begin(), entries.end(),
            [](const ProxyEntry& a, const ProxyEntry& b) { return a.started_ticks < b.started_ticks; });
  for (const ProxyEntry& entry : entries) {
    if (entry.started_ticks == 0) continue;
    ProxySnapshot proxy;
    proxy.remote = (entry.flags & kProxyRemote) != 0;
    proxy.comm = proxy.remote ? UINT32_MAX : CommOf(*reading, entry.comm, entry.started_ticks);
    if (!proxy.remote && proxy.comm == UINT32_MAX) continue;
    proxy.kind = static_cast<CallKind>(entry.kind);
    proxy.seq = entry.seq;
    proxy.peer = entry.peer;
    proxy.rank = entry.rank;
    proxy.channel = entry.channel;
    proxy.send = (entry.flags & kProxySend) != 0;
    proxy.ended = (entry.flags & kProxyEnded) != 0;
    proxy.steps = entry.steps;
    proxy.begun = entry.begun;
    proxy.done = entry.done;
    proxy.step = entry.step;
    proxy.state = entry.state <= kLastProxyState ? static_cast<ProxyState>(entry.state) : ProxyState::kNone;
    proxy.started_ns = reading->clock.ToNs(entry.started_ticks);
    proxy.changed_ns = reading->clock.ToNs(entry.changed_ticks);
    reading->out->proxies.push_back(proxy);
  }
}

}  // namespace

void ReadProfiler(Reading* reading) {
  if (!reading->kernels.present || reading->kernels.count == 0) return;
  ProfilerState state{};
  if (!reading->file.Read(reading->kernels.offset, &state, sizeof(state)) || state.interface_version == 0) return;
  ProfilerSnapshot& profiler = reading->out->profiler;
  profiler.interface_version = state.interface_version;
  profiler.events = state.events;
  profiler.kernels_dropped = state.kernels_dropped;
  profiler.proxies_dropped = state.proxies_dropped;
  profiler.unmatched = state.unmatched;
  profiler.stale = state.stale;
  profiler.remote = state.remote;
  reading->kernels.offset += reading->kernels.stride;
  --reading->kernels.count;
  ReadKernels(reading);
  if (reading->proxies.present) ReadProxies(reading);
}

}  // namespace lockstep::ring::internal
