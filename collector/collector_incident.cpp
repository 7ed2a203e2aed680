#include "collector/collector_incident.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine.h"
#include "analyzer/load.h"
#include "analyzer/lsd_writer.h"
#include "analyzer/report.h"
#include "collector/incident.h"

namespace lockstep {
namespace {

constexpr char kStateFile[] = "/.gathering.json";
constexpr char kFinalFile[] = "/.verdict.pb";
constexpr char kDigestsFile[] = "digests.lsd";
constexpr size_t kMostStateBytes = 64u << 20;
constexpr size_t kMostNamed = 4096;  // ranks or hosts in a manifest

using Json = nlohmann::ordered_json;

absl::StatusOr<std::string> ReadSmall(const std::string& path, size_t most) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const absl::string_view why = strerror(errno);
    return errno == ENOENT ? absl::NotFoundError(absl::StrCat(path, ": ", why)) : absl::UnavailableError(absl::StrCat(path, ": ", why));
  }
  std::string text;
  char buffer[65536];
  ssize_t n = 0;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 && text.size() <= most) text.append(buffer, static_cast<size_t>(n));
  close(fd);
  if (n < 0 || text.size() > most) return absl::UnavailableError(absl::StrCat(path, " cannot be read, or is too large"));
  return text;
}

Json RanksJson(const Ranks& ranks) {
  Json list = Json::array();
  for (const Ranks::Run& run : ranks.runs()) list.push_back({run.first, run.last});
  return list;
}

std::string Dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

template <class T>
T Number(const nlohmann::json& json, const char* name, T otherwise) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_integer() ? found->get<T>() : otherwise;
}

std::string Text(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string StateText(const IncidentState& state) {
  Json json;
  json["format"] = 1;
  json["name"] = state.name;
  json["job"]["job"] = state.identity.job();
  json["job"]["step"] = state.identity.step();
  json["job"]["restart_count"] = state.identity.restart_count();
  json["job"]["uid"] = state.identity.uid();
  json["evidence_request"] = state.evidence_request;
  json["everything_request"] = state.everything_request;
  json["everything"] = state.everything;
  json["stalled_ns"] = state.stalled_ns;
  json["ranks_expected"] = state.ranks_expected;
  json["captured_real_ns"] = state.captured_real_ns;
  json["hosts"] = Json::array();
  for (const auto& [host, ranks] : state.hosts) json["hosts"].push_back({{"host", host}, {"ranks", RanksJson(ranks)}});
  return Dump(json);
}

absl::StatusOr<IncidentState> ParseState(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || Number<int>(json, "format", 0) != 1) return absl::InvalidArgumentError("no state of an incident");
  IncidentState state;
  state.name = Text(json, "name");
  if (const auto job = json.find("job"); job != json.end() && job->is_object()) {
    state.identity.set_job(Text(*job, "job"));
    state.identity.set_step(Text(*job, "step"));
    state.identity.set_restart_count(Number<uint32_t>(*job, "restart_count", 0));
    state.identity.set_uid(Number<uint32_t>(*job, "uid", 0));
  }
  state.evidence_request = Number<uint64_t>(json, "evidence_request", 0);
  state.everything_request = Number<uint64_t>(json, "everything_request", 0);
  if (const auto all = json.find("everything"); all != json.end() && all->is_boolean()) state.everything = all->get<bool>();
  state.stalled_ns = Number<int64_t>(json, "stalled_ns", 0);
  state.ranks_expected = Number<int32_t>(json, "ranks_expected", 0);
  state.captured_real_ns = Number<int64_t>(json, "captured_real_ns", 0);
  if (const auto hosts = json.find("hosts"); hosts != json.end() && hosts->is_array()) {
    for (const nlohmann::json& entry : *hosts) {
      if (!entry.is_object() || Text(entry, "host").empty()) continue;
      Ranks& ranks = state.hosts[Text(entry, "host")];
      const auto runs = entry.find("ranks");
      if (runs == entry.end() || !runs->is_array()) continue;
      for (const nlohmann::json& run : *runs) {
        if (run.is_array() && run.size() == 2 && run[0].is_number_integer() && run[1].is_number_integer()) {
          ranks.AddRun(run[0].get<int32_t>(), run[1].get<int32_t>());
        }
      }
    }
  }
  return state;
}

std::vector<IncidentState> FindUnfinished(const std::string& out, std::vector<std::string>* problems) {
  std::vector<IncidentState> found;
  DIR* dir = opendir(out.c_str());
  if (dir == nullptr) return found;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (!absl::StartsWith(name, "lockstep-incident-")) continue;
    const std::string folder = absl::StrCat(out, "/", name);
    const absl::StatusOr<std::string> text = ReadSmall(folder + kStateFile, kMostStateBytes);
    if (absl::IsNotFound(text.status())) continue;
    absl::StatusOr<IncidentState> state = text.ok() ? ParseState(*text) : text.status();
    if (!state.ok()) {
      problems->push_back(absl::StrCat(folder, " cannot be taken up again: ", state.status().message()));
      continue;
    }
    state->name = name;
    state->folder = folder;
    found.push_back(std::move(*state));
  }
  closedir(dir);
  std::sort(found.begin(), found.end(), [](const IncidentState& a, const IncidentState& b) { return a.name < b.name; });
  return found;
}

