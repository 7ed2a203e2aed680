// Reads a .lsd dump (docs/dump-file.md) as an untrusted file, in two steps. Scan() checks every byte, decodes
// everything except the operations, and notes where they are. Load() decompresses the requested operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "analyzer/formats/lsd/columns.h"
#include "analyzer/formats/lsd/history.h"
#include "analyzer/formats/merge.h"
#include "proto/dump.pb.h"

namespace lockstep {

// A range of one lane's operations to load, no matter how old they are.
struct LsdNeed : LaneId {
  int64_t first = 0, last = 0;  // sequence numbers
};

// Which of one rank's operations to load: about `newest` of the newest, all unfinished ones (the oldest, if there are
// many), and `needs`. Rank::not_loaded and Membership::not_loaded count the others.
struct LsdPlan {
  size_t newest = SIZE_MAX;
  std::vector<LsdNeed> needs;
};

// Buffers of one thread that reads files one after the other.
class LsdWorkspace {
 public:
  LsdWorkspace();
  ~LsdWorkspace();
  struct Parts;
  Parts& parts() { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

class LsdFile {
 public:
  // A run of operations in the file.
  struct Chunk {
    uint64_t offset = 0;  // offset of the message
    uint32_t length = 0;
    uint32_t count = 0;
    int64_t newest_ns = INT64_MAX;
    bool described = false, keep = false;
  };
  struct ReadRank {
    LooseRank loose;            // the rank, without operations until Load()
    History history;            // its lanes' memberships are indexes into loose.rank.memberships
    std::vector<Chunk> chunks;  // intact chunks, in file order
    uint64_t recorded = 0;      // operations in `chunks`
    bool described = true;      // all chunks have descriptions, and `history` covers them

    // Used only by the reader.
    absl::flat_hash_map<uint32_t, uint32_t> position;  // maps RankCommunicator.index to the index in memberships, if
                                                       // they differ; otherwise empty
    uint64_t promised_ops = 0;
    uint32_t promised_comms = 0;
    uint64_t left = 0;
    bool has_header = false;
    bool damaged = false;
  };

  // Errors and problems name `path`. Once *cancel (may be null) is true, Scan() fails with Cancelled, and the results
  // of the other steps are incomplete.
  explicit LsdFile(std::string path, const std::atomic<bool>* cancel = nullptr)
      : path_(std::move(path)), cancel_(cancel) {}

  // Reads the dump in `fd` (not owned) from its start with pread. Skips damaged messages; stops where no further
  // message can be found. Lost parts become problems with offsets, and their ranks are marked as damaged. Fails if the
  // file is not a dump, needs a newer reader, or is damaged and contains no readable rank. Several threads may scan
  // different files at the same time, each with its own workspace.
  absl::Status Scan(int fd, LsdWorkspace* workspace);
  const DumpHeader& header() const { return header_; }
  std::vector<ReadRank>& ranks() { return ranks_; }
  const std::string& path() const { return path_; }

  // If the writer did not create the histories and chunk descriptions, creates them by decompressing the chunks once.
  void DescribeAll(int fd, LsdWorkspace* workspace);
  // Interns the file's strings in the bundle. Call it before Load(), and for one file at a time.
  void InternTexts(BundleBuilder* builder);
  // `plans` is indexed like ranks(). Several threads may load different files at the same time, as with Scan().
  void Load(int fd, const std::vector<LsdPlan>& plans, LsdWorkspace* workspace);
  // Moves all results out; the file is empty afterwards.
  void Deliver(BundleBuilder* builder);

 private:
  void Damage(const char* like, uint64_t offset, std::string text, int32_t rank = -1);
  void TakeRecord(DumpRecord& record, uint64_t offset, uint32_t length);
  ReadRank* Find(int32_t rank, uint64_t offset);
  void TakeRank(const RankHeader& header, uint64_t offset);
  void TakeMembership(const RankCommunicator& message, uint64_t offset);
  void TakeChunk(int32_t rank, Chunk chunk);
  // Appends a chunk's operations to *rows after checking their references. Returns false if cancelled, or if the chunk
  // is unusable, which becomes a problem.
  bool Unpack(int fd, ReadRank* read, const Chunk& chunk, LsdWorkspace::Parts* parts, Rank* rows);
  absl::Status UnpackInto(const OpChunk& chunk, LsdWorkspace::Parts* parts, Rank* rows) const;
  void CheckRows(const ReadRank& read, size_t first, Rank* rows) const;
  void LoadAll(int fd, ReadRank* read, LsdWorkspace::Parts* parts);
  void LoadPart(int fd, ReadRank* read, const LsdPlan& plan, LsdWorkspace::Parts* parts);
  uint32_t Place(const ReadRank& read, uint32_t index) const;

  bool Cancelled() const { return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed); }

  const std::string path_;
  const std::atomic<bool>* const cancel_;
  DumpHeader header_;
  TextIndexes texts_;                          // translates the file's indexes to the bundle's
  std::vector<std::string> strings_, shapes_;  // used until InternTexts()
  std::vector<ReadRank> ranks_;
  absl::flat_hash_map<int32_t, size_t> rank_at_;
  std::vector<std::pair<CommFacts, std::vector<MemberSpan>>> comms_;
  std::vector<std::pair<int32_t, History>> histories_;
  std::vector<Problem> problems_, carried_;
  uint64_t operations_ = 0, memberships_ = 0, comms_seen_ = 0;
  int damages_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep
