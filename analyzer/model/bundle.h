// Everything that the analysis knows: what each rank recorded, from any source, in one form. Loaders fill it and the
// engine reads it. Plain values; a Bundle owns all its data. Sequence numbers stay as the source counts them; kNone
// means "none yet" and kUnknown "not in the source". Missing, overwritten, never enqueued and no data stay distinct.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/util/boxed.h"
#include "recorder/ring/calls.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

class ProcessEvidence;  // proto/process.proto

constexpr int64_t kNone = -1;     // nothing issued (or started, completed) yet
constexpr int64_t kUnknown = -2;  // not recorded by this source
constexpr uint32_t kNoIndex = UINT32_MAX;

// Limits for readers. A file beyond them is reported as a problem.
constexpr int32_t kMaxRanks = 1 << 20;
constexpr int32_t kMaxMembers = 1 << 20;
// Total entries of all Communicator::members. Communicators beyond it keep their size but not their list.
constexpr int64_t kMaxMemberEntries = int64_t{1} << 24;

// A communicator of the job, merged over the ranks that recorded it.
struct Communicator {
  std::string id;    // job-wide identity: 16 hex digits from rings; "NAME/HASH" for a process group
  std::string name;  // commName, process group description; may be empty
  int32_t size = 0;
  // Global rank of each member; -1 if no source contains it. Has `size` entries; loaders have checked that `size` is
  // plausible.
  std::vector<int32_t> members;
  // True if membership was only inferred from the ranks that used the communicator (a process group without a name).
  bool members_inferred = false;
  // True if the number of members is unknown, because a rank without data may be one.
  bool may_have_more = false;
  std::string parent_id;  // empty if there is none
  // Number among the children of one parent (or the roots) in creation order, from 1; 0 if unknown.
  uint32_t ordinal = 0;
  // Number among the unnamed communicators with the same members, from 1, in creation order if known. 0 if the
  // communicator has a name, or if no other has the same members.
  uint32_t twin = 0;
  int32_t color = 0;
  ring::CallKind origin = ring::CallKind::kNone;
};

struct HashCheckpoint {
  int64_t seq = kNone;
  uint64_t hash = 0;
};

struct PeerCount {
  int32_t peer = -1;  // member rank
  int64_t sends = 0, recvs = 0;
};

// One rank's membership in one communicator.
struct Membership {
  uint32_t comm = kNoIndex;  // index into Bundle::comms
  int32_t member_rank = -1;  // -1 if unknown
  ring::CommState state = ring::CommState::kUnknown;
  // Progress of collectives, as counted by the source. kNone or kUnknown if there is no number.
  int64_t issued = kUnknown, launched = kUnknown, started = kUnknown, completed = kUnknown;
  // Progress of point-to-point operations, if the source counts them over all peers (Flight Recorder's p2p_seq_id).
  // These operations do not complete in order. A dump without entries for a group has only one kind of count; the other
  // is kUnknown.
  int64_t p2p_issued = kUnknown, p2p_started = kUnknown, p2p_completed = kUnknown;
  int64_t first_seq = 1;  // the source's number of the first collective (Flight Recorder: 0 or 1)
  int64_t issued_ns = 0;  // when `issued` was issued, on the rank's clock; 0 if unknown
  int64_t created_ns = 0, ready_ns = 0, ended_ns = 0;
  ring::CallKind origin = ring::CallKind::kNone;
  uint64_t signature_hash = 0;  // rolling hash at `issued`; 0 if not recorded
  std::vector<HashCheckpoint> checkpoints;
  std::vector<PeerCount> peers;
  int64_t lost_records = 0;  // operations on this communicator that are no longer in Rank::ops
  // Operations that are counted but not in Rank::ops, so their absence proves nothing: older ones that were not loaded,
  // and those that the source does not record (PyTorch does not record sends and receives on gloo).
  int64_t not_loaded = 0, unrecorded = 0;
  int32_t async_error = 0;
  int32_t color = 0, key = 0;
  uint32_t ring_index = kNoIndex;  // slot in the rank's ring, for cross references
  std::string local_name;          // the source's own name for the communicator (process group id), for messages
  // The ring's other fields; empty for other sources. Dumps keep them.
  Boxed<ring::CommSnapshot> recorded;
};

