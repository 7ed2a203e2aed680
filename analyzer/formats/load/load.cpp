#include "analyzer/formats/load/load.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/generations.h"
#include "analyzer/formats/load/files.h"
#include "analyzer/formats/load/join_flight_recorder.h"
#include "analyzer/formats/load/manifest.h"
#include "analyzer/formats/load/registry.h"
#include "analyzer/formats/logs/format_reader.h"

namespace lockstep {
namespace {

std::string Shown(const std::vector<Problem>& problems) {
  // Combines problems with the same text under the first file's name.
  std::map<std::string_view, size_t> alike;
  std::vector<const Problem*> first;
  for (const Problem& problem : problems) {
    if (++alike[problem.text] == 1) first.push_back(&problem);
  }
  std::string text;
  size_t shown = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    if (i == 3) return absl::StrCat(text, "; and ", problems.size() - shown, " more");
    const size_t count = alike[first[i]->text];
    shown += count;
    absl::StrAppend(&text, i == 0 ? "" : "; ");
    if (!first[i]->path.empty())
      absl::StrAppend(&text, first[i]->path, count > 1 ? absl::StrCat(" (and ", count - 1, " like it)") : "", ": ");
    absl::StrAppend(&text, first[i]->text);
  }
  return text;
}

class Loader {
 public:
  Loader(LoadProgress* progress, const LoadLimits& limits) : progress_(progress) {
    control_.limits = limits;
    if (progress == nullptr) return;
    control_.cancel = progress->cancel;
    control_.file_done = [this](int pass) { Done(pass); };
  }

  absl::StatusOr<Bundle> Load(const std::vector<std::string>& paths) {
    FoundFiles found;
    if (absl::Status status = FindFiles(paths, &found, control_.cancel); !status.ok()) return status;
    records_.problems = std::move(found.problems);
    if (progress_ != nullptr) progress_->files_found = static_cast<int64_t>(found.files.size());
    std::map<Source, std::vector<std::string>> files;
    Manifest manifest;
    bool certain = false;
    for (const FoundFile& file : found.files) {
      total_ += file.format == nullptr ? 1 : file.format->passes;
      if (file.format == nullptr) continue;
      certain |= file.format->certain;
      files[file.format->source].push_back(file.path);
    }
    // Logs come last: they only add what is missing in dumps, such as the end of a process without a dump.
    const auto logs = files.extract(Source::kText);
    for (const FormatReader& format : Formats()) {
      const auto own = files.extract(format.source);
      if (!own.empty()) format.read(own.mapped(), control_, &records_);
      if (control_.Cancelled()) return absl::CancelledError("cancelled");
    }
    if (!logs.empty()) AddLogs(logs.mapped());
    if (control_.Cancelled()) return absl::CancelledError("cancelled");
    const std::set<std::string> unclaimed(records_.unclaimed.begin(), records_.unclaimed.end());
    for (const FoundFile& file : found.files) {
      // Other texts are expected next to dumps, and next to logs with known contents.
      if (unclaimed.contains(file.path))
        NotRecognised(file, certain || file.log || logs_read_ || !records_.framework.ranks.empty());
      if (file.format != nullptr) continue;
      std::string error;
      if (!file.manifest) {
        NotRecognised(file, certain);
      } else if (!ReadManifest(file.path, &manifest, &error)) {
        records_.problems.push_back({file.path, -1, error, -1});
      }
      control_.Done(1);
    }
    const std::string job = control_.limits.job.empty() ? manifest.job : control_.limits.job;
    if (absl::Status one = OneJob(job, paths); !one.ok()) return one;
    manifest.job = job;
    Bundle bundle = certain || !records_.library.empty() ? LibraryBundle(manifest) : FrameworkBundle(manifest);
    if (control_.Cancelled()) return absl::CancelledError("cancelled");
    if (bundle.ranks.empty() && (certain || !records_.explained)) {
      std::string tried = Shown(bundle.problems);
      if (tried.empty())
        tried = absl::StrCat("no dump in ", paths.empty() ? "" : paths[0], paths.size() > 1 ? ", .." : "",
                             "; looked for ", FormatsTried());
      return absl::FailedPreconditionError(absl::StrCat("nothing to analyze (", found.files.size(),
                                                        found.files.size() == 1 ? " file" : " files",
                                                        " tried): ", tried));
    }
    return bundle;
  }

