// The ring file's bytes. There is one file for each recorded process, in shared memory. docs/ring-file.md is the
// specification in prose, with an example.
//
//   page 0  Header: identity, state, process, clock triples, table of sections
//   then the sections, each at a page boundary, in the writer's order:
//           CommEntry[]   2048 bytes  communicators: identity, progress, recent operations
//           PeerEntry[]     64        sends and receives of a communicator, by peer
//           ThreadCell[]   192        the call that each thread is inside
//           StreamCell[]   128        tickets issued. A ticket is an operation's number on its stream, from 1
//           MarkLine[]      64        tickets started and completed, on pages that are registered with the GPU driver
//           rings, overflow ring: slots of 128 bytes (OpSlot, MemberSlot, ReplaySlot)
//           KernelEntry[]  128        NCCL profiler: operations on the GPU
//           ProxyEntry[]    64        NCCL profiler: operations on the network
//           GraphCell[]    384, GraphOp[] 64: CUDA graphs and what was captured into them
//           TimeSlot[]      48        times of tickets, by CUDA events
//           HelperArea                questions to a thread in the process, with LOCKSTEP_HELPER=on
//
// Rules that keep the file readable during writes and in later versions:
// - Little endian, naturally aligned. Apart from a few atomic counters, a cache line has one writer at a time.
// - A reader finds sections by kind in the header's table and steps by the table's stride. So later versions may append
//   fields and sections. A reader older than `min_reader_version` must refuse the file.
// - Times are ticks of the counter named in the header; the clock triples convert them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::ring {

inline constexpr char kMagic[16] = {'L', 'O', 'C', 'K', 'S', 'T',  'E',  'P',
                                    ' ', 'R', 'I', 'N', 'G', '\r', '\n', '\x1a'};
inline constexpr uint32_t kLayoutVersion = 1;
inline constexpr uint32_t kMinReaderVersion = 1;
inline constexpr uint32_t kEndianMark = 0x01020304;

inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kDefaultFileBytes = 4u << 20;
inline constexpr uint64_t kMinFileBytes = 256u << 10;
inline constexpr uint64_t kMaxFileBytes = 64u << 20;

inline constexpr uint16_t kNoIndex16 = 0xffff;

enum class SectionKind : uint32_t {
  kNone = 0,
  kComms = 1,     // CommEntry
  kPeers = 2,     // PeerEntry, open addressing
  kThreads = 3,   // ThreadCell
  kRings = 4,     // one ring of slots in every `stride` bytes
  kOverflow = 5,  // one ring of slots, shared by threads that do not have their own
  kStreams = 6,   // StreamCell
  kMarks = 7,     // MarkLine, indexed as kStreams; on separate pages that are registered with the GPU driver
  kGraphs = 8,    // GraphCell
  kGraphOps = 9,  // GraphOp, the captured operations of all graphs
  kTimes = 10,    // TimeSlot
  kKernels = 11,  // element 0: ProfilerState; then KernelEntry
  kProxies = 12,  // ProxyEntry
  kHelper = 13,   // one HelperArea; only if the process was started with LOCKSTEP_HELPER=on
};

struct Section {
  SectionKind kind;
  uint32_t reserved;
  uint64_t offset;  // from the file's start, a multiple of kPage
  uint64_t stride;  // bytes from one element to the next
  uint64_t count;   // number of elements
};
static_assert(sizeof(Section) == 32);
inline constexpr uint32_t kMaxSections = 16;

enum class TickKind : uint32_t { kMonotonicNs = 1, kTsc = 2, kCntvct = 3 };

// One instant on three clocks. `ticks` is written last; 0 means empty. If a writer is delayed for several rounds, two
// threads may write the same entry. `check` (0 in old files) detects such a mix.
struct ClockTriple {
  uint64_t ticks;
  int64_t mono_ns;
  int64_t real_ns;
  uint64_t check;
};
static_assert(sizeof(ClockTriple) == 32);
constexpr uint64_t ClockCheck(const ClockTriple& triple) {
  return ((triple.ticks * 0x9e3779b97f4a7c15u ^ static_cast<uint64_t>(triple.mono_ns)) * 0xd6e8feb86659fd93u ^
          static_cast<uint64_t>(triple.real_ns)) |
         1;
}
inline constexpr uint32_t kClockTriples = 8;  // [0] is from the creation; the others are overwritten in turn

