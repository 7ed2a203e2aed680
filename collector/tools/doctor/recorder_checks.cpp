#include "collector/tools/doctor/checks.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analyzer/report/phrases.h"
#include "analyzer/settings/table.h"
#include "analyzer/settings/types.h"
#include "analyzer/util/file_mapping.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/nccl_version.h"
#include "analyzer/util/scratch_folder.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/system.h"
#include "analyzer/util/unique_fd.h"
#include "collector/host/proc.h"
#include "recorder/ring/layout.h"
#include "recorder/ring/reader.h"
#include "recorder/ring/settings.h"

namespace lockstep::doctor {
namespace {

constexpr int kProbeSeconds = 20;
constexpr int kProbeCalls = 3;

std::string RingFolder(const Environment& environment) {
  const std::string set = GetVariable(environment, "LOCKSTEP_DIR");
  return set.empty() ? absl::StrCat("/dev/shm/lockstep-", geteuid()) : set;
}

// Returns `path` itself if it exists, otherwise its nearest existing parent.
std::string Existing(std::string path) {
  while (path.size() > 1 && access(path.c_str(), F_OK) != 0) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    path.resize(std::max<size_t>(slash, 1));
  }
  return path;
}

// Returns the names of all environment variables of Lockstep.
const std::set<std::string>& KnownVariables() {
  static const auto& known = *[] {
    auto* names = new std::set<std::string>;
    for (const settings::LoneVariable& lone : settings::LoneVariables()) names->insert(lone.name);
    for (const settings::Row& row : settings::Table()) names->insert(row.variable);
    return names;
  }();
  return known;
}

struct Ran {
  std::string error;  // the probe could not run, or exited abnormally
  // The loader refused the probe (not the recorder), because the probe needs a newer glibc than this host has.
  bool too_new = false;
  std::map<std::string, std::string> said;
};

// Runs the probe, at most kProbeSeconds, and returns its output.
Ran RunProbe(const std::vector<std::string>& words, const Environment& environment) {
  Ran ran;
  ChildRun how;
  how.output = how.errors = ChildStream::kKeep;
  how.environment = &environment;
  how.limit_ns = int64_t{kProbeSeconds} * 1'000'000'000;
  const absl::StatusOr<ChildResult> result = RunChild(words, how);
  if (!result.ok()) {
    ran.error = std::string(result.status().message());
    return ran;
  }
  ran.too_new = WEXITSTATUS(result->status) != 0 && absl::StrContains(result->errors, "version `GLIBC_");
  if (WIFSIGNALED(result->status)) ran.error = std::string(result->Ended().message());
  for (const absl::string_view line : absl::StrSplit(result->output, '\n')) {
    const size_t space = line.find(' ');
    if (space != absl::string_view::npos)
      ran.said[std::string(line.substr(0, space))] = Printable(std::string(line.substr(space + 1)), 200);
  }
  if (ran.error.empty() && ran.said.count("error") > 0) ran.error = ran.said["error"];
  if (ran.error.empty()) ran.error = std::string(result->Ended().message());
  return ran;
}

// Returns where to create the probes' folder: in the folder for rings, or its nearest existing parent.
std::string ProbeParent(const Environment& environment) {
  const std::string parent = RingFolder(environment);
  return access(parent.c_str(), W_OK) == 0 ? parent : Existing(std::filesystem::path(parent).parent_path().string());
}

// Reads the only ring below the folder. Returns false with an empty *error if there is none.
bool ReadOnlyRing(const std::string& folder, ring::Snapshot* snapshot, std::string* error) {
  std::error_code ignored;
  for (auto it = std::filesystem::recursive_directory_iterator(folder, ignored);
       it != std::filesystem::recursive_directory_iterator(); it.increment(ignored)) {
    if (it->path().extension() == ".ring") return ring::ReadRingFile(it->path().string(), {}, snapshot, error);
  }
  *error = "";
  return false;
}

Environment ProbeEnvironment(Environment environment, const std::string& library, const std::string& folder) {
  PrependPreload(&environment, library);
  SetVariable(&environment, "LOCKSTEP_DIR", folder);
  SetVariable(&environment, "LOCKSTEP_JOB", "doctor");
  SetVariable(&environment, "LOCKSTEP_GPU", "off");
  SetVariable(&environment, "RANK", "0");
  SetVariable(&environment, "WORLD_SIZE", "1");
  // Hides all GPUs from the probe.
  SetVariable(&environment, "CUDA_VISIBLE_DEVICES", "");
  return environment;
}

bool SymbolsOnly(const Environment& environment) {
  return absl::EqualsIgnoreCase(GetVariable(environment, "LOCKSTEP_HOOK"), "symbols");
}

// Returns whether NCCL was linked into a program or library, which then contains its banner.
bool HoldsNccl(const std::string& path) {
  const auto file = FileMapping::Open(OpenToRead(path), path);
  return file.ok() && absl::StrContains(absl::string_view((*file)->data(), (*file)->size()), "NCCL version 2.");
}

std::string NcclVersion(const std::string& number) {
  int version = 0;
  return absl::SimpleAtoi(number, &version) && version > 0 ? NcclVersionText(version) : "of an unknown version";
}

}  // namespace

