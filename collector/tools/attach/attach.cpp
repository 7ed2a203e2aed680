#include "collector/tools/attach/attach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "analyzer/engine/replay/conclude.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/logs/format_reader.h"
#include "analyzer/formats/logs/ras.h"
#include "analyzer/report/report.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/scratch_folder.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/own_programs.h"
#include "collector/common/say.h"
#include "collector/host/proc.h"
#include "collector/incident/incident.h"
#include "collector/incident/index.h"
#include "collector/tools/attach/discovery.h"
#include "collector/tools/attach/hosts.h"
#include "collector/tools/attach/kubernetes.h"
#include "collector/tools/attach/local_query.h"
#include "collector/tools/attach/log_tails.h"
#include "collector/tools/attach/look.h"
#include "collector/tools/attach/torch_dumps.h"
#include "collector/tools/attach/torch_server.h"

namespace lockstep {
namespace {

constexpr int kUsage = 2, kRasPort = 28028;
constexpr int64_t kLogLimit = 1 * kSecond, kRasLimit = 3 * kSecond, kLookLimit = 8 * kSecond, kTorchLimit = 5 * kSecond,
                  kIndexLimit = 20 * kSecond, kHostLimit = 30 * kSecond, kAgentsLimit = 60 * kSecond,
                  kGiveUp = 90 * kSecond;
constexpr size_t kMostDump = 64 << 20;

std::string JobLine(const FoundJob& job) {
  std::vector<int32_t> ranks;
  for (const RankProcess& rank : job.ranks) ranks.push_back(rank.rank);
  return absl::StrCat(job.name, ": ", job.ranks.size(), job.ranks.size() == 1 ? " process" : " processes",
                      job.numbered ? "" : absl::StrCat(", rank ", FoldRanks(ranks)),
                      job.world > 0 ? absl::StrCat(" of ", job.world) : "", " (", job.ranks[0].command, ", PID ",
                      job.ranks[0].pid, job.ranks.size() > 1 ? " ..)" : ")");
}

// Returns the job to examine. Reports and returns null if there is none or more than one.
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
      named ? "no process on this host matches the request"
            : "found no process of a distributed job on this host: none has RANK, SLURM_PROCID or similar in its "
              "environment, or NCCL loaded. Give the PIDs of the ranks",
      found->unreadable > 0 ? absl::StrCat(". ", found->unreadable,
                                           " processes of other users could not be examined: run this as root "
                                           "(sudo lockstep attach), or as the job's user")
                            : ""));
  *status = options.stream.empty() ? kNoVerdict : kNothingHere;
  return nullptr;
}

// Text from the job's files.
struct Text {
  std::string bytes;
  int64_t written_ns = 0;  // 0 means now
};
// Maps the path in the incident folder to the text of that file.
using Texts = std::map<std::string, Text>;
constexpr const char* kLogs = "logs";
constexpr const char* kTorch = "torch";

void AddLogs(const FoundJob& job, const std::vector<pid_t>& pids, Texts* texts) {
  std::map<std::string, int> names;
  for (LogTail& tail : ReadLogTails(pids, kLogLimit)) {
    if (tail.text.empty()) continue;
    const std::string name =
        tail.of.size() == 1 ? absl::StrCat("output-of-rank_", job.ranks[tail.of[0]].rank) : std::string("output");
    const int number = ++names[name];
    (*texts)[absl::StrCat(kLogs, "/", name, number > 1 ? absl::StrCat(".", number) : "", ".log")] = {
        .bytes = std::move(tail.text)};
  }
}

std::string DumpPath(int32_t rank) { return absl::StrCat(kTorch, "/torch_rank_", rank); }

