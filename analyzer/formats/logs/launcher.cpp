#include "analyzer/formats/logs/launcher.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostWorkers = 1u << 16;

// Returns the exit code in srun's message about the end of a task; 0 if there is none.
int64_t ExitOf(std::string_view how) {
  constexpr std::pair<std::string_view, int64_t> kEnds[] = {
      {"Out Of Memory", -SIGKILL}, {"Killed", -SIGKILL},  {"Segmentation fault", -SIGSEGV},
      {"Bus error", -SIGBUS},      {"Aborted", -SIGABRT}, {"Terminated", -SIGTERM}};
  for (const auto& [text, code] : kEnds) {
    if (how.starts_with(text)) return code;
  }
  return NumberBehind(how, "Exited with exit code ").value_or(0);
}

// Returns the signal in "terminated with signal SIGKILL"; 0 if it is not a signal that ends processes.
int64_t SignalNamed(std::string_view name) {
  constexpr std::pair<std::string_view, int64_t> kSignals[] = {
      {"SIGKILL", SIGKILL}, {"SIGABRT", SIGABRT}, {"SIGSEGV", SIGSEGV}, {"SIGBUS", SIGBUS},
      {"SIGTERM", SIGTERM}, {"SIGFPE", SIGFPE},   {"SIGILL", SIGILL},   {"SIGINT", SIGINT}};
  for (const auto& [text, signal] : kSignals) {
    if (name.starts_with(text)) return signal;
  }
  return 0;
}

// Returns whether the process was ended from outside, so it did not fail itself.
bool EndedFromOutside(int64_t exit_code) {
  return exit_code == -SIGTERM || exit_code == -SIGINT || exit_code == -SIGHUP;
}

// Returns the part of `text` after `key`; empty if the key is missing.
std::string_view Behind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
}

}  // namespace

void LauncherReader::Take(std::string_view text) {
  text = fr::Strip(text);
  if (text.starts_with("srun: error: ")) return TakeTask(text.substr(13));
  // After this line, srun ends the other tasks itself.
  step_ended_ |= text.starts_with("srun: ") && Holds(text, "erminat");
  if (text == "Failures:") {
    Close();
    part_ = Part::kTorchrunOthers;
  } else if (text.starts_with("Root Cause (first observed failure)")) {
    Close();
    part_ = Part::kTorchrunFirst;
  } else if (text.find("The first process to do so was:") != std::string_view::npos) {
    Close();
    part_ = Part::kMpirun;
  } else if (part_ == Part::kSignal) {
    worker_.exit_code = text.starts_with("signal ") ? -LeadingNumber(text.substr(7)).value_or(0) : 0;
    Close();
  } else if (part_ != Part::kNone) {
    TakeField(text);
  } else {
    TakeOneLine(text);
  }
}

// Parses torchrun's "rank : 3 (local_rank: 3)" and mpirun's "Process name: [[47834,1],3]".
void LauncherReader::TakeField(std::string_view text) {
  if (text.starts_with("====") || (part_ == Part::kMpirun && text.starts_with("----"))) return Close();
  // The next worker in a list: "[2]:".
  if (part_ == Part::kTorchrunOthers && text.starts_with('[') && text.ends_with("]:")) {
    Close();
    part_ = Part::kTorchrunOthers;
  }
  const size_t colon = text.find(": ");
  if (colon == std::string_view::npos) return;
  const std::string_view key = fr::Strip(text.substr(0, colon)), value = fr::Strip(text.substr(colon + 2));
  if (key == "rank") {
    worker_.rank = RankBehind(text, ": ");
    worker_.local = RankBehind(value, "(local_rank: ");
  } else if (key == "Process name") {
    worker_.rank = RankBehind(value, "],");
  } else if (key == "exitcode" || key == "Exit code") {
    worker_.exit_code = LeadingNumber(value).value_or(0);
    worker_.pid = NumberBehind(value, "(pid: ").value_or(0);
  } else if (key == "host") {
    worker_.host = Printable(value, fr::kMostNameColumns);
  } else if (key == "time") {
    worker_.time = Printable(value, fr::kMostNameColumns);
  }
}

