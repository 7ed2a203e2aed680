#include "collector/common/retention.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr char kIncidentPrefix[] = "lockstep-incident-", kRemovingPrefix[] = ".removing-lockstep-incident-";
constexpr size_t kMostFiles = 1 << 20;

std::string AgeText(int64_t seconds) {
  if (seconds >= 2 * 86400) return absl::StrCat(seconds / 86400, " days old");
  return seconds >= 2 * 3600 ? absl::StrCat(seconds / 3600, " hours old")
                             : absl::StrCat(std::max<int64_t>(0, seconds / 60), " minutes old");
}

// Returns whether Lockstep writes files with this name into incidents. False for links and folders.
bool IsIncidentFile(const std::string& name, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return false;
  for (const char* known :
       {"manifest.json", "verdict.json", "verdict.txt", "report.html", "explore.html", "decisions.jsonl", "stacks.json",
        "index.lsi", ".ledger", ".gathering.json", ".verdict.pb", ".told"}) {
    if (name == known) return true;
  }
  return absl::EndsWith(name, ".lsd") || (name[0] == '.' && absl::EndsWith(name, ".part")) ||
         name.starts_with(kUnfinishedPrefix);
}

UniqueFd OpenFolder(int at, const std::string& name) {
  return UniqueFd(openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Returns "captured_real_ns" of the manifest, in seconds; 0 if missing.
int64_t CapturedAt(int folder) {
  const UniqueFd fd(openat(folder, "manifest.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const std::string text = fd.ok() ? ReadSmallFile(fd.get(), 64 << 10) : "";
  constexpr char kKey[] = "\"captured_real_ns\":";
  const size_t at = text.find(kKey);
  if (at == std::string::npos) return 0;
  const long long value = strtoll(text.c_str() + at + sizeof(kKey) - 1, nullptr, 10);
  return value > 0 ? value / 1'000'000'000 : 0;
}

struct KeptIncident {
  std::string name;
  int64_t at_s = 0;  // capture time in the manifest; if it has none, the last write
  uint64_t bytes = 0;
  std::string keep;  // why the incident is kept despite the limits
  struct stat info {};
};

// Returns false, without a report, if the folder is not an incident of this user.
bool Look(const UniqueFd& parent, const std::string& name, KeptIncident* incident) {
  incident->name = name;
  if (fstatat(parent.get(), name.c_str(), &incident->info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISDIR(incident->info.st_mode))
    return false;
  if (incident->info.st_uid != geteuid()) return false;
  const UniqueFd folder = OpenFolder(parent.get(), name);
  struct stat opened {};
  if (!folder.ok() || fstat(folder.get(), &opened) != 0 || opened.st_ino != incident->info.st_ino ||
      opened.st_dev != incident->info.st_dev)
    return false;
  bool ours = false;
  for (const std::string& file : NamesIn(folder.get(), kMostFiles)) {
    struct stat info {};
    if (fstatat(folder.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    incident->bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    if (S_ISREG(info.st_mode)) incident->at_s = std::max<int64_t>(incident->at_s, info.st_mtime);
    if (file == ".gathering.json") incident->keep = "it is still being gathered";
    if (!IsIncidentFile(file, info) && incident->keep.empty()) {
      incident->keep = absl::StrCat("it contains ", Printable(file, 200), ", which is not an incident file");
    }
    ours |= file == "manifest.json" || file == ".gathering.json" || file == "verdict.json";
  }
  if (!ours) return false;
  // Prefers the capture time, because viewing an incident writes its index, and copying it may change all file times.
  if (const int64_t captured = CapturedAt(folder.get()); captured > 0) incident->at_s = captured;
  return true;
}

// Removes an incident whose folder was already renamed. Returns false with errno on failure. Removes nothing if the
// folder contains a foreign file by now.
bool RemoveIncident(const UniqueFd& parent, const std::string& name) {
  {
    const UniqueFd folder = OpenFolder(parent.get(), name);
    if (!folder.ok()) return false;
    const std::vector<std::string> files = NamesIn(folder.get(), kMostFiles);
    for (const std::string& file : files) {
      struct stat info {};
      if (fstatat(folder.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && !IsIncidentFile(file, info)) {
        errno = ENOTEMPTY;
        return false;
      }
    }
    for (const std::string& file : files) unlinkat(folder.get(), file.c_str(), 0);
  }
  return unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace

absl::StatusOr<Retained> RetainIncidents(const std::string& folder, const RetentionRequest& request) {
  const UniqueFd parent(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!parent.ok()) {
    const bool link = errno == ELOOP || errno == ENOTDIR;
    return absl::FailedPreconditionError(
        absl::StrCat(Printable(folder, 200), ": ",
                     link ? "is not a folder, or is a link: give the folder itself" : strerror(errno)));
  }
  Retained done;
  std::vector<KeptIncident> incidents;
  std::vector<std::string> names = NamesIn(parent.get(), kMostFiles);
  std::sort(names.begin(), names.end());
  const auto say = [&](const std::string& line) {
    if (request.say) request.say(line);
  };
  for (const std::string& name : names) {
    struct stat info {};
    if (absl::StartsWith(name, kRemovingPrefix)) {
      // A process of this user was killed while it was removing this folder.
      if (!request.dry_run && fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISDIR(info.st_mode) && info.st_uid == geteuid()) {
        RemoveIncident(parent, name);
      }
      continue;
    }
    KeptIncident incident;
    if (absl::StartsWith(name, kIncidentPrefix) && Look(parent, name, &incident))
      incidents.push_back(std::move(incident));
  }
  std::sort(incidents.begin(), incidents.end(), [](const KeptIncident& a, const KeptIncident& b) {
    return a.at_s != b.at_s ? a.at_s < b.at_s : a.name < b.name;
  });
  if (!incidents.empty() && incidents.back().keep.empty()) incidents.back().keep = "it is the newest";
  uint64_t all = 0;
  for (const KeptIncident& incident : incidents) all += incident.bytes;
  for (const KeptIncident& incident : incidents) {
    const std::string shown = absl::StrCat(folder, "/", Printable(incident.name, 200));
    const int64_t age = request.now_s - incident.at_s;
    const bool old = request.by_age && request.limits.age_s > 0 && age > request.limits.age_s;
    const bool large = request.limits.bytes > 0 && all > request.limits.bytes;
    const std::string why =
        old ? AgeText(age) : absl::StrCat("incidents take ", all >> 20, " MiB, more than ", request.limits.bytes >> 20);
    if ((!old && !large) || !incident.keep.empty()) {
      ++done.kept;
      if (request.say_kept)
        say(absl::StrCat("kept ", shown, ": ", incident.keep.empty() ? AgeText(age) : incident.keep));
      continue;
    }
    const std::string gone = absl::StrCat(".removing-", incident.name);
    struct stat again {};
    bool removed = request.dry_run;
    if (!request.dry_run) {
      // The name must still refer to the checked folder.
      removed = fstatat(parent.get(), incident.name.c_str(), &again, AT_SYMLINK_NOFOLLOW) == 0 &&
                again.st_ino == incident.info.st_ino && again.st_dev == incident.info.st_dev &&
                renameat(parent.get(), incident.name.c_str(), parent.get(), gone.c_str()) == 0;
      if (removed && !RemoveIncident(parent, gone)) {
        removed = false;
        const int error = errno;
        renameat(parent.get(), gone.c_str(), parent.get(), incident.name.c_str());
        errno = error;
      }
    }
    if (!removed) {
      ++done.failed;
      say(absl::StrCat("cannot remove ", shown, ": ", strerror(errno)));
      continue;
    }
    ++done.removed;
    done.removed_bytes += incident.bytes;
    all -= incident.bytes;
    say(absl::StrCat(request.dry_run ? "would remove " : "removed ", shown, ": ", why));
  }
  return done;
}

bool TrustedClock::Trust(int64_t mono_ns, int64_t real_ns) {
  constexpr int64_t kStep = 60'000'000'000, kPause = 3600LL * 1'000'000'000;
  const int64_t offset = real_ns - mono_ns;
  if (known_ && std::abs(offset - offset_ns_) > kStep) {
    stepped_ = true;
    stepped_ns_ = mono_ns;
  }
  known_ = true;
  offset_ns_ = offset;
  if (stepped_ && mono_ns - stepped_ns_ >= kPause) stepped_ = false;
  return !stepped_;
}

}  // namespace lockstep
