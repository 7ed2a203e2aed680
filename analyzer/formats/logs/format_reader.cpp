#include "analyzer/formats/logs/format_reader.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "analyzer/formats/fr/add_ranks.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/logs/ranks.h"
#include "analyzer/formats/logs/read_file.h"
#include "analyzer/util/parallel.h"

namespace lockstep {
namespace {

// Users may pass any text by mistake. So a file without a recognized line counts only if this returns true.
bool IsNamedLikeALog(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return absl::StrContains(name, "log") || absl::EndsWith(name, ".out") || absl::EndsWith(name, ".err");
}

}  // namespace

void ReadLogs(const std::vector<std::string>& paths, const ReadControl& control, Records* records) {
  std::vector<logs::FileFacts> files(paths.size());
  std::vector<absl::Status> read(paths.size());
  Parallel(paths.size(), [&](size_t i, size_t) {
    if (control.Cancelled()) return;
    read[i] = logs::ReadFile(
        paths[i], [&control] { return !control.Cancelled(); }, &files[i]);
    control.Done(1);
  });
  if (control.Cancelled()) return;
  std::vector<logs::FileFacts> used;
  for (size_t i = 0; i < paths.size(); ++i) {
    const bool empty = files[i].Empty();
    if (!read[i].ok()) {
      records->problems.push_back(
          {.path = paths[i], .text = std::string(read[i].message()), .rank = fr::RankInName(paths[i])});
    } else if (empty) {
      records->unclaimed.push_back(paths[i]);
    }
    if (!read[i].ok() && empty) continue;
    records->explained |= !empty || !files[i].ranks.empty() || IsNamedLikeALog(paths[i]);
    used.push_back(std::move(files[i]));
  }
  std::vector<Problem> problems;
  fr::AddRanks(logs::ToRanks(std::move(used), &problems, &records->aborted_first, &records->kernel), nullptr,
               &records->framework, &problems);
  for (Problem& problem : problems) records->framework.problems.push_back(std::move(problem));
}

}  // namespace lockstep
