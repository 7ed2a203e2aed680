// Stack frames: what the text of one says, and which of a stack tells where the code is.
#ifndef LOCKSTEP_ANALYZER_EVIDENCE_FRAMES_H_
#define LOCKSTEP_ANALYZER_EVIDENCE_FRAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// Of a frame as dumps, digests and stacks.json hold it: "read (io.c:12)", "[kernel] pipe_read+0x2a/0x50",
// "load (train.py:88)", "train.py:88 load". The one reader of these texts.
Frame ParseFrame(std::string_view text);

// The frame's text without an offset ("+0x2a/0x50").
std::string_view WithoutOffset(std::string_view text);

// "log_metrics() at train.py:402", without folders: how every sentence names a place in the code.
std::string PlaceText(std::string_view frame);

// Whether the frame is the kernel's entry of system calls, which says nothing.
bool IsSystemCallEntry(std::string_view text);

// Where a stack (innermost first) is in the user's code: the innermost Python frame that is no library's, else the
// innermost Python frame, else the innermost native frame that is neither the kernel's nor the C library's. Without
// offset, at most 200 bytes; empty: the stack says nothing of the kind.
std::string CodePlace(const google::protobuf::RepeatedPtrField<Frame>& frames);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_EVIDENCE_FRAMES_H_
