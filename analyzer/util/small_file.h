// Whole files up to a size limit.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

enum class Links { kFollow, kRefuse };

// Opens a file for reading. Never waits for the writer of a pipe; on failure errno has the reason.
UniqueFd OpenToRead(const std::string& path, Links links = Links::kFollow);

// All of a regular file of at most `limit` bytes. Errors name the path: NotFound, PermissionDenied, InvalidArgument
// (not a regular file, too large), Unavailable.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t limit, Links links = Links::kFollow);
// The same for an open file, from its current position; `path` is for messages. The caller keeps `fd`.
absl::StatusOr<std::string> ReadWholeFile(int fd, const std::string& path, size_t limit);

// The beginning of a file of /proc or /sys; empty if unreadable.
std::string ReadSmallFile(const std::string& path, size_t limit = 1 << 20);
std::string ReadSmallFile(int fd, size_t limit);

}  // namespace lockstep
