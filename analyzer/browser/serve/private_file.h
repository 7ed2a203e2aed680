// Files with secrets.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep::serve {

// Reads a file that belongs to this user or root and that nobody else may read or write. Follows links, because
// Kubernetes mounts secrets as links.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t limit);
// Reads an open file in the same way; messages name `path`.
absl::StatusOr<std::string> ReadPrivateFile(int fd, const std::string& path, size_t limit);

}  // namespace lockstep::serve
