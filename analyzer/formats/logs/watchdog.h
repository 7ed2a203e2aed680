// Reads lines that the watchdog of PyTorch's NCCL process groups prints about one group in one process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/model/bundle.h"

namespace lockstep::logs {

struct WatchdogLine {
  // In "[PG ID 0 PG GUID 0(default_pg) Rank 1]", the GUID is the group's name in the whole job. Empty if the line names
  // no group.
  std::string group, desc;
  // In "[PG 1 Rank 0]", some releases print a number that each process counts itself, so one number may mean different
  // groups on different ranks.
  bool numbered = false;
  int32_t inside = -1;  // rank inside the group; if the line names no group, the number in "[Rank 1]"
  // "last enqueued work: 20, last completed work: 18". kNone: none yet.
  int64_t enqueued = kUnknown, completed = kUnknown;
  // The operation that timed out: "WorkNCCL(SeqNum=19, OpType=ALLREDUCE, ..)". Old releases print no number.
  bool caught = false;
  int64_t seq = kUnknown;
  std::string op;
  int64_t elements_in = -1, elements_out = -1;
  int64_t timeout_ms = 0, ran_ms = 0;
  int64_t failed_at = kUnknown;  // "at work: 19", "at work sequence id: 19"
  bool own_timeout = false;      // "a dump signal due to a collective timeout from this local rank"
  int32_t signalled_by = -1;     // "a dump signal due to a collective timeout from rank 1"
  int64_t printed_ns = 0;        // its time stamp, without the year; 0 if there is none
  std::string call_site;         // "train.py:812 forward", from the following lines; empty if not printed
};

// Returns nullopt if the line is not from the watchdog, or does not show a group's progress.
std::optional<WatchdogLine> ParseWatchdog(std::string_view text);

// A line from the thread that monitors the watchdog.
struct MonitorLine {
  enum class What {
    kStuck,    // the watchdog does not return from a CUDA or NCCL call
    kLocked,   // the interpreter lock could not be acquired
    kNoStore,  // the store could not be reached any more
  };
  What what = What::kStuck;
  int64_t seconds = 0;         // for kStuck; 0 if not printed
  int32_t rank_of_whole = -1;  // rank in the group of all ranks; -1 if the line is about another group
};
std::optional<MonitorLine> ParseMonitor(std::string_view text);

// "[PG 0 Rank 3] Process group watchdog thread terminated with exception: CUDA error: ..".
struct EndedWatchdog {
  std::string_view error;
  int32_t rank_of_whole = -1;  // rank in the job, or in a group that the line does not name
};
// Returns nullopt for any other line, also if the watchdog only reports a timeout.
std::optional<EndedWatchdog> ParseEndedWatchdog(std::string_view text);

// "#2 forward from /app/train.py:812" in "Stack trace of the failed collective", innermost first.
struct TraceLine {
  std::string place;  // "train.py:812 forward"
  bool torch = false;
};
std::optional<TraceLine> ParseTraceLine(std::string_view text);

}  // namespace lockstep::logs
