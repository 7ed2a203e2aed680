#include "collector/host/memory_cgroup.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 60;  // cgroup v1 has a number near 2^63 for "max"

int64_t Number(const std::string& file) {
  int64_t value = 0;
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadSmallFile(file, 64)), &value) && value >= 0 ? value : -1;
}

MemoryCgroup Read(const std::string& root, absl::string_view path, bool older) {
  const std::string folder = absl::StrCat(root, older ? "/memory" : "", path, "/memory.");
  const int64_t limit = Number(folder + (older ? "limit_in_bytes" : "max"));
  return {std::string(path.empty() ? "/" : path), folder + (older ? "oom_control" : "events"),
          limit < kNoLimit ? limit : -1, Number(folder + (older ? "usage_in_bytes" : "current"))};
}

}  // namespace

MemoryCgroup FindMemoryCgroup(const std::string& process, const std::string& root) {
  MemoryCgroup found;
  // "0::/user.slice/..." in cgroup v2, "9:memory:/docker/..." in v1.
  for (absl::string_view line : absl::StrSplit(ReadSmallFile(process + "/cgroup"), '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || absl::StrContains(fields[2], "..") || !absl::StartsWith(fields[2], "/")) continue;
    bool older = false;
    for (absl::string_view controller : absl::StrSplit(fields[1], ',')) older |= controller == "memory";
    if (!older && !fields[1].empty()) continue;
    absl::string_view path = fields[2] == "/" ? absl::string_view() : fields[2];
    found = Read(root, path, older);
    while (!path.empty()) {
      path = path.substr(0, path.rfind('/'));
      const MemoryCgroup above = Read(root, path, older);
      if (above.limit >= 0 && (found.limit < 0 || above.limit < found.limit)) found = above;
    }
    if (older) break;
  }
  return found;
}

}  // namespace lockstep