void LauncherReader::TakeOneLine(std::string_view text) {
  if (Holds(text, " closing signal SIG") && signalled_ < static_cast<int32_t>(kMostWorkers)) ++signalled_;
  FailedWorker worker;
  if (const auto mpirun = Behind(text, "noticed that process rank "); !mpirun.empty()) {
    // "mpirun noticed that process rank 3 with PID 0 on node gpu07 exited on signal 9 (Killed)."
    worker.rank = RankBehind(mpirun, "");
    worker.exit_code = -NumberBehind(mpirun, " exited on signal ").value_or(0);
    const std::string_view node = Behind(mpirun, " on node ");
    worker.host = Printable(node.substr(0, node.find(' ')), fr::kMostNameColumns);
    if (mpirun.ends_with(" exited on")) {  // PRRTE breaks the line before the signal
      worker_ = std::move(worker);
      part_ = Part::kSignal;
      return;
    }
  } else if (const auto spawn = Behind(text, "ProcessExitedException: process "); !spawn.empty()) {
    // "process 1 terminated with signal SIGKILL", "process 1 terminated with exit code 3"
    worker.local = RankBehind(spawn, "");
    worker.exit_code = NumberBehind(spawn, " with exit code ").value_or(-SignalNamed(Behind(spawn, " with signal ")));
  } else if (const auto lightning = Behind(text, "[rank: ");
             lightning.find("] Child process with PID ") != std::string_view::npos) {
    // "[rank: 2] Child process with PID 13117 terminated with code -6. Forcefully terminating all other processes .."
    worker.rank = RankBehind(lightning, "");
    worker.exit_code = NumberBehind(lightning, " terminated with code ").value_or(0);
  } else if (const auto elastic = Behind(text, "failed (exitcode: "); !elastic.empty()) {
    // torchrun: "failed (exitcode: -9) local_rank: 3 (pid: 4003) of binary: /usr/bin/python"
    worker.exit_code = LeadingNumber(elastic).value_or(0);
    worker.local = RankBehind(elastic, "local_rank: ");
    worker.on_host = signalled_ + 1;
    worker.pid = NumberBehind(elastic, "(pid: ").value_or(0);
  } else if (const auto vllm = Behind(text, "Worker VllmWorkerProcess pid "); !vllm.empty()) {
    // "Worker VllmWorkerProcess pid 1159 died, exit code: -9"
    worker.pid = std::max<int64_t>(LeadingNumber(vllm).value_or(0), 0);
    worker.exit_code = NumberBehind(vllm, " died, exit code: ").value_or(0);
  } else if (const auto proc = Behind(text, "Worker proc VllmWorker-"); !proc.empty()) {
    // "Worker proc VllmWorker-2 died unexpectedly, shutting down executor."
    worker.rank = RankBehind(proc, "");
    worker.gone = Holds(proc, " died unexpectedly");
  } else if (const auto shell = Behind(text, ": line "); !shell.empty()) {
    // bash: "slurm_script: line 28: 4003 Killed                  python train.py"
    const std::string_view process = Behind(shell, ": ");
    const size_t blank = process.find(' ');
    if (blank != std::string_view::npos) worker.exit_code = ExitOf(fr::Strip(process.substr(blank)));
    if (worker.exit_code < 0) worker.pid = LeadingNumber(process).value_or(0);
  } else if (text.find("exits with return code = ") != std::string_view::npos) {
    // DeepSpeed: "['python', '-u', 'train.py', '--local_rank=3'] exits with return code = -9"
    worker.local = RankBehind(text, "--local_rank=");
    worker.exit_code = NumberBehind(text, "exits with return code = ").value_or(0);
  }
  Add(std::move(worker));
}

// Parses "gpu07: task 5: Out Of Memory". A line about several tasks does not show which of them failed first.
void LauncherReader::TakeTask(std::string_view text) {
  const size_t task = text.find(": task"), colon = task == std::string_view::npos ? task : text.find(": ", task + 6);
  if (colon == std::string_view::npos) return;
  const std::string_view how = text.substr(colon + 2);
  FailedWorker worker;
  worker.exit_code = ExitOf(how);
  if (worker.exit_code == 0) return;
  if (!task_end_.empty()) {
    if (how == task_end_ && !step_ended_ && task_ < workers_.size()) ++workers_[task_].alike;
    return;
  }
  task_end_ = std::string(how);
  worker.rank = RankBehind(text.substr(task), ": task ");
  worker.host = Printable(text.substr(0, task), fr::kMostNameColumns);
  Close();
  task_ = workers_.size();
  Add(std::move(worker));
  if (task_ == workers_.size()) task_ = SIZE_MAX;
}

std::vector<FailedWorker> LauncherReader::Finish() {
  Close();
  return std::move(workers_);
}

void LauncherReader::Add(FailedWorker worker) {
  if ((worker.rank >= 0 || worker.local >= 0 || worker.pid > 0) && (worker.exit_code != 0 || worker.gone) &&
      !EndedFromOutside(worker.exit_code) && workers_.size() < kMostWorkers)
    workers_.push_back(std::move(worker));
}

void LauncherReader::Close() {
  FailedWorker worker = std::exchange(worker_, FailedWorker());
  const Part part = std::exchange(part_, Part::kNone);
  const std::pair<std::string, int64_t> end(worker.time, worker.exit_code);
  if (part == Part::kTorchrunFirst) {
    worker.alike = static_cast<int32_t>(std::count(others_.begin(), others_.end(), end));
    others_.clear();
  }
  if (part != Part::kTorchrunOthers) return Add(std::move(worker));
  if (worker.rank >= 0 && EndedFromOutside(worker.exit_code) && terminated_.size() < kMostWorkers)
    terminated_.insert(worker.rank);
  if (worker.rank >= 0 && !worker.time.empty() && others_.size() < kMostWorkers) others_.push_back(end);
}

}  // namespace lockstep::logs