 private:
  void AddLogs(const std::vector<std::string>& paths) {
    if (records_.library.empty() && records_.framework.ranks.empty()) {
      ReadLogs(paths, control_, &records_);
      logs_read_ = records_.explained;
      // If none of these files contains a rank, one problem states what is missing in all of them.
      if (records_.framework.ranks.empty()) records_.unclaimed.clear();
      return;
    }
    // If a rank's dump is from another run, the logs may still show the rank, so remove such dumps first.
    if (records_.library.empty()) LeaveOutForeignDumps(&records_.framework);
    Records logs;
    ReadLogs(paths, control_, &logs);
    records_.unclaimed = std::move(logs.unclaimed);
    if (!records_.library.empty()) {
      for (Rank& rank : logs.framework.ranks) raised_.emplace(rank.rank, std::move(rank.process.exception));
      return;
    }
    // A log alone cannot show whether this rank caused the abort, but dumps may show that other ranks wait for it.
    if (logs.aborted_first) logs.framework.ranks.push_back(*std::move(logs.aborted_first));
    JoinLogs(std::move(logs.framework));
    for (Rank& rank : records_.framework.ranks) {
      const auto events = logs.kernel.find(rank.rank);
      if (rank.process.evidence == nullptr && events != logs.kernel.end()) rank.process.evidence = events->second;
    }
  }

