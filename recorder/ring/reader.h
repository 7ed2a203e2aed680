// Reads a ring file, live or of a dead process, as hostile input: pread into own memory, every index bounded, torn
// records dropped and counted. No dependency beyond libc and libstdc++.
#ifndef LOCKSTEP_RECORDER_RING_READER_H_
#define LOCKSTEP_RECORDER_RING_READER_H_

#include <cstdint>
#include <string>

#include "recorder/ring/snapshot.h"

namespace lockstep::ring {

struct ReadOptions {
  // Read everything, or only the digest: header, communicator table with progress and recent operations, threads,
  // streams. A digest read is a few tens of KiB and meant to be repeated many times a second.
  bool digest_only = false;
  // With a digest: also the operations of the newest graph launches, and the profiler's data, which the communicators'
  // recent operations do not show. Reads up to 64 KiB a thread more if there are graphs.
  bool in_flight = false;
};

// True if the first bytes are a ring file's magic.
bool LooksLikeRing(const void* data, uint64_t size);

// Reads through an open descriptor (not owned, its offset is not used). False with *error set (what, offset) if not
// even the header is usable; later damage is skipped and listed in out->problems. Thread-safe.
bool ReadRing(int fd, const ReadOptions& options, Snapshot* out, std::string* error);

// Opens with O_NOFOLLOW | O_CLOEXEC and reads. Only regular files are accepted.
bool ReadRingFile(const std::string& path, const ReadOptions& options, Snapshot* out, std::string* error);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_RECORDER_RING_READER_H_
