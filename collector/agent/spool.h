// What the agent keeps on disk until the collector has it: chunks, and the rings of processes that ended abnormally. It
// survives kill -9 at any point: a file's chunks appear together, by one rename, and each goes when it is acknowledged.
//
//  FOLDER/lock                        one agent at a time
//  FOLDER/work/                       files being made; emptied at the start
//  FOLDER/files/P-NUMBER/             one file's chunks; P is its class: 0 evidence, 1 everything
//    INDEX-ID.chunk                   magic, length, CRC-32C, Chunk message
//  FOLDER/rings/NAME.ring             copies of rings
//
// Bounded in bytes. Where there is no room - the bound, or the disk - what is dropped is, in this order: files of
// everything (oldest first), rings (oldest first), evidence (oldest first); what is dropped is counted and said. A
// thread of its own does what may wait for the disk; the functions here never do, but for Open(), MakeRoom() and
// Flush().
#ifndef LOCKSTEP_COLLECTOR_AGENT_SPOOL_H_
#define LOCKSTEP_COLLECTOR_AGENT_SPOOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/agent/source.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct SpoolOptions {
  std::string folder;  // created (0700) if missing
  uint64_t most_bytes = uint64_t{4} << 30;
  uint64_t most_ring_age_ns = uint64_t{7} * 86400 * 1'000'000'000;  // copies of rings, by the wall clock
  uint32_t chunk_bytes = 1 << 20;                                   // of file content
};

struct SpoolCounters {
  uint64_t bytes = 0, chunks = 0, rings = 0;  // held now
  uint64_t files_put = 0, chunks_put = 0, rings_put = 0;
  uint64_t files_dropped = 0, bytes_dropped = 0, rings_dropped = 0;
  uint64_t damaged = 0;  // unreadable chunk files
  uint64_t pending = 0;  // tasks that wait for the disk
};

enum class SpoolClass : uint8_t { kEvidence = 0, kEverything = 1 };

// A file to send: the fields of its chunks, without id, offset, data, raw_bytes and last.
struct SpoolFile {
  SpoolClass kind = SpoolClass::kEvidence;
  Chunk like;
};

// Its functions may be called by any thread.
class Spool : public ChunkStore {
 public:
  // Takes over the files of an earlier agent. Fails if the folder cannot be used (another owner, another agent, disk
  // errors); the message says what to do.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const SpoolOptions& options);

  // A new name in FOLDER/work, for PutFile.
  virtual std::string WorkPath(const std::string& name) = 0;
  // Cuts the file at `path` (in FOLDER/work) into chunks and removes it. The spool's thread does this later;
  // NextProblem() reports errors.
  virtual void PutFile(const SpoolFile& file, const std::string& path) = 0;
  // The disk has no room for a new file in FOLDER/work: drops the smallest item that is no more valuable. False: there
  // is none. May wait for the disk.
  virtual bool MakeRoom(SpoolClass kind) = 0;
  // Whether a file of this request and name is in the spool, is being added, or was completely acknowledged.
  virtual bool Knows(uint64_t request, const std::string& file) const = 0;
  // Copies the ring behind `fd` (which is duplicated) to rings/NAME.ring, before all other work. Replaces an existing
  // copy.
  virtual void SaveRing(int fd, const std::string& name) = 0;
  // Names of rings/, without folder; complete copies only.
  virtual std::vector<std::string> SavedRings() const = 0;
  virtual const std::string& rings_folder() const = 0;

  // Readable (poll) when a chunk is ready or a problem is reported; cleared by ClearWake().
  virtual int fd() const = 0;
  virtual void ClearWake() = 0;
  // One line about dropped data or an error; false: none (any more).
  virtual bool NextProblem(std::string* line) = 0;
  virtual SpoolCounters counters() const = 0;
  // Waits up to the limit until all files are on disk. False: not all are.
  virtual bool Flush(int64_t limit_ns) = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_AGENT_SPOOL_H_
