#include "tests/corpus/faults.h"

#include <algorithm>

#include "tests/corpus/process_facts.h"
#include "tests/corpus/program.h"

namespace lockstep::corpus {

using ring::IsCollective;

FaultMaker::FaultMaker(const Request& request, uint64_t seed, Plan* plan)
    : request_(request), plan_(plan), job_(plan->job), random_(Mix(seed, 101)) {
  // The step of the fault. If the request needs full rings, they are full by this step.
  step_ = std::max(1, request.depth > 0 ? job_.steps - 2 : job_.steps / 2);
  timed_ = request.marks == Marks::kTimed || (request.fr && request.marks == Marks::kFull);
  started_known_ = request.marks == Marks::kTimed || request.marks == Marks::kFull;
  done_known_ = request.fr || request.marks != Marks::kOff;
}

int32_t FaultMaker::PickRank(const std::function<bool(int32_t)>& fits) {
  const std::string& variant = request_.variant;
  if (variant == "rank0" && (!fits || fits(0))) return 0;
  if (variant == "lastrank" && (!fits || fits(job_.ranks - 1))) return job_.ranks - 1;
  const int64_t range = variant == "firstfile" ? std::min(job_.gpus_per_host, job_.ranks) : job_.ranks;
  for (int attempt = 0; attempt < 400; ++attempt) {
    // The variant firstfile tries the ranks of the first file first.
    const auto rank = static_cast<int32_t>(random_.Below(attempt < 200 ? range : job_.ranks));
    if (!fits || fits(rank)) return rank;
  }
  for (int32_t rank = 0; rank < job_.ranks; ++rank) {
    if (fits(rank)) return rank;
  }
  return -1;
}

size_t FaultMaker::StepBegin(int32_t rank, int32_t step) const {
  const Program& program = *job_.programs[static_cast<size_t>(rank)];
  for (size_t i = 0; i < program.size(); ++i) {
    if (program[i].act == Act::kStep && program[i].count == static_cast<uint64_t>(step)) return i + 1;
  }
  return SIZE_MAX;
}

size_t FaultMaker::Find(int32_t rank, int32_t step, const std::function<bool(const Instr&)>& fits, bool last,
                        bool first) {
  const Program& program = *job_.programs[static_cast<size_t>(rank)];
  std::vector<size_t> found;
  for (size_t i = StepBegin(rank, step); i < program.size() && program[i].act != Act::kStep; ++i) {
    if (fits(program[i])) found.push_back(i);
  }
  if (found.empty()) return SIZE_MAX;
  if (first) return found.front();
  return last ? found.back() : found[static_cast<size_t>(random_.Below(static_cast<int64_t>(found.size())))];
}

void FaultMaker::Insert(int32_t rank, size_t at, std::vector<Instr> instrs) {
  Program* program = job_.Own(rank);
  program->insert(program->begin() + static_cast<std::ptrdiff_t>(at), instrs.begin(), instrs.end());
}

void FaultMaker::EditAll(const std::function<void(Program*)>& edit) {
  std::map<const Program*, std::shared_ptr<const Program>> edited;
  for (auto& program : job_.programs) {
    auto& fresh = edited[program.get()];
    if (fresh == nullptr) {
      auto copy = std::make_shared<Program>(*program);
      edit(copy.get());
      fresh = copy;
    }
    program = fresh;
  }
}

void FaultMaker::InsertEverywhere(int32_t step, const std::vector<Instr>& instrs) {
  EditAll([&](Program* program) {
    for (size_t i = 0; i < program->size(); ++i) {
      if ((*program)[i].act != Act::kStep || (*program)[i].count != static_cast<uint64_t>(step)) continue;
      program->insert(program->begin() + static_cast<std::ptrdiff_t>(i) + 1, instrs.begin(), instrs.end());
      return;
    }
  });
}

// Adds a communicator that the layout does not have, created from its own unique id.
int32_t FaultMaker::AddComm(Slot slot, std::vector<int32_t> members, uint32_t ordinal) {
  Comm comm;
  comm.slot = slot;
  comm.ordinal = ordinal;
  comm.id = Mix(Mix(job_.seed, 78), slot);
  comm.name = job_.layout.names == 2 ? "" : slot == kAux2 ? "elastic_1" : "elastic_0";
  const auto index = static_cast<int32_t>(job_.comms.size());
  comm.pg_name = std::to_string(index);
  comm.members = std::move(members);
  for (size_t m = 0; m < comm.members.size(); ++m) {
    job_.comm_of[static_cast<size_t>(comm.members[m])][slot] = index;
    job_.member_of[static_cast<size_t>(comm.members[m])][slot] = static_cast<int32_t>(m);
    comm.inter_host |= job_.HostOf(comm.members[m]) != job_.HostOf(comm.members[0]);
  }
  job_.comms.push_back(comm);
  return index;
}

Instr FaultMaker::Faulty(Act act, uint64_t count, int64_t ns) {
  Instr in{.act = act};
  in.count = count;
  in.ns = ns;
  in.fault = static_cast<uint8_t>(plan_->faults + 1);
  return in;
}

Instr FaultMaker::CallOf(Slot slot, CallKind kind, uint64_t count, uint32_t site, bool async) {
  Instr in{.act = Act::kCall, .slot = slot, .kind = kind, .datatype = 7};
  if (kind == CallKind::kAllReduce) in.reduction = 0;
  in.count = count;
  in.site = site;
  in.async = async;
  return in;
}

std::vector<int32_t> FaultMaker::HostRanks(int32_t rank) const {
  std::vector<int32_t> ranks;
  const int32_t first = job_.HostOf(rank) * job_.gpus_per_host;
  for (int32_t r = first; r < std::min(job_.ranks, first + job_.gpus_per_host); ++r) ranks.push_back(r);
  return ranks;
}

std::vector<int32_t> FaultMaker::Members(int32_t rank, Slot slot) const {
  const Comm* comm = job_.CommOf(rank, slot);
  return comm == nullptr ? std::vector<int32_t>{} : comm->members;
}

void FaultMaker::Blame(std::vector<int32_t> ranks, std::vector<std::string> verdicts, std::vector<std::string> kinds) {
  std::sort(ranks.begin(), ranks.end());
  plan_->truth.culprit_ranks = ranks;
  plan_->truth.verdicts_allowed = std::move(verdicts);
  plan_->truth.kinds_allowed = std::move(kinds);
  plan_->truth.set_allowed.push_back(ranks);
  ++plan_->faults;
}

void FaultMaker::Live() {
  plan_->live = true;
  plan_->sim.live_step = std::max(1, job_.steps - 2);
  plan_->sim.live_after = random_.Between(kMilli, 12 * kMilli);
}

void FaultMaker::Unidentified(const std::string& needs) {
  plan_->truth.identifiable = false;
  plan_->truth.needs = needs;
}

bool FaultMaker::Stall(int32_t rank, size_t at, ProcessFacts facts) {
  if (at == SIZE_MAX) return false;
  Insert(rank, at, {Faulty(Act::kStall)});
  plan_->facts[rank] = std::move(facts);
  return true;
}

// Chooses a collective of the fault's step on any of the rank's communicators. Returns its program index; SIZE_MAX if
// none fits.
size_t FaultMaker::AnyCall(int32_t rank, Slot* slot, const std::function<bool(const Instr&)>& fits) {
  std::vector<Slot> slots;
  for (uint8_t s = 0; s < kSlots; ++s) {
    if (job_.comm_of[static_cast<size_t>(rank)][s] >= 0) slots.push_back(static_cast<Slot>(s));
  }
  for (size_t i = slots.size(); i > 1; --i)
    std::swap(slots[i - 1], slots[static_cast<size_t>(random_.Below(static_cast<int64_t>(i)))]);
  for (Slot s : slots) {
    const size_t at = Find(rank, step_, [&](const Instr& in) {
      return in.act == Act::kCall && in.slot == s && IsCollective(in.kind) && fits(in);
    });
    if (at == SIZE_MAX) continue;
    *slot = s;
    return at;
  }
  return SIZE_MAX;
}

bool FaultMaker::Make(std::string* error) {
  if (!MakeScenario(error)) {
    if (error->empty()) *error = "the layout has no place for this fault";
    return false;
  }
  return true;
}

bool FaultMaker::MakeScenario(std::string* error) {
  switch (request_.scenario) {
    case 1: return Skip(false, error);
    case 2: return Extra(error);
    case 3:
    case 4: return WrongCall(error);
    case 5: return WrongReduction(error);
    case 6: return WrongSplits(error);
    case 7:
    case 9:
    case 10:
    case 21:
    case 32:
    case 39: return HostStall(error);
    case 8: return Checkpoint(error);
    case 11: return LeavesLoop(error);
    case 12: return EndsEarly(error);
    case 13:
    case 14:
    case 15: return Death(error);
    case 16:
    case 17: return GpuFault(error);
    case 18:
    case 19:
    case 20: return Network(error);
    case 22: return Inverted(error);
    case 23: return LaunchOrder(error);
    case 24: return SendSend(error);
    case 25: return WrongPeer(error);
    case 26: return OpenGroup(error);
    case 27: return WrongColor(error);
    case 28: return InitHang(error);
    case 30: return OtherRun(error);
    case 31: return Skip(true, error);
    case 33:
    case 34:
    case 35:
    case 42: return Slow(error);
    default: return Healthy(error);
  }
}

// The analysis would report two faults of the same kind as one finding.
bool FaultMaker::LikeFirst(Second second) const {
  const bool stands = second == Second::kStall || second == Second::kStop;
  switch (request_.scenario) {
    case 1:
    case 31: return second == Second::kSkip;
    case 7:
    case 8:
    case 9:
    case 10:
    case 21:
    case 28:
    case 30:
    case 32:
    case 39: return stands;
    case 11:
      return stands || second == Second::kDeath;  // the rank hangs in its teardown, or has exited
    // Neither a dead nor a stopped process writes a Flight Recorder dump.
    case 13:
    case 14: return second == Second::kDeath || (request_.fr && second == Second::kStop);
    case 15: return stands || (request_.fr && second == Second::kDeath);
    case 16:
    case 17: return second == Second::kGpu;
    default: return false;
  }
}

bool FaultMaker::MakeSecond(std::string* error) {
  // Puts the second fault into the same step, on another host if possible, before anything that the first fault could
  // delay.
  const std::vector<int32_t>& first = plan_->truth.culprit_ranks;
  const int32_t rank = PickRank([&](int32_t r) {
    if (std::find(first.begin(), first.end(), r) != first.end()) return false;
    if (job_.ranks <= job_.gpus_per_host) return true;
    return std::none_of(first.begin(), first.end(), [&](int32_t c) { return job_.HostOf(c) == job_.HostOf(r); });
  });
  // No rank gets past the creation of a communicator that never completes.
  const size_t at = rank < 0 ? SIZE_MAX : request_.scenario == 28 ? 0 : StepBegin(rank, step_);
  if (at == SIZE_MAX) {
    *error = "no place for a second fault";
    return false;
  }
  // A GPU fault shows only if start times are known. A skipped call shows only among three or more ranks.
  const auto skippable = [&](const Instr& in) {
    return in.act == Act::kCall && IsCollective(in.kind) && Members(rank, in.slot).size() >= 3;
  };
  const bool begins = request_.scenario == 28;
  const size_t call = begins ? SIZE_MAX : Find(rank, step_, skippable, false, true);
  const size_t compute = begins || !started_known_
                             ? SIZE_MAX
                             : Find(
                                   rank, step_, [](const Instr& in) { return in.act == Act::kCompute; }, false, true);
  std::vector<Second> choice;
  for (const Second each : {Second::kSkip, Second::kGpu, Second::kStall, Second::kStop, Second::kDeath}) {
    if ((each == Second::kSkip && call == SIZE_MAX) || (each == Second::kGpu && compute == SIZE_MAX)) continue;
    if (!LikeFirst(each)) choice.push_back(each);
  }
  if (choice.empty()) {
    *error = "no second fault of another kind";
    return false;
  }
  const Second second = choice[static_cast<size_t>(random_.Below(static_cast<int64_t>(choice.size())))];
  Truth& truth = plan_->truth;
  if (second == Second::kSkip) {
    truth.second_what = "skips one call";
    Program* program = job_.Own(rank);
    program->erase(program->begin() + static_cast<std::ptrdiff_t>(call));
    (*program)[call].fault = static_cast<uint8_t>(plan_->faults + 1);
    plan_->second_of_program = true;
    truth.second_kinds = {"RANK_NOT_ARRIVED", "MISMATCH_KIND",   "MISMATCH_COUNT", "MISMATCH_DATATYPE",
                          "MISMATCH_ROOT",    "ORDER_INVERSION", "SILENT_DESYNC",  "DEADLOCK_CYCLE"};
    truth.verdicts_allowed.push_back("DESYNC");
  } else if (second == Second::kGpu) {
    truth.second_what = "has a kernel on its GPU that never ends";
    Insert(rank, compute, {Faulty(Act::kGpuHang)});
    truth.second_kinds = {"GPU_STALL"};
    if (request_.fr) truth.second_kinds.insert(truth.second_kinds.end(), {"RANK_NOT_ARRIVED", "HOST_STALL"});
  } else if (second == Second::kStall) {
    truth.second_what = "waits for its data loader";
    Insert(rank, at, {Faulty(Act::kStall)});
    plan_->facts[rank] = DataLoaderFacts();
    truth.second_kinds = {"HOST_STALL", "RANK_NOT_ARRIVED"};
  } else if (second == Second::kStop) {
    truth.second_what = "is stopped (SIGSTOP)";
    Insert(rank, at, {Faulty(Act::kFreeze)});
    truth.second_kinds = {"HOST_STALL", "RANK_NOT_ARRIVED"};
    if (request_.fr) truth.second_kinds.push_back("RANK_NO_DATA");
  } else {
    truth.second_what = "is killed by signal 9";
    Insert(rank, at, {Faulty(Act::kDie, 9)});
    truth.second_kinds = {"RANK_DEAD"};
    if (request_.fr) truth.second_kinds = {"RANK_NO_DATA", "RANK_NOT_ARRIVED", "RANK_DEAD"};
    truth.verdicts_allowed.push_back("CRASHED");
  }
  // The job hangs because of the stuck rank. A skipped call may show as a disagreement, and a death as a crash.
  if (second != Second::kSkip && second != Second::kDeath) truth.verdicts_allowed.push_back("HUNG");
  truth.second_ranks = {rank};
  ++plan_->faults;
  return true;
}

std::vector<std::string> LayoutsFor(int scenario, int32_t ranks) {
  const std::string deep = ranks >= 1024 ? "3d"
                           : ranks >= 64 ? "tp2-pp4-dp" + std::to_string(ranks / 8)
                                         : "tp2-pp4-dp1";
  switch (scenario) {
    case 6: return {"moe"};
    case 12: return {"ddp", "fsdp"};
    case 21:
    case 22:
    case 23:
    case 24: return {"3d"};
    case 25: return {deep};
    case 31: return {"3d"};
    case 36: return {"interleaved", "moe", "3d"};
    case 37: return {"graph"};
    case 26: return {"3d", "interleaved"};
    case 27: return {"3d"};
    case 13:
    case 14:
    case 18:
    case 19:
    case 20:
    case 33:
    case 34:
    case 42: return {"3d", "fsdp", "interleaved"};
    default: break;
  }
  if (ranks >= 8192) return {"3d", "3d", "moe", "hsdp64"};
  return {"3d", "3d", "interleaved", "cp", "moe", "fsdp", "hsdp", "ddp"};
}

}  // namespace lockstep::corpus
