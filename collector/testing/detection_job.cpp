#include "collector/testing/detection_job.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/model/rank_set.h"
#include "collector/agent/encode_digest.h"
#include "collector/host/process_sample.h"
#include "collector/service/core/known_members.h"
#include "proto/wire.pb.h"
#include "tests/jobmodel/layout.h"

namespace lockstep::testing {
namespace {

constexpr int64_t kTransfer = 2 * kMs;

bool Forever(Doing doing) { return doing == Doing::kDead; }

}  // namespace

WatchedJob::WatchedJob(JobPlan plan) : plan_(std::move(plan)), random_(plan_.seed) {
  const int hosts = plan_.ranks / plan_.ranks_a_host;
  ranks_.resize(static_cast<size_t>(plan_.ranks));
  hosts_.resize(static_cast<size_t>(hosts));
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    RankState& state = ranks_[static_cast<size_t>(rank)];
    state.clock = state.counted_ns = state.last_call = now_;
    state.process.life = Life::kRunning;
  }
  jobmodel::Layout layout;
  layout.tp = plan_.ranks_a_host, layout.dp = hosts;
  const jobmodel::Family families[] = {jobmodel::Family::kTp, jobmodel::Family::kDp, jobmodel::Family::kWorld};
  for (int i = 0; i < 3; ++i) {
    for (const jobmodel::Group& group : jobmodel::Groups(layout, families[i])) {
      for (int m = 0; m < group.size; ++m) {
        RankState& state = ranks_[static_cast<size_t>(group.Member(m))];
        state.comm[i] = static_cast<int>(comms_.size());
        state.member[i] = m;
      }
      comms_.emplace_back().members = group.Members();
    }
  }
  for (int host = 0; host < hosts; ++host) {
    hosts_[static_cast<size_t>(host)].offset = (host * 7919 + 11) * 100 * kSecond;
    hosts_[static_cast<size_t>(host)].next_beat = now_ + host * 37 % 10 * 100 * kMs;
    hosts_[static_cast<size_t>(host)].heard_ns = now_;
  }
}

// Returns when the operation completes, or kEver if that is unknown or never happens.
int64_t WatchedJob::DoneAt(int comm, uint64_t seq) {
  Comm& c = comms_[static_cast<size_t>(comm)];
  if (seq < c.first) return 0;
  const Op& op = c.ops[seq - c.first];
  return op.done_ns < 0 ? kEver : op.done_ns;
}

void WatchedJob::Issue(RankState* rank, int which) {
  Comm& comm = comms_[static_cast<size_t>(rank->comm[which])];
  const uint64_t seq = rank->issued[which] / static_cast<uint64_t>(plan_.operations_a_launch) + 1;
  rank->issued[which] += static_cast<uint64_t>(plan_.operations_a_launch);
  rank->issued_ns[which] = rank->last_call = rank->clock;
  while (comm.first + comm.ops.size() <= seq) comm.ops.push_back({comm.first + comm.ops.size(), 0, 0, -1});
  Op& op = comm.ops[seq - comm.first];
  op.last_ns = std::max(op.last_ns, rank->clock);
  last_progress_ = std::max(last_progress_, rank->clock);
  if (++op.entered == static_cast<int>(comm.members.size())) {
    int64_t takes = which == 2 ? plan_.launch_ns : kTransfer;
    for (const SlowOp& slow : plan_.slow) {
      if (slow.step == rank->step && slow.comm == which) takes = slow.for_ns;
    }
    op.done_ns = takes >= kEver ? kEver : op.last_ns + takes;
  }
  rank->flight.push_back({which, seq, rank->clock, false});
  ++rank->tickets;
  while (comm.ops.size() > 64 && comm.ops.front().done_ns >= 0 && comm.ops.front().done_ns < now_ - kSecond) {
    comm.ops.pop_front();
    ++comm.first;
  }
}

