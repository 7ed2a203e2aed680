#include "analyzer/formats/logs/format_reader.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "analyzer/formats/fr/add_ranks.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/inspector.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/formats/logs/ranks.h"
#include "analyzer/formats/logs/ras.h"
#include "analyzer/formats/logs/read_file.h"
#include "analyzer/formats/logs/stacks.h"
#include "analyzer/util/parallel.h"

namespace lockstep {
namespace {

// Users may pass any text by mistake. So a file without a recognized line counts only if this returns true.
bool IsNamedLikeALog(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return absl::StrContains(name, "log") || absl::EndsWith(name, ".out") || absl::EndsWith(name, ".err");
}

class LogReader : public FormatReader {
 public:
  Source source() const override { return Source::kText; }
  void Read(const std::vector<std::string>& paths, const ReadControl& control, Records* records) const override {
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
    fr::AddRanks(logs::ToRanks(std::move(used), &problems, &records->aborted_first, &records->kernel),
                 &records->framework, &problems);
    for (Problem& problem : problems) records->framework.problems.push_back(std::move(problem));
  }
};

class PySpyJsonReader final : public LogReader {
 public:
  const char* name() const override { return "py-spy JSON"; }
  const char* beginning() const override { return "\"[{\", with \"pid\" and \"thread_id\""; }
  Claim Claims(std::string_view head) const override { return logs::IsPySpyJson(head) ? Claim::kMaybe : Claim::kNo; }
};

class RasJsonReader final : public LogReader {
 public:
  const char* name() const override { return "ncclras JSON"; }
  const char* beginning() const override { return "\"{\", with \"nccl_version\" and \"communicators_count\""; }
  Claim Claims(std::string_view head) const override { return logs::IsRasJson(head) ? Claim::kMaybe : Claim::kNo; }
};

class InspectorFormatReader final : public LogReader {
 public:
  const char* name() const override { return "NCCL Inspector JSON"; }
  const char* beginning() const override { return "\"{\"header\":\", with \"inspector_output_format_version\""; }
  Claim Claims(std::string_view head) const override {
    return logs::IsInspectorJson(head) ? Claim::kMaybe : Claim::kNo;
  }
};

class TextReader final : public LogReader {
 public:
  const char* name() const override { return "log or printed stacks"; }
  const char* beginning() const override { return "any text"; }
  Claim Claims(std::string_view head) const override { return logs::IsText(head) ? Claim::kMaybe : Claim::kNo; }
};

}  // namespace

const FormatReader& PySpyJsonFormat() {
  static const PySpyJsonReader reader;
  return reader;
}

const FormatReader& RasJsonFormat() {
  static const RasJsonReader reader;
  return reader;
}

const FormatReader& InspectorFormat() {
  static const InspectorFormatReader reader;
  return reader;
}

const FormatReader& TextFormat() {
  static const TextReader reader;
  return reader;
}

}  // namespace lockstep
