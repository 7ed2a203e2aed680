// Reads reports of launchers (torchrun, srun, mpirun, mp.spawn, DeepSpeed, Lightning, vLLM) about the worker that
// failed first.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::logs {

struct FailedWorker {
  int32_t rank = -1;    // with srun, the task number, which is the rank if each task is one rank
  int32_t local = -1;   // local rank, if the launcher numbers only its own workers
  int32_t on_host = 0;  // number of workers on this host, if the job may have more hosts; otherwise 0
  int64_t pid = 0;
  int64_t exit_code = 0;  // if negative: the signal that ended it
  bool gone = false;      // it ended in an unknown way
  int32_t alike = 0;      // number of further workers that ended in the same way, with torchrun in the same second
  std::string host;
  std::string time;  // "2026-11-26_15:50:33": later times sort after earlier ones; empty if not printed
};

// Parses a log line by line. Each host's agent reports its own workers. Only the first failure of a report is kept,
// because launchers end the other workers themselves.
class LauncherReader {
 public:
  void Take(std::string_view text);
  std::vector<FailedWorker> Finish();
  // Ranks that a launcher ended itself, and that were therefore still alive at the first failure.
  const std::set<int32_t>& terminated() const { return terminated_; }

 private:
  // A part of a report that has several lines.
  enum class Part { kNone, kTorchrunOthers, kTorchrunFirst, kMpirun, kSignal };

  void TakeTask(std::string_view text);
  void TakeOneLine(std::string_view text);
  void TakeField(std::string_view text);
  void Add(FailedWorker worker);
  void Close();

  Part part_ = Part::kNone;
  std::string task_end_;  // how the first task ended, in srun's words; empty: none yet
  size_t task_ = 0;       // its index in `workers_`
  bool step_ended_ = false;
  FailedWorker worker_;
  std::vector<FailedWorker> workers_;
  std::set<int32_t> terminated_;
  std::vector<std::pair<std::string, int64_t>> others_;  // time and exit code of torchrun's other failures
  int32_t signalled_ = 0;                                // number of workers that torchrun ended on this host
};

}  // namespace lockstep::logs