// Page 0.
struct Header {
  // Line 0: written before the file is published; `magic` last.
  char magic[16];
  uint32_t layout_version;
  uint32_t min_reader_version;
  uint32_t header_bytes;
  uint32_t endian_mark;
  uint64_t file_bytes;
  uint32_t section_count;
  TickKind tick_kind;
  uint64_t tick_hz;  // estimated when the file is created; 0 if unknown
  uint64_t created_ticks;
  // Line 1: written from outside the process. Any value except 0 stops recording.
  uint32_t stop_word;
  uint32_t reserved1[15];
  // Line 2: the recorder's own state, which changes rarely.
  uint32_t state;      // RecorderState
  uint32_t gpu_marks;  // GpuMarks
  uint32_t host_waits;
  int32_t nccl_version;
  int32_t cuda_version;
  int32_t gpu_index;
  uint64_t dropped_records;  // records dropped because a table was full or an overflow slot was in use
  uint64_t overflow_begun;   // slots of the overflow ring handed out
  uint64_t comms_used;       // entries that were ever used; later ones are zero
  uint32_t threads_used;
  uint32_t streams_used;
  uint64_t triples_written;
  // From 192: the process.
  int32_t pid;
  uint32_t restart_count;
  int32_t rank, world_size, local_rank;
  uint32_t uid;
  uint64_t start_ticks;
  uint64_t pid_namespace_inode;
  char boot_id[48];
  char host[128];
  char job[128];
  char step[64];
  char gpu_uuid[48];
  char gpu_pci[32];
  char stop_reason[160];
  char note[160];  // settings that could not be applied, for example an unknown LOCKSTEP_GPU word
  char recorder_version[32];
  ClockTriple triples[kClockTriples];
  Section sections[kMaxSections];
  // From 1800: later additions; zero in files of older recorders.
  uint64_t stopped_ticks;  // when `state` left "recording"
  // The recorder's own time for a call, and its share of the calling thread's time, at the last measurement.
  uint32_t own_call_ns;
  uint32_t own_permille;
  uint32_t stepped_down;      // kStepped...: what was switched off because of the budget
  uint32_t place;             // RingPlace
  uint64_t wanted_bytes;      // requested size; 0 in older files
  uint32_t unwrapped;         // number of functions that the loaded NCCL exports and the recorder does not know
  int32_t newest_nccl;        // the newest NCCL whose functions are all known
  char unwrapped_names[480];  // as many of their names as fit, separated by spaces
};
inline constexpr uint32_t kSteppedMarks = 1, kSteppedTables = 2;
static_assert(offsetof(Header, stop_word) == 64);
static_assert(offsetof(Header, state) == 128);
static_assert(offsetof(Header, pid) == 192);
static_assert(offsetof(Header, stopped_ticks) == 1800);
static_assert(sizeof(Header) == 2320);
static_assert(sizeof(Header) <= kPage);

// One of a communicator's last operations. Operation n (from 0) is in CommEntry::collectives or ::p2p, at n % size, and
// has guard n + 1.
struct RecentOp {
  uint64_t guard;  // 0 while being written
  uint16_t kind;
  uint8_t stage, datatype, reduction;
  int8_t result;
  uint16_t stream;
  int32_t root_or_peer;
  uint32_t caller_object;
  uint64_t count;
  uint64_t seq;
  uint32_t ticket_low;  // 0 if there is none
  uint32_t caller_low;  // offset in the caller's object, low half
  uint64_t enter_ticks;
  uint64_t return_ticks;
};
static_assert(sizeof(RecentOp) == 64);
inline constexpr uint32_t kRecentCollectives = 16;
inline constexpr uint32_t kRecentP2p = 8;

struct Checkpoint {
  uint64_t seq;
  uint64_t hash;
};
inline constexpr uint32_t kCheckpoints = 8;
inline constexpr uint32_t kCheckpointEvery = 16;  // only collectives are counted

