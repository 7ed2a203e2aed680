#include "recorder/base/ring_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "recorder/base/clock.h"
#include "recorder/base/environment.h"
#include "recorder/base/old_rings.h"
#include "recorder/base/reading_group.h"
#include "recorder/base/ring_space.h"
#include "recorder/base/sys.h"
#include "recorder/ring/file_systems.h"
#include "recorder/ring/snapshot.h"

namespace lockstep::recorder {
namespace {

// Lets `strings` show the library's version, which its soname does not contain.
const char kVersionLine[] = "liblockstep " LOCKSTEP_VERSION;

using ring::Section;
using ring::SectionKind;

// Returns whether `fd` is a folder and, with `strict`, belongs to this user. Uses the raw system call because libc's
// fstat symbol is too new, and old containers refuse statx.
bool IsOwnFolder(long fd, bool strict) noexcept {
  struct stat info {};
  if (Sys(SYS_fstat, fd, &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  return !strict || info.st_uid == static_cast<uint32_t>(Sys(SYS_geteuid));
}

void MakeParents(const char* path) noexcept {
  char part[400];
  CopyText(part, sizeof(part), path);
  for (char* c = part + 1; *c != 0; ++c) {
    if (*c != '/') continue;
    *c = 0;
    Sys(SYS_mkdirat, AT_FDCWD, part, 0700);
    *c = '/';
  }
  Sys(SYS_mkdirat, AT_FDCWD, part, 0700);
}

// Covers only errors that the user can act on. libc's own texts would need its locale.
const char* ErrorText(long error) noexcept {
  switch (error < 0 ? -error : error) {
    case EACCES: return "permission denied";
    case EPERM: return "not permitted";
    case EROFS: return "read-only file system";
    case ENOENT: return "no such folder";
    case ENOTDIR: return "not a folder";
    case ELOOP: return "a link, which is not followed";
    case ENOSPC: return "no space left";
    case EDQUOT: return "quota exceeded";
    case EMFILE: return "the process has too many open files (ulimit -n)";
    case ENFILE: return "the host has too many open files";
    case ENOMEM: return "out of memory or address space (ulimit -v)";
    case EFBIG: return "file too large (ulimit -f)";
    case ENAMETOOLONG: return "name too long";
    case ENOSYS: return "the system refuses this call (seccomp?)";
    case EIO: return "input/output error";
    default: return "error";
  }
}

struct Folders {
  long top = -1;  // the folder in LOCKSTEP_DIR
  long job = -1;  // its subfolder <job>.<restart>
  Folders() noexcept = default;
  ~Folders() {
    if (top >= 0) Sys(SYS_close, top);
    if (job >= 0) Sys(SYS_close, job);
  }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;
};

// Opens the folders, and creates missing ones. Returns false with a reason if they cannot be used. Others can guess the
// name of the default folder, so it must belong to this user and not be a link. A folder that the user chose may be
// shared.
bool OpenFolders(const Environment& env, int64_t group, Folders* folders, char* reason,
                 unsigned reason_bytes) noexcept {
  MakeParents(env.folder);
  const int link_rule = env.folder_is_default ? O_NOFOLLOW : 0;
  const long top = folders->top =
      Sys(SYS_openat, AT_FDCWD, env.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | link_rule, 0);
  if (top < 0) {
    snprintf(reason, reason_bytes, "cannot use the folder %s: %s (%ld)", env.folder, ErrorText(top), -top);
    return false;
  }
  if (!IsOwnFolder(top, env.folder_is_default)) {
    snprintf(reason, reason_bytes, "the folder %s belongs to another user", env.folder);
    return false;
  }
  // The owner of a shared folder decides whether a group may read it.
  if (group >= 0 && IsOwnFolder(top, true)) LetGroupRead(top, group, true);
  Sys(SYS_mkdirat, top, env.job_folder, 0700);
  const long job = folders->job =
      Sys(SYS_openat, top, env.job_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
  if (job < 0) {
    snprintf(reason, reason_bytes, "cannot create the folder %s/%s: %s (%ld)", env.folder, env.job_folder,
             ErrorText(job), -job);
    return false;
  }
  struct statfs system {};
  if (Sys(SYS_fstatfs, job, &system) == 0 && !ring::IsFitFileSystem(static_cast<uint32_t>(system.f_type))) {
    snprintf(
        reason, reason_bytes,
        "the folder %s is not on tmpfs, ext4, XFS or similar; elsewhere, a server or a full disk could stop the job",
        env.folder);
    return false;
  }
  return true;
}

// Returns the process's limit for file sizes. Growing a file beyond it raises SIGXFSZ, which would end the process.
uint64_t FileSizeLimit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

struct RingFile {
  long fd = -1;
  uint64_t bytes = 0;  // the size of the reserved space
  ring::RingPlace place = ring::RingPlace::kFolder;
  char name[256] = {};
};

// Sets the name HOST.PID.RANDOM.ring.
void NameFile(const Environment& env, RingFile* file) noexcept {
  uint64_t random = 0;
  if (Sys(SYS_getrandom, &random, sizeof(random), 1 /* GRND_NONBLOCK */) != sizeof(random)) random = Mix(Counter());
  snprintf(file->name, sizeof(file->name), "%.120s.%d.%08x.ring", env.host, ProcessId(),
           static_cast<unsigned>(random ^ (random >> 32)));
}

// Creates the file in the job's folder or, if there is no space, in memory. Returns false with a reason on failure.
bool MakeFile(const Environment& env, const Folders& folders, uint64_t wanted, RingFile* file, char* reason,
              unsigned reason_bytes) noexcept {
  NameFile(env, file);
  RingShare share;
  file->fd = Sys(SYS_openat, folders.job, file->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file->fd >= 0) {
    share = ReserveShare(folders.top, folders.job, file->fd, wanted, env.local_ranks);
    file->bytes = share.bytes;
    if (share.bytes != 0) return true;
    Sys(SYS_unlinkat, folders.job, file->name, 0);
    Sys(SYS_close, file->fd);
  } else if (file->fd != -ENOSPC) {
    snprintf(reason, reason_bytes, "cannot create a file in %s/%s: %s (%ld)", env.folder, env.job_folder,
             ErrorText(file->fd), -file->fd);
    return false;
  }
  NameFile(env, file);  // a reader of the first file must be able to distinguish the two
  file->fd = MakeMemoryFile(file->name, wanted);
  file->bytes = wanted;
  file->place = ring::RingPlace::kMemory;
  if (file->fd >= 0) return true;
  snprintf(reason, reason_bytes,
           "no room for a ring in %s (all rings may take %llu KiB, others take %llu KiB) or in memory: %s "
           "(%ld)",
           env.folder, static_cast<unsigned long long>(share.budget >> 10),
           static_cast<unsigned long long>(share.others >> 10), ErrorText(file->fd), -file->fd);
  return false;
}

// Creates a symbolic link with the ring's name to a ring in memory. A link takes no space in a tmpfs.
bool LeaveLink(const Folders& folders, const RingFile& file) noexcept {
  char target[64];
  snprintf(target, sizeof(target), "/proc/%d/fd/%ld", ProcessId(), file.fd);
  return Sys(SYS_symlinkat, target, folders.job, file.name) == 0;
}

void FillHeader(ring::Header* header, const Environment& env) noexcept {
  header->pid = ProcessId();
  header->uid = static_cast<uint32_t>(Sys(SYS_geteuid));
  header->restart_count = env.restart_count;
  header->rank = env.rank;
  header->world_size = env.world_size;
  header->local_rank = env.local_rank;
  header->start_ticks = ProcessStartTicks();
  header->pid_namespace_inode = PidNamespaceInode();
  ReadBootId(header->boot_id, sizeof(header->boot_id));
  CopyText(header->host, sizeof(header->host), env.host);
  CopyText(header->job, sizeof(header->job), env.job);
  CopyText(header->step, sizeof(header->step), env.step);
  CopyText(header->note, sizeof(header->note), env.note);
  CopyText(header->recorder_version, sizeof(header->recorder_version), kVersionLine + sizeof("liblockstep"));
  header->host_waits = env.cuda ? 1 : 0;
}

}  // namespace

void LayOut(RingMap* map, uint8_t* base, uint64_t bytes) noexcept {
  const ring::Capacities capacity = ring::CapacitiesFor(bytes);
  map->base = base;
  map->bytes = bytes;
  map->capacities = capacity;
  auto* header = reinterpret_cast<ring::Header*>(base);
  map->header = header;
  uint64_t offset = ring::kPage;
  uint32_t used = 0;
  auto place = [&](SectionKind kind, uint64_t stride, uint64_t count) noexcept {
    Section& section = header->sections[used++];
    section.kind = kind;
    section.offset = offset;
    section.stride = stride;
    section.count = count;
    uint8_t* at = base + offset;
    offset = (offset + stride * count + ring::kPage - 1) & ~(ring::kPage - 1);
    return at;
  };
  map->comms = reinterpret_cast<ring::CommEntry*>(place(SectionKind::kComms, sizeof(ring::CommEntry), capacity.comms));
  map->peers = reinterpret_cast<ring::PeerEntry*>(place(SectionKind::kPeers, sizeof(ring::PeerEntry), capacity.peers));
  map->threads =
      reinterpret_cast<ring::ThreadCell*>(place(SectionKind::kThreads, sizeof(ring::ThreadCell), capacity.threads));
  map->streams =
      reinterpret_cast<ring::StreamCell*>(place(SectionKind::kStreams, sizeof(ring::StreamCell), capacity.streams));
  const uint64_t marks_at = offset;
  map->marks = reinterpret_cast<ring::MarkLine*>(place(SectionKind::kMarks, sizeof(ring::MarkLine), capacity.streams));
  map->marks_bytes = offset - marks_at;
  map->rings = reinterpret_cast<ring::OpSlot*>(
      place(SectionKind::kRings, sizeof(ring::OpSlot) * capacity.ring_slots, capacity.rings));
  map->overflow =
      reinterpret_cast<ring::OpSlot*>(place(SectionKind::kOverflow, sizeof(ring::OpSlot), capacity.overflow_slots));
  map->kernels =
      reinterpret_cast<ring::KernelEntry*>(place(SectionKind::kKernels, sizeof(ring::KernelEntry), capacity.kernels));
  map->profiler = reinterpret_cast<ring::ProfilerState*>(map->kernels);
  map->proxies =
      reinterpret_cast<ring::ProxyEntry*>(place(SectionKind::kProxies, sizeof(ring::ProxyEntry), capacity.proxies));
  map->graphs =
      reinterpret_cast<ring::GraphCell*>(place(SectionKind::kGraphs, sizeof(ring::GraphCell), capacity.graphs));
  map->graph_ops =
      reinterpret_cast<ring::GraphOp*>(place(SectionKind::kGraphOps, sizeof(ring::GraphOp), capacity.graph_ops));
  map->times = reinterpret_cast<ring::TimeSlot*>(place(SectionKind::kTimes, sizeof(ring::TimeSlot), capacity.times));
  header->section_count = used;
  header->layout_version = ring::kLayoutVersion;
  header->min_reader_version = ring::kMinReaderVersion;
  header->header_bytes = sizeof(ring::Header);
  header->endian_mark = ring::kEndianMark;
  header->file_bytes = bytes;
  header->rank = header->world_size = header->local_rank = header->gpu_index = -1;
}

bool AddHelper(RingMap* map) noexcept {
  ring::Header* header = map->header;
  const Section& last = header->sections[header->section_count - 1];
  const uint64_t offset = (last.offset + last.stride * last.count + ring::kPage - 1) & ~(ring::kPage - 1);
  if (header->section_count >= ring::kMaxSections || offset + sizeof(ring::HelperArea) > map->bytes) return false;
  Section& section = header->sections[header->section_count++];
  section.kind = SectionKind::kHelper;
  section.offset = offset;
  section.stride = sizeof(ring::HelperArea);
  section.count = 1;
  map->helper = reinterpret_cast<ring::HelperArea*>(map->base + offset);
  return true;
}

bool CreateRing(RingMap* map, char* reason, unsigned reason_bytes) noexcept {
  static Environment env;  // too large for the stack; only one thread at a time is in CreateRing
  ReadEnvironment(&env);
  const int64_t group = env.group[0] == 0 ? -1 : FindGroup(env.group);
  Folders folders;
  if (!OpenFolders(env, group, &folders, reason, reason_bytes)) return false;
  const uint64_t largest = FileSizeLimit();
  if (largest < ring::kMinFileBytes) {
    snprintf(reason, reason_bytes, "the process may not write files of 256 KiB (ulimit -f)");
    return false;
  }
  uint64_t wanted = env.ring_bytes;
  while (wanted > largest) wanted /= 2;
  RingFile file;
  if (!MakeFile(env, folders, wanted, &file, reason, reason_bytes)) return false;
  const bool in_memory = file.place == ring::RingPlace::kMemory;
  const uint64_t bytes = file.bytes;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(file.fd), 0);
  bool group_reads = group >= 0 && !in_memory;
  if (group_reads)
    group_reads =
        IsOwnFolder(folders.job, true) && LetGroupRead(folders.job, group, true) && LetGroupRead(file.fd, group, false);
  if (!in_memory || base == MAP_FAILED) Sys(SYS_close, file.fd);
  if (base == MAP_FAILED) {
    Sys(SYS_unlinkat, folders.job, file.name, 0);
    snprintf(reason, reason_bytes, "cannot map %llu KiB: %s (%d)", static_cast<unsigned long long>(bytes >> 10),
             ErrorText(ENOMEM), ENOMEM);
    return false;
  }
  snprintf(map->path, sizeof(map->path), "%s/%s/%s", env.folder, env.job_folder, file.name);
  LayOut(map, static_cast<uint8_t*>(base), bytes);
  const bool no_helper = env.helper && !AddHelper(map);
  ring::Header* header = map->header;
  header->tick_kind = ChooseClock(env.monotonic_clock);
  FillHeader(header, env);
  header->place = static_cast<uint32_t>(file.place);
  header->wanted_bytes = wanted;
  if (no_helper && header->note[0] == 0)
    CopyText(header->note, sizeof(header->note), "LOCKSTEP_HELPER: the ring file is too small for the helper");
  if (env.group[0] != 0 && !group_reads && header->note[0] == 0) {
    snprintf(header->note, sizeof(header->note), "LOCKSTEP_GROUP: %s; only its owner can read the ring",
             group < 0   ? "no such group"
             : in_memory ? "the ring is in the process's memory"
                         : "the process is not a member of the group");
  }
  // Two readings a short time apart give a first estimate of the rate. Later readings improve it.
  header->triples[0] = ReadTriple();
  while (MonotonicNs() - static_cast<uint64_t>(header->triples[0].mono_ns) < 200000) {
  }
  header->triples[1] = ReadTriple();
  header->triples_written = 2;
  const auto span = static_cast<uint64_t>(header->triples[1].mono_ns - header->triples[0].mono_ns);
  header->tick_hz = span == 0 ? 0 : (header->triples[1].ticks - header->triples[0].ticks) * 1000000000u / span;
  header->created_ticks = header->triples[0].ticks;
  header->state = 1;  // 1: recording
  FenceRelease();
  memcpy(header->magic, ring::kMagic, sizeof(ring::kMagic));
  if (in_memory && !LeaveLink(folders, file)) {
    Sys(SYS_munmap, base, bytes);
    Sys(SYS_close, file.fd);
    *map = RingMap{};
    snprintf(reason, reason_bytes, "no room in %s for a ring, or for a link to a ring in memory", env.folder);
    return false;
  }
  MarkReplacedRings(folders.job, file.name, *header);
  return true;
}

}  // namespace lockstep::recorder
