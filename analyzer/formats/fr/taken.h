// Determines when a dump was taken. It contains no time itself: not before its newest entry, and not after its file was
// written.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_TAKEN_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_TAKEN_H_

#include <cstdint>
#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Sets captured_ns, or set_back, of the file's rank if the file's modification time can be the time of the dump: within
// a minute of the newest entry, or just after the timeout of the oldest unfinished operation. `written_ns` 0: unknown.
void SetTaken(int64_t written_ns, FileData* file);

// All ranks of a job are dumped at once. Clears captured_ns if the files were written one after the other before any
// timeout: they are copies.
void DoubtTimesOfCopies(std::vector<FileData>* files);

// For dumps without captured_ns. A watchdog notices a completion within a second or two. If one rank has recorded a
// completion and another has not, the job was dumped while it ran: captured_ns becomes the time of the newest entry.
// Does nothing if such a rank is also missing from a later call, or is behind in several groups: it may be stuck.
void TellByUnnoticedEnds(Bundle* bundle);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_TAKEN_H_
