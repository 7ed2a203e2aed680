// Stack frames: parses the text of a frame, and finds the frame of the user's code.
#pragma once

#include <string>
#include <string_view>

#include "proto/verdict.pb.h"

namespace lockstep {

// Longer stacks are cut to this many frames.
constexpr int kMostStackFrames = 256;

// Parses a frame of dumps, digests and stacks.json: "read (io.c:12)", "[kernel] pipe_read+0x2a/0x50", "load
// (train.py:88)", "train.py:88 load". The only parser of these texts.
Frame ParseFrame(std::string_view text);

// Returns the frame's text without an offset ("+0x2a/0x50").
std::string_view WithoutOffset(std::string_view text);

// Returns "log_metrics() at train.py:402", without folders: the form of a place in all sentences.
std::string PlaceText(std::string_view frame);

// Returns whether the frame is the kernel's system-call entry point, which carries no information.
bool IsSystemCallEntry(std::string_view text);

// Returns the index of the user's code in a stack (innermost first); -1 if there is none. This is the innermost Python
// frame outside libraries; if there is none, the innermost Python frame. Without Python frames, it is the innermost
// native frame outside the kernel and the C library.
int CodeFrame(const google::protobuf::RepeatedPtrField<Frame>& frames);
// Returns the text of that frame without offset, at most 200 bytes; may be empty.
std::string CodePlace(const google::protobuf::RepeatedPtrField<Frame>& frames);

}  // namespace lockstep
