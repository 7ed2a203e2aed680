// Writes index.lsi (docs/index-file.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Returns a number that changes if a file in `paths` (files or folders, up to eight levels deep) is added, removed,
// resized or rewritten. In folders, ignores files that Lockstep derives from others (index.lsi, verdict.*, report.html,
// explore.html, notes), hidden files, README files, and links to folders.
uint64_t FingerprintSources(const std::vector<std::string>& paths);

// Ranks are added one at a time, so the index may contain more operations than fit into memory. Not thread-safe.
class IndexWriter {
 public:
  // `frame` has the ranks, their memberships and the communicators; its ops are ignored. operations[i] is the number
  // of operations that AddRank will get for frame.ranks[i]. The frame must outlive the writer. Writes to a hidden
  // file next to `path`, which is removed unless Commit succeeds. Fails if the bundle exceeds the format's limits,
  // and on file-system errors.
  static absl::StatusOr<std::unique_ptr<IndexWriter>> Create(const Bundle& frame,
                                                             const std::vector<uint64_t>& operations, uint64_t source,
                                                             const std::string& path);
  ~IndexWriter();

  // Adds the operations of frame.ranks[rank_index]: exactly the announced number. Ranks may come in any order, each
  // at most once.
  absl::Status AddRank(size_t rank_index, const std::vector<Op>& ops);
  // Sets the file's serialized ViewFacts, at most kIndexMaxFactsBytes. Call it before Commit.
  absl::Status SetFacts(std::string facts);
  // Syncs the file and renames it to its final name.
  absl::Status Commit();

 private:
  struct Impl;
  explicit IndexWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Writes the whole bundle at once.
absl::Status WriteIndex(const Bundle& bundle, uint64_t source, const std::string& path, std::string facts = {});

}  // namespace lockstep
