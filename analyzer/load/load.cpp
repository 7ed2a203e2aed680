#include "analyzer/load/load.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/loader.h"
#include "analyzer/formats/generations.h"
#include "analyzer/formats/lsd/reader.h"
#include "analyzer/formats/merge.h"
#include "analyzer/formats/ring/loader_internal.h"
#include "analyzer/load/files.h"
#include "analyzer/load/join_flight_recorder.h"
#include "analyzer/load/manifest.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

// What this host says of the process behind a ring: nothing, unless the ring was recorded on this boot and in this
// process-number space.
Process LookFor(const ring::ProcessInfo& info) {
  Process process;
  if (BootId().empty() || BootId() != info.boot_id || info.pid <= 0) return process;
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) != 0 ||
      (info.pid_namespace_inode != 0 && info.pid_namespace_inode != space.st_ino))
    return process;
  const std::optional<ProcStat> stat_now = ReadProcStat(info.pid);
  if (!stat_now || stat_now->start_ticks != info.start_ticks || stat_now->ended()) {
    process.life = Life::kGone;
  } else {
    process.life = Life::kRunning;
    process.state = std::string(1, stat_now->state);
  }
  return process;
}

std::string Shown(const std::vector<Problem>& problems) {
  // Those that say the same are one, called by its first file.
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
  Loader(LoadProgress* progress, const LoadLimits& limits) : progress_(progress), limits_(limits) {}

  absl::StatusOr<Bundle> Load(const std::vector<std::string>& paths) {
    FoundFiles found;
    if (absl::Status status = FindFiles(paths, &found, progress_ == nullptr ? nullptr : progress_->cancel);
        !status.ok())
      return status;
    problems_ = std::move(found.problems);
    if (progress_ != nullptr) progress_->files_found = static_cast<int64_t>(found.files.size());
    total_ = static_cast<int64_t>(found.files.size());
    for (const FoundFile& file : found.files) total_ += file.kind == FileKind::kDump;
    std::vector<const FoundFile*> others;
    std::vector<const FoundFile*> manifests;
    std::vector<std::string> dumps;
    size_t ours = 0;
    for (const FoundFile& file : found.files) {
      if (Cancelled()) return absl::CancelledError("cancelled");
      switch (file.kind) {
        case FileKind::kRing:
          TakeRing(file.path);
          break;
        case FileKind::kDump:
          dumps.push_back(file.path);
          ++ours;
          continue;
        case FileKind::kManifest:
          manifests.push_back(&file);
          continue;
        case FileKind::kOther:
          others.push_back(&file);
          continue;
      }
      ++ours;
      Read();
    }
    TakeDumps(dumps);
    if (Cancelled()) return absl::CancelledError("cancelled");
    const Manifest manifest = ReadManifests(manifests);
    Bundle bundle = ours > 0 ? FromOurs(others, manifest) : FromFlightRecorder(others, manifest);
    if (Cancelled()) return absl::CancelledError("cancelled");
    if (bundle.ranks.empty()) {
      std::string tried = Shown(bundle.problems);
      if (tried.empty())
        tried = absl::StrCat("no ring, .lsd or Flight Recorder file in ", paths.empty() ? "" : paths[0],
                             paths.size() > 1 ? ", .." : "");
      return absl::FailedPreconditionError(absl::StrCat("nothing to analyse (", found.files.size(),
                                                        found.files.size() == 1 ? " file" : " files",
                                                        " tried): ", tried));
    }
    return bundle;
  }

 private:
  bool Cancelled() const { return progress_ != nullptr && progress_->cancel != nullptr && *progress_->cancel; }
  void Told() {
    if (progress_->on_files) progress_->on_files(progress_->files_read + progress_->files_unpacked, total_);
  }
  void Read() {
    if (progress_ == nullptr) return;
    ++progress_->files_read;
    Told();
  }

  void TakeRing(const std::string& path) {
    const UniqueFd file = OpenToRead(path);
    RingInput input;
    std::string error;
    if (file.get() < 0) {
      problems_.push_back({path, -1, absl::StrCat("cannot be read: ", strerror(errno)), -1});
    } else if (!ring::ReadRing(file.get(), {}, &input.snapshot, &error)) {
      problems_.push_back({path, -1, CleanUtf8(error, 512), -1});
    } else {
      input.path = path;
      input.process = LookFor(input.snapshot.process);
      rings_.push_back(std::move(input));
    }
  }

  void TakeDumps(const std::vector<std::string>& paths) {
    std::vector<std::unique_ptr<LsdFile>> files(paths.size());
    std::vector<std::string> errors(paths.size());
    std::vector<LsdWorkspace> spaces(WorkerCount(paths.size()));
    // Each file is opened for each step: there may be more of them than descriptors.
    auto with_file = [&](size_t i, auto&& work) {
      const UniqueFd descriptor = OpenToRead(paths[i]);
      if (descriptor.get() < 0) {
        errors[i] = absl::StrCat("cannot be read: ", strerror(errno));
      } else {
        work(descriptor.get());
      }
    };
    Parallel(paths.size(), [&](size_t i, size_t worker) {
      if (Cancelled()) return;
      with_file(i, [&](int fd) {
        auto file = std::make_unique<LsdFile>(paths[i], progress_ == nullptr ? nullptr : progress_->cancel);
        if (absl::Status status = file->Scan(fd, &spaces[worker]); status.ok()) {
          files[i] = std::move(file);
        } else {
          errors[i] = std::string(status.message());
          if (errors[i].compare(0, paths[i].size() + 2, paths[i] + ": ") == 0) errors[i].erase(0, paths[i].size() + 2);
        }
      });
      Read();
    });
    if (Cancelled()) return;
    for (size_t i = 0; i < paths.size(); ++i) {
      if (files[i] == nullptr) problems_.push_back({paths[i], -1, std::move(errors[i]), -1});
    }
    std::erase(files, nullptr);
    auto each = [&](auto&& work) {
      Parallel(files.size(), [&](size_t i, size_t worker) {
        if (Cancelled()) return;
        const UniqueFd descriptor = OpenToRead(files[i]->path());
        work(i, descriptor.get(), &spaces[worker]);
      });
    };
    if (CountOperations(files) > limits_.all) {
      each([&](size_t i, int fd, LsdWorkspace* space) { files[i]->DescribeAll(fd, space); });
    }
    const LoadChoice choice = ChooseOperations(files, limits_);
    for (auto& file : files) file->InternTexts(&builder_);
    each([&](size_t i, int fd, LsdWorkspace* space) {
      files[i]->Load(fd, choice.plans[i], space);
      if (progress_ == nullptr) return;
      ++progress_->files_unpacked;
      Told();
    });
    for (auto& file : files) file->Deliver(&builder_);
    if (!choice.note.empty()) problems_.push_back({"", -1, choice.note, -1, /*note=*/true});
  }

  Manifest ReadManifests(const std::vector<const FoundFile*>& files) {
    Manifest all;
    for (const FoundFile* file : files) {
      std::string error;
      if (!ReadManifest(file->path, &all, &error)) problems_.push_back({file->path, -1, error, -1});
    }
    return all;
  }

  // Else what is wrong with it is noted, where somebody may have wanted it read.
  bool BeginsAsFlightRecorder(const FoundFile& other) {
    const std::string& path = other.path;
    const UniqueFd file = OpenToRead(path);
    char head[512];
    const ssize_t n = file.get() < 0 ? -1 : pread(file.get(), head, sizeof(head), 0);
    if (n > 0 && LooksLikeFlightRecorder({head, static_cast<size_t>(n)})) return true;
    if (other.named || absl::EndsWith(path, ".lsd") || absl::EndsWith(path, ".ring")) {
      problems_.push_back(
          {path, -1,
           n == 0 ? "is empty" : "neither a ring file nor a .lsd dump: damaged at its start, or something else", -1});
    }
    Read();
    return false;
  }

  void ReadFlightRecorder(const std::vector<std::string>& paths, Bundle* bundle) {
    if (progress_ == nullptr) return LoadFlightRecorder(paths, bundle);
    LoadFlightRecorder(paths, bundle, progress_->cancel, [this] { Read(); });
  }

  Bundle FromOurs(const std::vector<const FoundFile*>& others, const Manifest& manifest) {
    std::vector<std::string> flight_recorder;
    for (const FoundFile* other : others) {
      if (BeginsAsFlightRecorder(*other)) flight_recorder.push_back(other->path);
    }
    if (!manifest.job.empty()) builder_.SetJob(manifest.job);
    AddRings(std::move(rings_), &builder_);
    builder_.ExpectRanks(manifest.ranks_expected);
    if (manifest.known_stalled) builder_.SetStalled(manifest.stalled_ns);
    for (Problem& problem : problems_) builder_.AddProblem(std::move(problem));
    Bundle bundle = builder_.Finish();
    if (!flight_recorder.empty()) {
      Bundle dumps;
      ReadFlightRecorder(flight_recorder, &dumps);
      // Other files beside the dumps, which merely begin like one.
      for (Problem& problem : dumps.problems) problem.note |= problem.rank < 0;
      JoinFlightRecorder(dumps, &bundle);
    }
    return bundle;
  }

  Bundle FromFlightRecorder(const std::vector<const FoundFile*>& others, const Manifest& manifest) {
    Bundle bundle;
    std::vector<std::string> paths;
    for (const FoundFile* other : others) {
      // What says that it is ours and is not, is not judged as another's.
      if ((absl::EndsWith(other->path, ".lsd") || absl::EndsWith(other->path, ".ring")) &&
          !BeginsAsFlightRecorder(*other))
        continue;
      paths.push_back(other->path);
    }
    if (!paths.empty()) ReadFlightRecorder(paths, &bundle);
    LeaveOutForeignDumps(&bundle);
    bundle.problems.insert(bundle.problems.end(), problems_.begin(), problems_.end());
    bundle.ranks_expected = std::max(bundle.ranks_expected, manifest.ranks_expected);
    if (bundle.job.empty()) bundle.job = manifest.job;
    if (manifest.known_stalled) {
      bundle.known_stalled = true;
      bundle.stalled_ns = manifest.stalled_ns;
    }
    return bundle;
  }

  LoadProgress* progress_;
  int64_t total_ = 0;
  const LoadLimits limits_;
  BundleBuilder builder_;
  std::vector<RingInput> rings_;
  std::vector<Problem> problems_;
};

}  // namespace

absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths) {
  return LoadPaths(paths, nullptr);
}

absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths, LoadProgress* progress,
                                 const LoadLimits& limits) {
  return Loader(progress, limits).Load(paths);
}

}  // namespace lockstep
