#include "analyzer/browser/serve/listing.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"

namespace lockstep::serve {
namespace {

using nlohmann::json;

constexpr size_t kMostVerdictBytes = 16 << 20, kMostManifestBytes = 16 << 20;
constexpr size_t kMostNames = 100'000;                               // maximum number of names read in a folder
constexpr const char* kMarks[] = {"manifest.json", "verdict.json"};  // an incident has at least one of these

UniqueFd OpenFolder(const std::string& path, bool follow) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW)));
}

bool Regular(int folder, const char* name, struct stat* info) {
  return fstatat(folder, name, info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info->st_mode);
}

int64_t ModifiedNs(const struct stat& info) {
  const int64_t seconds =
      std::clamp<int64_t>(info.st_mtim.tv_sec, 0, int64_t{1} << 32);  // anyone can set any file time
  return seconds * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// Returns when an incident was last written; nullopt if the folder is not an incident.
std::optional<int64_t> IncidentNs(const std::string& path, bool follow) {
  const UniqueFd folder = OpenFolder(path, follow);
  std::optional<int64_t> newest;
  struct stat info {};
  for (const char* name : kMarks) {
    if (folder.ok() && Regular(folder.get(), name, &info)) newest = std::max(newest.value_or(0), ModifiedNs(info));
  }
  return newest;
}

absl::StatusOr<UniqueFd> OpenIn(int folder, const char* name) {
  UniqueFd file(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.ok()) return absl::NotFoundError(absl::StrCat(name, ": ", strerror(errno)));
  return file;
}

absl::StatusOr<std::string> ReadIn(int folder, const char* name, size_t limit) {
  const absl::StatusOr<UniqueFd> file = OpenIn(folder, name);
  if (!file.ok()) return file.status();
  return ReadWholeFile(file->get(), name, limit);
}

json ReadJson(int folder, const char* name, size_t limit) {
  const absl::StatusOr<std::string> text = ReadIn(folder, name, limit);
  return text.ok() ? ParseJson(*text) : json();
}

// Returns the hosts of the first finding's culprits.
std::string Hosts(const json& finding) {
  std::set<std::string> hosts;
  std::string first;
  for (const json& culprit : JsonList(finding, "culprits")) {
    const std::string host = Printable(JsonText(culprit, "host"), 60);
    if (host.empty()) continue;
    if (hosts.empty()) first = host;
    hosts.insert(host);
  }
  return hosts.size() > 1 ? absl::StrCat(first, ", ", hosts.size() - 1, " more") : first;
}

void FillRow(int folder, Listed* row) {
  const json verdict = ReadJson(folder, "verdict.json", kMostVerdictBytes),
             manifest = ReadJson(folder, "manifest.json", kMostManifestBytes);
  row->verdict = Printable(JsonText(verdict, "verdict"), 40);
  row->job = Printable(JsonText(verdict, "job"), 100);
  if (row->job.empty()) row->job = Printable(JsonText(manifest, "job"), 100);
  const int64_t read = JsonInteger(verdict, "ranks_read");
  row->expected = std::max(JsonInteger(verdict, "ranks_expected"), read);
  row->read = std::max<int64_t>(read - JsonInteger(verdict, "ranks_only_ended"), 0);
  const json& findings = JsonList(verdict, "findings");
  if (!findings.empty()) {
    row->sentence = Printable(JsonText(findings[0], "headline"), 300);
    row->host = Hosts(findings[0]);
  } else if (verdict.is_object()) {
    row->sentence = "no finding";
  } else {
    row->sentence = "verdict.json is missing or unreadable";
  }
  row->at_ns = JsonInteger(verdict, "captured_real_ns");
  if (row->at_ns <= 0) row->at_ns = JsonInteger(manifest, "captured_real_ns");
}

void SortNewestFirst(std::vector<Listed>* incidents) {
  std::sort(incidents->begin(), incidents->end(), [](const Listed& a, const Listed& b) {
    return std::tie(b.at_ns, a.name, a.id) < std::tie(a.at_ns, b.name, b.id);
  });
}

// Returns whether the file is hidden, notes, or created from the others.
bool IsDerived(const std::string& name) {
  return name == "index.lsi" || name == "report.html" || name == "explore.html" || absl::StartsWith(name, "verdict.") ||
         absl::StartsWith(name, ".") || absl::EndsWith(name, ".notes.json");
}

}  // namespace

