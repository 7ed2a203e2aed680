#include "analyzer/settings/options.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/settings/help.h"
#include "analyzer/util/printable.h"

namespace lockstep::settings {
namespace {

absl::Status UsageStatus(const Verb& verb, const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(text, " (lockstep ", verb.name, " --help lists the options)"));
}

std::string Quoted(const std::string& text) { return absl::StrCat("'", text.substr(0, 100), "'"); }

std::string UnknownOption(const Verb& verb, const std::string& name) {
  std::vector<std::string> known = {"--help", "--version", "--no-config"};
  for (const Group& group : verb.groups) {
    for (const Row& row : group.rows) {
      if (!row.hidden && !row.option.empty()) known.push_back(row.option);
    }
  }
  const std::string near = Nearest(name, known);
  return absl::StrCat("unknown option ", Quoted(name), near.empty() ? "" : absl::StrCat("; did you mean ", near, "?"));
}

// Parses an option's value into `values`. Returns an empty string, or the error.
std::string Take(const Row& row, const std::string& text, std::vector<Value>* values) {
  if (const std::string wrong = WrongOrOutOfRange(row, text); !wrong.empty())
    return absl::StrCat(row.option, " ", wrong, text.empty() ? "" : absl::StrCat(", not ", Quoted(text)));
  Value value{&row, text, row.option, kOptionLayer, {}};
  // A single path may contain the separator that a list of paths uses.
  value.parts = row.separator == ',' ? SplitText(text, ',') : std::vector<std::string>{text};
  for (Value& before : *values) {
    if (before.row != &row) continue;
    if (row.separator == 0) {
      before = std::move(value);
    } else {
      before.parts.insert(before.parts.end(), value.parts.begin(), value.parts.end());
      before.text = absl::StrJoin(before.parts, std::string(1, row.separator));
    }
    return "";
  }
  values->push_back(std::move(value));
  return "";
}

// Parses the option at `at`, whose value is in the same or the next word. Returns an empty string, or the error.
std::string ReadOption(const Verb& verb, const std::vector<std::string>& words, size_t* at,
                       std::vector<Value>* options) {
  const std::string& word = words[*at];
  std::string name = word, value;
  const size_t equals = word.find('=');
  bool attached = false;
  if (absl::StartsWith(word, "--") && equals != std::string::npos) {
    name = word.substr(0, equals);
    value = word.substr(equals + 1);
    attached = true;
  } else if (word[1] != '-' && word.size() > 2 && FindByOption(verb.name, word.substr(0, 2)) != nullptr) {
    name = word.substr(0, 2);
    value = word.substr(2);
    attached = true;
  }
  const Row* row = FindByOption(verb.name, name);
  if (row == nullptr) return UnknownOption(verb, name);
  if (IsFlag(*row)) {
    bool on = true;
    if (attached && !ParseFlag(value, &on))
      return absl::StrCat(name, " takes yes, no or no value, not ", Quoted(value));
    return Take(*row, (row->kind == Kind::kFlag) == on ? "yes" : "no", options);
  }
  if (!attached && *at + 1 < words.size()) value = words[++*at];
  return Take(*row, value, options);
}

}  // namespace

absl::StatusOr<CommandLine> ReadCommandLine(const Verb& verb, const std::vector<std::string>& words) {
  CommandLine line;
  std::string problem;
  size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (verb.command) break;
      line.operands.push_back(word);
      continue;
    }
    if (word == "-h" || word == "--help") {
      line.help = true;
    } else if (word == "-V" || word == "--version") {
      line.version = true;
    } else if (word == "--no-config") {
      line.files = false;
    } else if (const std::string wrong = ReadOption(verb, words, &at, &line.options); problem.empty()) {
      problem = wrong;
    }
  }
  line.operands.insert(line.operands.end(), words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  // A request for help always succeeds.
  if (!problem.empty() && !line.help && !line.version) return UsageStatus(verb, problem);
  return line;
}

absl::StatusOr<ParsedOptions> Parse(std::string_view name, const std::vector<std::string>& words) {
  const Verb* verb = FindVerb(name);
  if (verb == nullptr) abort();
  absl::StatusOr<CommandLine> line = ReadCommandLine(*verb, words);
  if (!line.ok()) return line.status();
  absl::StatusOr<Merged> merged = Merged();
  if (!line->help && !line->version) {
    merged = Merge(name, std::move(line->options), line->files);
    if (!merged.ok()) return merged.status();
  }
  ParsedOptions options(*verb, std::move(*merged), std::move(line->operands));
  options.help = line->help;
  options.version = line->version;
  options.config_files = line->files;
  if (options.help || options.version) return options;
  const std::vector<std::string>& operands = options.operands();
  for (const std::string& operand : operands) {
    if (operand.empty() && !verb->command) return options.Wrong(absl::StrCat("an empty ", verb->operand));
  }
  if (operands.size() > verb->most_operands)
    return options.Wrong(absl::StrCat("unexpected argument ", Quoted(operands[verb->most_operands])));
  if (operands.size() < verb->least_operands) return options.Wrong(absl::StrCat("no ", verb->operand, " given"));
  return options;
}

