#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/testing/job.h"
#include "tests/jobmodel/step.h"

namespace lockstep::testing {

using ring::CallKind;

namespace {

namespace model = jobmodel;

model::Step TestStep() {
  using model::Family;
  model::Step step;
  step.micro_batches = 2;
  for (int layer = 0; layer < 2; ++layer) {
    step.forward.push_back({Family::kTp, CallKind::kAllReduce, 1024, 7, 0, -1, 2});
    step.forward.push_back({Family::kTp, CallKind::kAllGather, 512, 9, ring::kNoReduction, -1, 3});
    step.backward.push_back({Family::kTp, CallKind::kAllReduce, 1024, 7, 0, -1, 6});
  }
  step.exchange_count = 256;
  const uint64_t sites[] = {7, 1, 4, 5};
  std::copy(sites, sites + 4, step.exchange_sites);
  step.end = {{Family::kTp, CallKind::kBroadcast, 64, 7, ring::kNoReduction, 0, 8},
              {Family::kDp, CallKind::kReduceScatter, 2048, 7, 0, -1, 9},
              {Family::kDp, CallKind::kAllGather, 2048, 7, ring::kNoReduction, -1, 10},
              {Family::kDp, CallKind::kBroadcast, 64, 7, ring::kNoReduction, 0, 11},
              {Family::kWorld, CallKind::kBroadcast, 16, 7, ring::kNoReduction, 0, 12},
              {Family::kWorld, CallKind::kAllReduce, 1, 7, 0, -1, 13}};
  return step;
}

}  // namespace

Job::Job(int tp, int pp, int dp, int steps) {
  model::Layout layout;
  layout.tp = tp, layout.pp = pp, layout.dp = dp;
  ranks.resize(layout.Ranks());
  step_starts_.resize(layout.Ranks());
  for (model::Family family : {model::Family::kWorld, model::Family::kTp, model::Family::kDp, model::Family::kPp}) {
    for (const model::Group& group : model::Groups(layout, family)) comms.push_back({group.Name(), group.Members()});
  }
  const model::Step step = TestStep();
  for (int r = 0; r < layout.Ranks(); ++r) {
    auto& program = ranks[r].program;
    const std::vector<model::Call> calls = model::CallsOf(step, layout.PlaceOf(r).pp, pp);
    for (int s = 0; s < steps; ++s) {
      step_starts_[r].push_back(program.size());
      for (const model::Call& c : calls) {
        program.push_back(
            {CommOf(r, model::FamilyName(c.family)), c.kind, c.count, c.datatype, c.reduction, c.root_or_peer, c.site});
      }
      program.push_back({});
    }
  }
}

int Job::CommOf(int rank, const std::string& prefix) const {
  for (size_t c = 0; c < comms.size(); ++c) {
    const bool named = comms[c].name == prefix || comms[c].name.rfind(prefix + "_", 0) == 0;
    if (named && std::find(comms[c].members.begin(), comms[c].members.end(), rank) != comms[c].members.end()) {
      return static_cast<int>(c);
    }
  }
  return -1;
}

size_t Job::Find(int rank, const std::string& prefix, int step, int nth) const {
  const int comm = CommOf(rank, prefix);
  for (size_t i = step_starts_[rank][step]; i < ranks[rank].program.size(); ++i) {
    if (ranks[rank].program[i].comm == comm && nth-- == 0) return i;
  }
  return SIZE_MAX;
}

namespace {

bool IsP2p(const Call& c) { return c.kind == CallKind::kSend || c.kind == CallKind::kRecv; }

bool Agree(const Call& a, const Call& b) { return a.kind == b.kind && a.count == b.count && a.datatype == b.datatype; }

// Returns the number of program[i] in NCCL's order (from 1), counting calls in the same lane.
int64_t SeqOf(const std::vector<Call>& program, size_t i) {
  int64_t n = 1;
  for (size_t k = 0; k < i; ++k) {
    const Call &a = program[k], &b = program[i];
    if (a.comm != b.comm || IsP2p(a) != IsP2p(b)) continue;
    if (IsP2p(b) && (a.kind != b.kind || a.root_or_peer != b.root_or_peer)) continue;
    ++n;
  }
  return n;
}

}  // namespace

bool Job::Reached(int rank, size_t call, const State& state) const {
  const auto& prog = ranks[rank].program;
  if (call >= state.host || ranks[rank].gpu_stall_at == call) return false;
  if (prog[call].after < state.host && !state.done[prog[call].after]) return false;
  for (size_t i = state.first_open; i < call; ++i) {
    const bool together = prog[call].group != 0 && prog[i].group == prog[call].group;
    if (prog[i].comm >= 0 && prog[i].stream == prog[call].stream && !together && !state.done[i]) return false;
  }
  return true;
}

bool Job::Completes(int rank, size_t at, const std::vector<State>& states) const {
  const auto& prog = ranks[rank].program;
  const Call& call = prog[at];
  const int64_t seq = SeqOf(prog, at);
  for (int peer : comms[call.comm].members) {
    if (peer == rank) continue;
    if (IsP2p(call) && comms[call.comm].members[call.root_or_peer] != peer) continue;
    // The peer's GPU must have reached the matching call.
    const auto& theirs = ranks[peer].program;
    bool there = false;
    for (size_t i = 0; i < states[peer].host && !there; ++i) {
      const Call& c = theirs[i];
      if (c.comm != call.comm || IsP2p(c) != IsP2p(call)) continue;
      if (IsP2p(call) && (c.kind == call.kind || comms[c.comm].members[c.root_or_peer] != rank)) continue;
      if (SeqOf(theirs, i) != seq) continue;
      if (mismatch_hangs && (!IsP2p(call) ? !Agree(c, call) : c.group != 0 && c.count != call.count)) return false;
      there = states[peer].done[i] || Reached(peer, i, states[peer]);
    }
    if (!there) return false;
  }
  return true;
}

Bundle Job::Run() {
  std::vector<State> states(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) states[r].done.assign(ranks[r].program.size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < ranks.size(); ++r) {
      State& s = states[r];
      JobRank& rank = ranks[r];
      while (!s.faulted && s.host < rank.program.size()) {
        if (s.host == rank.host_fault_at) {
          s.faulted = true;
          moved = true;
          break;
        }
        s.waiting = rank.program[s.host].comm < 0;
        if (s.waiting && s.first_open < s.host) break;
        if (s.waiting) s.done[s.host] = true, s.first_open = s.host + 1;
        ++s.host;
        s.waiting = false;
        moved = true;
      }
    }
    for (size_t r = 0; r < ranks.size(); ++r) {
      State& s = states[r];
      const bool dead = s.faulted && ranks[r].host_fault != HostFault::kStall;
      for (bool again = true; !dead && again;) {
        again = false;
        for (size_t i = s.first_open; i < s.host; ++i) {
          if (s.done[i] || !Reached(static_cast<int>(r), i, s) || !Completes(static_cast<int>(r), i, states)) continue;
          s.done[i] = moved = again = true;
          while (s.first_open < s.host && s.done[s.first_open]) ++s.first_open;
        }
      }
    }
  }

