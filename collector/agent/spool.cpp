#include "collector/agent/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/unique_fd.h"
#include "collector/agent/spool_files.h"
#include "collector/common/runtime_folder.h"
#include "recorder/ring/layout.h"

namespace lockstep {
namespace {

constexpr size_t kLoadedAhead = 6;
constexpr int64_t kMostRingAge = 7 * 86400;  // of ring copies, in seconds of the wall clock
constexpr size_t kMostProblems = 256;
constexpr size_t kMostDone = 4096;
constexpr uint64_t kMostRingBytes = ring::kMaxFileBytes + ring::kPage;

class DiskSpool final : public Spool {
 public:
  explicit DiskSpool(const SpoolOptions& options) : options_(options), rings_folder_(options.folder + "/rings") {}

  ~DiskSpool() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    if (thread_.joinable()) thread_.join();
    for (const RingTask& task : ring_tasks_) close(task.fd);
  }

  absl::Status Start() {
    const std::string& folder = options_.folder;
    if (absl::Status status = MakeFolder(folder); !status.ok()) return status;
    if (absl::Status status = CheckPrivateFolder(folder); !status.ok()) return status;
    const std::string lock = folder + "/lock";
    lock_.reset(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_.ok()) return FileError("write", lock, errno);
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("another agent uses the spool ", folder, ": stop it, or choose another folder (--spool)"));
    }
    for (const char* name : {"/work", "/files", "/rings"}) {
      if (absl::Status status = MakeFolder(folder + name); !status.ok()) return status;
    }
    for (const std::string& name : NamesIn(folder + "/work")) unlink(absl::StrCat(folder, "/work/", name).c_str());
    for (const std::string& name : NamesIn(folder + "/files")) TakeUp(name);
    for (const std::string& name : NamesIn(rings_folder_)) {
      const std::string path = absl::StrCat(rings_folder_, "/", name);
      struct stat info {};
      if (name[0] == '.' || lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
        unlink(path.c_str());
        continue;
      }
      const uint64_t bytes = static_cast<uint64_t>(info.st_blocks) * 512;
      rings_[name] = {std::max(bytes, ring::kMinFileBytes), static_cast<int64_t>(info.st_mtime)};
      counters_.bytes += rings_[name].bytes;
    }
    DropOldRings();
    if (!event_.ok()) return FileError("make", "an eventfd", errno);
    thread_ = std::thread([this] { Work(); });
    return absl::OkStatus();
  }

  bool Next(Chunk* out) override {
    std::unique_lock lock(mutex_);
    size_t ahead = 0;
    for (auto& [key, file] : files_) {
      for (auto& [index, piece] : file.pieces) {
        if (piece.state == State::kOut) continue;
        if (piece.state == State::kReady) {
          piece.state = State::kOut;
          *out = std::move(*piece.loaded);
          piece.loaded.reset();
          --loaded_;
          AskFor();
          return true;
        }
        if (++ahead >= kLoadedAhead) {
          AskFor();
          return false;
        }
      }
    }
    AskFor();
    return false;
  }

  void Acked(const std::string& id) override { Remove(id, true); }

  void Refused(const std::string& id, const std::string& why) override {
    {
      std::lock_guard lock(mutex_);
      const auto found = ids_.find(id);
      if (found == ids_.end()) return;
      Problem(absl::StrCat("the collector rejected ", files_[found->second.first].name, ": ", why));
    }
    Remove(id, true);
  }

  void Return(const std::string& id) override {
    std::lock_guard lock(mutex_);
    for (auto& [key, file] : files_) {
      for (auto& [index, piece] : file.pieces) {
        if (piece.state == State::kOut && (id.empty() || piece.id == id)) piece.state = State::kOnDisk;
      }
    }
  }

  size_t held() const override {
    std::lock_guard lock(mutex_);
    return ids_.size();
  }

  std::string WorkPath(const std::string& name) override {
    std::lock_guard lock(mutex_);
    return absl::StrCat(options_.folder, "/work/", ++numbers_, "-", IsPlainName(name) ? name : "file");
  }

  void PutFile(const SpoolFile& file, const std::string& path) override {
    std::lock_guard lock(mutex_);
    file_tasks_.push_back({file, path});
    expected_.insert({file.like.request(), file.like.file()});
    work_.notify_all();
  }

  bool MakeRoom(SpoolClass kind) override {
    bool dropped = false;
    {
      std::lock_guard lock(mutex_);
      dropped = DropOne(kind == SpoolClass::kEvidence ? Need::kEvidence : Need::kEverything);
    }
    RemoveWhatIsDue();
    return dropped;
  }

  bool Knows(uint64_t request, const std::string& file) const override {
    std::lock_guard lock(mutex_);
    const std::pair<uint64_t, std::string> name(request, file);
    if (expected_.contains(name) || done_.contains(name)) return true;
    return std::any_of(files_.begin(), files_.end(),
                       [&](const auto& entry) { return entry.second.request == request && entry.second.name == file; });
  }

  void SaveRing(int fd, const std::string& name) override {
    if (!IsPlainName(name)) return;
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    std::lock_guard lock(mutex_);
    if (own < 0) {
      Problem(absl::StrCat("could not save the ring ", name, ": ", strerror(errno)));
      return;
    }
    ring_tasks_.push_back({own, name});
    work_.notify_all();
  }

  std::vector<std::string> SavedRings() const override {
    std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, ring] : rings_) names.push_back(name);
    return names;
  }

  const std::string& rings_folder() const override { return rings_folder_; }
  int fd() const override { return event_.get(); }

  void ClearWake() override { event_.Drain(); }

  bool NextProblem(std::string* line) override {
    std::lock_guard lock(mutex_);
    if (problems_.empty()) return false;
    *line = std::move(problems_.front());
    problems_.pop_front();
    return true;
  }

  SpoolCounters counters() const override {
    std::lock_guard lock(mutex_);
    SpoolCounters counters = counters_;
    counters.chunks = ids_.size();
    counters.rings = rings_.size();
    counters.pending = ring_tasks_.size() + file_tasks_.size() + removals_.size() + (busy_ ? 1 : 0);
    return counters;
  }

  bool Flush(int64_t limit_ns) override {
    std::unique_lock lock(mutex_);
    return idle_.wait_for(lock, std::chrono::nanoseconds(limit_ns),
                          [this] { return !busy_ && ring_tasks_.empty() && file_tasks_.empty() && removals_.empty(); });
  }

 private:
  using Key = std::pair<uint8_t, uint64_t>;  // class and number, in sending order
  enum class State { kOnDisk, kLoading, kReady, kOut };
  struct Piece {
    std::string id, path;
    uint64_t bytes = 0;
    State state = State::kOnDisk;
    std::optional<Chunk> loaded;
  };
  struct File {
    std::string folder, name;
    uint64_t request = 0;
    std::map<uint32_t, Piece> pieces;
  };
  struct SavedRing {
    uint64_t bytes = 0;
    int64_t real_s = 0;
  };
  struct RingTask {
    int fd = -1;
    std::string name;
  };
  // A saved ring's name starts with its user and a dash.
  static std::string UserOf(const std::string& ring) { return ring.substr(0, ring.find('-')); }
  struct FileTask {
    SpoolFile file;
    std::string path;
  };
  struct LoadTask {
    Key key;
    uint32_t index = 0;
    std::string path;
  };

  void Wake() { event_.Signal(); }

  // The caller holds the lock.
  void Problem(std::string line) {
    if (problems_.size() < kMostProblems) problems_.push_back(std::move(line));
    if (event_.ok()) Wake();
  }

  // P-NUMBER-REQUEST-NAME.
  static std::string FolderName(const Key& key, uint64_t request, const std::string& name) {
    return absl::StrFormat("%d-%012d-%016x-%s", key.first, key.second, request, name);
  }

  void TakeUp(const std::string& name) {
    const std::string folder = absl::StrCat(options_.folder, "/files/", name);
    const std::vector<std::string> parts = absl::StrSplit(name, absl::MaxSplits('-', 3));
    uint32_t kind = 0;
    uint64_t number = 0, request = 0;
    if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &kind) || kind > 1 || !absl::SimpleAtoi(parts[1], &number) ||
        !absl::SimpleHexAtoi(parts[2], &request)) {
      RemoveFolder(folder);  // being written when the agent was killed
      return;
    }
    numbers_ = std::max(numbers_, number);
    const Key key(static_cast<uint8_t>(kind), number);
    File file;
    file.folder = folder;
    file.name = parts[3];
    file.request = request;
    for (const std::string& chunk : NamesIn(folder)) {
      Piece piece;
      uint32_t index = 0;
      struct stat info {};
      piece.path = absl::StrCat(folder, "/", chunk);
      const std::vector<std::string> words = absl::StrSplit(chunk, absl::ByAnyChar("-."));
      if (words.size() != 3 || words[2] != "chunk" || words[1].size() != 2 * kChunkIdBytes ||
          !absl::SimpleAtoi(words[0], &index) || lstat(piece.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
        unlink(piece.path.c_str());
        continue;
      }
      piece.id = absl::HexStringToBytes(words[1]);
      piece.bytes = static_cast<uint64_t>(info.st_size);
      counters_.bytes += piece.bytes;
      ids_[piece.id] = {key, index};
      file.pieces[index] = std::move(piece);
    }
    if (file.pieces.empty()) {
      rmdir(folder.c_str());
      return;
    }
    files_[key] = std::move(file);
  }

  // Requests the first chunks that are neither sent nor in memory. The caller holds the lock.
  void AskFor() {
    bool asked = false;
    for (auto& [key, file] : files_) {
      for (auto& [index, piece] : file.pieces) {
        if (loaded_ >= kLoadedAhead) break;
        if (piece.state != State::kOnDisk) continue;
        piece.state = State::kLoading;
        ++loaded_;
        load_tasks_.push_back({key, index, piece.path});
        asked = true;
      }
      if (loaded_ >= kLoadedAhead) break;
    }
    if (asked) work_.notify_all();
  }

  void Remove(const std::string& id, bool done) {
    std::lock_guard lock(mutex_);
    const auto found = ids_.find(id);
    if (found == ids_.end()) return;
    const auto [key, index] = found->second;
    ids_.erase(found);
    File& file = files_[key];
    const auto piece = file.pieces.find(index);
    if (piece->second.state == State::kReady || piece->second.state == State::kLoading) --loaded_;
    counters_.bytes -= piece->second.bytes;
    removals_.push_back(piece->second.path);
    file.pieces.erase(piece);
    if (file.pieces.empty()) {
      removals_.push_back(file.folder);
      if (done) {
        done_.insert({file.request, file.name});
        if (done_.size() > kMostDone) done_.erase(done_.begin());
      }
      files_.erase(key);
    }
    work_.notify_all();
  }

  // Removes a file with all its chunks. The caller holds the lock.
  void Drop(const Key& key) {
    File& file = files_[key];
    uint64_t bytes = 0;
    for (const auto& [index, piece] : file.pieces) {
      if (piece.state == State::kReady || piece.state == State::kLoading) --loaded_;
      bytes += piece.bytes;
      ids_.erase(piece.id);
      removals_.push_back(piece.path);
    }
    removals_.push_back(file.folder);
    counters_.bytes -= bytes;
    ++counters_.files_dropped;
    Problem(absl::StrCat("no space in the spool: dropped ", file.name, " (", bytes,
                         " bytes that the collector did not have yet)"));
    files_.erase(key);
  }

  void DropRing(std::map<std::string, SavedRing>::iterator ring, const char* why) {
    ++counters_.rings_dropped;
    counters_.bytes -= ring->second.bytes;
    removals_.push_back(absl::StrCat(rings_folder_, "/", ring->first));
    if (why != nullptr) Problem(absl::StrCat(why, ": dropped the saved ring ", ring->first));
    rings_.erase(ring);
  }

  void DropOldRings() {
    const int64_t oldest = time(nullptr) - kMostRingAge;
    for (auto ring = rings_.begin(); ring != rings_.end();) {
      const auto next = std::next(ring);
      if (ring->second.real_s < oldest) DropRing(ring, nullptr);
      ring = next;
    }
  }

  enum class Need { kEverything = 0, kRing = 1, kEvidence = 2 };

  // Drops the least valuable item, unless it is more valuable than the new one. Returns false if there is none. The
  // caller holds the lock.
  bool DropOne(Need need) {
    const auto everything = files_.lower_bound(Key(1, 0));
    if (everything != files_.end()) {
      Drop(everything->first);
      return true;
    }
    if (need == Need::kEverything) return false;
    // Drops a ring of the user whose rings take the most space, so that one user's rings do not displace those of
    // others.
    std::map<std::string, uint64_t> taken;
    for (const auto& [name, ring] : rings_) taken[UserOf(name)] += ring.bytes;
    const auto order = [&](const auto& ring) { return std::make_pair(~taken[UserOf(ring.first)], ring.second.real_s); };
    const auto oldest = std::min_element(rings_.begin(), rings_.end(),
                                         [&](const auto& a, const auto& b) { return order(a) < order(b); });
    if (oldest != rings_.end()) {
      DropRing(oldest, "no space in the spool");
      return true;
    }
    if (need != Need::kEvidence || files_.empty()) return false;
    Drop(files_.begin()->first);
    return true;
  }

  // Makes room for `bytes` within the limit. Then repeats `write` while the disk is full, until it succeeds or nothing
  // less valuable is left to drop. Only the worker calls this function.
  absl::Status WithRoom(uint64_t bytes, Need need, const std::function<absl::Status()>& write) {
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        if (bytes > options_.most_bytes) return absl::ResourceExhaustedError("it is larger than the spool's limit");
        while (counters_.bytes + bytes > options_.most_bytes) {
          if (!DropOne(need)) return absl::ResourceExhaustedError("the spool is full");
        }
      }
      RemoveWhatIsDue();
      absl::Status status = write();
      if (status.code() != absl::StatusCode::kResourceExhausted) return status;
      {
        std::lock_guard lock(mutex_);
        if (!DropOne(need)) return status;
      }
      RemoveWhatIsDue();
    }
  }

  void RemoveWhatIsDue() {
    for (;;) {
      std::string path;
      {
        std::lock_guard lock(mutex_);
        if (removals_.empty()) return;
        path = std::move(removals_.front());
        removals_.pop_front();
      }
      if (unlink(path.c_str()) != 0 && errno == EISDIR) rmdir(path.c_str());
    }
  }

  void CopyRing(const RingTask& task) {
    const std::string path = absl::StrCat(rings_folder_, "/", task.name);
    uint64_t bytes = 0;
    struct stat info {};
    if (fstat(task.fd, &info) == 0) bytes = std::min<uint64_t>(static_cast<uint64_t>(info.st_size), kMostRingBytes);
    const absl::Status status = WithRoom(bytes, Need::kRing, [&] { return CopyRingFile(task.fd, bytes, path); });
    close(task.fd);
    struct stat copy {};
    const bool there = status.ok() && lstat(path.c_str(), &copy) == 0;
    std::lock_guard lock(mutex_);
    if (!there) {
      ++counters_.rings_dropped;
      Problem(absl::StrCat("could not save the ring ", task.name, ": ", status.message()));
      return;
    }
    SavedRing& ring = rings_[task.name];
    counters_.bytes -= ring.bytes;
    // Holes take no space. Every file counts with a minimum size, because it also costs time and an inode.
    ring = {std::max(static_cast<uint64_t>(copy.st_blocks) * 512, ring::kMinFileBytes),
            static_cast<int64_t>(copy.st_mtime)};
    counters_.bytes += ring.bytes;
    ++counters_.rings_put;
    DropOldRings();
    Wake();
  }

  absl::Status WriteChunk(const Chunk& chunk, const std::string& path, Need need) {
    const std::string bytes = ChunkFileBytes(chunk);
    absl::Status status = WithRoom(bytes.size(), need, [&] { return WriteFileSynced(path, bytes); });
    if (!status.ok()) return status;
    std::lock_guard lock(mutex_);
    counters_.bytes += bytes.size();
    return status;
  }

  void CutFile(const FileTask& task) {
    const Chunk& like = task.file.like;
    Key key(static_cast<uint8_t>(task.file.kind), 0);
    {
      std::lock_guard lock(mutex_);
      key.second = ++numbers_;
    }
    File file;
    file.name = IsPlainName(like.file()) ? like.file() : "file";
    file.request = like.request();
    const std::string name = FolderName(key, file.request, file.name);
    const std::string temporary = absl::StrCat(options_.folder, "/files/.", name);
    file.folder = absl::StrCat(options_.folder, "/files/", name);
    const Need need = task.file.kind == SpoolClass::kEvidence ? Need::kEvidence : Need::kEverything;
    uint64_t bytes = 0;
    absl::Status status = WithRoom(0, need, [&] {
      return mkdir(temporary.c_str(), 0700) == 0 || errno == EEXIST ? absl::OkStatus()
                                                                    : FileError("make", temporary, errno);
    });
    const int from = open(task.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (status.ok() && from < 0) status = FileError("read", task.path, errno);
    struct stat info {};
    if (status.ok() && fstat(from, &info) != 0) status = FileError("read", task.path, errno);
    const uint64_t size = static_cast<uint64_t>(info.st_size);
    std::string raw;
    for (uint64_t offset = 0, index = 0; status.ok() && (offset < size || index == 0); ++index) {
      {
        std::lock_guard lock(mutex_);
        if (stopping_) {
          status = absl::CancelledError("canceled");
          break;
        }
      }
      raw.resize(std::min<uint64_t>(options_.chunk_bytes, size - offset));
      const ssize_t got = raw.empty() ? 0 : pread(from, raw.data(), raw.size(), static_cast<off_t>(offset));
      if (got != static_cast<ssize_t>(raw.size())) {
        status = FileError("read", task.path, got < 0 ? errno : EIO);
        break;
      }
      Chunk chunk = like;
      std::string id(kChunkIdBytes, '\0');
      if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
        status = FileError("read", "random numbers", errno);
      chunk.set_id(id);
      chunk.set_file(file.name);
      chunk.set_offset(offset);
      chunk.set_raw_bytes(static_cast<uint32_t>(raw.size()));
      chunk.set_last(offset + raw.size() == size);
      if (status.ok()) status = CompressChunk(raw, chunk.mutable_data());
      Piece piece;
      const std::string chunk_name = absl::StrCat(index, "-", absl::BytesToHexString(id), ".chunk");
      if (status.ok()) status = WriteChunk(chunk, absl::StrCat(temporary, "/", chunk_name), need);
      if (!status.ok()) break;
      piece.id = id;
      piece.path = absl::StrCat(file.folder, "/", chunk_name);
      piece.bytes = chunk.ByteSizeLong() + kChunkHeaderBytes;
      bytes += piece.bytes;
      file.pieces[static_cast<uint32_t>(index)] = std::move(piece);
      offset += raw.size();
      Urgent();
    }
    if (from >= 0) close(from);
    SyncFolder(temporary).IgnoreError();
    if (status.ok() && rename(temporary.c_str(), file.folder.c_str()) != 0)
      status = FileError("rename to", file.folder, errno);
    if (status.ok()) SyncFolder(options_.folder + "/files").IgnoreError();
    unlink(task.path.c_str());
    if (!status.ok()) RemoveFolder(temporary);
    std::lock_guard lock(mutex_);
    expected_.erase({like.request(), like.file()});
    if (!status.ok()) {
      counters_.bytes -= bytes;
      if (status.code() != absl::StatusCode::kCancelled) {
        ++counters_.files_dropped;
        Problem(absl::StrCat("dropped ", file.name, " (", size, " bytes): ", status.message()));
      }
      return;
    }
    ++counters_.files_put;
    for (const auto& [index, piece] : file.pieces) ids_[piece.id] = {key, index};
    files_[key] = std::move(file);
    Wake();
  }

  void Load(const LoadTask& task) {
    absl::StatusOr<Chunk> chunk = ReadChunkFile(task.path);
    std::string damaged;
    {
      std::lock_guard lock(mutex_);
      const auto file = files_.find(task.key);
      if (file == files_.end()) return;
      const auto piece = file->second.pieces.find(task.index);
      if (piece == file->second.pieces.end() || piece->second.state != State::kLoading) return;
      if (chunk.ok() && chunk->id() == piece->second.id) {
        piece->second.state = State::kReady;
        piece->second.loaded = std::move(*chunk);
        Wake();
        return;
      }
      ++counters_.damaged;
      damaged = piece->second.id;
      Problem(absl::StrCat(chunk.ok() ? absl::StrCat(task.path, " holds another chunk") : chunk.status().message(),
                           ": dropped, so the collector will not get all of ", file->second.name));
    }
    Remove(damaged, false);
  }

  // Takes the next ring of the user who was served least recently. The caller holds the lock.
  RingTask NextRing() {
    const auto next = std::min_element(ring_tasks_.begin(), ring_tasks_.end(), [this](const auto& a, const auto& b) {
      return saved_last_[UserOf(a.name)] < saved_last_[UserOf(b.name)];
    });
    RingTask task = std::move(*next);
    ring_tasks_.erase(next);
    saved_last_[UserOf(task.name)] = ++saved_;
    return task;
  }

  // Handles urgent rings and chunks between the steps of longer work.
  void Urgent() {
    for (;;) {
      std::optional<RingTask> ring;
      std::optional<LoadTask> load;
      {
        std::lock_guard lock(mutex_);
        if (ring_tasks_.empty() && load_tasks_.empty()) return;
        if (!ring_tasks_.empty()) ring = NextRing();
        if (!load_tasks_.empty()) {
          load = std::move(load_tasks_.front());
          load_tasks_.pop_front();
        }
      }
      if (ring) CopyRing(*ring);
      if (load) Load(*load);
    }
  }

  void Work() {
    for (;;) {
      std::optional<FileTask> file;
      {
        std::unique_lock lock(mutex_);
        busy_ = false;
        if (ring_tasks_.empty() && file_tasks_.empty() && removals_.empty()) idle_.notify_all();
        work_.wait(lock, [this] {
          return stopping_ || !ring_tasks_.empty() || !load_tasks_.empty() || !file_tasks_.empty() ||
                 !removals_.empty();
        });
        if (stopping_) return;
        busy_ = true;
        if (ring_tasks_.empty() && load_tasks_.empty() && removals_.empty()) {
          file = std::move(file_tasks_.front());
          file_tasks_.pop_front();
        }
      }
      Urgent();
      RemoveWhatIsDue();
      if (file) CutFile(*file);
    }
  }

  const SpoolOptions options_;
  const std::string rings_folder_;
  UniqueFd lock_;
  EventFd event_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable work_, idle_;
  bool stopping_ = false, busy_ = false;
  uint64_t numbers_ = 0;
  std::map<Key, File> files_;
  std::map<std::string, std::pair<Key, uint32_t>> ids_;
  std::map<std::string, SavedRing> rings_;
  std::set<std::pair<uint64_t, std::string>> expected_, done_;
  std::deque<RingTask> ring_tasks_;
  std::map<std::string, uint64_t> saved_last_;  // user -> sequence number of the user's last saved ring
  uint64_t saved_ = 0;
  std::deque<LoadTask> load_tasks_;
  std::deque<FileTask> file_tasks_;
  std::deque<std::string> removals_;
  std::deque<std::string> problems_;
  size_t loaded_ = 0;  // in memory, or requested
  SpoolCounters counters_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(const SpoolOptions& options) {
  auto spool = std::make_unique<DiskSpool>(options);
  if (absl::Status status = spool->Start(); !status.ok()) return status;
  return spool;
}

}  // namespace lockstep