ProbePlaces FindProbe() {
  const std::string folder = OwnFolder() + "../lib/lockstep/";
  return {folder + "probe", folder + "liblockstep-probe-nccl.so"};
}

std::vector<Check> SwitchChecks(const Environment& environment) {
  std::vector<Check> checks;
  const std::string on = absl::AsciiStrToLower(GetVariable(environment, "LOCKSTEP"));
  for (const char* off : {"0", "off", "no", "false"}) {
    if (on == off)
      checks.push_back(
          Bad("switches", absl::StrCat("LOCKSTEP=", on, " is set: nothing is recorded"), "unset LOCKSTEP"));
  }
  if (absl::EqualsIgnoreCase(GetVariable(environment, "LOCKSTEP_HOOK"), "off"))
    checks.push_back(
        Bad("switches", "LOCKSTEP_HOOK=off is set: calls are forwarded but not recorded", "unset LOCKSTEP_HOOK"));
  for (const std::string& file :
       {std::string("/etc/lockstep/off"), std::string("/run/lockstep/off"), RingFolder(environment) + "/off"}) {
    if (access(file.c_str(), F_OK) == 0)
      checks.push_back(Bad("switches", absl::StrCat(file, " exists: no process on this host is recorded"),
                           absl::StrCat("remove ", file)));
  }
  if (access("/etc/lockstep/deny", F_OK) == 0)
    checks.push_back(Note("switches", "/etc/lockstep/deny lists programs or NCCL versions that are not recorded"));
  if (!GetVariable(environment, "LOCKSTEP_DENY").empty())
    checks.push_back(Note("switches", "LOCKSTEP_DENY lists programs or NCCL versions that are not recorded"));
  std::vector<std::string> unknown;
  for (const std::string& variable : environment) {
    const std::string name = variable.substr(0, variable.find('='));
    if (absl::StartsWith(name, "LOCKSTEP_") && KnownVariables().count(name) == 0)
      unknown.push_back(Printable(name, 60));
  }
  for (const std::string& wrong : settings::WrongRecorderVariables())
    checks.push_back(Note("switches", Printable(wrong), "correct or unset it"));
  if (!unknown.empty())
    checks.push_back(
        Note("switches", absl::StrCat("unknown variables: ", absl::StrJoin(unknown, ", ")), "check the spelling"));
  if (checks.empty()) checks.push_back(Good("switches", "recording is on"));
  return checks;
}

