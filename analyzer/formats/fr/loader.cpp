#include "analyzer/formats/fr/loader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/add_ranks.h"
#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/fr/identity.h"
#include "analyzer/formats/fr/older.h"
#include "analyzer/formats/fr/packed.h"
#include "analyzer/formats/fr/taken.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

using fr::FileData;

// A dump of 20,000 entries with stacks takes 5 MB, and with C++ stacks perhaps ten times as much.
constexpr size_t kMaxFileBytes = 256u << 20;
constexpr size_t kMostNameBytes = 512;  // limit for a file's name in an archive

// Memory that is not initialized before a file is read into it. Never shrinks.
class Buffer {
 public:
  char* Reserve(size_t size, size_t keep) {
    if (size > capacity_) {
      std::unique_ptr<char[]> bigger(new char[size]);
      if (keep > 0) std::memcpy(bigger.get(), data_.get(), keep);
      data_ = std::move(bigger);
      capacity_ = size;
    }
    return data_.get();
  }
  const char* data() const { return data_.get(); }

 private:
  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
};

using fr::Folder;

// Reads the whole file into `buffer`; returns false with *error set on failure. Does not map it, because truncating a
// mapped file causes SIGBUS.
bool ReadWhole(const std::string& path, Buffer* buffer, size_t* size, int64_t* written_ns, std::string* error) {
  const UniqueFd fd = OpenToRead(path);
  if (!fd.ok()) {
    *error = absl::StrCat("cannot be opened: ", std::strerror(errno));
    return false;
  }
  struct stat info = {};
  bool good = fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
  if (!good) *error = "is not a regular file";
  *written_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  size_t filled = 0;
  size_t room = 0;
  while (good) {
    if (filled == room) {
      size_t expected = static_cast<size_t>(std::clamp<int64_t>(info.st_size, 0, kMaxFileBytes)) + 1;
      room = room == 0 ? std::max<size_t>(expected, 4096) : room * 2;
      buffer->Reserve(room, filled);
    }
    ssize_t got = pread(fd.get(), buffer->Reserve(room, filled) + filled, room - filled, static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      *error = absl::StrCat("cannot be read: ", std::strerror(errno));
      good = false;
    } else if (got == 0) {
      break;
    } else if ((filled += static_cast<size_t>(got)) > kMaxFileBytes) {
      *error =
          absl::StrCat("is larger than ", kMaxFileBytes >> 20, " MiB, which is too large for a Flight Recorder dump");
      good = false;
    }
  }
  *size = filled;
  return good;
}

// Limits the total unpacked size of all files in one load.
constexpr int64_t kMostUnpackedBytes = int64_t{8} << 30;

struct Workspace {
  std::atomic<int64_t>* unpacked_left;
  Buffer buffer;
  std::string unpacked;
  fr::Document read;
  fr::MemberLists lists;

  size_t Room() const {
    return static_cast<size_t>(std::clamp<int64_t>(unpacked_left->load(), 0, static_cast<int64_t>(kMaxFileBytes)));
  }
  void Spend() { *unpacked_left -= static_cast<int64_t>(unpacked.size()); }
};

// Called for each dump of a file. `place` is its number in the file, which contains `dumps` dumps.
using WithDump = std::function<void(size_t place, size_t dumps, FileData* dump)>;

