// What a program is told by files, by the environment and by its options, in this order: what comes later counts.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_MERGE_H_
#define LOCKSTEP_ANALYZER_SETTINGS_MERGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/settings/file.h"
#include "analyzer/settings/table.h"

namespace lockstep::settings {

struct Value {
  const Row* row = nullptr;
  std::string text;
  std::string from;  // "/etc/lockstep.conf, line 3", "LOCKSTEP_SPOOL", "--spool"
  int layer = 0;     // the higher counts
};

struct Merged {
  // What the program's own parser takes: in front, as options, what files and environment say and no option does.
  std::vector<std::string> words;
  std::vector<Value> values;  // all that is set, in the table's order; a list given as options: its words with blanks
  std::vector<std::string> told;              // what was not understood in files, for standard error
  std::vector<File> files;                    // those that were looked for
  bool Given(std::string_view option) const;  // on the command line itself
  // `problem`, and where the option that it begins with was said if that was not on the command line.
  std::string Explain(std::string problem) const;
};

// Of `section` (a verb, or "recorder" with no words). Settings without an option go into this process's environment.
// With
// --help or --version among the words nothing is read. `--no-config` is taken out: no file is read then. A flag that
// was set elsewhere is taken back by --FLAG=no. InvalidArgument and the like name what is wrong, where, and what to do.
absl::StatusOr<Merged> Merge(std::string_view section, std::vector<std::string> words);

// The told ones, a line each, on standard error.
void Tell(const Merged& merged);

// The files in force: kConfigFile (or what tests put in its place), then the one that LOCKSTEP_CONFIG names.
absl::StatusOr<std::vector<File>> ReadFiles();

// Words as main() has them, with `program` in front. Not to be moved while argv is used.
class Arguments {
 public:
  Arguments(std::string program, std::vector<std::string> words);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  int argc() const { return static_cast<int>(words_.size()); }
  char** argv() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_MERGE_H_
