#include "analyzer/settings/help.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "analyzer/settings/types.h"
#include "analyzer/settings/verbs.h"
#include "analyzer/util/printable.h"

namespace lockstep::settings {
namespace {

constexpr const char* kOther = "Other";  // title of the last group
constexpr size_t kColumns = 80, kMostIndent = 26;

// Appends the text as lines of at most kColumns, the first after `prefix`, the others after `indent`. Keeps line ends
// in `text`.
void AddWrapped(std::string prefix, const std::string& text, size_t indent, std::string* out) {
  const size_t hang = text.find('\n') == std::string::npos ? indent : indent + 2;
  for (const std::string& line : SplitText(text, '\n')) {
    AppendWrapped(prefix, line, hang, kColumns, LongWords::kKeep, out);
    prefix.assign(indent, ' ');
  }
}

std::string Names(const Row& row) { return row.value.empty() ? row.option : row.option + " " + row.value; }

void AddOption(const std::string& names, const std::string& text, size_t indent, std::string* out) {
  std::string prefix = "  " + names;
  if (prefix.size() + 2 > indent) {
    *out += prefix + '\n';
    prefix.clear();
  }
  prefix.resize(indent, ' ');
  AddWrapped(prefix, text, indent, out);
}

}  // namespace

std::string Details(const Row& row) {
  std::vector<std::string> parts;
  // If the text explains each choice, it already lists the choices.
  if (row.kind == Kind::kChoice && row.meaning.find('\n') == std::string::npos) parts.push_back(ChoiceList(row));
  if (row.separator != 0) parts.push_back("may be repeated");
  if (!row.fallback.empty() && !IsFlag(row)) parts.push_back("default: " + row.fallback);
  if (!row.variable.empty() && row.variable != DerivedVariable(row.section, row.key)) parts.push_back(row.variable);
  return absl::StrJoin(parts, "; ");
}

std::string Help(const Verb& verb) {
  std::string out = "lockstep " + verb.name + " - " + verb.purpose + "\n\n";
  for (size_t i = 0; i < verb.usage.size(); ++i) AddWrapped(i == 0 ? "Usage: " : "       ", verb.usage[i], 11, &out);
  for (const std::string& paragraph : verb.text) {
    out += '\n';
    AddWrapped("", paragraph, 0, &out);
  }
  if (!verb.examples.empty()) out += "\nExamples:\n";
  for (const Example& example : verb.examples) {
    if (!example.meaning.empty()) out += "  # " + example.meaning + "\n";
    out += "  " + example.command + "\n";
  }
  size_t indent = sizeof("  -V, --version  ") - 1;
  for (const Group& group : verb.groups) {
    for (const Row& row : group.rows) {
      const size_t wanted = Names(row).size() + 4;
      if (!row.hidden && !row.option.empty() && wanted <= kMostIndent) indent = std::max(indent, wanted);
    }
  }
  for (size_t i = 0; i < verb.groups.size(); ++i) {
    const Group& group = verb.groups[i];
    out += "\n" + (group.title.empty() ? "Options" : group.title) + ":\n";
    for (const Row& row : group.rows) {
      if (row.hidden || row.option.empty()) continue;
      const std::string details = Details(row);
      AddOption(Names(row), row.meaning + (details.empty() ? "" : " (" + details + ")"), indent, &out);
    }
    if (i + 1 < verb.groups.size()) continue;
    if (!group.title.empty() && group.title != kOther) out += "\n" + std::string(kOther) + ":\n";
    for (const Row& row : CommonOptions()) AddOption(row.option, row.meaning, indent, &out);
  }
  for (const std::string& note : verb.notes) {
    out += '\n';
    AddWrapped("", note, 0, &out);
  }
  return out;
}

}  // namespace lockstep::settings
