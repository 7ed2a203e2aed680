#include "collector/incident/incident.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/browser/explore/explore.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/report/report.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "collector/common/say.h"
#include "collector/host/proc.h"
#include "proto/dump.pb.h"

namespace lockstep {
std::string DumpFileName(const std::string& host) {
  return (host.empty() ? "unknown-host" : FileNameFrom(host, 128)) + ".lsd";
}

namespace {

// Returns a local time such as "20260131-235959".
std::string TimeText(int64_t real_ns) {
  const time_t seconds = static_cast<time_t>(real_ns / 1'000'000'000);
  tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

nlohmann::json ReadJson(const std::string& path) { return ParseJson(ReadSmallFile(path, 64 << 20)); }

}  // namespace

absl::StatusOr<EarlierIncident> SetEarlierIncidentAside(const std::string& folder) {
  struct stat info {};
  if (lstat((folder + "/manifest.json").c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return EarlierIncident();
  const nlohmann::json manifest = ReadJson(folder + "/manifest.json");
  if (JsonText(ReadJson(folder + "/verdict.json"), "verdict") == "HEALTHY") {
    std::vector<std::string> names = {"manifest.json", "verdict.json",    "verdict.txt", "report.html",
                                      "explore.html",  "decisions.jsonl", "index.lsi"};
    for (const nlohmann::json& node : JsonList(manifest, "nodes")) names.push_back(JsonText(node, "file"));
    for (const std::string& name : names) {
      if (!name.empty() && name.find('/') == std::string::npos) unlink(absl::StrCat(folder, "/", name).c_str());
    }
    return EarlierIncident{"", true};
  }
  const int64_t taken_ns = JsonInteger(manifest, "captured_real_ns", int64_t{info.st_mtim.tv_sec} * 1'000'000'000);
  std::string plain = folder;
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  const std::string wanted = absl::StrCat(plain, ".", TimeText(taken_ns));
  std::string name = wanted;
  for (int extra = 2; lstat(name.c_str(), &info) == 0; ++extra) name = absl::StrCat(wanted, "-", extra);
  if (rename(plain.c_str(), name.c_str()) != 0) return FileError("move the earlier incident out of", folder, errno);
  return EarlierIncident{name, false};
}

std::string WhyNoIncidentFolder(const std::string& folder) {
  if (folder.empty()) return "";
  std::string there = folder;
  struct stat info {};
  while (stat(there.c_str(), &info) != 0) {
    if (errno != ENOENT) return strerror(errno);
    const size_t slash = there.find_last_of('/');
    if (slash == std::string::npos) {
      there.assign(1, '.');
    } else {
      there.resize(std::max<size_t>(slash, 1));
    }
  }
  if (!S_ISDIR(info.st_mode)) return absl::StrCat(there, " is not a folder");
  if (access(there.c_str(), W_OK | X_OK) != 0) return absl::StrCat(there, ": ", strerror(errno));
  return "";
}

std::string DefaultIncidentFolder(const std::string& job, int64_t real_ns) {
  return absl::StrCat("lockstep-incident-", job, "-", TimeText(real_ns));
}

absl::Status WriteIncident(const std::string& folder, const Bundle& bundle, const Verdict& verdict,
                           const IncidentFacts& facts) {
  if (absl::Status status = MakeFolder(folder); !status.ok()) return status;
  std::map<std::string, std::vector<size_t>> hosts;
  for (size_t i = 0; i < bundle.ranks.size(); ++i) hosts[bundle.ranks[i].host].push_back(i);

  absl::Status result;  // the first error; later files are still tried, because some evidence is better than none
  const auto note = [&result](absl::Status status) {
    if (result.ok()) result = std::move(status);
  };
  note(WriteFileSafely(folder + "/verdict.txt", ReportText(verdict, bundle)));
  if (!facts.decisions.empty())
    note(WriteFileSafely(folder + "/decisions.jsonl", absl::StrJoin(facts.decisions, "\n") + "\n"));
  note(WriteFileSafely(folder + "/verdict.json", ReportJson(verdict)));

  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  std::set<std::string> names;
  for (const auto& [host, ranks] : hosts) {
    std::string name = DumpFileName(host);
    for (int extra = 2; !names.insert(name).second; ++extra) name = absl::StrCat(extra, "-", DumpFileName(host));
    DumpHeader header;
    header.set_format_version(1);
    header.set_min_reader_version(1);
    header.set_tool_version(LOCKSTEP_VERSION);
    header.set_host(host);
    const auto place = std::lower_bound(bundle.places.begin(), bundle.places.end(), host,
                                        [](const HostPlace& p, const std::string& name) { return p.host < name; });
    if (place != bundle.places.end() && place->host == host) {
      header.set_rack(place->rack);
      header.set_leaf_switch(place->leaf_switch);
      header.set_port_mbits(place->network.port_mbits);
      header.set_ports(place->network.ports);
      header.set_gpus(place->network.gpus);
    }
    header.set_boot_id(bundle.ranks[ranks[0]].boot_id);
    header.set_job(facts.job);
    header.set_step(bundle.ranks[ranks[0]].step);
    header.set_restart_count(bundle.ranks[ranks[0]].restart_count);
    header.set_captured_real_ns(facts.captured_real_ns);
    header.set_ranks_expected(bundle.ranks_expected);
    note(WriteLsd(bundle, ranks, header, absl::StrCat(folder, "/", name)));
    nlohmann::ordered_json node;
    node["host"] = host;
    node["file"] = name;
    for (size_t index : ranks) node["ranks"].push_back(bundle.ranks[index].rank);
    nodes.push_back(std::move(node));
  }
  note(WriteFileSafely(folder + "/report.html", ReportHtml(verdict, bundle)));

  nlohmann::ordered_json manifest;
  manifest["format"] = 1;
  manifest["tool_version"] = LOCKSTEP_VERSION;
  manifest["job"] = facts.job;
  manifest["ranks_expected"] = bundle.ranks_expected;
  manifest["known_stalled"] = bundle.known_stalled;
  manifest["stalled_ns"] = bundle.stalled_ns;
  manifest["captured_real_ns"] = facts.captured_real_ns;
  manifest["nodes"] = std::move(nodes);
  manifest["command"] = facts.command;
  nlohmann::ordered_json exits = nlohmann::ordered_json::array();
  for (const ExitRecord& exit : facts.exits) {
    exits.push_back({{"rank", exit.rank}, {"pid", exit.pid}, {"status", exit.text}});
  }
  manifest["processes"] = std::move(exits);
  if (const std::string redacted = RedactionOf(bundle); !redacted.empty()) manifest["redacted"] = redacted;
  if (!facts.note.empty()) manifest["note"] = facts.note;
  // A command line is bytes, and not necessarily UTF-8.
  note(WriteFileSafely(folder + "/manifest.json",
                       manifest.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
  return result;
}

void WriteExplorePage(const std::string& folder, const Bundle& bundle, const Verdict& verdict,
                      const MergedStacks& stacks, bool tell) {
  absl::Status status;
  try {
    status = WriteFileSafely(folder + "/explore.html", ExplorePage(bundle, verdict, stacks));
  } catch (const std::exception& error) {  // out of memory
    status = absl::ResourceExhaustedError(error.what());
  }
  if (!status.ok()) {
    Say(absl::StrCat("no explore.html in ", folder, ": ", status.message()));
  } else if (tell) {
    Say(absl::StrCat(folder, "/explore.html: open it in any browser"));
  }
}

bool StoreIncident(const std::string& folder, const Bundle& bundle, const Verdict& verdict, const IncidentFacts& facts,
                   bool tell) {
  if (const absl::Status status = WriteIncident(folder, bundle, verdict, facts); !status.ok()) {
    Say(absl::StrCat("the incident folder is not complete: ", status.message()));
    return false;
  }
  if (tell) Say(absl::StrCat("incident written to ", folder, " (lockstep analyze ", folder, ")"));
  WriteExplorePage(folder, bundle, verdict, {}, tell);
  return true;
}

}  // namespace lockstep
