// Determines which process ended first, and how. Launchers, exceptions and watchdogs report ends; most ends are
// consequences of another end.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/format_reader.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/formats/logs/ranks.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostSignal = 64, kMostStatus = 255;
constexpr char kLostGroup[] = "ranks that lost a connection";

// The end of one process.
struct End {
  int32_t rank = -1;
  const FileFacts* file = nullptr;
  const FailedWorker* worker = nullptr;  // null: no launcher reported it
  const Notice* killed = nullptr;        // null: neither the kernel nor a shell reported it
  const Raised* raised = nullptr;        // null: it printed no exception
};

class Ends {
 public:
  Ends(const std::vector<FileFacts>& files, Ranks* out) : files_(files), out_(*out) {
    hosts_ = std::count_if(files.begin(), files.end(),
                           [](const FileFacts& file) { return file.rank < 0 && !file.locals.empty(); });
  }

  void Run() {
    Gather();
    if (const std::optional<End> first = First()) {
      Put(*first);
    } else {
      AddSilent();
      Report();
    }
  }

 private:
  // Returns the rank with this local rank: the same number if the job has one host, otherwise -1.
  int32_t RankOfLocal(const FileFacts& file, int32_t local) const {
    const bool more = !file.locals.empty() && out_.said > *file.locals.rbegin() + 1;
    return more || hosts_ > 1 || file.pods.size() > 1 ? -1 : local;
  }

  int32_t RankOfProcess(const std::string& host, int64_t pid) const {
    if (pid <= 0) return -1;
    const std::set<int32_t>& of = out_.At(host, pid, "");
    return of.size() == 1 ? *of.begin() : -1;
  }

  void Gather() {
    const auto before = [](const FailedWorker& a, const FailedWorker& b) {
      return a.time.empty() == b.time.empty() ? a.time < b.time : b.time.empty();
    };
    std::map<int32_t, End> shells;  // ends that shells reported, by rank
    for (const FileFacts& file : files_) {
      for (const FailedWorker& worker : file.failed) {
        if (reported_.worker != nullptr && !before(worker, *reported_.worker)) continue;
        const bool more_hosts = worker.on_host > 0 && (out_.said == 0 || out_.said > worker.on_host);
        const int32_t rank = FirstKnown(
            {worker.rank, more_hosts ? -1 : RankOfLocal(file, worker.local), RankOfProcess(worker.host, worker.pid)});
        if (rank < 0 && more_hosts && worker.local >= 0) locals_.push_back({.file = &file, .worker = &worker});
        if (rank >= 0) reported_ = {.rank = rank, .file = &file, .worker = &worker};
        if (rank < 0 && worker.rank < 0 && worker.local < 0) processes_.push_back({.file = &file, .worker = &worker});
      }
      for (const auto& said : file.notices) {
        calls_differ_ |= said.what.by == Notice::By::kGloo;
        if (said.what.exit_code == 0) continue;
        if (said.what.by == Notice::By::kShell) {
          const int32_t rank = FirstKnown({said.who.rank, said.who.task, file.rank});
          if (rank >= 0) shells.try_emplace(rank, End{.rank = rank, .file = &file, .killed = &said.what});
          continue;
        }
        const int32_t rank = RankOfProcess(said.what.host, said.what.pid);
        if (rank >= 0 && killed_.killed == nullptr) killed_ = {.rank = rank, .file = &file, .killed = &said.what};
      }
      for (const Raised& raised : file.raised) {
        const int32_t rank = FirstKnown({raised.rank, raised.task, file.rank, RankOfLocal(file, raised.local)});
        if (rank < 0) {
          // A launcher's own exception only reports that a worker failed.
          if (!IsOfLauncher(raised.text))
            (raised.of_others ? unplaced_of_others_ : unplaced_).push_back({.file = &file, .raised = &raised});
        } else {
          (raised.of_others ? of_others_ : own_)[rank] = {.rank = rank, .file = &file, .raised = &raised};
        }
      }
    }
    for (const FileFacts& file : files_) {
      for (const FailedWorker& worker : file.failed) {
        if (reported_.worker != nullptr && worker.rank >= 0 && worker.rank != reported_.rank && !worker.time.empty() &&
            worker.time == reported_.worker->time && worker.exit_code == reported_.worker->exit_code)
          alike_ += 1 + worker.alike;
      }
    }
    if (reported_.worker != nullptr) alike_ += reported_.worker->alike;
    // If several processes were killed, a launcher may have killed some of them.
    if (shells.size() == 1 && killed_.killed == nullptr) killed_ = shells.begin()->second;
    GatherWarnings();
    // The watchdog ended a process that waited, so the exception of its main thread is a consequence.
    std::erase_if(own_, [&](const auto& entry) { return out_.waited.contains(entry.first); });
    PlaceException();
  }

