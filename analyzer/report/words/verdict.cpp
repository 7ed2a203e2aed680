#include "analyzer/report/words/verdict.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/report/words/reasons.h"
#include "analyzer/report/words/start_up.h"
#include "analyzer/report/words/words.h"
#include "analyzer/util/numbers.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/signal_text.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

std::string SecondsText(int64_t ns) { return absl::StrFormat("%.0f s", static_cast<double>(ns) / 1e9); }

std::string NotWrappedText(const Detail& detail) {
  std::string text = absl::StrCat("NCCL ", detail.name(), " on ", RankNames(detail.ranks()));
  const bool newer = !detail.other_name().empty();
  if (newer) absl::StrAppend(&text, " is newer than the recorder, which supports NCCL up to ", detail.other_name());
  if (detail.count() == 0)
    return absl::StrCat(text,
                        ": the recorder supports all functions of this version, but not new fields in their arguments");
  std::vector<std::string> names;
  for (const std::string& name : detail.members()) names.push_back(Printable(name, 64));
  const int64_t more = std::max<int64_t>(detail.count() - detail.members_size(), 0);
  if (names.empty()) {
    names.push_back(absl::StrCat(more, " functions"));
  } else if (more > 0) {
    names.back() += absl::StrCat(" and ", more, " more");
  }
  return absl::StrCat(text, newer ? ": " : " has functions that the recorder does not support: ", "calls to ",
                      absl::StrJoin(names, ", "), " are not recorded");
}

std::string WhyNot(const NotTheCause& ruled_out) {
  const Detail& detail = ruled_out.detail();
  const char* members = detail.flag() ? "all members that left data are in " : "all members are in ";
  switch (ruled_out.not_yet()) {
    case NotTheCause::NOT_BEGUN:
      if (detail.flag())
        return absl::StrCat(detail.ranks_size() == 1 ? "the GPU of " : "the GPUs of ", RankNames(detail.ranks()),
                            detail.ranks_size() == 1 ? " has" : " have", " not started ", CallText(detail.call()),
                            ", but finished other work just before; look again in a minute");
      return absl::StrCat("no GPU has started ", CallText(detail.call()),
                          ", because other GPU work is queued before it; look again in a minute");
    case NotTheCause::CONNECTING:
      return absl::StrCat(members, CallText(detail.call()),
                          ", the first operation of its communicator; look again in a minute");
    case NotTheCause::CONNECTING_UNSEEN:
      return absl::StrCat(members, "the first operation of ", detail.name(),
                          ", whose record is gone; look again in a minute");
    default: break;
  }
  switch (ruled_out.what()) {
    case NotTheCause::NETWORK: return "in each stuck operation, at least one member is missing";
    case NotTheCause::GPU: return "the earlier operations of the named ranks are complete or wait for other ranks";
    case NotTheCause::CRASH:
      return absl::StrCat(detail.flag() ? "PyTorch's watchdog" : "a watchdog", " ended ",
                          Counted(detail.ranks_size(), "process", "processes"), " (", RankNames(detail.ranks()),
                          "; SIGABRT) after ", WholeDurationText(detail.duration_ns()),
                          " in an operation that did not end; this is a consequence");
    case NotTheCause::PERSISTENT_STRAGGLER:
      return absl::StrCat("a different rank is late each time (", CountText(detail.count()),
                          " ranks, none of them in more than ", Percent(detail.value()),
                          " of these cases; all delays together cost ", Milliseconds(detail.duration_ns()),
                          " per step)");
    default: return "";
  }
}

std::string UnmeasuredText(const Unmeasured& unmeasured) {
  switch (unmeasured.kind()) {
    case Unmeasured::NO_TIMES:
      return "late arrivals and bandwidth, because GPU operation times were not recorded. "
             "LOCKSTEP_GPU=events, the profiler or TORCH_NCCL_ENABLE_TIMING=1 would record them";
    case Unmeasured::ONLY_ENDS:
      return "late arrivals, because only the ends of operations were recorded. LOCKSTEP_GPU=full or events, the "
             "profiler or TORCH_NCCL_ENABLE_TIMING=1 would record their starts";
    case Unmeasured::SOME_ARRIVALS:
      return absl::StrCat("arrivals of ", CountText(unmeasured.count()), " of ", CountText(unmeasured.of()),
                          " ranks, because the times at which they reached operations were not recorded");
    case Unmeasured::STEPS:
      return absl::StrCat("whether a rank is slow, because the times of ", CountText(unmeasured.count()), " of ",
                          CountText(unmeasured.of()),
                          " ranks cover too few training steps to compare. A larger ring (LOCKSTEP_RING_KIB) or Flight "
                          "Recorder buffer covers more");
    case Unmeasured::CREATIONS:
      return "start-up, because the creation of communicators was not recorded. Flight Recorder never records this; "
             "Lockstep's own recorder does";
    default: return "";
  }
}

