// The protocol between the disposable children and their parent: ProcessEvidence messages, each preceded by its length.
// Each message adds to the earlier ones, so data from before a crash or a deadline is kept.
#pragma once

#include <string>

#include "proto/process.pb.h"

namespace lockstep {

constexpr size_t kMostChildMessage = 32 << 20;
constexpr size_t kMostChildBytes = 256 << 20;

// Writes the whole message. Returns false if the reader has exited or the message is too large.
bool WriteEvidence(int fd, const ProcessEvidence& evidence);

// Moves the complete messages from the front of *buffer to *evidence. A thread's entry replaces its earlier entry (same
// thread ID); lists of modules and GPUs replace earlier lists. Returns false if the data is invalid.
bool TakeMessages(std::string* buffer, ProcessEvidence* evidence);

}  // namespace lockstep
