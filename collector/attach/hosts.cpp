#include "collector/attach/hosts.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/load/load.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/start_child.h"
#include "collector/attach/scratch_folder.h"

namespace lockstep {
namespace {

constexpr size_t kMostHostFile = 1 << 20, kMostHosts = 16384, kMostAtATime = 64;
constexpr size_t kMostFromHost = 64 << 20, kMostErrors = 16 << 10;

// Nothing that a launcher takes for an option or a shell for more than a word.
bool IsHost(absl::string_view name) {
  return !name.empty() && name.size() <= 253 && name[0] != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' || c == '@';
  });
}

std::string LastLine(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return CleanUtf8(text.substr(text.rfind('\n') + 1), 300);
}

// Empty: success; the host's dump is at `path`.
std::string AskHost(const std::vector<std::string>& words, int64_t limit_ns, const std::string& path) {
  ChildRun run;
  run.output = run.errors = ChildStream::kKeep;
  run.most_output = kMostFromHost;
  run.limit_ns = limit_ns;
  const absl::StatusOr<ChildResult> result = RunChild(words, run);
  if (!result.ok()) return std::string(result.status().message());
  if (const absl::Status ended = result->Ended(); !ended.ok()) {
    const std::string last = LastLine(result->errors.substr(0, kMostErrors));
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
                                                     "' is no name of a host; one a line, at most ", kMostHosts));
    }
    hosts.emplace_back(line);
  }
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " names no host"));
  return hosts;
}

absl::StatusOr<Bundle> LookAtHosts(const std::vector<std::string>& hosts, const std::vector<std::string>& launch,
                                   const std::vector<std::string>& arguments, int64_t limit_ns) {
  const ScratchFolder scratch;
  if (!scratch.status().ok()) return scratch.status();
  std::vector<std::string> paths(hosts.size()), failed(hosts.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(hosts.size(), kMostAtATime); ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < hosts.size(); at = next++) {
        std::vector<std::string> words = {"/usr/bin/env"};
        words.insert(words.end(), launch.begin(), launch.end());
        words.insert(words.end(), {hosts[at], "lockstep", "attach"});
        words.insert(words.end(), arguments.begin(), arguments.end());
        paths[at] = absl::StrCat(scratch.path(), "/", at, ".lsd");
        failed[at] = AskHost(words, limit_ns, paths[at]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> answered;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (failed[i].empty()) answered.push_back(paths[i]);
  }
  if (answered.empty()) return absl::UnavailableError(absl::StrCat("no host answers; ", hosts[0], ": ", failed[0]));
  absl::StatusOr<Bundle> bundle = LoadPaths(answered);
  for (size_t i = 0; bundle.ok() && i < hosts.size(); ++i) {
    if (!failed[i].empty())
      bundle->problems.push_back(
          {.path = hosts[i], .text = absl::StrCat("not looked at: ", failed[i]), .like = "no answer"});
  }
  return bundle;
}

}  // namespace lockstep
