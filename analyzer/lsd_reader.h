// Reads a .lsd dump (docs/dump-file.md) as a hostile file.
#ifndef LOCKSTEP_ANALYZER_LSD_READER_H_
#define LOCKSTEP_ANALYZER_LSD_READER_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "analyzer/load_merge.h"
#include "proto/dump.pb.h"

namespace lockstep {

bool LooksLikeLsd(std::string_view head);

// Adds the ranks of the dump behind `fd` (not owned, read from its start by pread) to *builder. `path` is for messages.
// Damage is stepped over where the framing survives, else reading stops there; what was lost becomes problems with
// offsets, and the ranks concerned are marked as damaged. *header (may be null) gets the file's header. Errors: no
// dump, a version this reader must not read, no header, or nothing to be read at all; nothing is added then.
absl::Status ReadLsd(int fd, const std::string& path, BundleBuilder* builder, DumpHeader* header = nullptr);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_LSD_READER_H_