// Performs the process's next action, if it can happen by `until`. Returns whether it did.
bool WatchedJob::Step(int number, int64_t until) {
  RankState& rank = ranks_[static_cast<size_t>(number)];
  if (rank.clock > until || Forever(rank.doing) || hosts_[static_cast<size_t>(number / plan_.ranks_a_host)].lost)
    return false;
  if (rank.step == 0 && rank.at < 3) {
    // Communicators are created in this order: all ranks, across hosts, on the host.
    const int which = 2 - rank.at;
    if (which == 1 && !rank.asked) {
      rank.asked = true;
      for (const Pause& pause : plan_.pauses) {
        if (pause.rank != number || pause.step != -1) continue;
        rank.doing = pause.doing;
        rank.clock = pause.for_ns >= kEver ? kEver : rank.clock + pause.for_ns;
        return true;
      }
    }
    rank.doing = Doing::kCompute;
    Comm& comm = comms_[static_cast<size_t>(rank.comm[which])];
    if (!rank.initializing) {
      rank.initializing = true;
      rank.making = which;
      rank.since = rank.clock;
      rank.made_ns[which] = rank.clock;
      if (++comm.making == static_cast<int>(comm.members.size())) comm.made_ns = rank.clock + 500 * kMs;
      return true;
    }
    if (comm.made_ns < 0 || comm.made_ns > until) return false;
    rank.clock = rank.last_call = std::max(rank.clock, comm.made_ns);
    last_progress_ = std::max(last_progress_, rank.clock);
    rank.initializing = false;
    rank.making = -1;
    if (++rank.at == 3) rank.asked = false;
    if (rank.at == 3) rank.at = 10;
    return true;
  }
  switch (rank.at) {
    case 10: {
      if (!rank.asked) {
        rank.asked = true;
        std::optional<Pause> pause;
        for (const Pause& planned : plan_.pauses) {
          if (planned.rank == number && planned.step == rank.step) pause = planned;
        }
        if (!pause && plan_.more) pause = plan_.more(number, rank.step, rank.clock, &random_);
        if (pause) {
          rank.doing = pause->doing;
          rank.since = rank.clock;
          if (pause->doing == Doing::kDead) {
            rank.process.life = Life::kKilled;
            rank.process.signal = SIGKILL;
            rank.process.ended_mono_ns = rank.clock + hosts_[static_cast<size_t>(number / plan_.ranks_a_host)].offset;
            detector_.Ended(std::max(now_, rank.clock), number, EndKind::kKilled);
            return false;
          }
          rank.clock = pause->for_ns >= kEver ? kEver : rank.clock + pause->for_ns;
          return true;
        }
      }
      rank.doing = Doing::kCompute;
      const double share = 1 + plan_.jitter * (static_cast<double>(random_() % 2001) / 1000.0 - 1);
      rank.clock += static_cast<int64_t>(static_cast<double>(plan_.step_ns) * 0.9 * share);
      rank.at = 11;
      return true;
    }
    case 11:
    case 12:
    case 13:
      Issue(&rank, rank.at - 11);
      if (rank.at++ == 13) {
        rank.waits = true;
        rank.since = rank.clock;
      }
      return true;
    default: {
      int64_t done = 0;
      for (const Issued& issued : rank.flight) done = std::max(done, DoneAt(rank.comm[issued.comm], issued.seq));
      if (done > until) return false;
      rank.clock = std::max(rank.clock, done);
      rank.last_call = rank.clock;
      last_progress_ = std::max(last_progress_, rank.clock);
      rank.completed += rank.flight.size();
      rank.flight.clear();
      rank.waits = rank.asked = false;
      rank.at = 10;
      ++rank.step;
      return true;
    }
  }
}

void WatchedJob::Advance(int64_t until) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      while (Step(rank, until)) moved = true;
    }
  }
  for (int number = 0; number < plan_.ranks; ++number) {
    RankState& rank = ranks_[static_cast<size_t>(number)];
    const int64_t from = rank.counted_ns, time = until - from;
    rank.counted_ns = until;
    if (rank.waits || rank.initializing) continue;
    switch (rank.doing) {
      case Doing::kCompute: rank.cpu += time; break;
      case Doing::kIo:
        rank.io += time / 20;
        rank.cpu += time / 50;
        break;
      case Doing::kIoBursts: rank.io += (until / (5 * kSecond) - from / (5 * kSecond)) * (8 << 20); break;
      case Doing::kTrickle: rank.io += time / 15'000; break;
      case Doing::kGpu: rank.cpu += time / 100; break;
      default: break;
    }
  }
}