enum class OpState : uint8_t {
  kUnknown,     // issued by the CPU thread; the GPU's progress is not recorded
  kEntered,     // the CPU thread is inside the call
  kQueued,      // in a group that is still open
  kEnqueued,    // on the stream; the GPU has certainly not started it
  kStarted,     // the GPU reached the operation and has certainly not completed it
  kIncomplete,  // certainly not completed; whether the operation started is not recorded
  kCompleted,
  kFailed,    // the call or its group failed, so the operation was never on the stream
  kCaptured,  // captured into a CUDA graph
};

// Returns whether the operation is on its stream and has certainly not completed.
constexpr bool IsUnfinished(OpState state) {
  return state == OpState::kEnqueued || state == OpState::kStarted || state == OpState::kIncomplete;
}
// Like IsUnfinished, but also returns true if the operation is not on its stream yet: the CPU thread is inside the
// call, or the group is open.
constexpr bool IsInFlight(OpState state) {
  return IsUnfinished(state) || state == OpState::kEntered || state == OpState::kQueued;
}

// One call. A bundle contains millions, so rarely used data is in side tables, and bools are bits.
struct Op {
  uint32_t membership = kNoIndex;  // index into Rank::memberships; kNoIndex for calls without a communicator
  int32_t root_or_peer = -1;       // member rank
  ring::CallKind kind = ring::CallKind::kNone;
  OpState state = OpState::kUnknown;
  bool in_batch : 1 = false;     // member of a framework's coalesced batch
  bool batch_end : 1 = false;    // the record of a whole coalesced batch
  bool retired : 1 = false;      // Flight Recorder: the watchdog dropped the operation from its list
  bool recent_only : 1 = false;  // only in the communicator's recent operations, not in the rings
  bool after_gap : 1 = false;    // calls between the previous operation in Rank::ops and this one were not read
  bool replayed : 1 = false;     // issued by a launch of a CUDA graph; `graph` identifies the launch (see ReplayOf)
  uint8_t datatype = ring::kNoDatatype, reduction = ring::kNoReduction;
  int16_t result = 0;
  // A collective's number on the communicator; a send's or receive's number for (peer, direction), or its p2p_seq_id.
  int64_t seq = kUnknown;
  int64_t count = -1;          // elements as passed; -1 if unknown (Flight Recorder has shapes instead)
  uint32_t thread = kNoIndex;  // index into Rank::threads, if that has an entry; otherwise the source's number
  uint32_t stream = kNoIndex;  // index into Rank::streams
  int64_t index = 0;           // position in the thread's program order
  int64_t ticket = 0;
  int64_t enter_ns = 0, return_ns = 0;       // rank's clock; return_ns is 0 if not returned or not recorded
  int64_t started_ns = 0, completed_ns = 0;  // 0 if unknown
  uint64_t caller = 0;
  uint64_t graph = 0;  // if captured: number of the CUDA graph's capture
  uint32_t caller_object = 0;
  uint32_t group = 0;             // 0 without an explicit group; otherwise the thread's number for the group
  uint32_t addresses = kNoIndex;  // index into Rank::addresses
  // Only from Flight Recorder; otherwise empty. Shapes are interned: an index into Bundle::shapes, or kNoIndex.
  uint32_t dtypes = kNoIndex;                                // index into Bundle::strings: "Float -> Half"
  uint32_t input_shape = kNoIndex, output_shape = kNoIndex;  // index of, for example, "[[4,4]]"
  int64_t input_elements = -1, output_elements = -1;         // sum over tensors; -1 if unknown
  uint32_t name = kNoIndex;       // index into Bundle::strings: "_all_gather_base"; kNoIndex means CallName(kind)
  uint32_t call_site = kNoIndex;  // index into Bundle::strings: "train.py:812 forward"
  int64_t record_id = kUnknown;   // order of a rank's records
};
static_assert(sizeof(Op) <= 160);

// Converts a source's 64-bit group number to Op::group; 0 still means none.
constexpr uint32_t GroupNumber(uint64_t group) {
  const auto low = static_cast<uint32_t>(group);
  return low == 0 && group != 0 ? UINT32_MAX : low;
}