  // If the GPU of one process failed, and others only lost their connections, that process failed first.
  void GatherWarnings() {
    std::map<int32_t, std::pair<const FileFacts*, const Notice*>> failed;
    bool others = !of_others_.empty() || !out_.waited.empty();
    for (const FileFacts& file : files_) {
      for (const auto& said : file.notices) {
        others |= said.what.of_others;
        if (!said.what.of_gpu) continue;
        const int32_t rank =
            FirstKnown({said.who.rank, said.who.task, file.rank, RankOfProcess(said.what.host, said.what.pid)});
        if (rank >= 0) failed.try_emplace(rank, &file, &said.what);
      }
    }
    if (failed.size() != 1 || !others || !own_.empty()) return;
    const auto& [rank, where] = *failed.begin();
    made_ = {.rank = rank, .text = where.second->text, .frames = {}};
    own_[rank] = {.rank = rank, .file = where.first, .raised = &made_};
  }

  // If all ranks but one waited until a timeout, an exception without a label is that rank's.
  void PlaceException() {
    if (!own_.empty() || unplaced_.size() != 1 || unplaced_[0].raised->text.empty() || out_.waited.empty()) return;
    const std::set<int32_t> silent = Silent(out_.waited);
    if (out_.unplaced_waits || silent.size() != 1) return;
    End end = unplaced_[0];
    end.rank = *silent.begin();
    own_.emplace(end.rank, end);
    unplaced_.clear();
  }

  std::optional<End> First() const {
    const bool read = own_.size() == 1 && !own_.begin()->second.raised->text.empty();
    std::optional<End> alone = read ? std::optional(own_.begin()->second) : std::nullopt;
    // A process that crashed, or that the kernel killed for its memory use, did not fail because of another process.
    // The log does not show whether that process ended before or after another rank's exception.
    if (killed_.killed != nullptr) {
      const auto own = own_.find(killed_.rank);
      alone = own_.size() == (own != own_.end() ? 1u : 0u) ? std::optional(killed_) : std::nullopt;
      if (alone && own != own_.end()) alone->raised = own->second.raised;
    }
    if (reported_.worker == nullptr || out_.waited.contains(reported_.rank)) return alone;
    // torchrun prints times in seconds, and lists failures that it sees at once in the order of ranks.
    if (alike_ > 0 && (reported_.worker->exit_code == -SIGKILL || !reported_.worker->time.empty())) return alone;
    if (const auto own = own_.find(reported_.rank); own != own_.end()) {
      // If several ranks raise the same exception, none of them alone is the cause.
      const auto same = [&](const auto& entry) { return entry.second.raised->text == own->second.raised->text; };
      if (std::count_if(own_.begin(), own_.end(), same) > 1) return std::nullopt;
      End end = reported_;
      end.raised = own->second.raised;
      return end;
    }
    // A watchdog aborts its process because of another process, so an abort was the first end only if all other ranks
    // were waiting.
    const bool consequence = of_others_.contains(reported_.rank) ||
                             (reported_.worker->exit_code == 1 && unplaced_.empty() && !unplaced_of_others_.empty());
    if (consequence || (reported_.worker->exit_code == -SIGABRT && (alone || !OnlySilent(reported_.rank))))
      return alone;
    return reported_;
  }

