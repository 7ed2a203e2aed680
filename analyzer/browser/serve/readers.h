// The people who may read incidents over the network: a file with their names, each with the hash of a key.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::serve {

// Returns 192 random bits as 32 characters that are safe in a URL; empty if the system provides no random bytes.
std::string MakeToken();

// The file has a line "NAME HASH" for each reader. Changes take effect at the next request. Thread-safe.
class Readers {
 public:
  explicit Readers(std::string path) : path_(std::move(path)) {}

  // Adds a line, and creates the file if it does not exist. Returns the new key, which is stored nowhere.
  static absl::StatusOr<std::string> Add(const std::string& path, const std::string& name);
  // Returns an error if the file cannot be used or has no readers.
  absl::Status Check();
  // Returns whether a request with this header field may read: "Basic" with any name and a key as password, or "Bearer
  // KEY". Wrong keys are not counted: random keys cannot be guessed, and one reader's mistakes must not lock out
  // others.
  bool Admit(std::string_view authorization);

 private:
  absl::Status Load();

  const std::string path_;
  std::mutex mutex_;
  std::string version_;  // version of the file that `hashes_` was read from
  std::vector<std::string> hashes_;
};

}  // namespace lockstep::serve
