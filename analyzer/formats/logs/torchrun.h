// torchrun's report of the worker that failed first.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_TORCHRUN_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_TORCHRUN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::logs {

struct FailedWorker {
  int32_t rank = -1;
  int64_t pid = 0;
  int64_t exit_code = 0;  // negative: the signal that ended it
  std::string host;
  std::string time;  // "2026-11-26_15:50:33": later ones sort behind
};

// Takes a log line by line. The agent of each host reports its own workers; what failed later is left out, because
// torchrun ends the others itself.
class TorchrunReader {
 public:
  void Take(std::string_view text);
  std::vector<FailedWorker> Finish();

 private:
  void Close();

  bool open_ = false;
  FailedWorker worker_;
  std::vector<FailedWorker> workers_;
};

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_TORCHRUN_H_