std::string NotSeenText(const NotSeen& not_seen) {
  const Detail& detail = not_seen.detail();
  const std::string ranks = RankNames(detail.ranks()), are = detail.ranks_size() == 1 ? " is" : " are";
  switch (not_seen.kind()) {
    case NotSeen::STACKS_REFUSED:
      return absl::StrCat("not known where ", ranks, are, ": ",
                          detail.has_name() ? detail.name() : "no stack was taken");
    case NotSeen::RANKS_STOPPED:
      return absl::StrCat("not known whether the job hangs for another reason: ", ranks, are,
                          " stopped by a signal or a debugger");
    case NotSeen::RANKS_MOVING:
      return absl::StrCat("not known whether the job hangs: ", ranks, are,
                          " moving (CPU time, I/O, or a different stack in the second sample). Look again later");
    case NotSeen::ONLY_STACKS:
      return absl::StrCat(
          "not known what the ranks wait for: only stacks are available, and no small group of ranks is in a different "
          "place from all others",
          detail.members().empty() ? "" : absl::StrCat(" (", absl::StrJoin(detail.members(), "; "), ")"),
          ". Flight Recorder dumps (`lockstep attach --ask-torch`), or for NCCL its log of calls (NCCL_DEBUG=INFO, "
          "NCCL_DEBUG_SUBSYS=INIT,COLL), would show it");
    case NotSeen::CALLS_BY_STACKS:
      return "not known which calls the ranks made: their NCCL calls were not recorded, so this verdict rests on "
             "stacks and process states";
    case NotSeen::NO_CALL_IN_DUMPS:
      return "not known whether the job began: no dump contains a call. A rank may never have reached the creation of "
             "the first communicator: look for one whose stack is not in init_process_group. Lockstep's own recorder "
             "would show it";
    case NotSeen::CREATIONS:
      return "communicators that are still being created are not visible: a framework's dump lists them only after "
             "creation. So the dumps do not show a rank that never reaches it";
    case NotSeen::STILL_RUNNING:
      return absl::StrCat(
          "not known whether the job is still running: ",
          detail.has_duration_ns()
              ? absl::StrCat("the newest record is ", SecondsText(detail.duration_ns()), " older than the dumps")
              : "the age of the newest record is unknown",
          ". It may have ended, or it may hang where nothing is recorded: ",
          detail.count() > 0 ? "on a GPU, because GPU progress markers are off, " : "",
          "in a barrier or store outside NCCL, in the creation of a communicator, or in a data loader. The ranks' "
          "stacks would show it");
    case NotSeen::GPUS_WITHOUT_MARKS:
      return absl::StrCat("not known what the GPUs are doing: every process has waited for its own GPU for ",
                          SecondsText(detail.duration_ns()),
                          " or more, and GPU progress markers are off. A stuck GPU, a stalled network and a long "
                          "computation look the same without these markers");
    case NotSeen::RING_SMALL:
      return absl::StrCat("older calls of ", ranks, " may be missing: the ring has only ", detail.number() >> 10,
                          " KiB, because its file system is small. Enlarge /dev/shm");
    case NotSeen::RING_IN_MEMORY:
      return absl::StrCat(
          "calls of ", ranks,
          " are lost if the process is killed while no agent watches it. The file system was full, so each of these "
          "rings is in its process's memory. Enlarge /dev/shm");
    case NotSeen::SAME_VALUES:
      return "not known whether all ranks computed the same values: checksums are not recorded. Compare gradient norms "
             "or parameter checksums per rank";
    case NotSeen::NOT_WRAPPED: return NotWrappedText(detail);
    default: return "";
  }
}

}  // namespace

std::string RuledOutText(const NotTheCause& ruled_out) {
  switch (ruled_out.what()) {
    case NotTheCause::NETWORK: return absl::StrCat("network: ", ruled_out.why());
    case NotTheCause::GPU: return absl::StrCat("GPU: ", ruled_out.why());
    case NotTheCause::HANG: return absl::StrCat("a hang yet: ", ruled_out.why());
    case NotTheCause::CRASH: return absl::StrCat("an independent crash: ", ruled_out.why());
    case NotTheCause::PERSISTENT_STRAGGLER: return absl::StrCat("a persistent straggler: ", ruled_out.why());
    default: return ruled_out.why();
  }
}

std::string NotTheCauseText(const NotTheCause& ruled_out) { return absl::StrCat("NOT ", RuledOutText(ruled_out)); }

std::string ConditionText(const Culprit& culprit) {
  switch (culprit.condition()) {
    case Culprit::NO_DATA: return "no data";
    case Culprit::KILLED: return absl::StrCat("killed by signal ", SignalText(culprit.code()));
    case Culprit::EXITED: return absl::StrCat("exited with status ", culprit.code());
    case Culprit::GONE: return "gone";
    case Culprit::STOPPED: return absl::StrCat("stopped (", culprit.process_state(), ")");
    case Culprit::OUTSIDE: return "outside NCCL, not waiting for a GPU";
    case Culprit::IN_CALL: return "inside an NCCL call";
    case Culprit::IN_WAIT: return "waits for its GPU";
    default: return "";
  }
}

void PutIntoWords(Verdict* verdict) {
  for (Finding& finding : *verdict->mutable_findings()) PutIntoWords(&finding);
  for (NotTheCause& ruled_out : *verdict->mutable_ruled_out()) ruled_out.set_why(WhyNot(ruled_out));
  verdict->clear_blind();
  for (const NotSeen& not_seen : verdict->not_seen()) verdict->add_blind(NotSeenText(not_seen));
  verdict->clear_not_measured();
  for (const Unmeasured& unmeasured : verdict->unmeasured()) verdict->add_not_measured(UnmeasuredText(unmeasured));
  if (verdict->has_start_up()) PutIntoWords(verdict->mutable_start_up());
}

}  // namespace lockstep
