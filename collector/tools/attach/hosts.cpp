#include "collector/tools/attach/hosts.h"

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/scratch_folder.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/start_child.h"
#include "collector/common/own_programs.h"

namespace lockstep {
namespace {

constexpr size_t kMostHostFile = 1 << 20, kMostHosts = 16384, kMostAtATime = 64;
constexpr size_t kMostFromHost = 64 << 20, kMostErrors = 16 << 10;

// Returns false for names that a launcher would read as an option, or a shell as more than one word.
bool IsHost(absl::string_view name) {
  return !name.empty() && name.size() <= 253 && name[0] != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' || c == '@';
  });
}

std::string LastLine(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return CleanUtf8(text.substr(text.rfind('\n') + 1), 300);
}

// Returns whether a shell or a container runtime reports that `lockstep` does not exist.
bool SaysNotFound(std::string_view errors) {
  for (const char* text : {"executable file not found", "command not found", ": not found", "No such file or directory",
                           "no such file or directory"}) {
    if (errors.find(text) != errors.npos && errors.find("lockstep") != errors.npos) return true;
  }
  return false;
}

// Writes the host's dump to `path`. Returns "" on success, otherwise the error.
std::string AskTarget(const Target& target, const std::vector<std::string>& what, int64_t limit_ns,
                      const std::string& path) {
  if (!target.refused.empty()) return target.refused;
  std::vector<std::string> words = target.command;
  words.insert(words.end(), what.begin(), what.end());
  ChildRun run;
  run.output = run.errors = ChildStream::kKeep;
  run.most_output = kMostFromHost;
  run.limit_ns = limit_ns;
  const absl::StatusOr<ChildResult> result = RunChild(words, run);
  if (!result.ok()) return std::string(result.status().message());
  if (const absl::Status ended = result->Ended(); !ended.ok()) {
    // If lockstep itself ran, another file was not found.
    const bool ran = WIFEXITED(result->status) && WEXITSTATUS(result->status) >= kNoVerdict &&
                     WEXITSTATUS(result->status) <= kNothingHere;
    if (!ran && SaysNotFound(std::string_view(result->errors).substr(0, kMostErrors))) return target.without;
    const std::string last = LastLine(std::string_view(result->errors).substr(0, kMostErrors));
    return absl::StrCat(ended.message(), last.empty() ? "" : ": ", last);
  }
  const absl::Status written = WriteFileSafely(path, result->output);
  return written.ok() ? "" : std::string(written.message());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadHosts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostHostFile);
  if (!text.ok()) return text.status();
  std::vector<std::string> hosts;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (!IsHost(line) || hosts.size() >= kMostHosts) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": '",
                                                     CleanUtf8({line.data(), line.size()}, 80),
                                                     "' is not a host name; give one per line, at most ", kMostHosts));
    }
    hosts.emplace_back(line);
  }
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " lists no host"));
  return hosts;
}

std::vector<Target> HostTargets(const std::vector<std::string>& hosts, const std::vector<std::string>& launch) {
  std::vector<Target> targets;
  for (const std::string& host : hosts) {
    Target target;
    target.name = host;
    target.command = {"/usr/bin/env"};
    target.command.insert(target.command.end(), launch.begin(), launch.end());
    target.command.push_back(host);
    target.without = "lockstep is not on its PATH; give its path with --remote PROGRAM";
    targets.push_back(std::move(target));
  }
  return targets;
}

absl::StatusOr<Bundle> LookAtTargets(const std::vector<Target>& targets, const std::vector<std::string>& words,
                                     int64_t limit_ns) {
  const ScratchFolder scratch("lockstep-attach");
  if (!scratch.status().ok()) return scratch.status();
  std::vector<std::string> paths(targets.size()), failed(targets.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(targets.size(), kMostAtATime); ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < targets.size(); at = next++) {
        paths[at] = absl::StrCat(scratch.path(), "/", at, ".lsd");
        failed[at] = AskTarget(targets[at], words, limit_ns, paths[at]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> answered;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (failed[i].empty()) answered.push_back(paths[i]);
  }
  if (answered.empty())
    return absl::UnavailableError(absl::StrCat("no host answered; ", targets[0].name, ": ", failed[0]));
  absl::StatusOr<Bundle> bundle = LoadPaths(answered);
  for (size_t i = 0; bundle.ok() && i < targets.size(); ++i) {
    if (!failed[i].empty())
      bundle->problems.push_back(
          {.path = targets[i].name, .text = absl::StrCat("not examined: ", failed[i]), .like = kNoAnswer});
  }
  return bundle;
}

absl::StatusOr<Bundle> LookThroughAgents(const CollectorAddress& address, const std::string& job,
                                         const std::string& slurm, int64_t limit_ns) {
  const ScratchFolder scratch("lockstep-attach");
  if (!scratch.status().ok()) return scratch.status();
  struct Host {
    std::string dump, problem = "part of its answer is missing";
    uint64_t bytes = 0;
    bool answered = false;
  };
  std::map<std::string, Host> hosts;
  ClientRequest request;
  request.set_kind(ClientRequest::EXAMINE);
  request.set_job(job);
  request.set_slurm(slurm);
  const absl::Status asked = AskCollector(address, request, limit_ns, [&](const ClientReply& reply) {
    const HostEvidence& said = reply.examined();
    if (!reply.has_examined() || said.asked() > 0 || hosts.size() >= kMostHosts) return;
    Host& host = hosts[CleanUtf8(said.host(), 256)];
    // After a reconnection, all answers are repeated.
    if (said.dump_offset() == host.dump.size() && host.dump.size() + said.dump().size() <= kMostFromHost)
      host.dump += said.dump();
    if (!said.problem().empty()) host.problem = CleanUtf8(said.problem(), 300);
    if (!said.last() || !said.problem().empty()) return;
    host.answered = true;
    host.bytes = said.dump_bytes();
  });
  if (!asked.ok()) return asked;
  std::vector<std::string> answered;
  std::vector<Problem> problems;
  for (auto& [name, host] : hosts) {
    if (!host.answered || host.dump.size() != host.bytes) {
      problems.push_back({.path = name, .text = absl::StrCat("not examined: ", host.problem), .like = kNoAnswer});
    } else if (!host.dump.empty()) {
      answered.push_back(absl::StrCat(scratch.path(), "/", answered.size(), ".lsd"));
      if (absl::Status written = WriteFileSafely(answered.back(), host.dump); !written.ok()) return written;
    }
    host.dump.clear();
  }
  if (answered.empty()) {
    return absl::UnavailableError(
        problems.empty() ? absl::StrCat("no process of the job is on the ", hosts.size(), " hosts that answered")
                         : absl::StrCat("no answer; ", problems[0].path, ": ", problems[0].text));
  }
  absl::StatusOr<Bundle> bundle = LoadPaths(answered);
  if (bundle.ok()) bundle->problems.insert(bundle->problems.end(), problems.begin(), problems.end());
  return bundle;
}

}  // namespace lockstep
