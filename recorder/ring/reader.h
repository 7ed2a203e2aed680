// Reads a ring file, live or left by a dead process, as a hostile file: pread into own memory, every index bounded,
// torn records dropped and counted. No dependency beyond libc and libstdc++.
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
  // With a digest: also what the communicators' recent operations do not show, the operations of the newest graph
  // launches and what the profiler saw. Reads up to 64 KiB a thread more where there are graphs.
  bool in_flight = false;
};

// True when the first bytes are a ring file's magic.
bool LooksLikeRing(const void* data, uint64_t size);

// Reads through an open descriptor (not owned, its offset is not used). Returns false with *error set (what, offset)
// when not even the header can be used; damage past that is stepped over and listed in out->problems. Thread-safe.
bool ReadRing(int fd, const ReadOptions& options, Snapshot* out, std::string* error);

// Opens with O_NOFOLLOW | O_CLOEXEC and reads. Only regular files are accepted.
bool ReadRingFile(const std::string& path, const ReadOptions& options, Snapshot* out, std::string* error);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_RECORDER_RING_READER_H_
