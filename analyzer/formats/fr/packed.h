// Packed files: gzip, and zip archives of several.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_PACKED_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_PACKED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::fr {

bool IsGzip(std::string_view head);
bool IsZip(std::string_view head);

// Unpacks a gzip file into `out`. `written_ns`: when the packed file was written, if the header has it; else unchanged.
// Fails on damage, with the data before it in `out`, and if the result is larger than `most` bytes.
absl::Status Gunzip(std::string_view bytes, size_t most, std::string* out, int64_t* written_ns);

// A file in a zip archive. `data` is a part of the archive's bytes, which must outlive it.
struct Packed {
  std::string name;
  std::string_view data;
  bool deflated = false;
};

// The archive's files, without folders, in the order of its table. Fails if the table is damaged.
absl::StatusOr<std::vector<Packed>> FilesInZip(std::string_view bytes);

// As Gunzip.
absl::Status Unzip(const Packed& file, size_t most, std::string* out);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_PACKED_H_
