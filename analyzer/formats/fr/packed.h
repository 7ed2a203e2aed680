// Packed files: gzip files, and zip archives of several files.
#pragma once

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

// Unpacks a gzip file into `out`. Sets `written_ns` to the time when the packed file was written, if the header
// contains it. Fails on damage, with the data before it in `out`, and if the result is larger than `most` bytes.
absl::Status Gunzip(std::string_view bytes, size_t most, std::string* out, int64_t* written_ns);

// A file in a zip archive. `data` is a part of the archive's bytes, which must outlive it.
struct Packed {
  std::string name;
  std::string_view data;
  bool deflated = false;
};

// Returns the archive's files, without folders, in the order of its table. Fails if the table is damaged.
absl::StatusOr<std::vector<Packed>> FilesInZip(std::string_view bytes);

// Unpacks one file as Gunzip does.
absl::Status Unzip(const Packed& file, size_t most, std::string* out);

}  // namespace lockstep::fr