  void Put(const End& end) { Put(end, &out_.Of(end.rank, end.file->path)->rank); }

  static void Put(const End& end, Rank* into) {
    Rank& rank = *into;
    if (end.raised != nullptr) {
      rank.process.exception = end.raised->text;
      rank.process.python_stack = end.raised->frames;
    }
    if (end.killed != nullptr) {
      rank.process.life = Life::kKilled;
      rank.process.signal = static_cast<int32_t>(-end.killed->exit_code);
      return;
    }
    if (end.worker == nullptr) {
      rank.process.life = Life::kExited;
      rank.process.exit_code = 1;  // Python's exit status for an uncaught exception
      return;
    }
    if (!end.worker->host.empty()) rank.host = end.worker->host;
    if (end.worker->pid > 0 && end.worker->pid <= INT32_MAX) rank.pid = static_cast<int32_t>(end.worker->pid);
    if (end.raised != nullptr && !end.raised->text.empty() && end.worker->exit_code == -SIGABRT) {
      constexpr int32_t kAborted = 128 + SIGABRT;  // an uncaught exception that ended in abort()
      rank.process.life = Life::kExited;
      rank.process.exit_code = kAborted;
      return;
    }
    if (end.worker->gone) {
      rank.process.life = Life::kGone;
      return;
    }
    const bool killed = end.worker->exit_code < 0;
    rank.process.life = killed ? Life::kKilled : Life::kExited;
    (killed ? rank.process.signal : rank.process.exit_code) =
        static_cast<int32_t>(std::abs(std::clamp<int64_t>(end.worker->exit_code, -kMostSignal, kMostStatus)));
  }

  bool OnlySilent(int32_t rank) const {
    return !out_.waited.empty() && !out_.unplaced_waits && !calls_differ_ &&
           Silent(out_.waited) == std::set<int32_t>{rank};
  }

