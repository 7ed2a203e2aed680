// Where a process is by its stacks and its state alone, when nothing recorded its calls: in a wait for other ranks or
// for its GPU, or somewhere else.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_PROCESS_PLACE_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_PROCESS_PLACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

enum class Whereabouts : uint8_t {
  kUnknown,    // no stack
  kWaits,      // for other ranks, or for its GPU
  kElsewhere,  // in its own code, or in a library that waits for no rank
  kStopped,    // by a signal or a debugger
  kEnded,
};

struct ProcessPlace {
  Whereabouts where = Whereabouts::kUnknown;
  bool twice = false;  // two looks were taken
  bool moved =
      false;  // of kWaits: another wait, or none, at the second look. Else: it uses CPU or I/O, or its stack changed
  bool works = false;  // of kWaits: it uses CPU, but less than a wait that spins: it may have moved and come back
  std::string wait;    // of kWaits: the function it waits in
};

// Whether a frame, as stacks hold it, is a wait for other ranks or for a GPU.
bool IsPeerWait(std::string_view frame);

ProcessPlace PlaceOfProcess(const Process& process);

// Whether no call of these ranks is known, but stacks are, or why there are none.
bool OnlyProcessesKnown(const Bundle& bundle);
// Whether the process of each rank was looked at while it ran, and no recorder was in it.
bool ProcessesLookedAt(const Bundle& bundle);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_PROCESS_PLACE_H_
