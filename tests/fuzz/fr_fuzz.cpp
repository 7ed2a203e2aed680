// The Flight Recorder reader on arbitrary bytes: as one file, and as two ranks of a job merged with each other.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/bundle.h"
#include "analyzer/fr_file.h"
#include "analyzer/fr_groups.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::fr::FileData;
  static lockstep::fr::Document document;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  size_t half = size / 2;
  std::vector<FileData> files;
  int32_t rank = 0;
  for (std::string_view part : {bytes, bytes.substr(0, half), bytes.substr(half)}) {
    FileData file = lockstep::fr::ReadFile(part, "rank_" + std::to_string(rank), rank, &document);
    if (!file.usable && file.problems.empty()) std::abort();
    for (const lockstep::Op& op : file.rank.ops) {
      if (op.membership >= file.used.size()) std::abort();
      if (op.name != lockstep::kNoIndex && op.name >= file.strings.size()) std::abort();
      if (op.input_shape != lockstep::kNoIndex && op.input_shape >= file.shapes.size()) std::abort();
    }
    if (file.usable) files.push_back(std::move(file));
    rank++;
  }
  lockstep::Bundle bundle;
  std::vector<std::vector<uint32_t>> memberships;
  lockstep::fr::MergeGroups(&files, &bundle, &memberships);
  for (size_t f = 0; f < files.size(); f++) {
    for (uint32_t at : memberships[f]) {
      if (at >= files[f].rank.memberships.size()) std::abort();
    }
    for (const lockstep::Membership& member : files[f].rank.memberships) {
      if (member.comm >= bundle.comms.size()) std::abort();
    }
  }
  return 0;
}
