#include "collector/attach/attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/load/load.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/report.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/attach/discovery.h"
#include "collector/attach/hosts.h"
#include "collector/attach/log_tails.h"
#include "collector/attach/look.h"
#include "collector/attach/ras_query.h"
#include "collector/attach/scratch_folder.h"
#include "collector/common/say.h"
#include "collector/host/proc.h"
#include "collector/incident/incident.h"
#include "collector/incident/index.h"

namespace lockstep {
namespace {

constexpr int kUsage = 2, kNoVerdict = 3;
constexpr int64_t kLogLimit = 1 * kSecond, kRasLimit = 3 * kSecond, kLookLimit = 8 * kSecond,
                  kIndexLimit = 20 * kSecond, kHostLimit = 30 * kSecond, kGiveUp = 90 * kSecond;
constexpr size_t kMostDump = 64 << 20;

std::string JobLine(const FoundJob& job) {
  std::vector<int32_t> ranks;
  for (const RankProcess& rank : job.ranks) ranks.push_back(rank.rank);
  return absl::StrCat(job.name, ": ", job.ranks.size(), job.ranks.size() == 1 ? " process" : " processes",
                      job.numbered ? "" : absl::StrCat(", rank ", FoldRanks(ranks)),
                      job.world > 0 ? absl::StrCat(" of ", job.world) : "", " (", job.ranks[0].command, ", PID ",
                      job.ranks[0].pid, job.ranks.size() > 1 ? " ..)" : ")");
}

// The job to look at; null: there is none, or more than one, which is reported.
const FoundJob* Choose(const AttachOptions& options, Discovery* found, int* status) {
  if (!options.slurm.empty())
    std::erase_if(found->jobs, [&](const FoundJob& job) { return job.slurm_id != options.slurm; });
  if (!options.job.empty()) std::erase_if(found->jobs, [&](const FoundJob& job) { return job.name != options.job; });
  if (found->jobs.size() == 1) return &found->jobs[0];
  if (found->jobs.size() > 1) {
    Say("several jobs run on this host. Choose one with --job NAME, or give the PIDs of its ranks:");
    for (const FoundJob& job : found->jobs) SayBlock(absl::StrCat("  ", JobLine(job), "\n"));
    *status = kUsage;
    return nullptr;
  }
  const bool named = !options.pids.empty() || !options.job.empty() || !options.slurm.empty();
  Say(absl::StrCat(
      named ? "no process of this host is what was asked for"
            : "no process of a distributed job was found on this host: none has RANK, SLURM_PROCID or the like in its "
              "environment, or NCCL loaded. Give the PIDs of the ranks",
      found->unreadable > 0 ? absl::StrCat(". ", found->unreadable,
                                           " processes of other users could not be looked at: run as root, or as "
                                           "the user of the job")
                            : ""));
  *status = kNoVerdict;
  return nullptr;
}

// Texts about the job, by the name of their file.
using Texts = std::map<std::string, std::string>;

void AddLogs(const FoundJob& job, const std::vector<pid_t>& pids, Texts* texts) {
  std::map<std::string, int> names;
  for (LogTail& tail : ReadLogTails(pids, kLogLimit)) {
    if (tail.text.empty()) continue;
    const std::string name =
        tail.of.size() == 1 ? absl::StrCat("output-of-rank_", job.ranks[tail.of[0]].rank) : std::string("output");
    const int number = ++names[name];
    (*texts)[absl::StrCat(name, number > 1 ? absl::StrCat(".", number) : "", ".log")] = std::move(tail.text);
  }
}

absl::Status WriteTexts(const Texts& texts, const std::string& folder) {
  if (texts.empty()) return absl::OkStatus();
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), ignored);
  mkdir(folder.c_str(), 0700);
  const std::string logs = folder + "/logs";
  mkdir(logs.c_str(), 0700);
  for (const auto& [name, text] : texts) {
    if (absl::Status status = WriteFileSafely(absl::StrCat(logs, "/", name), text); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Calls from the texts, with the observed processes as its ranks.
Bundle MakeBundle(const FoundJob& job, const std::string& logs, std::vector<Rank> seen) {
  Bundle bundle;
  // Texts without calls, or no texts, are no error.
  if (absl::StatusOr<Bundle> told = LoadPaths({logs}); told.ok()) bundle = *std::move(told);
  for (Problem& problem : bundle.problems) problem.note = true;
  std::map<int32_t, Rank*> by_rank;
  for (Rank& rank : bundle.ranks) by_rank[rank.rank] = &rank;
  std::vector<Rank> silent;
  for (Rank& rank : seen) {
    const auto at = by_rank.find(rank.rank);
    if (at == by_rank.end()) {
      silent.push_back(std::move(rank));
      continue;
    }
    Rank& told = *at->second;
    rank.memberships = std::move(told.memberships);
    rank.ops = std::move(told.ops);
    rank.captured_ns = told.captured_ns;
    rank.only_active = told.only_active;
    rank.start_recorded = told.start_recorded;
    rank.ends_untold = told.ends_untold;
    told = std::move(rank);
  }
  for (Rank& rank : silent) bundle.ranks.push_back(std::move(rank));
  std::sort(bundle.ranks.begin(), bundle.ranks.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
  bundle.job = job.name;
  bundle.ranks_expected = std::max(bundle.ranks_expected, job.world);
  return bundle;
}

std::vector<ExitRecord> Exits(const Bundle& bundle) {
  std::vector<ExitRecord> exits;
  for (const Rank& rank : bundle.ranks) {
    const Process& process = rank.process;
    if (rank.pid == 0 && process.life == Life::kUnknown) continue;
    const std::string text = process.life == Life::kExited   ? absl::StrCat("exited ", process.exit_code)
                             : process.life == Life::kKilled ? absl::StrCat("killed by signal ", process.signal)
                             : process.life == Life::kGone   ? "gone"
                                                             : "running";
    exits.push_back({rank.rank, rank.pid, text});
  }
  return exits;
}

std::string RasPart(const std::string& answer) {
  return answer.empty() || answer.back() == '\n' ? answer : answer + "\n";
}

// What a look at the job on this host gives.
struct Seen {
  std::vector<Rank> ranks;
  Texts texts;
};

Seen LookAt(const AttachOptions& options, const FoundJob& job) {
  Say(absl::StrCat("looking at ", JobLine(job), "; this takes a few seconds"));
  std::vector<pid_t> pids;
  for (const RankProcess& rank : job.ranks) pids.push_back(rank.pid);
  if (const std::optional<Mapped> mapped = ReadMapped(pids[0], "liblockstep.so"); mapped && mapped->lockstep) {
    Say(absl::StrCat("this job is recorded: its rings show more, lockstep analyze /dev/shm/lockstep-",
                     job.ranks[0].uid));
  }
  Seen seen;
  // Nothing is taken out of what programs print: where something must be, it is left out as a whole.
  const bool texts_wanted = options.redact == RedactLevel::kNo;
  if (texts_wanted) AddLogs(job, pids, &seen.texts);
  const int ras_port = job.ras_port > 0 ? job.ras_port : kRasPort;
  std::string ras;
  std::thread first;
  const bool ask = texts_wanted && ListensForRas(pids, ras_port);
  if (ask) first = std::thread([&ras, ras_port] { ras = RasPart(QueryRas(kRasLimit, ras_port)); });
  seen.ranks = LookAtRanks(job, options.host, kLookLimit);
  if (ask) {
    first.join();
    seen.texts["ncclras.txt"] = absl::StrCat(ras, RasPart(QueryRas(kRasLimit, ras_port)));
  }
  return seen;
}

IncidentFacts FactsOf(const Bundle& bundle) {
  IncidentFacts facts;
  facts.job = bundle.job;
  facts.exits = Exits(bundle);
  facts.captured_real_ns = RealtimeNs();
  facts.note = "taken by lockstep attach: no recorder was loaded";
  return facts;
}

// The dump of this host's ranks, for merging several hosts.
int Stream(const AttachOptions& options, const FoundJob& job) {
  const ScratchFolder scratch;
  Seen seen = LookAt(options, job);
  absl::Status status = scratch.status();
  if (status.ok()) status = WriteTexts(seen.texts, scratch.path());
  Bundle bundle = MakeBundle(job, scratch.path() + "/logs", std::move(seen.ranks));
  bundle.job = options.stream;
  HostRedaction().Redact(&bundle);
  const std::string folder = scratch.path() + "/incident";
  if (status.ok()) status = WriteIncident(folder, bundle, Verdict(), FactsOf(bundle));
  if (status.ok()) {
    const absl::StatusOr<std::string> dump =
        ReadWholeFile(absl::StrCat(folder, "/", DumpFileName(options.host)), kMostDump);
    status = dump.ok() ? WriteAll(STDOUT_FILENO, *dump, "standard output") : dump.status();
  }
  if (status.ok()) return 0;
  Say(status.message());
  return kNoVerdict;
}

void SetAside(const std::string& folder) {
  const absl::StatusOr<EarlierIncident> earlier = SetEarlierIncidentAside(folder);
  if (!earlier.ok()) {
    Say(earlier.status().message());
  } else if (!earlier->moved_to.empty()) {
    Say(absl::StrCat("the earlier incident in ", folder, " was moved to ", earlier->moved_to));
  }
}

// Prints the verdict and writes the folder.
int Deliver(Bundle bundle, const std::string& folder) {
  for (Rank& rank : bundle.ranks) rank.path = absl::StrCat(folder, "/", DumpFileName(rank.host));
  const Verdict verdict = WithCircumstances(Analyze(bundle, AnalyzeOptions()), bundle);
  fputs(VerdictText(verdict, bundle).c_str(), stdout);
  fflush(stdout);
  const absl::Status written = WriteIncident(folder, bundle, verdict, FactsOf(bundle));
  if (written.ok()) {
    Say(absl::StrCat("incident written to ", folder, " (lockstep analyze ", folder, ")"));
    MakeIncidentIndex(folder, kIndexLimit).IgnoreError();
  } else {
    Say(absl::StrCat("the incident folder is not complete: ", written.message()));
  }
  return ExitStatus(verdict);
}

// The folder to write; empty: impossible, which is reported.
std::string FolderFor(const AttachOptions& options, const std::string& job) {
  std::string folder = options.out.empty() ? DefaultIncidentFolder(job, RealtimeNs()) : options.out;
  const std::string why = WhyNoIncidentFolder(folder);
  if (why.empty()) return folder;
  Say(absl::StrCat("cannot write the incident folder ", folder, ": ", why, "; choose another with --out FOLDER"));
  return "";
}

int AttachToHosts(const AttachOptions& options) {
  const absl::StatusOr<std::vector<std::string>> hosts = ReadHosts(options.hosts);
  if (!hosts.ok()) {
    Say(hosts.status().message());
    return kUsage;
  }
  const std::string job = !options.job.empty() ? options.job : !options.slurm.empty() ? options.slurm : "attached";
  const std::string folder = FolderFor(options, job);
  if (folder.empty()) return kNoVerdict;
  std::vector<std::string> arguments = {"--stream", job, "--redact", RedactLevelName(options.redact)};
  if (!options.job.empty()) arguments.insert(arguments.end(), {"--job", options.job});
  if (!options.slurm.empty()) arguments.insert(arguments.end(), {"--slurm", options.slurm});
  Say(absl::StrCat("looking at ", hosts->size(), hosts->size() == 1 ? " host" : " hosts",
                   "; this takes a few seconds"));
  absl::StatusOr<Bundle> bundle = LookAtHosts(*hosts, options.launch, arguments, kHostLimit);
  if (!bundle.ok()) {
    Say(bundle.status().message());
    return kNoVerdict;
  }
  SetAside(folder);
  return Deliver(*std::move(bundle), folder);
}

int AttachHere(const AttachOptions& options) {
  std::string key;
  const absl::StatusOr<Redactor> redactor = MakeRedactor(options.redact, "", &key);
  if (!redactor.ok()) {
    Say(redactor.status().message());
    return kUsage;
  }
  SetHostRedaction(*redactor);
  if (!options.hosts.empty()) return AttachToHosts(options);
  Discovery found = FindJobs(options.pids);
  int status = 0;
  const FoundJob* job = Choose(options, &found, &status);
  if (job == nullptr) return status;
  if (!options.stream.empty()) return Stream(options, *job);
  const std::string folder = FolderFor(options, job->name);
  if (folder.empty()) return kNoVerdict;
  Seen seen = LookAt(options, *job);
  SetAside(folder);
  const absl::Status texts = WriteTexts(seen.texts, folder);
  if (!texts.ok()) Say(texts.message());
  Bundle bundle = MakeBundle(*job, folder + "/logs", std::move(seen.ranks));
  HostRedaction().Redact(&bundle);
  return Deliver(std::move(bundle), folder);
}

}  // namespace

int Attach(const AttachOptions& options) {
  // Reading /proc of a process whose memory the kernel has locked for good does not return.
  const pid_t child = fork();
  if (child < 0) {
    Say(absl::StrCat("cannot start a process: ", strerror(errno)));
    return kNoVerdict;
  }
  if (child == 0) _exit(AttachHere(options));
  const int64_t begin = MonotonicNs();
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && MonotonicNs() - begin < kGiveUp) poll(nullptr, 0, 10);
  if (ended == child && WIFEXITED(status)) return WEXITSTATUS(status);
  if (ended == 0) kill(child, SIGKILL);
  Say(ended == 0 ? absl::StrCat("gave up after ", DurationText(kGiveUp),
                                ": the kernel does not return from a look at one of the processes")
                 : std::string("the process that looks at the job was killed"));
  return kNoVerdict;
}

}  // namespace lockstep
