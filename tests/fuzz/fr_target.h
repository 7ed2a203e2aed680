// Reads a Flight Recorder dump, pickle or JSON, and its two halves, and merges all that are usable as ranks of one job.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/groups.h"
#include "analyzer/formats/fr/identity.h"
#include "analyzer/model/bundle.h"
#include "tests/fuzz/accepted.h"

namespace lockstep {

inline void ReadAsFlightRecorder(std::string_view bytes) {
  using fr::FileData;
  static fr::Document space;
  fr::MemberLists lists;
  size_t half = bytes.size() / 2;
  std::vector<FileData> files;
  int32_t rank = 0;
  for (std::string_view part : {bytes, bytes.substr(0, half), bytes.substr(half)}) {
    std::vector<FileData> dumps = fr::ReadFile(part, "rank_" + std::to_string(rank), &space, &lists);
    if (dumps.empty()) std::abort();
    if (rank == 0 && dumps[0].usable) fuzz_accepted++;
    for (FileData& file : dumps) {
      if (!file.usable && file.problems.empty()) std::abort();
      for (const Op& op : file.rank.ops) {
        if (op.membership >= file.used.size()) std::abort();
        if (op.name != kNoIndex && op.name >= file.strings.size()) std::abort();
        if (op.input_shape != kNoIndex && op.input_shape >= file.shapes.size()) std::abort();
      }
      if (file.usable) files.push_back(std::move(file));
    }
    rank++;
  }
  std::vector<Problem> problems;
  fr::NameRanks(&files);
  fr::CorrectRanks(&files, &problems);
  Bundle bundle;
  std::vector<std::vector<uint32_t>> memberships;
  fr::MergeGroups(&files, &bundle, &memberships);
  for (size_t f = 0; f < files.size(); f++) {
    for (uint32_t at : memberships[f]) {
      if (at >= files[f].rank.memberships.size()) std::abort();
    }
    for (const Membership& member : files[f].rank.memberships) {
      if (member.comm >= bundle.comms.size()) std::abort();
    }
  }
}

}  // namespace lockstep