absl::StatusOr<UniqueFd> OpenFileOf(const Listed& incident, const char* name) {
  const UniqueFd folder = OpenFolder(incident.path, incident.named);
  if (!folder.ok()) return absl::NotFoundError("the folder is gone");
  return OpenIn(folder.get(), name);
}

absl::StatusOr<std::string> ReadFileOf(const Listed& incident, const char* name, size_t limit) {
  const UniqueFd folder = OpenFolder(incident.path, incident.named);
  if (!folder.ok()) return absl::NotFoundError("the folder is gone");
  return ReadIn(folder.get(), name, limit);
}

int64_t NewestDataNs(const Listed& incident) {
  const UniqueFd folder = OpenFolder(incident.path, incident.named);
  int64_t newest = 0;
  if (!folder.ok()) return newest;
  for (const std::string& name : NamesIn(folder.get(), kMostNames)) {
    struct stat info {};
    if (IsDerived(name) || fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    newest = std::max(newest, ModifiedNs(info));
  }
  return newest;
}

int64_t WrittenNs(const Listed& incident, const char* name) {
  const UniqueFd folder = OpenFolder(incident.path, incident.named);
  struct stat info {};
  return folder.ok() && Regular(folder.get(), name, &info) ? ModifiedNs(info) : 0;
}

Listing::Listing(std::vector<std::string> folders, std::string secret)
    : folders_(std::move(folders)), secret_(std::move(secret)) {}

absl::Status Listing::Check() const {
  for (const std::string& path : folders_) {
    if (!OpenFolder(path, true).ok())
      return absl::NotFoundError(absl::StrCat(Printable(path, 300), ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

std::vector<Listed> Listing::Folders() const {
  std::vector<Listed> found;
  const auto add = [&](std::string path, bool named) {
    const std::optional<int64_t> written_ns = IncidentNs(path, named);
    if (!written_ns) return false;
    Listed incident;
    incident.at_ns = *written_ns;
    unsigned char id[16];
    crypto_generichash(id, sizeof id, reinterpret_cast<const unsigned char*>(path.data()), path.size(),
                       reinterpret_cast<const unsigned char*>(secret_.data()), secret_.size());
    incident.id = absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(id), sizeof id)).substr(0, 16);
    std::string plain = path;
    while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
    incident.name = Printable(plain.substr(plain.rfind('/') + 1), 200);
    incident.path = std::move(path);
    incident.named = named;
    found.push_back(std::move(incident));
    return true;
  };
  for (const std::string& path : folders_) {
    if (add(path, true)) continue;
    for (const std::string& name : NamesIn(path, kMostNames)) {
      if (absl::StartsWith(name, ".")) continue;
      add(absl::StrCat(path, absl::EndsWith(path, "/") ? "" : "/", name), false);
    }
  }
  SortNewestFirst(&found);
  if (found.size() > kMostListed) found.resize(kMostListed);
  return found;
}

void Listing::Fill(Listed* incident) {
  const UniqueFd folder = OpenFolder(incident->path, incident->named);
  if (!folder.ok()) return;
  struct stat info {};
  std::string version;
  int64_t newest = 0;
  for (const char* name : kMarks) {
    if (!Regular(folder.get(), name, &info)) continue;
    newest = std::max(newest, ModifiedNs(info));
    absl::StrAppend(&version, name, " ", info.st_ino, " ", info.st_size, " ", ModifiedNs(info), " ");
  }
  Known& known = known_[incident->path];
  if (known.version != version) {
    known.version = version;
    known.row = {};
    FillRow(folder.get(), &known.row);
    if (known.row.at_ns <= 0) known.row.at_ns = newest;
  }
  Listed row = known.row;
  row.id = std::move(incident->id);
  row.path = std::move(incident->path);
  row.name = std::move(incident->name);
  row.named = incident->named;
  row.gathering = Regular(folder.get(), ".gathering.json", &info);
  *incident = std::move(row);
}

std::vector<Listed> Listing::All() {
  std::vector<Listed> found = Folders();
  const std::lock_guard lock(mutex_);
  std::set<std::string> paths;
  for (Listed& incident : found) {
    paths.insert(incident.path);
    Fill(&incident);
  }
  std::erase_if(known_, [&](const auto& known) { return paths.count(known.first) == 0; });
  SortNewestFirst(&found);
  return found;
}

absl::StatusOr<Listed> Listing::Find(std::string_view id) {
  for (Listed& incident : All()) {
    if (incident.id == id) return std::move(incident);
  }
  return absl::NotFoundError("there is no such incident");
}

}  // namespace lockstep::serve
