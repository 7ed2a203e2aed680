#include "collector/agent/host_source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/ring/loader.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/time_units.h"
#include "collector/agent/encode_digest.h"
#include "collector/agent/saved_ring.h"
#include "collector/detect/ends.h"
#include "collector/evidence/process_look.h"
#include "collector/rings/snapshot_merge.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

// The agent drops a file that is still unreadable after this time (recorders make their files readable within moments).
// It also drops a job that it never saw alive.
constexpr int64_t kUnreadableAfter = 60 * kSecond;
// A job without living processes is kept this long, for late requests.
constexpr int64_t kLinger = 600 * kSecond;
constexpr size_t kMostRings = 4096;
// After this long without progress, a rank's CPU and I/O are sampled, so that two samples exist when they are
// requested.
constexpr int64_t kSampleAfter = 1500 * kMs;
constexpr int64_t kSampleEvery = 1050 * kMs;
// The watcher's thread notices an exit at most this much later.
constexpr int64_t kEndUncertainty = 5 * kMs;

// Returns the rank number from the launcher, otherwise the index in the largest communicator without a parent. Returns
// -1 if there is none, or if it is above kMostRank.
int32_t RankOf(const ring::Snapshot& digest) {
  if (digest.process.rank >= 0) return digest.process.rank <= kMostRank ? digest.process.rank : -1;
  const ring::CommSnapshot* largest = nullptr;
  for (const ring::CommSnapshot& comm : digest.comms) {
    if (comm.member_rank >= 0 && comm.parent_id == 0 && (largest == nullptr || comm.size > largest->size))
      largest = &comm;
  }
  return largest == nullptr || largest->member_rank > kMostRank ? -1 : largest->member_rank;
}

}  // namespace

struct HostSource::Job {
  JobIdentity identity;
  std::vector<RankSight> sights;
  bool changed = true;  // one of the job's rings has changed since the sights were built
  std::set<int32_t> claimed_twice;
  bool lived = false;  // a process of the job was seen alive
  int64_t last_live_ns = 0, last_asked_ns = 0;
};

struct HostSource::Ring {
  uint64_t key = 0;
  FoundRing file;
  bool from_spool = false;
  int64_t adopted_ns = 0;
  bool readable = false;
  bool replaced = false;  // the process has a newer ring
  std::string base;       // the job's serialized identity, without the number that separates jobs with the same name
  Job* job = nullptr;     // null while Namesakes has not decided
  int32_t rank = -1;
  pid_t pid = 0;        // the process's PID on this host; 0 if unknown
  pid_t shown_pid = 0;  // like pid, but kept after the process exits; 0 to use the process's own PID
  pid_t HostPid() const { return shown_pid > 0 ? shown_pid : digest.process.pid; }
  std::string identity;  // the process's PID namespace, PID, start and creation time
  bool alive = false, saved = false, told = true;
  int64_t ended_real_ns = 0;
  int64_t end_uncertainty_ns = kEndUncertainty;
  char state = 0;
  int64_t traced_ns = 0;  // when the process was first seen traced; 0 if it is not traced
  ring::Snapshot digest;  // from the last scan or, for a process that exited, from its end
  size_t bytes = 0;
  Process process;
  ProcessSampler sampler;
  ProcessLook look;
  std::shared_ptr<MarkTimes> marks;  // null if the process has no GPU progress markers, or none yet
  uint64_t progress_mark = 0;
  int64_t progress_ns = 0;
};

HostSource::HostSource(const HostSourceOptions& options, Spool* spool)
    : options_(options), began_ns_(MonotonicNs()), spool_(spool) {}

HostSource::~HostSource() = default;

absl::StatusOr<std::unique_ptr<HostSource>> HostSource::Make(const HostSourceOptions& options, Spool* spool) {
  std::unique_ptr<HostSource> source(new HostSource(options, spool));
  absl::StatusOr<std::unique_ptr<EndWatcher>> ends = EndWatcher::Start();
  if (!ends.ok()) return ends.status();
  source->ends_ = std::move(*ends);
  source->workshop_ = std::make_unique<HostWorkshop>(options, spool);
  source->AdoptSaved();
  return source;
}

void HostSource::Log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

int HostSource::ends_fd() const { return ends_->fd(); }

int HostSource::work_fd() const { return workshop_->fd(); }

