#include "collector/rings/ring_retention.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <thread>

#include "analyzer/util/folders.h"
#include "collector/rings/clean.h"

namespace lockstep {
namespace {

constexpr int64_t kNotYet = 600;
// Rings may take a sixteenth of their file system, and dead rings at most half of that.
constexpr uint64_t kDeadPart = 32;
constexpr size_t kMostSharedFolders = 4096;

// Folders /dev/shm/lockstep-UID that belong to user UID. Anyone may create folders there, under any name.
std::vector<std::string> DefaultFolders(const RingRetentionOptions& options) {
  std::vector<std::string> folders;
  for (const std::string& name : NamesIn(options.shared)) {
    const std::string path = options.shared + "/" + name;
    constexpr char kPrefix[] = "lockstep-";
    if (name.compare(0, sizeof kPrefix - 1, kPrefix) != 0) continue;
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    if (name != kPrefix + std::to_string(info.st_uid) || (!options.all_users && info.st_uid != geteuid())) continue;
    if (folders.size() < kMostSharedFolders) folders.push_back(path);
  }
  return folders;
}

// Returns the age from which rings must be removed so that the newer ones take at most `most`.
int64_t AgeWithin(std::vector<DeadRing> dead, uint64_t most) {
  std::sort(dead.begin(), dead.end(), [](const DeadRing& a, const DeadRing& b) { return a.quiet_s < b.quiet_s; });
  uint64_t bytes = 0;
  for (const DeadRing& ring : dead) {
    bytes += ring.bytes;
    if (bytes > most) return std::max(ring.quiet_s, kNotYet);
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

RetainedRings RetainRings(const RingRetentionOptions& options, bool by_age) {
  RetainedRings retained;
  for (const std::string& folder : options.folders.empty() ? DefaultFolders(options) : options.folders) {
    struct statfs system {};
    if (statfs(folder.c_str(), &system) != 0 || (system.f_type != TMPFS_MAGIC && system.f_type != RAMFS_MAGIC))
      continue;
    CleanOptions clean;
    clean.folder = folder;
    clean.any_owner = options.all_users;
    clean.dry_run = true;
    Cleaned found;
    std::string error;
    if (!CleanRings(clean, nullptr, &found, &error)) continue;
    int64_t age = std::numeric_limits<int64_t>::max();
    if (options.bytes > 0) {
      const uint64_t all = uint64_t{system.f_blocks} * static_cast<uint64_t>(system.f_bsize);
      age = AgeWithin(found.dead, all > 0 ? std::min(options.bytes, all / kDeadPart) : options.bytes);
    }
    if (by_age && options.age_s > 0) age = std::min(age, options.age_s);
    if (std::none_of(found.dead.begin(), found.dead.end(), [&](const DeadRing& ring) { return ring.quiet_s >= age; }))
      continue;
    clean.dry_run = false;
    clean.older_than_s = age;
    Cleaned cleaned;
    if (!CleanRings(clean, nullptr, &cleaned, &error)) continue;
    retained.removed += cleaned.removed;
    retained.failed += cleaned.failed;
    retained.removed_bytes += cleaned.bytes;
  }
  return retained;
}

struct RingRetainer::Shared {
  std::mutex mutex;
  bool running = false;
  RetainedRings done;
};

RingRetainer::RingRetainer(const RingRetentionOptions& options, std::function<void(const std::string&)> log)
    : options_(options), log_(std::move(log)), shared_(std::make_shared<Shared>()) {}

RingRetainer::~RingRetainer() = default;

void RingRetainer::Tick(int64_t mono_ns, int64_t real_ns) {
  const bool trusted = clock_.Trust(mono_ns, real_ns);
  RetainedRings done;
  bool running = false;
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    std::swap(done, shared_->done);
    running = shared_->running;
    if (!running && mono_ns >= next_ns_) shared_->running = true;
  }
  if (done.removed > 0) {
    removed_ += static_cast<uint64_t>(done.removed);
    log_("removed " + std::to_string(done.removed) + (done.removed == 1 ? " ring" : " rings") +
         " of processes that are gone, " + std::to_string(done.removed_bytes >> 10) + " KiB");
  }
  if (done.failed > 0)
    log_(std::to_string(done.failed) + (done.failed == 1 ? " ring" : " rings") +
         " of processes that are gone cannot be removed");
  if (running || mono_ns < next_ns_) return;
  next_ns_ = mono_ns + options_.look_ns;
  std::thread([shared = shared_, options = options_, trusted] {
    const RetainedRings now = RetainRings(options, trusted);
    const std::lock_guard<std::mutex> lock(shared->mutex);
    shared->done = now;
    shared->running = false;
  }).detach();
}

}  // namespace lockstep