// Adds the ranks' dumps to *texts and returns their real times by rank. For ranks without a file, uses the debug
// server's dumps in `served`, which have no call sites.
std::map<int32_t, int64_t> AddDumps(const FoundJob& job, TorchDumps found, std::map<int32_t, std::string> served,
                                    Texts* texts) {
  std::map<int32_t, int64_t> taken;
  for (TorchDump& dump : found.dumps) {
    const int32_t rank = job.ranks[dump.of].rank;
    taken[rank] = dump.written_ns;
    (*texts)[DumpPath(rank)] = {std::move(dump.bytes), dump.written_ns};
  }
  for (const RankProcess& rank : job.ranks) {
    const auto dump = served.find(rank.rank);
    if (dump == served.end() || !taken.try_emplace(rank.rank, RealtimeNs()).second) continue;
    (*texts)[DumpPath(rank.rank)] = {.bytes = std::move(dump->second)};
  }
  if (!found.missing.empty() && taken.size() < job.ranks.size()) Say(found.missing);
  if (found.can_ask) Say("--ask-torch asks this job's PyTorch for Flight Recorder dumps; each rank then writes a file");
  return taken;
}

absl::Status WriteTexts(const Texts& texts, const std::string& folder) {
  if (texts.empty()) return absl::OkStatus();
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), ignored);
  mkdir(folder.c_str(), 0700);
  for (const char* name : {kLogs, kTorch}) mkdir(absl::StrCat(folder, "/", name).c_str(), 0700);
  for (const auto& [name, text] : texts) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (absl::Status status = WriteFileSafely(path, text.bytes); !status.ok()) return status;
    if (text.written_ns <= 0) continue;
    const timespec written = {text.written_ns / kSecond, text.written_ns % kSecond};
    const timespec times[] = {written, written};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  }
  // Removes only empty folders.
  for (const char* name : {kLogs, kTorch}) rmdir(absl::StrCat(folder, "/", name).c_str());
  return absl::OkStatus();
}

// Everything that was observed of the job on this host.
struct Seen {
  std::vector<Rank> ranks;
  Texts texts;
  std::map<int32_t, int64_t> dumped;  // indexed by rank: the real time of the rank's PyTorch dump
};

// Adds the observed process to the rank's calls from texts and dumps.
void AddSeen(Rank seen, Rank* told) {
  told->world_size = std::max(told->world_size, seen.world_size);
  told->local_rank = seen.local_rank;
  told->host = std::move(seen.host);
  told->boot_id = std::move(seen.boot_id);
  told->job = std::move(seen.job);
  told->restart_count = seen.restart_count;
  told->pid = seen.pid;
  told->gpu_index = seen.gpu_index;
  told->gpu_uuid = std::move(seen.gpu_uuid);
  told->gpu_pci = std::move(seen.gpu_pci);
  told->process = std::move(seen.process);
  told->source = seen.source;
}

// Builds a bundle from the calls in the texts and dumps in `folder`; the observed processes are its ranks.
Bundle MakeBundle(const FoundJob& job, const std::string& folder, Seen seen) {
  Bundle bundle;
  std::vector<std::string> paths;
  for (const char* name : {kLogs, kTorch}) {
    std::string path = absl::StrCat(folder, "/", name);
    if (access(path.c_str(), F_OK) == 0) paths.push_back(std::move(path));
  }
  // Missing texts, or texts without calls, are not an error.
  if (absl::StatusOr<Bundle> told = LoadPaths(paths); !paths.empty() && told.ok()) bundle = *std::move(told);
  // It is normal that the job's output has no messages of NCCL.
  std::erase_if(bundle.problems, [](const Problem& problem) { return problem.like == kNothingInLog; });
  for (Problem& problem : bundle.problems) problem.note = true;
  std::map<int32_t, Rank*> by_rank;
  for (Rank& rank : bundle.ranks) {
    by_rank[rank.rank] = &rank;
    // The loader sets a dump's time only if its newest call is recent.
    if (const auto at = seen.dumped.find(rank.rank); at != seen.dumped.end() && !rank.set_back)
      rank.captured_ns = std::max(rank.captured_ns, at->second);
  }
  std::vector<Rank> silent;
  for (Rank& rank : seen.ranks) {
    const auto at = by_rank.find(rank.rank);
    if (at == by_rank.end()) {
      silent.push_back(std::move(rank));
    } else {
      AddSeen(std::move(rank), at->second);
    }
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

// NCCL's RAS uses a line protocol. Since 2.28.7 it answers in JSON, which lists every rank; older versions answer in
// text.
std::string QueryRas(int port) {
  constexpr size_t kMostAnswer = 64 << 20;
  std::string answer = QueryLocal(port, "timeout 2\nset format json\nverbose status\n", kMostAnswer, kRasLimit);
  while (answer.starts_with("OK\n")) answer.erase(0, 3);
  if (!answer.empty() && answer.back() != '\n') answer.push_back('\n');
  return answer;
}

// RAS numbers ranks within communicators. Returns lines that map the processes in its report to ranks, for all
// addresses of this host.
std::string RasProcesses(const FoundJob& job) {
  std::set<std::string> hosts = {"127.0.0.1", "::1"};
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      char text[INET6_ADDRSTRLEN];
      const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
      const void* address =
          family == AF_INET ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr)
                            : &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      if ((family == AF_INET || family == AF_INET6) && inet_ntop(family, address, text, sizeof text) != nullptr)
        hosts.insert(text);
    }
    freeifaddrs(all);
  }
  std::string lines;
  if (job.numbered) return lines;
  for (const RankProcess& rank : job.ranks) {
    for (const std::string& host : hosts) lines += logs::RankProcessLine({rank.rank, rank.pid, host});
  }
  return lines;
}

