// Names of signals.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// "9 (SIGKILL)"; only the number for signals that rarely end a process.
std::string SignalText(int64_t signal);

}  // namespace lockstep
