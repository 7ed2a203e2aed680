// lockstep-archive: sends incidents to ClickHouse and queries it.
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/report/phrases.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/system.h"
#include "collector/tools/archive/http.h"
#include "collector/tools/archive/incident_rows.h"
#include "collector/tools/archive/job_days.h"
#include "collector/tools/archive/questions.h"
#include "collector/tools/archive/spool.h"
#include "collector/tools/archive/store.h"

namespace lockstep::archive {
namespace {

constexpr int kDone = 0, kFailed = 1, kUsage = 2, kSpooled = 3;
constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr size_t kMostPassword = 4096, kMostQuestion = size_t{64} << 10, kMostJobs = size_t{64} << 20;

struct Options {
  const settings::ParsedOptions& given;
  std::string verb;
  std::vector<std::string> words;
  QueryArguments query;
};

void Say(const std::string& text) { fprintf(stderr, "lockstep archive: %s\n", Printable(text, 1000).c_str()); }

absl::StatusOr<Options> MakeOptions(const settings::ParsedOptions& parsed) {
  if (parsed.Given("password"))
    return parsed.Wrong(
        "do not give a password on the command line, which every user of the machine can read: use --password-file "
        "FILE");
  Options options{parsed, "", parsed.operands(), {}};
  const std::string first = parsed.operand();
  if (first == "query" || first == "send" || first == "before" || first == "best" || first == "jobs") {
    options.verb = first;
    options.words.erase(options.words.begin());
  }
  options.query.days = static_cast<int>(std::min<int64_t>(parsed.Number("days"), 18'000));
  options.query.limit = static_cast<int>(std::min<int64_t>(parsed.Number("limit"), 10'000));
  options.query.host = parsed.Text("host");
  options.query.place = parsed.Text("place");
  options.query.job = parsed.Text("job");
  options.query.cluster = parsed.Text("cluster");
  if (options.verb == "query" && options.words.size() != 1) return parsed.Wrong("query takes the name of one query");
  if (options.verb == "jobs" && options.words.size() != 1) return parsed.Wrong("jobs takes one file");
  if (options.verb == "send" && !options.words.empty()) return parsed.Wrong("send takes no incident folders");
  if (options.verb.empty() && options.words.empty() == parsed.Text("follow").empty())
    return parsed.Wrong("give one or more incident folders, or --follow DIR");
  if (!(options.verb == "query" && parsed.Flag("sql")) && parsed.Text("to").empty())
    return parsed.Wrong("missing the archive's address: give --to http://HOST:PORT/DATABASE, or LOCKSTEP_ARCHIVE");
  return options;
}

absl::StatusOr<Target> TargetOf(const Options& options) {
  absl::StatusOr<Target> target = ParseTarget(options.given.Text("to"), options.given.Flag("insecure"));
  if (!target.ok()) return target;
  target->ca_file = options.given.Text("ca");
  target->password = EnvironmentValue("LOCKSTEP_ARCHIVE_PASSWORD");
  if (const std::string file = options.given.Text("password-file"); !file.empty()) {
    absl::StatusOr<std::string> text = ReadWholeFile(file, kMostPassword, Links::kRefuse);
    if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat("the password file: ", text.status().message()));
    while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
    target->password = *text;
  }
  return target;
}

bool IsTemporary(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

using Clock = std::chrono::steady_clock;

// Sends incidents through the spool. Reports and sets aside files that are refused permanently; other files wait.
class Sender {
 public:
  Sender(const Options& options, Http* http, Spool spool)
      : cluster_(options.query.cluster),
        retry_s_(options.given.Seconds("retry-for")),
        store_(http),
        spool_(std::move(spool)) {}

  // Puts a folder into the spool, unless the archive or the spool already has it. Reports errors.
  void Take(const std::string& folder, bool quiet_if_unfinished) {
    absl::StatusOr<IncidentName> name = NameIncident(folder);
    if (!name.ok()) {
      if (!(quiet_if_unfinished && absl::IsFailedPrecondition(name.status())))
        Fail(std::string(name.status().message()));
      return;
    }
    name->cluster = cluster_;
    if (spool_.Has(*name)) {
      taken_.insert(folder);
      return;
    }
    bool there = false;
    if (const absl::Status status = Try([&] {
          const absl::StatusOr<bool> has = store_.Has(name->incident, name->job);
          if (has.ok()) there = *has;
          return has.status();
        });
        !status.ok() && !IsTemporary(status)) {
      Fail(std::string(status.message()));
      return;
    }
    if (there) {
      ++there_;
      taken_.insert(folder);
      return;
    }
    std::string notes;
    const absl::Status put =
        spool_.Put(*name, [&](const RowSink& sink) { return MakeRows(folder, *name, sink, &notes); });
    if (!put.ok()) {
      // A full spool is tried again. An unreadable folder is reported once.
      if (!absl::IsResourceExhausted(put)) taken_.insert(folder);
      Fail(absl::StrCat(folder, ": ", put.message()));
      return;
    }
    taken_.insert(folder);
    for (size_t at = 0; at < notes.size();) {
      const size_t end = notes.find('\n', at);
      Say(absl::StrCat(folder, ": ", notes.substr(at, end - at)));
      at = end + 1;
    }
  }

  // Sends everything in the spool. Returns false if the server became unreachable or refuses the user, or after
  // Http::Stop().
  bool Flush() {
    for (const std::string& path : spool_.Files()) {
      if (Http::stopped()) return false;
      const absl::Status status = Send(path);
      if (IsTemporary(status)) {
        away_ = std::string(status.message());
        return false;
      }
      if (absl::IsCancelled(status)) return false;
      if (absl::IsPermissionDenied(status)) {
        Fail(std::string(status.message()));
        return false;
      }
      if (!status.ok()) {
        Fail(absl::StrCat(path, " is set aside (.bad): ", status.message()));
        Spool::SetAside(path);
      }
    }
    return true;
  }

  absl::Status Prepare() {
    if (prepared_) return absl::OkStatus();
    absl::Status status = Try([&] { return store_.Prepare(); });
    prepared_ = status.ok();
    if (IsTemporary(status)) away_ = std::string(status.message());
    return status;
  }

  bool Took(const std::string& folder) const { return taken_.count(folder) > 0; }
  // Forgets folders that no longer exist.
  void Forget(const std::set<std::string>& present) {
    std::erase_if(taken_, [&](const std::string& folder) { return present.count(folder) == 0; });
  }
  int sent() const { return sent_; }
  int there() const { return there_; }
  bool failed() const { return failed_; }
  const std::string& away() const { return away_; }
  void Fail(const std::string& text) {
    failed_ = true;
    if (said_.insert(text).second) Say(text);
    if (said_.size() > 10'000) said_.clear();
  }

 private:
  absl::Status Send(const std::string& path) {
    absl::StatusOr<SpoolReader> reader = SpoolReader::Open(path);
    if (absl::IsNotFound(reader.status())) return absl::OkStatus();  // another process has sent it
    if (!reader.ok()) return absl::DataLossError(reader.status().message());
    if (absl::Status status = Prepare(); !status.ok()) return status;
    for (;;) {
      const absl::StatusOr<SpooledBatch> batch = reader->Next(kBatchBytes);
      if (!batch.ok()) return batch.status();
      if (batch->table.empty()) break;
      absl::Status status = Try([&] { return store_.Insert(batch->table, batch->rows); });
      if (!status.ok()) return status;
    }
    Spool::Remove(path);
    ++sent_;
    return absl::OkStatus();
  }

  // Repeats the work with growing pauses while the server is unreachable, for at most the time in the options.
  template <typename Work>
  absl::Status Try(const Work& work) {
    std::chrono::duration<double> pause(0.1);
    for (;;) {
      absl::Status status = work();
      if (!IsTemporary(status)) {
        if (status.ok()) until_ = {};
        return status;
      }
      const auto now = Clock::now();
      if (until_ == Clock::time_point{}) {
        until_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(retry_s_));
        if (retry_s_ > 0) Say(absl::StrCat(status.message(), "; retrying"));
      }
      // Spreads the retries of many waiting processes.
      const auto wait = pause * std::uniform_real_distribution<double>(0.5, 1.5)(random_);
      if (now + wait > until_ || Http::stopped()) return status;
      poll(nullptr, 0, static_cast<int>(wait.count() * 1000));
      pause = std::min(pause * 2, std::chrono::duration<double>(30));
    }
  }

  const std::string cluster_;
  const double retry_s_;
  Store store_;
  Spool spool_;
  bool prepared_ = false, failed_ = false;
  int sent_ = 0, there_ = 0;
  std::string away_;
  Clock::time_point until_{};
  std::set<std::string> taken_, said_;
  std::minstd_rand random_{std::random_device{}()};
};

std::vector<std::string> FoldersBelow(const std::string& root) {
  std::vector<std::string> folders;
  for (const std::string& name : NamesIn(root)) {
    const std::string path = absl::StrCat(root, "/", name);
    struct stat info {};
    if (name[0] == '.' || lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    if (access((path + "/manifest.json").c_str(), F_OK) == 0) folders.push_back(path);
  }
  return folders;
}

void Follow(const Options& options, Sender* sender) {
  Say(absl::StrCat("following ", options.given.Text("follow")));
  std::string away;
  while (!Http::stopped()) {
    const std::vector<std::string> folders = FoldersBelow(options.given.Text("follow"));
    sender->Forget({folders.begin(), folders.end()});
    const int before = sender->sent();
    bool reached = true;
    if (const absl::Status status = sender->Prepare(); !status.ok()) {
      reached = false;
      if (!IsTemporary(status) && !absl::IsCancelled(status)) sender->Fail(std::string(status.message()));
    }
    for (const std::string& folder : folders) {
      if (Http::stopped()) break;
      if (!sender->Took(folder)) sender->Take(folder, true);
    }
    if (reached) sender->Flush();
    if (sender->sent() > before)
      Say(absl::StrCat("sent ", sender->sent() - before, sender->sent() - before == 1 ? " incident" : " incidents"));
    for (double left = options.given.Seconds("every"); left > 0 && !Http::stopped(); left -= 0.1) poll(nullptr, 0, 100);
  }
}

int SendAll(const Options& options, Http* http) {
  std::string folder = options.given.Text("spool");
  if (folder.empty()) {
    const std::string state = EnvironmentValue("XDG_STATE_HOME"), home = EnvironmentValue("HOME");
    folder = absl::StrCat(!state.empty() ? state : absl::StrCat(home.empty() ? "/tmp" : home, "/.local/state"),
                          "/lockstep/archive");
  }
  absl::StatusOr<Spool> spool = Spool::Open(folder, options.given.Bytes("spool-limit"));
  if (!spool.ok()) {
    Say(std::string(spool.status().message()));
    return kFailed;
  }
  const Spool& files = *spool;
  Sender sender(options, http, files);
  if (!options.given.Text("follow").empty()) {
    Follow(options, &sender);
    Say(absl::StrCat("exiting; ", sender.sent(), " incidents were sent, ", files.Files().size(), " are waiting in ",
                     folder));
    return kDone;
  }
  absl::Status ready = sender.Prepare();
  if (!ready.ok() && !IsTemporary(ready)) {
    if (!absl::IsCancelled(ready)) Say(std::string(ready.message()));
    return kFailed;
  }
  for (const std::string& word : options.words) {
    if (Http::stopped()) break;
    // While the server is reachable, each incident is sent before the next one takes space in the spool.
    sender.Take(word, false);
    if (ready.ok() && !sender.Flush()) ready = absl::UnavailableError("");
  }
  const bool reached = ready.ok() && sender.Flush();
  const size_t waiting = files.Files().size();
  std::string text = absl::StrCat("sent ", sender.sent(), sender.sent() == 1 ? " incident" : " incidents");
  if (sender.there() > 0) absl::StrAppend(&text, ", ", sender.there(), " were already there");
  if (waiting > 0)
    absl::StrAppend(&text, "; ", waiting, waiting == 1 ? " is waiting in " : " are waiting in ", folder,
                    " (lockstep archive send retries)");
  if (!reached && !sender.away().empty()) absl::StrAppend(&text, "; ", sender.away());
  Say(text);
  if (sender.failed()) return kFailed;
  return reached && !Http::stopped() ? kDone : kSpooled;
}

int Query(const Options& options, Store* store) {
  const absl::StatusOr<std::string> statement = ReadyQuery(options.words[0], options.query);
  if (!statement.ok()) {
    Say(std::string(statement.status().message()));
    return kUsage;
  }
  if (options.given.Flag("sql")) {
    fputs(statement->c_str(), stdout);
    return kDone;
  }
  const absl::StatusOr<Answer> answer = store->Ask(*statement, 60'000);
  if (!answer.ok()) {
    Say(std::string(answer.status().message()));
    return kFailed;
  }
  winsize window{};
  const bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 20;
  const std::string text =
      options.given.Flag("json") ? AsJson(*answer) : AsTable(*answer, terminal ? window.ws_col : 0);
  const bool written = fputs(text.c_str(), stdout) >= 0 && fflush(stdout) == 0;
  return written ? kDone : kFailed;
}

// Reads standard input up to its end, at most `most` bytes.
std::string ReadInput(size_t most) {
  std::string text;
  for (int c = getchar(); c != EOF && text.size() < most; c = getchar()) text.push_back(static_cast<char>(c));
  return text;
}

// For verdicts (analyzer/report/before.h): reads a question from standard input, and always writes an answer to
// standard output.
int AnswerVerdict(const Options& options, Store* store) {
  const std::string question = ReadInput(kMostQuestion);
  const bool best = options.verb == "best";
  const absl::StatusOr<std::string> statement =
      best ? BestStatement(question) : BeforeStatement(question, options.query.cluster);
  const absl::StatusOr<Answer> answer =
      statement.ok() ? store->Ask(*statement, options.given.Number("time-limit-ms")) : statement.status();
  fputs((best ? BestAnswer(answer) : BeforeAnswer(question, answer)).c_str(), stdout);
  return answer.ok() ? kDone : kFailed;
}

int SendJobs(const Options& options, Store* store) {
  absl::StatusOr<std::string> text = std::string();
  if (options.words[0] == "-") {
    text = ReadInput(kMostJobs);
    if (text->size() == kMostJobs) text = absl::InvalidArgumentError("too much input; give fewer lines at a time");
  } else {
    text = ReadWholeFile(options.words[0], kMostJobs, Links::kRefuse);
  }
  const absl::StatusOr<std::vector<JobDay>> days = text.ok() ? ReadJobDays(*text, time(nullptr)) : text.status();
  absl::Status status = days.status();
  if (status.ok()) status = store->Prepare();
  // Servers limit the partitions of one insert, so rows are inserted day by day.
  std::map<std::string, std::string> by_day;
  if (status.ok()) {
    for (const JobDay& day : *days) {
      const Json row = {{"day", day.day},   {"cluster", options.query.cluster}, {"job", day.job},
                        {"source", "jobs"}, {"seconds", day.seconds},           {"ranks", day.ranks}};
      absl::StrAppend(&by_day[day.day], Dump(row), "\n");
    }
    for (const auto& [day, rows] : by_day) {
      if (status.ok()) status = store->Insert("job_days", rows);
      if (status.ok()) status = store->Merge("job_days", day);
    }
  }
  Say(status.ok() ? absl::StrCat("sent ", days->size(), " job-days") : std::string(status.message()));
  return status.ok() ? kDone : kFailed;
}

int Run(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<settings::ParsedOptions> parsed = settings::Parse("archive", argc, argv);
  if (const std::optional<int> status = settings::Finished("archive", parsed)) return *status;
  const absl::StatusOr<Options> made = MakeOptions(*parsed);
  if (!made.ok()) return settings::UsageError("archive", made.status());
  const Options& options = *made;
  if (options.verb == "query" && options.given.Flag("sql")) return Query(options, nullptr);
  const absl::StatusOr<Target> target = TargetOf(options);
  const absl::StatusOr<Redactor> redactor = MakeRedactor(ParseRedactLevel(options.given.Text("redact")).value());
  const bool before = options.verb == "before", best = options.verb == "best";
  if (const absl::Status wrong = target.ok() ? redactor.status() : target.status(); !wrong.ok()) {
    if (before || best) {
      fputs((best ? BestAnswer(wrong) : BeforeAnswer("", wrong)).c_str(), stdout);
    } else {
      Say(std::string(wrong.message()));
    }
    return kUsage;
  }
  SetHostRedaction(*redactor);
  for (const int ending : {SIGTERM, SIGINT, SIGHUP}) signal(ending, [](int) { Http::Stop(); });
  Http http(*target);
  Store store(&http);
  if (options.verb == "query") return Query(options, &store);
  if (before || best) return AnswerVerdict(options, &store);
  if (options.verb == "jobs") return SendJobs(options, &store);
  return SendAll(options, &http);
}

}  // namespace
}  // namespace lockstep::archive

int main(int argc, char** argv) {
  try {
    return lockstep::archive::Run(argc, argv);
  } catch (const std::exception& error) {
    fprintf(stderr, "lockstep archive: %s\n", error.what());
    return 1;
  }
}
