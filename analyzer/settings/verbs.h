// The verbs as they are written down; table.h makes rows of them. For table.cpp alone.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_
#define LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_

#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

inline constexpr const char* kNone = "";
inline constexpr const char* kDerived = nullptr;

struct OptionLine {
  const char* key = "";
  const char* variable = kDerived;  // LOCKSTEP_VERB_KEY; kNone: no setting
  const char* option = kDerived;    // --KEY; kNone: no option
  Kind kind = Kind::kText;
  const char* value = "";  // empty: by the kind
  const char* choices = "";
  const char* fallback = "";
  double least = 0, most = 0;
  bool common = false;
  char separator = 0;
  const char* excludes = "";
  const char* needs = "";
  bool hidden = false;
  const char* help = "";
};

struct GroupLine {
  const char* title;
  std::vector<OptionLine> options;
};

struct VerbLine {
  const char* name;
  const char* purpose;
  std::vector<const char*> usage;  // without "lockstep NAME "
  std::vector<const char*> text;
  std::vector<Example> examples;
  std::vector<GroupLine> groups;
  std::vector<const char*> notes;
  const char* operand = "";
  Kind operand_kind = Kind::kText;
  size_t least_operands = 0, most_operands = 0;
  bool command = false;
};

std::vector<VerbLine> VerbLines();

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_
