#include "analyzer/report/words/commands.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

constexpr size_t kMostHosts = 4;    // in one restart command
constexpr size_t kMostNumbers = 8;  // PIDs or GPUs in one command

struct NamedHost {
  std::string name;
  std::vector<int32_t> pids, gpus;
};

// Accepts names that ssh cannot take for an option and that need no quotes.
bool IsHostName(std::string_view name) {
  return !name.empty() && name.size() <= 253 && isalnum(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; });
}

std::vector<NamedHost> HostsOf(const Finding& finding, bool alive = false) {
  std::vector<NamedHost> hosts;
  for (const Culprit& culprit : finding.culprits()) {
    if (!IsHostName(culprit.host()) || (alive && culprit.ended())) continue;
    auto at =
        std::find_if(hosts.begin(), hosts.end(), [&](const NamedHost& host) { return host.name == culprit.host(); });
    if (at == hosts.end()) at = hosts.insert(hosts.end(), {culprit.host(), {}, {}});
    if (culprit.pid() > 0 && at->pids.size() < kMostNumbers) at->pids.push_back(culprit.pid());
    if (culprit.gpu() >= 0 && at->gpus.size() < kMostNumbers) at->gpus.push_back(culprit.gpu());
  }
  return hosts;
}

// The command on the first host, followed by the other hosts to run it on.
std::string OnHosts(const std::vector<NamedHost>& hosts, std::string_view command) {
  std::string text = absl::StrCat("`ssh ", hosts[0].name, " ", std::string(command), "`");
  if (hosts.size() == 2) absl::StrAppend(&text, ", and the same on ", hosts[1].name);
  if (hosts.size() > 2) absl::StrAppend(&text, ", and the same on ", hosts.size() - 1, " other hosts");
  return text;
}

}  // namespace

std::string HostCommand(const Finding& finding, std::string_view command) {
  const std::vector<NamedHost> hosts = HostsOf(finding);
  return hosts.empty() ? "" : OnHosts(hosts, command);
}

std::string KernelLogCommand(const Finding& finding, std::string_view pattern) {
  return HostCommand(finding, absl::StrCat("'dmesg -T | grep -iE \"", std::string(pattern), "\"'"));
}

std::string GpuCommand(const Finding& finding) {
  const std::vector<NamedHost> hosts = HostsOf(finding);
  if (hosts.empty()) return "";
  const std::string gpus = hosts[0].gpus.empty() ? "" : absl::StrCat(" -i ", absl::StrJoin(hosts[0].gpus, ","));
  return OnHosts(hosts, absl::StrCat("'nvidia-smi", gpus, "; dmesg -T | grep -i xid'"));
}

std::string PidCommand(const Finding& finding, std::string_view command) {
  const std::vector<NamedHost> hosts = HostsOf(finding);
  if (hosts.empty() || hosts[0].pids.empty()) return "";
  return OnHosts(hosts, absl::StrCat(std::string(command), " ", absl::StrJoin(hosts[0].pids, " ")));
}

bool AllEnded(const Finding& finding) {
  return finding.culprits_size() > 0 && std::all_of(finding.culprits().begin(), finding.culprits().end(),
                                                    [](const Culprit& culprit) { return culprit.ended(); });
}

std::string LookCommand(const Finding& finding, std::string_view command) {
  const std::vector<NamedHost> hosts = HostsOf(finding, true);
  if (hosts.empty() || hosts[0].pids.empty()) return "";
  return absl::StrCat("`ssh ", hosts[0].name, " ", std::string(command), " ", hosts[0].pids[0], "`");
}

std::string Step(std::string_view lead, const std::string& command) {
  const bool asks = !lead.empty() && lead.back() == '?';
  const char* end = command.empty() ? (asks ? "" : ".") : asks ? " " : ": ";
  return absl::StrCat(std::string(lead), end, command);
}

std::string RestartStep(const Finding& finding, std::string_view when) {
  std::vector<std::string> names;
  for (const NamedHost& host : HostsOf(finding)) names.push_back(host.name);
  if (names.empty() || names.size() > kMostHosts || finding.cpu_only()) return Step(when, "");
  return absl::StrCat(std::string(when), names.size() == 1 ? " without the node" : " without these nodes",
                      ": `sbatch --exclude=", absl::StrJoin(names, ","), "` (Slurm), `kubectl cordon ",
                      absl::StrJoin(names, " "), "` (Kubernetes)");
}

}  // namespace lockstep