inline constexpr uint32_t kExcludedKept = 20;
inline constexpr uint32_t kCommBlocking = 1;      // CommEntry::flags
inline constexpr uint32_t kCommFromProfiler = 2;  // the profiler plugin wrote the communicator's entry and operations
inline constexpr uint32_t kCommProfiled = 4;      // NCCL's profiler reported the communicator

inline constexpr uint32_t kEditor = 1u << 28;  // CommEntry::guard
constexpr bool IsBeingChanged(uint32_t guard) { return (guard & 1) != 0 || guard >= kEditor; }

struct CommEntry {
  // Lines 0 to 4: identity. `guard` is odd during a change; its upper four bits count the writers.
  uint32_t guard;
  uint32_t state;  // CommState
  uint64_t id;
  uint64_t parent_id;
  uint64_t handle;
  uint32_t generation;
  uint32_t ordinal;
  int32_t member_rank, size;
  int32_t color, key;
  int32_t device;
  uint32_t flags;
  uint16_t origin;  // CallKind
  uint16_t reserved0;
  uint32_t excluded_total;
  uint64_t created_ticks, ready_ticks, ended_ticks;
  uint64_t async_error_ticks;
  int32_t async_error;
  uint32_t lost_peers;  // number of peers without room in the peer table
  char name[64];
  int32_t excluded[kExcludedKept];
  uint64_t reserved1[8];
  // Line 5: progress. Consistent when issued_seq == issued_check and two reads agree.
  uint64_t issued_seq;
  uint64_t issued_ticks;
  uint64_t signature_hash;
  uint64_t issued_check;
  uint64_t launched_seq;
  uint64_t p2p_issued;                      // sends, receives and one-sided calls, over all peers
  uint64_t recent_collectives, recent_p2p;  // number written so far
  // Lines 6, 7.
  Checkpoint checkpoints[kCheckpoints];  // [(seq / 16) % 8]
  // Lines 8 to 31.
  RecentOp collectives[kRecentCollectives];
  RecentOp p2p[kRecentP2p];
};
static_assert(offsetof(CommEntry, issued_seq) == 320);
static_assert(offsetof(CommEntry, checkpoints) == 384);
static_assert(offsetof(CommEntry, collectives) == 512);
static_assert(sizeof(CommEntry) == 2048);

// Send and receive counts of one peer of one communicator.
struct PeerEntry {
  uint64_t key;  // PeerKey; 0 if empty
  uint64_t sends, recvs;
  uint64_t last_send_ticks, last_recv_ticks;
  uint64_t created_ticks;  // CommEntry::created_ticks, which differs for each use of the entry
  uint64_t signals;        // signals sent to the peer by one-sided calls
  uint64_t waited;         // number of the peer's signals that one-sided waits asked for
};
static_assert(sizeof(PeerEntry) == 64);
constexpr uint64_t PeerKey(uint32_t comm, int32_t peer) {
  return (uint64_t{1} << 63) | (uint64_t{comm} << 32) | static_cast<uint32_t>(peer);
}

struct ThreadCell {
  // Line 0: NCCL calls. `call` is written last on entry and first on return.
  uint16_t call;  // CallKind the thread is inside
  uint16_t comm;
  uint32_t group_depth;
  uint64_t seq;  // of the operation; in a group's end, the group's number
  uint64_t since_ticks;
  uint64_t last_call_ticks;
  uint64_t begun;   // slots used in this thread's ring; stored before a slot is overwritten
  uint64_t ops;     // operations and calls recorded so far
  uint64_t groups;  // number of explicit groups so far
  uint64_t group_since_ticks;
  // Line 1: CUDA waits.
  uint16_t wait;
  uint16_t wait_stream;
  uint32_t reserved0;
  uint64_t wait_ticket;
  uint64_t wait_since_ticks;
  uint64_t last_wait_ticks;
  uint64_t waits;
  uint64_t reserved1[3];
  // Line 2: the thread's identity.
  int32_t tid;    // 0 if the cell is not in use
  uint32_t use;   // how often the cell was assigned to a thread
  uint16_t ring;  // index in kRings; kNoIndex16 if the thread uses the overflow ring
  uint16_t gone;  // 1 if the thread ended inside the calls of lines 0 and 1; set by another thread
  uint16_t reserved2[2];
  char name[16];
  uint64_t created_ticks;
  uint64_t reserved3[3];
};
static_assert(offsetof(ThreadCell, wait) == 64);
static_assert(offsetof(ThreadCell, tid) == 128);
static_assert(sizeof(ThreadCell) == 192);

