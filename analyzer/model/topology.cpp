#include "analyzer/model/topology.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr size_t kMaxHosts = size_t{1} << 20;
constexpr size_t kMaxNameBytes = 256;
constexpr int kMaxProblems = 20;

bool PlainName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

// Splits at any of these characters; `skip_empty` drops empty pieces.
std::vector<std::string_view> Split(std::string_view text, std::string_view separators, bool skip_empty) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at || !skip_empty) pieces.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return pieces;
}

std::string_view Strip(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string_view Short(std::string_view host) { return host.substr(0, host.find('.')); }

// Returns the value of KEY=VALUE on a topology.conf line; empty if there is none. `key` is in lower case, the line may
// be in any case.
std::string_view ValueOf(std::string_view line, std::string_view key) {
  for (std::string_view word : Split(line, " \t", true)) {
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos && Lower(word.substr(0, equals)) == key) return word.substr(equals + 1);
  }
  return {};
}

class Parser {
 public:
  Parser(const std::string& path, std::vector<Problem>* problems) : path_(path), problems_(problems) {}

  void Parse(std::string_view text) {
    size_t at = 0;
    while (at < text.size() && !full_) {
      const size_t end = std::min(text.find('\n', at), text.size());
      line_at_ = static_cast<int64_t>(at);
      std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++line_number_;
      line = line.substr(0, line.find('#'));
      line = Strip(line);
      if (!line.empty()) Line(line);
    }
    if (skipped_ > kMaxProblems) {
      problems_->push_back({path_, -1, absl::StrCat(skipped_ - kMaxProblems, " more invalid lines"), -1, true});
    }
  }

  std::map<std::string, HostPlace> hosts;

 private:
  void Line(std::string_view line) {
    if (Lower(line.substr(0, 11)) == "switchname=") {
      const std::string_view name = ValueOf(line, "switchname"), nodes = ValueOf(line, "nodes");
      if (!PlainName(name)) return Skip("a switch without a valid name");
      if (nodes.empty()) return;
      std::vector<std::string> listed;
      if (!ExpandHostList(nodes, kMaxHosts - hosts.size(), &listed)) Skip("its Nodes= is not a valid host list");
      for (std::string& host : listed) Add(host, "", name);
      return;
    }
    const bool commas = line.find(',') != std::string_view::npos;
    std::vector<std::string_view> fields;
    if (commas) {
      for (std::string_view field : Split(line, ",", false)) fields.push_back(Strip(field));
    } else {
      fields = Split(line, " \t", true);
    }
    if (fields.size() > 16) return Skip("more than sixteen columns");
    if (hosts.empty() && !columns_read_ && ReadColumns(fields)) return;
    columns_read_ = true;
    const auto at = [&](size_t column) -> std::string_view {
      return column < fields.size() && fields[column] != "-" ? fields[column] : std::string_view();
    };
    const std::string_view host = at(host_column_), rack = at(rack_column_), leaf = at(switch_column_);
    if (!PlainName(host) || (!rack.empty() && !PlainName(rack)) || (!leaf.empty() && !PlainName(leaf))) {
      return Skip("it does not have the form HOST RACK SWITCH");
    }
    Add(std::string(host), rack, leaf);
  }

  bool ReadColumns(const std::vector<std::string_view>& fields) {
    size_t host = SIZE_MAX, rack = SIZE_MAX, leaf = SIZE_MAX;
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string name = Lower(fields[i]);
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

  void Add(const std::string& host, std::string_view rack, std::string_view leaf) {
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

bool ParseSmall(std::string_view digits, uint64_t* out) {
  if (digits.empty() || digits.size() > 9) return false;
  *out = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return false;
    *out = *out * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

// Expands all brackets of one element of a host list; the last bracket varies fastest. Returns false if the element is
// malformed or gives too many names.
bool ExpandOne(std::string_view element, size_t limit, std::vector<std::string>* hosts) {
  std::vector<std::string> names{""};
  while (!element.empty()) {
    const size_t open = element.find('[');
    const std::string_view plain = element.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return false;
    for (std::string& name : names) name.append(plain);
    if (open == std::string_view::npos) break;
    const size_t close = element.find(']', open);
    if (close == std::string_view::npos) return false;
    std::vector<std::string> longer;
    for (std::string_view range : Split(element.substr(open + 1, close - open - 1), ",", false)) {
      const size_t dash = range.find('-');
      const std::string_view from = range.substr(0, dash),
                             to = dash == std::string_view::npos ? from : range.substr(dash + 1);
      uint64_t first = 0, last = 0;
      if (!ParseSmall(from, &first) || !ParseSmall(to, &last) || last < first) return false;
      if ((last - first + 1) * names.size() > limit - std::min(limit, longer.size() + hosts->size())) return false;
      for (uint64_t number = first; number <= last; ++number) {
        std::string digits = absl::StrCat(number);
        if (digits.size() < from.size()) digits.insert(0, from.size() - digits.size(), '0');
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
    if (i > begin) good = ExpandOne(list.substr(begin, i - begin), limit, hosts) && good;
    if (hosts->size() >= limit) return good && i == list.size();
    begin = i + 1;
  }
  return good && depth == 0;
}

std::vector<HostPlace> ParseTopology(std::string_view text, const std::string& path, std::vector<Problem>* problems) {
  Parser parser(path, problems);
  parser.Parse(text);
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
