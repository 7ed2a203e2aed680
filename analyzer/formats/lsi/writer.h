// Writes index.lsi (docs/index-file.md).
#ifndef LOCKSTEP_ANALYZER_FORMATS_LSI_WRITER_H_
#define LOCKSTEP_ANALYZER_FORMATS_LSI_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// A number that changes when a file of `paths` (files, or folders, followed eight deep) is added, removed, resized or
// rewritten. Files derived by Lockstep (index.lsi, verdict.*, report.html, notes) do not count.
uint64_t FingerprintSources(const std::vector<std::string>& paths);

// Ranks come one at a time, so an index of more operations than fit into memory can be written. Not thread-safe.
class IndexWriter {
 public:
  // `frame` has the ranks, their memberships and the communicators; its ops are ignored. operations[i] is the number of
  // operations that AddRank will get for frame.ranks[i]. The frame must outlive the writer. Writes beside `path` under
  // a hidden name that is removed unless Commit succeeds. Errors: a bundle beyond the format's limits, those of the
  // file system.
  static absl::StatusOr<std::unique_ptr<IndexWriter>> Create(const Bundle& frame,
                                                             const std::vector<uint64_t>& operations, uint64_t source,
                                                             const std::string& path);
  ~IndexWriter();
  IndexWriter(const IndexWriter&) = delete;
  IndexWriter& operator=(const IndexWriter&) = delete;

  // The operations of frame.ranks[rank_index], in any order of ranks, each at most once. Exactly the announced number.
  absl::Status AddRank(size_t rank_index, const std::vector<Op>& ops);
  // Serialized ViewFacts for the file; before Commit. At most kIndexMaxFactsBytes.
  absl::Status SetFacts(std::string facts);
  // Publishes the file under its name, synced.
  absl::Status Commit();

 private:
  struct Impl;
  explicit IndexWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The whole bundle at once.
absl::Status WriteIndex(const Bundle& bundle, uint64_t source, const std::string& path, std::string facts = {});

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_LSI_WRITER_H_
