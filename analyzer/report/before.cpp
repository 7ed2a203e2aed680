#include "analyzer/report/before.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/report/places.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostHosts = 32, kMostPlaces = 8, kMostName = 256;
constexpr size_t kMostAnswer = size_t{64} * 1024;
constexpr size_t kMostManifest = size_t{64} << 20;

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string Text(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

int64_t Number(const Json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_number_integer()) return 0;
  if (at->is_number_unsigned() && at->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return 0;
  return std::max<int64_t>(at->get<int64_t>(), 0);
}

std::string DayText(int64_t real_ns) {
  const std::string day = UtcText(real_ns, "%Y-%m-%d");
  return day.empty() ? "at a time that is not known" : day;
}

std::string Sentence(const Before::Item& before) {
  const std::string who = absl::StrCat(before.what, " ", Printable(before.name, 120));
  const std::string of =
      before.incidents == 1 ? "the only incident before" : absl::StrCat("the last ", before.incidents, " incidents");
  if (before.culprit_of == 0) return absl::StrCat(who, ": not among the culprits of ", of);
  return absl::StrCat(who, " was the culprit of ", before.culprit_of, " of ", of, ", last ",
                      DayText(before.last_real_ns), " (", Printable(before.last_kind, 40), ")");
}

// Folders that programs lie in are asked of the kernel, not of argv.
std::string BesideThisProgram(const char* name) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return name;
  const std::string own(path, static_cast<size_t>(length));
  return own.substr(0, own.rfind('/') + 1) + name;
}