  // Returns the ranks that did not wait, without the ranks that the launcher ended, unless it ended all of them. Empty
  // if there are far more ranks than lines. `waiting` must not be empty.
  std::set<int32_t> Silent(const std::set<int32_t>& waiting) const {
    const bool named = NamedByRank();
    int32_t ranks = std::max(out_.said, *waiting.rbegin() + 1);
    std::set<int32_t> silent, ended_first, terminated;
    for (const FileFacts& file : files_) {
      terminated.insert(file.terminated.begin(), file.terminated.end());
      if (!file.ranks.empty()) ranks = std::max(ranks, *file.ranks.rbegin() + 1);
      if (named) ranks = std::max(ranks, file.rank + 1);
    }
    if (!terminated.empty()) ranks = std::max(ranks, *terminated.rbegin() + 1);
    ranks = std::max(ranks, reported_.rank + 1);
    constexpr size_t kSparse = 16;  // far more ranks than lines, so the lines cover only a few ranks
    if (static_cast<size_t>(ranks) > waiting.size() * kSparse) return {};
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (waiting.contains(rank)) continue;
      silent.insert(rank);
      if (!terminated.contains(rank)) ended_first.insert(rank);
    }
    return ended_first.empty() ? silent : ended_first;
  }

  // If all ranks but one lost connections or waited too long, they are in an operation that the silent rank is not in.
  void AddSilent() {
    std::set<int32_t> waiting = out_.waited;
    for (const auto& [rank, end] : of_others_) waiting.insert(rank);
    if ((of_others_.empty() && !out_.waits_for_unnamed) || waiting.empty() || !own_.empty() || calls_differ_ ||
        CallsAreKnown())
      return;
    const std::set<int32_t> of = Silent(waiting);
    const bool all = out_.said == static_cast<int32_t>(waiting.size() + 1);
    if (((waiting.size() < 2 || out_.waits_by_number) && !all) || of.size() != 1) return;
    std::vector<int32_t> members(waiting.begin(), waiting.end());
    members.push_back(*of.begin());
    std::sort(members.begin(), members.end());
    for (const int32_t rank : waiting) {
      const auto end = of_others_.find(rank);
      // Only the wait is kept, because the calls are known only for some ranks.
      if (const auto known = out_.ranks.find(rank); known != out_.ranks.end()) {
        known->second.rank.ops.clear();
        known->second.used.clear();
        known->second.claims.clear();
      }
      AddWait(out_.Of(rank, end == of_others_.end() ? files_[0].path : end->second.file->path), out_.said == 0);
    }
    out_.ranks.at(*waiting.begin()).claims.push_back({kLostGroup, "", std::move(members)});
  }

  // Returns whether the files show calls of ranks, not only that ranks waited.
  bool CallsAreKnown() const {
    const bool compared = std::any_of(files_.begin(), files_.end(), [](const FileFacts& file) {
      return !file.fingerprints.empty() || std::any_of(file.barriers.begin(), file.barriers.end(),
                                                       [](const auto& said) { return !said.what.missing.empty(); });
    });
    return compared || std::any_of(out_.ranks.begin(), out_.ranks.end(), [](const auto& entry) {
             return !entry.second.rank.only_active && !entry.second.rank.ops.empty();
           });
  }

  // Returns whether files are named after ranks: each file's lines mention only the rank in its name.
  bool NamedByRank() const {
    return files_.size() > 1 && std::all_of(files_.begin(), files_.end(), [](const FileFacts& file) {
             return std::all_of(file.ranks.begin(), file.ranks.end(), [&](int32_t rank) { return rank == file.rank; });
           });
  }

  static void AddWait(fr::FileData* data, bool may_have_more) {
    data->used[Ranks::GroupOf(data, kLostGroup, "")].may_have_more = may_have_more;
    Ranks::AddStuck(data, kLostGroup, ring::CallKind::kOtherCollective, kUntoldOperation);
  }

  // If a rank waited until a timeout, no process had ended earlier. So each rank's exception shows where it waited.
  void AddPlaces() {
    const auto timed_out = [](const auto& entry) {
      const std::string text = fr::Lower(entry.second.raised->text);
      return Holds(text, "timed out") || Holds(text, "timeout");
    };
    if (!out_.ranks.empty() || std::none_of(of_others_.begin(), of_others_.end(), timed_out)) return;
    for (const auto& [rank, end] : of_others_) {
      Rank& placed = out_.Of(rank, end.file->path)->rank;
      placed.process.python_stack = end.raised->frames;
      placed.only_active = true;
    }
  }

  static std::string HowEnded(const FailedWorker& worker) {
    const int64_t code = worker.exit_code;
    return code < 0 ? absl::StrCat("signal ", -code) : absl::StrCat("status ", code);
  }

  static std::string Text(const End& end) {
    // Finds the innermost frame that is not PyTorch's own.
    const std::vector<std::string>& frames = end.raised->frames;
    auto place = std::find_if(frames.begin(), frames.end(), [](const std::string& f) { return !Holds(f, " (torch/"); });
    if (place == frames.end()) place = frames.begin();
    return absl::StrCat(end.rank >= 0 ? absl::StrCat("rank ", end.rank, ": ") : "",
                        place == frames.end() ? "" : absl::StrCat("in ", *place, ": "),
                        end.raised->text.empty() ? "an exception that the log cuts off" : end.raised->text);
  }

  static std::string Texts(const std::vector<End>& ends) {
    constexpr size_t kShown = 3;
    std::vector<std::string> texts;
    for (size_t i = 0; i < std::min(kShown, ends.size()); ++i) texts.push_back(Text(ends[i]));
    return absl::StrCat(absl::StrJoin(texts, "; "),
                        ends.size() > kShown ? absl::StrCat("; and ", ends.size() - kShown, " more") : "");
  }

  // Reports ends that do not show which process failed first.
  void Report() {
    if (reported_.worker != nullptr && reported_.worker->exit_code == -SIGABRT &&
        !out_.waited.contains(reported_.rank)) {
      Rank& aborted = out_.aborted_first.emplace();
      aborted.rank = reported_.rank;
      aborted.path = reported_.file->path;
      aborted.source = Source::kFlightRecorder;
      Put(reported_, &aborted);
      if (!calls_differ_)
        out_.Tell(reported_.file->path,
                  absl::StrCat("the launcher saw rank ", reported_.rank,
                               " abort first (SIGABRT). A watchdog also aborts ranks that only wait for another one, "
                               "and no line shows whether this rank waited; add the lines before its end"),
                  reported_.rank);
    }
    if (reported_.worker != nullptr && alike_ > 0 && !reported_.worker->time.empty())
      out_.Tell(reported_.file->path,
                absl::StrCat("torchrun saw ", alike_ + 1, " ranks fail alike within one second, rank ", reported_.rank,
                             " among them; the order of its list does not show which failed first"),
                reported_.rank);
    else if (reported_.worker != nullptr && alike_ > 0 && reported_.worker->exit_code == -SIGKILL)
      out_.Tell(reported_.file->path,
                absl::StrCat("srun reported that task ", reported_.rank, " was killed (SIGKILL), and ", alike_,
                             " more in the same way before srun ended any: the scheduler, or "
                             "an operator, may have killed the whole job, and no line shows which process ended first"),
                reported_.rank);
    if (!processes_.empty() && reported_.worker == nullptr) {
      const FailedWorker& worker = *processes_[0].worker;
      out_.Tell(processes_[0].file->path, absl::StrCat("the launcher saw process ", worker.pid, " fail (",
                                                       HowEnded(worker), "), and no line shows its rank"));
    }
    if (!locals_.empty() && reported_.worker == nullptr) {
      const FailedWorker& worker = *locals_[0].worker;
      out_.Tell(locals_[0].file->path,
                absl::StrCat("torchrun saw local rank ", worker.local, " of a host fail first (PID ", worker.pid, ", ",
                             HowEnded(worker), "). If the job has one host, this is rank ", worker.local));
    }
    const auto list = [](const std::map<int32_t, End>& ends) {
      std::vector<End> out;
      out.reserve(ends.size());
      for (const auto& [rank, end] : ends) out.push_back(end);
      return out;
    };
    const auto say = [&](const std::vector<End>& ends, const std::string& what) {
      if (!ends.empty()) out_.Tell(ends[0].file->path, absl::StrCat(what, ": ", Texts(ends)));
    };
    say(list(own_), own_.size() > 1 ? "several ranks ended with an exception, and no line shows which came first"
                                    : "a rank ended with an exception that is not in the log");
    if (own_.empty()) {
      AddPlaces();
      std::vector<End> ends = list(of_others_);
      ends.insert(ends.end(), unplaced_of_others_.begin(), unplaced_of_others_.end());
      say(ends, calls_differ_
                    ? "ranks made different calls and then lost each other; no line shows whose call is wrong, "
                      "but `lockstep check` compares the calls"
                    : "ranks ended because others were gone or did not answer; no line shows which ended "
                      "first");
    }
    if (own_.empty())
      say(unplaced_,
          "an exception, and no line shows its rank; torchrun's prefixes ([rank3]:), srun --label or a file for each "
          "rank would show it");
  }

  const std::vector<FileFacts>& files_;
  Ranks& out_;
  ptrdiff_t hosts_ = 0;                     // files that each come from one host
  End reported_;                            // first failure that a launcher reported
  int32_t alike_ = 0;                       // further ranks that failed in the same way at the same time
  End killed_;                              // first end that the kernel reported, or the only end that a shell reported
  std::map<int32_t, End> own_, of_others_;  // indexed by rank
  std::vector<End> unplaced_, unplaced_of_others_;
  Raised made_;                 // from a warning; see GatherWarnings
  bool calls_differ_ = false;   // a rank received a different size than its own call expects, which made it fail
  std::vector<End> processes_;  // first failures of processes whose rank is unknown
  std::vector<End> locals_;     // first failures on hosts; their local ranks may not be ranks of the job
};

}  // namespace

void AddEnds(const std::vector<FileFacts>& files, Ranks* ranks) { Ends(files, ranks).Run(); }

}  // namespace lockstep::logs
