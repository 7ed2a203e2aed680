#include "collector/host/reading_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

bool Give(int fd, gid_t group, mode_t mode) {
  return fchown(fd, static_cast<uid_t>(-1), group) == 0 && fchmod(fd, mode) == 0;
}

}  // namespace

absl::StatusOr<gid_t> FindReadingGroup(const std::string& name) {
  uint32_t group = 0;
  bool found = absl::SimpleAtoi(name, &group) && group != UINT32_MAX;
  if (!found) {
    std::ifstream file("/etc/group");
    for (std::string line; !found && std::getline(file, line);) {
      const std::vector<std::string> fields = absl::StrSplit(line, ':');
      found = fields.size() >= 3 && fields[0] == name && absl::SimpleAtoi(fields[2], &group);
    }
  }
  if (!found) {
    return absl::NotFoundError(absl::StrCat("--group: /etc/group has no '", name,
                                            "'; give a group of a directory service by its number (getent group ", name,
                                            ")"));
  }
  if (geteuid() != 0 && getegid() != group) {
    std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
    const int count = getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<size_t>(std::max(0, count)));
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) {
      return absl::PermissionDeniedError(
          absl::StrCat("--group: this user is not a member of group ", name, ", and so cannot give files to it"));
    }
  }
  return static_cast<gid_t>(group);
}

absl::Status IncidentSharer::ShareIncident(int parent, const std::string& name, const std::string& shown) {
  struct stat info {};
  if (fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode) ||
      info.st_uid != geteuid())
    return absl::OkStatus();
  const int64_t written = static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  const auto before = shared_.find(name);
  if (before != shared_.end() && before->second == written && info.st_gid == group_) return absl::OkStatus();
  const UniqueFd folder(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.ok()) return absl::UnavailableError(absl::StrCat("cannot share ", shown, ": ", strerror(errno)));
  absl::Status result;
  // New files in the folder then belong to the group at once.
  if (!Give(folder.get(), group_, 02750))
    result = absl::UnavailableError(absl::StrCat("cannot give ", shown, " to group ", group_, ": ", strerror(errno)));
  for (const std::string& file : NamesIn(folder.get())) {
    struct stat one {};
    if (fstatat(folder.get(), file.c_str(), &one, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(one.st_mode) ||
        one.st_uid != geteuid())
      continue;
    if (one.st_gid == group_ && (one.st_mode & 0040) != 0) continue;
    const UniqueFd fd(openat(folder.get(), file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd.ok()) continue;  // the file is gone
    if (!Give(fd.get(), group_, 0640))
      result.Update(absl::UnavailableError(
          absl::StrCat("cannot give ", shown, "/", file, " to group ", group_, ": ", strerror(errno))));
  }
  shared_[name] = written;
  return result;
}

absl::Status IncidentSharer::ShareOne(const std::string& folder) {
  std::string whole = folder;
  while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  const size_t slash = whole.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : whole.substr(0, slash);
  const UniqueFd fd(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return absl::UnavailableError(absl::StrCat("cannot share ", folder, ": ", strerror(errno)));
  return ShareIncident(fd.get(), slash == std::string::npos ? whole : whole.substr(slash + 1), folder);
}

absl::Status SharedIncidents::Add(const std::string& folder) {
  if (!group_) return absl::OkStatus();
  folders_.push_back(folder);
  return IncidentSharer(*group_).ShareOne(folder);
}

SharedIncidents::~SharedIncidents() {
  for (const std::string& folder : folders_) IncidentSharer(*group_).ShareOne(folder).IgnoreError();
}

absl::Status IncidentSharer::Share(const std::string& folder) {
  const UniqueFd parent(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.ok()) return absl::UnavailableError(absl::StrCat("cannot share ", folder, ": ", strerror(errno)));
  absl::Status result;
  struct stat info {};
  // Does not change a folder that belongs to another user or has other permissions.
  if (fstat(parent.get(), &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 07777) == 0700 &&
      !Give(parent.get(), group_, 0750)) {
    result = absl::UnavailableError(absl::StrCat("cannot give ", folder, " to group ", group_, ": ", strerror(errno)));
  }
  std::map<std::string, int64_t> still;
  for (const std::string& name : NamesIn(parent.get())) {
    if (!absl::StartsWith(name, "lockstep-incident-")) continue;
    result.Update(ShareIncident(parent.get(), name, absl::StrCat(folder, "/", name)));
    if (const auto at = shared_.find(name); at != shared_.end()) still.insert(*at);
  }
  shared_ = std::move(still);
  return result;
}

}  // namespace lockstep
