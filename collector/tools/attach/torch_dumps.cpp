#include "collector/tools/attach/torch_dumps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/host/owner_rights.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr char kPipe[] = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";
// Older PyTorch knows only the second name, so the paths of both variables are tried.
constexpr const char* kPrefixes[] = {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"};
constexpr uint64_t kMostTorchDump = 32 << 20, kMostTogether = 256 << 20;
constexpr int kBetweenMs = 100;  // a file that is unchanged for this long is complete
constexpr int64_t kSettle = kSecond / 2, kSpare = 2 * kSecond;
// Limits for files that were not requested. A file that is old, or much older than the newest one, shows another state
// of the job.
constexpr int64_t kOldest = 300 * kSecond, kOneMoment = 60 * kSecond;

enum class Outcome : uint8_t {
  kDump,
  kNotConfigured,
  kNoPipe,
  kNoReader,
  kForeignPipe,
  kSilent,
  kForeignDump,
  kTooLarge,
  kIncomplete,
  kNoRights,
  kEnd,
};

std::string Why(Outcome outcome, int64_t wait_ns) {
  switch (outcome) {
    case Outcome::kNotConfigured: return absl::StrCat("the process was started without ", kPipe);
    case Outcome::kNoPipe:
      return absl::StrCat("PyTorch has not created the pipe: ", kPipe,
                          " works only with NCCL process groups, and only if TORCH_FR_BUFFER_SIZE "
                          "(TORCH_NCCL_TRACE_BUFFER_SIZE) is not 0");
    case Outcome::kNoReader: return "nothing reads the pipe: PyTorch's monitoring thread has exited or is off";
    case Outcome::kForeignPipe: return "the file at the pipe's path is not a pipe owned by the job's user";
    case Outcome::kSilent: return absl::StrCat("no dump was written within ", DurationText(wait_ns));
    case Outcome::kForeignDump: return "the file at the dump's path is not a regular file owned by the job's user";
    case Outcome::kTooLarge: return absl::StrCat("the dump is larger than ", kMostTorchDump >> 20, " MiB");
    case Outcome::kIncomplete: return "the dump was not complete in time";
    case Outcome::kNoRights: return "could not switch to the job's user";
    default: return "the file could not be read";
  }
}

// The child writes this for each rank, before the bytes of the dump.
struct DumpHead {
  uint64_t of;
  int64_t written_ns;
  uint64_t bytes;
  Outcome outcome;
  bool has_pipe;
};

struct Stamp {
  bool exists = false;
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  int64_t written_ns = 0;
  bool operator==(const Stamp&) const = default;
};

struct DumpFile {
  std::string path;
  Stamp before, last;
};

struct Place {
  pid_t pid = 0;
  uid_t uid = 0;
  int64_t started_ns = 0;  // real time
  UniqueFd root, folder;
  bool own_root = false;
  std::string pipe;
  std::vector<DumpFile> candidates;
  Outcome outcome = Outcome::kNotConfigured;
  bool has_pipe = false;
  std::string bytes;
  int64_t written_ns = 0;
  bool told = false;  // the child has sent this rank's result to the parent
};

std::string Variable(pid_t pid, const char* name) { return ReadEnvironment(pid, name).value_or(""); }

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

// Returns the path prefixes that PyTorch uses if no variable is set, newest version first.
std::vector<std::string> DefaultPrefixes(pid_t pid) {
  const std::string home = Variable(pid, "HOME"), cache = Variable(pid, "XDG_CACHE_HOME");
  const std::string usual = absl::StrCat(home.empty() ? "/tmp" : home, "/.cache");
  return {absl::StrCat(cache.empty() ? usual : cache, "/torch/comm_lib_trace_rank_"),
          absl::StrCat(usual, "/torch/comm_lib_trace_rank_"), absl::StrCat(usual, "/torch/nccl_trace_rank_"),
          "/tmp/nccl_trace_rank_"};
}

// Finds the paths of the rank's pipe and dumps. Needs permission to read the process's /proc entries.
Place PlaceOf(const RankProcess& rank, bool ask) {
  Place place;
  place.pid = rank.pid;
  place.uid = rank.uid;
  const std::string folder = absl::StrCat("/proc/", rank.pid);
  place.root.reset(open((folder + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  place.folder.reset(open((folder + "/cwd").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  place.own_root = IsSameFile(folder + "/ns/mnt", "/proc/self/ns/mnt") && IsSameFile(folder + "/root", "/");
  if (const std::optional<ProcStat> stat = ReadProcStat(rank.pid)) place.started_ns = stat->StartedRealNs();
  if (const std::string pipe = Variable(rank.pid, kPipe); !pipe.empty())
    place.pipe = absl::StrCat(pipe, rank.rank, ".pipe");
  std::vector<std::string> prefixes;
  for (const char* name : kPrefixes) {
    if (std::string prefix = Variable(rank.pid, name); !prefix.empty()) prefixes.push_back(std::move(prefix));
  }
  // Other jobs also write to the default paths, but a file that changes on request belongs to this job.
  if (prefixes.empty() && ask) prefixes = DefaultPrefixes(rank.pid);
  for (const std::string& prefix : prefixes) {
    std::string path = absl::StrCat(prefix, rank.rank);
    const auto same = [&path](const DumpFile& candidate) { return candidate.path == path; };
    if (std::none_of(place.candidates.begin(), place.candidates.end(), same))
      place.candidates.push_back({.path = std::move(path), .before = {}, .last = {}});
  }
  return place;
}

// Opens a path as the process sees it, with O_PATH. If the last part is a link, opens the link itself.
UniqueFd FindFile(const Place& place, const std::string& path) {
  const bool absolute = path[0] == '/';
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS | (absolute ? RESOLVE_IN_ROOT : RESOLVE_BENEATH);
  const int from = absolute ? place.root.get() : place.folder.get();
  UniqueFd fd(static_cast<int>(syscall(SYS_openat2, from, path.c_str(), &how, sizeof how)));
  // Linux before 5.6 has no openat2. If the process sees the same files as this one, the permissions of its user are a
  // sufficient limit.
  if (!fd.ok() && errno == ENOSYS && place.own_root) fd.reset(openat(from, path.c_str(), static_cast<int>(how.flags)));
  return fd;
}

// Opens the found file by its descriptor, because the path may point elsewhere by now.
UniqueFd Reopen(const UniqueFd& found, int flags) {
  return UniqueFd(open(absl::StrCat("/proc/self/fd/", found.get()).c_str(), flags | O_NONBLOCK | O_CLOEXEC));
}

Stamp StampOf(const struct stat& info) {
  const int64_t seconds =
      std::clamp<int64_t>(info.st_mtim.tv_sec, 0, int64_t{1} << 32);  // the job may have set any time
  return {true, info.st_dev, info.st_ino, info.st_size, seconds * kSecond + info.st_mtim.tv_nsec};
}

Stamp StampAt(const Place& place, const std::string& path) {
  struct stat info {};
  const UniqueFd found = FindFile(place, path);
  return found.ok() && fstat(found.get(), &info) == 0 ? StampOf(info) : Stamp();
}

Outcome Ask(Place* place) {
  if (place->pipe.empty()) return Outcome::kNotConfigured;
  struct stat info {};
  const UniqueFd found = FindFile(*place, place->pipe);
  if (!found.ok() || fstat(found.get(), &info) != 0) return Outcome::kNoPipe;
  if (!S_ISFIFO(info.st_mode) || info.st_uid != place->uid) return Outcome::kForeignPipe;
  const UniqueFd pipe = Reopen(found, O_WRONLY);
  if (!pipe.ok()) return errno == ENXIO ? Outcome::kNoReader : Outcome::kForeignPipe;
  // A full pipe already contains a request.
  return write(pipe.get(), "1", 1) == 1 || errno == EAGAIN ? Outcome::kSilent : Outcome::kNoReader;
}

bool HasPipe(const Place& place) {
  struct stat info {};
  const UniqueFd found = place.pipe.empty() ? UniqueFd() : FindFile(place, place.pipe);
  return found.ok() && fstat(found.get(), &info) == 0 && S_ISFIFO(info.st_mode) && info.st_uid == place.uid;
}

// Returns whether the dump is complete: a pickle ends with a stop opcode, a JSON text with a brace.
bool IsComplete(std::string_view bytes) {
  while (!bytes.empty() && (bytes.back() == '\n' || bytes.back() == ' ')) bytes.remove_suffix(1);
  return !bytes.empty() && (bytes.back() == '.' || bytes.back() == '}');
}

bool IsRecent(const Place& place, const Stamp& stamp) {
  return stamp.written_ns >= place.started_ns && std::llabs(RealtimeNs() - stamp.written_ns) <= kOldest;
}

// Takes the dump if it exists and is complete. `*together`: total bytes of all dumps so far.
void Try(bool ask, Place* place, uint64_t* together) {
  for (DumpFile& candidate : place->candidates) {
    struct stat info {};
    const UniqueFd found = FindFile(*place, candidate.path);
    if (!found.ok() || fstat(found.get(), &info) != 0) continue;
    const Stamp stamp = StampOf(info);
    const bool settled = stamp == candidate.last;
    candidate.last = stamp;
    if (ask ? stamp == candidate.before && S_ISREG(info.st_mode) : !IsRecent(*place, stamp)) continue;
    if (!S_ISREG(info.st_mode) || info.st_uid != place->uid) {
      if (&candidate == &place->candidates.front()) place->outcome = Outcome::kForeignDump;
      continue;
    }
    const uint64_t most = std::min(kMostTorchDump, kMostTogether - std::min(kMostTogether, *together));
    if (static_cast<uint64_t>(info.st_size) > most) {
      place->outcome = Outcome::kTooLarge;
      continue;
    }
    place->outcome = Outcome::kIncomplete;
    if (!settled) continue;
    const UniqueFd file = Reopen(found, O_RDONLY);
    absl::StatusOr<std::string> bytes = ReadWholeFile(file.get(), candidate.path, most);
    if (!bytes.ok() || !IsComplete(*bytes)) continue;
    *together += bytes->size();
    place->bytes = *std::move(bytes);
    place->written_ns = stamp.written_ns;
    place->outcome = Outcome::kDump;
    return;
  }
}

void Tell(size_t of, int to, Place* place) {
  place->told = true;
  WritePiece(to, DumpHead{of, place->written_ns, 0, place->outcome, place->has_pipe}, std::exchange(place->bytes, ""));
}

// Sends each dump as soon as it is complete, because reading the next file may never return.
void Collect(bool ask, int64_t wait_ns, int to, std::vector<Place>* places) {
  for (Place& place : *places) {
    for (DumpFile& candidate : place.candidates) candidate.before = StampAt(place, candidate.path);
  }
  for (Place& place : *places) {
    place.has_pipe = HasPipe(place);
    if (ask) place.outcome = Ask(&place);
  }
  uint64_t together = 0;
  const int64_t end = MonotonicNs() + wait_ns, deadline = ask ? end : MonotonicNs() + kSettle;
  for (bool pending = true; pending && MonotonicNs() < deadline; poll(nullptr, 0, kBetweenMs)) {
    pending = false;
    for (size_t i = 0; i < places->size() && MonotonicNs() < end; ++i) {
      Place& place = (*places)[i];
      const bool expected = !ask || place.outcome >= Outcome::kSilent;
      if (place.told || !expected) continue;
      Try(ask, &place, &together);
      if (place.outcome == Outcome::kDump) Tell(i, to, &place);
      // Without a request, no new file appears, but one that is being written may soon be complete.
      pending |= !place.told && (ask || place.outcome == Outcome::kIncomplete);
    }
  }
}

void LookForDumps(const FoundJob& job, bool ask, int64_t wait_ns, int to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<Place> places;
  for (const RankProcess& rank : job.ranks) places.push_back(PlaceOf(rank, ask));
  const pid_t first = job.ranks[0].pid;
  const uid_t user = job.ranks[0].uid;
  const std::string refused = TakeOwnersRights(first);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // set again, because a change of user clears it
  if (refused.empty() && geteuid() == user) {
    // All ranks of a job belong to one user, but the PIDs on the command line may belong to several.
    for (Place& place : places) {
      if (place.uid != user) place.pipe.clear(), place.candidates.clear();
    }
    Collect(ask, wait_ns, to, &places);
  } else {
    for (Place& place : places) place.outcome = Outcome::kNoRights;
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i].told) Tell(i, to, &places[i]);
  }
}

}  // namespace

TorchDumpReader::TorchDumpReader(const FoundJob& job, bool ask, int64_t wait_ns)
    : job_(job), ask_(ask), wait_ns_(wait_ns), deadline_ns_(MonotonicNs() + wait_ns + kSpare) {
  // If this program numbered the ranks, the numbers in the file names are unknown.
  if (!job.numbered) child_.emplace([this](int to) { LookForDumps(job_, ask_, wait_ns_, to); });
}

TorchDumps TorchDumpReader::Take() {
  TorchDumps found;
  std::map<Outcome, std::vector<int32_t>> missing;
  std::string bytes;
  if (child_) bytes = child_->Take(std::max(deadline_ns_, MonotonicNs() + kSpare), kMostTogether + (64 << 20));
  std::vector<bool> answered(job_.ranks.size());
  size_t pipes = 0;
  ForEachPiece<DumpHead>(bytes, [&](const DumpHead& head, std::string dump) {
    if (head.of >= job_.ranks.size()) return false;
    answered[head.of] = true;
    pipes += head.has_pipe;
    if (head.outcome == Outcome::kDump) {
      found.dumps.push_back({head.of, std::move(dump), head.written_ns});
    } else {
      missing[head.outcome].push_back(job_.ranks[head.of].rank);
    }
    return true;
  });
  std::sort(found.dumps.begin(), found.dumps.end(), [](const TorchDump& a, const TorchDump& b) { return a.of < b.of; });
  if (!ask_) {
    int64_t newest = 0;
    for (const TorchDump& dump : found.dumps) newest = std::max(newest, dump.written_ns);
    std::erase_if(found.dumps, [&](const TorchDump& dump) {
      const bool old = newest - dump.written_ns > kOneMoment;
      if (old) missing[Outcome::kSilent].push_back(job_.ranks[dump.of].rank);
      return old;
    });
  }
  for (size_t i = 0; i < answered.size(); ++i) {
    if (!answered[i]) missing[Outcome::kEnd].push_back(job_.ranks[i].rank);
  }
  found.can_ask = !ask_ && pipes > 0 && !missing.empty();
  if (!ask_ || missing.empty()) return found;
  if (job_.numbered) {
    found.missing = "PyTorch was not asked for its dumps: its pipe names contain the rank, and the ranks are unknown";
    return found;
  }
  found.missing = "no Flight Recorder dump from ";
  const char* separator = "";
  for (const auto& [outcome, ranks] : missing) {
    absl::StrAppend(&found.missing, separator, "rank ", FoldRanks(ranks), " (", Why(outcome, wait_ns_), ")");
    separator = "; ";
  }
  return found;
}

}  // namespace lockstep