Seen LookAt(const AttachOptions& options, const FoundJob& job) {
  Say(absl::StrCat("examining ", JobLine(job), "; this takes a few seconds"));
  std::vector<pid_t> pids;
  for (const RankProcess& rank : job.ranks) pids.push_back(rank.pid);
  const auto recorded = std::find_if(pids.begin(), pids.end(), [](pid_t pid) {
    const std::optional<Mapped> mapped = ReadMapped(pid, "liblockstep.so");
    return mapped && mapped->ring;
  });
  if (recorded != pids.end()) {
    const std::string folder = ReadEnvironment(*recorded, "LOCKSTEP_DIR").value_or("");
    Say(absl::StrCat("this job is recorded, and its rings show more: lockstep analyze ",
                     folder.empty() ? absl::StrCat("/dev/shm/lockstep-", job.ranks[0].uid) : folder));
  }
  Seen seen;
  // Program output cannot be redacted, so it is not read if redaction is requested.
  const bool texts_wanted = options.redact == RedactLevel::kNo;
  if (texts_wanted) AddLogs(job, pids, &seen.texts);
  TorchDumpReader torch(job, options.ask_torch, kTorchLimit);
  const int ras_port = job.ras_port > 0 ? job.ras_port : kRasPort;
  const bool ask_ras = texts_wanted && ListensOn(pids, ras_port);
  std::string ras;
  std::map<int32_t, std::string> served;
  TorchDumps dumps;
  std::vector<std::thread> questions;
  questions.emplace_back([&dumps, &torch] { dumps = torch.Take(); });
  if (ask_ras) questions.emplace_back([&ras, ras_port] { ras = QueryRas(ras_port); });
  if (options.ask_torch && !job.numbered) {
    const std::vector<pid_t> below = Descendants(job.ranks[0].pid);
    pids.insert(pids.end(), below.begin(), below.end());
    questions.emplace_back([&served, &pids] { served = AskTorchServer(pids, kTorchLimit); });
  }
  seen.ranks = LookAtRanks(job, options.host, kLookLimit);
  for (std::thread& question : questions) question.join();
  if (ask_ras) {
    const char* name = ras.starts_with('{') ? "/ncclras.json" : "/ncclras.txt";
    seen.texts[absl::StrCat(kLogs, name)] = {.bytes = absl::StrCat(ras, QueryRas(ras_port))};
    seen.texts[absl::StrCat(kLogs, "/processes.txt")] = {.bytes = RasProcesses(job)};
  }
  seen.dumped = AddDumps(job, std::move(dumps), std::move(served), &seen.texts);
  return seen;
}

IncidentFacts FactsOf(const Bundle& bundle) {
  IncidentFacts facts;
  facts.job = bundle.job;
  facts.exits = Exits(bundle);
  facts.captured_real_ns = RealtimeNs();
  facts.note = "taken by lockstep attach, without the recorder's rings";
  return facts;
}

