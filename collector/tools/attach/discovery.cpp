#include "collector/tools/attach/discovery.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr size_t kMostEnvironment = 4 << 20, kMostMaps = 16 << 20;
constexpr int32_t kMostRank = 1 << 20;
constexpr int kMostParents = 64;

// Variables that launchers set. The first one that is set counts, as in the recorder.
constexpr const char* kRanks[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
constexpr const char* kWorlds[] = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
constexpr const char* kLocals[] = {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"};
constexpr const char* kLocalWorlds[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
constexpr const char* kRestarts[] = {"LOCKSTEP_RESTART", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"};
constexpr const char* kNames[] = {"LOCKSTEP_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID",
                                  "PBS_JOBID",    "LSB_JOBID",    "FLUX_JOB_ID"};
// Variables that are equal in all processes of one start of a job, and differ between starts.
constexpr const char* kKeys[] = {"LOCKSTEP_JOB", "SLURM_JOB_ID", "SLURM_STEP_ID",  "TORCHELASTIC_RUN_ID",
                                 "MASTER_ADDR",  "MASTER_PORT",  "PMIX_NAMESPACE", "PMI_JOBID",
                                 "PBS_JOBID",    "LSB_JOBID",    "FLUX_JOB_ID",    "TORCHELASTIC_RESTART_COUNT"};
// Programs that start ranks, and may themselves have the variables of a rank.
constexpr const char* kStarters[] = {"bash",
                                     "sh",
                                     "dash",
                                     "zsh",
                                     "fish",
                                     "env",
                                     "timeout",
                                     "nohup",
                                     "sudo",
                                     "su",
                                     "srun",
                                     "mpirun",
                                     "mpiexec",
                                     "nsys",
                                     "numactl",
                                     "torchrun",
                                     "orted",
                                     "prterun",
                                     "hydra_pmi_proxy",
                                     "slurmstepd",
                                     "tee"};
// PyTorch's name for data loader processes, which are not ranks and may outlive their rank.
constexpr absl::string_view kLoader = "pt_data_";
constexpr const char* kLibraries[] = {"libnccl", "librccl", "libtorch", "libgloo", "libmpi"};

using Variables = std::map<std::string, std::string, std::less<>>;

struct Candidate {
  RankProcess process;
  pid_t parent = 0;
  Variables variables;
  bool told = false;     // the variable RANK itself is set
  bool library = false;  // the process maps a communication library
  std::string key;
};

bool Wanted(const std::string& name) {
  const auto in = [&name](const auto& list) {
    return std::any_of(std::begin(list), std::end(list), [&](const char* one) { return name == one; });
  };
  return in(kRanks) || in(kWorlds) || in(kLocals) || in(kLocalWorlds) || in(kRestarts) || in(kNames) || in(kKeys) ||
         name == "SLURM_NNODES" || name == "SLURM_JOB_NUM_NODES" || name == "NCCL_RAS_ADDR";
}

Variables ReadVariables(const std::string& folder) {
  Variables found;
  const std::string text = ReadSmallFile(folder + "/environ", kMostEnvironment);
  for (const absl::string_view entry : absl::StrSplit(text, '\0', absl::SkipEmpty())) {
    const size_t equal = entry.find('=');
    if (equal == entry.npos || equal == 0 || entry.size() > 4096) continue;
    std::string name(entry.substr(0, equal));
    if (Wanted(name)) found.try_emplace(std::move(name), entry.substr(equal + 1));
  }
  return found;
}

template <size_t N>
std::string FirstSet(const Variables& variables, const char* const (&names)[N]) {
  for (const char* name : names) {
    if (const auto at = variables.find(name); at != variables.end() && !at->second.empty()) return at->second;
  }
  return "";
}

template <size_t N>
int32_t NumberOf(const Variables& variables, const char* const (&names)[N]) {
  int32_t value = -1;
  const std::string text = FirstSet(variables, names);
  return absl::SimpleAtoi(text, &value) && value >= 0 && value <= kMostRank ? value : -1;
}

bool MapsLibrary(const std::string& folder) {
  const std::string maps = ReadSmallFile(folder + "/maps", kMostMaps);
  for (const absl::string_view line : absl::StrSplit(maps, '\n', absl::SkipEmpty())) {
    const size_t slash = line.rfind('/');
    if (slash == line.npos) continue;
    const absl::string_view name = line.substr(slash + 1);
    for (const absl::string_view library : kLibraries) {
      if (name.substr(0, library.size()) == library) return true;
    }
  }
  return false;
}

std::string NameIn(const std::string& folder) {
  std::string name = ReadSmallFile(folder + "/comm", 64);
  absl::StripAsciiWhitespace(&name);
  return name;
}

// Returns whether the process has a GPU open, such as /dev/nvidia3. /dev/nvidiactl alone is also open in tools.
bool OpensGpu(const std::string& folder) {
  constexpr absl::string_view kDevice = "/dev/nvidia";
  for (const int fd : NumbersIn(folder + "/fd")) {
    const std::string link = LinkTarget(absl::StrCat(folder, "/fd/", fd));
    if (absl::StartsWith(link, kDevice) && link.size() > kDevice.size() &&
        absl::ascii_isdigit(static_cast<unsigned char>(link[kDevice.size()])))
      return true;
  }
  return false;
}

// Returns whether the address is a loopback address. Each container with its own network has its own.
bool IsLoopback(absl::string_view address) {
  return absl::StartsWith(address, "127.") || absl::StartsWith(address, "localhost") || address == "::1";
}

bool IsStarter(const std::string& command) {
  return std::find(std::begin(kStarters), std::end(kStarters), command) != std::end(kStarters);
}

class Finder {
 public:
  explicit Finder(const std::string& proc) : proc_(proc) {}

  Discovery Find(const std::vector<pid_t>& pids) {
    for (const pid_t pid : NumbersIn(proc_)) {
      if (const std::optional<ProcStat> stat = ReadProcStat(Folder(pid))) stats_[pid] = *stat;
    }
    Discovery found;
    std::map<std::string, std::vector<Candidate>> jobs;
    if (!pids.empty()) {
      std::vector<Candidate>& chosen = jobs[""];
      for (const pid_t pid : pids) {
        if (!stats_.contains(pid)) continue;
        chosen.push_back(Look(pid));
        chosen.back().library = MapsLibrary(Folder(pid));
      }
      if (!chosen.empty()) found.jobs.push_back(MakeJob(OneEach(std::move(chosen))));
      return found;
    }
    const std::set<pid_t> own = Above(getpid());
    std::vector<Candidate> named, unnamed;
    for (const auto& [pid, stat] : stats_) {
      if (own.contains(pid) || stat.ended()) continue;
      if (access((Folder(pid) + "/environ").c_str(), R_OK) != 0) {
        ++found.unreadable;
        continue;
      }
      Candidate candidate = Look(pid);
      if (absl::StartsWith(candidate.process.command, kLoader)) continue;
      (candidate.process.rank >= 0 ? named : unnamed).push_back(std::move(candidate));
    }
    // A launcher under a scheduler has the scheduler's rank number, while its children have RANK.
    std::set<pid_t> launchers;
    for (const Candidate& candidate : named) {
      if (candidate.told) launchers.merge(Above(candidate.parent));
    }
    for (Candidate& candidate : named) {
      candidate.library = MapsLibrary(Folder(candidate.process.pid));
      const bool starts = (!candidate.told && launchers.contains(candidate.process.pid)) ||
                          (!candidate.library && IsStarter(candidate.process.command));
      if (!starts) jobs[candidate.key].push_back(std::move(candidate));
    }
    if (jobs.empty()) {
      for (Candidate& candidate : unnamed) {
        const std::string folder = Folder(candidate.process.pid);
        if (!MapsLibrary(folder) && !OpensGpu(folder)) continue;
        jobs[absl::StrCat("below ", candidate.parent)].push_back(std::move(candidate));
      }
    }
    for (auto& [key, candidates] : jobs) {
      std::vector<Candidate> ranks = OneEach(std::move(candidates));
      if (!ranks.empty()) found.jobs.push_back(MakeJob(std::move(ranks)));
    }
    std::sort(found.jobs.begin(), found.jobs.end(),
              [](const FoundJob& a, const FoundJob& b) { return a.name < b.name; });
    // Adds the first PID to the names of jobs with the same name, such as two starts in one allocation.
    std::map<std::string, int> names;
    for (const FoundJob& job : found.jobs) ++names[job.name];
    for (FoundJob& job : found.jobs) {
      if (names[job.name] > 1) absl::StrAppend(&job.name, "-", job.ranks[0].pid);
    }
    return found;
  }

 private:
  std::string Folder(pid_t pid) const { return absl::StrCat(proc_, "/", pid); }

  std::set<pid_t> Above(pid_t pid) const {
    std::set<pid_t> above;
    for (int i = 0; i < kMostParents && pid > 0 && above.insert(pid).second; ++i) {
      const auto at = stats_.find(pid);
      pid = at == stats_.end() ? 0 : at->second.parent;
    }
    return above;
  }

  Candidate Look(pid_t pid) const {
    Candidate candidate;
    candidate.process.pid = pid;
    struct stat info {};
    if (stat(Folder(pid).c_str(), &info) == 0) candidate.process.uid = info.st_uid;
    candidate.parent = stats_.at(pid).parent;
    candidate.process.command = NameIn(Folder(pid));
    candidate.variables = ReadVariables(Folder(pid));
    const Variables& variables = candidate.variables;
    candidate.told = variables.contains("RANK");
    candidate.process.rank = NumberOf(variables, kRanks);
    candidate.process.world = NumberOf(variables, kWorlds);
    candidate.process.local_rank = NumberOf(variables, kLocals);
    candidate.process.local_world = NumberOf(variables, kLocalWorlds);
    candidate.key = absl::StrCat(candidate.process.uid);
    for (const char* name : kKeys) {
      const auto at = variables.find(name);
      absl::StrAppend(&candidate.key, "|", at == variables.end() ? "" : at->second);
    }
    if (const auto at = variables.find("MASTER_ADDR"); at != variables.end() && IsLoopback(at->second))
      absl::StrAppend(&candidate.key, "|", LinkTarget(Folder(pid) + "/ns/net"));
    return candidate;
  }

  // Keeps one process for each rank. Helpers below a rank's process, and wrappers above it, have the same variables.
  std::vector<Candidate> OneEach(std::vector<Candidate> all) const {
    std::map<int32_t, std::vector<Candidate>> by_rank;
    for (Candidate& candidate : all) {
      const int32_t rank = candidate.process.rank;
      by_rank[rank].push_back(std::move(candidate));
    }
    std::vector<Candidate> chosen;
    for (auto& [rank, candidates] : by_rank) {
      if (std::any_of(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.library; }))
        std::erase_if(candidates, [](const Candidate& c) { return !c.library; });
      std::set<pid_t> pids;
      for (const Candidate& candidate : candidates) pids.insert(candidate.process.pid);
      for (Candidate& candidate : candidates) {
        const std::set<pid_t> above = Above(candidate.parent);
        const bool helper = std::any_of(above.begin(), above.end(), [&](pid_t pid) { return pids.contains(pid); });
        if (helper) continue;
        chosen.push_back(std::move(candidate));
        if (rank >= 0) break;
      }
    }
    return chosen;
  }

  FoundJob MakeJob(std::vector<Candidate> ranks) const {
    FoundJob job;
    const Variables& variables = ranks[0].variables;
    job.name = FileNameFrom(FirstSet(variables, kNames), 64);
    if (job.name.empty() || job.name == "none") {
      const auto port = variables.find("MASTER_PORT");
      job.name = port != variables.end() && !port->second.empty()
                     ? absl::StrCat("port-", FileNameFrom(port->second, 64))
                     : absl::StrCat(FileNameFrom(ranks[0].process.command, 64), "-", ranks[0].parent);
    }
    if (const auto slurm = variables.find("SLURM_JOB_ID"); slurm != variables.end()) job.slurm_id = slurm->second;
    if (const auto ras = variables.find("NCCL_RAS_ADDR"); ras != variables.end()) {
      int port = 0;
      if (absl::SimpleAtoi(ras->second.substr(ras->second.rfind(':') + 1), &port) && port > 0 && port < 65536)
        job.ras_port = port;
    }
    job.restart_count = static_cast<uint32_t>(std::max(0, NumberOf(variables, kRestarts)));
    std::set<int32_t> known;
    for (const Candidate& candidate : ranks) {
      job.world = std::max(job.world, candidate.process.world);
      known.insert(candidate.process.rank);
    }
    // If some numbers are missing or duplicate, all ranks are renumbered.
    job.numbered = known.size() < ranks.size() || *known.begin() < 0;
    if (job.numbered) {
      std::sort(ranks.begin(), ranks.end(),
                [](const Candidate& a, const Candidate& b) { return a.process.pid < b.process.pid; });
      for (size_t i = 0; i < ranks.size(); ++i) ranks[i].process.rank = static_cast<int32_t>(i);
      job.world = 0;
    } else {
      std::sort(ranks.begin(), ranks.end(),
                [](const Candidate& a, const Candidate& b) { return a.process.rank < b.process.rank; });
      AddEnded(ranks, &job);
    }
    for (Candidate& candidate : ranks) job.ranks.push_back(std::move(candidate.process));
    return job;
  }

  // Returns true if every rank of the job runs on this host.
  static bool AllHere(const Variables& variables) {
    const auto one = [&variables](const char* name) {
      const auto at = variables.find(name);
      return at != variables.end() && at->second == "1";
    };
    const auto master = variables.find("MASTER_ADDR");
    return (master != variables.end() && IsLoopback(master->second)) || one("SLURM_NNODES") ||
           one("SLURM_JOB_NUM_NODES");
  }

  void AddEnded(const std::vector<Candidate>& ranks, FoundJob* job) const {
    constexpr int32_t kMostHere = 4096;
    const RankProcess& first = ranks[0].process;
    std::map<int32_t, int32_t> expected;  // rank -> local rank
    const bool all = AllHere(ranks[0].variables) || first.local_world == job->world;
    if (all && job->world <= kMostHere) {
      for (int32_t rank = 0; rank < job->world; ++rank) expected[rank] = rank;
    } else if (first.local_world > 0 && first.local_world <= kMostHere && first.local_rank >= 0) {
      // Launchers give each host consecutive ranks. If the ranks here are not consecutive, no rank counts as missing.
      const int32_t base = first.rank - first.local_rank;
      for (const Candidate& candidate : ranks) {
        if (candidate.process.rank - candidate.process.local_rank != base) return;
      }
      for (int32_t local = 0; local < first.local_world; ++local) expected[base + local] = local;
    }
    for (const Candidate& candidate : ranks) expected.erase(candidate.process.rank);
    for (const auto& [rank, local] : expected) job->ended.push_back({.rank = rank, .local_rank = local});
    // A zombie has no variables. Its rank is known only if exactly one rank is missing.
    std::vector<pid_t> left;
    for (const auto& [pid, stat] : stats_) {
      const auto parent = [parent = stat.parent](const Candidate& c) { return c.parent == parent; };
      if (stat.ended() && NameIn(Folder(pid)) == first.command && std::any_of(ranks.begin(), ranks.end(), parent))
        left.push_back(pid);
    }
    if (job->ended.size() != 1 || left.size() != 1) return;
    job->ended[0].pid = left[0];
    job->ended[0].wait_status = stats_.at(left[0]).wait_status;
  }

  const std::string proc_;
  std::map<pid_t, ProcStat> stats_;
};

}  // namespace

Discovery FindJobs(const std::vector<pid_t>& pids, const std::string& proc) { return Finder(proc).Find(pids); }

}  // namespace lockstep
