// The people who may read incidents over the network: a file of their names, each with the hash of a key.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::serve {

// 192 random bits as 32 characters for a URL; empty if the system gives no random bytes.
std::string MakeToken();

// A file has a line "NAME HASH" for each reader. Changes take effect at the next request. Thread-safe.
class Readers {
 public:
  explicit Readers(std::string path) : path_(std::move(path)) {}

  // Adds a line, and the file if it does not exist. Returns the new key, which is stored nowhere.
  static absl::StatusOr<std::string> Add(const std::string& path, const std::string& name);
  // Why the file cannot be used, or that it has no readers.
  absl::Status Check();
  // Whether a request with this header field may read: "Basic" with any name and a key as password, or "Bearer KEY".
  // Keys are random, so guesses are not counted: one reader's wrong keys must not lock out others at the same address.
  bool Admit(std::string_view authorization);

 private:
  absl::Status Load();

  const std::string path_;
  std::mutex mutex_;
  std::string version_;  // of the file that `hashes_` comes from
  std::vector<std::string> hashes_;
};

}  // namespace lockstep::serve
