// One fault put into a job. Made for one attempt at one scenario; scenario.cpp tries again where the fault did not
// strike.
#ifndef LOCKSTEP_TESTS_CORPUS_FAULTS_H_
#define LOCKSTEP_TESTS_CORPUS_FAULTS_H_

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
  std::map<int32_t, ProcessFacts> facts;  // of the ranks that are not like the others
  bool live = false;                      // observed while it runs: nothing is stuck for good
  bool may_hang = false;                  // with `live`: it may be stuck before the observation
  bool ends = false;                      // the job ends and is observed then
  int faults = 0;                         // that must strike
  bool second_of_program = false;         // the second fault is in the text of its rank's program
};

// Layout names that fit the scenario at this scale; the seed chooses.
std::vector<std::string> LayoutsFor(int scenario, int32_t ranks);

class FaultMaker {
 public:
  FaultMaker(const Request& request, uint64_t seed, Plan* plan);
  // False: `error` explains why this layout does not allow the scenario.
  bool Make(std::string* error);
  // Elsewhere, and independent of what Make did: a fault of another kind.
  bool MakeSecond(std::string* error);

 private:
  enum class Second { kSkip, kGpu, kStall, kStop, kDeath };

  // Whether the scenario's own fault is of that kind.
  bool LikeFirst(Second second) const;
  bool MakeScenario(std::string* error);
  int32_t PickRank(const std::function<bool(int32_t)>& fits = nullptr);
  // Index in the rank's program of an instruction in step `step` that fits, chosen by the seed; SIZE_MAX none.
  size_t Find(int32_t rank, int32_t step, const std::function<bool(const Instr&)>& fits, bool last = false,
              bool first = false);
  size_t StepBegin(int32_t rank, int32_t step) const;
  void Insert(int32_t rank, size_t at, std::vector<Instr> instrs);
  void EditAll(const std::function<void(Program*)>& edit);
  // Inserts before instruction `at` of every program what follows the n-th kStep.
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
  int32_t step_ = 0;  // in which the fault strikes
  bool timed_ = false, started_known_ = false, done_known_ = false;
};

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_FAULTS_H_