// Writes the dump of this host's ranks to standard output, where `lockstep attach --hosts` reads it.
int Stream(const AttachOptions& options, const FoundJob& job) {
  const ScratchFolder scratch("lockstep-attach");
  Seen seen = LookAt(options, job);
  absl::Status status = scratch.status();
  if (status.ok()) status = WriteTexts(seen.texts, scratch.path());
  Bundle bundle = MakeBundle(job, scratch.path(), std::move(seen));
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

// Prints the verdict, calls `more` for further lines, and writes the folder.
int Deliver(Bundle bundle, const std::string& folder, const std::function<void(const Verdict&)>& more) {
  for (Rank& rank : bundle.ranks) rank.path = absl::StrCat(folder, "/", DumpFileName(rank.host));
  const Verdict verdict = replay::Conclude(bundle);
  fputs(VerdictText(verdict, bundle).c_str(), stdout);
  fflush(stdout);
  more(verdict);
  if (StoreIncident(folder, bundle, verdict, FactsOf(bundle), true))
    MakeIncidentIndex(folder, kIndexLimit).IgnoreError();
  return ExitStatus(verdict);
}

// Returns the folder to write. Reports why and returns "" if there is none.
std::string FolderFor(const AttachOptions& options, const std::string& job) {
  std::string folder = options.out.empty() ? DefaultIncidentFolder(job, RealtimeNs()) : options.out;
  const std::string why = WhyNoIncidentFolder(folder);
  if (why.empty()) return folder;
  Say(absl::StrCat("cannot write the incident folder ", folder, ": ", why, "; choose another with --out FOLDER"));
  return "";
}

// The targets to examine instead of this host.
struct Elsewhere {
  std::vector<Target> targets;
  std::map<std::string, Pod> pods;  // indexed by name; empty if the targets are hosts
  PodQuery query;
};

absl::StatusOr<Elsewhere> FindElsewhere(const AttachOptions& options) {
  Elsewhere found;
  if (options.kubernetes.empty()) {
    const absl::StatusOr<std::vector<std::string>> hosts = ReadHosts(options.hosts);
    if (!hosts.ok()) return hosts.status();
    found.targets = HostTargets(*hosts, options.launch);
    return found;
  }
  found.query = {options.kubectl, options.kubernetes, options.pod_namespace, options.container};
  const absl::StatusOr<std::vector<Pod>> pods = FindPods(found.query, kHostLimit);
  if (!pods.ok()) return pods.status();
  for (const Pod& pod : *pods) {
    found.targets.push_back(TargetOf(pod, found.query));
    if (pod.refused.empty()) found.pods[pod.name] = pod;
  }
  return found;
}

// Prints the culprits' nodes, and the commands that run programs in their pods, because ssh does not reach a pod.
void SayPods(const Verdict& verdict, const Elsewhere& elsewhere) {
  constexpr size_t kShown = 4;
  std::set<std::string> said;
  for (const Finding& finding : verdict.findings()) {
    for (const Culprit& culprit : finding.culprits()) {
      const auto pod = elsewhere.pods.find(culprit.host());
      if (pod == elsewhere.pods.end() || said.size() >= kShown || !said.insert(pod->first).second) continue;
      Say(absl::StrCat(
          pod->first, " is a pod", pod->second.node.empty() ? "" : " on node ", pod->second.node, "; instead of ssh: ",
          absl::StrJoin(absl::MakeConstSpan(TargetOf(pod->second, elsewhere.query).command).subspan(1), " ")));
    }
  }
}

// Lists the targets that did not answer. The verdict mentions them only if ranks are missing.
void SayWhereNot(const Bundle& bundle) {
  constexpr size_t kShown = 4;
  size_t count = 0;
  for (const Problem& problem : bundle.problems) {
    if (problem.like == kNoAnswer && ++count <= kShown) Say(absl::StrCat(problem.path, " was ", problem.text));
  }
  if (count > kShown) Say(absl::StrCat("and ", count - kShown, " more were not examined"));
}

std::string NameOfJob(const AttachOptions& options) {
  return !options.job.empty() ? options.job : !options.slurm.empty() ? options.slurm : "attached";
}

// Delivers a bundle from other hosts, or prints its error.
int DeliverFrom(absl::StatusOr<Bundle> bundle, const std::string& folder,
                const std::function<void(const Verdict&)>& more) {
  if (!bundle.ok()) {
    Say(bundle.status().message());
    return kNoVerdict;
  }
  SayWhereNot(*bundle);
  SetAside(folder);
  return Deliver(*std::move(bundle), folder, more);
}

int AttachThroughAgents(const AttachOptions& options) {
  const std::string folder = FolderFor(options, NameOfJob(options));
  if (folder.empty()) return kNoVerdict;
  Say("the agents are examining the job; this takes a few seconds");
  absl::StatusOr<Bundle> bundle = LookThroughAgents(*options.agents, options.job, options.slurm, kAgentsLimit);
  if (bundle.ok()) HostRedaction().Redact(&*bundle);
  return DeliverFrom(std::move(bundle), folder, [](const Verdict&) {});
}

int AttachElsewhere(const AttachOptions& options) {
  const absl::StatusOr<Elsewhere> elsewhere = FindElsewhere(options);
  if (!elsewhere.ok()) {
    Say(elsewhere.status().message());
    return absl::IsUnavailable(elsewhere.status()) || absl::IsNotFound(elsewhere.status()) ? kNoVerdict : kUsage;
  }
  const std::string job = NameOfJob(options);
  const std::string folder = FolderFor(options, job);
  if (folder.empty()) return kNoVerdict;
  std::vector<std::string> words = {
      options.remote, "attach", "--stream", job, "--redact", RedactLevelName(options.redact)};
  if (!options.job.empty()) words.insert(words.end(), {"--job", options.job});
  if (!options.slurm.empty()) words.insert(words.end(), {"--slurm", options.slurm});
  if (options.ask_torch) words.push_back("--ask-torch");
  const size_t count = elsewhere->targets.size();
  Say(absl::StrCat("examining ", count, options.kubernetes.empty() ? " host" : " pod", count == 1 ? "" : "s",
                   "; this takes a few seconds"));
  return DeliverFrom(LookAtTargets(elsewhere->targets, words, kHostLimit), folder,
                     [&](const Verdict& verdict) { SayPods(verdict, *elsewhere); });
}

int AttachHere(const AttachOptions& options) {
  const absl::StatusOr<Redactor> redactor = MakeRedactor(options.redact);
  if (!redactor.ok()) {
    Say(redactor.status().message());
    return kUsage;
  }
  SetHostRedaction(*redactor);
  if (options.agents) return AttachThroughAgents(options);
  if (!options.hosts.empty() || !options.kubernetes.empty()) return AttachElsewhere(options);
  Discovery found = FindJobs(options.pids);
  int status = 0;
  const FoundJob* job = Choose(options, &found, &status);
  if (job == nullptr) return status;
  if (!options.stream.empty()) return Stream(options, *job);
  const std::string folder = FolderFor(options, job->name);
  if (folder.empty()) return kNoVerdict;
  Seen seen = LookAt(options, *job);
  SetAside(folder);
  // A PyTorch dump cannot be redacted, but the bundle made from it can.
  const ScratchFolder scratch("lockstep-attach");
  const bool keep = options.redact == RedactLevel::kNo;
  const std::string& texts = keep ? folder : scratch.path();
  const absl::Status written = keep || scratch.status().ok() ? WriteTexts(seen.texts, texts) : scratch.status();
  if (!written.ok()) Say(written.message());
  Bundle bundle = MakeBundle(*job, texts, std::move(seen));
  HostRedaction().Redact(&bundle);
  return Deliver(std::move(bundle), folder, [](const Verdict&) {});
}

}  // namespace

int Attach(const AttachOptions& options) {
  // Each target has its own limit.
  if (options.agents || !options.hosts.empty() || !options.kubernetes.empty()) return AttachHere(options);
  // Works in a child, because reading /proc entries never returns if a process's memory lock is never released.
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
                                ": a read from one of the processes is stuck in the kernel")
                 : std::string("the process that examines the job was killed"));
  return kNoVerdict;
}

}  // namespace lockstep
