// Reads when operations ran, as CUDA events measured it.
#include <cstring>
#include <unordered_map>

#include "recorder/ring/reader_internal.h"

namespace lockstep::ring::internal {
namespace {

struct Times {
  int64_t started_ns, completed_ns, uncertainty_ns;
};

constexpr uint64_t kTicketBits = 48;

void Apply(const std::unordered_map<uint64_t, Times>& times, std::vector<OpSnapshot>* ops) {
  for (OpSnapshot& op : *ops) {
    // The launch of a graph has one ticket, so its time is not the time of one of its operations.
    if (op.ticket == 0 || op.stream == UINT32_MAX || op.replay != 0) continue;
    const auto found = times.find(uint64_t{op.stream} << kTicketBits | op.ticket);
    if (found == times.end()) continue;
    op.started_ns = found->second.started_ns;
    op.completed_ns = found->second.completed_ns;
    op.time_uncertainty_ns = found->second.uncertainty_ns;
  }
}

}  // namespace

void ReadTimes(Reading* reading) {
  const Table& table = reading->times;
  if (!table.present || reading->out->process.gpu_marks != GpuMarks::kEvents) return;
  const std::vector<TimeSlot> first = ReadTable<TimeSlot>(*reading, table, table.count);
  const std::vector<TimeSlot> second = ReadTable<TimeSlot>(*reading, table, table.count);
  std::unordered_map<uint64_t, Times> times;
  for (size_t i = 0; i < first.size() && i < second.size(); ++i) {
    const TimeSlot& slot = second[i];
    if (slot.guard == 0 || std::memcmp(&first[i], &slot, sizeof(slot)) != 0) continue;
    if (slot.stream >= reading->stream_issued.size() || slot.ticket == 0 || slot.ticket >> kTicketBits != 0) continue;
    const Times entry = {reading->clock.ToNs(slot.started), reading->clock.ToNs(slot.completed), slot.uncertainty_ns};
    if (entry.started_ns <= 0 || entry.completed_ns < entry.started_ns) continue;
    times[uint64_t{slot.stream} << kTicketBits | slot.ticket] = entry;
  }
  Apply(times, &reading->out->ops);
  Apply(times, &reading->out->recent);
}

}  // namespace lockstep::ring::internal