// One launch of a CUDA graph.
struct Replay {
  uint32_t graph = 0;   // GraphSnapshot::index of Rank::graphs
  uint64_t number = 0;  // from 1
};
// Op::graph of a replayed operation contains an index into Rank::replays, and its position in the graph, from 1.
constexpr uint64_t ReplayedAs(uint32_t replay, uint32_t place) { return uint64_t{place} << 32 | replay; }
constexpr uint32_t ReplayOf(const Op& op) { return static_cast<uint32_t>(op.graph); }
constexpr uint32_t PlaceInGraph(const Op& op) { return static_cast<uint32_t>(op.graph >> 32); }

// Addresses of an operation's buffers, for users and viewers; the analysis ignores them.
struct OpAddresses {
  uint64_t send = 0, recv = 0;
};

// A network operation that was running when the rank's data was captured: the steps of one channel to or from one
// peer.
struct NetworkOp {
  uint32_t membership = kNoIndex;
  ring::CallKind kind = ring::CallKind::kNone;  // kind of the operation that this network operation is a part of
  int64_t seq = kUnknown;
  int32_t peer = -1;  // member rank at the other end
  uint32_t channel = 0;
  bool send = false;
  uint32_t steps = 0, done = 0;
  uint32_t step = 0;  // the oldest unfinished step, from 0
  ring::ProxyState state = ring::ProxyState::kNone;
  int64_t since_ns = 0;  // time of the last event, on the rank's clock
};

enum class Life : uint8_t { kUnknown, kRunning, kExited, kKilled, kGone };

struct Process {
  Life life = Life::kUnknown;
  int32_t exit_code = 0, signal = 0;
  std::string state;  // /proc letter
  int64_t ended_mono_ns = 0;
  int64_t cpu_ns_between_samples = -1, io_bytes_between_samples = -1, sample_gap_ns = 0;
  std::string wchan;
  std::vector<std::string> stack;
  std::string stack_refused;
  bool consequence = false;                 // ended because the job was being ended
  std::string exception;                    // Python exception that ended it: "ValueError: .."; empty if unknown
  std::vector<std::string> python_stack;    // innermost frame first; the stack of `exception` if it has one
  std::vector<std::string> stack_later;     // the native stack one sample later; empty if not taken
  std::vector<std::string> written_files;   // regular files open for writing
  std::vector<std::string> written_mounts;  // parallel to written_files: "/mnt/lustre (lustre)"; empty if unknown
  uint32_t threads_in_d = 0;                // threads in uninterruptible sleep
  std::shared_ptr<const ProcessEvidence> evidence;  // stacks of all threads, memory, hardware; null if not taken
};

// Only readers of logs have kText. Ranks from logs have kFlightRecorder, because a log contains calls like a
// framework's dump.
enum class Source : uint8_t { kRing, kDump, kFlightRecorder, kText };

// The source of the operations' start and completion times. The numbers are permanent, because dumps contain them.
enum class TimeSource : uint8_t {
  kUnknown = 0,             // treated like sampled markers, or a framework's own times in its dumps
  kSampledMarks = 1,        // markers read at intervals: a time is late by up to the interval
  kEvents = 2,              // events on the stream
  kProfiler = 3,            // the library's own timestamps
  kFramework = 4,           // a framework's watchdog: a time is late by up to the watchdog's interval
  kFrameworkDurations = 5,  // framework times with exact durations: completed_ns - started_ns
};

