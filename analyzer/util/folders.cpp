#include "analyzer/util/folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "absl/strings/numbers.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

std::vector<std::string> Listed(UniqueFd folder, size_t limit) {
  std::vector<std::string> names;
  DIR* dir = folder.ok() ? fdopendir(folder.get()) : nullptr;
  if (dir == nullptr) return names;
  folder.release();
  errno = 0;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() >= limit) break;
    names.emplace_back(name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> NamesIn(const std::string& folder, size_t limit) {
  return Listed(UniqueFd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), limit);
}

std::vector<std::string> NamesIn(int folder, size_t limit) {
  return Listed(UniqueFd(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), limit);
}

std::vector<int> NumbersIn(const std::string& folder) {
  std::vector<int> numbers;
  for (const std::string& name : NamesIn(folder)) {
    int number = 0;
    if (absl::SimpleAtoi(name, &number) && number >= 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::Status MakeFolder(const std::string& folder) {
  for (size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1))
    mkdir(folder.substr(0, slash).c_str(), 0755);  // a failure shows below
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return FileError("create the folder", folder, errno);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return FileError("open", folder, errno);
  return S_ISDIR(info.st_mode) ? absl::OkStatus() : FileError("use", folder, ENOTDIR);
}

absl::Status SyncFolder(const std::string& folder) {
  const UniqueFd dir(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.ok()) return FileError("open folder", folder, errno);
  if (fsync(dir.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return absl::OkStatus();
  return FileError("sync folder", folder, errno);
}

}  // namespace lockstep
