#include "recorder/core/process.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "recorder/base/config.h"
#include "recorder/base/loaded.h"
#include "recorder/base/switches.h"
#include "recorder/core/comms.h"
#include "recorder/core/gpu_marks.h"
#include "recorder/core/graphs.h"
#include "recorder/core/helper.h"
#include "recorder/core/note.h"
#include "recorder/core/profiler_events.h"
#include "recorder/core/profiler_request.h"
#include "recorder/core/streams.h"

namespace lockstep::recorder {

// glibc has exported this function since 2.3.2, but links pthread_atfork statically into every program. Weak, because
// other C libraries have only pthread_atfork.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                       void* object);

static uint32_t g_idle_word = kIdle;
static const uint32_t g_no_stop = 0;

constinit Process g{&g_idle_word, &g_no_stop};
Tables g_tables;
constinit thread_local ThreadLocal t_local{};

namespace {

struct Site {
  uintptr_t address;  // 0: free, 1: being filled
  uint64_t offset;
  uint32_t object;
};
constexpr uint32_t kSites = 1024;
constexpr uint32_t kSiteProbes = 16;
Site g_sites[kSites];

LOCKSTEP_COLD CallSite AddSite(Site* site, const void* caller) noexcept {
  ErrnoKeeper keep;
  LoadedObject object{};
  uint32_t hash = 0;
  CallSite found{reinterpret_cast<uintptr_t>(caller), 0};
  if (FindObject(caller, &object, &hash)) {
    found = {reinterpret_cast<uintptr_t>(caller) - object.base, hash};
    if (IsNcclLibrary(object)) {
      KeepLoaded(object);
      AddNccl(object, true);
    }
  }
  if (site != nullptr && Swap<uintptr_t>(&site->address, 0, 1)) {
    site->offset = found.offset;
    site->object = found.object;
    StoreRelease(&site->address, reinterpret_cast<uintptr_t>(caller));  // pairs with the acquire in FindCallSite
  }
  return found;
}

// Prints the reason once for each host: only the host's first rank prints it, or a process that does not know its rank.
void SayOnce(const char* reason) noexcept {
  if (!Swap(&g.said, false, true)) return;
  const char* local = getenv("LOCAL_RANK");
  if (local == nullptr) local = getenv("SLURM_LOCALID");
  if (local == nullptr) local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  if (local != nullptr && strcmp(local, "0") != 0) return;
  char line[640];
  const int size = snprintf(line, sizeof(line), "lockstep: not recording: %s\n", reason);
  // Writes only if the text fits at once, because a full pipe would block the program. Does not use libc's poll,
  // because a cancelled thread would end there.
  pollfd to{2, POLLOUT, 0};
  timespec at_once{0, 0};
  if (size <= 0 || Sys(SYS_ppoll, &to, 1L, &at_once, nullptr, 8L) != 1 || to.revents != POLLOUT) return;
  // A pipe without a reader, and a file at its size limit (ulimit -f), send a signal that would end the program.
  SignalsHeld held;
  const size_t bytes = static_cast<size_t>(size) < sizeof(line) ? static_cast<size_t>(size) : sizeof(line) - 1;
  constexpr uint64_t kSent = uint64_t{1} << (SIGPIPE - 1) | uint64_t{1} << (SIGXFSZ - 1);
  if (Sys(SYS_write, 2, line, bytes) < 0) Sys(SYS_rt_sigtimedwait, &kSent, nullptr, &at_once, sizeof(kSent));
}

// In a forked child, maps private memory at the address of the parent's ring. A child forked by a signal handler
// continues in the middle of a recorded call and writes there. This keeps it from changing the parent's ring.
void DetachFromParent() noexcept {
  if (!g.ring_is_file || g.map.base == nullptr || Load(g.word) == kRecording) return;
  Sys(SYS_mmap, g.map.base, g.map.bytes, long{PROT_READ | PROT_WRITE},
      long{MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE}, -1L, 0L);
}

bool WatchForks() noexcept {
  if (__register_atfork != nullptr) return __register_atfork(nullptr, nullptr, DetachFromParent, nullptr) == 0;
  using AtFork = int (*)(void (*)(), void (*)(), void (*)());
  const auto at_fork = reinterpret_cast<AtFork>(FindFunction("pthread_atfork", Among::kAll, nullptr));
  return at_fork != nullptr && at_fork(nullptr, nullptr, DetachFromParent) == 0;
}

// In a forked child that creates its own communicator, discards the parent's tables.
void ForgetParent() noexcept {
  DetachFromParent();  // a child that was not created by libc's fork still has the mapping
  ++g.epoch;
  g.map = RingMap{};
  g.stop_word = &g_no_stop;
  g.threads_used = g.rings_used = g.comms_used = g.streams_used = g.root_comms = 0;
  memset(static_cast<void*>(&g_tables), 0, sizeof(g_tables));
  ForgetMarks();
  ForgetPending();
  ForgetEvents();
  profiler::ForgetEvents();
  g.profiler_finds = false;
  ForgetGraphs();
}

void BeginTables(GpuMode gpu, uint8_t cuda) noexcept {
  g.gpu = gpu;
  g.cuda = cuda != 0;
  g.cuda_layers = cuda;
  g.stop_word = &g.map.header->stop_word;
  g.map.header->gpu_marks = static_cast<uint32_t>(gpu);
  g.map.header->host_waits = cuda ? 1 : 0;
  g.next_calibration = Now() + g.map.header->tick_hz / 2;
}

uint32_t* MakePage(const char** reason) noexcept {
  void* page = mmap(nullptr, ring::kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *reason = "the process has no address space left";
  if (page == MAP_FAILED) return nullptr;
  *reason = "the kernel cannot mark memory of forked children (MADV_WIPEONFORK, Linux 4.14)";
  if (Sys(SYS_madvise, page, ring::kPage, 18L /* MADV_WIPEONFORK */) != 0) {
    Sys(SYS_munmap, page, ring::kPage);
    return nullptr;
  }
  return static_cast<uint32_t*>(page);
}

// Sets `reason` if this process must not be recorded, otherwise leaves it empty. `env` has already been read.
void ReasonAgainst(const Environment& env, char* reason, size_t reason_bytes) noexcept {
  reason[0] = 0;
  SetOffFiles(env.folder);
  if (const char* file = OffFile(); file != nullptr) {
    snprintf(reason, reason_bytes, "turned off by the file %s", file);
    return;
  }
  if (!Denied(NcclVersion, reason, reason_bytes)) reason[0] = 0;
}

LOCKSTEP_COLD bool StartNow() noexcept {
  ErrnoKeeper keep;
  if (SwitchedOff()) {
    StoreRelease(g.word, kOff);
    return false;
  }
  profiler::RequestPlugin();  // RequestPlugin may open libraries, so it must not run while others wait for the ring
  SignalsHeld held;
  if (Load(g.word) == kIdle && LoadAcquire(&g.word) == &g_idle_word) {
    const char* why = "";
    uint32_t* page = MakePage(&why);
    if (page == nullptr) {
      SayOnce(why);
      StoreRelease(&g_idle_word, kOff);
      return false;
    }
    if (!Swap(&g.word, &g_idle_word, page)) Sys(SYS_munmap, page, ring::kPage);
  }
  uint32_t* word = LoadAcquire(&g.word);
  if (Swap(word, kIdle, kStarting)) {
    if (g.begun) ForgetParent();
    g.begun = true;
    static Environment env;
    ReadEnvironment(&env);
    char reason[480];
    ReasonAgainst(env, reason, sizeof(reason));
    if (reason[0] != 0 || !CreateRing(&g.map, reason, sizeof(reason))) {
      SayOnce(reason);
      StoreRelease(word, kOff);
      return false;
    }
    g.ring_is_file = true;
    SetBudget(ReadBudget(Setting("LOCKSTEP_BUDGET")));
    g.gpu_sample = env.gpu_sample;
    const char* plugin_note = nullptr;
    if (env.gpu == GpuMode::kProfiler && !profiler::PluginWillLoad(&plugin_note)) env.gpu = GpuMode::kDone;
    if (plugin_note != nullptr) AddNote(plugin_note);
    BeginTables(env.gpu, env.cuda);
    static bool watching_forks;  // children inherit the handler
    if (!watching_forks) watching_forks = WatchForks();
    // In a child that was forked in the meantime, the word was reset. This thread must then not start the recorder.
    if (!Swap(word, kStarting, kRecording)) return false;
    StartHelper();
    return true;
  }
  // Another thread is creating the ring. That takes a fraction of a millisecond, and this wait is bounded.
  const uint64_t since = MonotonicNs();
  while (LoadAcquire(word) == kStarting && MonotonicNs() - since < 500000000) Sys(SYS_sched_yield);
  return LoadAcquire(word) == kRecording;
}

bool IsGone(int32_t tid) noexcept { return Sys(SYS_tgkill, g.map.header->pid, tid, 0) == -ESRCH; }

void EnterCell(ring::ThreadCell* cell, int32_t tid) noexcept {
  cell->call = 0;
  cell->comm = ring::kNoIndex16;
  cell->group_depth = 0;
  cell->wait = 0;
  cell->wait_stream = ring::kNoIndex16;
  cell->gone = 0;
  cell->created_ticks = Now();
  Sys(SYS_prctl, 16L /* PR_GET_NAME */, cell->name);
  ++cell->use;
  StoreRelease(&cell->tid, tid);
}

}  // namespace

bool Start() noexcept {
  const uint32_t word = Load(g.word);
  if (LOCKSTEP_LIKELY(word == kRecording)) return true;
  return word == kOff ? false : StartNow();
}

void StartOn(uint8_t* zeroed, uint64_t bytes, GpuMode gpu) noexcept {
  static uint32_t word;
  ForgetParent();
  LayOut(&g.map, zeroed, bytes);
  ring::Header* header = g.map.header;
  header->tick_kind = ChooseClock(false);
  header->triples[0] = ReadTriple();
  header->triples_written = 1;
  header->created_ticks = header->triples[0].ticks;
  header->tick_hz = 1000000000;
  header->pid = ProcessId();
  header->state = static_cast<uint32_t>(ring::RecorderState::kRecording);
  memcpy(header->magic, ring::kMagic, sizeof(ring::kMagic));
  g.begun = true;
  BeginTables(gpu, kCudaRuntime | kCudaDriver);
  word = kRecording;
  g.word = &word;
}

void Stop(ring::RecorderState state, const char* reason) noexcept {
  ErrnoKeeper keep;
  if (!Swap(g.word, kRecording, kOff)) return;
  CopyText(g.map.header->stop_reason, sizeof(g.map.header->stop_reason), reason);
  Store(&g.map.header->stopped_ticks, Now());
  StoreRelease(&g.map.header->state, static_cast<uint32_t>(state));
}

LOCKSTEP_COLD void StopAndSay(const char* reason) noexcept {
  ErrnoKeeper keep;
  Stop(ring::RecorderState::kStopped, reason);
  SayOnce(reason);
}

LOCKSTEP_COLD bool FromOtherNccl(const void* caller) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  for (const CodeRange& range : g.more_nccl) {
    if (address - range.begin < range.bytes) return true;
  }
  return false;
}

uint32_t NcclCopyOf(const void* caller) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address - g.nccl.begin < g.nccl.bytes) return 0;
  for (uint32_t i = 1; i < kMaxNcclCopies; ++i) {
    if (address - g.more_nccl[i].begin < g.more_nccl[i].bytes) return i;
  }
  return kNone;
}

