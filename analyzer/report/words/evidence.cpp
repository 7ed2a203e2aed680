#include "analyzer/report/words/evidence.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/report/words/reasons.h"
#include "analyzer/util/numbers.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

using Ranks = google::protobuf::RepeatedField<int32_t>;

std::string RankAt(const Ranks& ranks, int i) { return i < ranks.size() ? absl::StrCat("rank ", ranks[i]) : "a rank"; }

std::string Tenths(int64_t ns) { return absl::StrFormat("%.1f s", static_cast<double>(ns) / 1e9); }

std::string ForTenths(const Evidence& evidence) {
  return evidence.has_duration_ns() ? absl::StrCat(" for ", Tenths(evidence.duration_ns())) : "";
}

std::string GigabytesText(double bytes_per_s) { return absl::StrFormat("%.1f GB/s", bytes_per_s / 1e9); }

// " (train.py:88)"; empty if it was not recorded.
std::string SiteText(const CallRef& call) { return call.site().empty() ? "" : absl::StrCat(" (", call.site(), ")"); }

std::string Times(int64_t count) { return Counted(count, "time", "times"); }

std::string SampleText(const ProcessSample& process) {
  std::vector<std::string> parts;
  if (!process.state().empty()) parts.push_back(absl::StrCat("process state ", process.state()));
  if (!process.kernel_function().empty())
    parts.push_back(absl::StrCat("in kernel function ", process.kernel_function()));
  if (process.cpu_ns() >= 0 && process.between_ns() > 0) {
    const auto between = static_cast<double>(process.between_ns());
    parts.push_back(absl::StrFormat("CPU %.0f%% of the last %.1f s",
                                    100.0 * static_cast<double>(process.cpu_ns()) / between, between / 1e9));
  }
  if (process.io_bytes() > 0) parts.push_back(absl::StrCat(CountText(process.io_bytes()), " bytes of I/O"));
  return absl::StrJoin(parts, ", ");
}

// Returns what a process did between two samples.
std::string MotionText(const Evidence& evidence) {
  const Detail& detail = evidence.detail();
  const ProcessSample& process = evidence.process();
  const std::string in = absl::StrCat(" in ", Tenths(process.between_ns()));
  std::vector<std::string> parts;
  if (detail.flag()) {
    if (process.io_bytes() >= 0)
      parts.push_back(absl::StrFormat("%.1f MB of I/O%s", static_cast<double>(process.io_bytes()) / 1e6, in));
    if (process.cpu_ns() >= 0) parts.push_back(absl::StrCat(Tenths(process.cpu_ns()), " of CPU", in));
    if (parts.empty()) parts.push_back("the stack changed between two samples");
  } else {
    if (process.cpu_ns() >= 0)
      parts.push_back(absl::StrCat("almost no CPU time", process.io_bytes() >= 0 ? " or I/O" : "", in));
    if (detail.number() == 1) parts.push_back("same stack twice");
  }
  return absl::StrCat(RankAt(detail.ranks(), 0), ": ", absl::StrJoin(parts, ", "),
                      detail.has_count()
                          ? absl::StrCat("; ", CountText(detail.count()), " of the named ranks are moving, ",
                                         CountText(detail.of()), " are not")
                          : "");
}

std::string ActivityText(const Evidence& evidence) {
  const Detail& detail = evidence.detail();
  const std::string& wait = evidence.process().kernel_function();
  std::vector<std::string> parts;
  if (detail.number() > 0) {
    parts.push_back(absl::StrCat(detail.number() == 1 ? "a thread" : absl::StrCat(detail.number(), " threads"),
                                 " in uninterruptible sleep (D)", wait.empty() ? "" : absl::StrCat(" in ", wait)));
  } else if (!wait.empty()) {
    parts.push_back(absl::StrCat("waits in the kernel function ", wait));
  }
  if (detail.has_call()) parts.push_back(absl::StrCat("in ", detail.call().site()));
  if (detail.has_other_name()) parts.push_back(absl::StrCat(detail.other_name(), " open for writing"));
  return absl::StrCat(
      detail.name(), " on ", RankAt(detail.ranks(), 0), ": ", absl::StrJoin(parts, ", "),
      detail.count() > 0 ? absl::StrCat("; and ", Counted(detail.count(), "more rank", "more ranks")) : "");
}

