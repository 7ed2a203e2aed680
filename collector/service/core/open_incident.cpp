#include "collector/service/core/open_incident.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/calibration/confidence.h"
#include "analyzer/engine/replay/conclude.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/report/before.h"
#include "analyzer/report/report.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/small_file.h"
#include "collector/incident/incident.h"

namespace lockstep {
namespace {

constexpr char kStateFile[] = "/.gathering.json";
constexpr char kUnfinishedState[] = ".lockstep.gathering.";  // starts with kUnfinishedPrefix
constexpr char kFinalFile[] = "/.verdict.pb";
constexpr char kToldFile[] = "/.told";
constexpr char kDigestsFile[] = "digests.lsd";
constexpr size_t kMostStateBytes = 64u << 20;
constexpr size_t kMostNamed = 4096;  // maximum number of ranks or hosts in a manifest

using Json = nlohmann::ordered_json;

absl::StatusOr<std::string> Read(const std::string& folder, const char* name) {
  return ReadWholeFile(folder + name, kMostStateBytes, Links::kRefuse);
}

Json RanksJson(const Ranks& ranks) {
  Json list = Json::array();
  for (const Ranks::Run& run : ranks.runs()) list.push_back({run.first, run.last});
  return list;
}

std::string Dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

void PutJob(const JobIdentity& job, Json* json) {
  (*json)["job"] = job.job();
  (*json)["step"] = job.step();
  (*json)["restart_count"] = job.restart_count();
  (*json)["uid"] = job.uid();
}

JobIdentity GetJob(const nlohmann::json& json) {
  JobIdentity job;
  job.set_job(JsonText(json, "job"));
  job.set_step(JsonText(json, "step"));
  job.set_restart_count(JsonInteger<uint32_t>(json, "restart_count"));
  job.set_uid(JsonInteger<uint32_t>(json, "uid"));
  return job;
}

struct PutField {
  Json* json;

  template <typename T>
  void operator()(const char* name, const T& value) const {
    (*json)[name] = value;
  }
  void operator()(const char* name, const std::map<std::string, Ranks>& hosts) const {
    Json& list = (*json)[name] = Json::array();
    for (const auto& [host, ranks] : hosts) list.push_back({{"host", host}, {"ranks", RanksJson(ranks)}});
  }
};

struct GetField {
  const nlohmann::json& json;