uint32_t AddNccl(const LoadedObject& object, bool pure) noexcept {
  const uintptr_t begin = object.text_begin;
  if (object.text_end <= begin) return kNone;
  for (uint32_t i = 0; i < kMaxNcclCopies; ++i) {
    if (Swap<uintptr_t>(&g.nccl_texts[i], 0, begin)) {
      CodeRange* range = i == 0 ? &g.nccl : &g.more_nccl[i];
      if (pure) {
        Store(&range->begin, begin);
        StoreRelease(&range->bytes, object.text_end - begin);
      }
      Add(&g.nccl_copies, 1);
      return i;
    }
    if (LoadAcquire(&g.nccl_texts[i]) == begin) return i;
  }
  return kNone;
}

void LeaveGroup(ThreadState* thread) noexcept {
  for (uint32_t i = thread->group_comms; i != kNone;) {
    CommLocal* comm = &g_tables.comms[i];
    if (comm->group_thread != thread->index) break;  // the communicator has since joined another thread's group
    i = comm->group_next;
    comm->in_group = comm->group_init = false;
    comm->group_next = kNone;
  }
  thread->group_comms = kNone;
}

LOCKSTEP_COLD ThreadState* RegisterThread() noexcept {
  ErrnoKeeper keep;
  SignalsHeld held;
  t_local.epoch = g.epoch;
  t_local.state = nullptr;
  const int32_t tid = ThreadId();
  uint32_t index = Load(&g.threads_used);
  while (index < g.map.capacities.threads && !Swap(&g.threads_used, index, index + 1)) index = Load(&g.threads_used);
  if (index < g.map.capacities.threads) {
    Raise(&g.map.header->threads_used, index + 1);
    g.map.threads[index].ring = ring::kNoIndex16;
  } else {
    for (index = 0; index < g.map.capacities.threads; ++index) {
      const int32_t owner = Load(&g.map.threads[index].tid);
      if (owner != 0 && IsGone(owner) && Swap(&g.map.threads[index].tid, owner, 0)) break;
    }
    if (index == g.map.capacities.threads) {
      Add(&g.map.header->dropped_records, 1);
      return nullptr;
    }
  }
  ThreadState* thread = &g_tables.threads[index];
  ring::ThreadCell* cell = &g.map.threads[index];
  ForgetThreadStreams(index);
  // The previous thread in this cell ended inside a group. Its communicators may join another group now.
  if (thread->cell != nullptr) LeaveGroup(thread);
  *thread = ThreadState{};
  thread->index = index;
  thread->cell = cell;
  thread->group_comms = kNone;
  thread->begun = cell->begun;
  thread->ops = cell->ops;
  thread->groups = cell->groups;
  if (cell->ring != ring::kNoIndex16) {
    thread->slots = g.map.rings + static_cast<size_t>(cell->ring) * g.map.capacities.ring_slots;
    thread->mask = g.map.capacities.ring_slots - 1;
  }
  EnterCell(cell, tid);
  Store(&cell->group_depth, t_local.group_depth > 0 ? t_local.group_depth : 0);
  if (t_local.group_depth > 0) Store(&cell->group_since_ticks, Now());
  thread->group_enter = Now();
  t_local.state = thread;
  return thread;
}

