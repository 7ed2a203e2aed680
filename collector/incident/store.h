// The files of one incident, received chunk by chunk. Every acknowledged chunk is on disk exactly once, even if a
// process is killed at any moment. docs/architecture.md describes the order of writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"
#include "proto/wire.pb.h"

namespace lockstep {

// Limits in bytes of uncompressed file content.
struct StoreLimits {
  uint64_t host = uint64_t{4} << 30;
  uint64_t incident = uint64_t{256} << 30;
  uint64_t reserve = uint64_t{64} << 20;  // bytes of disk space reserved for verdicts
};

// One thread owns this object. Its files are NAME when complete, ".NAME.REQUEST.INDEX.part" until then, and ".ledger"
// with the IDs on disk. A sender that lost its spool sends the file again with other IDs; the unfinished part stays
// next to it.
class IncidentStore {
 public:
  enum class Put {
    kTaken,      // written; acknowledge the chunk when Commit() returns its ID
    kDuplicate,  // already on disk: acknowledge the chunk at once
    kRefused,    // never accepted: *why has the reason
    kLater,      // the disk is full or failing: do not answer, so that the chunk is sent again
  };

  // Opens an existing folder and takes over the data of an earlier process. Ignores damaged lines of the ledger, and
  // cuts off a partial last line.
  static absl::StatusOr<std::unique_ptr<IncidentStore>> Open(const std::string& folder, const StoreLimits& limits);
  ~IncidentStore();

  // Checks and writes a chunk. Sets *why for kRefused and kLater. An empty *why with kLater: the chunk is already
  // written, but waits for Commit().
  Put Take(const Chunk& chunk, std::string* why);
  // Makes everything since the last call durable, in the order data, ledger, names. Returns the IDs that may now be
  // acknowledged; on failure none, so that the chunks are sent again.
  absl::StatusOr<std::vector<std::string>> Commit();

  // All files so far; `whole` if complete. Equal names from different hosts got a prefix.
  struct File {
    std::string name, host;
    uint64_t request = 0;
    bool whole = false;
  };
  std::vector<File> Files() const;
  size_t ids() const { return ids_.size(); }
  // Removes the parts of incomplete files. Do not pass chunks afterwards.
  void RemoveParts();

 private:
  struct Part {
    std::string name, sent_name, host;  // sent_name: the sender's name for the file
    uint64_t request = 0;
    uint32_t index = 0;  // in the ledger
    int version = 1;
    std::map<uint64_t, uint64_t> have;  // offset -> end, of chunks in the ledger or accepted
    uint64_t size = 0;                  // known when `ended`
    bool ended = false, whole = false, in_ledger = false;
    UniqueFd fd;  // open while the file's chunks wait for Commit()
    bool Complete() const;
  };
  struct Pending {
    std::string id;
    size_t part = 0;
    uint64_t offset = 0, bytes = 0;
    bool last = false;
  };

  IncidentStore(std::string folder, const StoreLimits& limits) : folder_(std::move(folder)), limits_(limits) {}
  absl::Status ReadLedger();
  absl::StatusOr<size_t> PartFor(const Chunk& chunk, std::string* why);
  static bool Fits(const Part& part, const Chunk& chunk);
  std::string PartPath(const Part& part) const;
  absl::Status Finish(Part* part);
  void GiveUpPending();
  void CloseParts();

  const std::string folder_;
  const StoreLimits limits_;
  UniqueFd ledger_;
  uint64_t ledger_bytes_ = 0;
  uint32_t next_index_ = 0;  // of the next new part
  std::vector<Part> parts_;
  // The newest part for each host, request and file name that the sender uses.
  absl::flat_hash_map<std::string, size_t> part_of_;
  absl::flat_hash_map<std::string, std::string> owner_of_;  // file name -> host
  absl::flat_hash_map<std::string, uint64_t> newest_;       // file name -> request of the complete file with that name
  absl::flat_hash_map<std::string, uint64_t> host_bytes_;
  absl::flat_hash_set<std::string> ids_;  // IDs on disk
  absl::flat_hash_set<std::string> pending_ids_;
  std::vector<Pending> pending_;
  uint64_t bytes_ = 0;
};

}  // namespace lockstep