  void operator()(const char* name, std::string& text) const { text = JsonText(json, name); }
  void operator()(const char* name, bool& flag) const { flag = JsonFlag(json, name); }
  template <typename T>
  void operator()(const char* name, T& number) const {
    number = JsonInteger<T>(json, name);
  }
  template <typename T>
  void operator()(const char* name, std::vector<T>& numbers) const {
    for (const nlohmann::json& number : JsonList(json, name)) {
      if (number.is_number_integer()) numbers.push_back(number.get<T>());
    }
  }
  void operator()(const char* name, std::map<std::string, Ranks>& hosts) const {
    for (const nlohmann::json& entry : JsonList(json, name)) {
      const std::string host = JsonText(entry, "host");
      if (host.empty()) continue;
      Ranks& ranks = hosts[host];
      for (const nlohmann::json& run : JsonList(entry, "ranks")) {
        if (run.is_array() && run.size() == 2 && run[0].is_number_integer() && run[1].is_number_integer())
          ranks.AddRun(run[0].get<int32_t>(), run[1].get<int32_t>());
      }
    }
  }
};

// Calls `field` with the name and a reference for every stored field, except the job.
template <typename State, typename Field>
void ForEachField(State& state, const Field& field) {
  field("name", state.name);
  field("evidence_request", state.evidence_request);
  field("everything_request", state.everything_request);
  field("everything", state.everything);
  field("stalled_ns", state.stalled_ns);
  field("ranks_expected", state.ranks_expected);
  field("captured_real_ns", state.captured_real_ns);
  field("declared", state.declared);
  field("evidence_done", state.evidence_done);
  field("job_name", state.job_name);
  field("communicators", state.comms);
  field("hosts", state.hosts);
  field("evidence", state.evidence);
  field("merged", state.merged);
}

template <typename Facts, typename Field>
void ForEachDesyncField(Facts& desync, const Field& field) {
  field("text", desync.text);
  field("communicator", desync.comm);
  field("name", desync.comm_name);
  field("size", desync.size);
  field("sequence", desync.seq);
  field("ranks", desync.odd);
  field("confirmed", desync.confirmed);
  field("where", desync.where);
}

}  // namespace

std::string ToldMark(const std::string& folder) { return folder + kToldFile; }

std::string StateText(const IncidentState& state) {
  Json json;
  json["format"] = 1;
  PutJob(state.identity, &json["job"]);
  ForEachField(state, PutField{&json});
  if (!state.desync.text.empty()) ForEachDesyncField(state.desync, PutField{&json["desync"]});
  return Dump(json);
}

absl::StatusOr<IncidentState> ParseState(const std::string& text) {
  const nlohmann::json json = ParseJson(text);
  if (!json.is_object() || JsonInteger(json, "format") != 1)
    return absl::InvalidArgumentError("no state of an incident");
  IncidentState state;
  state.identity = GetJob(JsonMember(json, "job"));
  ForEachField(state, GetField{json});
  ForEachDesyncField(state.desync, GetField{JsonMember(json, "desync")});
  return state;
}

namespace {

// Removes an unfinished state, and then the folder if it is empty. The state is the first file, so a process that was
// killed while it wrote the state stored nothing else. Other folders may belong to a job that another program is
// watching.
void RemoveIfBegun(const std::string& folder) {
  bool begun = false;
  for (const std::string& name : NamesIn(folder)) {
    if (name.starts_with(kUnfinishedState)) begun |= unlink(absl::StrCat(folder, "/", name).c_str()) == 0;
  }
  if (begun) rmdir(folder.c_str());  // fails if the folder contains anything else
}

}  // namespace

std::vector<IncidentState> FindUnfinished(const std::string& out, std::vector<std::string>* problems) {
  std::vector<IncidentState> found;
  for (const std::string& name : NamesIn(out)) {
    if (!absl::StartsWith(name, "lockstep-incident-")) continue;
    const std::string folder = absl::StrCat(out, "/", name);
    const absl::StatusOr<std::string> text = Read(folder, kStateFile);
    if (absl::IsNotFound(text.status())) {
      RemoveIfBegun(folder);
      continue;
    }
    absl::StatusOr<IncidentState> state = text.ok() ? ParseState(*text) : text.status();
    if (!state.ok()) {
      problems->push_back(absl::StrCat(folder, " cannot be resumed: ", state.status().message()));
      continue;
    }
    state->name = name;
    state->folder = folder;
    found.push_back(std::move(*state));
  }
  std::sort(found.begin(), found.end(), [](const IncidentState& a, const IncidentState& b) { return a.name < b.name; });
  return found;
}

bool DeclaredBefore::Is(const Verdict& verdict, int64_t since_real_ns) const {
  if (!known || since_real_ns <= captured_real_ns) return true;
  if (verdict.findings().empty()) return kind.empty();
  const Finding& finding = verdict.findings(0);
  return kind == FindingKind_Name(finding.kind()) && communicator == finding.communicator().id() &&
         sequence == finding.sequence() &&
         std::equal(culprits.begin(), culprits.end(), finding.culprit_ranks().begin(), finding.culprit_ranks().end());
}

std::vector<DeclaredBefore> FindDeclared(const std::string& out) {
  constexpr size_t kMost = 256;
  std::vector<std::pair<int64_t, std::string>> folders;  // sorted by the time of their last write
  for (const std::string& name : NamesIn(out)) {
    const std::string folder = absl::StrCat(out, "/", name);
    struct stat info {};
    if (!absl::StartsWith(name, "lockstep-incident-") || lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
      continue;
    folders.emplace_back(info.st_mtime, folder);
  }
  std::sort(folders.rbegin(), folders.rend());
  if (folders.size() > kMost) folders.resize(kMost);
  std::vector<DeclaredBefore> found;
  for (const auto& [when, folder] : folders) {
    DeclaredBefore before;
    before.folder = folder;
    const absl::StatusOr<std::string> state = Read(folder, kStateFile);
    const absl::StatusOr<std::string> manifest = Read(folder, "/manifest.json");
    bool declared = false;
    if (const absl::StatusOr<IncidentState> open = state.ok() ? ParseState(*state) : state.status(); open.ok()) {
      before.identity = open->identity;
      before.captured_real_ns = open->captured_real_ns;
      if (!open->desync.text.empty()) before.desync_comm = open->desync.comm;
      declared = open->declared;
    } else if (manifest.ok()) {
      const nlohmann::json json = ParseJson(*manifest);
      if (!json.is_object()) continue;
      before.identity = GetJob(json);
      before.captured_real_ns = JsonInteger(json, "captured_real_ns");
      before.desync_comm = JsonInteger<uint64_t>(json, "desync_communicator");
      declared = JsonFlag(json, "declared");
    }
    if (!declared && before.desync_comm == 0) continue;
    const absl::StatusOr<std::string> verdict = Read(folder, "/verdict.json");
    const nlohmann::json json = verdict.ok() ? ParseJson(*verdict) : nlohmann::json();
    if (json.is_object()) {
      before.known = true;
      const nlohmann::json& findings = JsonList(json, "findings");
      const nlohmann::json& first = findings.empty() ? findings : findings[0];
      before.kind = JsonText(first, "kind");
      before.sequence = JsonInteger(first, "sequence");
      before.communicator = JsonText(JsonMember(first, "communicator"), "id");
      for (const nlohmann::json& rank : JsonList(first, "culprit_ranks")) {
        if (rank.is_number_integer()) before.culprits.push_back(rank.get<int32_t>());
      }
    }
    found.push_back(std::move(before));
  }
  return found;
}

VerdictTexts ReadVerdictTexts(const std::string& folder) {
  return {Read(folder, "/verdict.txt").value_or(""), Read(folder, "/verdict.json").value_or("")};
}

absl::StatusOr<Bundle> ReadDigests(const std::string& folder) {
  struct stat info {};
  const std::string path = absl::StrCat(folder, "/", kDigestsFile);
  if (stat(path.c_str(), &info) != 0) return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  return LoadPaths({path});
}

absl::Status MakeIncidentFolder(const std::string& folder) {
  if (const size_t slash = folder.rfind('/'); slash != std::string::npos && slash > 0)
    MakeFolder(folder.substr(0, slash)).IgnoreError();  // if this fails, mkdir fails, too
  if (mkdir(folder.c_str(), 0700) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

namespace {

std::string ManifestText(const IncidentState& state, bool is_final, const std::vector<std::string>& missing) {
  Json json;
  json["format"] = 1;
  json["tool_version"] = LOCKSTEP_VERSION;
  PutJob(state.identity, &json);
  json["declared"] = state.declared;
  json["ranks_expected"] = state.ranks_expected;
  json["known_stalled"] = state.stalled_ns > 0;
  json["stalled_ns"] = state.stalled_ns;
  json["captured_real_ns"] = state.captured_real_ns;
  json["whole"] = is_final && missing.empty();
  if (!state.desync.text.empty()) json["desync_communicator"] = state.desync.comm;
  if (!state.redacted.empty()) json["redacted"] = state.redacted;
  json["nodes"] = Json::array();
  for (const auto& [host, ranks] : state.hosts) {
    if (host.empty()) continue;
    Json node = {{"host", host}, {"file", DumpFileName(host)}, {"ranks", ranks.List(kMostNamed)}};
    json["nodes"].push_back(std::move(node));
  }
  json["missing"] = std::vector<std::string>(
      missing.begin(), missing.begin() + static_cast<ptrdiff_t>(std::min(missing.size(), kMostNamed)));
  return Dump(json);
}

}  // namespace

absl::Status WriteState(const IncidentState& state) {
  AtomicFile file(state.folder + kStateFile, kUnfinishedState);
  const absl::Status status = file.Append(StateText(state));
  return status.ok() ? file.Commit() : status;
}

absl::Status WriteVerdictFiles(const IncidentState& state, const std::string& text, const std::string& json,
                               bool is_final, const std::vector<std::string>& missing) {
  // Writes the state first, because an incident with a state is always completed.
  absl::Status result = is_final ? absl::OkStatus() : WriteState(state);
  result.Update(WriteFileSafely(state.folder + "/verdict.txt", text));
  result.Update(WriteFileSafely(state.folder + "/verdict.json", json));
  result.Update(WriteFileSafely(state.folder + "/manifest.json", ManifestText(state, is_final, missing)));
  return result;
}

absl::Status WriteStacks(const std::string& folder, const StackTree& tree, const Ranks& looked_at,
                         const std::vector<std::string>& refused) {
  const StackTreeMessage message = tree.ToMessage();
  Json json;
  json["format"] = 1;
  json["ranks"] = RanksJson(looked_at);
  json["left_out"] = RanksJson(tree.left_out());
  json["refused"] = refused;
  json["nodes"] = Json::array();
  int run = 0;
  for (int i = 0; i < message.parent_size(); ++i) {
    Json ranks = Json::array();
    for (uint32_t end = static_cast<uint32_t>(run) + message.runs(i); static_cast<uint32_t>(run) < end; ++run) {
      ranks.push_back({message.first(run), message.last(run)});
    }
    json["nodes"].push_back({{"parent", message.parent(i)},
                             {"frame", i == 0 ? "" : message.texts(static_cast<int>(message.text(i)))},
                             {"ranks", ranks}});
  }
  return WriteFileSafely(folder + "/stacks.json", Dump(json));
}

absl::Status WriteDigests(const IncidentState& state, const Bundle& bundle, bool evidence_alone) {
  DumpHeader header;
  header.set_tool_version(LOCKSTEP_VERSION);
  header.set_job(state.identity.job());
  header.set_step(state.identity.step());
  header.set_restart_count(state.identity.restart_count());
  header.set_captured_real_ns(state.captured_real_ns);
  header.set_ranks_expected(bundle.ranks_expected);
  std::vector<size_t> all;
  for (size_t i = 0; i < bundle.ranks.size(); ++i) {
    if (!evidence_alone || bundle.ranks[i].process.evidence != nullptr) all.push_back(i);
  }
  if (all.empty() && evidence_alone) return absl::OkStatus();
  return WriteLsd(bundle, all, header, absl::StrCat(state.folder, "/", kDigestsFile));
}

namespace {

// Returns the index of a more exact finding: same communicator, no later call, fewer of the same ranks, no hypothesis.
// Returns -1 if there is none.
int CloserFinding(const DesyncFacts& desync, const std::string& id, const Verdict& verdict) {
  for (int i = 0; i < verdict.findings_size(); ++i) {
    const Finding& finding = verdict.findings(i);
    const auto& ranks = finding.culprit_ranks();
    if (finding.communicator().id() == id && !finding.hypothesis() && !ranks.empty() &&
        static_cast<size_t>(ranks.size()) < desync.odd.size() &&
        finding.sequence() <= static_cast<int64_t>(desync.seq) &&
        std::all_of(ranks.begin(), ranks.end(),
                    [&](int32_t rank) { return std::binary_search(desync.odd.begin(), desync.odd.end(), rank); })) {
      return i;
    }
  }
  return -1;
}

void MakeFirst(int finding, Verdict* verdict) {
  for (int i = finding; i > 0; --i) verdict->mutable_findings()->SwapElements(i, i - 1);
}

}  // namespace

void AddDesync(const DesyncFacts& desync, Verdict* verdict) {
  if (desync.text.empty()) return;
  for (const Finding& finding : verdict->findings()) {
    if (finding.kind() == SILENT_DESYNC) return;
  }
  const std::string id = absl::StrCat(absl::Hex(desync.comm, absl::kZeroPad16));
  if (verdict->verdict() != VERDICT_HUNG && verdict->verdict() != VERDICT_CRASHED) verdict->set_verdict(VERDICT_DESYNC);
  if (const int closer = CloserFinding(desync, id, *verdict); closer >= 0) {
    // The finding contains more information than the hashes.
    verdict->mutable_findings(closer)->add_evidence()->set_text(desync.where);
    return MakeFirst(closer, verdict);
  }
  Finding& first = *verdict->add_findings();
  first.set_kind(SILENT_DESYNC);
  for (const int32_t rank : desync.odd) {
    first.add_culprit_ranks(rank);
    first.add_culprits()->set_rank(rank);
  }
  first.mutable_communicator()->set_id(id);
  first.mutable_communicator()->set_name(desync.comm_name);
  first.mutable_communicator()->set_size(desync.size);
  first.set_sequence(static_cast<int64_t>(desync.seq));
  first.set_grade(desync.confirmed ? GRADE_STRONG : GRADE_WEAK);
  first.set_confidence(ConfidenceOf(first.grade(), REASON_HASHES_DIFFER, desync.odd.size() > 1, /*framework=*/false));
  first.set_summary(desync.text);
  first.set_advice(
      "compare what these ranks' code did between the two collectives; the job continues, but its results may be "
      "wrong");
  first.add_advice_steps(first.advice());
  MakeFirst(verdict->findings_size() - 1, verdict);
}

absl::Status FinaliseFolder(const std::string& folder) {
  const absl::StatusOr<std::string> text = Read(folder, kStateFile);
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
    if (host.empty()) continue;  // the names of hosts behind relays are still unknown
    struct stat info {};
    Ranks unknown = ranks;
    unknown.Subtract(known);
    if (!unknown.empty()) {
      missing.push_back(host);
      bundle->problems.push_back(
          {.text =
               absl::StrCat("the agent of ", host, " sent nothing: nothing is known about its ranks ", unknown.Text()),
           .like = "agent gave nothing"});
      continue;
    }
    if (!state->everything || stat(absl::StrCat(folder, "/", DumpFileName(host)).c_str(), &info) == 0) continue;
    missing.push_back(host);
    bundle->problems.push_back(
        {.text = absl::StrCat("full rings from ", host, " did not arrive: only digests exist for ranks ", ranks.Text()),
         .like = "digests only"});
  }
  // For a desync, only the rings of a few ranks were requested, so missing data of the others proves nothing.
  if (!state->desync.text.empty()) bundle->ranks_expected = static_cast<int32_t>(bundle->ranks.size());
  state->redacted = RedactionOf(*bundle);
  Verdict verdict = replay::Conclude(*bundle);
  AddDesync(state->desync, &verdict);
  Incident incident;
  *incident.mutable_job() = state->identity;
  incident.set_path(folder);
  *incident.mutable_verdict() = verdict;
  incident.set_text(VerdictText(verdict, *bundle));
  incident.set_whole(missing.empty());
  const MergedStacks stacks = StacksOf(folder);
  absl::Status result = WriteFileSafely(folder + "/report.html", ReportHtml(verdict, *bundle, &stacks));
  result.Update(WriteVerdictFiles(*state, ReportText(verdict, *bundle), ReportJson(verdict), true, missing));
  // All files are written, so no user waits for the archive. Its answer, if one arrives, is added to the files.
  const Before before = AskBefore(ArchiveFromEnvironment(), verdict, state->captured_real_ns);
  if (!before.empty()) {
    incident.set_text(VerdictText(verdict, *bundle, before));
    result.Update(WriteFileSafely(folder + "/report.html", ReportHtml(verdict, *bundle, &stacks, before)));
    result.Update(
        WriteVerdictFiles(*state, ReportText(verdict, *bundle, before), ReportJson(verdict, before), true, missing));
  }
  if (result.ok()) result = WriteFileSafely(folder + kFinalFile, incident.SerializeAsString());
  // If this runs out of memory, the collector already has its answer.
  if (result.ok()) WriteExplorePage(folder, *bundle, verdict, stacks, true);
  return result;
}

absl::Status ReadFinal(const std::string& folder, Incident* incident) {
  const absl::StatusOr<std::string> bytes = Read(folder, kFinalFile);
  if (!bytes.ok()) return bytes.status();
  if (!incident->ParseFromString(*bytes)) return absl::DataLossError(absl::StrCat(folder, kFinalFile, " is damaged"));
  unlink((folder + kFinalFile).c_str());
  // From here on, no process resumes the incident.
  if (unlink((folder + kStateFile).c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot remove ", folder, kStateFile, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
