#include "analyzer/formats/load/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxFiles = 1u << 20;

// Returns whether the link leads to a ring in memory. A recorder without room for a ring file creates such a link:
// NAME.ring to /proc/PID/fd/NUMBER.
bool IsRingInMemory(const std::string& link) {
  if (!absl::EndsWith(link, ".ring")) return false;
  const std::vector<std::string> parts = absl::StrSplit(LinkTarget(link), '/');
  const auto number = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  return parts.size() == 5 && parts[0].empty() && parts[1] == "proc" && number(parts[2]) && parts[3] == "fd" &&
         number(parts[4]);
}

bool HoldsNoData(const std::string& name) {
  return absl::StartsWith(name, ".") || absl::StartsWith(name, "README") || name == "verdict.json" ||
         name == "verdict.txt" || name == "report.html" || name == "explore.html" || name == "stacks.json" ||
         name == "decisions.jsonl" || name == "index.lsi";
}

class Walk {
 public:
  Walk(FoundFiles* found, const std::atomic<bool>* cancel) : found_(found), cancel_(cancel) {}

  absl::Status Start(const std::string& path) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) {
      if (errno == ENOENT || errno == ENOTDIR)
        return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
      Problem(path, errno);
      return absl::OkStatus();
    }
    Visit(path, info, 0);
    return absl::OkStatus();
  }

  bool Cancelled() const { return cancel_ != nullptr && *cancel_; }

 private:
  void Problem(const std::string& path, int error) {
    std::string text = absl::StrCat("cannot be read: ", strerror(error));
    if (error == EACCES || error == EPERM) absl::StrAppend(&text, "; run this as the job's user or as root");
    found_->problems.push_back({path, -1, std::move(text), -1});
  }

  void Visit(const std::string& path, const struct stat& info, int depth) {
    if (S_ISDIR(info.st_mode)) {
      if (depth > kMaxDepth) {
        found_->problems.push_back({path, -1,
                                    absl::StrCat("folders are read up to ", kMaxDepth,
                                                 " levels deep, so the contents of this folder were not read"),
                                    -1});
      } else if (seen_.insert({info.st_dev, info.st_ino}).second) {
        EnterFolder(path, depth);
      }
    } else if (S_ISREG(info.st_mode)) {
      if (found_->files.size() < kMaxFiles) {
        if (seen_.insert({info.st_dev, info.st_ino}).second) TakeFile(path, depth == 0);
      } else if (!std::exchange(full_, true)) {
        found_->problems.push_back(
            {path, -1, absl::StrCat("not read, like all files after it: more than ", kMaxFiles, " files"), -1});
      }
    } else if (depth == 0) {
      found_->problems.push_back({path, -1, "not a regular file or folder: not read", -1});
    }
  }

  void EnterFolder(const std::string& path, int depth) {
    const std::vector<std::string> names = NamesIn(path, SIZE_MAX);
    if (names.empty() && errno != 0) Problem(path, errno);
    size_t links = 0;
    for (const std::string& name : names) {
      if (Cancelled()) return;
      if (HoldsNoData(name)) continue;
      const std::string child = absl::EndsWith(path, "/") ? path + name : absl::StrCat(path, "/", name);
      struct stat info;
      const bool known = lstat(child.c_str(), &info) == 0;
      if (known && S_ISLNK(info.st_mode) && !IsRingInMemory(child)) {
        ++links;  // a link may lead anywhere, even to another job's files
      } else if (known && (!S_ISLNK(info.st_mode) || stat(child.c_str(), &info) == 0)) {
        Visit(child, info, depth + 1);
      } else if (errno != ENOENT) {  // a file that has just disappeared is not an error
        Problem(child, errno);
      } else if (known) {
        found_->problems.push_back({child, -1,
                                    "the ring was in the memory of a process that has ended; only an agent or lockstep "
                                    "run can keep such a ring",
                                    -1});
      }
    }
    if (links > 0) {
      found_->problems.push_back(
          {.path = path,
           .text = absl::StrCat(links, links == 1 ? " link" : " links",
                                " in this folder not followed; to read a link's target, give its path"),
           .note = true,
           .like = "links"});
    }
  }

  void TakeFile(const std::string& path, bool named) {
    const UniqueFd input = OpenToRead(path);
    if (!input.ok()) return Problem(path, errno);
    char head[512];
    const ssize_t n = pread(input.get(), head, sizeof(head), 0);
    if (n < 0) return Problem(path, errno);
    const std::string_view bytes(head, static_cast<size_t>(n));
    const size_t slash = path.rfind('/');
    const std::string_view name = std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1);
    FoundFile file{path, Detect(bytes), false, n == 0, named, !named && path.ends_with(".log")};
    // Programs write logs next to dumps, and some logs are not text.
    if (file.log && (file.format == nullptr || file.format->source != Source::kText)) return;
    if (name == "manifest.json" && (file.format == nullptr || !file.format->certain)) {
      file.manifest = true;
      file.format = nullptr;
    }
    found_->files.push_back(std::move(file));
  }

  FoundFiles* found_;
  const std::atomic<bool>* const cancel_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  bool full_ = false;  // a file was not added, because there are too many
};

}  // namespace

absl::Status FindFiles(const std::vector<std::string>& paths, FoundFiles* found, const std::atomic<bool>* cancel) {
  Walk walk(found, cancel);
  for (const std::string& path : paths) {
    if (absl::Status status = walk.Start(path); !status.ok()) return status;
    if (walk.Cancelled()) return absl::CancelledError("cancelled");
  }
  std::sort(found->files.begin(), found->files.end(),
            [](const FoundFile& a, const FoundFile& b) { return a.path < b.path; });
  return absl::OkStatus();
}

}  // namespace lockstep
