#include "collector/generations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// A host that is only out of reach may still run its ranks; whoever claims their places this much later was started anew.
constexpr int64_t kAnew = 60'000'000'000;

// No byte of a name can be mistaken for the border between two.
std::string Part(const std::string& text) {
  return absl::StrCat(text.size(), ":", text);
}

std::string ProcessKey(const RingIdentity& ring) {
  return absl::StrCat(Part(ring.boot_id), ring.pid_namespace, "/", ring.pid, "/", ring.start_ticks);
}

std::string JobKey(const RingIdentity& ring) {
  return absl::StrCat(ring.uid, "/", Part(ring.job), Part(ring.step), ring.restart_count);
}

}  // namespace

RingIdentity IdentityOf(const ring::ProcessInfo& process, uint32_t uid) {
  RingIdentity ring;
  ring.job = process.job;
  ring.step = process.step;
  ring.restart_count = process.restart_count;
  ring.uid = uid;
  ring.boot_id = process.boot_id;
  ring.pid = process.pid;
  ring.start_ticks = process.start_ticks;
  ring.pid_namespace = process.pid_namespace_inode;
  ring.rank = process.rank;
  ring.world_size = process.world_size;
  ring.created_real_ns = process.created_real_ns;
  return ring;
}

std::string Generation::Name() const {
  std::string name = absl::StrCat(job, "/", step, "/", restart_count);
  if (life > 1) absl::StrAppend(&name, "#", life);
  return name;
}

Generations::Standing Generations::Compare(const Life& life, const Known& process, const Known** holder) const {
  *holder = nullptr;
  if (process.rank < 0) return Standing::kFree;
  const auto found = life.holder.find(process.rank);
  if (found == life.holder.end()) return Standing::kFree;
  *holder = &processes_.at(found->second);
  if (*holder == &process) return Standing::kFree;
  const int64_t younger = process.created_real_ns - (*holder)->created_real_ns;
  if (!(*holder)->alive && (process.alive || younger >= 0)) return Standing::kNewer;
  if (!process.alive) return Standing::kOlder;
  if (younger > kAnew && silent_.contains((*holder)->boot_id)) return Standing::kNewer;
  if (younger < -kAnew && silent_.contains(process.boot_id)) return Standing::kOlder;
  return Standing::kDuplicate;
}

uint32_t Generations::Number(const RingIdentity& ring, bool* fresh) {
  const auto [entry, added] = numbers_.try_emplace(ProcessKey(ring), last_process_ + 1);
  *fresh = added;
  if (added) {
    ++last_process_;
    Known known;
    known.rank = ring.rank;
    known.pid = ring.pid;
    known.alive = !ring.ended;
    known.boot_id = ring.boot_id;
    known.created_real_ns = ring.created_real_ns;
    processes_[last_process_] = std::move(known);
  }
  return entry->second;
}

GenerationId Generations::Begin(const std::string& job_key, const RingIdentity& ring, bool newest) {
  const GenerationId id = ++last_;
  std::vector<GenerationId>& lives = of_job_[job_key];
  Life& life = lives_[id];
  life.job_key = job_key;
  Generation& info = life.info;
  info.id = id;
  info.job = ring.job;
  info.step = ring.step;
  info.restart_count = ring.restart_count;
  info.uid = ring.uid;
  info.began_real_ns = ring.created_real_ns;
  for (const GenerationId other : lives) info.life = std::max(info.life, lives_[other].info.life + 1);
  lives.insert(newest ? lives.end() : lives.begin(), id);
  return id;
}

void Generations::Put(GenerationId id, uint32_t process) {
  Known& known = processes_[process];
  known.generation = id;
  Life& life = lives_[id];
  ++life.info.processes;
  if (known.alive) ++life.info.alive;
  if (known.rank >= 0) life.holder.try_emplace(known.rank, process);
  if (known.created_real_ns > 0 && (life.info.began_real_ns == 0 || known.created_real_ns < life.info.began_real_ns)) {
    life.info.began_real_ns = known.created_real_ns;
  }
}

void Generations::Remove(uint32_t process) {
  Known& known = processes_[process];
  const auto found = lives_.find(known.generation);
  if (found == lives_.end()) return;
  Life& life = found->second;
  --life.info.processes;
  if (known.alive) --life.info.alive;
  const auto holder = life.holder.find(known.rank);
  if (holder != life.holder.end() && holder->second == process) life.holder.erase(holder);
  known.generation = 0;
}

