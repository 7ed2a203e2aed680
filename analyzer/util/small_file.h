// Reads whole files up to a size limit.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

enum class Links { kFollow, kRefuse };

// Opens a file for reading. Never waits for the writer of a pipe. On failure errno has the reason.
UniqueFd OpenToRead(const std::string& path, Links links = Links::kFollow);

// Reads a regular file of at most `limit` bytes. Errors name the path: NotFound, PermissionDenied, InvalidArgument
// (not a regular file, too large), Unavailable.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t limit, Links links = Links::kFollow);
// Reads an open file in the same way, from its current position; messages name `path`. The caller keeps `fd`.
absl::StatusOr<std::string> ReadWholeFile(int fd, const std::string& path, size_t limit);

// Returns the beginning of a file in /proc or /sys; empty if unreadable.
std::string ReadSmallFile(const std::string& path, size_t limit = 1 << 20);
std::string ReadSmallFile(int fd, size_t limit);

// Returns what a symbolic link contains; "" if unreadable.
std::string LinkTarget(const std::string& path);

}  // namespace lockstep
