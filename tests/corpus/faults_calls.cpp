// Faults of the program: calls that disagree, are missing, are added or come in the wrong order.
#include <algorithm>

#include "tests/corpus/faults.h"
#include "tests/corpus/process_facts.h"
#include "tests/corpus/program.h"

namespace lockstep::corpus {
namespace {

bool IsCall(const Instr& in) { return in.act == Act::kCall && ring::IsCollective(in.kind); }

}  // namespace

bool FaultMaker::Skip(bool chatty, std::string*) {
  const int32_t rank = PickRank();
  Slot slot = kWorld;
  size_t at = SIZE_MAX;
  if (chatty) {
    // The call must be one that no rank waits for soon, while calls on other communicators continue.
    slot = kDp;
    at = Find(rank, step_, [](const Instr& in) { return IsCall(in) && in.slot == kDp && in.async; });
    plan_->dump.capture.depth = 32;
  } else {
    at = AnyCall(rank, &slot, [](const Instr&) { return true; });
  }
  if (at == SIZE_MAX) return false;
  Program* program = job_.Own(rank);
  program->erase(program->begin() + static_cast<std::ptrdiff_t>(at));
  (*program)[at].fault = static_cast<uint8_t>(plan_->faults + 1);
  Blame({rank}, {"DESYNC", "HUNG"},
        {"RANK_NOT_ARRIVED", "MISMATCH_KIND", "MISMATCH_COUNT", "MISMATCH_DATATYPE", "ORDER_INVERSION", "MISMATCH_ROOT",
         "MISMATCH_REDUCTION", "SILENT_DESYNC", "DEADLOCK_CYCLE"});
  if (Members(rank, slot).size() == 2) plan_->truth.set_allowed.push_back(Members(rank, slot));
  plan_->truth.what = "rank " + std::to_string(rank) + " skips one call on its " + SlotName(slot) + " communicator";
  return true;
}

bool FaultMaker::Extra(std::string*) {
  const int32_t rank = PickRank();
  Slot slot = kWorld;
  const size_t at = AnyCall(rank, &slot, [](const Instr&) { return true; });
  if (at == SIZE_MAX) return false;
  Instr call = CallOf(slot, CallKind::kAllReduce, 1, kSiteExtra, false);
  call.fault = static_cast<uint8_t>(plan_->faults + 1);
  Instr join{.act = Act::kJoin, .slot = slot};
  Insert(rank, at, {call, join});
  Blame({rank}, {"DESYNC", "HUNG"},
        {"RANK_AHEAD", "MISMATCH_KIND", "MISMATCH_COUNT", "MISMATCH_DATATYPE", "MISMATCH_ROOT", "MISMATCH_REDUCTION",
         "SILENT_DESYNC", "ORDER_INVERSION", "DEADLOCK_CYCLE"});
  if (Members(rank, slot).size() == 2) plan_->truth.set_allowed.push_back(Members(rank, slot));
  plan_->truth.what =
      "rank " + std::to_string(rank) + " makes an additional AllReduce on its " + SlotName(slot) + " communicator";
  return true;
}

bool FaultMaker::WrongCall(std::string*) {
  const int32_t rank = PickRank();
  Slot slot = kWorld;
  const bool kind = request_.scenario == 3;
  const size_t at =
      AnyCall(rank, &slot, [&](const Instr& in) { return kind ? in.kind != CallKind::kBroadcast : in.count > 1024; });
  if (at == SIZE_MAX) return false;
  Instr& in = (*job_.Own(rank))[at];
  in.fault = static_cast<uint8_t>(plan_->faults + 1);
  if (kind) {
    in.kind = in.kind == CallKind::kAllReduce ? CallKind::kAllGather : CallKind::kAllReduce;
    in.reduction = in.kind == CallKind::kAllReduce ? 0 : ring::kNoReduction;
    Blame({rank}, {"DESYNC", "HUNG"}, {"MISMATCH_KIND"});
    plan_->truth.what = "rank " + std::to_string(rank) + " calls a different collective than its peers";
  } else if (random_.Chance(0.5)) {
    in.count = in.count / 2 + static_cast<uint64_t>(random_.Below(100));
    Blame({rank}, {"DESYNC", "HUNG"}, {"MISMATCH_COUNT"});
    plan_->truth.what = "rank " + std::to_string(rank) + " passes a different count than its peers";
  } else {
    in.datatype = in.datatype == 7 ? 9 : 7;
    Blame({rank}, {"DESYNC", "HUNG"}, {"MISMATCH_DATATYPE"});
    plan_->truth.what = "rank " + std::to_string(rank) + " passes a different datatype than its peers";
  }
  if (Members(rank, slot).size() == 2) plan_->truth.set_allowed.push_back(Members(rank, slot));
  return true;
}

bool FaultMaker::WrongReduction(std::string*) {
  const int32_t rank = PickRank();
  Slot slot = kWorld;
  const bool root = random_.Chance(0.3);
  size_t at = AnyCall(rank, &slot, [&](const Instr& in) {
    return root ? in.kind == CallKind::kBroadcast : in.kind == CallKind::kAllReduce;
  });
  if (at == SIZE_MAX) at = AnyCall(rank, &slot, [](const Instr& in) { return in.reduction != ring::kNoReduction; });
  if (at == SIZE_MAX) return false;
  Instr& in = (*job_.Own(rank))[at];
  in.fault = static_cast<uint8_t>(plan_->faults + 1);
  const bool changed_root = in.kind == CallKind::kBroadcast;
  if (changed_root) {
    in.root_or_peer = 1;
  } else {
    in.reduction = in.reduction == 2 ? 3 : 2;
  }
  plan_->live = true;
  plan_->sim.live_step = std::min(job_.steps - 1, step_ + 1);
  plan_->sim.live_after = random_.Between(kMilli, 12 * kMilli);
  Blame({rank}, {"DESYNC"}, {changed_root ? "MISMATCH_ROOT" : "MISMATCH_REDUCTION", "SILENT_DESYNC"});
  if (Members(rank, slot).size() == 2) plan_->truth.set_allowed.push_back(Members(rank, slot));
  plan_->truth.what = "rank " + std::to_string(rank) + " passes a different " + (changed_root ? "root" : "reduction") +
                      "; the job continues, with wrong data";
  if (request_.fr) {
    Unidentified("own dumps: Flight Recorder dumps contain neither reductions nor roots");
    plan_->truth.verdicts_allowed = {"HEALTHY", "DESYNC"};
  }
  return true;
}

bool FaultMaker::WrongSplits(std::string*) {
  const int32_t rank = PickRank([&](int32_t r) { return job_.comm_of[static_cast<size_t>(r)][kEp] >= 0; });
  if (rank < 0) return false;
  // A second fault strikes at the step's start and usually delays whatever comes later in the step.
  const size_t at = Find(
      rank, step_, [](const Instr& in) { return in.act == Act::kAllToAllV; }, false, request_.variant == "twofaults");
  if (at == SIZE_MAX) return false;
  const std::vector<int32_t> members = Members(rank, kEp);
  auto peer = static_cast<int32_t>(random_.Below(static_cast<int64_t>(members.size())));
  if (members[static_cast<size_t>(peer)] == rank) peer = (peer + 1) % static_cast<int32_t>(members.size());
  Instr& in = (*job_.Own(rank))[at];
  in.fault = static_cast<uint8_t>(plan_->faults + 1);
  in.root_or_peer = peer;
  Blame({rank}, {"DESYNC", "HUNG"}, {"MISMATCH_SPLITS", "MISMATCH_COUNT", "P2P_UNMATCHED"});
  std::vector<int32_t> pair{rank, members[static_cast<size_t>(peer)]};
  std::sort(pair.begin(), pair.end());
  plan_->truth.set_allowed.push_back(pair);
  plan_->truth.what = "rank " + std::to_string(rank) + " sends rank " +
                      std::to_string(members[static_cast<size_t>(peer)]) + " more in an all-to-all than it expects";
  if (request_.fr) Unidentified("own dumps: Flight Recorder dumps contain only the sums of an all-to-all's sizes");
  return true;
}

bool FaultMaker::EndsEarly(std::string*) {
  const int32_t rank = PickRank();
  const size_t at = StepBegin(rank, step_);
  Program* program = job_.Own(rank);
  program->resize(at);
  Instr last = CallOf(kWorld, CallKind::kAllReduce, 1, kSiteTeardown, false);
  last.fault = static_cast<uint8_t>(plan_->faults + 1);
  program->push_back(last);
  program->push_back({.act = Act::kJoin, .slot = kWorld});
  program->push_back({.act = Act::kHostWait, .kind = CallKind::kStreamSynchronize});
  plan_->facts[rank] = TeardownFacts();
  if (job_.layout.shape == Shape::kDdp) {
    // On the only communicator, the rank's last AllReduce has the number of a call in which the others average
    // gradients. It sums one element instead of a million, so both kinds of mismatch are right. A Flight Recorder dump
    // contains no reductions.
    Blame({rank}, {"DESYNC", "HUNG"}, {"MISMATCH_COUNT"});
    if (!request_.fr) plan_->truth.kinds_allowed.push_back("MISMATCH_REDUCTION");
  } else {
    // The rank's last AllReduce matches the others' next call on the world communicator, so the rank is ahead there and
    // waits. The others wait for the rank on the shard communicator, where it is behind. This is not a cycle: the
    // others never make the missing calls in any order.
    Blame({rank}, {"DESYNC", "HUNG"}, {"RANK_NOT_ARRIVED", "RANK_AHEAD"});
  }
  plan_->truth.what = "rank " + std::to_string(rank) + " ends its epoch early and calls the final AllReduce";
  return true;
}

// Two ranks use two common communicators in opposite orders.
bool FaultMaker::Inverted(std::string*) {
  const int32_t rank = PickRank([&](int32_t r) {
    return job_.comm_of[static_cast<size_t>(r)][kEmb] >= 0 && job_.comm_of[static_cast<size_t>(r)][kMp] >= 0;
  });
  if (rank < 0) return false;
  const size_t first = Find(rank, step_, [](const Instr& in) { return IsCall(in) && in.slot == kEmb; });
  const size_t second = Find(rank, step_, [](const Instr& in) { return IsCall(in) && in.slot == kMp; });
  if (first == SIZE_MAX || second == SIZE_MAX) return false;
  Program* program = job_.Own(rank);
  std::swap((*program)[first], (*program)[second]);
  std::swap((*program)[first + 1], (*program)[second + 1]);  // swaps the calls together with the waits after them
  (*program)[first].fault = static_cast<uint8_t>(plan_->faults + 1);
  const std::vector<int32_t> pair = Members(rank, kEmb);
  Blame(pair, {"DESYNC", "HUNG"}, {"DEADLOCK_CYCLE", "ORDER_INVERSION"});
  plan_->truth.set_allowed.push_back({rank});
  plan_->truth.what =
      "rank " + std::to_string(rank) + " uses mp before emb, its peer in emb uses them in the opposite order";
  return true;
}

// The CPU threads use the same order; two GPUs start the two operations in different orders.
bool FaultMaker::LaunchOrder(std::string*) {
  const int32_t rank = PickRank([&](int32_t r) {
    return job_.comm_of[static_cast<size_t>(r)][kEmb] >= 0 && job_.comm_of[static_cast<size_t>(r)][kMp] >= 0;
  });
  if (rank < 0) return false;
  // All ranks issue both operations before waiting for either.
  EditAll([](Program* program) {
    for (size_t i = 0; i + 3 < program->size(); ++i) {
      Instr &a = (*program)[i], &b = (*program)[i + 2];
      if (IsCall(a) && a.slot == kEmb && IsCall(b) && b.slot == kMp) std::swap((*program)[i + 1], b);
    }
  });
  const std::vector<int32_t> pair = Members(rank, kEmb);
  for (int32_t r : pair) {
    const size_t emb = Find(r, step_, [](const Instr& in) { return IsCall(in) && in.slot == kEmb; });
    const size_t mp = Find(r, step_, [](const Instr& in) { return IsCall(in) && in.slot == kMp; });
    if (emb == SIZE_MAX || mp != emb + 1) return false;
    Program* program = job_.Own(r);
    // One GPU has no room for mp until emb has finished. The other has no room for emb until mp has finished.
    Instr& held = (*program)[r == rank ? emb : mp];
    held.ns = 1 + (r == rank ? kMp : kEmb);
    held.fault = static_cast<uint8_t>(plan_->faults + 1);
  }
  Blame(pair, {"HUNG", "DESYNC"}, {"DEADLOCK_CYCLE", "COLLECTIVE_STUCK", "GPU_STALL"});
  Unidentified(
      "which kernels have channels on the GPU: the profiler's kernel events, or two runs with another launch order");
  plan_->truth.what = "two GPUs start emb and mp in different orders, although all ranks called them in the same order";
  return true;
}

bool FaultMaker::SendSend(std::string*) {
  const int32_t rank = PickRank([&](int32_t r) { return job_.Place(r).pp + 1 < job_.layout.pp; });
  if (rank < 0) return false;
  const std::vector<int32_t> stages = Members(rank, kPp);
  const int32_t me = job_.member_of[static_cast<size_t>(rank)][kPp], peer = me + 1;
  const int32_t other = stages[static_cast<size_t>(peer)];
  auto exchange = [&](int32_t with, bool send_first) {
    Instr send{.act = Act::kCall, .slot = kPp, .kind = CallKind::kSend, .datatype = 9};
    send.root_or_peer = with;
    send.count = 4u << 20;
    send.site = kSiteSendForward;
    Instr recv = send;
    recv.kind = CallKind::kRecv;
    recv.site = kSiteRecvBackward;
    Instr join{.act = Act::kJoin, .slot = kPp};
    join.async = true;
    std::vector<Instr> list{send, recv, join};
    if (!send_first) std::swap(list[0], list[1]);
    list[0].fault = static_cast<uint8_t>(plan_->faults + 1);
    return list;
  };
  // The exchange is between two steps, when the pipeline has nothing else in flight.
  const size_t mine = StepBegin(rank, step_), theirs = StepBegin(other, step_);
  Insert(rank, mine, exchange(peer, true));
  Insert(other, theirs, exchange(me, true));
  Blame({rank, other}, {"HUNG", "DESYNC"}, {"DEADLOCK_CYCLE", "P2P_UNMATCHED"});
  if (!done_known_) Unidentified("GPU marks: both sides have issued everything, and only the completions differ");
  plan_->truth.what = "ranks " + std::to_string(rank) + " and " + std::to_string(other) +
                      " send to each other before they receive, without a group";
  return true;
}

bool FaultMaker::WrongPeer(std::string*) {
  const int32_t stages = job_.layout.pp;
  if (stages < 3) return false;
  const int32_t rank = PickRank([&](int32_t r) { return job_.Place(r).pp + 1 < stages; });
  if (rank < 0) return false;
  const size_t at = Find(rank, step_, [](const Instr& in) {
    return in.act == Act::kCall && in.kind == CallKind::kSend && in.site == kSiteSendForward;
  });
  if (at == SIZE_MAX) return false;
  Instr& in = (*job_.Own(rank))[at];
  in.fault = static_cast<uint8_t>(plan_->faults + 1);
  const std::vector<int32_t> members = Members(rank, kPp);
  const int32_t right = in.root_or_peer, me = job_.member_of[static_cast<size_t>(rank)][kPp];
  int32_t wrong = (right + 1) % stages;
  if (wrong == me) wrong = (wrong + 1) % stages;
  in.root_or_peer = wrong;
  Blame({rank}, {"DESYNC", "HUNG"}, {"P2P_UNMATCHED", "DEADLOCK_CYCLE", "ORDER_INVERSION"});
  // Other pipelines show which side of the send is wrong. Without other pipelines, either side may be wrong.
  const bool alone = job_.layout.tp * job_.layout.cp * job_.layout.dp == 1;
  for (int32_t partner :
       alone ? std::vector<int32_t>{members[static_cast<size_t>(right)], members[static_cast<size_t>(wrong)]}
             : std::vector<int32_t>{}) {
    std::vector<int32_t> pair{rank, partner};
    std::sort(pair.begin(), pair.end());
    plan_->truth.set_allowed.push_back(pair);
  }
  plan_->truth.what = "rank " + std::to_string(rank) + " sends its activations to rank " +
                      std::to_string(members[static_cast<size_t>(wrong)]) + " instead of rank " +
                      std::to_string(members[static_cast<size_t>(right)]);
  return true;
}

bool FaultMaker::OpenGroup(std::string*) {
  const int32_t rank = PickRank();
  const size_t at = Find(rank, step_, [](const Instr& in) { return in.act == Act::kGroupEnd; });
  if (at == SIZE_MAX) return false;
  Program* program = job_.Own(rank);
  program->erase(program->begin() + static_cast<std::ptrdiff_t>(at));
  (*program)[at].fault = static_cast<uint8_t>(plan_->faults + 1);
  const size_t end = StepBegin(rank, step_ + 1);
  if (end != SIZE_MAX) program->resize(end - 1);
  program->push_back({.act = Act::kLeave});  // waits for data that the others never send
  plan_->facts[rank] = ElsewhereFacts();
  Blame({rank}, {"DESYNC", "HUNG"}, {"GROUP_LEFT_OPEN"});
  plan_->truth.what =
      "rank " + std::to_string(rank) + " opens a group and never ends it: its later calls are only queued";
  if (request_.fr) {
    plan_->truth.kinds_allowed.insert(plan_->truth.kinds_allowed.end(),
                                      {"RANK_NOT_ARRIVED", "HOST_STALL", "P2P_UNMATCHED"});
  }
  return true;
}

bool FaultMaker::WrongColor(std::string* error) {
  if (!job_.layout.split) {
    *error = "needs communicators that are created by a split";
    return false;
  }
  // The rank joins a neighboring group of the same family.
  const Slot slot = kTp;
  const int32_t rank = PickRank([&](int32_t r) { return Members(r, slot).size() > 1; });
  if (rank < 0) return false;
  const int32_t from = job_.comm_of[static_cast<size_t>(rank)][slot];
  int32_t to = -1;
  for (size_t c = 0; c < job_.comms.size(); ++c) {
    if (job_.comms[c].slot == slot && job_.comms[c].number == (job_.comms[static_cast<size_t>(from)].number ^ 1))
      to = static_cast<int32_t>(c);
  }
  if (to < 0) return false;
  auto& left = job_.comms[static_cast<size_t>(from)].members;
  auto& joined = job_.comms[static_cast<size_t>(to)].members;
  left.erase(std::find(left.begin(), left.end(), rank));
  joined.insert(std::upper_bound(joined.begin(), joined.end(), rank), rank);
  for (const auto* members : {&left, &joined}) {
    for (size_t m = 0; m < members->size(); ++m)
      job_.member_of[static_cast<size_t>((*members)[m])][slot] = static_cast<int32_t>(m);
  }
  job_.comm_of[static_cast<size_t>(rank)][slot] = to;
  for (Instr& in : *job_.Own(rank)) {
    if (in.act == Act::kSplit && in.slot == slot) in.fault = static_cast<uint8_t>(plan_->faults + 1);
  }
  Live();
  plan_->may_hang = true;
  Blame({rank}, {"DESYNC", "HUNG"}, {"SPLIT_MISMATCH"});
  plan_->truth.what = "rank " + std::to_string(rank) + " passes the color of another " + SlotName(slot) +
                      " group when the world communicator is split";
  // Flight Recorder dumps contain each group's members but no colors: this rank is missing in one group and additional
  // in its neighbor.
  return true;
}

}  // namespace lockstep::corpus