struct Rank {
  int32_t rank = -1;  // global rank
  int32_t world_size = -1;
  int32_t local_rank = -1;
  std::string host;  // empty if unknown
  std::string boot_id, job;
  std::string step;  // the scheduler's job step; empty if none or unknown
  uint32_t restart_count = 0;
  int32_t pid = 0;
  int32_t gpu_index = -1;
  std::string gpu_uuid, gpu_pci;
  int32_t nccl_version = 0, cuda_version = 0;
  int32_t newest_nccl = 0;      // the newest NCCL that the recorder fully supports; 0 if unknown
  uint32_t unwrapped = 0;       // number of functions of the loaded NCCL that are not recorded
  std::string unwrapped_names;  // names of some of these functions, separated by spaces
  ring::RecorderState recorder_state = ring::RecorderState::kUnknown;
  std::string stop_reason;
  int64_t stopped_ns = 0;  // when recording stopped before the process ended; 0 if it did not, or if unknown
  ring::GpuMarks gpu_marks = ring::GpuMarks::kOff;
  bool host_waits = false;
  uint64_t ring_bytes = 0, wanted_ring_bytes = 0;  // actual and requested size of the ring; 0 if unknown
  ring::RingPlace ring_place = ring::RingPlace::kFolder;
  Process process;
  std::vector<Membership> memberships;
  std::vector<Op> ops;                        // in program order of each thread, oldest first
  std::vector<OpAddresses> addresses;         // addresses for ops; may be empty
  std::vector<ring::ThreadSnapshot> threads;  // here, .comm is an index into `memberships`
  std::vector<ring::StreamSnapshot> streams;
  std::vector<ring::GraphSnapshot> graphs;  // CUDA graphs with operations; .stream is an index into `streams`
  std::vector<Replay> replays;              // launches that ops refer to
  std::vector<NetworkOp> network;           // only from NCCL's profiler interface; oldest first
  uint32_t profiler_version = 0;            // version of that interface; 0 if there are no reports
  int64_t captured_ns = 0;                  // when the rank's data was taken, on the rank's clock; 0 if unknown
  int64_t real_minus_mono_ns = 0;
  TimeSource time_source = TimeSource::kUnknown;
  // At least 95 % of started_ns and completed_ns are late by at most this; 0 means the source's usual limit.
  int64_t time_uncertainty_ns = 0;
  uint64_t records_lost = 0;
  uint64_t not_loaded = 0;  // operations in the file that are not in `ops`; see Membership::not_loaded
  Source source = Source::kRing;
  std::string path;             // file the data came from
  bool damaged = false;         // part of the rank's data could not be read
  bool only_active = false;     // Flight Recorder: the dump contains only incomplete operations
  bool some_groups = false;     // a log beside dumps: the rank may be in calls of groups that the log does not mention
  bool start_recorded = false;  // a start time or marker exists, so "not started" is certain
  // Flight Recorder with a backend that never marks operations completed, only retired (gloo, torchcomms). A failed
  // operation then looks completed, and sends, receives and barriers may leave no entry.
  bool ends_untold = false;
  // Flight Recorder with a backend without group names: members of the process's newest group; 0 if unknown.
  int32_t newest_group_size = 0;
  // Flight Recorder: how long the oldest unfinished operation may take before the watchdog gives up; 0 if unknown.
  int64_t timeout_ns = 0;
  // Flight Recorder: the file is older than its newest record, so its clock was set back before it was written.
  // Durations of operations in flight are unknown.
  bool set_back = false;
};

struct Problem {
  std::string path = "";  // empty if the problem concerns the whole bundle
  int64_t offset = -1;
  std::string text;
  int32_t rank = -1;
  bool note = false;      // only for information: the problem does not affect the analysis
  bool stopped = false;   // recording stopped on this rank, so its later calls are unknown
  std::string like = "";  // equal for problems that differ only in names and numbers; "" if the texts must be equal
};

// `like` of problems that a ring's reader and a dump's writer report about one rank's data.
inline constexpr char kDamagedRank[] = "damaged rank";

// `like` of problems that report a network error. They keep the network from being ruled out as the cause.
inline constexpr char kNetworkFailed[] = "network failed";

// The network ports of a host that run at the rate of its fastest active port; 0 if unknown.
struct HostNetwork {
  uint32_t port_mbits = 0, ports = 0;
  uint32_t gpus = 0;  // GPUs in the host, whether a job uses them or not
};

// The position of a host, from dump headers or a topology file; empty if unknown.
struct HostPlace {
  std::string host, rack, leaf_switch;
  HostNetwork network = {};  // only from dump headers
};

struct Bundle {
  std::vector<Rank> ranks;  // ascending by rank, no duplicates
  std::vector<Communicator> comms;
  std::vector<std::string> strings;  // interned: names, call sites, dtypes
  std::vector<std::string> shapes;   // interned shapes, as text
  std::vector<Problem> problems;
  std::vector<HostPlace> places;  // ascending by host, no duplicates
  std::string job;
  int32_t ranks_expected = 0;  // from world size, process groups or the manifest; 0 if unknown
  // A live observer of the job found that nothing moves. An operation in flight is then stuck at any age.
  bool known_stalled = false;
  int64_t stalled_ns = 0;
};

}  // namespace lockstep