ring::Snapshot WatchedJob::Ring(int number) const {
  const RankState& rank = ranks_[static_cast<size_t>(number)];
  const int host = number / plan_.ranks_a_host;
  const int64_t offset = hosts_[static_cast<size_t>(host)].offset;
  ring::Snapshot ring;
  ring::ProcessInfo& process = ring.process;
  process.boot_id = absl::StrCat("boot-", host);
  process.host = absl::StrCat("host", host);
  process.job = "sim";
  process.pid = 1000 + number;
  process.start_ticks = 5;
  process.rank = number;
  process.world_size = plan_.ranks;
  process.local_rank = number % plan_.ranks_a_host;
  process.gpu_index = process.local_rank;
  process.state = ring::RecorderState::kRecording;
  process.gpu_marks = plan_.marks ? ring::GpuMarks::kFull : ring::GpuMarks::kOff;
  process.host_waits = true;
  ring.read_mono_ns = now_ + offset;

  ring::ThreadSnapshot thread;
  thread.tid = process.pid;
  thread.last_call_ns = rank.last_call + offset;
  thread.calls = rank.tickets;
  if (rank.initializing) {
    thread.call = ring::CallKind::kCommInitRank;
    thread.comm = static_cast<uint32_t>(rank.making);
    thread.since_ns = rank.since + offset;
  } else if (rank.waits) {
    thread.wait = ring::CallKind::kStreamSynchronize;
    thread.wait_stream = 0;
    thread.wait_ticket = rank.tickets;
    thread.wait_since_ns = rank.since + offset;
  } else if (rank.doing == Doing::kGpu) {
    // The rank waits for its own computation: three seconds at a time, with pauses in between.
    const int64_t passed = now_ - rank.since, round = passed / (3 * kSecond) * 3 * kSecond;
    if (round > 0) thread.last_call_ns = rank.since + round - 200 * kMs + offset;
    if (passed - round < 2800 * kMs) {
      thread.wait = ring::CallKind::kStreamSynchronize;
      thread.wait_stream = 0;
      thread.wait_ticket = rank.tickets;
      thread.wait_since_ns = rank.since + round + offset;
    } else {
      thread.last_call_ns = rank.since + round + 2800 * kMs + offset;
    }
  }
  ring.threads.push_back(thread);

  ring::StreamSnapshot stream;
  stream.handle = 1;
  stream.device = process.local_rank;
  stream.marked = plan_.marks;
  stream.issued = rank.tickets;
  stream.completed = rank.completed;
  for (const Issued& issued : rank.flight) {
    const Comm& comm = comms_[static_cast<size_t>(rank.comm[issued.comm])];
    const bool done = issued.seq < comm.first || (comm.ops[issued.seq - comm.first].done_ns >= 0 &&
                                                  comm.ops[issued.seq - comm.first].done_ns <= now_);
    if (!done) break;
    ++stream.completed;
  }
  stream.started = std::min(stream.issued, stream.completed + 1);
  for (const SlowOp& slow : plan_.slow) {
    if (slow.stalled_rank == number && rank.step == slow.step) stream.started = stream.completed;
  }
  if (!plan_.marks) stream.started = stream.completed = 0;
  ring.streams.push_back(stream);
  if (plan_.operations_a_launch > 1 && rank.tickets > 0) {
    ring::GraphSnapshot graph;
    graph.id = 1;
    graph.state = ring::GraphState::kCaptured;
    graph.operations = static_cast<uint64_t>(plan_.operations_a_launch);
    graph.launches = rank.tickets;
    graph.stream = 0;
    ring.graphs.push_back(graph);
  }

  static const char* const kNames[] = {"host_", "rail_", "world"};
  for (int i = 0; i < 3; ++i) {
    if (rank.made_ns[i] < 0) continue;
    ring::CommSnapshot comm;
    comm.index = static_cast<uint32_t>(i);
    comm.id = 0x1000 + static_cast<uint64_t>(rank.comm[i]);
    comm.name = i == 2 ? kNames[i] : absl::StrCat(kNames[i], rank.comm[i]);
    comm.member_rank = rank.member[i];
    comm.size = static_cast<int32_t>(comms_[static_cast<size_t>(rank.comm[i])].members.size());
    comm.origin = ring::CallKind::kCommInitRank;
    comm.ordinal = static_cast<uint32_t>(3 - i);
    comm.state = rank.making == i ? ring::CommState::kInitializing : ring::CommState::kReady;
    comm.created_ns = rank.made_ns[i] + offset;
    comm.issued_seq = comm.launched_seq = rank.issued[i];
    comm.issued_ns = rank.issued[i] == 0 ? 0 : rank.issued_ns[i] + offset;
    ring.comms.push_back(comm);
  }
  uint64_t ticket = rank.completed;
  for (const Issued& issued : rank.flight) {
    ring::OpSnapshot op;
    op.comm = static_cast<uint32_t>(issued.comm);
    op.kind = ring::CallKind::kAllReduce;
    op.stage = ring::OpStage::kLaunched;
    op.datatype = 7;
    op.reduction = 0;
    op.count = 1000;
    for (const SlowOp& slow : plan_.slow) {
      if (slow.step == rank.step && slow.comm == issued.comm) op.count = slow.count;
    }
    op.seq = issued.seq * static_cast<uint64_t>(plan_.operations_a_launch);
    op.thread = UINT32_MAX;
    op.index = rank.tickets;
    op.stream = 0;
    op.ticket = plan_.marks ? ++ticket : 0;
    op.enter_ns = issued.ns + offset;
    op.return_ns = issued.ns + offset + 1000;
    ring.recent.push_back(op);
  }
  return ring;
}