std::vector<FileData> LoadFile(const std::string& path, const WithDump& finish, Workspace* space) {
  std::string error;
  size_t size = 0;
  int64_t written_ns = 0;
  if (!ReadWhole(path, &space->buffer, &size, &written_ns, &error)) {
    std::vector<FileData> none(1);
    none[0].problems.push_back({path, -1, error, fr::RankInName(path)});
    return none;
  }
  std::vector<FileData> dumps;
  size_t in_archive = 1;
  const auto read = [&](std::string_view bytes, const std::string& name, const absl::Status& damage) {
    std::vector<FileData> found = fr::ReadFile(bytes, name, &space->read, &space->lists);
    for (FileData& dump : found) {
      fr::SetTaken(written_ns, &dump);
      if (!damage.ok()) {
        dump.problems.push_back({name, -1, std::string(damage.message()), -1});
        dump.rank.damaged = true;
      }
      finish(dumps.size(), std::max(found.size(), in_archive), &dump);
      dumps.push_back(std::move(dump));
    }
  };
  const std::string_view bytes(space->buffer.data(), size);
  const auto no_room = [&](const std::string& name) {
    if (space->Room() > 0) return false;
    dumps.emplace_back();
    dumps.back().problems.push_back(
        {.path = name,
         .text = absl::StrCat("not read: the archives read before this file already unpack to ",
                              kMostUnpackedBytes >> 30, " GiB; pass fewer files"),
         .like = "too much is packed"});
    return true;
  };
  const auto report = [&](const absl::Status& damage) {
    if (damage.ok()) return;
    dumps.emplace_back();
    dumps.back().problems.push_back({path, -1, std::string(damage.message()), -1});
  };
  const auto read_all = [&](const std::vector<fr::Packed>& files) {
    in_archive = files.size();
    for (const fr::Packed& file : files) {
      if (no_room(path)) return;
      const absl::Status damage = fr::Unzip(file, space->Room(), &space->unpacked);
      space->Spend();
      written_ns = file.written_ns;
      read(space->unpacked, absl::StrCat(path, "/", Printable(file.name, kMostNameBytes)), damage);
    }
  };
  const auto read_tar = [&](std::string_view tar, const absl::Status& unpacked) {
    std::vector<fr::Packed> files;
    const absl::Status damage = fr::FilesInTar(tar, &files);
    read_all(files);
    report(unpacked.ok() ? damage : unpacked);
  };
  if (fr::IsGzip(bytes)) {
    if (no_room(path)) return dumps;
    const absl::Status damage = fr::Gunzip(bytes, space->Room(), &space->unpacked, &written_ns);
    space->Spend();
    if (!fr::IsTar(space->unpacked)) {
      read(space->unpacked, path, damage);
      return dumps;
    }
    const std::string tar = std::exchange(space->unpacked, "");
    read_tar(tar, damage);
  } else if (fr::IsZip(bytes)) {
    const absl::StatusOr<std::vector<fr::Packed>> files = fr::FilesInZip(bytes);
    if (files.ok()) read_all(*files);
    report(files.status());
  } else if (fr::IsTar(bytes)) {
    read_tar(bytes, absl::OkStatus());
  } else {
    read(bytes, path, absl::OkStatus());
  }
  return dumps;
}

// Returns whether the first of two dumps of one rank is better: by newest entry, counts, number of entries, then lack
// of damage.
bool Better(const FileData& a, const FileData& b) {
  auto key = [](const FileData& file) {
    return std::make_tuple(file.newest_ns, file.progress_sum, file.rank.ops.size() + file.rank.not_loaded,
                           !file.rank.damaged);
  };
  return key(a) != key(b) ? key(a) > key(b) : a.rank.path < b.rank.path;
}

// Folders with dumps of the same ranks belong to different jobs or attempts. Keeps the latest attempt, unless it is a
// single dump, and reports the others. Among simultaneous jobs, prefers the most ranks, then an operation past its
// timeout, unfinished operations, and the newest dump. A folder that repeats only one rank, or at most half of the
// ranks, stays: it contains older dumps of the same job.
void KeepOneJob(std::vector<FileData>* files, std::vector<Problem>* problems) {
  struct Set {
    std::set<int32_t> ranks;
    bool timed_out = false, unfinished = false;
    int64_t oldest_ns = INT64_MAX, newest_ns = 0;
  };
  std::map<std::string, Set> sets;
  for (const FileData& file : *files) {
    if (file.rank.rank < 0) continue;
    Set& set = sets[std::string(Folder(file.rank.path))];
    set.ranks.insert(file.rank.rank);
    set.timed_out |= fr::TimedOut(file);
    set.unfinished |= file.oldest_open_ns > 0;
    set.newest_ns = std::max(set.newest_ns, file.newest_ns);
    if (!file.rank.ops.empty()) set.oldest_ns = std::min(set.oldest_ns, file.oldest_ns);
  }
  const auto key = [](const Set& set) { return std::make_tuple(set.timed_out, set.unfinished, set.newest_ns); };
  const auto used = std::max_element(sets.begin(), sets.end(), [&](const auto& one, const auto& other) {
    const Set &a = one.second, &b = other.second;
    const bool apart = a.newest_ns < b.oldest_ns || b.newest_ns < a.oldest_ns;
    if (apart && std::min(a.ranks.size(), b.ranks.size()) > 1) return a.newest_ns < b.newest_ns;
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() < b.ranks.size();
    return key(a) < key(b);
  });
  if (used == sets.end()) return;
  std::set<std::string> others;
  for (const auto& [folder, set] : sets) {
    const size_t again = static_cast<size_t>(std::count_if(
        set.ranks.begin(), set.ranks.end(), [&](int32_t rank) { return used->second.ranks.contains(rank); }));
    if (folder != used->first && again > 1 && again * 2 > std::min(set.ranks.size(), used->second.ranks.size()))
      others.insert(folder);
  }
  if (others.empty()) return;
  for (const std::string& folder : others) {
    problems->push_back(
        {.path = folder,
         .text = absl::StrCat("not used: contains dumps of the same ranks as ", used->first,
                              ", so they belong to another job or attempt; analyze each folder separately"),
         .like = "another job's folder"});
  }
  std::erase_if(*files, [&](const FileData& file) { return others.contains(std::string(Folder(file.rank.path))); });
}

