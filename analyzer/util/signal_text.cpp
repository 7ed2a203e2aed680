#include "analyzer/util/signal_text.h"

#include <signal.h>

#include "absl/strings/str_cat.h"

namespace lockstep {

std::string SignalText(int64_t signal) {
  switch (signal) {
    case SIGHUP: return "1 (SIGHUP)";
    case SIGINT: return "2 (SIGINT)";
    case SIGQUIT: return "3 (SIGQUIT)";
    case SIGILL: return "4 (SIGILL)";
    case SIGABRT: return "6 (SIGABRT)";
    case SIGBUS: return "7 (SIGBUS)";
    case SIGFPE: return "8 (SIGFPE)";
    case SIGKILL: return "9 (SIGKILL)";
    case SIGSEGV: return "11 (SIGSEGV)";
    case SIGTERM: return "15 (SIGTERM)";
    default: return absl::StrCat(signal);
  }
}

}  // namespace lockstep