enum class SlotType : uint8_t { kEmpty = 0, kOp = 1, kMembers = 2, kReplay = 3 };

// Event rings. In a thread's ring, slot n (from 0) is at n % capacity and has guard n + 1. A reader accepts it if the
// guard matches and n + capacity >= ThreadCell::begun, read afterwards. In the overflow ring the guard is (n + 1) << 1,
// and odd during a write.
struct OpSlot {
  uint64_t guard;
  uint8_t type;  // SlotType::kOp
  uint8_t stage, datatype, reduction;
  uint16_t kind;
  uint16_t comm;
  int32_t root_or_peer;
  uint32_t caller_object;
  uint64_t count;
  uint64_t seq;
  uint32_t index_low;  // ThreadCell::ops before this operation, low half
  uint32_t group_low;  // group number, low half; 0 for none
  uint16_t stream;
  uint16_t thread;  // index in kThreads
  int32_t result;
  uint64_t ticket;
  uint64_t graph;
  uint64_t enter_ticks;
  uint64_t return_ticks;  // 0 if the call has not returned
  uint64_t caller;
  uint64_t send_address, recv_address;
  uint64_t reserved[2];
};
static_assert(sizeof(OpSlot) == 128);

// One send or receive of a group.
struct Member {
  uint64_t word;  // count: 43 | datatype: 4 | receive: 1 | ticket low: 16, from the lowest bit
  int32_t peer;
  uint32_t seq_low;
  uint64_t address;
};
static_assert(sizeof(Member) == 24);
inline constexpr uint64_t kMemberMaxCount = (uint64_t{1} << 43) - 1;
inline constexpr uint32_t kMembersPerSlot = 4;
// MemberSlot::flags. Bits 0 to 3: the call of member 0 to 3 failed.
inline constexpr uint8_t kMembersNoTicket = 0x10;
// The members were captured into a CUDA graph, so they are never counted.
inline constexpr uint8_t kMembersCaptured = 0x20;

// Up to four sends and receives of one group, communicator and stream.
struct MemberSlot {
  uint64_t guard;
  uint8_t type;  // SlotType::kMembers
  uint8_t stage;
  uint8_t used;  // number of complete members
  uint8_t flags;
  uint16_t stream;
  uint16_t comm;
  uint64_t enter_ticks;  // entry time of the first member
  uint32_t index_low;    // index of the first member; the others follow
  uint32_t group_low;
  Member members[kMembersPerSlot];
};
static_assert(sizeof(MemberSlot) == 128);
static_assert(offsetof(MemberSlot, type) == offsetof(OpSlot, type));
static_assert(offsetof(MemberSlot, stage) == offsetof(OpSlot, stage));

// One numbering that a graph launch continues: a communicator's collectives, or its sends to or receives from one peer.
struct ReplayLane {
  uint64_t word;  // number of the first operation: 40 bits | number of operations: 24, from the lowest bit
  uint16_t comm;
  uint8_t direction;  // 0 collectives, 1 sends, 2 receives
  uint8_t reserved;
  int32_t peer;
};
static_assert(sizeof(ReplayLane) == 16);
inline constexpr uint32_t kReplayLanes = 4;
inline constexpr uint32_t kMaxGraphLanes = 128;

