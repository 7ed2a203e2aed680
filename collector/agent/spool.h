// Data that the agent keeps on disk until the collector has it: chunks, and rings of processes that exited abnormally.
// The spool survives kill -9 at any point. One rename makes all chunks of a file appear together, and each chunk is
// removed when it is acknowledged.
//
//   FOLDER/lock                           allows one agent at a time
//   FOLDER/work/                          files being written; emptied at the start
//   FOLDER/files/P-NUMBER-REQUEST-NAME/   one file's chunks; P is its class: 0 evidence, 1 everything
//       INDEX-ID.chunk                    magic, length, CRC-32C, Chunk message
//   FOLDER/rings/NAME.ring                copies of rings
//
// The spool's size is limited. At the limit, or if the disk is full, the spool drops data in this order: full files,
// rings, evidence. The oldest goes first; of the rings, the oldest of the user whose rings take the most space. The
// spool counts and reports what it drops. A separate thread does the work that may wait for the disk. Only Open(),
// MakeRoom() and Flush() wait for the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/agent/source.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct SpoolOptions {
  std::string folder;  // created (0700) if missing
  uint64_t most_bytes = uint64_t{4} << 30;
  uint32_t chunk_bytes = 1 << 20;  // file content per chunk
};

struct SpoolCounters {
  uint64_t bytes = 0, chunks = 0, rings = 0;  // current values
  uint64_t files_put = 0, rings_put = 0;
  uint64_t files_dropped = 0, rings_dropped = 0;
  uint64_t damaged = 0;  // unreadable chunk files
  uint64_t pending = 0;  // tasks that are waiting for the disk
};

enum class SpoolClass : uint8_t { kEvidence = 0, kEverything = 1 };

// A file to send. `like` has the fields of its chunks, except id, offset, data, raw_bytes and last.
struct SpoolFile {
  SpoolClass kind = SpoolClass::kEvidence;
  Chunk like;
};

// Any thread may call its functions.
class Spool : public ChunkStore {
 public:
  // Takes over the files of an earlier agent. Fails if the folder cannot be used (another owner, another agent, disk
  // errors). The message explains how to fix it.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const SpoolOptions& options);

  // Returns a new path in FOLDER/work, for PutFile.
  virtual std::string WorkPath(const std::string& name) = 0;
  // Splits the file at `path` (in FOLDER/work) into chunks and removes it. The spool's thread does this later;
  // NextProblem() reports errors.
  virtual void PutFile(const SpoolFile& file, const std::string& path) = 0;
  // Call if the disk has no space for a new file in FOLDER/work. Drops the least valuable item, unless it is more
  // valuable than `kind`. Returns false if nothing was dropped. May wait for the disk.
  virtual bool MakeRoom(SpoolClass kind) = 0;
  // Returns whether a file with this request and name is in the spool, is being added, or was acknowledged or refused
  // completely.
  virtual bool Knows(uint64_t request, const std::string& file) const = 0;
  // Copies the ring file behind `fd` (which is duplicated) to rings/NAME.ring before any other work. Replaces an
  // existing copy. Ignores names that are not plain (IsPlainName).
  virtual void SaveRing(int fd, const std::string& name) = 0;
  // Names in rings/, without the folder; only complete copies.
  virtual std::vector<std::string> SavedRings() const = 0;
  virtual const std::string& rings_folder() const = 0;

  // Readable (poll) when a chunk is ready or a problem is reported; cleared by ClearWake().
  virtual int fd() const = 0;
  virtual void ClearWake() = 0;
  // Returns one line about dropped data or an error, or false if there are none left.
  virtual bool NextProblem(std::string* line) = 0;
  virtual SpoolCounters counters() const = 0;
  // Waits until all files and rings are on disk, at most for the limit. Returns false if some are not.
  virtual bool Flush(int64_t limit_ns) = 0;
};

}  // namespace lockstep
