#include "analyzer/report/words/commands.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {
namespace {

constexpr size_t kMostHosts = 4;    // in one restart command
constexpr size_t kMostNumbers = 8;  // PIDs in one command

struct NamedHost {
  std::string name;
  std::vector<int32_t> pids;
};

// Returns whether the name needs no quotes and cannot be an option of ssh.
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
    if (at == hosts.end()) at = hosts.insert(hosts.end(), {culprit.host(), {}});
    if (culprit.pid() > 0 && at->pids.size() < kMostNumbers) at->pids.push_back(culprit.pid());
  }
  return hosts;
}

// The command on the first host, followed by the other hosts to run it on.
std::string OnHosts(const std::vector<NamedHost>& hosts, std::string_view command) {
  std::string text = absl::StrCat("`ssh ", hosts[0].name, " ", std::string(command), "`");
  if (hosts.size() == 2) absl::StrAppend(&text, " (also on ", hosts[1].name, ")");
  if (hosts.size() > 2) absl::StrAppend(&text, " (also on ", hosts.size() - 1, " other hosts)");
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

std::string GpuStep(const Finding& finding) {
  const std::vector<NamedHost> hosts = HostsOf(finding);
  const bool one = finding.culprits_size() == 1 && finding.culprits(0).gpu() >= 0;
  const std::string gpu = one ? absl::StrCat(" -i ", finding.culprits(0).gpu()) : "";
  return Step(Pick(finding, "Check the GPU", "Check the GPUs"),
              hosts.empty() ? "" : OnHosts(hosts, absl::StrCat("'nvidia-smi", gpu, "; dmesg -T | grep Xid'")),
              "Run nvidia-smi on its host, and look for Xid errors in the kernel log");
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

std::string Step(std::string_view lead, const std::string& command, std::string_view alone) {
  if (command.empty()) return absl::StrCat(std::string(alone.empty() ? lead : alone), ".");
  return absl::StrCat(std::string(lead), ": ", command);
}

std::string LookStep(const Finding& finding) {
  const std::string command = LookCommand(finding);
  if (!finding.place().empty())
    return Step(Pick(finding, "Look at its other threads", "Look at their other threads"), command);
  if (command.empty())
    return Pick(finding, "Get its stack on its host: `py-spy dump --pid PID`.",
                "Get their stacks: `py-spy dump --pid PID` on their hosts.");
  return Step(Pick(finding, "Read its stacks", "Read their stacks"), command);
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
