// Creates the ring file: its place, its size, and the process data in its header.
#ifndef LOCKSTEP_RECORDER_BASE_RING_FILE_H_
#define LOCKSTEP_RECORDER_BASE_RING_FILE_H_

#include <stdint.h>

#include "recorder/ring/layout.h"

namespace lockstep::recorder {

// A mapped ring file. The mapping is never undone while the process records; in a forked child private memory takes its
// place.
struct RingMap {
  uint8_t* base = nullptr;
  uint64_t bytes = 0;
  ring::Capacities capacities{};
  ring::Header* header = nullptr;
  ring::CommEntry* comms = nullptr;
  ring::PeerEntry* peers = nullptr;
  ring::ThreadCell* threads = nullptr;
  ring::OpSlot* rings = nullptr;
  ring::OpSlot* overflow = nullptr;
  ring::StreamCell* streams = nullptr;
  ring::MarkLine* marks = nullptr;
  uint64_t marks_bytes = 0;
  ring::GraphCell* graphs = nullptr;
  ring::GraphOp* graph_ops = nullptr;
  ring::ProfilerState* profiler = nullptr;
  ring::KernelEntry* kernels = nullptr;  // kernels[0] is `profiler`, not a kernel
  ring::ProxyEntry* proxies = nullptr;
  ring::TimeSlot* times = nullptr;
  ring::HelperArea* helper = nullptr;  // null: not requested, or no room
  char path[800] = {};
};

// Creates, reserves and maps the file by the environment (docs/recorder.md) and fills its header; the file is complete
// and readable on return. False with a reason (one line, no newline) if there is no ring to record into. Not
// thread-safe.
bool CreateRing(RingMap* map, char* reason, unsigned reason_bytes) noexcept;

// Lays a ring out over `bytes` of zeroed memory: what CreateRing does after mapping. For tests and benchmarks as well.
void LayOut(RingMap* map, uint8_t* base, uint64_t bytes) noexcept;
// Adds the helper's section after the others. False: the file has no room for it.
bool AddHelper(RingMap* map) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_RING_FILE_H_
