#include "analyzer/formats/logs/horovod.h"

#include <utility>

#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostTensors = 4096, kMostRanks = 4096;
constexpr std::string_view kMissing = "[missing ranks:";

std::string Name(std::string_view text) { return Printable(fr::Strip(text), fr::kMostNameColumns); }

}  // namespace

bool StallReader::Take(std::string_view whole, int64_t number) {
  if (Holds(whole, "tensors were submitted to be reduced, gathered or broadcasted by subset of ranks")) {
    stalled_ = StalledTensors();
    stalled_.number = number;
    listing_ = false;
    return true;
  }
  if (stalled_.number == 0) return false;
  // Releases before 0.16 print "Stalled ops:NAME [missing ranks: 0, 3]", then a line for each further tensor.
  if (const size_t at = whole.find(kMissing); at != std::string_view::npos) {
    const std::string_view before = fr::Strip(whole.substr(0, at));
    const size_t begin = before.find_last_of(" :");
    if (stalled_.missing.size() >= kMostTensors) return true;
    std::set<int32_t> ranks;
    std::string_view list = whole.substr(at + kMissing.size());
    list = list.substr(0, list.find(']'));
    while (!list.empty() && ranks.size() < kMostRanks) {
      const size_t comma = list.find(',');
      int32_t rank = -1;
      if (fr::ParseNumber(fr::Strip(list.substr(0, comma)), &rank) && rank >= 0 && rank <= fr::kMaxRank)
        ranks.insert(rank);
      list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    }
    if (!ranks.empty())
      stalled_.missing[Name(begin == std::string_view::npos ? before : before.substr(begin + 1))] = std::move(ranks);
    return true;
  }
  const std::string_view text = fr::Strip(whole);
  if (text.ends_with("Missing ranks:") || text.ends_with("Stalled ranks:")) return listing_ = true;
  return listing_ && (listing_ = TakeList(text));
}

// Parses "1: [gradients/mul_0, gradients/mul_1 ...]".
bool StallReader::TakeList(std::string_view text) {
  const size_t open = text.rfind(": [");
  if (open == std::string_view::npos) return false;
  const std::string_view before = text.substr(0, open);
  int32_t rank = -1;
  // Labels of launchers may precede the number.
  if (!fr::ParseNumber(before.substr(before.find_last_not_of("0123456789") + 1), &rank) || rank < 0 ||
      rank > fr::kMaxRank)
    return false;
  std::string_view list = text.substr(open + 3);
  list = list.substr(0, list.find(']'));
  while (!list.empty() && stalled_.missing.size() < kMostTensors) {
    const size_t comma = list.find(',');
    std::string_view tensor = fr::Strip(list.substr(0, comma));
    if (tensor.ends_with(" ...")) tensor.remove_suffix(4);
    if (!tensor.empty()) stalled_.missing[Name(tensor)].insert(rank);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return true;
}

}  // namespace lockstep::logs
