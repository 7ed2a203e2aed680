// Reads a whole .lsd dump in one step.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/formats/lsd/reader.h"
#include "analyzer/formats/merge.h"

namespace lockstep {

// Adds all ranks of the dump in `fd` to *builder; nothing if LsdFile::Scan fails. *header may be null.
inline absl::Status ReadLsd(int fd, const std::string& path, BundleBuilder* builder, DumpHeader* header = nullptr) {
  LsdWorkspace workspace;
  LsdFile file(path);
  if (absl::Status status = file.Scan(fd, &workspace); !status.ok()) return status;
  file.InternTexts(builder);
  file.Load(fd, std::vector<LsdPlan>(file.ranks().size()), &workspace);
  file.Deliver(builder);
  if (header != nullptr) *header = file.header();
  return absl::OkStatus();
}

}  // namespace lockstep
