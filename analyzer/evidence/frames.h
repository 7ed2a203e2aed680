// Stack frames: parses the text of a frame, and finds the frame of the user's code.
#ifndef LOCKSTEP_ANALYZER_EVIDENCE_FRAMES_H_
#define LOCKSTEP_ANALYZER_EVIDENCE_FRAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// Parses a frame of dumps, digests and stacks.json: "read (io.c:12)", "[kernel] pipe_read+0x2a/0x50", "load
// (train.py:88)", "train.py:88 load". The only parser of these texts.
Frame ParseFrame(std::string_view text);

// The frame's text without an offset ("+0x2a/0x50").
std::string_view WithoutOffset(std::string_view text);

// "log_metrics() at train.py:402", without folders: the form of a place in every sentence.
std::string PlaceText(std::string_view frame);

// Whether the frame is the kernel's entry of system calls, which carries no information.
bool IsSystemCallEntry(std::string_view text);

// The place of the user's code in a stack (innermost first): the innermost Python frame outside libraries, else the
// innermost Python frame, else the innermost native frame outside the kernel and the C library. Without offset, at most
// 200 bytes; empty: the stack has none of these.
std::string CodePlace(const google::protobuf::RepeatedPtrField<Frame>& frames);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_EVIDENCE_FRAMES_H_