// Standard output of `program` with `input`, which fits into a pipe. Empty on any failure, with *why. The process is
// gone when this returns.
std::string Ask(const std::string& program, const std::string& url, const std::string& input, int64_t limit_ns,
                std::string* why) {
  const int64_t until = Now() + limit_ns;
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) {
    *why = absl::StrCat("no pipe: ", strerror(errno));
    return "";
  }
  if (pipe2(out, O_CLOEXEC) != 0) {
    *why = absl::StrCat("no pipe: ", strerror(errno));
    close(in[0]);
    close(in[1]);
    return "";
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const std::string limit = absl::StrCat(std::max<int64_t>(limit_ns / 1'000'000, 1));
  const absl::StatusOr<pid_t> pid = StartChild({program, "before", "--to", url, "--time-limit-ms", limit}, actions);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  std::string answer;
  if (!pid.ok()) {
    *why = std::string(pid.status().message());
  } else {
    // It may be gone already: then the answer is empty. A write to a pipe without reader must not end this process.
    const auto before = signal(SIGPIPE, SIG_IGN);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    [[maybe_unused]] const ssize_t written = write(in[1], input.data(), input.size());
    signal(SIGPIPE, before);
  }
  close(in[1]);
  bool ended = !pid.ok();
  while (!ended && answer.size() < kMostAnswer) {
    const int64_t left = until - Now();
    if (left <= 0) break;
    pollfd polled = {out[0], POLLIN, 0};
    if (poll(&polled, 1, static_cast<int>(left / 1'000'000 + 1)) <= 0) continue;
    char bytes[4096];
    const ssize_t got = read(out[0], bytes, sizeof bytes);
    if (got > 0) {
      answer.append(bytes, static_cast<size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      ended = true;
    }
  }
  close(out[0]);
  if (pid.ok()) {
    kill(-*pid, SIGKILL);
    while (waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (!ended) {
      *why = absl::StrCat("the archive did not answer within ", DurationText(limit_ns));
      answer.clear();
    }
  }
  return answer;
}

}  // namespace

std::string ArchiveFromEnvironment() {
  const char* value = getenv("LOCKSTEP_ARCHIVE");
  return value == nullptr ? "" : value;
}

std::string BeforeQuestion(const Verdict& verdict, int64_t until_real_ns) {
  if (verdict.findings().empty()) return "";
  // Those that hold most culprits first.
  std::map<std::string, int> hosts;
  for (const Culprit& culprit : verdict.findings(0).culprits()) {
    if (!culprit.host().empty() && culprit.host().size() <= kMostName) ++hosts[culprit.host()];
  }
  const std::vector<std::string> places = PlacesOf(verdict.findings(0), kMostPlaces);
  if (hosts.empty() && places.empty()) return "";
  std::vector<std::pair<std::string, int>> sorted(hosts.begin(), hosts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Json names = Json::array();
  for (size_t i = 0; i < std::min(sorted.size(), kMostHosts); ++i) names.push_back(sorted[i].first);
  const Json json = {{"hosts", names}, {"places", places}, {"until_real_ns", std::max<int64_t>(until_real_ns, 0)}};
  // Escapes make a byte six at most: a pipe holds 64 KiB.
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60'000 ? text : "";
}

Before TakeBefore(std::string_view answer) {
  Before taken;
  const Json json = Json::parse(answer, nullptr, false);
  if (json.is_object()) taken.unknown = Printable(Text(json, "error"), 300);
  if (!taken.unknown.empty()) return taken;
  const auto list = json.is_object() ? json.find("before") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array()) {
    taken.unknown = "the archive's answer makes no sense";
    return taken;
  }
  for (const Json& item : *list) {
    if (!item.is_object() || taken.items.size() >= kMostHosts + kMostPlaces) continue;
    Before::Item before;
    before.what = Text(item, "what");
    if (before.what != "host" && before.what != "code place") continue;
    before.name = Printable(Text(item, "name"), kMostName);
    before.incidents = Number(item, "incidents");
    before.culprit_of = std::min(Number(item, "culprit_of"), before.incidents);
    if (before.incidents == 0) continue;  // an empty archive knows nothing
    if (before.culprit_of > 0) {
      before.last_real_ns = Number(item, "last_real_ns");
      before.last_kind = Printable(Text(item, "last_kind"), 40);
    }
    before.text = Sentence(before);
    taken.items.push_back(std::move(before));
  }
  return taken;
}

Before AskBefore(const std::string& url, const Verdict& verdict, int64_t until_real_ns, int64_t limit_ns) {
  const std::string question = BeforeQuestion(verdict, until_real_ns);
  if (url.empty() || question.empty()) return {};
  Before before;
  const std::string answer = Ask(BesideThisProgram("lockstep-archive"), url, question, limit_ns, &before.unknown);
  if (!answer.empty()) return TakeBefore(answer);
  before.unknown = before.unknown.empty() ? "the archive gave no answer" : Printable(before.unknown, 300);
  return before;
}

void AddBeforeRow(const Before& before, ReportContent* content) {
  constexpr size_t kMostShown = 4;
  if (before.empty()) return;
  ReportRow row{"before", {}};
  for (const Before::Item& item : before.items) {
    if (row.lines.size() == kMostShown) {
      row.lines.push_back(absl::StrCat("and ", before.items.size() - kMostShown, " more, in the JSON report"));
      break;
    }
    row.lines.push_back(Printable(item.text, 300));
  }
  if (!before.unknown.empty()) row.lines.push_back(absl::StrCat("not known: ", Printable(before.unknown, 300)));
  auto& rows = content->first.rows;
  const auto at = std::find_if(rows.begin(), rows.end(), [](const ReportRow& r) {
    return r.label == "NOT" || r.label == "maybe" || r.label == "sure" || r.label == "do";
  });
  rows.insert(at, std::move(row));
}

int64_t CapturedRealNs(const std::string& folder) {
  const int fd = open((folder + "/manifest.json").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return 0;
  struct stat info {};
  std::string text;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
      static_cast<size_t>(info.st_size) <= kMostManifest) {
    text.resize(static_cast<size_t>(info.st_size));
    const ssize_t got = pread(fd, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  }
  close(fd);
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? Number(json, "captured_real_ns") : 0;
}

}  // namespace lockstep
