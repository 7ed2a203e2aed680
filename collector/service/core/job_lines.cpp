#include "collector/service/core/job_lines.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

constexpr size_t kMostKept = 32;
constexpr size_t kMostHostsNamed = 3;
constexpr size_t kMostReasons = 64;

// Libraries with network traffic that the recorder does not see.
constexpr struct {
  const char *file, *name;
} kOthers[] = {{"libnvshmem", "NVSHMEM"}, {"deep_ep", "DeepEP"}, {"libmscclpp", "MSCCL++"},
               {"libmpi.", "MPI"},        {"libgloo", "Gloo"},   {"libucp.", "UCX"}};

std::string RanksOfRuns(const Ranks& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", ranks.Text(4));
}

}  // namespace

void Keep(std::vector<TimedLine>* lines, TimedLine line) {
  lines->push_back(std::move(line));
  if (lines->size() > kMostKept) lines->erase(lines->begin());
}

std::string WithAge(const TimedLine& line, int64_t now) {
  if (line.at_ns == 0) return line.text;
  return absl::StrCat(std::max<int64_t>(0, now - line.at_ns) / 1'000'000'000, " s ago: ", line.text);
}

std::string OperationText(const Decision& decision) {
  return absl::StrCat(decision.comm_name.empty() ? absl::StrCat(absl::Hex(decision.comm, absl::kZeroPad16))
                                                 : Printable(decision.comm_name, 64),
                      decision.sequence == 0 ? "" : absl::StrCat(" #", CountText(decision.sequence)));
}

std::string LateText(const Decision& decision) {
  return absl::StrCat(OperationText(decision), ": ",
                      !decision.missing.empty()   ? RanksOfRuns(decision.missing) + " missing"
                      : !decision.waiting.empty() ? RanksOfRuns(decision.waiting) + " in it and unfinished"
                                                  : "not finished",
                      " for ", DurationText(decision.age_ns), " (limit ", DurationText(decision.limit_ns), ")");
}

HostFindings FindingsOfHosts(const Bundle& bundle, int64_t now, size_t most) {
  HostFindings findings;
  std::set<std::string> told;
  // Maps what is unknown, and why, to the hosts.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> unseen;
  const auto blind = [&](const std::string& host, const std::string& what, const std::string& why) {
    if (why.empty()) return;
    const auto [entry, fresh] = unseen.try_emplace({what, Printable(why, 300)});
    if (fresh && unseen.size() > kMostReasons) {
      unseen.erase(entry);
      return;
    }
    entry->second.insert(host);
  };
  for (const Rank& rank : bundle.ranks) {
    if (rank.process.evidence == nullptr) continue;
    const ProcessEvidence& evidence = *rank.process.evidence;
    const std::string host = Printable(rank.host, 64);
    const auto add = [&](int64_t at_ns, const std::string& text) {
      std::string line = absl::StrCat(host, ": ", Printable(text, 300));
      if (findings.hardware.size() < most && told.insert(line).second)
        findings.hardware.push_back({at_ns, std::move(line)});
    };
    for (const std::string& line : GpuTrouble(evidence)) add(0, line);
    for (int i = evidence.hardware_size() - 1; i >= 0; --i) {
      const HardwareEvent& event = evidence.hardware(i);
      if (event.kind() == HardwareEvent::CRASH) continue;  // crashes of other programs are irrelevant
      add(std::max<int64_t>(1, now - std::max<int64_t>(0, event.age_ns())),
          absl::StrCat(HardwareName(event), event.gpu() > 0 ? absl::StrCat(" on GPU ", event.gpu() - 1) : "", ": ",
                       event.text()));
    }
    blind(host, "hardware errors not read on ", evidence.hardware_unread());
    // For dead processes, only the log was read.
    if (rank.process.life <= Life::kRunning) blind(host, "GPUs not read on ", evidence.gpus_unread());
    blind(host, "native stacks not read on ", evidence.stacks_refused());
    for (const StackModule& module : evidence.modules()) {
      const std::string& path = module.path();
      const size_t name = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
      for (const auto& other : kOthers) {
        if (path.compare(name, strlen(other.file), other.file) != 0) continue;
        blind(host, absl::StrCat("traffic of ", other.name, " not recorded on "),
              "its library appears in stacks there");
      }
    }
  }
  for (const auto& [what, hosts] : unseen) {
    if (findings.blind.size() >= most) break;
    std::vector<std::string> named(hosts.begin(), hosts.end());
    const size_t more = named.size() > kMostHostsNamed ? named.size() - kMostHostsNamed : 0;
    named.resize(named.size() - more);
    findings.blind.push_back(absl::StrCat(what.first, absl::StrJoin(named, ", "),
                                          more > 0 ? absl::StrCat(" and ", more, " more") : "", ": ", what.second));
  }
  return findings;
}

}  // namespace lockstep
