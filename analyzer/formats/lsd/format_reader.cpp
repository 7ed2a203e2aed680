#include "analyzer/formats/lsd/format_reader.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsd/reader.h"
#include "analyzer/formats/lsd/window.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/small_file.h"

namespace lockstep {

bool IsLsd(std::string_view head) { return head.starts_with(kLsdMagic); }

// Opens each file again for each step, because there may be more files than file descriptors.
void ReadLsdDumps(const std::vector<std::string>& paths, const ReadControl& control, Records* records) {
  std::vector<std::unique_ptr<LsdFile>> files(paths.size());
  std::vector<std::string> errors(paths.size());
  std::vector<LsdWorkspace> spaces(WorkerCount(paths.size()));
  Parallel(paths.size(), [&](size_t i, size_t worker) {
    if (control.Cancelled()) return;
    if (const UniqueFd input = OpenToRead(paths[i]); !input.ok()) {
      errors[i] = absl::StrCat("cannot be read: ", strerror(errno));
    } else {
      files[i] = std::make_unique<LsdFile>(paths[i], control.cancel);
      if (absl::Status status = files[i]->Scan(input.get(), &spaces[worker]); !status.ok()) {
        files[i] = nullptr;
        errors[i] = std::string(absl::StripPrefix(status.message(), paths[i] + ": "));
      }
    }
    control.Done(1);
  });
  if (control.Cancelled()) return;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (files[i] == nullptr)
      records->problems.push_back({.path = paths[i], .text = std::move(errors[i]), .like = "no dump"});
  }
  std::erase(files, nullptr);
  auto each = [&](auto&& work) {
    Parallel(files.size(), [&](size_t i, size_t worker) {
      if (control.Cancelled()) return;
      const UniqueFd input = OpenToRead(files[i]->path());
      work(i, input.get(), &spaces[worker]);
    });
  };
  if (CountOperations(files) > control.limits.all) {
    each([&](size_t i, int fd, LsdWorkspace* space) { files[i]->DescribeAll(fd, space); });
  }
  const LoadChoice choice = ChooseOperations(files, control.limits);
  for (auto& file : files) file->InternTexts(&records->library);
  each([&](size_t i, int fd, LsdWorkspace* space) {
    files[i]->Load(fd, choice.plans[i], space);
    control.Done(2);
  });
  for (auto& file : files) file->Deliver(&records->library);
  if (!choice.note.empty()) records->problems.push_back({"", -1, choice.note, -1, /*note=*/true});
}

}  // namespace lockstep
