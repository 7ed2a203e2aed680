#include "analyzer/model/finding_kinds.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr char kCallSites[] =
    "the program at the call sites above, to see which side does the same as other ranks with its role; longer records "
    "if they were overwritten";
constexpr char kStacks[] = "the named ranks' stacks, taken twice, to see which of them waits for another";
constexpr char kTimes[] =
    "times of each rank's own computation (the profiler), clocks and temperatures of the named GPUs";
constexpr char kOrders[] = "the program at the call sites above, to see which of these orders is intended";
constexpr char kMismatch[] = "code mismatch";

constexpr FindingFacts CallsDiffer(FindingKind kind, const char* argument) {
  return {.kind = kind,
          .order = 7,
          .verdict = VERDICT_DESYNC,
          .cause = kMismatch,
          .differs = argument,
          .definite = true,
          .tells_apart = kCallSites};
}

constexpr FindingFacts kFindings[] = {
    {.kind = FINDING_UNSPECIFIED, .order = 7, .tells_apart = kCallSites},
    {.kind = RANK_DEAD,
     .order = 0,
     .verdict = VERDICT_CRASHED,
     .cause = "dead",
     .one_broken_thing = true,
     .tells_apart = "exit times and the last log lines of each process, to see which one ended first"},
    {.kind = HOST_STALL,
     .order = 1,
     .cause = "host",
     .rests_on_flight = true,
     .host_shows_why = true,
     .one_broken_thing = true,
     .tells_apart = kStacks},
    {.kind = GROUP_LEFT_OPEN,
     .order = 2,
     .cause = kMismatch,
     .tells_apart = "stacks of the named ranks, to see which of them are between the group's start and its end"},
    {.kind = GPU_STALL,
     .order = 3,
     .cause = "gpu",
     .rests_on_flight = true,
     .one_broken_thing = true,
     .tells_apart = "Xid errors and a kernel trace of each named GPU; GPU progress markers (LOCKSTEP_GPU=full: which "
                    "of them did not start)"},
    {.kind = RANK_AHEAD,
     .order = 4,
     .verdict = VERDICT_DESYNC,
     .cause = kMismatch,
     .rests_on_flight = true,
     .tells_apart = kCallSites},
    {.kind = RANK_NOT_ARRIVED,
     .order = 5,
     .cause = "late",
     .rests_on_flight = true,
     .host_shows_why = true,
     .one_broken_thing = true,
     .tells_apart = kStacks},
    {.kind = INIT_INCOMPLETE,
     .order = 6,
     .cause = "late",
     .rests_on_flight = true,
     .host_shows_why = true,
     .tells_apart = kStacks},
    CallsDiffer(MISMATCH_KIND, "kind"),
    CallsDiffer(MISMATCH_COUNT, "count"),
    CallsDiffer(MISMATCH_DATATYPE, "datatype"),
    CallsDiffer(MISMATCH_REDUCTION, "reduction"),
    CallsDiffer(MISMATCH_ROOT, "root"),
    CallsDiffer(MISMATCH_SPLITS, "splits"),
    {.kind = SPLIT_MISMATCH,
     .order = 7,
     .verdict = VERDICT_DESYNC,
     .cause = kMismatch,
     .definite = true,
     .tells_apart = "the colors and keys that the program intended, and those that each named rank passed"},
    {.kind = P2P_UNMATCHED,
     .order = 7,
     .cause = kMismatch,
     .rests_on_flight = true,
     .tells_apart = "both sides' program at that place: an extra or missing send or receive, or one with another peer"},
    {.kind = ORDER_INVERSION,
     .order = 8,
     .verdict = VERDICT_DESYNC,
     .cause = kMismatch,
     .definite = true,
     .alike_is_one = false,
     .tells_apart = kOrders},
    {.kind = DEADLOCK_CYCLE,
     .order = 9,
     .cause = kMismatch,
     .definite = true,
     .rests_on_flight = true,
     .alike_is_one = false,
     .tells_apart = kOrders},
    {.kind = COLLECTIVE_STUCK,
     .order = 10,
     .cause = "network or gpu",
     .rests_on_flight = true,
     .alike_is_one = false,
     .tells_apart = "the profiler's network steps, link and Xid errors of the named ranks' hosts"},
    {.kind = RANK_NO_DATA,
     .order = 11,
     .verdict = VERDICT_INCOMPLETE_DATA,
     .cause = "no data",
     .tells_apart = "the dumps of the named ranks, or their hosts' process lists and kernel logs"},
    {.kind = SILENT_DESYNC,
     .order = 12,
     .verdict = VERDICT_DESYNC,
     .cause = kMismatch,
     .definite = true,
     .tells_apart = "a longer record of the named ranks (a larger ring), or running the job under `lockstep run`, "
                    "which records the call itself"},
    {.kind = ASYNC_ERROR,
     .order = 13,
     .cause = "network",
     .definite = true,
     .one_broken_thing = true,
     .tells_apart =
         "the named ranks' NCCL logs (NCCL_DEBUG=WARN), to see which rank reported first and which peer its log names"},
    {.kind = SLOW_HOST, .order = 14, .verdict = VERDICT_SLOW, .cause = "host", .tells_apart = kTimes},
    {.kind = STRAGGLER, .order = 14, .verdict = VERDICT_SLOW, .cause = "late", .tells_apart = kTimes},
    {.kind = SLOW_LINK, .order = 14, .verdict = VERDICT_SLOW, .cause = "network", .tells_apart = kTimes},
};

}  // namespace

const FindingFacts& FindingFactsOf(FindingKind kind) {
  const auto* found = std::find_if(std::begin(kFindings), std::end(kFindings),
                                   [kind](const FindingFacts& facts) { return facts.kind == kind; });
  return found == std::end(kFindings) ? kFindings[0] : *found;
}

}  // namespace lockstep
