// How an operator can stop the recorder: files that switch it off on a host, and a list of excluded programs and NCCL
// versions. The size of the files is limited, and they can only stop recording.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder {

// Sets the folder of FOLDER/off: LOCKSTEP_DIR or its default. Call it once, before OffFile.
void SetOffFiles(const char* folder) noexcept;

// Returns the first of /etc/lockstep/off, /run/lockstep/off and FOLDER/off that exists, or null. Costs one system call
// per file.
const char* OffFile() noexcept;

// Returns whether this is a set-uid or otherwise privileged program, whose environment another user controls.
bool PrivilegedProgram() noexcept;

// Returns whether /etc/lockstep/deny or LOCKSTEP_DENY names this program or NCCL's version; `reason` names the source
// and what matched. Calls `version` only if a rule needs it.
bool Denied(int32_t (*version)(), char* reason, size_t reason_bytes) noexcept;

// Like Denied, for one source; exposed for tests. `text` has rules separated by newlines or semicolons: `exe GLOB`,
// `nccl VERSION` or `nccl FROM-TO`.
bool DeniedBy(const char* text, size_t bytes, const char* source, const char* program, int32_t (*version)(),
              char* reason, size_t reason_bytes) noexcept;
// Returns whether the whole text matches a shell pattern of *, ? and plain characters. The time is at most the product
// of the two lengths.
bool MatchesGlob(const char* pattern, size_t pattern_bytes, const char* text) noexcept;

}  // namespace lockstep::recorder
