// Lines about a job in `lockstep top`, in addition to its tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/detect/detector.h"

namespace lockstep {

struct TimedLine {
  int64_t at_ns = 0;  // on the collector's clock; 0 if the line has no time
  std::string text;
};
// Appends a line, and drops the oldest ones beyond 32.
void Keep(std::vector<TimedLine>* lines, TimedLine line);
// Returns "12 s ago: text".
std::string WithAge(const TimedLine& line, int64_t now);

// Returns "tp_217 #9,001,423".
std::string OperationText(const Decision& decision);
// Returns "tp_217 #9,001,423: rank 1736 missing for 5.1 s (limit 5.0 s)".
std::string LateText(const Decision& decision);

// Facts about hosts from a bundle's evidence, without stacks. Each fact appears once, even if several ranks of a host
// reported it.
struct HostFindings {
  std::vector<TimedLine> hardware;  // "dgx0217: Xid 79 on GPU 0: ...", newest first for each host
  // What could not be read, and libraries in stacks with traffic that is not recorded.
  std::vector<std::string>
      blind;  // "hardware errors not read on dgx0217, dgx0218 and 3 more: why", one line for each reason
};
// `now` is the approximate time of the evidence. Each list has at most `most` lines.
HostFindings FindingsOfHosts(const Bundle& bundle, int64_t now, size_t most);

}  // namespace lockstep
