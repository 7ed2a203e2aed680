// A verb's command line, parsed according to the table: options and operands, merged with files and the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/settings/merge.h"
#include "analyzer/settings/types.h"

namespace lockstep::settings {

// Typed access by key ("late-after"). An unset option has the table's default; if there is none, it is empty, 0 or no.
// Lists, and texts other than choices, have no default. A key that the verb does not have, or a set value that does not
// parse as the type, is a bug and ends the program.
class ParsedOptions {
 public:
  ParsedOptions(const Verb& verb, Merged merged, std::vector<std::string> operands)
      : verb_(&verb), merged_(std::move(merged)), operands_(std::move(operands)) {}

  bool Flag(std::string_view key) const;
  std::string Text(std::string_view key) const;  // also for files, folders, choices and endpoints
  std::vector<std::string> List(std::string_view key) const;
  int64_t Number(std::string_view key) const;
  double Seconds(std::string_view key) const;
  int64_t Nanoseconds(std::string_view key) const;  // for seconds
  int64_t Age(std::string_view key) const;          // in seconds
  uint64_t Bytes(std::string_view key) const;
  RankRanges Ranks(std::string_view key) const;

  bool Given(std::string_view key) const;  // set on the command line, in the environment or in a file
  const std::vector<std::string>& operands() const { return operands_; }
  std::string operand() const { return operands_.empty() ? "" : operands_[0]; }
  const Merged& merged() const { return merged_; }

  // Returns an error that the table cannot detect, with how to get help.
  absl::Status Wrong(const std::string& text) const;

  bool help = false, version = false;
  bool config_files = true;  // whether configuration files were read

 private:
  const Row& RowOf(std::string_view key) const;
  const Value* Find(std::string_view key) const;
  template <typename T>
  T Typed(std::string_view key, bool (*parse)(std::string_view, T*)) const;

  const Verb* verb_;
  Merged merged_;
  std::vector<std::string> operands_;
};

// An error is one line: the problem, where the value was set if not on the command line, and how to get help. If an
// option is repeated, the last value counts; a list collects all values.
absl::StatusOr<ParsedOptions> Parse(std::string_view verb, const std::vector<std::string>& words);
absl::StatusOr<ParsedOptions> Parse(std::string_view verb, int argc, char** argv);

// Returns the exit status if the program is done: 2 after an error, 0 after --help or --version, 3 if standard output
// cannot be written. Otherwise returns nullopt and, if `tell`, prints warnings about configuration files.
std::optional<int> Finished(std::string_view verb, const absl::StatusOr<ParsedOptions>& options, bool tell = true);
// Prints "lockstep VERB: TEXT" to standard error and returns `exit_status`.
int Complain(std::string_view verb, absl::string_view text, int exit_status);
// Like Complain, for a command-line error, whose exit status is 2.
int UsageError(std::string_view verb, const absl::Status& status);

// The main function of a verb that reads files: parses its command line and calls `run`, unless Finished returns a
// status. SIGPIPE is ignored, so that writes fail if the reader of the output exits. If memory runs out, prints a
// message and returns 3.
int RunVerb(const char* verb, int argc, char** argv, int (*run)(const ParsedOptions&));

// The words of a command line, with checked option values. Files, the environment and the number of operands are not
// considered.
struct CommandLine {
  std::vector<Value> options;
  std::vector<std::string> operands;
  bool help = false, version = false, files = true;
};
absl::StatusOr<CommandLine> ReadCommandLine(const Verb& verb, const std::vector<std::string>& words);

}  // namespace lockstep::settings