absl::StatusOr<ParsedOptions> Parse(std::string_view verb, int argc, char** argv) {
  return Parse(verb, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}

int Complain(std::string_view verb, absl::string_view text, int exit_status) {
  fprintf(stderr, "lockstep %.*s: %s\n", static_cast<int>(verb.size()), verb.data(),
          Printable(std::string(text)).c_str());
  return exit_status;
}

int UsageError(std::string_view verb, const absl::Status& status) { return Complain(verb, status.message(), 2); }

std::optional<int> Finished(std::string_view verb, const absl::StatusOr<ParsedOptions>& options, bool tell) {
  if (!options.ok()) return UsageError(verb, options.status());
  if (options->help || options->version) {
    const std::string text = options->help ? Help(*FindVerb(verb)) : "lockstep " LOCKSTEP_VERSION "\n";
    if (fputs(text.c_str(), stdout) >= 0 && fflush(stdout) == 0) return 0;
    return Complain(verb, "cannot write standard output", 3);
  }
  if (!tell) return std::nullopt;
  for (const std::string& line : options->merged().told) fprintf(stderr, "lockstep: %s\n", Printable(line).c_str());
  return std::nullopt;
}

int RunVerb(const char* verb, int argc, char** argv, int (*run)(const ParsedOptions&)) {
  signal(SIGPIPE, SIG_IGN);
  try {
    const absl::StatusOr<ParsedOptions> options = Parse(verb, argc, argv);
    if (const std::optional<int> done = Finished(verb, options)) return *done;
    return run(*options);
  } catch (const std::bad_alloc&) {
    fprintf(stderr, "lockstep %s: out of memory; use fewer files or a machine with more memory\n", verb);
    return 3;
  }
}

const Row& ParsedOptions::RowOf(std::string_view key) const {
  const Row* row = FindOptionKey(verb_->name, key);
  if (row == nullptr) abort();
  return *row;
}

const Value* ParsedOptions::Find(std::string_view key) const {
  const Row* row = &RowOf(key);
  for (const Value& value : merged_.values) {
    if (value.row == row) return &value;
  }
  return nullptr;
}

template <typename T>
T ParsedOptions::Typed(std::string_view key, bool (*parse)(std::string_view, T*)) const {
  const Value* value = Find(key);
  T typed{};
  if (!parse(value != nullptr ? value->text : RowOf(key).fallback, &typed) && value != nullptr) abort();
  return typed;
}

bool ParsedOptions::Flag(std::string_view key) const { return Typed<bool>(key, ParseFlag); }

std::string ParsedOptions::Text(std::string_view key) const {
  if (const Value* value = Find(key)) return value->text;
  const Row& row = RowOf(key);
  const bool is_value = row.kind == Kind::kChoice && WrongValue(row, row.fallback).empty();
  return is_value ? row.fallback : "";
}

std::vector<std::string> ParsedOptions::List(std::string_view key) const {
  const Value* value = Find(key);
  return value == nullptr ? std::vector<std::string>() : value->parts;
}

int64_t ParsedOptions::Number(std::string_view key) const { return Typed<int64_t>(key, ParseNumber); }

double ParsedOptions::Seconds(std::string_view key) const { return Typed<double>(key, ParseSeconds); }

int64_t ParsedOptions::Nanoseconds(std::string_view key) const { return static_cast<int64_t>(Seconds(key) * 1e9); }

int64_t ParsedOptions::Age(std::string_view key) const { return Typed<int64_t>(key, ParseAge); }

uint64_t ParsedOptions::Bytes(std::string_view key) const { return Typed<uint64_t>(key, ParseBytes); }

RankRanges ParsedOptions::Ranks(std::string_view key) const { return Typed<RankRanges>(key, ParseRankRanges); }

bool ParsedOptions::Given(std::string_view key) const { return Find(key) != nullptr; }

absl::Status ParsedOptions::Wrong(const std::string& text) const { return UsageStatus(*verb_, text); }

}  // namespace lockstep::settings
