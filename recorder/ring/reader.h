// Reads a ring file of a live or dead process as untrusted input: pread into private memory, every index bounded, torn
// records dropped and counted. Depends only on libc and libstdc++.
#pragma once

#include <cstdint>
#include <string>

#include "recorder/ring/snapshot.h"

namespace lockstep::ring {

struct ReadOptions {
  // Reads only the digest instead of everything: header, communicator table with progress and recent operations,
  // threads, streams. A digest read is a few tens of KiB and meant to be repeated many times a second.
  bool digest_only = false;
  // With a digest: also reads the operations of the newest graph launches and the profiler's data, which are not among
  // the communicators' recent operations. Reads up to 64 KiB more for each thread if there are graphs, or operations
  // that only the profiler follows.
  bool in_flight = false;
};

// Returns true if the first bytes are a ring file's magic.
bool LooksLikeRing(const void* data, uint64_t size);

// Reads through an open descriptor, which it does not own and whose offset it does not use. Returns false with *error
// set (what, offset) if not even the header is usable. Skips later damage and lists it in out->problems. Thread-safe.
bool ReadRing(int fd, const ReadOptions& options, Snapshot* out, std::string* error);

// Like ReadRing, for a path, which *error then names. Follows no link, and accepts only regular files.
bool ReadRingFile(const std::string& path, const ReadOptions& options, Snapshot* out, std::string* error);

}  // namespace lockstep::ring