  Bundle b;
  b.ranks_expected = static_cast<int32_t>(ranks.size());
  b.known_stalled = true;
  for (const JobComm& c : comms) {
    Communicator out;
    out.id = out.name = c.name;
    out.size = static_cast<int32_t>(c.members.size());
    out.members.assign(c.members.begin(), c.members.end());
    b.comms.push_back(out);
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    const State& s = states[r];
    Rank rank;
    rank.rank = static_cast<int32_t>(r);
    rank.host = "node0";
    rank.host_waits = true;
    rank.gpu_marks = full_marks ? ring::GpuMarks::kFull : ring::GpuMarks::kDone;
    rank.start_recorded = full_marks;
    rank.captured_ns = 100'000'000'000;
    std::map<int, uint32_t> membership_of;
    for (size_t c = 0; c < comms.size(); ++c) {
      for (size_t m = 0; m < comms[c].members.size(); ++m) {
        if (comms[c].members[m] != static_cast<int>(r)) continue;
        Membership ms;
        ms.comm = static_cast<uint32_t>(c);
        ms.member_rank = static_cast<int32_t>(m);
        ms.state = ring::CommState::kReady;
        ms.issued = ms.launched = 0;
        ms.completed = 0;
        membership_of[static_cast<int>(c)] = static_cast<uint32_t>(rank.memberships.size());
        rank.memberships.push_back(ms);
      }
    }
    for (size_t i = 0; i < s.host && i < ranks[r].program.size(); ++i) {
      const Call& c = ranks[r].program[i];
      if (c.comm < 0) continue;
      Membership& ms = rank.memberships[membership_of[c.comm]];
      Op op;
      op.membership = membership_of[c.comm];
      op.kind = c.kind;
      op.count = c.count;
      op.datatype = c.datatype;
      op.reduction = c.reduction;
      op.root_or_peer = c.root_or_peer;
      op.seq = SeqOf(ranks[r].program, i);
      op.thread = 0;
      op.index = static_cast<int64_t>(i);
      op.enter_ns = 1'000'000 * static_cast<int64_t>(i + 1);
      op.return_ns = op.enter_ns + 1000;
      op.caller = c.site;
      op.caller_object = 1;
      op.stream = static_cast<uint32_t>(c.stream);
      op.ticket = static_cast<int64_t>(i) + 1;
      op.group = static_cast<uint32_t>(c.group);
      const bool reached = Reached(static_cast<int>(r), i, s);
      op.state = s.done[i]     ? OpState::kCompleted
                 : !full_marks ? OpState::kIncomplete
                 : reached     ? OpState::kStarted
                               : OpState::kEnqueued;
      if (IsP2p(c)) {
        auto it = std::find_if(ms.peers.begin(), ms.peers.end(),
                               [&](const PeerCount& p) { return p.peer == c.root_or_peer; });
        if (it == ms.peers.end()) it = ms.peers.insert(it, {c.root_or_peer, 0, 0});
        ++(c.kind == CallKind::kSend ? it->sends : it->recvs);
      } else {
        ms.issued = ms.launched = op.seq;
        if (op.state == OpState::kCompleted) ms.completed = op.seq;
      }
      rank.ops.push_back(op);
    }
    for (const Op& op : rank.ops) {
      while (rank.streams.size() <= op.stream) {
        rank.streams.emplace_back();
        rank.streams.back().index = static_cast<uint32_t>(rank.streams.size() - 1);
      }
    }
    ring::ThreadSnapshot thread;
    thread.calls = rank.ops.size();
    thread.last_call_ns = rank.ops.empty() ? 0 : rank.ops.back().return_ns;
    if (s.waiting && !s.faulted) {
      thread.wait = CallKind::kStreamSynchronize;
      thread.wait_since_ns = thread.last_call_ns;
    }
    rank.threads.push_back(thread);
    rank.process.life = Life::kRunning;
    rank.process.state = "S";
    if (s.faulted) {
      switch (ranks[r].host_fault) {
        case HostFault::kDie:
          rank.process.life = Life::kKilled;
          rank.process.signal = ranks[r].signal;
          break;
        case HostFault::kExit: rank.process.life = Life::kExited; break;
        case HostFault::kStop: rank.process.state = "T"; break;
        default: break;
      }
    } else if (s.host == ranks[r].program.size()) {
      rank.process.life = Life::kExited;
    }
    b.ranks.push_back(rank);
  }
  return b;
}

Bundle WithoutMarks(Bundle bundle) {
  for (Rank& rank : bundle.ranks) {
    rank.gpu_marks = ring::GpuMarks::kOff;
    rank.streams.clear();
    for (Membership& ms : rank.memberships) ms.started = ms.completed = kUnknown;
    for (Op& op : rank.ops) op.state = OpState::kUnknown, op.stream = kNoIndex, op.ticket = 0;
  }
  return bundle;
}

}  // namespace lockstep::testing
