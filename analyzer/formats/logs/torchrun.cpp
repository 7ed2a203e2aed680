#include "analyzer/formats/logs/torchrun.h"

#include <utility>

#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostWorkers = 1u << 16;

}  // namespace

void TorchrunReader::Take(std::string_view text) {
  text = fr::Strip(text);
  if (text.starts_with("Root Cause (first observed failure)")) {
    Close();
    open_ = true;
  }
  if (!open_) return;
  if (text.starts_with("====")) return Close();
  const size_t colon = text.find(": ");
  if (colon == std::string_view::npos) return;
  const std::string_view key = fr::Strip(text.substr(0, colon)), value = fr::Strip(text.substr(colon + 2));
  if (key == "rank") {
    worker_.rank = RankBehind(text, ": ");
  } else if (key == "exitcode") {
    worker_.exit_code = LeadingNumber(value).value_or(0);
    worker_.pid = NumberBehind(value, "(pid: ").value_or(0);
  } else if (key == "host") {
    worker_.host = Printable(value, fr::kMostNameColumns);
  } else if (key == "time") {
    worker_.time = Printable(value, fr::kMostNameColumns);
  }
}

std::vector<FailedWorker> TorchrunReader::Finish() {
  Close();
  return std::move(workers_);
}

void TorchrunReader::Close() {
  open_ = false;
  FailedWorker worker = std::exchange(worker_, FailedWorker());
  if (worker.rank >= 0 && worker.exit_code != 0 && workers_.size() < kMostWorkers)
    workers_.push_back(std::move(worker));
}

}  // namespace lockstep::logs
