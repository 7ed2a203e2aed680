// The protocol between the disposable children and their parent: ProcessEvidence messages, each preceded by its length.
// Each message adds to the earlier ones, so that data before a crash or a deadline is kept.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_CHILD_PIPE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_CHILD_PIPE_H_

#include <string>
#include <string_view>

#include "proto/process.pb.h"

namespace lockstep {

constexpr size_t kMostChildMessage = 32 << 20;
constexpr size_t kMostChildBytes = 256 << 20;

// Writes the whole message. False: the reader is gone.
bool WriteEvidence(int fd, const ProcessEvidence& evidence);

// Takes the complete messages off the front of *buffer and adds them to *evidence: threads replace earlier ones of
// their number, the lists of modules and GPUs replace earlier lists. False: the data is no such message.
bool TakeMessages(std::string* buffer, ProcessEvidence* evidence);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_CHILD_PIPE_H_
