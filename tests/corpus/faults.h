// Puts one fault into a job. A FaultMaker makes one attempt at one scenario. scenario.cpp tries again if the fault did
// not strike.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/corpus/scenario.h"

namespace lockstep::corpus {

// A job with its faults, ready to run.
struct Plan {
  Job job;
  SimOptions sim;
  DumpOptions dump;
  Truth truth;
  std::map<int32_t, ProcessFacts> facts;  // facts about the ranks that differ from the others
  bool live = false;                      // observed while the job runs: nothing is stuck permanently
  bool may_hang = false;                  // with `live`: the job may get stuck before the observation
  bool ends = false;                      // the job ends and is observed afterwards
  int faults = 0;                         // number of faults that must strike
  bool second_of_program = false;         // the second fault changes its rank's program
};

// Returns names of layouts that fit the scenario at this scale. The seed chooses one of them.
std::vector<std::string> LayoutsFor(int scenario, int32_t ranks);

class FaultMaker {
 public:
  FaultMaker(const Request& request, uint64_t seed, Plan* plan);
  // On false, `error` explains why this layout does not allow the scenario.
  bool Make(std::string* error);
  // Adds a fault of another kind elsewhere, independent of the fault that Make added.
  bool MakeSecond(std::string* error);

 private:
  enum class Second { kSkip, kGpu, kStall, kStop, kDeath };

  // Returns whether the scenario's own fault is of that kind.
  bool LikeFirst(Second second) const;
  bool MakeScenario(std::string* error);
  int32_t PickRank(const std::function<bool(int32_t)>& fits = nullptr);
  // Returns the program index of a fitting instruction in step `step`: the last, the first, or one chosen by the seed.
  // Returns SIZE_MAX if there is none.
  size_t Find(int32_t rank, int32_t step, const std::function<bool(const Instr&)>& fits, bool last = false,
              bool first = false);
  size_t StepBegin(int32_t rank, int32_t step) const;
  void Insert(int32_t rank, size_t at, std::vector<Instr> instrs);
  void EditAll(const std::function<void(Program*)>& edit);
  // Inserts the instructions into every program, at the beginning of the step.
  void InsertEverywhere(int32_t step, const std::vector<Instr>& instrs);
  int32_t AddComm(Slot slot, std::vector<int32_t> members, uint32_t ordinal);
  Instr Faulty(Act act, uint64_t count = 0, int64_t ns = 0);
  static Instr CallOf(Slot slot, CallKind kind, uint64_t count, uint32_t site, bool async);
  std::vector<int32_t> HostRanks(int32_t rank) const;
  std::vector<int32_t> Members(int32_t rank, Slot slot) const;
  size_t AnyCall(int32_t rank, Slot* slot, const std::function<bool(const Instr&)>& fits);
  void Blame(std::vector<int32_t> ranks, std::vector<std::string> verdicts, std::vector<std::string> kinds);
  void Live();
  void Seen(const char* activity, bool moving);
  void Unidentified(const std::string& needs);
  bool Stall(int32_t rank, size_t at, ProcessFacts facts);

  bool Skip(bool chatty, std::string* error);
  bool Extra(std::string* error);
  bool WrongCall(std::string* error);
  bool WrongReduction(std::string* error);
  bool WrongSplits(std::string* error);
  bool HostStall(std::string* error);
  bool Checkpoint(std::string* error);
  bool LeavesLoop(std::string* error);
  bool EndsEarly(std::string* error);
  bool Death(std::string* error);
  bool GpuFault(std::string* error);
  bool Network(std::string* error);
  bool Inverted(std::string* error);
  bool LaunchOrder(std::string* error);
  bool SendSend(std::string* error);
  bool WrongPeer(std::string* error);
  bool OpenGroup(std::string* error);
  bool WrongColor(std::string* error);
  bool InitHang(std::string* error);
  bool OtherRun(std::string* error);
  bool Slow(std::string* error);
  bool Healthy(std::string* error);

  const Request& request_;
  Plan* plan_;
  Job& job_;
  Random random_;
  int32_t step_ = 0;  // the step in which the fault strikes
  bool timed_ = false, started_known_ = false, done_known_ = false;
};

}  // namespace lockstep::corpus