void HostSource::AdoptSaved() {
  for (const std::string& name : spool_->SavedRings()) {
    FoundRing found;
    found.path = absl::StrCat(spool_->rings_folder(), "/", name);
    found.name = name;
    found.fd.reset(open(found.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat info {};
    if (!found.fd.ok() || fstat(found.fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    found.device = info.st_dev;
    found.inode = info.st_ino;
    auto ring = std::make_unique<Ring>();
    ring->process.life = Life::kGone;
    ReadSavedRingName(name, &found.uid, &ring->shown_pid, &ring->process);
    ring->key = next_key_++;
    ring->file = std::move(found);
    ring->from_spool = ring->saved = true;
    ring->adopted_ns = MonotonicNs();
    Ring* const at = ring.get();
    rings_[at->key] = std::move(ring);
    UserShare& share = users_[at->file.uid].share;
    bool read = false;
    if (share.MayNow(at->adopted_ns)) share.Now([&] { read = Read(at); });
    if (!read || at->digest.process.boot_id != options_.boot_id) {
      Remove(at->key);
    } else if (at->process.ended_mono_ns > 0) {
      at->ended_real_ns = RealtimeNs() - (MonotonicNs() - at->process.ended_mono_ns);
    }
  }
}

void HostSource::Adopt(FoundRing found) {
  size_t of_user = 0;
  bool known = rings_.size() >= kMostRings;
  for (const auto& [key, ring] : rings_) {
    of_user += ring->file.uid == found.uid ? 1 : 0;
    known |= ring->file.device == found.device && ring->file.inode == found.inode && ring->file.name == found.name;
  }
  if (known || of_user >= options_.most_rings_of_user) {
    ++counters_.refused;
    return;
  }
  auto ring = std::make_unique<Ring>();
  ring->key = next_key_++;
  ring->file = std::move(found);
  ring->adopted_ns = MonotonicNs();
  Ring* const at = ring.get();
  rings_[at->key] = std::move(ring);
  User& user = users_[at->file.uid];
  // If the user's share is used up, a later scan reads the ring.
  if (user.share.MayNow(at->adopted_ns)) user.share.Now([&] { Read(at); });
}

// Returns false, and keeps the old digest, if the ring cannot be read, names another process now, or exceeds its user's
// limit.
bool HostSource::Read(Ring* ring, bool in_flight) {
  ring::ReadOptions options;
  options.digest_only = true;
  options.in_flight = in_flight;
  ring::Snapshot digest;
  std::string error;
  if (!ring::ReadRing(ring->file.fd.get(), options, &digest, &error)) return false;
  const size_t bytes = SnapshotBytes(digest);
  User& user = users_[ring->file.uid];
  if (user.bytes - ring->bytes + bytes > options_.most_bytes_of_user) {
    if (!user.too_much)
      Log(absl::StrCat("the rings of user ", ring->file.uid, " are too large: ", ring->file.path,
                       " and others are not read"));
    user.too_much = true;
    return false;
  }
  const auto keep = [&] {
    user.bytes += bytes - ring->bytes;
    ring->bytes = bytes;
    ring->digest = std::move(digest);
    if (ring->job != nullptr) ring->job->changed = true;
  };
  if (!ring->readable) {
    keep();
    ring->readable = true;
    Identify(ring);
    SampleMarks(ring);
    return true;
  }
  const ring::ProcessInfo &before = ring->digest.process, &now = digest.process;
  // The process behind the ring was verified once. A file that names another process or job is no longer trusted.
  if (before.pid != now.pid || before.start_ticks != now.start_ticks || before.job != now.job ||
      before.step != now.step || before.restart_count != now.restart_count || before.rank != now.rank) {
    ++counters_.changed;
    Log(absl::StrCat("the ring ", ring->file.path, " changed its owner; its contents are ignored from now on"));
    return false;
  }
  keep();
  SampleMarks(ring);
  return true;
}

void HostSource::SampleMarks(Ring* ring) {
  if (!ring->alive) return;
  if (ring->marks == nullptr && HasMarks(ring->digest)) ring->marks = marks_.Add(ring->file.fd.get(), ring->file.uid);
  if (ring->marks != nullptr) ring->marks->Know(ring->digest);
}

void HostSource::Identify(Ring* ring) {
  const ring::ProcessInfo& info = ring->digest.process;
  ring->rank = RankOf(ring->digest);
  ring->identity =
      absl::StrCat(info.pid_namespace_inode, "/", info.pid, "/", info.start_ticks, "/", info.created_mono_ns);
  JobIdentity identity;
  identity.set_job(CleanUtf8(info.job, 256));
  identity.set_step(CleanUtf8(info.step, 256));
  identity.set_restart_count(info.restart_count);
  identity.set_uid(static_cast<uint32_t>(ring->file.uid));
  ring->base = identity.SerializeAsString();
  // The same process may appear twice: as its own ring, and as the copy in the spool.
  for (const auto& [key, other] : rings_) {
    if (other.get() == ring || other->base != ring->base || other->identity != ring->identity || other->replaced)
      continue;
    if (other->from_spool == ring->from_spool) continue;
    ring->saved = other->saved = true;
    if (other->from_spool) {
      ring->process = other->process;
      ring->ended_real_ns = other->ended_real_ns;
      other->told = true;
      other->replaced = true;  // the next scan removes it
    }
  }
  if (!ring->from_spool) Follow(ring);
  Sort(ring);
}

HostSource::Job* HostSource::JobOf(const std::string& base, int life) {
  JobIdentity identity;
  identity.ParseFromString(base);
  identity.set_life(static_cast<uint32_t>(life));
  std::unique_ptr<Job>& job = jobs_[identity.SerializeAsString()];
  if (job == nullptr) {
    job = std::make_unique<Job>();
    job->identity = identity;
    job->last_live_ns = MonotonicNs();
  }
  return job.get();
}

// Determines which of several jobs with the same name the ring's process belongs to.
void HostSource::Sort(Ring* ring) {
  if (ring->base.empty() || ring->replaced) return;
  std::vector<uint64_t> comms;
  for (const ring::CommSnapshot& comm : ring->digest.comms) {
    if (comm.id != 0) comms.push_back(comm.id);
  }
  Ranks alive, ended;
  if (ring->rank >= 0) (ring->alive ? alive : ended).Add(ring->rank);
  std::vector<Namesakes::Move> moves;
  const int life = namesakes_[ring->base].Report(absl::StrCat(ring->key), alive, ended, comms, &moves);
  const auto put = [this](Ring* one, int number) {
    Job* const job = number == Namesakes::kUndecided ? nullptr : JobOf(one->base, number);
    if (job != nullptr && job != one->job && number > 0) {
      Log(absl::StrCat(
          "pid ", one->HostPid(), ", rank ", one->rank, " of ", job->identity.job(),
          ", belongs to another job of the same name: it shares no communicator with the other process of its rank"));
    }
    if (job != one->job) {
      for (Job* of : {job, one->job}) {
        if (of != nullptr) of->changed = true;
      }
    }
    one->job = job;
    if (job != nullptr) job->lived |= one->alive;
  };
  put(ring, life);
  for (const Namesakes::Move& move : moves) {
    uint64_t key = 0;
    if (const auto other = absl::SimpleAtoi(move.sender, &key) ? rings_.find(key) : rings_.end();
        other != rings_.end() && other->second.get() != ring) {
      put(other->second.get(), move.to);
    }
  }
}

void HostSource::Follow(Ring* ring) {
  const std::optional<pid_t> pid = FindRingProcess(ring->digest.process, ring->file);
  const int pidfd = pid ? static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)) : -1;
  // Between the two calls, another process may have taken over the PID.
  if (pidfd < 0 || FindRingProcess(ring->digest.process, ring->file) != pid) {
    if (pidfd >= 0) close(pidfd);
    // A process that started and exited between two scans is reported too, because other ranks of its job may wait for
    // it.
    const int64_t now = MonotonicNs(), came = ring->digest.process.created_mono_ns;
    const SeenEnd unseen{ring->key, std::nullopt, now, RealtimeNs()};
    if (came > began_ns_ && came <= now) ring->end_uncertainty_ns = std::max(kEndUncertainty, now - came);
    MarkEnded(ring, came > began_ns_ && came <= now ? &unseen : nullptr);
    return;
  }
  ring->alive = true;
  ring->pid = ring->shown_pid = *pid;
  ring->process.life = Life::kRunning;
  ring->progress_ns = MonotonicNs();
  if (!ends_->Add(*pid, pidfd, ring->key))
    Log(absl::StrCat("process ", *pid, " cannot be watched, so its exit will be noticed late"));
}

void HostSource::Save(Ring* ring) {
  if (ring->saved) return;
  ring->saved = true;
  spool_->SaveRing(ring->file.fd.get(),
                   SavedRingName(ring->file.uid, ring->HostPid(), ring->rank, ring->digest.process, ring->process));
  ++counters_.saved;
}

// `end` is null if the process had exited when its ring was found, and the ring is older than this agent.
void HostSource::MarkEnded(Ring* ring, const SeenEnd* end) {
  Process& process = ring->process;
  process.state.clear();
  ring->state = 0;
  if (process.life != Life::kExited && process.life != Life::kKilled)
    SetEnd(end == nullptr ? -1 : end->wait_status.value_or(-1), &process);
  if (end != nullptr) process.ended_mono_ns = end->mono_ns;
  // kReplaced: the process started another program with exec, which is not an abnormal exit. The read below replaces
  // the digest.
  const ring::RecorderState before = ring->digest.process.state;
  if (process.life == Life::kKilled || (process.life == Life::kExited && process.exit_code != 0)) Save(ring);
  const bool was_alive = ring->alive;
  ring->alive = false;
  ring->pid = 0;
  if (ring->job != nullptr) ring->job->changed = true;
  // If the user's share is used up, the digest of the last scan is kept.
  if (UserShare& share = users_[ring->file.uid].share; was_alive && share.MayNow(MonotonicNs()))
    share.Now([&] { Read(ring); });
  if (ring->marks != nullptr) {
    marks_.Remove(ring->marks);
    ring->marks->SeeLast(ring->digest);
  }
  const bool clean =
      ring->digest.process.state == ring::RecorderState::kCleanExit || before == ring::RecorderState::kReplaced;
  if (process.life == Life::kGone && !clean) Save(ring);
  if (end == nullptr || (!was_alive && clean)) return;  // not reported: an old ring, or a clean exit
  ring->ended_real_ns = end->real_ns;
  ring->told = false;
  if (!was_alive) return;
  ++counters_.ended;
  const bool badly = process.life == Life::kKilled || (process.life == Life::kExited ? process.exit_code != 0 : !clean);
  if (badly) ++counters_.ended_badly;
  if (badly)
    Log(absl::StrCat("rank ", ring->rank, " of ", CleanUtf8(ring->digest.process.job, 256), " (pid ", ring->HostPid(),
                     ") ", EndText(process), "; its ring is saved"));
}

void HostSource::Handle() {
  std::vector<SeenEnd> ends;
  for (SeenEnd end; ends_->Next(&end);) ends.push_back(end);
  // Saves rings first: if several processes were killed together, all rings are saved before the first is examined.
  for (const SeenEnd& end : ends) {
    const auto ring = rings_.find(end.key);
    if (ring == rings_.end() || !end.wait_status || *end.wait_status == 0) continue;
    Process& process = ring->second->process;
    SetEnd(*end.wait_status, &process);
    process.ended_mono_ns = end.mono_ns;
    Save(ring->second.get());
  }
  for (const SeenEnd& end : ends) {
    const auto ring = rings_.find(end.key);
    if (ring != rings_.end() && ring->second->alive) MarkEnded(ring->second.get(), &end);
  }
}

HostSourceCounters HostSource::counters() const {
  HostSourceCounters counters = counters_;
  counters.rings = rings_.size();
  counters.jobs = shown_.size();
  for (const auto& [key, ring] : rings_) counters.live += ring->alive ? 1 : 0;
  const WorkshopCounters& work = workshop_->counters();
  counters.dumps = work.dumps;
  counters.dumps_failed = work.dumps_failed;
  counters.evidence = work.evidence;
  counters.marks = marks_.counters();
  return counters;
}

void HostSource::Remove(uint64_t key) {
  const auto ring = rings_.find(key);
  if (ring->second->marks != nullptr) marks_.Remove(ring->second->marks);
  if (const auto sorted = namesakes_.find(ring->second->base); sorted != namesakes_.end()) {
    sorted->second.Leave(absl::StrCat(key));
    if (sorted->second.empty()) namesakes_.erase(sorted);
  }
  if (ring->second->job != nullptr) ring->second->job->changed = true;
  users_[ring->second->file.uid].bytes -= ring->second->bytes;
  rings_.erase(ring);
}

// Returns false if the ring is to be dropped.
bool HostSource::LookAt(int64_t mono_ns, bool sample, Ring* ring) {
  if (!ring->readable) {
    if (Read(ring) || mono_ns - ring->adopted_ns <= kUnreadableAfter) return true;
    ++counters_.unreadable;
    Log(absl::StrCat("the file ", ring->file.path, " is not a readable ring and is ignored"));
    return false;
  }
  if (ring->replaced) return false;
  if (!ring->alive) {
    Sort(ring);
    return true;
  }
  Read(ring);
  if (ring->job != nullptr) ring->job->changed = true;
  // The process now runs another program, which has another ring.
  if (ring->digest.process.state == ring::RecorderState::kReplaced) return false;
  Sort(ring);
  if (ring->job != nullptr) ring->job->last_live_ns = mono_ns;
  if (const std::optional<ProcStat> stat = ReadProcStat(ring->pid)) {
    // Taking a process's stacks stops the process for less than 50 ms. A debugger stops it for longer.
    constexpr int64_t kLook = 200'000'000;
    if (stat->state != 't') ring->traced_ns = 0;
    if (stat->state == 't' && ring->traced_ns == 0) ring->traced_ns = mono_ns;
    if (stat->state != 't' || mono_ns - ring->traced_ns > kLook) {
      ring->state = stat->state;
      ring->process.state = std::string(1, stat->state);
    }
  }
  const uint64_t mark = ViewOf(ring->digest).progress_mark;
  if (mark != ring->progress_mark) {
    ring->progress_mark = mark;
    ring->progress_ns = mono_ns;
    ring->sampler.Forget(&ring->process);
    ring->look.Forget(&ring->process);
  }
  if (sample && mono_ns - ring->progress_ns >= kSampleAfter) {
    if (!tree_) tree_ = ProcessTree::Read();
    ring->sampler.Sample(ring->pid, *tree_, &ring->process);
  }
  return true;
}

void HostSource::Look(int64_t mono_ns) {
  const int64_t start = ThreadCpuNs();
  Handle();
  looked_ns_ = mono_ns;
  const bool sample = mono_ns - sampled_ns_ >= kSampleEvery;
  tree_.reset();
  if (sample) sampled_ns_ = mono_ns;
  std::vector<uint64_t> gone;
  std::map<uid_t, std::vector<Ring*>> rings;
  for (const auto& [key, ring] : rings_) rings[ring->file.uid].push_back(ring.get());
  for (const auto& [uid, its] : rings) {
    User& user = users_[uid];
    if (user.share.LookIsDue(mono_ns)) LookAtUser(mono_ns, sample, its, &user, &gone);
  }
  for (const uint64_t key : gone) Remove(key);
  ShowJobs(mono_ns);
  counters_.look_cpu_ns += ThreadCpuNs() - start;
}

// Starts where the last scan of this user's rings stopped, and visits each ring at most once.
void HostSource::LookAtUser(int64_t mono_ns, bool sample, const std::vector<Ring*>& rings, User* user,
                            std::vector<uint64_t>* gone) {
  const auto first = std::lower_bound(rings.begin(), rings.end(), user->next_ring,
                                      [](const Ring* ring, uint64_t key) { return ring->key < key; });
  const auto begin = static_cast<size_t>(first - rings.begin());
  for (size_t i = 0; i < rings.size(); ++i) {
    Ring* const ring = rings[(begin + i) % rings.size()];
    user->next_ring = ring->key;
    if (!user->share.MayContinueLook()) break;
    user->share.Look([&] {
      if (!LookAt(mono_ns, sample, ring)) gone->push_back(ring->key);
    });
  }
  user->share.EndLook(mono_ns);
}

void HostSource::ShowJobs(int64_t mono_ns) {
  shown_.clear();
  std::map<Job*, std::vector<Ring*>> rings;
  for (const auto& [key, ring] : rings_) {
    if (ring->job != nullptr) rings[ring->job].push_back(ring.get());
  }
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const auto next = std::next(at);
    Job* const job = at->second.get();
    std::vector<Ring*>& mine = rings[job];
    // Removes a job some time after its last living process and its last request; sooner if this agent never saw it
    // alive.
    const bool live = std::any_of(mine.begin(), mine.end(), [](const Ring* ring) { return ring->alive; });
    const int64_t quiet = mono_ns - std::max(job->last_live_ns, job->last_asked_ns);
    if (mine.empty() || (!live && quiet > (job->lived ? kLinger : kUnreadableAfter))) {
      for (const Ring* ring : mine) Remove(ring->key);
      jobs_.erase(at);
      at = next;
      continue;
    }
    at = next;
    if (!job->lived) continue;
    if (job->changed) ShowRanks(job, mine);
    shown_.push_back(job);
  }
}

void HostSource::ShowRanks(Job* job, const std::vector<Ring*>& rings) {
  job->changed = false;
  // Shows each rank once: its living process, or its last one if none is alive.
  std::map<int32_t, Ring*> chosen;
  std::vector<Ring*> nameless;
  for (Ring* ring : rings) {
    if (ring->rank < 0) {
      nameless.push_back(ring);
      continue;
    }
    Ring*& one = chosen[ring->rank];
    if (one != nullptr && one->alive && ring->alive && job->claimed_twice.insert(ring->rank).second) {
      ++counters_.duplicates;
      Log(absl::StrCat("two processes of ", job->identity.job(), " both claim to be rank ", ring->rank, ": pids ",
                       one->HostPid(), " and ", ring->HostPid(), "; the newer one is shown"));
    }
    const auto order = [](const Ring* r) { return std::make_pair(r->alive, r->digest.process.created_mono_ns); };
    if (one == nullptr || order(one) <= order(ring)) one = ring;
  }
  for (const auto& [rank, ring] : chosen) nameless.push_back(ring);
  job->sights.clear();
  for (const Ring* ring : nameless) {
    RankSight sight;
    sight.view = ViewOf(ring->digest);
    sight.view.slot = static_cast<int32_t>(ring->key);
    sight.view.alive = ring->alive;
    const Process& process = ring->process;
    const bool left_well = process.life == Life::kGone && ring->digest.process.state == ring::RecorderState::kCleanExit;
    sight.view.ended_badly = !ring->alive && !left_well && (process.life != Life::kExited || process.exit_code != 0);
    sight.rank = ring->rank;
    sight.state = ring->state;
    sight.digest = &ring->digest;
    sight.process = &ring->process;
    job->sights.push_back(std::move(sight));
  }
}

const JobIdentity& HostSource::job(size_t index) const { return shown_[index]->identity; }

absl::Span<const RankSight> HostSource::ranks(size_t index) const { return shown_[index]->sights; }

void HostSource::Inspect(size_t index, const std::vector<WantedLook>& looks) {
  if (!options_.gather) return;
  for (const WantedLook& wanted : looks) {
    const auto found = rings_.find(static_cast<uint64_t>(wanted.slot));
    if (found == rings_.end() || found->second->job != shown_[index] || !found->second->alive) continue;
    Ring* const ring = found->second.get();
    ring->look.Continue(ring->pid, BusiestThread(ring->digest), &ring->process, ring->file.fd.get(),
                        {QuietRanks::kMostLooks, QuietRanks::kLookEvery, wanted.since_ns, false});
  }
}

bool HostSource::NextEnded(ProcessEnded* out) {
  Ring* first = nullptr;
  for (const auto& [key, ring] : rings_) {
    if (ring->told || ring->alive || ring->replaced || ring->job == nullptr || !ring->job->lived) continue;
    if (first == nullptr || ring->process.ended_mono_ns < first->process.ended_mono_ns) first = ring.get();
  }
  if (first == nullptr) return false;
  first->told = true;
  *out->mutable_job() = first->job->identity;
  out->set_rank(first->rank);
  out->set_host(options_.host);
  ProcessState* state = out->mutable_state();
  state->set_life(static_cast<ProcessState::Life>(first->process.life));
  state->set_exit_code(first->process.exit_code);
  state->set_signal(first->process.signal);
  state->set_ended_mono_ns(first->process.ended_mono_ns);
  state->set_cpu_ns_between_samples(-1);
  state->set_io_bytes_between_samples(-1);
  out->set_real_ns(first->ended_real_ns);
  out->set_clock_uncertainty_ns(first->end_uncertainty_ns);
  return true;
}

void HostSource::TellAgain() {
  for (const auto& [key, ring] : rings_) {
    // Without an exit time, this agent did not see the exit, so it is not reported.
    if (!ring->alive && ring->process.ended_mono_ns != 0) ring->told = false;
  }
}

std::vector<HostSource::Ring*> HostSource::RingsOf(const CollectRequest& request) {
  std::vector<Ring*> rings;
  const auto job = jobs_.find(request.job().SerializeAsString());
  if (job == jobs_.end()) return rings;
  job->second->last_asked_ns = looked_ns_;
  for (const auto& [key, ring] : rings_) {
    if (ring->job == job->second.get() && ring->readable) rings.push_back(ring.get());
  }
  return rings;
}

void HostSource::FillDigest(const CollectRequest& request, Digest* out) {
  ++counters_.digests;
  const std::vector<Ring*> rings = RingsOf(request);
  if (rings.empty()) {
    out->set_refused(absl::StrCat("no rank of this job is on ", options_.host));
    return;
  }
  UserShare& share = users_[rings[0]->file.uid].share;
  if (!share.MayNow(MonotonicNs())) {
    out->set_refused(absl::StrCat("reading the rings of this user takes too long on ", options_.host));
    return;
  }
  share.Now([&] { FillDigestOf(request, rings, out); });
}

void HostSource::FillDigestOf(const CollectRequest& request, const std::vector<Ring*>& rings, Digest* out) {
  const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
  std::vector<RingInput> inputs;
  tree_.reset();
  for (Ring* ring : rings) {
    if (ring->alive) {
      Read(ring, true);  // reads the ring again: the last scan may be too old
      if (MonotonicNs() - sampled_ns_ > kSampleEvery / 2) {
        if (!tree_) tree_ = ProcessTree::Read();
        ring->sampler.Sample(ring->pid, *tree_, &ring->process);
      }
    }
    RingInput input;
    input.path = ring->file.path;
    input.process = ring->process;
    input.snapshot = ring->digest;
    // Users look for this PID on the host. The PID in the ring may be that of a container.
    if (ring->shown_pid > 0) input.snapshot.process.pid = ring->shown_pid;
    if (ring->marks != nullptr) ring->marks->Fill(&input.snapshot);
    inputs.push_back(std::move(input));
  }
  Bundle bundle = BundleFromRings(std::move(inputs));
  HostRedaction().Redact(&bundle);
  EncodeDigest(bundle, wanted.ok() ? wanted->List() : std::vector<int32_t>(), out);
  const int64_t now = MonotonicNs();
  for (RankDigest& digest : *out->mutable_ranks()) {
    const auto ring = std::find_if(rings.begin(), rings.end(),
                                   [&](const Ring* r) { return r->alive && r->rank == digest.rank().rank(); });
    if (ring != rings.end() && (*ring)->sampler.idle_since_ns() > 0)
      digest.set_idle_ns(now - (*ring)->sampler.idle_since_ns());
  }
}

void HostSource::Gather(const CollectRequest& request) {
  if (request.phase() == CollectRequest::EXAMINE) return workshop_->Take({request, {}});
  const std::vector<Ring*> rings = RingsOf(request);
  const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks()), merged = Ranks::From(request.merged());
  Ranks asked = wanted.ok() ? *wanted : Ranks();
  if (merged.ok() && request.phase() == CollectRequest::EVIDENCE) asked.Unite(*merged);
  WorkOrder order;
  order.request = request;
  for (const Ring* ring : rings) {
    // A ring without a rank gets its number only when all rings are merged, so it is always read.
    if (!asked.empty() && ring->rank >= 0 && !asked.Contains(ring->rank)) continue;
    WorkRing work;
    work.fd.reset(fcntl(ring->file.fd.get(), F_DUPFD_CLOEXEC, 3));
    if (!work.fd.ok()) continue;
    work.path = ring->file.path;
    work.rank = ring->rank;
    work.pid = ring->alive ? ring->pid : 0;
    work.shown_pid = ring->shown_pid;
    work.process = ring->process;
    work.marks = ring->marks;
    if (!ring->alive) work.at_end = ring->digest;
    order.rings.push_back(std::move(work));
  }
  workshop_->Take(std::move(order));
}

bool HostSource::NextEvidence(HostEvidence* out) { return workshop_->Next(out); }

}  // namespace lockstep
