// When dumps were taken. They hold no time of their own: a file's time is an upper end, its newest record a lower one.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_TAKEN_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_TAKEN_H_

#include <cstdint>
#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Sets captured_ns or set_back of the file's rank where the time at which the file was written can be when it was
// taken: within a minute of its newest record, or as late as a watchdog that gave up on its oldest unfinished
// operation. `written_ns`: the file's modification time; 0 not known.
void SetTaken(int64_t written_ns, FileData* file);

// A job is dumped at once. Takes the times back from files that were written one after the other before any watchdog
// gave up: they are copies.
void DoubtTimesOfCopies(std::vector<FileData>* files);

// Where no file's time tells: a watchdog notices the end of an operation within a second or two, so an end that some
// ranks have noticed and others have not shows a job that was dumped while it ran. Then captured_ns is that of the
// newest record. Only ranks that came to all that the others came to count, and none may be behind in several groups:
// such a one may stand still.
void TellByUnnoticedEnds(Bundle* bundle);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_TAKEN_H_
