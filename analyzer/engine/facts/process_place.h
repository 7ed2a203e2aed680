// Determines from stacks and state whether a process without recorded calls waits for other ranks, waits for its GPU,
// or does something else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

enum class Whereabouts : uint8_t {
  kUnknown,    // no stack, or a stack that does not show the place
  kWaits,      // waits for other ranks or for its GPU
  kElsewhere,  // in its own code, or in a library that does not wait for a rank
  kStopped,    // stopped by a signal or a debugger
  kEnded,
};

struct ProcessPlace {
  Whereabouts where = Whereabouts::kUnknown;
  bool twice = false;  // whether two samples were taken
  // For kWaits: the second sample shows a different wait, or none. Otherwise: the process uses CPU or I/O, or its stack
  // changed.
  bool moved = false;
  // For kWaits: the process uses CPU, but less than a spinning wait does, so it may have left the wait and returned.
  bool works = false;
  std::string wait;  // for kWaits: the function in which it waits
};

// Returns the outermost frame that `is` accepts, and its callers; empty if there is none.
std::vector<std::string> OutermostAndCallers(const std::vector<std::string>& stack, bool (*is)(std::string_view frame));

// Returns whether a stack frame is a wait for other ranks or for a GPU.
bool IsPeerWait(std::string_view frame);

// Returns whether the process ended or disappeared.
inline bool HasEnded(const Process& process) {
  return process.life == Life::kExited || process.life == Life::kKilled || process.life == Life::kGone;
}

google::protobuf::RepeatedPtrField<Frame> ParseFrames(const std::vector<std::string>& stack);

bool HasCalls(const Rank& rank);

ProcessPlace PlaceOfProcess(const Process& process);

// Returns whether no calls are known, and the data contains a stack or other evidence from a process.
bool OnlyProcessesKnown(const Bundle& bundle);
// Returns whether each rank's process was examined or has ended, at least one was examined, and none had the recorder.
bool ProcessesLookedAt(const Bundle& bundle);

}  // namespace lockstep
