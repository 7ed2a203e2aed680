#include "collector/detect/root_finding.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "analyzer/engine/facts/gpu_wait.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/report/phrases.h"

namespace lockstep {
namespace {

// Bytes per element, indexed by the ring's datatype number, which is NCCL's.
constexpr int64_t kElementBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

uint64_t CommNumber(const std::string& id) {
  uint64_t number = 0;
  return id.size() == 16 && absl::SimpleHexAtoi(id, &number) ? number : 0;
}

// Returns when the rank's oldest wait began; 0 if it does not wait.
int64_t WaitingSince(const Rank& rank, const std::vector<int64_t>& lowest, int64_t progress_age_ns) {
  int64_t since = 0;
  const auto earliest = [&since](int64_t ns) {
    if (ns > 0 && (since == 0 || ns < since)) since = ns;
  };
  for (const ring::ThreadSnapshot& thread : rank.threads) {
    if (thread.call != ring::CallKind::kNone) earliest(thread.since_ns);
    if (thread.wait != ring::CallKind::kNone) earliest(thread.wait_since_ns);
  }
  for (const ring::StreamSnapshot& stream : rank.streams) {
    if (!stream.marked || std::min(stream.issued, stream.given) <= stream.completed) continue;
    // Only repeated observations show when the rank's GPU stopped.
    if (progress_age_ns > 0) earliest(rank.captured_ns - progress_age_ns);
  }
  for (const Membership& membership : rank.memberships) {
    if (membership.comm < lowest.size() && membership.issued > lowest[membership.comm]) earliest(membership.issued_ns);
  }
  return since;
}

bool InWait(const Rank& rank, bool* host_wait) {
  bool in_call = false;
  for (const ring::ThreadSnapshot& thread : rank.threads) {
    if (thread.call != ring::CallKind::kNone) in_call = true;
    if (thread.wait != ring::CallKind::kNone || thread.waits_elsewhere) *host_wait = true;
  }
  return in_call || *host_wait;
}

// Returns whether this is a kernel function in which a thread sleeps while it reads from a socket, connects or accepts.
// Excludes poll, which may also wait for a pipe.
bool WaitsOnSocket(const std::string& wchan) {
  static constexpr const char* kPlaces[] = {"wait_woken", "sk_wait_data",          "unix_stream_",
                                            "inet_csk_",  "inet_wait_for_connect", "__skb_wait_for_more_packets"};
  return std::any_of(std::begin(kPlaces), std::end(kPlaces),
                     [&](const char* place) { return wchan.compare(0, strlen(place), place) == 0; });
}

// Returns how long samples have shown the process idle. INT64_MAX if it cannot be working: it has ended or is stopped,
// in a call or waiting. -1 if unknown, or in uninterruptible sleep.
int64_t RestOf(const Rank& rank, const RankMotion& motion) {
  bool host_wait = false;
  if (HasEnded(rank.process) || rank.process.state == "T" || rank.process.state == "t" || InWait(rank, &host_wait) ||
      GpuWaitInStacks(rank)) {
    return INT64_MAX;
  }
  if (rank.process.state == "D" || rank.process.threads_in_d > 0 || motion.idle_ns < 0) return -1;
  return motion.activity_age_ns < 0 ? motion.idle_ns : std::min(motion.idle_ns, motion.activity_age_ns);
}

// Returns whether the rank's GPU has unfinished NCCL work. Without GPU progress markers, assumes so if a member with
// markers has not completed what this rank issued.
bool HasUnfinished(const Rank& rank, const std::vector<int64_t>& completed) {
  const auto open = [&completed](const Membership& membership) {
    return membership.comm < completed.size() && membership.completed == kUnknown &&
           membership.issued > completed[membership.comm];
  };
  if (std::any_of(rank.memberships.begin(), rank.memberships.end(), open)) return true;
  return std::any_of(rank.streams.begin(), rank.streams.end(),
                     [](const ring::StreamSnapshot& stream) {
                       return stream.marked && std::min(stream.issued, stream.given) > stream.completed;
                     }) ||
         std::any_of(rank.ops.begin(), rank.ops.end(), [](const Op& op) { return IsUnfinished(op.state); });
}

// Returns when the rank issued its last operation.
int64_t LastIssue(const Rank& rank) {
  int64_t last = 0;
  for (const Membership& membership : rank.memberships) {
    last = std::max(last, membership.issued_ns);
    for (const ring::PeerProgress& peer : membership.recorded->peers) {
      last = std::max({last, peer.last_send_ns, peer.last_recv_ns});
    }
  }
  return last;
}

// Returns whether a thread may be waiting for NCCL's last operation. Always false if the recorder observes the GPU.
// Otherwise true if a waiting thread has ended no wait since that operation was issued.
bool WaitsBehindNccl(const Rank& rank) {
  constexpr int64_t kReturns = 1'000'000'000;  // a call is recorded before it is forwarded, and returns later
  const int64_t issued = LastIssue(rank);
  if (rank.gpu_marks != ring::GpuMarks::kOff || issued == 0) return false;
  const auto behind = [issued](const ring::ThreadSnapshot& thread) {
    return thread.wait != ring::CallKind::kNone &&
           (thread.last_call_ns <= issued || thread.last_call_ns - issued < kReturns);
  };
  if (std::any_of(rank.threads.begin(), rank.threads.end(), behind)) return true;
  const std::optional<ring::ThreadSnapshot> by_stack = GpuWaitInStacks(rank);
  return by_stack && behind(*by_stack);
}

// Returns how long the rank's CPU has waited for its own GPU without progress, while NCCL work on that GPU is, or may
// be, unfinished. Returns -1 if the rank is not in such a wait.
int64_t BlockedFor(const Rank& rank, const RankMotion& motion, const std::vector<int64_t>& completed) {
  bool host_wait = false;
  InWait(rank, &host_wait);
  host_wait |= GpuWaitInStacks(rank).has_value();
  if (!host_wait || (!HasUnfinished(rank, completed) && !WaitsBehindNccl(rank))) return -1;
  return std::min(motion.progress_age_ns, motion.activity_age_ns);
}

// Returns the size of a collective's data; 0 if unknown.
int64_t BytesOf(const Op& op, int32_t comm_size) {
  int64_t bytes = 0;
  const int64_t times = CallFactsOf(op.kind).count_is_one_members ? std::max(1, comm_size) : 1;
  const bool known = op.count > 0 && op.datatype < std::size(kElementBytes);
  return known && !__builtin_mul_overflow(op.count, kElementBytes[op.datatype] * times, &bytes) ? bytes : 0;
}

// Returns the size of the rank's largest collective that may be unfinished.
int64_t LargestOf(const Rank& rank, const Bundle& bundle) {
  int64_t largest = 0;
  for (const Op& op : rank.ops) {
    if (op.membership >= rank.memberships.size() || (op.state != OpState::kUnknown && !IsInFlight(op.state))) continue;
    const uint32_t comm = rank.memberships[op.membership].comm;
    if (comm < bundle.comms.size()) largest = std::max(largest, BytesOf(op, bundle.comms[comm].size));
  }
  return largest;
}

bool LaunchedGraphs(const Rank& rank) {
  return std::any_of(rank.graphs.begin(), rank.graphs.end(),
                     [](const ring::GraphSnapshot& graph) { return graph.launches > graph.completed; });
}

bool Counts(const Membership& membership) {
  return membership.issued >= 0 &&
         (membership.state == ring::CommState::kInitializing || membership.state == ring::CommState::kReady ||
          membership.state == ring::CommState::kFinalizing);
}

RootView ViewOfRoot(const Rank& rank, FindingKind kind, const RankMotion& motion,
                    const std::vector<int64_t>& completed) {
  RootView view;
  view.rank = rank.rank;
  const Process& process = rank.process;
  view.ended = HasEnded(process);
  view.cancelled = process.life == Life::kKilled &&
                   (process.signal == SIGTERM || process.signal == SIGINT || process.signal == SIGHUP);
  view.stopped = process.state == "T" || process.state == "t";
  view.uninterruptible = process.state == "D" || process.threads_in_d > 0;
  bool host_wait = false;
  const bool in_call = InWait(rank, &host_wait);
  host_wait |= GpuWaitInStacks(rank).has_value();
  const bool waits = in_call || host_wait;
  // HOST_STALL means that the analysis found the rank's thread outside NCCL. The rank is then not in a recorded call,
  // even if another of its threads is. Exception: the analysis also reports HOST_STALL for a thread in a CUDA wait for
  // another rank's device, and that wait is a recorded call.
  const bool elsewhere = std::any_of(rank.threads.begin(), rank.threads.end(),
                                     [](const ring::ThreadSnapshot& thread) { return thread.waits_elsewhere; });
  const bool outside = kind == HOST_STALL && !elsewhere;
  view.in_recorded_call = !outside && waits;
  const bool may_compute = kind == RANK_NOT_ARRIVED || kind == GPU_STALL || (kind == HOST_STALL && elsewhere);
  const bool nothing_known = may_compute && host_wait && !HasUnfinished(rank, completed);
  view.behind_nccl = nothing_known && WaitsBehindNccl(rank);
  view.waits_for_compute = nothing_known && !view.behind_nccl;
  const bool asleep = !waits && process.threads_in_d == 0;
  view.event_loop = asleep && process.wchan == "ep_poll";
  view.on_socket = asleep && WaitsOnSocket(process.wchan);
  view.silent_ns = motion.silent_ns;
  view.sample_gap_ns = process.sample_gap_ns;
  view.cpu_ns = process.cpu_ns_between_samples;
  view.io_bytes = process.io_bytes_between_samples;
  view.activity_age_ns = motion.activity_age_ns;
  view.idle_ns = motion.idle_ns;
  view.after_ns = motion.after_ns;
  return view;
}

}  // namespace

RootFinding FindRoot(const Verdict& verdict, const Bundle& bundle, const MotionOf& motion) {
  RootFinding root;
  // Indexed by communicator: number of collectives issued by the member that is furthest behind.
  std::vector<int64_t> lowest(bundle.comms.size(), INT64_MAX);
  // Like `lowest`, but counts completed collectives, of members with GPU progress markers.
  std::vector<int64_t> completed = lowest;
  for (const Rank& rank : bundle.ranks) {
    for (const Membership& membership : rank.memberships) {
      if (!Counts(membership) || membership.comm >= lowest.size()) continue;
      lowest[membership.comm] = std::min(lowest[membership.comm], membership.issued);
      if (membership.completed == kUnknown) continue;
      completed[membership.comm] = std::min(completed[membership.comm], membership.completed);
    }
  }
  const bool all_there = bundle.ranks_expected <= static_cast<int32_t>(bundle.ranks.size());
  root.rest_ns = root.blocked_ns = all_there && !bundle.ranks.empty() ? INT64_MAX : -1;
  absl::flat_hash_map<int32_t, const Rank*> ranks;
  absl::flat_hash_map<int32_t, int64_t> progress;  // rank -> age of its last progress
  ranks.reserve(bundle.ranks.size());
  progress.reserve(bundle.ranks.size());
  for (const Rank& rank : bundle.ranks) {
    ranks[rank.rank] = &rank;
    const RankMotion moves = motion(rank.rank);
    progress[rank.rank] = moves.progress_age_ns;
    root.rest_ns = std::min(root.rest_ns, RestOf(rank, moves));
    root.blocked_ns = std::min(root.blocked_ns, BlockedFor(rank, moves, completed));
    if (HasEnded(rank.process) || rank.captured_ns <= 0) continue;
    const int64_t since = WaitingSince(rank, lowest, moves.progress_age_ns);
    if (since <= 0) continue;
    int64_t waited = rank.captured_ns - since;
    // A rank that keeps issuing operations is not stuck in its oldest wait.
    if (moves.progress_age_ns >= 0) waited = std::min(waited, moves.progress_age_ns);
    root.waited_ns = std::max(root.waited_ns, waited);
  }
  const auto still = [&](int32_t number) {
    const auto found = progress.find(number);
    // Ranks without data, or without a second sample, prove nothing.
    if (found == progress.end() || found->second < 0) return;
    root.still_ns = root.still_ns < 0 ? found->second : std::min(root.still_ns, found->second);
  };
  if (verdict.findings().empty()) {
    for (const auto& [number, age] : progress) still(number);
    for (const Rank& rank : bundle.ranks) {
      root.bytes = std::max(root.bytes, LargestOf(rank, bundle));
      root.graphs |= LaunchedGraphs(rank);
    }
    return root;
  }

  const Finding& finding = verdict.findings(0);
  root.kind = finding.kind();
  root.comm = CommNumber(finding.communicator().id());
  root.comm_size = finding.communicator().size();
  root.sequence = static_cast<uint64_t>(std::max<int64_t>(0, finding.sequence()));
  absl::flat_hash_set<int32_t> involved;
  for (int32_t number : finding.culprit_ranks()) {
    const auto found = ranks.find(number);
    involved.insert(number);
    if (found == ranks.end()) {
      RootView view;
      view.rank = number;
      view.known = false;
      view.silent_ns = motion(number).silent_ns;
      root.roots.push_back(view);
      continue;
    }
    root.roots.push_back(ViewOfRoot(*found->second, finding.kind(), motion(number), completed));
  }
  absl::flat_hash_set<uint64_t> comms;
  if (root.comm != 0) comms.insert(root.comm);
  for (const ChainLink& link : finding.chain()) {
    involved.insert(link.ranks().begin(), link.ranks().end());
    involved.insert(link.waits_for().begin(), link.waits_for().end());
    if (const uint64_t id = CommNumber(link.communicator().id()); id != 0) comms.insert(id);
  }
  root.involved.assign(involved.begin(), involved.end());
  root.comms.assign(comms.begin(), comms.end());
  std::sort(root.involved.begin(), root.involved.end());
  std::sort(root.comms.begin(), root.comms.end());

  if (root.involved.empty()) {
    for (const auto& [number, age] : progress) still(number);
  }
  for (int32_t number : root.involved) {
    still(number);
    const auto found = ranks.find(number);
    if (found == ranks.end()) continue;
    const Rank& rank = *found->second;
    for (const NetworkOp& op : rank.network) {
      if (op.since_ns <= 0 || rank.captured_ns < op.since_ns) continue;
      const int64_t age = rank.captured_ns - op.since_ns;
      root.network_age_ns = root.network_age_ns < 0 ? age : std::min(root.network_age_ns, age);
    }
    for (const ring::ThreadSnapshot& thread : rank.threads) root.in_init |= ring::IsCommInit(thread.call);
    for (const Op& op : rank.ops) {
      if (op.membership >= rank.memberships.size() || op.seq != finding.sequence() || !ring::IsCollective(op.kind))
        continue;
      const Membership& membership = rank.memberships[op.membership];
      if (membership.comm >= bundle.comms.size() || CommNumber(bundle.comms[membership.comm].id) != root.comm) continue;
      root.first_operation |= op.seq == membership.first_seq;
      root.bytes = std::max(root.bytes, BytesOf(op, root.comm_size));
    }
  }
  return root;
}

std::string ProvenCause(const Verdict& verdict) {
  if (verdict.findings().empty()) return "";
  const Finding& finding = verdict.findings(0);
  return finding.grade() >= GRADE_GOOD && !finding.hypothesis() ? Headline(finding) : "";
}

int64_t TimeWithoutProgress(const Bundle& bundle, const MotionOf& motion) {
  int64_t least = INT64_MAX;
  for (const Rank& rank : bundle.ranks) {
    if (HasEnded(rank.process)) continue;
    const int64_t age = motion(rank.rank).progress_age_ns;
    if (age < 0) return 0;
    least = std::min(least, age);
  }
  return least == INT64_MAX ? 0 : least;
}

}  // namespace lockstep
