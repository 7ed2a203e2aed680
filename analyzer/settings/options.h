// The command line of a verb, parsed by the table: options and operands, merged with files and environment.
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

// Typed access by key ("late-after"). Unset options have the table's default, or empty, 0 or no. A key that the verb
// does not have, or that has another kind, is a bug and ends the program.
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

  // For errors that the table cannot detect.
  absl::Status Wrong(const std::string& text) const;

  bool help = false, version = false;
  bool config_files = true;  // configuration files were read

 private:
  const Row& RowOf(std::string_view key) const;
  const Value* Find(std::string_view key) const;
  template <typename T>
  T Typed(std::string_view key, bool (*parse)(std::string_view, T*)) const;

  const Verb* verb_;
  Merged merged_;
  std::vector<std::string> operands_;
};

// InvalidArgument with one line: the problem, where the value was set if not on the command line, and how to get help.
// If an option is repeated, the last one counts, or each if it is a list.
absl::StatusOr<ParsedOptions> Parse(std::string_view verb, const std::vector<std::string>& words);
absl::StatusOr<ParsedOptions> Parse(std::string_view verb, int argc, char** argv);

// The exit status if the program is done: after an error (2), --help or --version (0; 3 if standard output cannot be
// written). Otherwise returns nullopt and prints warnings about configuration files if `tell`.
std::optional<int> Finished(std::string_view verb, const absl::StatusOr<ParsedOptions>& options, bool tell = true);
// Prints "lockstep VERB: TEXT" to standard error, and returns `exit_status`.
int Complain(std::string_view verb, absl::string_view text, int exit_status);
// The same for an error of the command line, whose exit status is 2.
int UsageError(std::string_view verb, const absl::Status& status);

// Only splits the words: reads no files and no environment, and does not check the number of operands.
struct CommandLine {
  std::vector<Value> options;
  std::vector<std::string> operands;
  bool help = false, version = false, files = true;
};
absl::StatusOr<CommandLine> ReadCommandLine(const Verb& verb, const std::vector<std::string>& words);

}  // namespace lockstep::settings