std::string StackText(const Evidence& evidence) {
  if (evidence.frames().empty()) return evidence.refused();
  return absl::StrJoin(evidence.frames(), " < ",
                       [](std::string* out, const Frame& frame) { absl::StrAppend(out, frame.text()); });
}

std::string EnteredText(const Detail& detail) {
  std::string who = RankAt(detail.ranks(), 0);
  if (detail.has_of()) {
    who = detail.count() == detail.of()
              ? "every member"
              : absl::StrCat(CountText(detail.count()), " of ", CountText(detail.of()), " ranks");
  } else if (detail.count() > 1) {
    return absl::StrCat("both ranks called their side of ", CallText(detail.call()));
  }
  return absl::StrCat(who, " called ", CallText(detail.call()));
}

std::string WaitsInText(const Detail& detail) {
  const bool one = detail.calls_size() == 1;
  const char* verb = !one ? " called " : detail.ranks_size() == 1 ? " waits in " : " wait in ";
  const auto add = [&](std::string* out, const CallRef& call) {
    // An address tells two calls of one rank apart, but is no place that a reader can look up.
    const bool address = one && absl::StartsWith(call.site(), "called from ");
    absl::StrAppend(out, address                 ? CallText(call)
                         : one && !detail.flag() ? absl::StrCat(call.text(), SiteText(call), " on ", call.on())
                                                 : CallAndSite(call));
  };
  return absl::StrCat(RankNames(detail.ranks()), verb, absl::StrJoin(detail.calls(), ", then ", add),
                      !detail.flag()             ? ""
                      : detail.ranks_size() == 1 ? "; it has not reached the call of the ranks that it waits for"
                                                 : "; they have not reached the call of the ranks that they wait for");
}

std::string GroupSizesText(const Detail& detail) {
  std::string text;
  for (int i = 0; i < std::min(detail.groups_size(), detail.members_size()); ++i) {
    const CommunicatorRef& group = detail.groups(i);
    absl::StrAppend(&text, group.name().empty() ? absl::StrCat("communicator ", group.id()) : group.name(), " has ",
                    group.size(), " members (ranks ", detail.members(i), "); ");
  }
  return absl::StrCat(text, CountText(detail.count()),
                      detail.count() == 1 ? " other group has " : " other groups have ", CountText(detail.of()),
                      " members each, with ranks ", CountText(detail.number()), " apart");
}

std::string InGraphText(const Evidence& evidence) {
  const Detail& detail = evidence.detail();
  const GraphReplay& replay = evidence.replay();
  return absl::StrCat("the call is operation ", replay.operation(), " of ", replay.operations(), " in CUDA graph ",
                      replay.graph(), "; ", RankAt(detail.ranks(), 0), " launched that graph ", Times(detail.count()),
                      detail.has_number() ? absl::StrCat(", and its GPU completed replay ", detail.number()) : "");
}

std::string LaunchedText(const Evidence& evidence) {
  const Detail& detail = evidence.detail();
  return absl::StrCat(RankAt(detail.ranks(), 0),
                      detail.has_number()
                          ? absl::StrCat(" launched graph ", detail.number(), " last as replay ", detail.other_number())
                          : " has launched no graph",
                      evidence.has_communicator() ? absl::StrCat(" on ", evidence.communicator().label()) : "");
}

