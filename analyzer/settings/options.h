// The command line of a verb, parsed by the table: options and operands, merged with files and environment.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_OPTIONS_H_
#define LOCKSTEP_ANALYZER_SETTINGS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/settings/merge.h"
#include "analyzer/settings/types.h"

namespace lockstep::settings {

// Typed access by key ("late-after"). Unset options have the table's default, or empty, 0 or no. A key that the verb
// does not have, or of another kind, is a bug and ends the program.
class ParsedOptions {
 public:
  ParsedOptions(const Verb& verb, Merged merged, std::vector<std::string> operands)
      : verb_(&verb), merged_(std::move(merged)), operands_(std::move(operands)) {}

  bool Flag(std::string_view key) const;
  std::string Text(std::string_view key) const;  // also of files, folders, choices and endpoints
  std::vector<std::string> List(std::string_view key) const;
  int64_t Number(std::string_view key) const;
  double Seconds(std::string_view key) const;
  int64_t Nanoseconds(std::string_view key) const;  // of seconds
  int64_t Age(std::string_view key) const;          // seconds
  uint64_t Bytes(std::string_view key) const;
  RankRanges Ranks(std::string_view key) const;

  bool Given(std::string_view key) const;  // set on the command line, in the environment or in a file
  const std::vector<std::string>& operands() const { return operands_; }
  std::string operand() const { return operands_.empty() ? "" : operands_[0]; }
  const Merged& merged() const { return merged_; }

  // For errors that the table cannot detect.
  absl::Status Wrong(const std::string& text) const;

  bool help = false, version = false;
  bool config_files = true;  // were read

 private:
  const Row& RowOf(std::string_view key) const;
  const Value* Find(std::string_view key) const;
  template <typename T>
  T Typed(std::string_view key, bool (*parse)(std::string_view, T*)) const;

  const Verb* verb_;
  Merged merged_;
  std::vector<std::string> operands_;
};

// InvalidArgument with one line: what is wrong, where it was set if not on the command line, and how to get help. Of a
// repeated option the last one counts, or each if it is a list.
absl::StatusOr<ParsedOptions> Parse(std::string_view verb, const std::vector<std::string>& words);
absl::StatusOr<ParsedOptions> Parse(std::string_view verb, int argc, char** argv);

// The exit status if the program is done: after an error (2), --help or --version (0; 3 if standard output cannot be
// written). Otherwise prints warnings about configuration files, with `tell`.
std::optional<int> Finished(std::string_view verb, const absl::StatusOr<ParsedOptions>& options, bool tell = true);
// Prints an error of the command line, and returns its exit status: 2.
int UsageError(std::string_view verb, const absl::Status& status);

// Only the words: no files, no environment, no check of the number of operands.
struct CommandLine {
  std::vector<Value> options;
  std::vector<std::string> operands;
  bool help = false, version = false, files = true;
};
absl::StatusOr<CommandLine> ReadCommandLine(const Verb& verb, const std::vector<std::string>& words);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_OPTIONS_H_