// Reads the files of one load, in parallel.
class DumpFiles {
 public:
  DumpFiles(std::vector<std::string> names, const LoadLimits& limits, const std::atomic<bool>* cancel)
      : names_(std::move(names)), limits_(limits), cancel_(cancel), spaces_(WorkerCount(names_.size())) {
    for (Workspace& space : spaces_) space.unpacked_left = &unpacked_left_;
    // Large files first, so that no CPU is left to read a large file alone at the end.
    for (size_t i = 0; i < names_.size(); i++) {
      struct stat info = {};
      order_.emplace_back(stat(names_[i].c_str(), &info) == 0 ? -static_cast<int64_t>(info.st_size) : 0, i);
    }
    std::sort(order_.begin(), order_.end());
  }

  // Returns each file's dumps, without most of their older operations if there are many. `read` may be empty.
  std::vector<std::vector<FileData>> Read(const std::function<void()>& read) {
    std::vector<std::vector<FileData>> loaded(names_.size());
    Parallel(names_.size(), [&](size_t turn, size_t thread) {
      if (Cancelled()) return;
      const size_t source = order_[turn].second;
      const auto finish = [&](size_t place, size_t dumps, FileData* dump) {
        dump->source = source;
        dump->place = place;
        fr::LeaveOutOlder(Newest(dumps), {}, dump);
      };
      loaded[source] = LoadFile(names_[source], finish, &spaces_[thread]);
      if (read) read();
    });
    return loaded;
  }

  // Reads the files with `needed` calls once more, and adds these calls.
  void ReadAgain(const std::vector<std::vector<fr::CallRange>>& needed, std::vector<FileData>* files) {
    std::map<size_t, std::map<size_t, size_t>> wanted;  // by source and place: index in `files`
    for (size_t f = 0; f < files->size(); ++f) {
      if (!needed[f].empty()) wanted[(*files)[f].source][(*files)[f].place] = f;
    }
    const std::vector<std::pair<size_t, std::map<size_t, size_t>>> sources(wanted.begin(), wanted.end());
    Parallel(sources.size(), [&](size_t s, size_t thread) {
      if (Cancelled()) return;
      const size_t source = sources[s].first;
      const std::map<size_t, size_t>& places = sources[s].second;
      const auto finish = [&](size_t place, size_t dumps, FileData* dump) {
        const auto at = places.find(place);
        if (at == places.end()) {
          *dump = FileData();
          return;
        }
        FileData& file = (*files)[at->second];
        fr::LeaveOutOlder(Newest(dumps), needed[at->second], dump);
        if (dump->used.size() != file.used.size()) return;  // the file has changed
        file.rank.ops = std::move(dump->rank.ops);
        file.rank.not_loaded = dump->rank.not_loaded;
        file.strings = std::move(dump->strings);
        file.shapes = std::move(dump->shapes);
        for (size_t group = 0; group < file.used.size(); ++group) file.used[group].older = dump->used[group].older;
      };
      LoadFile(names_[source], finish, &spaces_[thread]);
    });
  }