std::string LateByHabitText(const Evidence& evidence) {
  const Detail& detail = evidence.detail();
  return absl::StrCat(
      "in a quarter of ", CountText(detail.count()), " back-to-back operations on ", evidence.communicator().label(),
      ", ", RankAt(detail.ranks(), 0), " arrived at least ", Milliseconds(detail.duration_ns()),
      " after the first rank; for members of similar groups the median is ", Milliseconds(detail.other_duration_ns()));
}

}  // namespace

std::string NetworkStepText(const Evidence& evidence) {
  const Detail& detail = evidence.detail();
  return absl::StrCat("waits on the network for ",
                      detail.ranks_size() > 1 ? RankAt(detail.ranks(), 1) : absl::StrCat("member ", detail.number()),
                      ForTenths(evidence), " (channel ", detail.count(), ", step ", detail.other_number(), " of ",
                      detail.of(), ", ", detail.name(), ")");
}

std::string EvidenceText(const Evidence& evidence) {
  const Detail& detail = evidence.detail();
  const Ranks& ranks = detail.ranks();
  const std::string rank = RankAt(ranks, 0), comm = evidence.communicator().label();
  const std::string own = evidence.ranks().empty() ? "the named rank" : RankNames(evidence.ranks());
  const int64_t count = detail.count();
  const std::string n = CountText(count), of = CountText(detail.of());
  const std::string n_of = absl::StrCat(n, " of ", of);
  constexpr char kSameRole[] = " ranks with the same role ";
  switch (evidence.kind()) {
    case Evidence::STACK: return absl::StrCat(RankAt(evidence.ranks(), 0), " stack: ", StackText(evidence));
    case Evidence::PROCESS_STATE:
      return absl::StrCat(RankAt(evidence.ranks(), 0), ": ", SampleText(evidence.process()));
    case Evidence::WAITING:
      return absl::StrCat(CountText(evidence.ranks_size()), " of ", CountText(evidence.communicator().size()),
                          " members of ", comm, evidence.ranks_size() == 1 ? " waits in " : " wait in ",
                          evidence.operation(), ForTenths(evidence));
    case Evidence::IN_OPERATION:
      return absl::StrCat(RankAt(evidence.ranks(), 0), " has been in the operation", ForTenths(evidence));
    case Evidence::LAST_CALL:
      return absl::StrCat("the last recorded call of ", own, ": ", evidence.operation(), " on ", comm);
    // Processes.
    case Evidence::MOTION: return MotionText(evidence);
    case Evidence::ACTIVITY: return ActivityText(evidence);
    case Evidence::FILES_ON_HOSTS:
      return absl::StrCat(n, " ranks on ", of,
                          " hosts wait for files at the same time: suspect the shared file system, not one host");
    case Evidence::HOST_IN_PART:
      return absl::StrCat("only ", Counted(count, "rank", "ranks"), " of host ", detail.name(), " left data, but ", of,
                          " of every other host: its missing ranks may wait for the same files");
    case Evidence::KERNEL_LOG: return absl::StrCat("kernel log when the process ended: ", detail.name());
    case Evidence::LATE_ON_GPU:
      return absl::StrCat("the GPU of ", own, " reached ", Counted(count, "operation", "operations"),
                          " after the process died",
                          detail.has_call() ? absl::StrCat(", the last of them ", detail.call().text()) : "");
    case Evidence::RAISED:
      return absl::StrCat(
          rank, "'s output contains an uncaught exception, though its process has not ended: ", detail.name());
    case Evidence::WATCHDOG_ENDED:
      return absl::StrCat(detail.flag() ? "PyTorch's watchdog" : "a watchdog", " ended ", rank, "'s process after ",
                          WholeDurationText(evidence.duration_ns()), ": this is a consequence, not the cause");
    case Evidence::FIRST_TO_END:
      return "each of these processes was the first to end on its host; the record does not show which of them ended "
             "first";
    case Evidence::ALL_ENDED:
      return absl::StrCat("all ", n, " processes have ended, and ", of, " of their rings record no clean exit");
    case Evidence::ENDED_BEFORE:
      return absl::StrCat(n_of, " members of ", comm,
                          detail.flag() ? " exited with status 0 after" : " have been idle since", " operation #",
                          detail.number());
    case Evidence::FOR_OTHER_PROCESS:
      return absl::StrCat(Counted(count, "rank waits", "ranks wait"),
                          " outside NCCL for another process, as their stacks show",
                          evidence.has_duration_ns() ? ", for at least " + Tenths(evidence.duration_ns()) : "");
    case Evidence::STACKS_WAIT:
      return absl::StrCat(n_of, count == 1 ? " ranks waits in " : " ranks wait in ", detail.name(),
                          detail.flag() ? ", in the same place in both samples" : "");
    case Evidence::STACKS_AT:
      return absl::StrCat(RankNames(evidence.ranks()), evidence.ranks_size() == 1 ? " is " : " are ", detail.name(),
                          evidence.ranks_size() == 1 ? ", as its stack shows" : ", as their stacks show");
    case Evidence::IDLE_UNRECORDED:
      return absl::StrCat(RankNames(ranks), ranks.size() == 1 ? " is" : " are",
                          " idle, and may be waiting for a rank that left no data: this backend does not record sends, "
                          "receives or barriers");
    case Evidence::ALL_WAIT_FOR_GPU:
      return absl::StrFormat(
          "all %s other ranks have waited for their GPUs for %.0f s or more, and make no further call%s", n,
          static_cast<double>(evidence.duration_ns()) / 1e9,
          detail.flag() ? ". The GPU work of a process ends with the process; GPU progress markers are off, so nothing "
                          "recorded shows whether its last operations completed"
                        : "; GPU progress markers are off, so what they wait for is not recorded");
    // Calls of one rank, or of the members of one communicator.
    case Evidence::NOTHING_OPEN: return absl::StrCat("every operation that ", rank, " recorded is complete");
    case Evidence::UNRECORDED_CALLS:
      return absl::StrCat(detail.flag() ? absl::StrCat("the record does not show which calls of ", rank, " completed")
                                        : absl::StrCat(rank, " makes calls that are not recorded"),
                          ", so it may be waiting for another rank");
    case Evidence::ENTERED: return EnteredText(detail);
    case Evidence::WAITS_IN: return WaitsInText(detail);
    case Evidence::GPU_AT:
      return absl::StrCat(rank, detail.flag() ? " runs " : " has not started ", CallAndSite(detail.call()),
                          detail.has_number() ? absl::StrCat(", stream ", detail.number()) : "");
    case Evidence::IN_BOTH:
      return absl::StrCat(RankNames(ranks), " are members of both communicators, and all called both operations",
                          absl::StrJoin(detail.calls(), "",
                                        [](std::string* out, const CallRef& call) { out->append(SiteText(call)); }));
    case Evidence::WENT_ON:
      return absl::StrCat(rank, " made further calls on ", comm,
                          "; no rank waits for it there yet, because the other fault stopped the ranks first");
    case Evidence::COMPLETED_LATER:
      return absl::StrCat(n_of, " ranks completed later operations; the named ranks did not");
    case Evidence::KNOWN_BY_USE: return "the members of that group are known only from its operations";
    case Evidence::ONLY_EXCHANGE:
      return absl::StrCat(rank, " and its peer exchange data with other ranks, but with each other only in this call");
    case Evidence::NO_GPU_STARTED:
      return absl::StrCat(ranks.empty() ? "all members" : rank, " called ", CallText(detail.call()),
                          " but no GPU has started it; all NCCL work queued before it is complete");
    case Evidence::NETWORK_STEP: return absl::StrCat(rank, " ", NetworkStepText(evidence));
    case Evidence::MORE_STEPS:
      return absl::StrCat(Counted(count, "more network step waits", "more network steps wait"), " in the same way");
    case Evidence::OLDER_IN_FLIGHT:
      return "streams and counters of the named ranks show unfinished operations older than the oldest recorded one";
    case Evidence::SIGNALS_ASKED:
      return absl::StrCat(rank, "'s WaitSignal calls ask for ", n, " signals from member ", detail.number(), " in all");
    case Evidence::SIGNALS_SENT:
      return absl::StrCat(own, " has made ", n, " PutSignal and Signal calls to member ", detail.number());
    case Evidence::HELD_BY_NOTHING:
      return "a rank with the same role reached that call; all its earlier calls are complete or wait for the named "
             "ranks, so no other finding explains the delay";
    case Evidence::RECORDED_BY:
      return absl::StrCat(rank, " recorded that call; the records of the named ranks end before it");
    // Calls that differ.
    case Evidence::TWO_CALLS:
      return absl::StrCat(rank, ": ", detail.name(), "; ", RankAt(ranks, 1),
                          detail.flag() ? " at the same place: " : ": ", detail.other_name());
    case Evidence::ALIKE_BEFORE:
      return absl::StrCat("in earlier steps, ", rank, " and ", RankAt(ranks, 1), " both made the call that ",
                          RankAt(ranks, 1), " made here this time");
    case Evidence::ROLE_ISSUED:
      return absl::StrCat(n_of, kSameRole, "called ", detail.name(), " at that point; ", rank,
                          !detail.has_other_name() ? " called nothing"
                          : detail.flag() && !detail.has_other() && detail.other_name() == detail.name()
                              ? " made the same call from another line"
                              : absl::StrCat(" called ", detail.other_name(),
                                             detail.has_other() ? absl::StrCat(" on ", detail.other().on()) : ""));
    case Evidence::ROLE_CONTINUED: return absl::StrCat(n_of, kSameRole, "continued with ", detail.name());
    case Evidence::ROLE_OTHER_ORDER: return absl::StrCat(n_of, kSameRole, "made these calls in the usual order");
    case Evidence::ROLE_ISSUED_LATTER: return absl::StrCat(n_of, kSameRole, "made the other call");
    case Evidence::ROLE_DID_NOT_WAIT:
      return absl::StrCat(Counted(count, "rank", "ranks"), " with the same role called ", CallText(detail.call()),
                          " while the same work was unfinished as on ", rank,
                          detail.flag() ? ", which did not call it: that work does not explain why"
                                        : ": the program does not wait for that work before that call");
    case Evidence::COUNTS_BEFORE:
      return "most ranks with the same role made each call after the same number of calls of each kind";
    case Evidence::LACKS_CALL:
      return absl::StrCat(rank, " waits in ", CallText(detail.call()),
                          detail.flag() ? ", whose other side " : ", which ", RankNames(detail.others()),
                          " never called; ", Counted(count, "rank waits", "ranks wait"), " for ",
                          detail.others_size() == 1 ? "it" : "them", ", directly or through others");
    case Evidence::SIZES_OF_OTHERS:
      return absl::StrCat("the sizes of several other ranks do not match ",
                          detail.flag() ? "the sender's" : "the receiver's", " either, but match each other");
    case Evidence::SENT_IN_ALL:
      return absl::StrCat("every other member sends ", n, " elements in total",
                          detail.flag()
                              ? ", and so does the sender, so its split sizes are consistent"
                              : absl::StrCat(", but the sender ", CountText(detail.number()),
                                             "; with the size that the receiver expects, it would also send ", n));
    case Evidence::SENT_BACK:
      return absl::StrCat("this exchange returns what the previous one delivered: the sender had received ", n,
                          " elements and sends ", of, "; the receiver had sent ", CountText(detail.number()),
                          " and expects ", CountText(detail.other_number()));
    // Creation of communicators.
    case Evidence::IN_CREATION:
      return absl::StrCat(detail.has_of() ? absl::StrCat(n_of, " ranks") : Counted(count, "rank", "ranks"),
                          count == 1 ? " waits in " : " wait in ", CallText(detail.call()),
                          evidence.has_duration_ns() ? ", the longest for " + Tenths(evidence.duration_ns()) : "");
    case Evidence::NEWEST_GROUP:
      return absl::StrCat(RankNames(ranks), ": the newest group has ", Counted(count, "member", "members"));
    case Evidence::GROUP_SIZES: return GroupSizesText(detail);
    // GPUs and links.
    case Evidence::DONE_ELSEWHERE: {
      Ranks inside = ranks;
      inside.erase(inside.begin());
      return absl::StrCat(rank, detail.flag() ? " counts the operation as completed; " : " completed the operation; ",
                          RankNames(inside), inside.size() == 1 ? " is" : " are",
                          " still in it, although it completes on all members or on none");
    }
    case Evidence::STUCK_IN_SEVERAL:
      return absl::StrCat(own, " is stuck in ", n, " communicators at once: the GPU is stuck, not one stream");
    case Evidence::PEERS_STARTED:
      return detail.flag() ? "that operation can start without the other members"
                           : "the peers' GPUs have started that operation";
    case Evidence::COUNTERS_DONE:
      return absl::StrCat("the record of that operation is gone; counters show that the GPU of ", rank,
                          " completed all that it started, while the GPUs of its peers are in that operation");
    case Evidence::GPU_ERROR: return absl::StrCat(rank, ": ", detail.name());
    case Evidence::ALL_CROSS: return absl::StrCat("each of the ", n, " operations has members at ", detail.name());
    // CUDA graphs.
    case Evidence::IN_GRAPH: return InGraphText(evidence);
    case Evidence::GRAPH_LAUNCHED: return LaunchedText(evidence);
    case Evidence::INSIDE_GRAPH:
      return "all members launched that replay; the named operation is the first that may be stuck, because nothing "
             "records the progress inside a graph";
    // Slowness.
    case Evidence::LATE_IN_ONE_PLACE:
      return absl::StrCat(n_of, " single-rank delays happened there, on ", CountText(detail.number()), " of ",
                          CountText(detail.other_number()), " ranks; chance predicts about ", Percent(detail.value()));
    case Evidence::TRANSFERS:
      return absl::StrCat(detail.call().text(), " of ", CountText(detail.number()), " bytes on ", detail.call().on(),
                          ": ", GigabytesText(detail.value()), " bus bandwidth, ", GigabytesText(detail.other_value()),
                          detail.flag() ? " before" : " for comparable transfers");
    case Evidence::SLOW_AND_NOT:
      return absl::StrCat(Counted(count, "communicator or pair is", "communicators or pairs are"), " slow; ", of,
                          " with the same traffic are not (waits for late ranks excluded)");
    case Evidence::LATE_BY_HABIT: return LateByHabitText(evidence);
    case Evidence::WORKS_LONGER:
      return absl::StrCat(rank, " spends ", Milliseconds(detail.duration_ns()), detail.flag() ? " per step" : "",
                          " outside operations; ranks with the same role spend ",
                          Milliseconds(detail.other_duration_ns()), " (+- ", DurationText(detail.number()), ")");
    case Evidence::CAME_LAST: return absl::StrCat(own, " arrived last in ", n, " of the ", of, " collectives compared");
    case Evidence::DELAY_IS_OWN:
      return absl::StrCat(
          own, " does not wait longer than ranks with the same role in any operation: it causes the delay itself");
    case Evidence::SLOW_TOGETHER:
      return absl::StrCat(n, " of the ", of, " members of ",
                          detail.number() == 1 ? "one communicator" : absl::StrCat(detail.number(), " communicators"),
                          " are slow at the same time: they may share a host, a rack or a power supply");
    default: return evidence.text();
  }
}

}  // namespace lockstep