LOCKSTEP_COLD void AssignRing(ThreadState* thread) noexcept {
  ErrnoKeeper keep;
  uint32_t ring = Load(&g.rings_used);
  while (ring < g.map.capacities.rings && !Swap(&g.rings_used, ring, ring + 1)) ring = Load(&g.rings_used);
  if (ring >= g.map.capacities.rings) {
    thread->overflow = true;
    return;
  }
  thread->slots = g.map.rings + static_cast<size_t>(ring) * g.map.capacities.ring_slots;
  thread->mask = g.map.capacities.ring_slots - 1;
  StoreRelease(&thread->cell->ring, ring);
}

namespace {

// A thread that was cancelled or called pthread_exit inside an NCCL call must not look stuck there, although its cell
// remains unchanged. Only a few cells are checked at a time, so that this costs almost nothing.
void FindGoneThreads() noexcept {
  static uint32_t next;
  const uint32_t used =
      Load(&g.threads_used) < g.map.capacities.threads ? Load(&g.threads_used) : g.map.capacities.threads;
  uint32_t asked = 0;
  for (uint32_t i = 0; i < used && asked < 8; ++i) {
    ring::ThreadCell* cell = &g.map.threads[Add(&next, 1) % used];
    const int32_t tid = LoadAcquire(&cell->tid);  // pairs with the release in EnterCell
    if (tid == 0 || Load(&cell->gone) != 0) continue;
    if (Load(&cell->call) == 0 && Load(&cell->wait) == 0 && Load(&cell->group_depth) == 0) continue;
    ++asked;
    if (IsGone(tid) && Load(&cell->tid) == tid) Store(&cell->gone, uint16_t{1});
  }
}

// Returns which part of the ring another process or a bug in the recorder has overwritten; null if none.
const char* Inconsistency() noexcept {
  const ring::Header* header = g.map.header;
  if (memcmp(header->magic, ring::kMagic, sizeof(ring::kMagic)) != 0 || header->file_bytes != g.map.bytes) {
    return "the ring's header was overwritten";
  }
  if (Load(&header->state) != static_cast<uint32_t>(ring::RecorderState::kRecording) && Recording()) {
    return "the state in the ring's header was overwritten";
  }
  const ThreadState* thread = t_local.state;
  if (thread != nullptr && (thread->cell->begun != thread->begun || thread->cell->ops != thread->ops)) {
    return "a thread's counters were overwritten";
  }
  return nullptr;
}

void WriteTriple() noexcept {
  ring::Header* header = g.map.header;
  const uint64_t n = Add(&header->triples_written, 1);
  ring::ClockTriple* slot = &header->triples[1 + (n - 1) % (ring::kClockTriples - 1)];
  const ring::ClockTriple fresh = ReadTriple();
  StoreRelease(&slot->ticks, 0);
  FenceRelease();
  Store(&slot->mono_ns, fresh.mono_ns);
  Store(&slot->real_ns, fresh.real_ns);
  Store(&slot->check, fresh.check);
  StoreRelease(&slot->ticks, fresh.ticks);
}

void CalibrateNow() noexcept {
  if (const char* file = OffFile(); file != nullptr) {
    char reason[400];
    snprintf(reason, sizeof(reason), "turned off by the file %s", file);
    Stop(ring::RecorderState::kStopped, reason);
    return;
  }
  if (const char* wrong = Inconsistency(); wrong != nullptr) {
    StopAndSay(wrong);
    return;
  }
  FindGoneThreads();
  static uint32_t times;
  if ((Add(&times, 1) & 1) == 0) WriteTriple();
}

}  // namespace