void WatchedJob::Look(int number) {
  Host& host = hosts_[static_cast<size_t>(number)];
  if (host.lost) return;
  const int64_t local = now_ + host.offset;
  std::vector<ring::Snapshot> rings;
  std::vector<DigestView> views;
  std::vector<RingView> ring_views;
  const int first = number * plan_.ranks_a_host;
  for (int rank = first; rank < first + plan_.ranks_a_host; ++rank) rings.push_back(Ring(rank));
  for (int i = 0; i < plan_.ranks_a_host; ++i) {
    views.push_back(ViewOf(rings[static_cast<size_t>(i)]));
    views.back().slot = i;
    views.back().alive = ranks_[static_cast<size_t>(first + i)].process.life == Life::kRunning;
    ring_views.push_back({first + i, &rings[static_cast<size_t>(i)]});
  }
  for (const LateEvent& event : host.lateness.Observe(local, views)) {
    LateInput input;
    static_cast<LateFacts&>(input) = event;
    std::vector<int32_t> waiting;
    for (int32_t slot : event.waiting) waiting.push_back(first + slot);
    input.waiting = Ranks::Of(waiting);
    input.host = absl::StrCat("host", number);
    detector_.Late(now_, input);
  }
  if (now_ - host.sampled_ns >= 1050 * kMs) {
    host.sampled_ns = now_;
    for (int rank = first; rank < first + plan_.ranks_a_host; ++rank) Watch(rank);
  }
  host.progress.Observe(ring_views);
  if (now_ < host.next_beat) return;
  host.next_beat = now_ + kSecond;
  host.heard_ns = now_;
  for (const CommBeat& beat : host.progress.Take(local, host.lateness)) {
    CommunicatorBeat proto;
    BeatToProto(beat, &proto);
    detector_.progress().Apply(static_cast<uint32_t>(number), now_, BeatFromProto(proto));
  }
}