Check SharedMemoryCheck(const Environment& environment, int ranks) {
  const std::string name = "shared memory", folder = RingFolder(environment);
  struct stat info {};
  if (folder.size() > ring::kMostFolderPath)
    return Bad(name, absl::StrCat("LOCKSTEP_DIR is longer than ", ring::kMostFolderPath, " characters: it is not used"),
               "set LOCKSTEP_DIR to a shorter path");
  if (lstat(folder.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode))
      return Bad(name, absl::StrCat(folder, " is not a folder"), "set LOCKSTEP_DIR to a folder, or remove this file");
    if (info.st_uid != geteuid() && access(folder.c_str(), W_OK) != 0)
      return Bad(name, absl::StrCat(folder, " belongs to user ", info.st_uid),
                 "set LOCKSTEP_DIR to a folder that you own");
  }
  const std::string there = Existing(folder);
  struct statfs system {};
  if (statfs(there.c_str(), &system) != 0)
    return Bad(name, absl::StrCat(there, ": ", strerror(errno)), "mount a tmpfs there or set LOCKSTEP_DIR");
  if (access(there.c_str(), W_OK) != 0)
    return Bad(name, absl::StrCat(there, " cannot be written to"), "set LOCKSTEP_DIR to a folder that you own");
  const auto room = static_cast<int64_t>(system.f_bavail) * static_cast<int64_t>(system.f_bsize);
  const bool memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
  const std::string found = absl::StrCat(folder, ": ", BytesText(room), " free", memory ? "" : ", not in memory");
  const auto smallest = static_cast<int64_t>(ring::kMinFileBytes),
             usual = static_cast<int64_t>(ring::kDefaultFileBytes);
  // A tmpfs without a limit has no size.
  const int64_t all = system.f_blocks == 0
                          ? std::numeric_limits<int64_t>::max()
                          : static_cast<int64_t>(system.f_blocks) * static_cast<int64_t>(system.f_bsize);
  const std::string more =
      "give the container more shared memory (docker --shm-size, an emptyDir of medium Memory on /dev/shm), or set "
      "LOCKSTEP_DIR";
  if (system.f_blocks != 0 && std::min(room, all) / 16 < smallest) {
    return Bad(name,
               absl::StrCat(found,
                            ": no ring fits (all rings take at most a sixteenth of its size, one at most a "
                            "sixteenth of what is free, and at least ",
                            BytesText(smallest),
                            "); rings are then in the memory of their processes, and a killed process loses its ring "
                            "unless an agent or lockstep run watches it"),
               more);
  }
  if (all / 16 / std::max(ranks, 1) < usual) {
    return Note(name,
                absl::StrCat(found, ": ", ranks, " ranks get rings of less than ", BytesText(usual),
                             all / 16 / std::max(ranks, 1) < smallest ? ", some of them in memory only" : ""),
                "more shared memory keeps more history");
  }
  if (!memory)
    return Note(name, found,
                "with rings on a disk, training waits for write-back: set LOCKSTEP_DIR to a folder on a tmpfs");
  return Good(name, found);
}