  // Adds ranks without a dump, if logs show their calls, end or stacks. Adds processes to ranks with a dump.
  void JoinLogs(Bundle logs) {
    Bundle& dumps = records_.framework;
    dumps.ranks_expected = std::max(dumps.ranks_expected, logs.ranks_expected);
    std::map<int32_t, size_t> known;  // rank -> index
    for (size_t i = 0; i < dumps.ranks.size(); ++i) known.emplace(dumps.ranks[i].rank, i);
    std::multimap<std::string, uint32_t> by_name;  // by NAME of the id "NAME/HASH"; only HASH depends on the members
    const auto name_of = [](const Communicator& comm) { return comm.id.substr(0, comm.id.rfind('/')); };
    for (uint32_t c = 0; c < dumps.comms.size(); ++c) by_name.emplace(name_of(dumps.comms[c]), c);
    std::map<uint32_t, uint32_t> added;  // groups that only logs mention
    // Sets the rank's group in the dumps, and its position there. Adds the group if the dumps do not have it.
    const auto place = [&](int32_t rank, Membership* ms) {
      const auto [begin, end] = by_name.equal_range(name_of(logs.comms[ms->comm]));
      for (auto of = begin; of != end; ++of) {
        const std::vector<int32_t>& members = dumps.comms[of->second].members;
        const auto at = std::find(members.begin(), members.end(), rank);
        if (at == members.end()) continue;
        ms->comm = of->second;
        ms->member_rank = static_cast<int32_t>(at - members.begin());
        return;
      }
      const auto [at, fresh] = added.try_emplace(ms->comm, static_cast<uint32_t>(dumps.comms.size()));
      if (fresh) dumps.comms.push_back(logs.comms[ms->comm]);
      ms->comm = at->second;
    };
    std::map<uint32_t, uint32_t> strings;  // indexes of the logs' strings in the dumps
    const auto intern = [&](uint32_t* text) {
      if (*text == kNoIndex) return;
      const auto [at, fresh] = strings.try_emplace(*text, static_cast<uint32_t>(dumps.strings.size()));
      if (fresh) dumps.strings.push_back(logs.strings[*text]);
      *text = at->second;
    };
    for (Rank& rank : logs.ranks) {
      if (const auto at = known.find(rank.rank); at != known.end()) {
        AddProcess(std::move(rank), &dumps.ranks[at->second]);
        continue;
      }
      const bool stack = !rank.process.stack.empty() || !rank.process.python_stack.empty();
      if (rank.memberships.empty() && rank.process.life == Life::kUnknown && !stack) continue;
      rank.some_groups = true;
      for (Membership& ms : rank.memberships) place(rank.rank, &ms);
      for (Op& op : rank.ops) {
        op.input_shape = op.output_shape = op.dtypes = kNoIndex;
        intern(&op.name);
        intern(&op.call_site);
      }
      dumps.ranks_expected = std::max(dumps.ranks_expected, rank.rank + 1);
      dumps.ranks.push_back(std::move(rank));
    }
    NameByDumps(known.size(), &dumps);
    std::sort(dumps.ranks.begin(), dumps.ranks.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
  }

  // The watchdog prints a barrier as the AllReduce that implements it, and some calls only as a number. Dumps of other
  // ranks show the kind. The ranks from `first` on are those of logs.
  static void NameByDumps(size_t first, Bundle* bundle) {
    std::map<std::pair<uint32_t, int64_t>, ring::CallKind> kinds;  // by communicator and sequence number
    const auto each = [bundle](size_t begin, size_t end, const auto& use) {
      for (size_t r = begin; r < end; ++r) {
        Rank& rank = bundle->ranks[r];
        for (Op& op : rank.ops) {
          if (op.membership != kNoIndex && !ring::IsPointToPoint(op.kind))
            use(std::make_pair(rank.memberships[op.membership].comm, op.seq), &op);
        }
      }
    };
    each(first, bundle->ranks.size(), [&](const auto& key, Op*) { kinds[key] = ring::CallKind::kNone; });
    if (kinds.empty()) return;
    each(0, first, [&](const auto& key, const Op* op) {
      if (const auto at = kinds.find(key); at != kinds.end()) at->second = op->kind;
    });
    each(first, bundle->ranks.size(), [&](const auto& key, Op* op) {
      const ring::CallKind kind = kinds.at(key);
      const bool untold = op->name != kNoIndex && bundle->strings[op->name] == kUntoldOperation;
      if (kind == ring::CallKind::kNone ||
          !(untold || (op->kind == ring::CallKind::kAllReduce && kind == ring::CallKind::kBarrier)))
        return;
      op->kind = kind;
      if (untold) op->name = kNoIndex;
    });
  }

  // Adds the process that logs show, if the dump has none. Ignores a process that ended with an unfinished operation in
  // its dump: most likely, other ranks caused the end.
  static void AddProcess(Rank printed, Rank* dump) {
    const bool waits =
        std::any_of(dump->ops.begin(), dump->ops.end(), [](const Op& op) { return IsUnfinished(op.state); });
    if (dump->process.life == Life::kUnknown && dump->process.stack.empty() && dump->process.python_stack.empty() &&
        (!waits || printed.process.life == Life::kUnknown))
      dump->process = std::move(printed.process);
    if (dump->host.empty()) dump->host = std::move(printed.host);
    if (dump->pid == 0) dump->pid = printed.pid;
  }

  // Fails if the files belong to several jobs and none is chosen, because a verdict is about one job. Also fails if no
  // file belongs to the job that the user chose.
  absl::Status OneJob(const std::string& wanted, const std::vector<std::string>& paths) const {
    const std::map<std::string, int64_t> jobs = records_.library.Jobs();
    const bool chosen = !control_.limits.job.empty();
    if (jobs.contains(wanted) || (!chosen && jobs.size() < 2)) return absl::OkStatus();
    constexpr size_t kShown = 20;
    std::string list;
    size_t shown = 0;
    for (const auto& [name, ranks] : jobs) {
      if (shown++ == kShown) break;
      absl::StrAppend(&list, list.empty() ? "" : ", ", name, " (", ranks, ranks == 1 ? " rank)" : " ranks)");
    }
    if (jobs.size() > kShown) absl::StrAppend(&list, " and ", jobs.size() - kShown, " more");
    const std::string where = paths.empty() ? "" : absl::StrCat(paths[0], paths.size() > 1 ? ", .." : "");
    return absl::InvalidArgumentError(
        chosen
            ? absl::StrCat(where, " contains no job ", wanted, "; ",
                           list.empty() ? "its files name no job, so omit --job" : absl::StrCat("it contains ", list))
            : absl::StrCat(where, " contains ", jobs.size(), " jobs: ", list,
                           "; choose one with --job NAME, or give the path of its files"));
  }

  void Done(int pass) {
    ++(pass == 1 ? progress_->files_read : progress_->files_unpacked);
    if (progress_->on_files) progress_->on_files(progress_->files_read + progress_->files_unpacked, total_);
  }

  // Reports a file that no reader recognizes. If `certain`, other files are expected next to recognized ones, so
  // reports it only if it is named like a dump or its path was given.
  void NotRecognised(const FoundFile& file, bool certain) {
    bool wanted = file.named || !certain;
    for (const FormatReader& format : Formats()) wanted |= *format.ending != 0 && file.path.ends_with(format.ending);
    if (wanted) {
      std::string text = file.empty
                             ? "is empty: its writer died before it wrote anything, or had nothing to write"
                             : absl::StrCat("is not recognized: ",
                                            file.format != nullptr ? "text without a timeout, NCCL call or stack"
                                                                   : "damaged at its start, or in an unknown format",
                                            ". Tried: ", FormatsTried());
      records_.problems.push_back({file.path, -1, std::move(text), fr::RankInName(file.path)});
    }
  }

  Bundle LibraryBundle(const Manifest& manifest) {
    BundleBuilder& builder = records_.library;
    if (!manifest.job.empty()) builder.SetJob(manifest.job);
    builder.ExpectRanks(manifest.ranks_expected);
    if (manifest.known_stalled) builder.SetStalled(manifest.stalled_ns);
    for (Problem& problem : records_.problems) builder.AddProblem(std::move(problem));
    Bundle bundle = builder.Finish();
    Bundle& framework = records_.framework;
    // Problems without a rank are about files next to the dumps that only begin like a Flight Recorder dump.
    for (Problem& problem : framework.problems) problem.note |= problem.rank < 0;
    if (!framework.ranks.empty() || !framework.problems.empty()) JoinFlightRecorder(framework, &bundle);
    for (Rank& rank : bundle.ranks) {
      const auto raised = raised_.find(rank.rank);
      if (raised != raised_.end() && rank.process.exception.empty()) rank.process.exception = raised->second;
    }
    return bundle;
  }

  Bundle FrameworkBundle(const Manifest& manifest) {
    Bundle bundle = std::move(records_.framework);
    LeaveOutForeignDumps(&bundle);
    bundle.problems.insert(bundle.problems.end(), records_.problems.begin(), records_.problems.end());
    bundle.ranks_expected = std::max(bundle.ranks_expected, manifest.ranks_expected);
    if (bundle.job.empty()) bundle.job = manifest.job;
    if (manifest.known_stalled) {
      bundle.known_stalled = true;
      bundle.stalled_ns = manifest.stalled_ns;
    }
    return bundle;
  }

  LoadProgress* const progress_;
  ReadControl control_;
  int64_t total_ = 0;
  bool logs_read_ = false;
  Records records_;
  std::map<int32_t, std::string> raised_;  // by rank: the exception that ended its main thread, according to logs
};

}  // namespace

absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths) { return LoadPaths(paths, nullptr); }

absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths, LoadProgress* progress,
                                 const LoadLimits& limits) {
  return Loader(progress, limits).Load(paths);
}

}  // namespace lockstep