absl::Status MakeIncidentFolder(const std::string& folder) {
  for (size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1)) {
    mkdir(folder.substr(0, slash).c_str(), 0777);
  }
  if (mkdir(folder.c_str(), 0700) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

namespace {

std::string ManifestText(const IncidentState& state, bool whole, const std::vector<std::string>& missing) {
  Json json;
  json["format"] = 1;
  json["tool_version"] = LOCKSTEP_VERSION;
  json["job"] = state.identity.job();
  json["step"] = state.identity.step();
  json["restart_count"] = state.identity.restart_count();
  json["ranks_expected"] = state.ranks_expected;
  json["known_stalled"] = state.stalled_ns > 0;
  json["stalled_ns"] = state.stalled_ns;
  json["captured_real_ns"] = state.captured_real_ns;
  json["whole"] = whole && missing.empty();
  json["nodes"] = Json::array();
  for (const auto& [host, ranks] : state.hosts) {
    Json node = {{"host", host}, {"file", DumpFileName(host)}, {"ranks", ranks.List(kMostNamed)}};
    json["nodes"].push_back(std::move(node));
  }
  json["missing"] = std::vector<std::string>(missing.begin(), missing.begin() + static_cast<ptrdiff_t>(std::min(missing.size(), kMostNamed)));
  return Dump(json);
}

}  // namespace

absl::Status WriteVerdictFiles(const IncidentState& state, const std::string& text, const std::string& json, bool whole,
                               const std::vector<std::string>& missing) {
  // The state first: what has it will be finished, whatever happens.
  absl::Status result = whole ? absl::OkStatus() : WriteFileSafely(state.folder + kStateFile, StateText(state));
  result.Update(WriteFileSafely(state.folder + "/verdict.txt", text));
  result.Update(WriteFileSafely(state.folder + "/verdict.json", json));
  result.Update(WriteFileSafely(state.folder + "/manifest.json", ManifestText(state, whole, missing)));
  return result;
}

absl::Status WriteDigests(const IncidentState& state, const Bundle& bundle) {
  DumpHeader header;
  header.set_tool_version(LOCKSTEP_VERSION);
  header.set_job(state.identity.job());
  header.set_step(state.identity.step());
  header.set_restart_count(state.identity.restart_count());
  header.set_captured_real_ns(state.captured_real_ns);
  header.set_ranks_expected(bundle.ranks_expected);
  std::vector<size_t> all(bundle.ranks.size());
  std::iota(all.begin(), all.end(), 0);
  return WriteLsd(bundle, all, header, absl::StrCat(state.folder, "/", kDigestsFile));
}

absl::Status FinaliseFolder(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadSmall(folder + kStateFile, kMostStateBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<IncidentState> state = ParseState(*text);
  if (!state.ok()) return state.status();
  state->folder = folder;
  const size_t slash = folder.rfind('/');
  state->name = slash == std::string::npos ? folder : folder.substr(slash + 1);
  absl::StatusOr<Bundle> bundle = LoadPaths({folder});
  if (!bundle.ok()) return bundle.status();
  std::vector<std::string> missing;
  Ranks known;
  for (const Rank& rank : bundle->ranks) known.Add(rank.rank);
  for (const auto& [host, ranks] : state->hosts) {
    struct stat info {};
    Ranks unknown = ranks;
    unknown.Subtract(known);
    if (!unknown.empty()) {
      missing.push_back(host);
      Problem problem;
      problem.text = absl::StrCat("the agent of ", host, " gave nothing: nothing is known of its ranks ", unknown.Text());
      bundle->problems.push_back(std::move(problem));
      continue;
    }
    if (!state->everything || stat(absl::StrCat(folder, "/", DumpFileName(host)).c_str(), &info) == 0) continue;
    missing.push_back(host);
    Problem problem;
    problem.text = absl::StrCat("whole rings of ", host, " did not come: of ranks ", ranks.Text(), " only digests are there");
    bundle->problems.push_back(std::move(problem));
  }
  const Verdict verdict = Analyze(*bundle);
  Incident incident;
  *incident.mutable_job() = state->identity;
  incident.set_path(folder);
  *incident.mutable_verdict() = verdict;
  incident.set_text(ReportText(verdict, *bundle));
  incident.set_whole(missing.empty());
  absl::Status result = WriteFileSafely(folder + "/report.html", ReportHtml(verdict, *bundle));
  result.Update(WriteVerdictFiles(*state, incident.text(), ReportJson(verdict), true, missing));
  result.Update(WriteFileSafely(folder + kFinalFile, incident.SerializeAsString()));
  return result;
}

absl::Status ReadFinal(const std::string& folder, Incident* incident) {
  const absl::StatusOr<std::string> bytes = ReadSmall(folder + kFinalFile, kMostStateBytes);
  if (!bytes.ok()) return bytes.status();
  if (!incident->ParseFromString(*bytes)) return absl::DataLossError(absl::StrCat(folder, kFinalFile, " is damaged"));
  unlink((folder + kFinalFile).c_str());
  // From here on nobody takes it up again.
  if (unlink((folder + kStateFile).c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot remove ", folder, kStateFile, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
