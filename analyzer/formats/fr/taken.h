// Determines when a dump was taken. The dump does not contain this time, which lies between its newest entry and the
// modification time of its file.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Sets captured_ns, or set_back, of the file's rank if the dump can have been taken at the file's modification time.
// That is within a minute of the newest entry, or just after the timeout of the oldest unfinished operation.
// `written_ns` is 0 if unknown.
void SetTaken(int64_t written_ns, FileData* file);

// Returns whether the file's oldest unfinished operation had passed its timeout when the dump was taken.
bool TimedOut(const FileData& file);

// All ranks of a job are dumped at once. If files were written one after the other before any timeout, they are copies,
// and captured_ns is cleared.
void DoubtTimesOfCopies(std::vector<FileData>* files);

// Does nothing if any file has captured_ns. A watchdog notices a completion within a second or two, and a stuck job
// completes nothing. If the watchdogs of half of the files had not noticed completions, the job was dumped while it
// ran, so captured_ns becomes the time of the file's newest entry.
void TellByUnnoticedEnds(std::vector<FileData>* files);

// The same for dumps that are already merged. If only some ranks have recorded a recent completion, the job was dumped
// while it ran. A rank that is also missing a later call may be stuck, so it does not count. Does nothing if a rank is
// behind in several groups.
void TellByUnnoticedEnds(Bundle* bundle);

}  // namespace lockstep::fr