// One launch of a CUDA graph with captured operations. The launch issues all of them, in the order of their capture. A
// launch with more than four lanes takes several consecutive slots, with `first_lane` 0, 4, ...
struct ReplaySlot {
  uint64_t guard;
  uint8_t type;   // SlotType::kReplay
  uint8_t stage;  // kEntered, kLaunched, kFailed
  uint8_t used;   // number of lanes in this slot
  uint8_t first_lane;
  uint16_t stream;
  uint16_t graph;   // index in kGraphs
  uint64_t replay;  // number of this launch of the graph, from 1
  uint64_t ticket;
  uint64_t enter_ticks;
  uint64_t return_ticks;
  uint32_t index_low;  // index of the first operation; the others follow
  int32_t result;
  uint32_t graph_use;  // GraphCell::use
  uint16_t thread;
  uint16_t lanes;  // number of lanes of the launch
  ReplayLane lane[kReplayLanes];
};
static_assert(sizeof(ReplaySlot) == 128);
static_assert(offsetof(ReplaySlot, type) == offsetof(OpSlot, type));
static_assert(offsetof(ReplaySlot, stage) == offsetof(OpSlot, stage));

// One of a graph's last launches. `number` is 0 during a write.
struct GraphLaunch {
  uint64_t number;
  uint64_t ticket;  // 0 without GPU progress markers
  uint64_t ticks;
  uint16_t stream;
  uint16_t thread;
  int32_t result;  // result of the call; -1 if the call has not returned
};
static_assert(sizeof(GraphLaunch) == 32);
inline constexpr uint32_t kGraphLaunches = 8;

// What was captured as one CUDA graph. Its clones, and everything instantiated or updated from it, count as the same
// graph.
struct GraphCell {
  uint32_t state;     // GraphState; written last when the cell is claimed
  uint32_t use;       // how often the cell was assigned to a graph
  uint64_t id;        // number of the capture, as CUDA counts; equals OpSlot::graph of the captured operations
  uint64_t exec;      // the last launched handle
  uint32_t ops;       // number of captured operations
  uint32_t ops_lost;  // operations missing in kGraphOps, or without a number at launch
  uint32_t lanes;
  uint32_t handles;         // number of graphs and executable graphs of this cell that are not destroyed
  uint64_t captured_ticks;  // when the capture ended
  uint64_t ended_ticks;     // when the last handle was destroyed
  uint64_t reserved0;
  // Line 1.
  uint64_t launches;
  uint64_t reserved1[7];
  GraphLaunch last[kGraphLaunches];  // [(number - 1) % 8]
};
static_assert(offsetof(GraphCell, launches) == 64);
static_assert(sizeof(GraphCell) == 384);

// A run of equal, consecutive operations captured into a graph.
struct GraphOp {
  uint32_t owner;     // index of the operation's graph + 1; 0 free
  uint32_t use;       // GraphCell::use
  uint32_t position;  // position of the first operation in the graph's order of capture
  uint32_t repeats;   // number of equal operations
  uint16_t kind;
  uint16_t comm;
  uint16_t stream;
  uint8_t datatype, reduction;
  int32_t root_or_peer;
  uint32_t group;  // number of the explicit group, low half; 0 for none
  uint64_t count;
  uint64_t caller;
  uint32_t caller_object;
  uint32_t reserved;
  uint64_t comm_created;  // CommEntry::created_ticks
};
static_assert(sizeof(GraphOp) == 64);

// A wait of this stream for another stream. Work queued after the wait runs after all work of the other stream up to
// `ticket`. Two threads may write the same entry at once; `check` (0 in old files) detects a mix.
struct Dependency {
  uint32_t stream_plus_one;  // 0 for none
  uint32_t check;
  uint64_t ticket;
};
// Packs the waiting stream's last ticket at the time of the wait into 16 bits. Only later tickets of that stream wait.
// The result is never 0: 0 means unknown (files of older recorders).
inline constexpr uint64_t kDependencyTurns = 65535;
constexpr uint16_t PackGiven(uint64_t given) { return static_cast<uint16_t>(given % kDependencyTurns + 1); }
// Sets *given to the largest number up to `issued` with this packed value, or to 0 if there is none. Returns false if
// the number is unknown.
constexpr bool UnpackGiven(uint16_t packed, uint64_t issued, uint64_t* given) {
  if (packed == 0) return false;
  const uint64_t back = (issued % kDependencyTurns + kDependencyTurns - (packed - 1u)) % kDependencyTurns;
  *given = issued >= back ? issued - back : 0;
  return true;
}
constexpr uint32_t DependencyCheck(uint32_t stream_plus_one, uint64_t ticket) {
  return static_cast<uint32_t>(((ticket ^ uint64_t{stream_plus_one} << 40) * 0x9e3779b97f4a7c15u) >> 32) | 1;
}
inline constexpr uint32_t kDependencies = 4;

