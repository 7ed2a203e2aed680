// What an observer can read of each rank at the time of the capture: rings of limited depth, counters, threads, streams
// and the process. The writers of both file formats (lsd_file.h, fr_file.h) use this. Times are on the simulator's
// clock until they are written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/corpus/simulator.h"

namespace lockstep::corpus {

// kTimed: like kFull, plus measured start and completion times of each operation, as from GPU events or the profiler.
enum class Marks : uint8_t { kOff, kDone, kFull, kTimed };

// A process as an outside observer sees it.
struct ProcessFacts {
  std::string state = "S";  // state letter in /proc
  std::vector<std::string> python_stack, stack, stack_later, written_files, written_mounts;
  uint32_t threads_in_d = 0;
  int64_t cpu_ns = -1, io_bytes = -1;  // difference between two samples
  std::string wchan;
  bool consequence = false;  // the process was killed because the job was being ended
};

enum class Stage : uint8_t {  // numbered as in docs/dump-file.md
  kUnknown,
  kEntered,
  kQueued,
  kEnqueued,
  kStarted,
  kIncomplete,
  kCompleted,
  kFailed,
  kCaptured
};

struct OpView {
  const Instr* instr = nullptr;
  Slot slot = kWorld;
  int32_t comm = -1;  // index into RankView::comms
  CallKind kind = CallKind::kNone;
  int32_t root_or_peer = -1;
  uint64_t count = 0;
  uint32_t seq = 0;     // 0 if there is none
  uint32_t called = 0;  // see Record::called
  uint8_t thread = 0;
  bool recent_only = false, all_to_all = false;  // all_to_all: belongs to an all-to-all with per-peer sizes
  uint64_t index = 0, group = 0, graph = 0;
  uint32_t replay = 0, place = 0;  // see Record
  int32_t stream = -1;
  uint32_t ticket = 0;                                               // ticket on the operation's stream
  uint32_t launch = 0;                                               // number among the communicator's launches
  int64_t enter = 0, ret = kNever, start = kNever, finish = kNever;  // kNever if later than the capture
  Stage stage = Stage::kUnknown;
};

struct CommView {
  int32_t comm = -1;  // index into Job::comms
  Slot slot = kWorld;
  int32_t member_rank = -1;
  uint32_t state = 0;                                       // recorder/ring/snapshot.h, CommState
  int64_t issued = 0, launched = 0, started = 0, done = 0;  // counts of collectives
  int64_t called = 0;                                       // see Record::called
  uint64_t hash = 0;
  std::vector<std::pair<uint32_t, uint64_t>> checkpoints;  // oldest first
  int64_t issued_at = 0, created = 0, ready = 0, ended = 0;
  CallKind made_by = CallKind::kNone;
  uint64_t operations = 0, retained = 0;  // operations of all kinds; how many of them RankView::ops still has
  uint32_t oldest_retained = 0;           // number of a collective; 0 if there is none
  uint32_t p2p = 0, all_to_alls = 0;
  uint32_t launches = 0, launches_started = 0, launches_done = 0;
  std::vector<PeerProgress> peers;
  int32_t async_error = 0;
  int64_t async_error_at = 0;
};

struct ThreadView {
  std::string name;
  CallKind call = CallKind::kNone, wait = CallKind::kNone;
  int32_t call_comm = -1;
  int64_t since = 0, wait_since = 0, last_call = 0, group_since = 0;
  uint32_t group_depth = 0;
  uint64_t calls = 0, overwritten = 0;
};

struct StreamView {
  uint8_t stream = 0;  // the simulator's stream
  uint32_t issued = 0, started = 0, completed = 0;
  int32_t first_error = 0;
  // The last wait of the stream: everything after its own ticket `after` waits for `ticket` of another stream.
  struct Wait {
    uint32_t stream = 0, ticket = 0, after = 0;  // stream: index into RankView::streams
  };
  std::vector<Wait> depends;
};

// The rank's CUDA graph and its launches. `started` and `completed` come from markers on the stream.
struct GraphView {
  uint32_t operations = 0;  // 0: no graph
  uint32_t launches = 0, started = 0, completed = 0;
  int64_t captured_at = 0, last_launch = 0;
  int32_t stream = -1;  // index into RankView::streams
};

struct RankView {
  int32_t rank = 0;
  int64_t captured = 0;
  std::vector<OpView> ops;  // in program order; operations outside the ring first
  std::vector<CommView> comms;
  std::vector<ThreadView> threads;
  std::vector<StreamView> streams;
  GraphView graph;
  HostStatus status = HostStatus::kRunning;
  int64_t ended = 0;  // when the process exited; 0: it has not
};

struct CaptureOptions {
  int64_t at = 0;         // time on the shared clock
  int64_t jitter = 0;     // each rank is read up to this many ns later
  uint32_t depth = 1024;  // number of records a rank keeps
  Marks marks = Marks::kFull;
  bool expand = true;  // writes an all-to-all with per-peer sizes as separate sends and receives
};

RankView Capture(const Simulator& run, const CaptureOptions& options, int32_t rank);

}  // namespace lockstep::corpus
