// Removes a site's own names of folders, files and functions from process evidence. Equal names get equal replacements,
// so stacks still merge and places are recognized again. Public names (the C library, NCCL, CUDA, Python, PyTorch and
// the like) stay, and so do the words that reveal an activity (analyzer/evidence/activity_rules.h). docs/security.md
// ("Redaction") describes it for users.
#ifndef LOCKSTEP_ANALYZER_EVIDENCE_REDACT_H_
#define LOCKSTEP_ANALYZER_EVIDENCE_REDACT_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"
#include "proto/dump.pb.h"

namespace lockstep {

enum class RedactLevel : uint8_t {
  kNo,
  kPaths,   // a path becomes HASH/its last part: 8 hexadecimal digits of a keyed hash
  kStacks,  // also file names, functions and thread names, all but public ones
};

// "no", "paths", "stacks".
const char* RedactLevelName(RedactLevel level);
absl::StatusOr<RedactLevel> ParseRedactLevel(std::string_view text);

// Immutable, may be used from several threads. What it has made already it leaves alone.
class Redactor {
 public:
  Redactor() = default;  // takes nothing out
  // A key of any length; it is as secret as it is long.
  Redactor(RedactLevel level, std::string_view key);

  RedactLevel level() const { return level_; }
  bool on() const { return level_ != RedactLevel::kNo; }

  // A field that is a path as a whole.
  std::string Path(std::string_view path) const;
  // A text for people: the words in it that look like paths. A folder's name with blanks in it is more than one word.
  std::string Text(std::string_view text) const;
  // A line of the kernel's log: also the names of programs and threads, at kStacks.
  std::string KernelLine(std::string_view text) const;
  // A frame as process_evidence.h writes it, where only its text is left.
  std::string Frame(std::string_view text) const;
  // "train.py:812 forward", of a framework's recorder.
  std::string CallSite(std::string_view text) const;
  // A command line: the program's and the arguments' paths; at kStacks the arguments go.
  std::vector<std::string> Command(const std::vector<std::string>& words) const;
  // Names of threads; empty at kStacks.
  std::string ThreadName(std::string_view name) const;

  void Redact(ProcessState* process) const;
  void Redact(Process* process) const;
  // Everything in a bundle that may contain such names.
  void Redact(Bundle* bundle) const;

 private:
  std::string Hash(std::string_view text) const;
  std::string Function(const StackFrame& frame, std::string_view module) const;
  void Redact(ProcessEvidence* evidence) const;
  bool IsDone(const ProcessEvidence& evidence) const;

  RedactLevel level_ = RedactLevel::kNo;
  std::array<unsigned char, 32> key_{};
};

// The source of the key: the first redact.key (at least 16 bytes, readable by its owner alone) of $LOCKSTEP_KEYS,
// ~/.config/lockstep/keys and /etc/lockstep/keys; else `other`, a file that the same hosts share; else a random one,
// and equal names are equal in this process alone. *from names the source for messages. PermissionDenied: others may
// read a key.
absl::StatusOr<Redactor> MakeRedactor(RedactLevel level, const std::string& other, std::string* from);

// What leaves this process about processes of this host goes through it. Set before other threads start; without that
// nothing is taken out.
void SetHostRedaction(const Redactor& redactor);
const Redactor& HostRedaction();

// How far the bundle's evidence was redacted: "paths", "stacks"; empty: not at all.
std::string RedactionOf(const Bundle& bundle);
// One line for a report; empty where nothing was taken out.
std::string RedactionLine(const Bundle& bundle);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_EVIDENCE_REDACT_H_