struct StreamCell {
  uint64_t handle;
  int32_t device;
  uint32_t in_use;      // 1 in use, 2 being reassigned
  uint64_t issued;      // tickets given to operations on this stream
  uint32_t marked;      // whether GPU progress markers are written for the stream
  int32_t first_error;  // first GPU error (CUresult or hipError_t) that a marker or query returned; 0 if none
  // For a per-thread default stream: index of the thread + 1, UINT64_MAX after the thread ended. Else 0.
  uint64_t owner;
  // 1 + the last ticket whose completion marker the driver accepted; 0 in files of older recorders. Nothing is known
  // about later tickets, not even that their work was queued.
  uint64_t given;
  uint32_t timed_every;  // mode `events`: one operation in this many is timed; else 0
  // mode `events`: 1 if the start of every operation is marked; 0 in files of older recorders, which mark only timed
  // operations.
  uint32_t starts_marked;
  uint16_t waits_after[kDependencies];  // PackGiven of each dependency
  Dependency depends_on[kDependencies];
};
static_assert(sizeof(StreamCell) == 128);

// Written only by the GPU; in mode `events`, only by the polling thread.
struct MarkLine {
  uint64_t started;
  uint64_t completed;
  uint64_t reserved[6];
};
static_assert(sizeof(MarkLine) == 64);

// When the GPU started and completed a ticket of a stream, measured by CUDA events. One thread writes the slots and
// overwrites the oldest: slot n (from 0) is at n % count and has guard n + 1, or 0 during a write. A reader accepts a
// value after two equal reads.
struct TimeSlot {
  uint64_t guard;
  uint64_t ticket;
  uint64_t started, completed;  // ticks; both are late by the same amount, so their difference is exact
  uint32_t stream;
  uint32_t uncertainty_ns;  // the times are late by at most this; UINT32_MAX means at least that
  uint64_t reserved;
};
static_assert(sizeof(TimeSlot) == 48);

// Reports of NCCL's profiler interface; all zero if the plugin was not loaded.
struct ProfilerState {
  uint32_t interface_version;  // 1 to 7; 0 if not loaded
  uint32_t events;             // requested NCCL event bits
  uint64_t kernels_begun, proxies_begun;
  uint64_t kernels_dropped, proxies_dropped;  // dropped because every entry belonged to a running operation
  uint64_t unmatched;                         // operations without a matching record
  uint64_t stale;                             // callbacks with an invalid or stale handle
  uint64_t remote;                            // network operations on behalf of other processes
  uint64_t init_ticks;
  uint64_t reserved[7];
};
static_assert(sizeof(ProfilerState) == 128);

inline constexpr uint8_t kKernelLaunched = 1;  // KernelEntry::flags: NCCL has queued the kernel
inline constexpr uint8_t kKernelCaptured = 2;  // launched from a CUDA graph; each replay has an entry
inline constexpr uint8_t kKernelEnded = 4;     // no further event will follow
inline constexpr uint8_t kKernelCopyEngine = 8;

// One operation as its kernel ran, by channel. `guard` is odd while the identity is written and rises with every use of
// the entry. The other fields are single words that NCCL's progress thread changes later.
struct KernelEntry {
  uint32_t guard;
  uint16_t comm;
  uint16_t kind;  // CallKind
  int32_t peer;   // peer of a send or receive, else -1
  uint8_t flags;
  uint8_t channels;  // number of participating channels; 0 if not reported
  uint16_t reserved0;
  uint64_t seq;  // as in the operation's record; 0 if no record matches
  uint64_t enqueued_ticks;
  // Each bit stands for the channel with that number.
  uint64_t started_channels, completed_channels;
  // GPU clock in nanoseconds; 0 if not reported.
  uint64_t first_started_gpu_ns, last_completed_gpu_ns;
  // When the CPU received these reports.
  uint64_t first_started_ticks, last_completed_ticks;
  uint64_t count;
  uint64_t order;  // position in NCCL's launch order of the communicator's operations
  uint64_t reserved[4];
};
static_assert(sizeof(KernelEntry) == 128);