LOCKSTEP_COLD void Calibrate(uint64_t now) noexcept {
  ErrnoKeeper keep;
  const uint64_t due = Load(&g.next_calibration);
  const uint64_t hz = g.map.header->tick_hz != 0 ? g.map.header->tick_hz : 1000000000;
  if (now < due || !Swap(&g.next_calibration, due, now + hz / 2)) return;
  // A signal handler's call would change the counters while they are compared, so it is not recorded.
  InsideMark mark;
  ThreadState* thread = t_local.state;
  const InsideMark* outer = thread != nullptr ? thread->inside : nullptr;
  if (thread != nullptr) EnterCall(thread, &mark);
  CalibrateNow();
  if (thread != nullptr) thread->inside = outer;
}

CallSite FindCallSite(const void* caller) noexcept {
  if (LOCKSTEP_UNLIKELY(caller == nullptr)) return {0, 0};
  const auto address = reinterpret_cast<uintptr_t>(caller);
  uint32_t at = static_cast<uint32_t>((address * 0x9e3779b97f4a7c15u) >> 40);
  for (uint32_t probe = 0; probe < kSiteProbes; ++probe, ++at) {
    Site* site = &g_sites[at % kSites];
    const uintptr_t here = LoadAcquire(&site->address);  // pairs with the release in AddSite
    if (LOCKSTEP_LIKELY(here == address)) return {site->offset, site->object};
    if (here == 0) return AddSite(site, caller);
  }
  return {0, 0};
}

// The only action at exit: records that the process ended on its own.
__attribute__((destructor)) static void MarkCleanExit() {
  if (Load(g.word) != kRecording || g.map.header == nullptr) return;
  if (g.map.header->pid != ProcessId())
    return;  // the process is a child that shares its parent's pages (vfork, or clone with CLONE_VM)
  Stop(ring::RecorderState::kCleanExit, "");
}

}  // namespace lockstep::recorder