std::vector<Check> HookChecks(const Environment& environment, const ProbePlaces& probe) {
  const absl::StatusOr<std::string> library = FindLibrary(environment);
  if (!library.ok())
    return {Bad("recorder", std::string(library.status().message()),
                "install the recorder's package, or set LOCKSTEP_LIBRARY")};
  std::vector<Check> checks;
  if (access(probe.program.c_str(), X_OK) != 0 || access(probe.library.c_str(), R_OK) != 0) {
    checks.push_back(Note("recorder", *library + "; not tried", absl::StrCat(probe.program, " is not installed")));
    return checks;
  }
  const struct {
    const char* name;
    std::vector<std::string> words;
  } ways[] = {{"NCCL linked", {probe.program, "linked"}}, {"NCCL by dlopen", {probe.program, "opened", probe.library}}};
  bool said_library = false;
  for (const auto& way : ways) {
    const ScratchFolder folder("doctor", ProbeParent(environment));
    if (!folder.status().ok())
      return {Bad("recorder", std::string(folder.status().message()), "set LOCKSTEP_DIR to a writable folder")};
    Ran ran = RunProbe(way.words, ProbeEnvironment(environment, *library, folder.path()));
    if (ran.too_new) {
      return {Note("recorder",
                   *library + "; could not be tested here: the probe needs glibc 2.34, and this host has an older one",
                   "the recorder itself needs only glibc 2.17. To test it, start a job with LD_PRELOAD=" + *library +
                       " where jobs run, and check that `lockstep top` lists it")};
    }
    if (!ran.error.empty()) {
      checks.push_back(Bad(way.name, absl::StrCat("the probe failed with ", *library, " preloaded: ", ran.error),
                           "run it yourself: LD_PRELOAD=" + *library + " " + absl::StrJoin(way.words, " ")));
      continue;
    }
    ring::Snapshot snapshot;
    std::string error;
    if (!ReadOnlyRing(folder.path(), &snapshot, &error)) {
      if (error.empty() && SymbolsOnly(environment) && way.words.size() > 2) {
        checks.push_back(Note(way.name, "not recorded, because LOCKSTEP_HOOK=symbols is set",
                              "LOCKSTEP_HOOK=dlsym, the default, records such calls"));
      } else {
        const bool no_room = SharedMemoryCheck(environment, 1).health == Health::kBad;
        checks.push_back(Bad(
            way.name,
            no_room         ? "0 ranks recorded: no ring fits"
            : error.empty() ? "0 ranks recorded: the probe left no ring"
                            : absl::StrCat("the probe's ring cannot be read: ", error),
            no_room         ? "see 'shared memory'"
            : error.empty() ? "see 'switches'; LD_PRELOAD must reach the process (not through sudo or a setuid program)"
                            : "see 'shared memory'; the limit of open files (ulimit -n) may also be the cause"));
      }
      continue;
    }
    if (!snapshot.process.stop_reason.empty()) {
      checks.push_back(Bad(way.name, absl::StrCat("the recorder stopped: ", Printable(snapshot.process.stop_reason)),
                           "see docs/recorder.md, Kill switches"));
      continue;
    }
    const auto recorded = std::count_if(snapshot.ops.begin(), snapshot.ops.end(), [](const ring::OpSnapshot& op) {
      return op.kind == ring::CallKind::kAllReduce;
    });
    if (snapshot.comms.size() != 1 || recorded != kProbeCalls) {
      checks.push_back(Bad(way.name,
                           absl::StrCat("the ring has ", recorded, " of ", kProbeCalls,
                                        " calls; communicators, of 1: ", snapshot.comms.size()),
                           "please report this with the output of lockstep doctor --json"));
      continue;
    }
    checks.push_back(
        Good(way.name, absl::StrCat("recorded and read back", said_library ? "" : absl::StrCat(", by ", *library))));
    said_library = true;
  }
  return checks;
}

std::vector<std::string> FindNccl(const Environment& environment) {
  std::vector<std::string> folders =
      absl::StrSplit(GetVariable(environment, "LD_LIBRARY_PATH"), absl::ByAnyChar(":;"), absl::SkipEmpty());
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
                             "/usr/local/lib", "/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/opt/nccl/lib"})
    folders.push_back(folder);
  // Python wheels bring their own NCCL.
  std::vector<std::string> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string value = GetVariable(environment, name); !value.empty()) prefixes.push_back(value + "/lib");
  }
  if (const std::string home = GetVariable(environment, "HOME"); !home.empty())
    prefixes.push_back(home + "/.local/lib");
  prefixes.insert(prefixes.end(), {"/usr/local/lib", "/usr/lib", "/opt/conda/lib"});
  for (const std::string& prefix : prefixes) {
    for (const std::string& name : NamesIn(prefix, 4096)) {
      if (!absl::StartsWith(name, "python3")) continue;
      for (const char* packages : {"/site-packages", "/dist-packages"})
        folders.push_back(absl::StrCat(prefix, "/", name, packages, "/nvidia/nccl/lib"));
    }
  }
  std::error_code error;
  std::vector<std::string> found;
  std::set<std::string> seen;
  for (const std::string& folder : folders) {
    const std::string path = folder + "/libnccl.so.2";
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (!error && seen.insert(real.string()).second) found.push_back(path);
    error.clear();
  }
  return found;
}

