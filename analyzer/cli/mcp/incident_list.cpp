#include "analyzer/cli/mcp/incident_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "absl/strings/match.h"
#include "analyzer/engine/replay/conclude.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostListed = 1000;
constexpr char kPrefix[] = "lockstep-incident-";

int64_t ChangedNs(const std::string& path) {
  struct stat info {};
  // Each new verdict rewrites the manifest.
  if (stat((path + "/manifest.json").c_str(), &info) != 0 && stat(path.c_str(), &info) != 0) return 0;
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

std::vector<IncidentList::Listed> IncidentList::List() const {
  std::vector<Listed> listed;
  for (const std::string& path : paths_) {
    std::error_code error;
    bool folder_of_incidents = false;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename();
      if (!absl::StartsWith(name, kPrefix) || at->is_symlink(error) || !at->is_directory(error)) continue;
      folder_of_incidents = true;
      listed.push_back({Printable(name, 200), at->path(), ChangedNs(at->path())});
    }
    if (!folder_of_incidents && fs::exists(path, error)) {
      const fs::path plain = fs::path(path).lexically_normal();
      const std::string name = plain.has_filename() ? plain.filename() : plain.parent_path().filename();
      listed.push_back({Printable(name, 200), path, ChangedNs(path)});
    }
  }
  std::sort(listed.begin(), listed.end(), [](const Listed& a, const Listed& b) {
    return std::tie(b.changed_ns, a.name) < std::tie(a.changed_ns, b.name);
  });
  if (listed.size() > kMostListed) listed.resize(kMostListed);
  return listed;
}

absl::StatusOr<const OpenedIncident*> IncidentList::Open(const std::string& name) {
  const std::vector<Listed> listed = List();
  const auto found =
      std::find_if(listed.begin(), listed.end(), [&](const Listed& one) { return name.empty() || one.name == name; });
  if (found == listed.end())
    return absl::NotFoundError(listed.empty() ? "there are no incidents"
                                              : "there is no such incident: see `incidents`");
  if (opened_ != nullptr && opened_->name == found->name && opened_->changed_ns == found->changed_ns)
    return opened_.get();
  opened_.reset();  // two open incidents may not fit into memory
  absl::StatusOr<Bundle> bundle = LoadPaths({found->path});
  if (!bundle.ok()) return bundle.status();
  auto opened = std::make_unique<OpenedIncident>();
  opened->name = found->name;
  opened->changed_ns = found->changed_ns;
  opened->bundle = *std::move(bundle);
  redactor_.Redact(&opened->bundle);
  opened->verdict = replay::Conclude(opened->bundle);
  opened->stacks = StacksOf(found->path);
  redactor_.Redact(&opened->stacks);
  opened_ = std::move(opened);
  return opened_.get();
}

}  // namespace lockstep