Placement Generations::Place(const RingIdentity& ring) {
  Placement placement;
  bool fresh = false;
  const uint32_t process = Number(ring, &fresh);
  if (processes_[process].generation != 0) {
    placement.generation = processes_[process].generation;
    return placement;
  }
  const std::string job_key = JobKey(ring);
  const std::vector<GenerationId> lives = of_job_[job_key];
  bool newest = true;
  for (size_t i = lives.size(); i-- > 0 && placement.generation == 0;) {
    const Known* holder = nullptr;
    const Standing standing = Compare(lives_[lives[i]], processes_[process], &holder);
    if (standing == Standing::kNewer) break;
    if (standing == Standing::kOlder) {
      newest = false;
      continue;
    }
    // What has ended, and is older than anything of this life, is of an earlier one, if there was one.
    const Known& known = processes_.at(process);
    if (i > 0 && !known.alive && known.created_real_ns < lives_[lives[i]].info.began_real_ns) continue;
    placement.generation = lives[i];
    if (standing == Standing::kDuplicate) placement.duplicate_of_pid = holder->pid;
  }
  if (placement.generation == 0) {
    placement.generation = Begin(job_key, ring, newest);
    placement.fresh = true;
  }
  Put(placement.generation, process);
  Life& life = lives_[placement.generation];
  life.info.world_size = std::max(life.info.world_size, ring.world_size);
  return placement;
}

Placement Generations::Saw(const RingIdentity& ring, uint64_t communicator) {
  Placement placement = Place(ring);
  if (communicator == 0) return placement;
  bool fresh = false;
  const uint32_t process = Number(ring, &fresh);
  Bound& bound = comms_[communicator];
  if (bound.processes.contains(process)) return placement;
  const auto bound_life = lives_.find(bound.generation);
  const bool foreign = bound_life == lives_.end() || bound_life->second.job_key != JobKey(ring);
  if (bound.generation == 0 || foreign || bound.generation == placement.generation) {
    if (bound.generation == 0 || bound_life == lives_.end()) bound.generation = placement.generation;
    if (bound.generation == placement.generation) bound.processes.insert(process);
    return placement;
  }
  const Known* holder = nullptr;
  if (Compare(bound_life->second, processes_[process], &holder) == Standing::kFree) {
    Remove(process);
    Put(bound.generation, process);
    bound.processes.insert(process);
    return {bound.generation, false, true, 0};
  }
  // There its rank is somebody else's: the others were counted to an earlier life because their ranks had left no ring
  // in it. They move here, where there is room for all of them.
  const GenerationId here = placement.generation;
  for (const uint32_t other : bound.processes) {
    if (Compare(lives_[here], processes_[other], &holder) != Standing::kFree) return placement;
  }
  for (const uint32_t other : bound.processes) {
    Remove(other);
    Put(here, other);
  }
  bound.generation = here;
  bound.processes.insert(process);
  return placement;
}

void Generations::Ended(const RingIdentity& ring) {
  const auto found = numbers_.find(ProcessKey(ring));
  if (found == numbers_.end() || !processes_[found->second].alive) return;
  Known& known = processes_[found->second];
  known.alive = false;
  if (const auto life = lives_.find(known.generation); life != lives_.end()) --life->second.info.alive;
}

void Generations::Silent(const std::string& boot_id, bool silent) {
  if (silent) {
    silent_.insert(boot_id);
  } else {
    silent_.erase(boot_id);
  }
}

GenerationId Generations::Of(const RingIdentity& ring) const {
  const auto found = numbers_.find(ProcessKey(ring));
  return found == numbers_.end() ? 0 : processes_.at(found->second).generation;
}

const Generation* Generations::Find(GenerationId id) const {
  const auto found = lives_.find(id);
  return found == lives_.end() ? nullptr : &found->second.info;
}

const Generation* Generations::Newest(uint32_t uid, const std::string& job) const {
  const Generation* newest = nullptr;
  for (const auto& [id, life] : lives_) {
    if (life.info.uid != uid || life.info.job != job) continue;
    if (newest == nullptr || life.info.began_real_ns >= newest->began_real_ns) newest = &life.info;
  }
  return newest;
}

std::vector<GenerationId> Generations::All() const {
  std::vector<GenerationId> ids;
  for (const auto& [id, life] : lives_) ids.push_back(id);
  return ids;
}

void Generations::Drop(GenerationId id) {
  const auto found = lives_.find(id);
  if (found == lives_.end()) return;
  std::vector<GenerationId>& lives = of_job_[found->second.job_key];
  std::erase(lives, id);
  if (lives.empty()) of_job_.erase(found->second.job_key);
  lives_.erase(found);
  absl::erase_if(comms_, [id](const auto& entry) { return entry.second.generation == id; });
  absl::erase_if(numbers_, [&](const auto& entry) { return processes_[entry.second].generation == id; });
  absl::erase_if(processes_, [id](const auto& entry) { return entry.second.generation == id; });
}

}  // namespace lockstep
