// The decoded contents of one ring file: plain checked values, without pointers into the file. The reader
// (recorder/ring/reader.h) fills it; collector and analyzer use it. Times are nanoseconds of the machine's
// CLOCK_MONOTONIC unless stated otherwise; 0 means "never". Sequence numbers count from 1; 0 means "none yet".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/ring/calls.h"
#include "recorder/ring/profiler.h"
#include "recorder/ring/settings.h"

namespace lockstep::ring {

enum class RecorderState : uint32_t {
  kUnknown = 0,
  kRecording = 1,
  kCleanExit = 2,
  kStopped = 3,   // before the process ended, by a switch or the budget. Later calls were not recorded
  kReplaced = 4,  // the process started another program with exec, which has its own ring
};

// kMemory: the file is in no folder. It disappears with the process, unless another process has it open.
enum class RingPlace : uint32_t { kFolder = 0, kMemory = 1 };

enum class CommState : uint32_t {
  kUnknown = 0,
  kInitializing = 1,  // written before the init call is forwarded
  kReady = 2,
  kFinalizing = 3,
  kDestroyed = 4,
  kAborted = 5,
  kRevoked = 6,
  kInitFailed = 7,
  kNotMember = 8,  // the rank passed no color to a split
};

struct ProcessInfo {
  std::string boot_id, host, job, step;
  int32_t pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  uint64_t pid_namespace_inode = 0;
  uint32_t restart_count = 0;
  int32_t rank = -1, world_size = -1, local_rank = -1;  // from the launcher's environment; -1 if unknown
  int32_t gpu_index = -1;                               // CUDA device of the first communicator; -1 if unknown
  std::string gpu_uuid, gpu_pci;                        // empty if unknown
  int32_t nccl_version = 0;                             // as ncclGetVersion returns it, for example 22809; 0 if unknown
  int32_t newest_nccl = 0;                              // the newest NCCL that the recorder fully wraps; 0 if unknown
  uint32_t unwrapped = 0;                               // functions of the loaded NCCL that the recorder does not wrap
  std::string unwrapped_names;                          // names of some of these functions, separated by spaces
  int32_t cuda_version = 0;                             // driver version, for example 13000
  RecorderState state = RecorderState::kUnknown;
  std::string stop_reason;    // why recording stopped; empty while recording
  int64_t stopped_ns = 0;     // when recording stopped; 0 if it has not, or if unknown
  std::string note;           // settings that could not be applied, and what was switched off, with the time
  uint32_t own_call_ns = 0;   // the recorder's own time for a call, at its last measurement; 0 if not measured
  uint32_t own_permille = 0;  // the recorder's share of the calling thread's time
  GpuMarks gpu_marks = GpuMarks::kOff;
  bool host_waits = false;       // CUDA waits of CPU threads are being recorded
  std::string recorder_version;  // empty if unknown
  uint64_t ring_bytes = 0;       // size of the file
  uint64_t wanted_bytes = 0;     // requested size, which is larger than ring_bytes if there was no room; 0 if unknown
  RingPlace place = RingPlace::kFolder;
  int64_t created_mono_ns = 0;
  int64_t created_real_ns = 0;  // CLOCK_REALTIME at the same instant
};

struct HashCheckpoint {
  uint64_t seq = 0;   // collectives issued when the hash was taken
  uint64_t hash = 0;  // rolling hash of their signatures, equal on every rank of a healthy communicator
};

struct PeerProgress {
  int32_t peer = -1;              // member rank in the communicator
  uint64_t sends = 0, recvs = 0;  // number issued so far in each direction
  int64_t last_send_ns = 0, last_recv_ns = 0;
  uint64_t signals = 0, waited = 0;  // one-sided: signals sent to the peer, and signals of the peer waited for
};

struct CommSnapshot {
  uint32_t index = 0;       // slot of the communicator table; operations refer to it
  uint64_t id = 0;          // job-wide identity; see docs/ring-file.md
  uint32_t generation = 0;  // generation of the handle, counted when a pointer value is reused
  CommState state = CommState::kUnknown;
  CallKind origin = CallKind::kNone;  // the call that created the communicator
  std::string name;                   // ncclConfig commName; empty if there is none
  int32_t member_rank = -1, size = -1;
  uint64_t parent_id = 0;         // 0 if there is none
  uint32_t ordinal = 0;           // number among the children of its parent (or among the root communicators), from 1
  int32_t color = 0, key = 0;     // values passed to a split
  std::vector<int32_t> excluded;  // ranks that a shrink excluded; may be cut, see excluded_total
  uint32_t excluded_total = 0;
  int32_t device = -1;
  bool blocking = true;
  bool from_profiler = false;  // only the profiler interface reported the communicator and its operations
  bool profiled = false;       // the profiler interface reported the communicator
  int64_t created_ns = 0, ready_ns = 0, ended_ns = 0;
  // Progress counters, which later operations never overwrite.
  uint64_t issued_seq = 0;  // collectives issued
  int64_t issued_ns = 0;
  // Number of these collectives that are certainly on a stream (the outermost group end returned).
  uint64_t launched_seq = 0;
  uint64_t signature_hash = 0;              // rolling hash at issued_seq
  std::vector<HashCheckpoint> checkpoints;  // oldest first
  std::vector<PeerProgress> peers;
  uint64_t peers_lost = 0;  // number of peers beyond the table, whose counts are unknown
  // Operations on this communicator that were overwritten in the event rings or never written there.
  uint64_t lost_records = 0;
  int32_t async_error = 0;  // last value of ncclCommGetAsyncError other than Success and InProgress
  int64_t async_error_ns = 0;
};

enum class OpStage : uint8_t {
  kUnknown = 0,
  kEntered = 1,    // the call has not returned
  kQueued = 2,     // inside an open group: accepted, but nothing is launched
  kLaunched = 3,   // on a stream (or NCCL's own thread is putting it there)
  kFailed = 4,     // the call or its group returned an error, so it is not on the stream
  kSimulated = 5,  // ended by ncclGroupSimulateEnd: never launched
  kCaptured = 6,   // captured into a CUDA graph; runs when the graph does
};

struct OpSnapshot {
  uint32_t comm = UINT32_MAX;  // CommSnapshot::index; UINT32_MAX for calls without a communicator
  CallKind kind = CallKind::kNone;
  OpStage stage = OpStage::kUnknown;
  uint8_t datatype = kNoDatatype;
  uint8_t reduction = kNoReduction;
  int32_t root_or_peer = -1;     // member rank; -1 if not applicable
  uint64_t count = 0;            // number of elements, as passed
  uint64_t seq = 0;              // for a collective: in the communicator; for a send or receive: in (peer, direction)
  uint32_t thread = 0;           // ThreadSnapshot::index; UINT32_MAX if from the communicator's recent operations
  uint64_t index = 0;            // program order in the thread, over all communicators
  uint64_t group = 0;            // 0 without an explicit group; else a number counted for each thread
  uint32_t stream = UINT32_MAX;  // StreamSnapshot::index
  uint64_t ticket = 0;           // ticket of that stream; 0 without GPU progress markers
  uint64_t graph = 0;            // CUDA graph id, if captured or replayed
  // Number of the launch of that graph that issued the operation, from 1. 0 if captured, or for an ordinary call.
  uint64_t replay = 0;
  uint32_t place = 0;                   // position of a replayed operation in the graph, from 1
  int64_t enter_ns = 0, return_ns = 0;  // return_ns is 0 if the call has not returned
  int32_t result = 0;                   // ncclResult_t of the call; valid if return_ns != 0
  // Offset of the caller in its object; together with caller_object it identifies the call site.
  uint64_t caller = 0;
  uint32_t caller_object = 0;  // hash of the object's build id (or path); 0 if unknown
  uint64_t send_address = 0, recv_address = 0;
  // When the GPU started and completed the operation, if that was measured. Both are late by the same amount, at most
  // the uncertainty; their difference is exact if events measured them.
  int64_t started_ns = 0, completed_ns = 0;
  int64_t time_uncertainty_ns = 0;
};

struct ThreadSnapshot {
  uint32_t index = 0;
  int32_t tid = 0;
  std::string name;
  CallKind call = CallKind::kNone;  // NCCL call the thread is inside now
  uint32_t comm = UINT32_MAX;
  uint64_t seq = 0;
  int64_t since_ns = 0;
  uint32_t group_depth = 0;
  int64_t group_since_ns = 0;
  CallKind wait = CallKind::kNone;    // CUDA wait that the CPU thread is inside now
  uint32_t wait_stream = UINT32_MAX;  // UINT32_MAX if unknown, or if the wait is for a whole device
  uint64_t wait_ticket = 0;           // last ticket issued on that stream when the wait began
  int64_t wait_since_ns = 0;
  bool waits_elsewhere = false;  // the thread is in a CUDA wait that is for another rank's device (set by the loader)
  int64_t last_call_ns = 0;      // when the thread last left a recorded call or wait
  uint64_t calls = 0;            // number recorded so far, which is the index of the next operation
  uint64_t overwritten = 0;      // records of this thread that were overwritten
  bool gone = false;             // the thread ended without leaving its call (`call` is then empty) or its group
};

struct StreamSnapshot {
  uint32_t index = 0;
  uint64_t handle = 0;
  int32_t device = -1;
  bool marked = false;                              // GPU progress markers are written for this stream
  uint64_t issued = 0, started = 0, completed = 0;  // tickets; `started` is known only with full marks
  // How many tickets in `started` and `completed` were reached after the process died. Only an observer of the death
  // knows this; the file does not show it.
  uint64_t late_started = 0, late_completed = 0;
  int32_t first_error = 0;  // CUresult or hipError_t of the first GPU error; 0 if none
  // The last ticket whose completion marker the driver accepted. Nothing is known about later tickets, not even that
  // their work was queued.
  uint64_t given = UINT64_MAX;
  uint32_t timed_every = 0;    // mode `events`: one operation in this many is timed; 0 in other modes
  bool starts_marked = false;  // mode `events`: the start of every operation is marked, not only of timed ones
  // Tickets of this stream above `after` run after all work of the other stream up to `ticket`. kAfterUnknown: the
  // limit is not recorded.
  static constexpr uint64_t kAfterUnknown = UINT64_MAX;
  struct Dependency {
    uint32_t stream = 0;
    uint64_t ticket = 0;
    uint64_t after = kAfterUnknown;
  };
  std::vector<Dependency> depends_on;
};

enum class GraphState : uint32_t {
  kNone = 0,
  kCapturing = 1,  // or its capture ended without being seen
  kCaptured = 2,
  kEnded = 3,   // all handles of the graph are destroyed
  kSpoilt = 4,  // the capture failed
};

// A CUDA graph with captured operations. It includes its clones and its instances.
struct GraphSnapshot {
  uint32_t index = 0;  // slot of the graph table
  uint64_t id = 0;     // id of the capture: OpSnapshot::graph
  GraphState state = GraphState::kNone;
  uint64_t exec = 0;             // the last launched handle
  uint64_t operations = 0;       // number of captured operations
  uint64_t operations_lost = 0;  // operations that are not recorded one by one, or have no number at launch
  uint64_t launches = 0;
  uint64_t completed = 0;        // newest launch that the GPU is known to have completed; 0 if none or unknown
  uint32_t stream = UINT32_MAX;  // stream of the last launch
  uint64_t ticket = 0;           // ticket of the last launch; 0 without GPU progress markers
  int64_t captured_ns = 0, last_launch_ns = 0, ended_ns = 0;
};

// Reports of NCCL's profiler interface, over all communicators.
struct ProfilerSnapshot {
  uint32_t interface_version = 0;  // 0 if the plugin was not loaded
  uint32_t events = 0;             // requested NCCL event bits
  uint64_t kernels_dropped = 0, proxies_dropped = 0;
  uint64_t unmatched = 0;  // operations without a matching record
  uint64_t stale = 0;      // callbacks with an invalid or stale handle
  uint64_t remote = 0;     // network operations on behalf of other processes
};

// One operation with its kernel's times on the machine's clock, as exactly as the two clocks can be aligned.
struct KernelSnapshot {
  uint32_t comm = UINT32_MAX;  // CommSnapshot::index
  CallKind kind = CallKind::kNone;
  int32_t peer = -1;  // peer of a send or receive; else -1
  uint64_t seq = 0;   // number in the operation's record; 0 if no record matches
  uint64_t count = 0;
  uint64_t order = 0;                                     // launch order among the communicator's operations
  uint32_t channels = 0;                                  // number of participating channels; 0 if not reported
  uint64_t started_channels = 0, completed_channels = 0;  // one bit for each channel, at the position of its number
  bool launched = false, captured = false, ended = false, copy_engine = false;
  bool gpu_times = false;   // times are from the GPU's clock; otherwise from the moment of the report
  int64_t enqueued_ns = 0;  // when NCCL reported the launch; the kernel may already have been running
  int64_t started_ns = 0, completed_ns = 0;
  int64_t uncertainty_ns = 0;  // started_ns and completed_ns are late by at most this
};

// One network operation: the steps of one channel to or from one peer.
struct ProxySnapshot {
  uint32_t comm = UINT32_MAX;
  CallKind kind = CallKind::kNone;  // kind of the operation
  uint64_t seq = 0;
  int32_t peer = -1;  // member rank at the other end
  int32_t rank = -1;  // member rank on whose behalf the operation runs
  uint32_t channel = 0;
  bool send = false, ended = false;
  bool remote = false;  // the operation runs for another process's operation
  uint32_t steps = 0, begun = 0, done = 0;
  uint32_t step = 0;  // the oldest unfinished step, from 0
  ProxyState state = ProxyState::kNone;
  int64_t started_ns = 0, changed_ns = 0;
};

struct Snapshot {
  ProcessInfo process;
  std::vector<CommSnapshot> comms;
  std::vector<OpSnapshot> ops;  // for each thread in program order; group members carry the group's number
  // The last operations of each communicator, which traffic in the rings does not overwrite. May repeat entries of
  // `ops`.
  std::vector<OpSnapshot> recent;
  std::vector<ThreadSnapshot> threads;
  std::vector<StreamSnapshot> streams;
  std::vector<GraphSnapshot> graphs;
  // Data of the profiler plugin, oldest first; empty in a digest without ReadOptions::in_flight.
  ProfilerSnapshot profiler;
  std::vector<KernelSnapshot> kernels;
  std::vector<ProxySnapshot> proxies;
  uint64_t records_lost = 0;          // records dropped because a table was full or an overflow slot was in use
  std::vector<std::string> problems;  // damage that was skipped, with its file offset
  // When the reader read the file; 0 if the reader did not run on the machine and boot that recorded it.
  int64_t read_mono_ns = 0;
};

}  // namespace lockstep::ring