std::vector<Check> NcclChecks(const Environment& environment, const ProbePlaces& probe, const std::string& named,
                              bool recorded) {
  std::vector<std::string> paths = named.empty() ? FindNccl(environment) : std::vector<std::string>{named};
  if (paths.empty()) {
    return {Note("NCCL", "no libnccl.so.2 in the usual places; it may be linked into the program or be in a container",
                 "run lockstep doctor where the job runs, or give its path with --nccl PATH")};
  }
  const absl::StatusOr<std::string> library = FindLibrary(environment);
  constexpr size_t kMost = 4;
  std::vector<Check> checks;
  for (size_t i = 0; i < paths.size() && i < kMost; ++i) {
    if (!library.ok() || access(probe.program.c_str(), X_OK) != 0) {
      checks.push_back(Note("NCCL", paths[i] + "; not tried"));
      continue;
    }
    const ScratchFolder folder("doctor", ProbeParent(environment));
    if (!folder.status().ok())
      return {Note("NCCL", absl::StrCat(paths[i], "; not tried: ", folder.status().message()))};
    Ran ran = RunProbe({probe.program, "opened", paths[i]}, ProbeEnvironment(environment, *library, folder.path()));
    if (ran.too_new) {
      checks.push_back(Note(
          "NCCL", paths[i] + "; could not be tested here: the probe needs glibc 2.34, and this host has an older one"));
      continue;
    }
    const std::string what = absl::StrCat(NcclVersion(ran.said["version"]), " at ", paths[i]);
    // If libnccl.so itself cannot be opened, NCCL was not linked into another library.
    const bool own_name = absl::StartsWith(paths[i].substr(paths[i].rfind('/') + 1), "libnccl.so");
    if (!ran.error.empty() && !own_name && HoldsNccl(paths[i])) {
      checks.push_back(Bad("NCCL", absl::StrCat("is linked into ", paths[i], ", where hooks do not see its calls"),
                           "NCCL's profiler interface sees them, from 2.23 on: lockstep run --profiler, or "
                           "NCCL_PROFILER_PLUGIN=/usr/lib/liblockstep.so"));
      continue;
    }
    if (!ran.error.empty()) {
      const std::string text = absl::StrCat(paths[i], " cannot be used: ", ran.error);
      checks.push_back(named.empty() ? Note("NCCL", text, "this does not matter if the job has its own NCCL")
                                     : Bad("NCCL", text, "give the path of the library that the job loads"));
      continue;
    }
    ring::Snapshot snapshot;
    std::string error;
    if (!ReadOnlyRing(folder.path(), &snapshot, &error)) {
      if (error.empty() && SymbolsOnly(environment)) {
        checks.push_back(Note("NCCL", what + ": not tested, because LOCKSTEP_HOOK=symbols is set",
                              "this check opens NCCL with dlopen"));
        continue;
      }
      if (!recorded) {
        checks.push_back(
            Note("NCCL", what + ": unknown whether its calls are recorded", "fix the failed checks above first"));
        continue;
      }
      checks.push_back(Bad("NCCL", absl::StrCat(what, ": calls are not recorded", error.empty() ? "" : ": " + error),
                           "see 'switches'; please report this with the output of lockstep doctor --json"));
      continue;
    }
    // With every GPU hidden, the communicator cannot be created, but its recorded failure is proof enough.
    const bool failed = ran.said["init"] != "0";
    checks.push_back(
        Good("NCCL", absl::StrCat(what, ": calls are recorded", failed ? " (tested with every GPU hidden)" : "")));
  }
  if (paths.size() > kMost)
    checks.push_back(Note("NCCL", absl::StrCat(paths.size() - kMost, " more libraries were found but not tested")));
  return checks;
}

}  // namespace lockstep::doctor
