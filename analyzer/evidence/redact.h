// Removes a site's own names of folders, files and functions from process evidence. Equal names get equal replacements,
// so stacks still merge and places are recognized again. Public names stay (the C library, NCCL, CUDA, Python, PyTorch
// and similar). The words that reveal an activity stay, too (analyzer/evidence/activity_rules.h). docs/security.md
// ("Redaction") describes it for users.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/model/bundle.h"
#include "proto/dump.pb.h"

namespace lockstep {

enum class RedactLevel : uint8_t {
  kNo,
  kPaths,   // a path becomes HASH/NAME: 8 digits of a keyed hash of the path, and its last part
  kStacks,  // also file names, functions and thread names, except public ones
};

// Returns whether the path begins with a public package or Python's own library: "torch/serialization.py",
// "python3.11/threading.py".
bool IsPublicPackage(std::string_view path);

// "no", "paths", "stacks".
const char* RedactLevelName(RedactLevel level);
absl::StatusOr<RedactLevel> ParseRedactLevel(std::string_view text);

// Immutable and usable from several threads. Leaves names that are already redacted unchanged.
class Redactor {
 public:
  Redactor() = default;  // redacts nothing
  // The key may have any length; longer keys are safer.
  Redactor(RedactLevel level, std::string_view key);

  RedactLevel level() const { return level_; }
  bool on() const { return level_ != RedactLevel::kNo; }

  // Redacts a field that contains one path.
  std::string Path(std::string_view path) const;
  // Redacts "/mnt/lustre (lustre)", except the type.
  std::string Mount(std::string_view mount) const;
  // Redacts the words in free text that look like paths. A folder name with blanks is more than one word.
  std::string Text(std::string_view text) const;
  // Redacts a line of the kernel's log; at kStacks also the names of programs and threads.
  std::string KernelLine(std::string_view text) const;
  // Redacts a frame's text, in the form of FrameText.
  std::string Frame(std::string_view text) const;
  // Redacts a call site from a framework's recorder: "train.py:812 forward".
  std::string CallSite(std::string_view text) const;
  // Redacts the paths of the program and the arguments in a command line; at kStacks it drops the arguments.
  std::vector<std::string> Command(const std::vector<std::string>& words) const;
  // Returns the name; "" at kStacks.
  std::string ThreadName(std::string_view name) const;

  void Redact(ProcessState* process) const;
  void Redact(Process* process) const;
  void Redact(MergedStacks* stacks) const;
  // Redacts everything in a bundle that may contain such names.
  void Redact(Bundle* bundle) const;

 private:
  std::string Hash(std::string_view text) const;
  std::string Function(const StackFrame& frame, std::string_view module) const;
  void Redact(ProcessEvidence* evidence) const;
  bool IsDone(const ProcessEvidence& evidence) const;

  RedactLevel level_ = RedactLevel::kNo;
  std::array<unsigned char, 32> key_{};
};

// Uses the first redact.key in $LOCKSTEP_KEYS, ~/.config/lockstep/keys and /etc/lockstep/keys. The second choice is
// `other`, a file that the same hosts share. The last is a random key: equal names are then equal only within this
// process. *from, if given, names the source for messages. Fails if an existing key file cannot be opened
// (PermissionDenied also if it is accessible to anyone but its owner), or if its key is shorter than 16 bytes
// (InvalidArgument).
absl::StatusOr<Redactor> MakeRedactor(RedactLevel level, const std::string& other = "", std::string* from = nullptr);

// Sets the redactor for all data about this host's processes that leaves this process. Call it before other threads
// start. Without it, nothing is redacted.
void SetHostRedaction(const Redactor& redactor);
const Redactor& HostRedaction();

// Returns the redaction level of the bundle's evidence: "paths", "stacks"; empty if there is none.
std::string RedactionOf(const Bundle& bundle);
// Returns a line about the redaction for a report; empty if nothing is redacted.
std::string RedactionLine(const Bundle& bundle);

}  // namespace lockstep
