#include "analyzer/model/topology.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr size_t kMaxHosts = size_t{1} << 20;
constexpr size_t kMaxNameBytes = 256;
constexpr int kMaxProblems = 20;

bool PlainName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

std::vector<absl::string_view> Words(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

std::string_view Short(std::string_view host) { return host.substr(0, host.find('.')); }

// Returns the value of KEY=VALUE on a topology.conf line; empty if there is none. Keys may be in any case.
absl::string_view ValueOf(absl::string_view line, absl::string_view key) {
  for (absl::string_view word : Words(line)) {
    const size_t equals = word.find('=');
    if (equals != word.npos && absl::EqualsIgnoreCase(word.substr(0, equals), key)) return word.substr(equals + 1);
  }
  return {};
}

class Parser {
 public:
  Parser(const std::string& path, std::vector<Problem>* problems) : path_(path), problems_(problems) {}

  void Parse(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      if (full_) break;
      line_at_ = line.data() - text.data();
      ++line_number_;
      line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
      if (!line.empty()) Line(line);
    }
    if (skipped_ > kMaxProblems) {
      problems_->push_back({path_, -1, absl::StrCat(skipped_ - kMaxProblems, " more invalid lines"), -1, true});
    }
  }

  std::map<std::string, HostPlace> hosts;

 private:
  void Line(absl::string_view line) {
    if (absl::StartsWithIgnoreCase(line, "switchname=")) {
      const absl::string_view name = ValueOf(line, "switchname"), nodes = ValueOf(line, "nodes");
      if (!PlainName(name)) return Skip("a switch without a valid name");
      if (nodes.empty()) return;
      std::vector<std::string> listed;
      if (!ExpandHostList({nodes.data(), nodes.size()}, kMaxHosts - hosts.size(), &listed))
        Skip("its Nodes= is not a valid host list, or has too many hosts");
      for (std::string& host : listed) Add(host, "", name);
      return;
    }
    std::vector<absl::string_view> fields;
    if (absl::StrContains(line, ',')) {
      fields = absl::StrSplit(line, ',');
      for (absl::string_view& field : fields) field = absl::StripAsciiWhitespace(field);
    } else {
      fields = Words(line);
    }
    if (fields.size() > 16) return Skip("more than sixteen columns");
    if (hosts.empty() && !columns_read_ && ReadColumns(fields)) return;
    columns_read_ = true;
    const auto at = [&](size_t column) {
      return column < fields.size() && fields[column] != "-" ? fields[column] : absl::string_view();
    };
    const absl::string_view host = at(host_column_), rack = at(rack_column_), leaf = at(switch_column_);
    if (!PlainName(host) || (!rack.empty() && !PlainName(rack)) || (!leaf.empty() && !PlainName(leaf))) {
      return Skip("it does not have the form HOST RACK SWITCH");
    }
    Add(std::string(host), rack, leaf);
  }

  bool ReadColumns(const std::vector<absl::string_view>& fields) {
    size_t host = SIZE_MAX, rack = SIZE_MAX, leaf = SIZE_MAX;
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string name = absl::AsciiStrToLower(fields[i]);
      if (name == "host" || name == "node" || name == "hostname") host = i;
      if (name == "rack") rack = i;
      if (name == "switch" || name == "leaf" || name == "leaf_switch") leaf = i;
    }
    if (host == SIZE_MAX || (rack == SIZE_MAX && leaf == SIZE_MAX)) return false;
    host_column_ = host;
    rack_column_ = rack;
    switch_column_ = leaf;
    columns_read_ = true;
    return true;
  }

  void Add(const std::string& host, absl::string_view rack, absl::string_view leaf) {
    if (hosts.size() >= kMaxHosts) {
      problems_->push_back(
          {path_, line_at_, absl::StrCat("more than ", kMaxHosts, " hosts; the rest is ignored"), -1, true});
      full_ = true;
      return;
    }
    auto [it, fresh] = hosts.try_emplace(host, HostPlace{host, std::string(rack), std::string(leaf)});
    if (!fresh && (it->second.rack != rack || it->second.leaf_switch != leaf))
      Skip(absl::StrCat("host ", host, " is listed again with a different position"));
  }

  void Skip(const std::string& why) {
    if (++skipped_ > kMaxProblems) return;
    problems_->push_back(
        {path_, line_at_, absl::StrCat("line ", line_number_, " of the topology ignored: ", why), -1, true});
  }

  const std::string& path_;
  std::vector<Problem>* problems_;
  size_t host_column_ = 0, rack_column_ = 1, switch_column_ = 2;
  bool columns_read_ = false, full_ = false;
  int64_t line_number_ = 0, line_at_ = 0;
  int skipped_ = 0;
};

