// The verbs as they are written down; table.h makes rows of them. For table.cpp alone.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_
#define LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_

#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

struct OptionLine {
  const char* key;
  Kind kind;
  const char* help;
  const char* value = nullptr;     // by the kind
  const char* variable = nullptr;  // LOCKSTEP_VERB_KEY; empty: no setting
  const char* option = nullptr;    // --KEY; empty: no option
  const char* choices = "";
  const char* fallback = "";
  double least = 0, most = 0;
  bool common = false, hidden = false;
  char separator = 0;
  const char* excludes = "";
  const char* needs = "";

  OptionLine Variable(const char* name) const { return With(&OptionLine::variable, name); }
  OptionLine Lone() const { return With(&OptionLine::variable, ""); }
  OptionLine Named(const char* name) const { return With(&OptionLine::option, name); }
  OptionLine NoOption() const { return With(&OptionLine::option, ""); }
  OptionLine Value(const char* name) const { return With(&OptionLine::value, name); }
  OptionLine Choices(const char* words) const { return With(&OptionLine::choices, words); }
  OptionLine Default(const char* text) const { return With(&OptionLine::fallback, text); }
  OptionLine Limits(double from, double to) const { return With(&OptionLine::least, from).With(&OptionLine::most, to); }
  OptionLine Common() const { return With(&OptionLine::common, true); }
  OptionLine List(char between) const { return With(&OptionLine::separator, between); }
  OptionLine Excludes(const char* keys) const { return With(&OptionLine::excludes, keys); }
  OptionLine Needs(const char* other) const { return With(&OptionLine::needs, other); }
  OptionLine Hidden() const { return With(&OptionLine::hidden, true); }

 private:
  template <typename T>
  OptionLine With(T OptionLine::*member, T changed) const {
    OptionLine line = *this;
    line.*member = changed;
    return line;
  }
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
