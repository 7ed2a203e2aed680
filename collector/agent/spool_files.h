// Reads and writes the items in an agent's spool: chunks, copies of rings, folders of chunks. Stateless; any thread may
// call it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/wire.pb.h"

namespace lockstep {

constexpr size_t kChunkHeaderBytes = 16;  // header of a chunk's file: magic, length, CRC-32C
constexpr size_t kChunkIdBytes = 16;

void RemoveFolder(const std::string& folder);  // for folders of plain files; ignores errors
// Whether `name` is safe as a file name: printable ASCII without spaces and "/", at most 160 bytes, no "." in front.
bool IsPlainName(const std::string& name);

std::string ChunkFileBytes(const Chunk& chunk);
// Returns kDataLoss if the file is damaged.
absl::StatusOr<Chunk> ReadChunkFile(const std::string& path);
absl::Status CompressChunk(const std::string& raw, std::string* out);
absl::Status WriteFileSynced(const std::string& path, std::string_view bytes);
// Copies the first `bytes` of `from`, with holes for zeros. The new file appears complete or not at all. With --redact
// stacks, the copy has no thread names.
absl::Status CopyRingFile(int from, uint64_t bytes, const std::string& path);

}  // namespace lockstep
