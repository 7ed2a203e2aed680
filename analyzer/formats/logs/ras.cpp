#include "analyzer/formats/logs/ras.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostReported = 4096, kMostClasses = 64, kMostListed = 4096, kMostGroups = 65536;

// "Rank 7 .. -- GPU 3 managed by process 1650386 on node node1".
std::optional<RasRank> ListedRank(std::string_view text) {
  const size_t gpu = text.find(" -- GPU ");
  if (!text.starts_with("Rank ") || gpu == std::string_view::npos) return std::nullopt;
  RasRank out;
  out.rank = RankBehind(text, "Rank ");
  out.gpu = RankBehind(text.substr(gpu), "GPU ");
  out.pid = std::clamp<int64_t>(NumberBehind(text, "process ").value_or(0), 0, INT32_MAX);
  if (const size_t node = text.find(" on node "); node != std::string_view::npos)
    out.host = Printable(text.substr(node + 9), fr::kMostNameColumns);
  return out.rank < 0 ? std::nullopt : std::optional(std::move(out));
}

// "launched up to operation 6650", "not launched any operations"; kUnknown: neither.
int64_t Launched(std::string_view text) {
  if (text.find("not launched any operations") != std::string_view::npos) return 0;
  const int64_t number = NumberBehind(text, "launched up to operation ").value_or(-1);
  return number < 0 || number > fr::kMaxCounter ? kUnknown : number;
}

// A row of the table of communicators: group, communicators, nodes, ranks a node, ranks a communicator, ranks, status.
bool ReadRow(std::string_view text, int64_t* group, int32_t* size) {
  int64_t numbers[6];
  for (int64_t& number : numbers) {
    text = fr::Strip(text);
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos || !fr::ParseNumber(text.substr(0, blank), &number)) return false;
    text = text.substr(blank);
  }
  if (numbers[0] < 0 || numbers[4] <= 0 || numbers[4] > fr::kMaxRank) return false;
  *group = numbers[0];
  *size = static_cast<int32_t>(numbers[4]);
  return true;
}

}  // namespace

void RasReader::Take(std::string_view text, int64_t number) {
  text = fr::Strip(text);
  if (!open_ && !text.starts_with('#') && text.find("RUNNING") == std::string_view::npos) return;
  if (text.starts_with('#')) {
    open_ = false;
    const std::optional<int64_t> group = LeadingNumber(text.substr(1));
    const size_t begin = text.find('('), end = text.find(')');
    if (!group || begin == std::string_view::npos || end == std::string_view::npos || end < begin ||
        text.find(" MISMATCH", end) == std::string_view::npos || comms_.size() >= kMostReported)
      return;
    const auto size = sizes_.find(*group);
    comms_.push_back({Printable(text.substr(begin + 1, end - begin - 1), 32),
                      "",
                      size == sizes_.end() ? 0 : size->second,
                      {},
                      number});
    open_ = true;
    return;
  }
  if (int64_t group = 0; text.find("RUNNING") != std::string_view::npos) {
    if (int32_t size = 0; ReadRow(text, &group, &size) && sizes_.size() < kMostGroups) sizes_[group] = size;
    return;
  }
  if (!open_) return;
  RasComm& comm = comms_.back();
  constexpr std::string_view kDifferent = "have different ";
  if (const size_t op = text.find(kDifferent); op != std::string_view::npos) {
    const std::string_view name = text.substr(op + kDifferent.size());
    comm.op = Printable(name.substr(0, name.find(' ')), 32);
    if (comm.op == "collective") comm.op.clear();
    return;
  }
  const int64_t launched = Launched(text);
  std::optional<RasRank> rank = ListedRank(text);
  if (launched != kUnknown && comm.classes.size() < kMostClasses) {
    const int64_t count = rank ? 1 : LeadingNumber(text).value_or(0);
    if (count <= 0 || count > fr::kMaxRank) return;
    comm.classes.push_back({launched, count, {}});
    if (rank) comm.classes.back().ranks.push_back(*std::move(rank));
  } else if (rank && !comm.classes.empty() && comm.classes.back().ranks.size() < kMostListed) {
    comm.classes.back().ranks.push_back(*std::move(rank));
  } else if (text.empty()) {
    open_ = false;
  }
}

std::vector<RasComm> RasReader::Finish() {
  std::erase_if(comms_, [](const RasComm& comm) { return comm.classes.size() < 2; });
  return std::move(comms_);
}

}  // namespace lockstep::logs
