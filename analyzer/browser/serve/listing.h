// The incidents that a server shows: those in its folders. Every request searches the folders again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep::serve {

struct Listed {
  std::string id;      // 16 hexadecimal digits, derived from the path
  std::string path;    // as in the file system
  bool named = false;  // given on the command line, so it may be a symbolic link

  std::string name;  // printable, like the fields below
  std::string job, verdict, sentence, host;
  int64_t at_ns = 0;               // when the data was captured
  int64_t read = 0, expected = 0;  // ranks
  bool gathering = false;
};

// Opens a file in the incident's folder. Follows no link, except one to a folder that the command line names. Errors do
// not reveal the folder.
absl::StatusOr<UniqueFd> OpenFileOf(const Listed& incident, const char* name);
// Reads a regular file of the incident in the same way.
absl::StatusOr<std::string> ReadFileOf(const Listed& incident, const char* name, size_t limit);
// Returns when the newest of the files that reports are made from was written; 0 if there are none.
int64_t NewestDataNs(const Listed& incident);
// Returns when the file was written; 0 if it does not exist.
int64_t WrittenNs(const Listed& incident, const char* name);

// Thread-safe.
class Listing {
 public:
  static constexpr size_t kMostListed = 2000;

  // Each folder is an incident or contains incidents. `secret` keeps others from creating folders with equal ids.
  Listing(std::vector<std::string> folders, std::string secret);

  // Returns NotFound if a folder cannot be opened.
  absl::Status Check() const;

  // Returns all incidents, newest first, at most kMostListed.
  std::vector<Listed> All();
  // Returns NotFound if no incident has this id.
  absl::StatusOr<Listed> Find(std::string_view id);

 private:
  // Returns the most recently written incidents, at most kMostListed; `at_ns` is the time of writing.
  std::vector<Listed> Folders() const;
  void Fill(Listed* incident);

  const std::vector<std::string> folders_;
  const std::string secret_;
  std::mutex mutex_;
  struct Known {
    std::string version;  // version of the files that the row was made from
    Listed row;
  };
  std::map<std::string, Known> known_;  // indexed by path
};

}  // namespace lockstep::serve
