// Faults of hosts, GPUs and the network; slowness; healthy jobs that look faulty.
#include <algorithm>

#include "tests/corpus/faults.h"
#include "tests/corpus/process_facts.h"
#include "tests/corpus/program.h"

namespace lockstep::corpus {

// Stacks, CPU and I/O are observed from outside. Flight Recorder dumps contain none of these.
void FaultMaker::Seen(const char* activity, bool moving) {
  if (request_.fr) return;
  plan_->truth.activity_allowed = {activity};
  plan_->truth.moving_allowed = {moving ? "moving" : "not moving"};
}

bool FaultMaker::HostStall(std::string*) {
  const int32_t rank = PickRank(request_.scenario == 21 && request_.variant != "rank0" &&
                                        request_.variant != "lastrank" && request_.variant != "firstfile"
                                    ? std::function<bool(int32_t)>([&](int32_t r) {
                                        return job_.Place(r).tp == std::min(3, job_.layout.tp - 1) &&
                                               job_.Place(r).pp == std::min(2, job_.layout.pp - 1);
                                      })
                                    : nullptr);
  if (rank < 0) return false;
  size_t at = SIZE_MAX;
  ProcessFacts facts = ElsewhereFacts();
  std::vector<std::string> verdicts{"HUNG", "LATE"};
  std::string what = "is stuck on its CPU thread between two calls";
  switch (request_.scenario) {
    case 7:
      at = StepBegin(rank, step_);
      facts = DataLoaderFacts();
      Seen("data loading", false);
      what = "waits for its data loader";
      break;
    case 9:
      at = Find(rank, step_, [](const Instr& in) { return in.act == Act::kCall; });
      if (random_.Chance(0.5)) {
        facts = GarbageFacts();
        Seen("garbage collection", true);
        what = "collects garbage";
      } else {
        facts = InterpreterLockFacts();
        Seen("interpreter lock", false);
        what = "waits for the interpreter lock";
        plan_->dump.empty.insert(rank);
        if (random_.Chance(0.5) && request_.fr) plan_->dump.missing.insert(rank);
      }
      break;
    case 10:
      at = Find(
          rank, step_, [](const Instr& in) { return in.act == Act::kCall; }, false, true);
      facts = CompilerFacts();
      Seen("compilation", true);
      verdicts = {"LATE"};
      if (request_.fr) verdicts.push_back("HUNG");
      what = "compiles, and will continue";
      break;
    default:
      at = Find(rank, step_,
                [&](const Instr& in) { return in.act == Act::kCall && (request_.scenario != 21 || in.slot == kTp); });
      break;
  }
  // The fault must not be inserted between the calls of a group.
  const Program& program = *job_.programs[static_cast<size_t>(rank)];
  for (size_t i = at; i != SIZE_MAX && i > 0; --i) {
    if (program[i].act == Act::kGroupEnd && i != at) break;
    if (program[i].act == Act::kGroupBegin) {
      at = i;
      break;
    }
    if (program[i].act == Act::kStep) break;
  }
  if (!Stall(rank, at, std::move(facts))) return false;
  Blame({rank}, std::move(verdicts), {"HOST_STALL", "RANK_NOT_ARRIVED"});
  if (request_.fr) plan_->truth.kinds_allowed.push_back("RANK_NO_DATA");
  plan_->truth.what = "rank " + std::to_string(rank) + " " + what;
  return true;
}

bool FaultMaker::Checkpoint(std::string*) {
  // All ranks save a checkpoint and meet at a barrier; the storage of one rank or one host does not respond.
  Instr save{.act = Act::kHostWork};
  save.ns = 30 * kMilli;
  InsertEverywhere(step_, {save,
                           CallOf(kWorld, CallKind::kAllReduce, 1, kSiteBarrier, false),
                           {.act = Act::kJoin, .slot = kWorld},
                           {.act = Act::kHostWait, .kind = CallKind::kStreamSynchronize}});
  const bool node = random_.Chance(0.5);
  const int32_t rank = random_.Chance(0.5) && request_.variant != "lastrank" ? 0 : PickRank();
  const std::vector<int32_t> ranks = node ? HostRanks(rank) : std::vector<int32_t>{rank};
  for (int32_t r : ranks) {
    if (!Stall(r, StepBegin(r, step_) + 1, CheckpointFacts(r, true))) return false;
  }
  Blame(ranks, {"HUNG", "LATE"}, {"HOST_STALL", "RANK_NOT_ARRIVED"});
  Seen("checkpoint", false);
  plan_->truth.what = (node ? "all ranks of host " + job_.hosts[static_cast<size_t>(job_.HostOf(rank))].name
                            : "rank " + std::to_string(rank)) +
                      " cannot write the checkpoint: the storage does not answer";
  return true;
}

bool FaultMaker::LeavesLoop(std::string*) {
  const int32_t rank = PickRank();
  const size_t at = Find(rank, step_, [](const Instr& in) {
    return in.act == Act::kStep || in.act == Act::kHostWork || in.act == Act::kHostWait;
  });
  if (at == SIZE_MAX) return false;
  const bool exits = random_.Chance(0.5);
  Instr finalize{.act = Act::kFinalize, .slot = kWorld, .kind = CallKind::kCommFinalize};
  finalize.site = kSiteTeardown;
  Program* program = job_.Own(rank);
  program->resize(at);
  program->push_back(exits ? Faulty(Act::kExit, 0) : finalize);
  if (!exits) program->push_back(Faulty(Act::kLeave));
  plan_->facts[rank] = TeardownFacts();
  Blame({rank}, {"HUNG", "CRASHED", "DESYNC"}, {"RANK_NOT_ARRIVED", "HOST_STALL", "RANK_DEAD"});
  plan_->truth.what = "rank " + std::to_string(rank) + " left the loop after an exception and " +
                      (exits ? "exited with status 0" : "hangs in teardown");
  if (request_.fr) plan_->truth.kinds_allowed.push_back("RANK_NO_DATA");
  return true;
}

bool FaultMaker::Death(std::string*) {
  const int32_t rank = PickRank();
  const size_t at = Find(rank, step_, [](const Instr& in) { return in.act == Act::kCall || in.act == Act::kCompute; });
  if (at == SIZE_MAX) return false;
  const int scenario = request_.scenario;
  const uint64_t signal = scenario == 13 ? 9 : random_.Chance(0.7) ? 11 : 6;
  Insert(rank, at, {scenario == 15 ? Faulty(Act::kFreeze) : Faulty(Act::kDie, signal)});
  if (scenario == 15) {
    Blame({rank}, {"HUNG"}, {"HOST_STALL", "RANK_NOT_ARRIVED"});
    plan_->truth.what = "rank " + std::to_string(rank) + " is stopped (SIGSTOP)";
  } else {
    Blame({rank}, {"CRASHED", "HUNG"}, {"RANK_DEAD"});
    plan_->truth.what = "rank " + std::to_string(rank) + " is killed by signal " + std::to_string(signal);
    if (scenario == 14) {
      // Some other ranks of the host abort soon afterwards, because their watchdogs notice.
      for (int32_t r : HostRanks(rank)) {
        if (r != rank && random_.Chance(0.5))
          plan_->dump.later_deaths[r] = {6, random_.Between(300 * kMilli, 4 * kSecond), random_.Chance(0.5)};
      }
    }
  }
  if (request_.fr) {
    for (const char* kind : {"RANK_NO_DATA", "RANK_NOT_ARRIVED"}) plan_->truth.kinds_allowed.push_back(kind);
    for (const char* verdict : {"INCOMPLETE_DATA", "HUNG"}) plan_->truth.verdicts_allowed.push_back(verdict);
  }
  return true;
}

bool FaultMaker::GpuFault(std::string*) {
  const int32_t rank = PickRank();
  const size_t at = Find(rank, step_, [](const Instr& in) { return in.act == Act::kCompute; });
  if (at == SIZE_MAX) return false;
  const bool hang = request_.scenario == 16;
  Insert(rank, at,
         {hang ? Faulty(Act::kGpuHang) : Faulty(Act::kGpuError, 719, random_.Between(100 * kMicro, 3 * kMilli))});
  Blame({rank}, {"HUNG", "CRASHED"}, {"GPU_STALL"});
  if (hang) {
    plan_->truth.what = "a kernel that is not part of NCCL never ends on the GPU of rank " + std::to_string(rank);
    // These dumps do not show the waits of processes: a rank that waits for its own GPU before its next call only
    // appears to be missing.
    if (request_.fr)
      plan_->truth.kinds_allowed.insert(plan_->truth.kinds_allowed.end(), {"RANK_NOT_ARRIVED", "HOST_STALL"});
    // Without start times, a rank that waits inside an operation and a rank that has not reached it leave the same
    // record.
    if (!started_known_) plan_->truth.kinds_allowed.push_back("COLLECTIVE_STUCK");
    if (!started_known_)
      Unidentified(request_.fr ? "start events (TORCH_NCCL_ENABLE_TIMING)"
                               : "GPU marks full: which stream reached the operation");
  } else {
    plan_->truth.kinds_allowed.push_back("ASYNC_ERROR");
    plan_->truth.kinds_allowed.push_back("HOST_STALL");
    plan_->truth.kinds_allowed.push_back("RANK_NOT_ARRIVED");
    plan_->facts[rank] = ExceptionFacts();
    plan_->truth.what = "rank " + std::to_string(rank) + "'s GPU fails (CUDA error 719)";
    if (request_.fr) Unidentified("own dumps, which contain CUDA errors, or the kernel log of the host");
  }
  // Without the error, or without start markers, the records show only an operation that all members issued and that
  // does not end.
  if (!plan_->truth.identifiable) plan_->truth.kinds_allowed.push_back("COLLECTIVE_STUCK");
  const Slot inner = job_.CommOf(rank, kTp) != nullptr ? kTp : kSlots;
  if (inner != kSlots && !plan_->truth.identifiable) plan_->truth.set_allowed.push_back(Members(rank, inner));
  return true;
}

// Breaks the links between ranks for every communicator that uses them.
bool FaultMaker::Network(std::string* error) {
  if (job_.hosts.size() < 2) {
    *error = "needs more than one host";
    return false;
  }
  const int scenario = request_.scenario;
  const int32_t rank = PickRank([&](int32_t r) {
    for (int32_t c : job_.comm_of[static_cast<size_t>(r)]) {
      if (c > 0 && job_.comms[static_cast<size_t>(c)].inter_host) return true;
    }
    return job_.layout.shape == Shape::kFsdp || job_.layout.shape == Shape::kDdp;
  });
  if (rank < 0) return false;
  plan_->sim.cut_step = step_;
  const int64_t at = random_.Between(kMilli, 15 * kMilli);
  Cut cut;
  cut.at = at;
  auto broken = [&](const std::function<bool(const Comm&)>& fits) {
    for (size_t c = 0; c < job_.comms.size(); ++c) {
      const Comm& comm = job_.comms[c];
      if (comm.inter_host && comm.slot != kPp && fits(comm)) cut.comms.push_back(static_cast<int32_t>(c));
    }
  };
  auto position = [](const Comm& comm, int32_t r) {
    const auto it = std::lower_bound(comm.members.begin(), comm.members.end(), r);
    return it != comm.members.end() && *it == r ? static_cast<int64_t>(it - comm.members.begin()) : -1;
  };
  // All members are in the operation that does not end, and each send has its receive. No GPU has other work queued
  // before it. NCCL reports no error before its own time limit, which is longer than any observer here waits.
  const std::vector<std::string> stuck{"COLLECTIVE_STUCK"};
  if (scenario == 18) {
    // A ring neighbor of the rank on another host.
    int32_t peer = -1;
    for (int32_t c : job_.comm_of[static_cast<size_t>(rank)]) {
      if (c < 0 || !job_.comms[static_cast<size_t>(c)].inter_host) continue;
      const Comm& comm = job_.comms[static_cast<size_t>(c)];
      const auto n = static_cast<int64_t>(comm.members.size());
      const int64_t me = position(comm, rank);
      for (int64_t step : {int64_t{1}, n - 1}) {
        const int32_t other = comm.members[static_cast<size_t>((me + step) % n)];
        if (job_.HostOf(other) != job_.HostOf(rank)) peer = other;
      }
      if (peer >= 0) break;
    }
    if (peer < 0) return false;
    broken([&](const Comm& comm) {
      const int64_t a = position(comm, rank), b = position(comm, peer), n = static_cast<int64_t>(comm.members.size());
      return a >= 0 && b >= 0 && ((a + 1) % n == b || (b + 1) % n == a);
    });
    plan_->sim.pair_cuts.push_back({at, rank, peer});
    Blame({rank, peer}, {"HUNG", "LATE"}, stuck);
    Unidentified("network progress of each link: NCCL's profiler, network events");
    plan_->truth.what = "the link between ranks " + std::to_string(rank) + " and " + std::to_string(peer) + " is cut";
  } else if (scenario == 19) {
    broken([&](const Comm& comm) { return position(comm, rank) >= 0; });
    plan_->sim.pair_cuts.push_back({at, rank, -1});
    Blame({rank}, {"HUNG", "LATE"}, stuck);
    Unidentified("network progress of each NIC: NCCL's profiler, or the host's port counters");
    plan_->truth.what = "the NIC of rank " + std::to_string(rank) + " on " +
                        job_.hosts[static_cast<size_t>(job_.HostOf(rank))].name + " is down";
  } else {
    const std::string& leaf = job_.hosts[static_cast<size_t>(job_.HostOf(rank))].leaf_switch;
    std::vector<int32_t> behind;
    for (int32_t r = 0; r < job_.ranks; ++r) {
      if (job_.hosts[static_cast<size_t>(job_.HostOf(r))].leaf_switch == leaf) behind.push_back(r);
    }
    if (behind.size() == static_cast<size_t>(job_.ranks)) {
      *error = "needs more than one switch";
      return false;
    }
    broken([&](const Comm& comm) {
      return std::any_of(comm.members.begin(), comm.members.end(), [&](int32_t r) {
        return job_.hosts[static_cast<size_t>(job_.HostOf(r))].leaf_switch == leaf;
      });
    });
    for (int32_t r : behind) plan_->sim.pair_cuts.push_back({at, r, -1});
    Blame(behind, {"HUNG", "LATE"}, stuck);
    Unidentified("network progress of each port: NCCL's profiler, or the switch's own counters");
    plan_->truth.what = "switch " + leaf + " has failed: " + std::to_string(behind.size()) + " ranks are behind it";
  }
  plan_->sim.cuts.push_back(cut);
  return true;
}

bool FaultMaker::InitHang(std::string*) {
  const bool world = random_.Chance(0.5);
  const int32_t rank = PickRank();
  const Program& program = *job_.programs[static_cast<size_t>(rank)];
  std::vector<size_t> places;
  for (size_t i = 0; i < program.size() && program[i].act != Act::kStep; ++i) {
    if (program[i].act == Act::kInit || program[i].act == Act::kSplit) places.push_back(i);
  }
  const size_t at = world || places.size() < 2
                        ? places[0]
                        : places[static_cast<size_t>(random_.Between(1, static_cast<int64_t>(places.size()) - 1))];
  // The first member publishes the unique ID. If it gets stuck before it does so, the others wait for the ID outside
  // NCCL.
  const Instr making = program[at];
  const Comm* comm = job_.CommOf(rank, making.slot);
  if (at != places[0] && making.act == Act::kInit && comm->members[0] == rank && random_.Chance(0.5)) {
    for (int32_t other : comm->members) {
      if (other == rank) continue;
      const Program& theirs = *job_.programs[static_cast<size_t>(other)];
      const auto there = std::find_if(theirs.begin(), theirs.end(),
                                      [&](const Instr& in) { return in.act == Act::kInit && in.slot == making.slot; });
      Insert(other, static_cast<size_t>(there - theirs.begin()), {Instr{.act = Act::kStall}});
      plan_->facts[other] = StoreFacts();
    }
    plan_->truth.what = " or of its id";
  }
  if (!Stall(rank, at, ElsewhereFacts())) return false;
  Blame({rank}, {"HUNG", "LATE"}, {"INIT_INCOMPLETE", "RANK_NOT_ARRIVED", "HOST_STALL", "RANK_NO_DATA"});
  plan_->truth.what = "rank " + std::to_string(rank) + " never reaches the creation of " +
                      (at == places[0] ? "the world's communicator" : "a communicator") + plan_->truth.what;
  if (request_.fr) {
    Unidentified("own dumps: a Flight Recorder dump contains a group only after its communicator was created");
    // All calls on existing communicators are in order and complete, or no communicator was used yet. In the second
    // case the dumps are empty.
    for (const char* verdict : {"INCOMPLETE_DATA", "HEALTHY"}) plan_->truth.verdicts_allowed.push_back(verdict);
  }
  return true;
}

bool FaultMaker::OtherRun(std::string* error) {
  if (!HostStall(error)) return false;
  const int32_t culprit = plan_->truth.culprit_ranks[0];
  job_.restart_count = 1;
  // Files of some other hosts are truncated, and some files are from the previous run.
  const auto hosts = static_cast<int64_t>(job_.hosts.size());
  const int64_t bad = std::max<int64_t>(1, hosts / 32);
  for (int64_t i = 0; i < bad * 2; ++i) {
    const auto host = static_cast<int32_t>(random_.Below(hosts));
    if (host == job_.HostOf(culprit)) continue;
    for (int32_t r : HostRanks(host * job_.gpus_per_host))
      (i % 2 == 0 || request_.fr ? plan_->dump.cut : plan_->dump.other_run).insert(r);
  }
  plan_->truth.what += "; files of other hosts are damaged or from an earlier run";
  return true;
}

bool FaultMaker::Slow(std::string*) {
  Live();
  const int scenario = request_.scenario;
  const std::string needs = request_.fr ? "start events (TORCH_NCCL_ENABLE_TIMING)"
                                        : "measured times of operations (GPU events or the profiler)";
  plan_->faults = 0;
  if (scenario == 35) {
    plan_->sim.noise_chance = 0.01;
    plan_->sim.noise_ns = 4 * kMilli;
    plan_->truth.healthy = true;
    plan_->truth.verdicts_allowed = {"HEALTHY", "SLOW"};
    plan_->truth.kinds_allowed = {};
    plan_->truth.what = "random ranks are late occasionally, none persistently";
    return true;
  }
  const int32_t rank = PickRank();
  if (scenario == 34) {
    // The fault slows all communicators of the rank that cross hosts, through its network rail.
    SimOptions::Slow slow;
    slow.factor = 4 + 4 * random_.Unit();
    for (int32_t c : job_.comm_of[static_cast<size_t>(rank)]) {
      if (c >= 0 && job_.comms[static_cast<size_t>(c)].inter_host && job_.comms[static_cast<size_t>(c)].slot != kWorld)
        slow.comms.push_back(c);
    }
    if (slow.comms.empty()) slow.comms.push_back(0);
    plan_->sim.slow.push_back(slow);
    Blame({rank}, {"SLOW", "HEALTHY"}, {"SLOW_LINK", "SLOW_HOST", "STRAGGLER"});
    plan_->truth.kinds_allowed = {"SLOW_LINK", "SLOW_HOST"};
    plan_->faults = 0;
    Unidentified("network progress of each link: NCCL's profiler" + std::string(timed_ ? "" : "; and " + needs));
    // The record shows only which group is slow.
    for (int32_t c : slow.comms) plan_->truth.set_allowed.push_back(job_.comms[static_cast<size_t>(c)].members);
    plan_->truth.what = "the network of rank " + std::to_string(rank) + " has only a fraction of its bandwidth";
    return true;
  }
  const std::vector<int32_t> ranks = scenario == 42 ? HostRanks(rank) : std::vector<int32_t>{rank};
  for (int32_t r : ranks) job_.compute_factor[static_cast<size_t>(r)] = 1.4 + 0.8 * random_.Unit();
  Blame(ranks, {"SLOW"},
        scenario == 42 ? std::vector<std::string>{"SLOW_HOST", "STRAGGLER"}
                       : std::vector<std::string>{"STRAGGLER", "SLOW_HOST"});
  plan_->faults = 0;
  if (!timed_) {
    Unidentified(needs);
    plan_->truth.verdicts_allowed = {"HEALTHY", "SLOW"};
  } else {
    const Program& program = *job_.programs[static_cast<size_t>(rank)];
    size_t calls = 0;
    for (size_t i = StepBegin(rank, step_); i < program.size() && program[i].act != Act::kStep; ++i) {
      calls += program[i].act == Act::kCall || program[i].act == Act::kAllToAllV;
    }
    if (request_.variant == "overwritten" && calls > 16) {
      Unidentified("longer rings, which contain two steps");
      plan_->truth.verdicts_allowed = {"HEALTHY", "SLOW"};
    } else if (request_.fr && scenario == 42 && job_.layout.shape == Shape::kFsdp) {
      // These dumps contain the durations of operations, but their start and end times only as the watchdog notices
      // them, every 100 ms. Operations that overlap computation end when the slowest rank is done, so no duration shows
      // how long the others computed.
      Unidentified("times of the GPUs' computation itself: if all operations overlap it, only the slowest rank shows");
      plan_->truth.verdicts_allowed = {"HEALTHY", "SLOW"};
    }
  }
  plan_->truth.what = scenario == 42 ? "all GPUs of host " + job_.hosts[static_cast<size_t>(job_.HostOf(rank))].name +
                                           " run slowly (thermal)"
                                     : "rank " + std::to_string(rank) + "'s GPU computes slowly";
  return true;
}

bool FaultMaker::Healthy(std::string*) {
  const int scenario = request_.scenario;
  Truth& truth = plan_->truth;
  truth.healthy = true;
  truth.verdicts_allowed = {"HEALTHY"};
  truth.what = "nothing is wrong";
  Live();
  if (scenario == 29) {
    const auto host = static_cast<int32_t>(random_.Below(static_cast<int64_t>(job_.hosts.size())));
    for (int32_t r : HostRanks(host * job_.gpus_per_host)) plan_->dump.missing.insert(r);
    truth.verdicts_allowed = {"INCOMPLETE_DATA"};  // the data does not prove that the job is healthy
    truth.what = "host " + job_.hosts[static_cast<size_t>(host)].name + " could not be reached; the job runs";
  } else if (scenario == 37) {
    plan_->sim.live_step = job_.steps - 2;
    plan_->sim.live_after = random_.Between(kMilli, 5 * kMilli);
    truth.what = "a captured graph is replayed: ranks only call its launch";
    if (request_.seed % 3 == 2) {
      // Alternatively, one process is stuck between two replays.
      plan_->live = false;
      plan_->sim.live_step = -1;
      truth.healthy = false;
      const int32_t rank = PickRank();
      if (!Stall(rank, StepBegin(rank, step_), ElsewhereFacts())) return false;
      Blame({rank}, {"HUNG", "LATE"}, {"HOST_STALL", "RANK_NOT_ARRIVED"});
      // The recorder numbers the operations of each launch, so the others' records contain operations that this rank
      // never reached.
      if (request_.fr) {
        Unidentified("own dumps: these dumps do not contain graph launches");
        truth.verdicts_allowed.push_back("HEALTHY");
      }
      truth.what = "rank " + std::to_string(rank) + " is stuck between two replays of a graph";
    }
  } else if (scenario == 38 || scenario == 40) {
    std::vector<int32_t> all;
    for (int32_t r = 0; r < job_.ranks; ++r) all.push_back(r);
    AddComm(kAux, all, 9);
    Instr init{.act = Act::kInit, .slot = kAux, .kind = CallKind::kCommInitRankConfig};
    init.site = kSiteInit;
    Instr beat = CallOf(kAux, CallKind::kAllReduce, 16, kSiteAux, true);
    if (scenario == 40) {
      beat.count = 1u << 29;
      plan_->sim.slow.push_back({0, 900, {job_.comm_of[0][kAux]}});
      InsertEverywhere(1, {init, beat, {.act = Act::kJoin, .slot = kAux}});
      plan_->sim.live_step = 1;
      plan_->sim.live_after = 18 * kSecond;
      truth.verdicts_allowed = {"HEALTHY", "LATE"};
      truth.kinds_allowed = {};
      truth.what = "a large operation over a slow network, which is long but legal";
    } else {
      AddComm(kAux2, all, 10);
      Instr again = init;
      again.slot = kAux2;
      Instr fresh = beat;
      fresh.slot = kAux2;
      // One rank's last operation is missing. After a while, all ranks abort the communicator and create another.
      Instr pause{.act = Act::kHostWork};
      pause.ns = 9 * kSecond;
      Instr abort{.act = Act::kAbort, .slot = kAux, .kind = CallKind::kCommAbort};
      abort.site = kSiteAux;
      InsertEverywhere(1, {init, beat, beat, pause, abort, again, fresh});
      const int32_t absent = PickRank();
      Program* program = job_.Own(absent);
      const size_t at = StepBegin(absent, 1);
      program->erase(program->begin() + static_cast<std::ptrdiff_t>(at) + 2);
      truth.what = "a communicator was aborted during an operation and created again; the job runs";
    }
  } else if (scenario == 41) {
    truth.healthy = false;
    truth.culprit_ranks = {PickRank()};
    truth.set_allowed = {truth.culprit_ranks};
    truth.identifiable = false;
    truth.needs = "checksums of tensors before and after operations: no record contains data";
    truth.what =
        "rank " + std::to_string(truth.culprit_ranks[0]) + " computed wrong data: all calls and completions are normal";
  }
  return true;
}

}  // namespace lockstep::corpus