// As in ProcessSampler, values are differences from an older sample, which is kept for two seconds.
void WatchedJob::Sample(int number) {
  RankState& rank = ranks_[static_cast<size_t>(number)];
  Process& process = rank.process;
  if (process.life != Life::kRunning) return;
  const bool idle = rank.waits || rank.initializing;
  process.state = !idle && rank.doing == Doing::kStopped ? "T" : !idle && rank.doing == Doing::kDisk ? "D" : "S";
  process.wchan = !idle && rank.doing == Doing::kServe ? "ep_poll" : "futex_wait_queue";
  process.threads_in_d = process.state == "D" ? 1 : 0;
  if (rank.sample_ns != 0) {
    process.sample_gap_ns = now_ - rank.sample_ns;
    process.cpu_ns_between_samples = rank.cpu - rank.sample_cpu;
    process.io_bytes_between_samples = rank.io - rank.sample_io;
  }
  if (rank.sample_ns == 0 || now_ - rank.sample_ns >= 2 * kSecond) {
    rank.sample_ns = now_;
    rank.sample_cpu = rank.cpu;
    rank.sample_io = rank.io;
  }
}

// Samples ranks without progress, as HostSource does through ProcessSampler.
void WatchedJob::Watch(int number) {
  RankState& rank = ranks_[static_cast<size_t>(number)];
  const Host& host = hosts_[static_cast<size_t>(number / plan_.ranks_a_host)];
  const int64_t still = now_ + host.offset - host.lateness.ProgressOf(number % plan_.ranks_a_host);
  if (rank.process.life != Life::kRunning || still < 1500 * kMs) {
    rank.seen_ns = rank.seen_idle_ns = 0;
    return;
  }
  if (rank.seen_ns != 0) {
    const int64_t gap = now_ - rank.seen_ns;
    if (AtWork(gap, rank.cpu - rank.seen_cpu, rank.io - rank.seen_io)) {
      rank.seen_idle_ns = 0;
    } else if (rank.seen_idle_ns == 0 && gap >= 900 * kMs) {
      rank.seen_idle_ns = rank.seen_ns;
    }
  }
  if (rank.seen_ns != 0 && now_ - rank.seen_ns < 2 * kSecond) return;
  rank.seen_ns = now_;
  rank.seen_cpu = rank.cpu;
  rank.seen_io = rank.io;
}

RankMotion WatchedJob::MotionOf(int number) const {
  const Host& host = hosts_[static_cast<size_t>(number / plan_.ranks_a_host)];
  RankMotion motion;
  if (host.lost) {
    motion.silent_ns = now_ - host.heard_ns;
    return motion;
  }
  const int slot = number % plan_.ranks_a_host;
  motion.progress_age_ns = now_ + host.offset - host.lateness.ProgressOf(slot);
  motion.activity_age_ns = now_ + host.offset - host.lateness.ActivityOf(slot);
  const RankState& rank = ranks_[static_cast<size_t>(number)];
  if (rank.seen_idle_ns != 0) motion.idle_ns = now_ - rank.seen_idle_ns;
  return motion;
}

// Returns one host's answer to a request for digests, encoded as on the wire.
DigestEnvelope WatchedJob::Answer(int number, const std::vector<int32_t>& wanted) {
  const int first = number * plan_.ranks_a_host;
  std::vector<RingInput> inputs;
  for (int rank = first; rank < first + plan_.ranks_a_host; ++rank) {
    Sample(rank);
    RingInput input;
    input.snapshot = Ring(rank);
    input.path = absl::StrCat("ring ", rank);
    input.process = ranks_[static_cast<size_t>(rank)].process;
    inputs.push_back(std::move(input));
  }
  Digest digest;
  digest.set_host(absl::StrCat("host", number));
  digest.set_boot_id(absl::StrCat("boot-", number));
  EncodeDigest(BundleFromRings(std::move(inputs)), Ranks::Of(wanted).List(), &digest);
  for (RankDigest& one : *digest.mutable_ranks()) {
    const RankMotion motion = MotionOf(one.rank().rank());
    one.set_progress_age_ns(std::max<int64_t>(1, motion.progress_age_ns));
    one.set_activity_age_ns(std::max<int64_t>(1, motion.activity_age_ns));
    if (motion.idle_ns >= 0) one.set_idle_ns(motion.idle_ns);
  }
  DigestEnvelope envelope;
  envelope.ParseFromString(digest.SerializeAsString());
  return envelope;
}

