// An operator's ways to stop the recorder: files that switch it off on a host, and a list of excluded programs and NCCL
// versions. Files are read with bounds, and can only stop recording.
#ifndef LOCKSTEP_RECORDER_BASE_SWITCHES_H_
#define LOCKSTEP_RECORDER_BASE_SWITCHES_H_

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder {

// The files whose presence stops recording on the host; `folder` is LOCKSTEP_DIR or its default. Set once, before
// OffFile, so that the check each second costs only a system call for each.
void SetOffFiles(const char* folder) noexcept;

// The first existing one of /etc/lockstep/off, /run/lockstep/off and FOLDER/off, else null.
const char* OffFile() noexcept;

// A set-uid or otherwise privileged program: another user controls its environment.
bool PrivilegedProgram() noexcept;

// Whether /etc/lockstep/deny or LOCKSTEP_DENY names this program or NCCL's version; `reason` quotes the line. `version`
// is called only if a line needs it.
bool Denied(int32_t (*version)(), char* reason, size_t reason_bytes) noexcept;

// For tests. `text` holds lines or words separated by semicolons: `exe GLOB`, `nccl VERSION` or `nccl FROM-TO`.
bool DeniedBy(const char* text, size_t bytes, const char* source, const char* program, int32_t (*version)(),
              char* reason, size_t reason_bytes) noexcept;
// Shell patterns of *, ? and plain characters; linear in time for one star, never worse than pattern times text.
bool MatchesGlob(const char* pattern, size_t pattern_bytes, const char* text) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_SWITCHES_H_
