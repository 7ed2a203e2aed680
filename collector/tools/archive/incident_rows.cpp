#include "collector/tools/archive/incident_rows.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/model/pipeline_name.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/tools/archive/operation_rows.h"

namespace lockstep::archive {
namespace {

constexpr size_t kMostVerdict = size_t{256} << 20, kMostManifest = size_t{64} << 20;
constexpr size_t kMostText = 1000, kMostJob = 256;
constexpr size_t kMostFindings = 1000, kMostCulprits = 4096, kMostCulpritRows = 100'000, kMostCreations = 1000,
                 kMostLinks = 1000, kMostSpeeds = 1000;
constexpr size_t kMostNames = 64;

std::string Text(const Json& json, const char* name, size_t most = kMostText) {
  return CleanUtf8(JsonText(json, name), most);
}

int64_t Whole(const Json& json, const char* name, int64_t least, int64_t most, int64_t otherwise) {
  const int64_t value = JsonInteger(json, name, otherwise);
  return value < least || value > most ? otherwise : value;
}

int64_t Count(const Json& json, const char* name) {
  return Whole(json, name, 0, std::numeric_limits<uint32_t>::max(), 0);
}
int64_t Ns(const Json& json, const char* name) { return Whole(json, name, 0, std::numeric_limits<int64_t>::max(), 0); }

double Real(const Json& json, const char* name) {
  const double value = JsonReal(json, name);
  return std::isfinite(value) && std::abs(value) < 1e18 ? value : 0;
}

void AddComm(const Json& from, Json* row) {
  const Json& comm = JsonMember(from, "communicator");
  const std::string name = Text(comm, "name", 200);
  (*row)["comm_id"] = Text(comm, "id", 200);
  (*row)["comm_name"] = name;
  (*row)["comm_class"] = NamePattern(name);
  (*row)["comm_size"] = Count(comm, "size");
}

absl::StatusOr<Json> Parsed(const std::string& path, size_t most) {
  absl::StatusOr<std::string> text = ReadWholeFile(path, most, Links::kRefuse);
  if (!text.ok()) return text.status();
  Json json = ParseJson<Json>(*text);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  return json;
}

// Returns the culprits' hosts, each once, hosts with the most culprits first.
Json HostsOf(const Json& finding) {
  std::vector<std::pair<std::string, int>> hosts;
  size_t looked = 0;
  for (const Json& culprit : JsonList(finding, "culprits")) {
    if (++looked > kMostCulprits) break;
    if (!culprit.is_object()) continue;
    const std::string host = Text(culprit, "host", 256);
    if (host.empty()) continue;
    const auto at = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.first == host; });
    if (at != hosts.end()) {
      ++at->second;
    } else if (hosts.size() < kMostNames) {
      hosts.emplace_back(host, 1);
    }
  }
  std::stable_sort(hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Json names = Json::array();
  for (const auto& [host, count] : hosts) names.push_back(host);
  return names;
}

Json PlacesOf(const Json& finding) {
  Json places = Json::array();
  size_t looked = 0;
  for (const Json& evidence : JsonList(finding, "evidence")) {
    if (++looked > 10'000 || places.size() >= kMostNames) break;
    if (!evidence.is_object()) continue;
    const std::string place = HostRedaction().Frame(Text(evidence, "place"));
    if (!place.empty() && std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  return places;
}

// The rows that come from verdict.json.
class VerdictRows {
 public:
  VerdictRows(const IncidentName& name, const RowSink& sink, std::string* notes)
      : name_(name), sink_(sink), notes_(notes) {}

  absl::Status Findings(const Json& verdict) {
    return ForEach(JsonList(verdict, "findings"), kMostFindings, "findings", [&](const Json& finding, size_t number) {
      Json row = name_.NewRow();
      row["number"] = number;
      for (const char* text : {"kind", "cause", "activity"}) row[text] = Text(finding, text, 64);
      AddComm(finding, &row);
      row["operation"] = Text(finding, "operation", 64);
      row["sequence"] = Whole(finding, "sequence", -1, std::numeric_limits<int64_t>::max(), -1);
      row["victims"] = Count(finding, "victim_count");
      row["culprits"] = JsonList(finding, "culprit_ranks").size();
      row["confidence"] = Real(finding, "confidence");
      row["hypothesis"] = int{JsonFlag(finding, "hypothesis")};
      row["slowdown"] = Real(finding, "slowdown");
      row["cost_ns_per_step"] = Ns(finding, "cost_ns_per_step");
      row["pattern"] = Text(finding, "pattern", 100);
      const Json& common = JsonMember(finding, "common_factor");
      row["common_kind"] = Text(common, "kind", 64);
      row["common_name"] = Text(common, "name", 256);
      row["places"] = PlacesOf(finding);
      row["summary"] = HostRedaction().Text(Text(finding, "summary"));
      if (absl::Status status = sink_("findings", row); !status.ok()) return status;
      return Culprits(finding, number);
    });
  }

  absl::Status Creations(const Json& verdict) {
    const Json& creations = JsonList(JsonMember(verdict, "start_up"), "creations");
    return ForEach(creations, kMostCreations, "creations", [&](const Json& creation, size_t number) {
      Json row = name_.NewRow();
      row["number"] = number;
      AddComm(creation, &row);
      row["call"] = Text(creation, "call", 64);
      for (const char* time : {"begin_ns", "end_ns", "median_ns", "longest_ns", "last_by_ns"})
        row[time] = Ns(creation, time);
      row["last_rank"] = Whole(creation, "last_rank", -1, std::numeric_limits<int32_t>::max(), -1);
      row["members_entered"] = Count(creation, "members_entered");
      row["serial"] = int{JsonFlag(creation, "serial")};
      return sink_("creations", row);
    });
  }

  absl::Status Links(const Json& verdict, const OperationFacts& facts) {
    return ForEach(JsonList(verdict, "bandwidths"), kMostLinks, "bandwidths", [&](const Json& bandwidth, size_t) {
      Json row = name_.NewRow();
      AddComm(bandwidth, &row);
      row["operation"] = Text(bandwidth, "operation", 64);
      row["bytes"] = Ns(bandwidth, "bytes");
      row["operations"] = Ns(bandwidth, "operations");
      for (const char* rate : {"bus_bytes_per_s", "best_bus_bytes_per_s", "peer_bus_bytes_per_s"})
        row[rate] = Real(bandwidth, rate);
      row["clock"] = Text(bandwidth, "clock", 64);
      row["hosts"] = Json::array();
      if (const auto hosts = facts.comm_hosts.find(row["comm_id"].get<std::string>()); hosts != facts.comm_hosts.end())
        row["hosts"] = hosts->second;
      return sink_("links", row);
    });
  }

  absl::Status Speeds(const Json& verdict) {
    return ForEach(JsonList(verdict, "speeds"), kMostSpeeds, "speeds", [&](const Json& speed, size_t) {
      Json row = name_.NewRow();
      row["real_ns"] = name_.real_ns;
      row["operation"] = Text(speed, "operation", 64);
      row["bytes"] = Ns(speed, "bytes");
      row["size_class"] = SizeClass(static_cast<uint64_t>(Ns(speed, "bytes")));
      for (const char* count : {"ranks", "hosts", "communicators"}) row[count] = Count(speed, count);
      row["operations"] = Ns(speed, "operations");
      for (const char* rate : {"bus_bytes_per_s", "low_bus_bytes_per_s", "high_bus_bytes_per_s"})
        row[rate] = Real(speed, rate);
      row["clock"] = Text(speed, "clock", 64);
      return sink_("speeds", row);
    });
  }

  absl::Status Incident(const Json& verdict) {
    Json row = name_.NewRow();
    const Json& findings = JsonList(verdict, "findings");
    const Json none = Json::object();
    const Json& first = !findings.empty() && findings[0].is_object() ? findings[0] : none;
    row["real_ns"] = name_.real_ns;
    row["step"] = name_.step;
    row["restart_count"] = name_.restart_count;
    row["verdict"] = Text(verdict, "verdict", 64);
    for (const char* text : {"kind", "cause", "activity"}) row[text] = Text(first, text, 64);
    row["confidence"] = Real(first, "confidence");
    row["summary"] = HostRedaction().Text(Text(first, "summary"));
    row["findings"] = std::min(findings.size(), kMostFindings);
    row["victims"] = Count(first, "victim_count");
    row["hosts"] = HostsOf(first);
    row["places"] = PlacesOf(first);
    row["ranks_expected"] = Count(verdict, "ranks_expected");
    row["ranks_read"] = Count(verdict, "ranks_read");
    row["stalled_ns"] = Ns(verdict, "stalled_ns");
    const Json& start = JsonMember(verdict, "start_up");
    row["start_up_known"] = Ns(start, "total_ns") > 0 ? 1 : 0;
    row["start_up_ns"] = Ns(start, "total_ns");
    row["start_up_waiting_ns"] = Ns(start, "waiting_ns");
    row["start_up_serial_ns"] = Ns(start, "serial_ns");
    row["communicators"] = Count(start, "creations_total");
    row["problems"] = JsonList(verdict, "problems").size();
    row["tool_version"] = name_.tool_version;
    return sink_("incidents", row);
  }

 private:
  // Calls `use` with each object in the list and its number, at most `most` times.
  template <typename Use>
  absl::Status ForEach(const Json& list, size_t most, const char* what, const Use& use) {
    size_t number = 0;
    for (const Json& item : list) {
      if (!item.is_object()) continue;
      if (number == most) {
        absl::StrAppend(notes_, "more than ", most, " ", what, "; the rest are left out\n");
        break;
      }
      if (absl::Status status = use(item, number++); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Culprits(const Json& finding, size_t number) {
    size_t here = 0;
    for (const Json& culprit : JsonList(finding, "culprits")) {
      if (!culprit.is_object()) continue;
      if (here++ == kMostCulprits || culprits_ == kMostCulpritRows) {
        absl::StrAppend(notes_, "finding ", number, " names more culprits than the ", here - 1, " that are kept\n");
        break;
      }
      ++culprits_;
      Json row = name_.NewRow();
      row["finding"] = number;
      row["rank"] = Whole(culprit, "rank", -1, std::numeric_limits<int32_t>::max(), -1);
      row["kind"] = Text(finding, "kind", 64);
      row["host"] = Text(culprit, "host", 256);
      row["gpu"] = Whole(culprit, "gpu", -1, std::numeric_limits<int32_t>::max(), -1);
      row["gpu_pci"] = Text(culprit, "gpu_pci", 64);
      row["state"] = HostRedaction().Text(Text(culprit, "state", 300));
      if (absl::Status status = sink_("culprits", row); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const IncidentName& name_;
  const RowSink& sink_;
  std::string* notes_;
  size_t culprits_ = 0;
};

bool Exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

}  // namespace

absl::StatusOr<IncidentName> NameIncident(const std::string& folder) {
  if (Exists(folder + "/.gathering.json"))
    return absl::FailedPreconditionError(absl::StrCat(folder, " is still being gathered"));
  absl::StatusOr<Json> manifest = Parsed(folder + "/manifest.json", kMostManifest);
  if (absl::IsNotFound(manifest.status())) {
    return Exists(folder + "/verdict.json") || Exists(folder + "/verdict.txt")
               ? absl::FailedPreconditionError(absl::StrCat(folder, " has no manifest.json yet: it is unfinished"))
               : absl::InvalidArgumentError(
                     absl::StrCat(folder, " is not an incident folder: it has no manifest.json"));
  }
  if (!manifest.ok()) return manifest.status();
  if (!Exists(folder + "/verdict.json"))
    return absl::InvalidArgumentError(absl::StrCat(folder, " has no verdict.json"));
  IncidentName name;
  name.real_ns = Ns(*manifest, "captured_real_ns");
  if (name.real_ns < kEarliestSecond * kSecond || name.real_ns > kLatestSecond * kSecond) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/manifest.json has no valid capture time (captured_real_ns)"));
  }
  name.job = Text(*manifest, "job", kMostJob);
  name.step = Text(*manifest, "step", 64);
  name.restart_count = static_cast<uint32_t>(Count(*manifest, "restart_count"));
  name.tool_version = Text(*manifest, "tool_version", 64);
  name.incident =
      absl::StrCat(name.job, "/", name.step, "/", name.restart_count, "/", Count(*manifest, "uid"), "@", name.real_ns);
  name.day = UtcText(name.real_ns, "%Y-%m-%d");
  return name;
}

absl::Status MakeRows(const std::string& folder, const IncidentName& name, const RowSink& sink, std::string* notes) {
  absl::StatusOr<Json> verdict = Parsed(folder + "/verdict.json", kMostVerdict);
  if (!verdict.ok()) return verdict.status();
  OperationFacts facts;
  if (absl::Status status = MakeOperationRows(folder, name, sink, &facts, notes); !status.ok()) return status;
  VerdictRows rows(name, sink, notes);
  absl::Status status = rows.Findings(*verdict);
  if (status.ok()) status = rows.Creations(*verdict);
  if (status.ok()) status = rows.Links(*verdict, facts);
  if (status.ok()) status = rows.Speeds(*verdict);
  if (status.ok()) status = rows.Incident(*verdict);
  return status;
}

}  // namespace lockstep::archive
