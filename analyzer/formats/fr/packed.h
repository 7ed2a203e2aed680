// Reads compressed files: gzip files, and zip and tar archives of several files.
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
bool IsTar(std::string_view head);

// Unpacks a gzip file into `out`. Sets `written_ns` to the packed file's modification time, if the header contains it.
// If the file is damaged, fails but keeps the data before the damage in `out`. Also fails if the result is larger than
// `most` bytes.
absl::Status Gunzip(std::string_view bytes, size_t most, std::string* out, int64_t* written_ns);

// A file in an archive. `data` is a part of the archive's bytes, which must outlive it.
struct Packed {
  std::string name;
  std::string_view data;
  bool deflated = false;
  int64_t written_ns = 0;  // modification time; 0 if unknown: zip archives contain local times of an unknown zone
};

// Returns the archive's files without folders, in its order. Fails if the archive is damaged, or uses zip64 or a
// compression other than deflate.
absl::StatusOr<std::vector<Packed>> FilesInZip(std::string_view bytes);

// Appends the archive's files without folders and links, in its order. If the archive is damaged or cut, fails but
// keeps the files before the damage, the last one possibly incomplete.
absl::Status FilesInTar(std::string_view bytes, std::vector<Packed>* files);

// Unpacks one file, which may be stored without compression. Fails like Gunzip.
absl::Status Unzip(const Packed& file, size_t most, std::string* out);

}  // namespace lockstep::fr
