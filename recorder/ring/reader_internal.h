// Shared only by the reader's files.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "recorder/ring/layout.h"
#include "recorder/ring/reader.h"

namespace lockstep::ring::internal {

// The file, read with bounds and never mapped.
class File {
 public:
  File(int fd, uint64_t size) : fd_(fd), size_(size) {}
  uint64_t size() const { return size_; }
  // Reads exactly `bytes` at `offset`; returns false if the file does not contain them (any more).
  bool Read(uint64_t offset, void* to, uint64_t bytes) const { return ReadUpTo(offset, to, bytes) == bytes; }
  // Reads up to `bytes` at `offset` and returns the number read. The file's owner may truncate it at any time.
  uint64_t ReadUpTo(uint64_t offset, void* to, uint64_t bytes) const;

 private:
  int fd_;
  uint64_t size_;
};

// Converts ticks to CLOCK_MONOTONIC nanoseconds, at one constant rate.
class Clock {
 public:
  // Computes the rate from the header's first triple and the newest known instant: on the same boot, this process's own
  // reading of both clocks; otherwise the header's newest triple.
  void Calibrate(const Header& header, bool same_boot);
  int64_t ToNs(uint64_t ticks) const;  // returns 0 for 0 and for impossible times
  int64_t RealOffset() const { return real_offset_; }

 private:
  bool identity_ = false;
  uint64_t ticks_ = 0;
  int64_t mono_ns_ = 0;
  long double ns_per_tick_ = 1;
  int64_t real_offset_ = 0;  // CLOCK_REALTIME minus CLOCK_MONOTONIC at creation
};

struct Table {
  uint64_t offset = 0, stride = 0, count = 0;
  bool present = false;
};

// Limits for single operations of graph launches, for each thread and each graph, so that a hostile file cannot use
// unbounded memory.
constexpr uint64_t kMostReplayed = 4096;

struct GraphTemplate {
  uint32_t use = 0;  // 0 if there is no such graph
  uint64_t id = 0;
  uint64_t total = 0;  // number of operations in `ops` with repeats, at most kMostReplayed
  std::vector<GraphOp> ops;
};

struct Reading {
  const File& file;
  Header header;
  Clock clock;
  Table comms, peers, threads, rings, overflow, streams, marks;
  // Creation times of the communicators. A record with an earlier time belongs to the entry's previous communicator.
  std::vector<uint64_t> comm_created;
  std::vector<uint64_t> stream_issued;
  Snapshot* out;
  Table kernels{}, proxies{}, times{};
  Table graphs{}, graph_ops{};
  std::vector<GraphTemplate> templates{};  // indexed as the graph table
  uint64_t replayed_groups = 0;
  // Limits for hostile files; a valid ring needs far less.
  uint64_t rereads = 1 << 14;  // how often an entry may be read again because two reads differ
  uint64_t replays = 1 << 18;  // operations of graph launches that may be listed one by one

  bool MayReadAgain() { return rereads > 0 && rereads-- > 0; }
  void Problem(const std::string& text);
};

// Returns the first `count` elements of a table; fewer if the file ends. Larger elements are truncated to T, smaller
// ones are padded with zeros.
template <typename T>
std::vector<T> ReadTable(const Reading& reading, const Table& table, uint64_t count) {
  std::vector<T> result;
  if (!table.present || table.stride == 0) return result;
  if (count > table.count) count = table.count;
  std::vector<unsigned char> bytes(static_cast<size_t>(count * table.stride));
  count = reading.file.ReadUpTo(table.offset, bytes.data(), count * table.stride) / table.stride;
  result.resize(static_cast<size_t>(count));
  const size_t take = table.stride < sizeof(T) ? static_cast<size_t>(table.stride) : sizeof(T);
  for (size_t i = 0; i < result.size(); ++i) {
    std::memset(static_cast<void*>(&result[i]), 0, sizeof(T));
    std::memcpy(static_cast<void*>(&result[i]), bytes.data() + i * table.stride, take);
  }
  return result;
}

// Like ReadTable, but passes each element to `function` and stores none, because large tables are read often.
template <typename T, typename Function>
void ForEachOf(const Reading& reading, const Table& table, Function function) {
  alignas(8) unsigned char bytes[16384];
  if (!table.present || table.stride < sizeof(T) || table.stride > sizeof(bytes)) {
    for (const T& element : ReadTable<T>(reading, table, table.count)) function(element);
    return;
  }
  const uint64_t at_once = sizeof(bytes) / table.stride;
  for (uint64_t first = 0; first < table.count; first += at_once) {
    uint64_t now = table.count - first < at_once ? table.count - first : at_once;
    const uint64_t got = reading.file.ReadUpTo(table.offset + first * table.stride, bytes, now * table.stride);
    now = got / table.stride;
    for (uint64_t i = 0; i < now; ++i) {
      T element;
      std::memcpy(static_cast<void*>(&element), bytes + i * table.stride, sizeof(T));
      function(element);
    }
    if (now < at_once) return;
  }
}

// Returns at most `size` characters up to the first zero, with '?' in place of ASCII control characters.
std::string Text(const char* from, size_t size);

// Restores a counter from its `low` bits: the largest value up to `now` with these bits.
uint64_t Widen(uint64_t low, unsigned bits, uint64_t now);

void ReadComms(Reading* reading);
void ReadStreams(Reading* reading);
void ReadThreads(Reading* reading, std::vector<ThreadCell>* cells);
void ReadGraphs(Reading* reading);
// Returns the number of operations of the launch that begins in this slot; 0 if none begins there.
uint64_t ReplayedOps(const Reading& reading, const OpSlot& slot);
// Adds the launch that begins with slots[0], as its operations or, if not `one_by_one`, as one call. Returns the number
// of slots that it occupies.
size_t AddReplay(Reading* reading, std::span<const OpSlot* const> slots, uint32_t thread, uint64_t thread_ops,
                 bool one_by_one);
// Adds times to the operations that ReadOps and ReadComms found.
void ReadTimes(Reading* reading);
// Reads every record if `whole`, otherwise each thread's newest.
void ReadOps(Reading* reading, const std::vector<ThreadCell>& cells, bool whole);
void ReadProfiler(Reading* reading);

OpStage CleanStage(uint8_t stage);
// Returns `slot`, or UINT32_MAX if the entry is unused or was created after `enter_ticks`.
uint32_t CommOf(const Reading& reading, uint16_t slot, uint64_t enter_ticks);

}  // namespace lockstep::ring::internal