bool ParseSmall(absl::string_view digits, uint64_t* out) {
  return digits.size() <= 9 && digits.find_first_not_of("0123456789") == digits.npos && absl::SimpleAtoi(digits, out);
}

// Expands all brackets of one element of a host list; the first bracket varies fastest. Returns false if the element is
// malformed or gives too many names.
bool ExpandOne(absl::string_view element, size_t limit, std::vector<std::string>* hosts) {
  std::vector<std::string> names{""};
  while (!element.empty()) {
    const size_t open = element.find('[');
    const absl::string_view plain = element.substr(0, open);
    if (absl::StrContains(plain, ']')) return false;
    for (std::string& name : names) absl::StrAppend(&name, plain);
    if (open == element.npos) break;
    const size_t close = element.find(']', open);
    if (close == element.npos) return false;
    std::vector<std::string> longer;
    for (absl::string_view range : absl::StrSplit(element.substr(open + 1, close - open - 1), ',')) {
      const size_t dash = range.find('-');
      const absl::string_view from = range.substr(0, dash), to = dash == range.npos ? from : range.substr(dash + 1);
      uint64_t first = 0, last = 0;
      if (!ParseSmall(from, &first) || !ParseSmall(to, &last) || last < first) return false;
      if ((last - first + 1) * names.size() > limit - std::min(limit, longer.size() + hosts->size())) return false;
      for (uint64_t number = first; number <= last; ++number) {
        const std::string digits = absl::StrFormat("%0*d", static_cast<int>(from.size()), number);
        for (const std::string& name : names) longer.push_back(name + digits);
      }
    }
    names = std::move(longer);
    element.remove_prefix(close + 1);
  }
  for (std::string& name : names) {
    if (!PlainName(name) || hosts->size() >= limit) return false;
    hosts->push_back(std::move(name));
  }
  return true;
}

}  // namespace

bool ExpandHostList(std::string_view list, size_t limit, std::vector<std::string>* hosts) {
  bool good = true;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i > begin) good = ExpandOne({list.data() + begin, i - begin}, limit, hosts) && good;
    if (hosts->size() >= limit) return good && i == list.size();
    begin = i + 1;
  }
  return good && depth == 0;
}

std::vector<HostPlace> ParseTopology(std::string_view text, const std::string& path, std::vector<Problem>* problems) {
  Parser parser(path, problems);
  parser.Parse({text.data(), text.size()});
  std::vector<HostPlace> places;
  places.reserve(parser.hosts.size());
  for (auto& [host, place] : parser.hosts) places.push_back(std::move(place));
  return places;
}

absl::Status AddTopology(const std::string& path, Bundle* bundle) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxFileBytes);
  if (!text.ok()) return text.status();
  std::vector<Problem> problems;
  std::vector<HostPlace> places = ParseTopology(*text, path, &problems);
  if (places.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": contains no host; lines must be HOST RACK SWITCH, or SwitchName=.. Nodes=.. as in topology.conf"));
  }
  bundle->problems.insert(bundle->problems.end(), problems.begin(), problems.end());
  std::map<std::string, HostPlace> merged;
  for (HostPlace& place : bundle->places) merged.emplace(place.host, std::move(place));
  for (HostPlace& place : places) {
    HostPlace& known = merged[place.host];
    known.host = place.host;
    if (!place.rack.empty()) known.rack = std::move(place.rack);
    if (!place.leaf_switch.empty()) known.leaf_switch = std::move(place.leaf_switch);
  }
  bundle->places.clear();
  for (auto& [host, place] : merged) bundle->places.push_back(std::move(place));
  return absl::OkStatus();
}

const HostPlace* FindPlace(const Bundle& bundle, std::string_view host) {
  const auto before = [](const HostPlace& place, std::string_view name) { return place.host < name; };
  const auto find = [&](std::string_view name) -> const HostPlace* {
    const auto it = std::lower_bound(bundle.places.begin(), bundle.places.end(), name, before);
    return it != bundle.places.end() && it->host == name ? &*it : nullptr;
  };
  if (host.empty()) return nullptr;
  if (const HostPlace* exact = find(host)) return exact;
  if (Short(host).size() < host.size()) return find(Short(host));
  // The file may have "node7.x" for the rank's "node7". Two such names are ambiguous.
  const std::string prefix = absl::StrCat(std::string(host), ".");
  const auto it = std::lower_bound(bundle.places.begin(), bundle.places.end(), std::string_view(prefix), before);
  if (it == bundle.places.end() || !it->host.starts_with(prefix)) return nullptr;
  const auto next = std::next(it);
  return next != bundle.places.end() && next->host.starts_with(prefix) ? nullptr : &*it;
}

}  // namespace lockstep
