// Lines that the watchdog of PyTorch's NCCL process groups prints about one group of one process.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_WATCHDOG_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_WATCHDOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/model/bundle.h"

namespace lockstep::logs {

struct WatchdogLine {
  // "[PG ID 0 PG GUID 0(default_pg) Rank 1]": the GUID is the group's name in the whole job. Empty: the line names no
  // group.
  std::string group, desc;
  int32_t inside = -1;  // rank inside the group; for a line without a group, the number in "[Rank 1]"
  // "last enqueued work: 20, last completed work: 18". kNone: none yet.
  int64_t enqueued = kUnknown, completed = kUnknown;
  // "WorkNCCL(SeqNum=19, OpType=ALLREDUCE, ..)" that timed out.
  int64_t seq = kUnknown;
  std::string op;
  int64_t elements_in = -1, elements_out = -1;
  int64_t timeout_ms = 0, ran_ms = 0;
  int64_t failed_at = kUnknown;  // "at work: 19", "at work sequence id: 19"
  int32_t signalled_by = -1;     // "a dump signal due to a collective timeout from rank 1"
  int64_t printed_ns = 0;        // its time stamp, without year; 0: none
  std::string call_site;         // "train.py:812 forward", from the following lines; empty: not printed
};

// Nothing if the line is not the watchdog's, or contains no progress of a group.
std::optional<WatchdogLine> ParseWatchdog(std::string_view text);

// "#2 forward from /app/train.py:812" of "Stack trace of the failed collective", innermost first.
struct TraceLine {
  std::string place;  // "train.py:812 forward"
  bool torch = false;
};
std::optional<TraceLine> ParseTraceLine(std::string_view text);

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_WATCHDOG_H_
