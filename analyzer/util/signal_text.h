// Names of signals.
#ifndef LOCKSTEP_ANALYZER_UTIL_SIGNAL_TEXT_H_
#define LOCKSTEP_ANALYZER_UTIL_SIGNAL_TEXT_H_

#include <cstdint>
#include <string>

namespace lockstep {

// "9 (SIGKILL)"; only the number for a signal that seldom ends a process.
std::string SignalText(int64_t signal);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_SIGNAL_TEXT_H_
