#include "analyzer/viewdata/index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/formats/load/files.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/lsd/reader.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/system.h"
#include "analyzer/util/unique_fd.h"
#include "analyzer/viewdata/facts.h"

namespace lockstep {
namespace {

constexpr uint64_t kPartialFrom = 4'000'000;  // number of operations; fewer are written quickly
constexpr size_t kPartialNewest = 64;         // for each rank
constexpr time_t kKeepSeconds = 14 * 24 * 3600;

absl::Status Cancelled() { return absl::CancelledError("cancelled"); }

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(path, error);
  return error ? path : whole.string();
}

bool IsFolder(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Returns the folder, and creates it if it is missing. Empty if there is none that only this user can access.
std::string CacheFolder() {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  std::string base;
  if (cache != nullptr && *cache == '/')
    base = cache;
  else if (home != nullptr && *home == '/')
    base = absl::StrCat(home, "/.cache");
  else
    return "";
  const std::string folder = base + "/lockstep";
  if (!MakeFolder(folder).ok()) return "";
  struct stat info = {};
  const bool ours = lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
  if (!ours) return "";
  if ((info.st_mode & 077) != 0 && chmod(folder.c_str(), 0700) != 0) return "";
  return folder;
}

// Removes indexes that were not opened for two weeks, and leftovers of killed writers.
void Prune(const std::string& folder) {
  const time_t now = time(nullptr);
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = absl::StrCat(folder, "/", name);
    const bool index = absl::StartsWith(name, "view-") && absl::EndsWith(name, ".lsi"),
               part = name.starts_with(kUnfinishedPrefix);
    struct stat info = {};
    if ((!index && !part) || lstat(path.c_str(), &info) != 0) continue;
    if (now - std::max(info.st_atime, info.st_mtime) > (index ? kKeepSeconds : 24 * 3600)) unlink(path.c_str());
  }
}

std::string CacheName(const std::vector<std::string>& paths) {
  // Two hashes, so that two sets of paths practically never get the same name. An index of other paths would also be
  // recognized as out of date.
  uint64_t hashes[2] = {0xcbf29ce484222325u, 0x9e3779b97f4a7c15u};
  for (const std::string& path : paths) {
    for (const char c : Absolute(path) + '\n') {
      hashes[0] = (hashes[0] ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
      hashes[1] = (hashes[1] + static_cast<unsigned char>(c)) * 0xff51afd7ed558ccdu;
      hashes[1] ^= hashes[1] >> 29;
    }
  }
  return absl::StrFormat("view-%016x%016x.lsi", hashes[0], hashes[1]);
}

bool UpToDate(const std::string& path, uint64_t source) {
  const auto index = IndexReader::Open(path);
  return index.ok() && (*index)->source() == source && ReadViewFacts(**index).ok();
}

class Maker {
 public:
  Maker(const std::vector<std::string>& paths, ViewIndexProgress* progress, const ViewIndexOptions& options)
      : paths_(paths), progress_(progress), options_(options) {}

  absl::StatusOr<ViewIndex> Run() {
    source_ = FingerprintSources(paths_);
    std::vector<std::string> places;
    if (paths_.size() == 1 && IsFolder(paths_[0])) places.push_back(paths_[0] + "/index.lsi");
    if (!options_.beside_only) {
      if (const std::string cache = CacheFolder(); !cache.empty())
        places.push_back(absl::StrCat(cache, "/", CacheName(paths_)));
    }
    for (const std::string& place : places) {
      if (UpToDate(place, source_)) return ViewIndex{place, false, false};
    }
    if (absl::Status status = Load(); !status.ok()) return status;
    absl::Status status = absl::FailedPreconditionError("an index is created only for a single folder");
    for (const std::string& place : places) {
      if (progress_->cancel) return Cancelled();
      if (!options_.beside_only && absl::StrContains(place, "/view-")) Prune(place.substr(0, place.rfind('/')));
      status = Write(place);
      if (status.ok()) return ViewIndex{place, true, false};
      if (absl::IsCancelled(status)) return status;
    }
    if (options_.beside_only) return status;
    for (;;) {
      const auto temporary = Temporary();
      if (!temporary.ok()) return absl::IsCancelled(status) || full_.empty() ? temporary.status() : status;
      status = Write(*temporary);
      if (status.ok()) return ViewIndex{*temporary, true, true};
      unlink(temporary->c_str());
      if (absl::IsCancelled(status)) return status;
      full_.push_back(temporary->substr(0, temporary->rfind('/')));
    }
  }

 private:
  absl::StatusOr<std::string> Temporary() const {
    // If the disk is full, uses memory.
    int error = 0;
    std::string first;
    for (const std::string& folder : {TemporaryFolder(), std::string("/dev/shm")}) {
      if (std::find(full_.begin(), full_.end(), folder) != full_.end()) continue;
      std::string name = absl::StrCat(folder, "/lockstep-view-XXXXXX");
      if (UniqueFd(mkostemp(name.data(), O_CLOEXEC)).ok()) return name;
      if (first.empty()) error = errno, first = name;
    }
    return FileError("create", first.empty() ? "/tmp" : first, error == 0 ? ENOSPC : error);
  }

  void Phase(ViewIndexProgress::Phase phase, int64_t total) {
    progress_->done = 0;
    progress_->total = total;
    progress_->phase = phase;
  }

  absl::Status Load() {
    Phase(ViewIndexProgress::kReading, 0);
    ShowFirstRanks();
    LoadProgress loading;
    loading.cancel = &progress_->cancel;
    loading.on_files = [this](int64_t done, int64_t total) {
      progress_->done = done;
      progress_->total = total;
    };
    absl::StatusOr<Bundle> bundle = LoadPaths(paths_, &loading, options_.limits);
    if (progress_->cancel) return Cancelled();
    if (!bundle.ok()) return bundle.status();
    bundle_ = std::move(*bundle);
    if (options_.problem) {
      for (const Problem& problem : bundle_.problems) options_.problem(problem);
    }
    Phase(ViewIndexProgress::kAnalysing, 0);
    facts_ = BuildViewFacts(bundle_);
    if (paths_.size() == 1 && IsFolder(paths_[0])) {
      MergedStacks stacks;
      std::string why;
      if (ReadStacks(paths_[0] + "/stacks.json", &stacks, &why))
        AddMergedStacks(stacks, &facts_);
      else
        facts_.add_unknown(why);
    }
    if (progress_->cancel) return Cancelled();
    for (const Rank& rank : bundle_.ranks) operations_ += rank.ops.size() + rank.not_loaded;
    if (operations_ > kPartialFrom && options_.partial) ShowPart(bundle_, facts_);
    return progress_->cancel ? Cancelled() : absl::OkStatus();
  }

  // Before the full load, shows the ranks of every sixteenth file, then of every fourth. The time of the first part
  // shows whether this is worthwhile.
  void ShowFirstRanks() {
    FoundFiles found;
    if (!options_.partial || !FindFiles(paths_, &found, &progress_->cancel).ok()) return;
    std::vector<std::string> data, beside;
    for (const FoundFile& file : found.files) (file.manifest || file.log ? beside : data).push_back(file.path);
    double whole_s = 0;
    for (const size_t one_in : {size_t{16}, size_t{4}}) {
      if (data.size() < 2 * one_in || (one_in == 4 && whole_s < 8 * options_.partial_from_s)) continue;
      std::vector<std::string> some = beside;
      for (size_t i = 0; i < data.size(); i += one_in) some.push_back(data[i]);
      LoadProgress loading;
      loading.cancel = &progress_->cancel;
      const auto begin = std::chrono::steady_clock::now();
      const absl::StatusOr<Bundle> bundle = LoadPaths(some, &loading, options_.limits);
      whole_s =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() * static_cast<double>(one_in);
      if (progress_->cancel || !bundle.ok() || whole_s < options_.partial_from_s) return;
      ViewFacts facts = BuildViewFacts(*bundle);
      // Ranks that are not read yet would look missing, so there is no verdict.
      facts.clear_verdict();
      facts.clear_report();
      facts.clear_report_text();
      facts.clear_anomalies();
      facts.clear_focuses();
      facts.clear_classes();
      facts.clear_edges();
      facts.clear_missing();
      facts.clear_unknown();
      facts.clear_missing_text();
      for (RankFacts& rank : *facts.mutable_ranks()) rank.set_wait_class(-1);
      facts.add_unknown(absl::StrCat("the contents of ", data.size() - (data.size() + one_in - 1) / one_in, " of ",
                                     data.size(), " files, which are still being read"));
      ShowPart(*bundle, facts);
    }
  }

  // Ignores errors, because the complete index follows.
  void ShowPart(const Bundle& bundle, const ViewFacts& facts) {
    const auto path = Temporary();
    if (!path.ok()) return;
    std::vector<uint64_t> counts;
    for (const Rank& rank : bundle.ranks) counts.push_back(std::min(rank.ops.size(), kPartialNewest));
    auto writer = IndexWriter::Create(bundle, counts, 0, *path);
    absl::Status status = writer.status();
    if (status.ok()) status = (*writer)->SetFacts(facts.SerializeAsString());
    for (size_t r = 0; status.ok() && !progress_->cancel && r < bundle.ranks.size(); ++r) {
      const std::vector<Op>& ops = bundle.ranks[r].ops;
      status = (*writer)->AddRank(r, {ops.end() - static_cast<ptrdiff_t>(counts[r]), ops.end()});
    }
    if (status.ok() && !progress_->cancel && (*writer)->Commit().ok() && !progress_->cancel) options_.partial(*path);
    unlink(path->c_str());
  }

  absl::Status Write(const std::string& path) {
    Phase(ViewIndexProgress::kWriting, static_cast<int64_t>(operations_));
    std::vector<uint64_t> counts;
    for (const Rank& rank : bundle_.ranks) counts.push_back(rank.ops.size() + rank.not_loaded);
    auto writer = IndexWriter::Create(bundle_, counts, source_, path);
    if (!writer.ok()) return writer.status();
    absl::flat_hash_map<std::string, std::vector<size_t>> left_in;  // rows whose operations are still in the file
    for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
      if (progress_->cancel) return Cancelled();
      if (bundle_.ranks[r].not_loaded > 0) {
        left_in[bundle_.ranks[r].path].push_back(r);
        continue;
      }
      if (absl::Status status = (*writer)->AddRank(r, bundle_.ranks[r].ops); !status.ok()) return status;
      progress_->done += static_cast<int64_t>(counts[r]);
    }
    if (absl::Status status = AddLeft(left_in, counts, writer->get()); !status.ok()) return status;
    if (absl::Status status = (*writer)->SetFacts(facts_.SerializeAsString()); !status.ok()) return status;
    if (progress_->cancel) return Cancelled();
    return (*writer)->Commit();
  }

  // Each worker holds the operations of one file at a time.
  absl::Status AddLeft(const absl::flat_hash_map<std::string, std::vector<size_t>>& left_in,
                       const std::vector<uint64_t>& counts, IndexWriter* writer) {
    std::vector<std::pair<std::string, std::vector<size_t>>> files(left_in.begin(), left_in.end());
    std::sort(files.begin(), files.end());
    std::vector<LsdWorkspace> spaces(WorkerCount(files.size()));
    std::mutex mutex;
    absl::Status result;
    Parallel(files.size(), [&](size_t i, size_t worker) {
      {
        const std::lock_guard lock(mutex);
        if (!result.ok()) return;
        if (progress_->cancel) {
          result = Cancelled();
          return;
        }
      }
      absl::flat_hash_map<int32_t, std::vector<Op>> ops = ReadWhole(files[i].first, &spaces[worker]);
      for (const size_t row : files[i].second) {
        // If operations cannot be read again, unknown operations take their places.
        std::vector<Op>& whole = ops[bundle_.ranks[row].rank];
        if (whole.size() < bundle_.ranks[row].ops.size()) whole = bundle_.ranks[row].ops;
        if (whole.size() > counts[row]) whole.erase(whole.begin(), whole.end() - static_cast<ptrdiff_t>(counts[row]));
        whole.insert(whole.begin(), static_cast<size_t>(counts[row]) - whole.size(), Op());
        const std::lock_guard lock(mutex);
        Widen(row, whole);
        if (result.ok()) result = writer->AddRank(row, whole);
        progress_->done += static_cast<int64_t>(counts[row]);
      }
    });
    return result;
  }

  // Extends the facts' time span, which covers only the operations loaded so far.
  void Widen(size_t row, const std::vector<Op>& ops) {
    const int64_t offset = facts_.ranks(static_cast<int>(row)).clock_offset_ns();
    for (const Op& op : ops) {
      if (op.enter_ns > 0 && op.enter_ns < (int64_t{1} << 61))
        facts_.set_first_ns(std::min(facts_.first_ns(), op.enter_ns + offset));
    }
  }

  static absl::flat_hash_map<int32_t, std::vector<Op>> ReadWhole(const std::string& path, LsdWorkspace* space) {
    absl::flat_hash_map<int32_t, std::vector<Op>> ops;
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd.ok()) return ops;
    LsdFile file(path);
    if (file.Scan(fd.get(), space).ok()) {
      BundleBuilder texts;
      file.InternTexts(&texts);
      file.Load(fd.get(), std::vector<LsdPlan>(file.ranks().size()), space);
      for (LsdFile::ReadRank& read : file.ranks()) ops[read.loose.rank.rank] = std::move(read.loose.rank.ops);
    }
    return ops;
  }

  const std::vector<std::string>& paths_;
  ViewIndexProgress* const progress_;
  const ViewIndexOptions& options_;
  std::vector<std::string> full_;  // folders for temporary files that had no room
  uint64_t source_ = 0, operations_ = 0;
  Bundle bundle_;
  ViewFacts facts_;
};

}  // namespace

absl::StatusOr<ViewIndex> EnsureViewIndex(const std::vector<std::string>& paths, ViewIndexProgress* progress,
                                          const ViewIndexOptions& options) {
  ViewIndexProgress own;
  return Maker(paths, progress == nullptr ? &own : progress, options).Run();
}

}  // namespace lockstep
