#include "collector/tools/archive/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep::archive {
namespace {

constexpr char kFirst[] = "lockstep-archive-rows 1 ";
constexpr char kEnding[] = ".rows", kTemporary[] = ".new.";
constexpr size_t kMostLine = size_t{1} << 20;
constexpr time_t kStale = 3600;
const char* const kTables[] = {"incidents",  "findings",         "culprits", "creations", "links",
                               "operations", "operation_totals", "speeds",   "job_days"};

bool IsTable(const std::string& name) {
  return std::find(std::begin(kTables), std::end(kTables), name) != std::end(kTables);
}

// FNV-1a, only for file names. The file itself contains the incident's identity.
uint64_t Hash(const std::string& text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

template <typename Seen>
void ForEachFile(const std::string& folder, const Seen& seen) {
  for (const std::string& name : NamesIn(folder)) {
    struct stat info {};
    const std::string path = absl::StrCat(folder, "/", name);
    if (lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) seen(path, info);
  }
}

}  // namespace

absl::StatusOr<Spool> Spool::Open(const std::string& folder, uint64_t most_bytes) {
  Spool spool;
  spool.folder_ = folder;
  spool.most_bytes_ = most_bytes;
  if (!MakeFolder(folder).ok() || access(folder.c_str(), W_OK | X_OK) != 0)
    return absl::UnavailableError(absl::StrCat("the spool ", folder, " is not a writable folder"));
  const time_t now = time(nullptr);
  ForEachFile(folder, [now](const std::string& path, const struct stat& file) {
    if (absl::StrContains(path, absl::StrCat("/", kTemporary)) && now - file.st_mtime > kStale) unlink(path.c_str());
  });
  return spool;
}

std::string Spool::PathOf(const IncidentName& name) const {
  char file[80];
  snprintf(file, sizeof file, "%020lld-%016llx%s", static_cast<long long>(name.real_ns),
           static_cast<unsigned long long>(Hash(name.incident, 0xcbf29ce484222325)), kEnding);
  return absl::StrCat(folder_, "/", file);
}

bool Spool::Has(const IncidentName& name) const { return access(PathOf(name).c_str(), F_OK) == 0; }

std::vector<std::string> Spool::Files() const {
  std::vector<std::string> files;
  ForEachFile(folder_, [&files](const std::string& path, const struct stat&) {
    if (absl::EndsWith(path, kEnding)) files.push_back(path);
  });
  std::sort(files.begin(), files.end());
  return files;
}

void Spool::Remove(const std::string& path) { unlink(path.c_str()); }
void Spool::SetAside(const std::string& path) { rename(path.c_str(), (path + ".bad").c_str()); }

absl::Status Spool::Put(const IncidentName& name, const std::function<absl::Status(const RowSink&)>& make) {
  uint64_t used = 0;
  ForEachFile(folder_,
              [&used](const std::string&, const struct stat& file) { used += static_cast<uint64_t>(file.st_size); });
  const std::string path = PathOf(name);
  AtomicFile file(path, kTemporary);
  const auto write = [&](const std::string& line) {
    used += line.size();
    if (used > most_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat("the spool ", folder_, " is full (", most_bytes_, " bytes)"));
    }
    return file.Append(line);
  };
  absl::Status status = write(absl::StrCat(kFirst, Dump(Json(name.incident)), "\n"));
  if (status.ok()) {
    status = make([&](const std::string& table, const Json& row) {
      const std::string line = absl::StrCat(table, "\t", Dump(row), "\n");
      if (line.size() > kMostLine)
        return absl::InvalidArgumentError(absl::StrCat("a row of ", table, " is longer than ", kMostLine, " bytes"));
      return write(line);
    });
  }
  return status.ok() ? file.Commit() : status;
}

bool SpoolReader::Line(std::string* line) {
  line->clear();
  for (int c = getc(file_.get()); c != EOF; c = getc(file_.get())) {
    if (c == '\n') return true;
    if (line->size() >= kMostLine) return false;
    line->push_back(static_cast<char>(c));
  }
  return false;
}

absl::StatusOr<SpoolReader> SpoolReader::Open(const std::string& path) {
  SpoolReader reader;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok())
    return errno == ENOENT ? absl::NotFoundError(path)
                           : absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  reader.file_.reset(fdopen(fd.get(), "r"));
  if (reader.file_ == nullptr) return absl::InternalError("out of memory");
  fd.release();
  std::string line;
  if (reader.Line(&line) && absl::StartsWith(line, kFirst)) {
    const Json json = ParseJson<Json>(line.substr(sizeof kFirst - 1));
    if (json.is_string()) reader.incident_ = json.get<std::string>();
  }
  if (reader.incident_.empty()) return absl::DataLossError(absl::StrCat(path, " does not start like a spool file"));
  return reader;
}

absl::StatusOr<SpooledBatch> SpoolReader::Next(size_t most_bytes) {
  SpooledBatch batch;
  for (;;) {
    std::string line;
    if (has_held_) {
      line = std::move(held_);
      has_held_ = false;
    } else if (!Line(&line)) {
      if (line.empty() && feof(file_.get()) != 0) return batch;
      return absl::DataLossError("a line in the spool is incomplete");
    }
    const size_t tab = line.find('\t');
    const std::string table = line.substr(0, tab);
    // The server parses the text after the tab as JSON, so here it only has to look like an object.
    if (tab == std::string::npos || !IsTable(table) || line.size() < tab + 3 || line[tab + 1] != '{' ||
        line.back() != '}') {
      return absl::DataLossError("a line in the spool is invalid");
    }
    if (!batch.rows.empty() && (table != batch.table || batch.rows.size() + line.size() > most_bytes)) {
      held_ = std::move(line);
      has_held_ = true;
      return batch;
    }
    batch.table = table;
    batch.rows.append(line, tab + 1);
    batch.rows.push_back('\n');
  }
}

}  // namespace lockstep::archive