inline constexpr uint8_t kProxySend = 1;  // ProxyEntry::flags; else a receive
inline constexpr uint8_t kProxyEnded = 2;
inline constexpr uint8_t kProxyRemote = 4;  // runs for another process's operation, which has the record

// One network operation: the steps of one channel to or from one peer. `guard` as in KernelEntry.
struct ProxyEntry {
  uint32_t guard;
  uint16_t comm;
  uint16_t kind;  // CallKind of the operation
  uint64_t seq;
  int32_t peer;  // member rank at the other end
  int32_t rank;  // member rank on whose behalf the operation runs
  uint8_t channel;
  uint8_t flags;
  uint8_t state;  // ProxyState (profiler.h) of the oldest unfinished step
  uint8_t reserved0;
  uint32_t steps, begun, done;
  uint32_t step;  // number of the oldest unfinished step, from 0
  uint32_t reserved1;
  uint64_t started_ticks;
  uint64_t changed_ticks;  // time of the last event
};
static_assert(sizeof(ProxyEntry) == 64);

// Questions to a thread inside the process, and its answers. Whoever asks holds flock(LOCK_EX) on the file, writes the
// question, increments `asked` and wakes the thread (a shared futex). The answer is complete when `answered` equals
// `asked`.
enum class HelperQuestion : uint32_t {
  kMemory = 1,   // the process's memory at `address`, up to the first unmapped page
  kMaps = 2,     // /proc/self/maps, starting at byte `address`
  kWchan = 3,    // /proc/self/task/THREAD/wchan
  kSyscall = 4,  // /proc/self/task/THREAD/syscall
};
inline constexpr uint32_t kHelperData = 64 << 10;
struct HelperArea {
  // Line 0: written from outside the process.
  uint32_t asked;
  uint32_t question;  // HelperQuestion
  uint64_t address;
  uint64_t length;  // at most kHelperData
  int32_t thread;   // thread ID in the process's own PID namespace
  uint32_t reserved0;
  uint64_t reserved1[4];
  // Line 1: written by the thread.
  uint32_t answered;
  uint32_t state;  // 1 if the thread waits for questions
  int64_t result;  // bytes in `data`, fewer than requested if there are no more; or -errno
  uint64_t reserved2[6];
  unsigned char reserved3[kPage - 128];
  unsigned char data[kHelperData];
};
static_assert(offsetof(HelperArea, answered) == 64);
static_assert(offsetof(HelperArea, data) == kPage);

// The number of elements of each section in a file of `bytes`.
struct Capacities {
  uint32_t comms, peers, threads, rings, ring_slots, overflow_slots, streams;
  uint32_t kernels, proxies;
  uint32_t graphs, graph_ops;
  uint32_t times;
};
constexpr Capacities CapacitiesFor(uint64_t bytes) {
  if (bytes >= (4u << 20)) {
    Capacities c{256, 4096, 128, 16, 1024, 2048, 256, 1024, 2048, 256, 1536, 4096};
    for (uint64_t b = bytes; b >= (8u << 20); b /= 2) {
      c.ring_slots *= 2;
      c.times *= 2;
    }
    return c;
  }
  if (bytes >= (2u << 20)) return {128, 2048, 64, 8, 1024, 1024, 128, 512, 1024, 128, 768, 2048};
  if (bytes >= (1u << 20)) return {64, 1024, 64, 8, 512, 512, 128, 256, 512, 64, 384, 1024};
  if (bytes >= (512u << 10)) return {32, 512, 32, 4, 512, 512, 64, 96, 192, 32, 192, 512};
  return {32, 256, 32, 2, 256, 256, 32, 48, 96, 16, 96, 256};
}

// The tables of the largest file, for the process's own fixed arrays.
inline constexpr uint32_t kMaxComms = 256;
inline constexpr uint32_t kMaxThreads = 128;
inline constexpr uint32_t kMaxStreams = 256;
inline constexpr uint32_t kMaxProxies = 2048;
inline constexpr uint32_t kMaxGraphs = 256;

}  // namespace lockstep::ring
