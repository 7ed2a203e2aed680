// Creates the ring file: chooses its place and size, and writes the process data into its header.
#pragma once

#include <stdint.h>

#include "recorder/ring/layout.h"

namespace lockstep::recorder {

// A mapped ring file. The mapping stays as long as the process records. In a forked child, private memory replaces
// it.
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
  ring::KernelEntry* kernels = nullptr;  // kernels[0] is `profiler` and not a kernel
  ring::ProxyEntry* proxies = nullptr;
  ring::TimeSlot* times = nullptr;
  ring::HelperArea* helper = nullptr;  // null if not requested, or if there is no space
  char path[800] = {};
};

// Creates, reserves and maps the file according to the environment (docs/recorder.md), and fills its header. On
// return the file is complete and readable. Returns false with a reason (one line, no newline) if there is no ring to
// record into. Not thread-safe.
bool CreateRing(RingMap* map, char* reason, unsigned reason_bytes) noexcept;

// Lays out a ring in `bytes` of zeroed memory, as CreateRing does after mapping. Also for tests and benchmarks.
void LayOut(RingMap* map, uint8_t* base, uint64_t bytes) noexcept;
// Adds the helper's section after the others. Returns false if the file has no space for it.
bool AddHelper(RingMap* map) noexcept;

}  // namespace lockstep::recorder