void WatchedJob::Gather() {
  round_ = std::make_unique<DigestRound>();
  DigestRound::Facts facts;
  facts.job = "sim";
  facts.ranks_expected = plan_.ranks;
  facts.asked_ns = asked_ns_;
  Ranks missing;
  for (size_t number = 0; number < hosts_.size(); ++number) {
    const Host& host = hosts_[number];
    if (!host.lost) {
      round_->Add(Answer(static_cast<int>(number), {}), now_);
      continue;
    }
    DigestHole hole;
    hole.host = absl::StrCat("host", number);
    hole.text = absl::StrCat("the agent of ", hole.host, " is silent");
    hole.silent_ns = now_ - host.heard_ns;
    for (int i = 0; i < plan_.ranks_a_host; ++i) hole.ranks.Add(static_cast<int32_t>(number) * plan_.ranks_a_host + i);
    missing.Unite(hole.ranks);
    facts.holes.push_back(std::move(hole));
  }
  if (!missing.empty()) facts.members = MembersWith(detector_.progress(), missing);
  const DetectorLimits limits;
  facts.late_after_ns = limits.late_after;
  facts.dead_settle_ns = limits.dead_settle;
  round_->Analyse(facts);
  Judge(true);
}

void WatchedJob::Resample() {
  std::vector<bool> asked(hosts_.size());
  for (int32_t rank : to_sample_) asked[static_cast<size_t>(rank / plan_.ranks_a_host)] = true;
  for (size_t number = 0; number < hosts_.size(); ++number) {
    if (asked[number] && !hosts_[number].lost)
      round_->Sample(Answer(static_cast<int>(number), to_sample_), asked_ns_, now_);
  }
  round_->LookForRoot();
  Judge(false);
}

void WatchedJob::Judge(bool all) {
  const Decision decision = detector_.Judge(now_, round_->root(), all);
  if (decision.hung()) decisions_.push_back(decision);
}

void WatchedJob::Run(int64_t duration, bool stop) {
  const int64_t until = now_ + duration;
  while (now_ < until) {
    // The simulated agents look ten times a second. If nothing is late, once a second gives the same result faster.
    const bool alert = detector_.level() != Level::kMoving || detector_.LongestWait(now_) > 2 * kSecond ||
                       !plan_.marks || now_ - last_progress_ > 2 * kSecond || plan_.step_ns < kSecond;
    now_ += alert ? 100 * kMs : kSecond;
    Advance(now_);
    if (plan_.lost_host >= 0 && now_ >= plan_.lost_ns) hosts_[static_cast<size_t>(plan_.lost_host)].lost = true;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      Look(static_cast<int>(host));
      const int64_t silent = now_ - hosts_[host].heard_ns;
      if (hosts_[host].lost && silent >= 3 * kSecond) detector_.HostSilent(now_, absl::StrCat("host", host), silent);
    }
    for (Decision& decision : detector_.Tick(now_)) decisions_.push_back(std::move(decision));
    const Wish wish = detector_.Wanted(now_);
    if (wish.digests && gather_at_ == kEver) {
      asked_ns_ = now_;
      gather_at_ = now_ + 300 * kMs;
      resample_at_ = kEver;
    }
    if (!wish.samples.empty() && resample_at_ == kEver && gather_at_ == kEver) {
      to_sample_ = wish.samples;
      asked_ns_ = now_;
      resample_at_ = now_ + 100 * kMs;
    }
    if (now_ >= gather_at_) {
      gather_at_ = kEver;
      Gather();
    } else if (now_ >= resample_at_) {
      resample_at_ = kEver;
      Resample();
    }
    if (stop && hung() != nullptr) return;
  }
}

int64_t WatchedJob::steps() const {
  int64_t least = kEver;
  for (const RankState& rank : ranks_) least = std::min(least, rank.step);
  return least;
}

const Decision* WatchedJob::hung() const {
  for (const Decision& decision : decisions_) {
    if (decision.hung()) return &decision;
  }
  return nullptr;
}

}  // namespace lockstep::testing