  bool Cancelled() const { return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed); }

 private:
  // How many operations a dump keeps, if its file contains `dumps` dumps.
  size_t Newest(size_t dumps) const { return fr::NewestOfEach(limits_.entries, std::max(dumps, names_.size())); }

  const std::vector<std::string> names_;
  const LoadLimits limits_;
  const std::atomic<bool>* const cancel_;
  std::atomic<int64_t> unpacked_left_ = kMostUnpackedBytes;
  std::vector<Workspace> spaces_;
  std::vector<std::pair<int64_t, size_t>> order_;
};

// Reports that older operations were left out.
void SayWhatWasLeftOut(const Bundle& bundle, bool again, std::vector<Problem>* problems) {
  uint64_t total = 0, left_out = 0;
  size_t least = SIZE_MAX;
  for (const Rank& rank : bundle.ranks) {
    total += rank.ops.size() + rank.not_loaded;
    left_out += rank.not_loaded;
    if (rank.not_loaded > 0) least = std::min(least, rank.ops.size());
  }
  if (left_out == 0) return;
  problems->push_back(
      {.text = absl::StrCat("of ", total, " recorded operations, about the newest ", least,
                            " of each rank were loaded; the older collectives were compared by their hashes: ",
                            again ? "the first that differ were loaded too" : "no differences"),
       .note = true});
}

}  // namespace

void LoadFlightRecorder(const std::vector<std::string>& paths, Bundle* bundle, const LoadLimits& limits,
                        const std::atomic<bool>* cancel, const std::function<void()>& read) {
  std::vector<std::string> names = paths;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  DumpFiles reader(std::move(names), limits, cancel);
  std::vector<std::vector<FileData>> loaded = reader.Read(read);
  if (reader.Cancelled()) return;

  std::vector<Problem> problems;
  auto take_problems = [&](FileData* file) {
    problems.insert(problems.end(), file->problems.begin(), file->problems.end());
    file->problems.clear();
  };
  std::vector<FileData> files;
  for (std::vector<FileData>& dumps : loaded) {
    for (FileData& file : dumps) {
      if (file.usable) {
        files.push_back(std::move(file));
      } else {
        for (Problem& problem : file.problems) problem.rank = fr::RankInName(problem.path);
        take_problems(&file);
      }
    }
  }
  loaded.clear();
  fr::NameRanks(&files);
  fr::CorrectRanks(&files, &problems);
  KeepOneJob(&files, &problems);
  std::sort(files.begin(), files.end(), [](const FileData& a, const FileData& b) {
    return a.rank.rank != b.rank.rank ? a.rank.rank < b.rank.rank : Better(a, b);
  });
  std::vector<FileData> kept;
  for (FileData& file : files) {
    if (!kept.empty() && kept.back().rank.rank == file.rank.rank) {
      // A folder usually contains older dumps next to newer ones. If there are two folders, the older dumps may be from
      // a different hang, which is not analyzed.
      const bool together = Folder(file.rank.path) == Folder(kept.back().rank.path);
      problems.push_back({.path = file.rank.path,
                          .text = absl::StrCat("not used: another file of rank ", file.rank.rank,
                                               " is newer or contains more: ", kept.back().rank.path,
                                               together ? "" : "; analyze each folder separately"),
                          .rank = file.rank.rank,
                          .note = together,
                          .like = together ? "older file" : "older file of another folder"});
      continue;
    }
    kept.push_back(std::move(file));
  }
  files.clear();

  fr::DoubtTimesOfCopies(&kept);
  fr::TellByUnnoticedEnds(&kept);
  bool again = false;
  const auto read_again = [&](const std::vector<std::vector<fr::CallRange>>& needed, std::vector<FileData>* dumps) {
    again = true;
    reader.ReadAgain(needed, dumps);
  };
  fr::AddRanks(std::move(kept), read_again, bundle, &problems);
  SayWhatWasLeftOut(*bundle, again, &problems);
  fr::TellByUnnoticedEnds(bundle);
  std::sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.rank, a.offset, a.text, a.path) < std::tie(b.rank, b.offset, b.text, b.path);
  });
  bundle->problems.insert(bundle->problems.end(), problems.begin(), problems.end());
}

}  // namespace lockstep
