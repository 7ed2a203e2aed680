#include "analyzer/report/code.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/nccl_version.h"
#include "analyzer/util/paths.h"

namespace lockstep {
namespace {

constexpr int kMostDifferences = 64, kMostGroups = 16, kMostHostsOfGroup = 16;

// Indexes into Bundle::ranks by kind and name of the code, then by version, build id or hash.
using Key = std::pair<CodeDifference::Kind, std::string>;
using CodeOfRanks = std::map<Key, std::map<std::string, std::set<size_t>>>;

// The path identifies a file. For NCCL's libraries the name without its version is enough.
std::string LibraryName(const std::string& path) {
  const std::string name(BaseName(path));
  const bool nccl = absl::StartsWith(name, "libnccl") || absl::StartsWith(name, "librccl");
  return nccl ? name.substr(0, name.find(".so")) + ".so" : path;
}

CodeOfRanks ReadCode(const Bundle& bundle) {
  CodeOfRanks code;
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    if (rank.nccl_version > 0)
      code[{CodeDifference::NCCL_VERSION, "NCCL"}][NcclVersionText(rank.nccl_version)].insert(r);
    const ProcessEvidence* evidence = rank.process.evidence.get();
    if (evidence == nullptr) continue;
    if (!evidence->python_version().empty())
      code[{CodeDifference::PYTHON_VERSION, "Python"}][evidence->python_version()].insert(r);
    for (const StackModule& module : evidence->modules()) {
      if (module.build_id().empty() || absl::StrContains(module.path(), "(deleted)")) continue;
      const bool script = absl::StartsWith(module.build_id(), "sha256:");
      const Key key = script ? Key{CodeDifference::SCRIPT, module.path()}
                             : Key{CodeDifference::LIBRARY, LibraryName(module.path())};
      code[key][module.build_id()].insert(r);
    }
  }
  return code;
}

std::string ShownValue(const CodeDifference& difference, const std::string& value) {
  constexpr size_t kShown = 12;
  std::string text = Printable(value, 200);
  switch (difference.kind()) {
    case CodeDifference::LIBRARY: return absl::StrCat("build ", text.substr(0, kShown));
    case CodeDifference::SCRIPT: return text.substr(0, std::string("sha256:").size() + kShown);
    default: return text;
  }
}

}  // namespace

void SetCodeDifferences(const Bundle& bundle, Verdict* verdict) {
  verdict->clear_code();
  for (const auto& [key, values] : ReadCode(bundle)) {
    if (values.size() < 2 || verdict->code_size() == kMostDifferences) continue;
    std::set<size_t> known;
    size_t with_values = 0;
    for (const auto& [value, ranks] : values) {
      known.insert(ranks.begin(), ranks.end());
      with_values += ranks.size();
    }
    // If a process maps two files with this name, the frames may be in either of them.
    if (with_values > known.size()) continue;
    CodeDifference* out = verdict->add_code();
    out->set_kind(key.first);
    out->set_name(key.second);
    out->set_unknown(static_cast<int32_t>(bundle.ranks.size() - known.size()));
    std::vector<std::pair<std::string, std::set<size_t>>> order(values.begin(), values.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    for (const auto& [value, ranks] : order) {
      if (out->groups_size() == kMostGroups) break;
      CodeDifference::Group* group = out->add_groups();
      group->set_value(value);
      std::set<std::string> hosts;
      for (const size_t r : ranks) {
        group->add_ranks(bundle.ranks[r].rank);
        if (!bundle.ranks[r].host.empty()) hosts.insert(bundle.ranks[r].host);
      }
      for (const std::string& host : hosts) {
        if (group->hosts_size() < kMostHostsOfGroup) group->add_hosts(host);
      }
    }
  }
}

std::vector<std::string> CodeLines(const Verdict& verdict) {
  constexpr int kGroupsShown = 3, kHostsShown = 3;
  std::vector<std::string> lines;
  for (const CodeDifference& difference : verdict.code()) {
    std::vector<std::string> parts;
    // The largest group comes last, as "the others".
    const int shown = std::min(difference.groups_size(), kGroupsShown);
    for (int g = shown - 1; g >= 0; --g) {
      const CodeDifference::Group& group = difference.groups(g);
      const std::string value = ShownValue(difference, group.value());
      if (g == 0) {
        parts.push_back(
            absl::StrCat(value, " on the ",
                         group.ranks_size() == 1 ? "other" : absl::StrCat(CountText(group.ranks_size()), " others")));
        continue;
      }
      std::vector<std::string> hosts;
      for (int h = 0; h < std::min(group.hosts_size(), kHostsShown); ++h)
        hosts.push_back(Printable(group.hosts(h), 64));
      if (group.hosts_size() > kHostsShown) hosts.push_back("..");
      parts.push_back(absl::StrCat(value, " on ", RanksText({group.ranks().begin(), group.ranks().end()}, 40),
                                   hosts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(hosts, ", "), ")")));
    }
    const bool version =
        difference.kind() == CodeDifference::NCCL_VERSION || difference.kind() == CodeDifference::PYTHON_VERSION;
    lines.push_back(absl::StrCat(
        Printable(difference.name(), 120), version ? " " : " differs: ", absl::StrJoin(parts, ", "),
        difference.groups_size() > shown
            ? absl::StrCat(", and ", difference.groups_size() - shown, version ? " more versions" : " more contents")
            : "",
        difference.unknown() > 0 ? absl::StrCat("; unknown for ", CountText(difference.unknown()),
                                                difference.unknown() == 1 ? " rank" : " ranks")
                                 : ""));
  }
  return lines;
}

}  // namespace lockstep
