#include "analyzer/formats/logs/fingerprint.h"

#include <algorithm>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kBegin = "CollectiveFingerPrint(";

std::string_view Value(std::string_view text, std::string_view key, std::string_view ends) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text = text.substr(at + key.size(), 256);
  return text.substr(0, text.find_first_of(ends));
}

// Returns the product of "20, 10"; -1 if it is not a list of sizes. An empty list is a scalar.
int64_t Elements(std::string_view sizes) {
  int64_t product = 1;
  while (!fr::Strip(sizes).empty()) {
    const size_t comma = sizes.find(',');
    int64_t size = 0;
    if (!fr::ParseNumber(sizes.substr(0, comma), &size) || size < 0) return -1;
    if (size > 0 && product > fr::kMaxCounter / size) return -1;
    product *= size;
    sizes = comma == std::string_view::npos ? std::string_view() : sizes.substr(comma + 1);
  }
  return product;
}

Fingerprint Read(std::string_view text) {
  Fingerprint out;
  const std::optional<int64_t> seq = NumberBehind(text, "SequenceNumber=");
  if (seq && *seq >= 0 && *seq <= fr::kMaxCounter) out.seq = *seq;
  out.op = Printable(Value(text, "OpType=", ",).; "), 64);
  if (text.find("TensorShape=[") != std::string_view::npos) {
    const std::string_view sizes = Value(text, "TensorShape=[", "]");
    out.shape = Printable(sizes, fr::kMostNameColumns);
    out.elements = Elements(sizes);
  }
  out.dtype = Printable(Value(text, "TensorDtypes=", ",) "), 64);
  return out;
}

// Parses "DDP expects same model across all ranks, but Rank 5 has 128 params, while rank 0 has inconsistent 12 params".
std::optional<FingerprintLine> ParseParameters(std::string_view text) {
  constexpr std::string_view kBut = "DDP expects same model across all ranks, but Rank ",
                             kWhile = " params, while rank ";
  const size_t but = text.find(kBut), other = but == std::string_view::npos ? but : text.find(kWhile, but);
  if (other == std::string_view::npos) return std::nullopt;
  FingerprintLine line;
  line.own = RankBehind(text, kBut);
  line.other = RankBehind(text, kWhile);
  line.of_job = true;
  line.own_call.op = line.other_call.op = "comparison of DDP's parameters";
  line.own_call.elements =
      std::clamp<int64_t>(NumberBehind(text.substr(but), " has ").value_or(-1), -1, fr::kMaxCounter);
  line.other_call.elements =
      std::clamp<int64_t>(NumberBehind(text.substr(other), " inconsistent ").value_or(-1), -1, fr::kMaxCounter);
  return line.own < 0 || line.other < 0 ? std::nullopt : std::optional(std::move(line));
}

}  // namespace

std::optional<FingerprintLine> ParseFingerprints(std::string_view text) {
  if (auto line = ParseParameters(text)) return line;
  const size_t start = text.find("Detected mismatch between collectives on ranks");
  if (start == std::string_view::npos) return std::nullopt;
  text = text.substr(start);
  const size_t own = text.find(kBegin);
  if (own == std::string_view::npos) return std::nullopt;
  FingerprintLine line;
  line.own = RankBehind(text.substr(0, own), "ranks. Rank ");
  const size_t but = text.find("but Rank ", own);
  if (but == std::string_view::npos && Holds(text.substr(0, own), " is running inconsistent collective")) {
    line.own_call = Read(text.substr(own));
    return line.own < 0 || line.own_call.op.empty() ? std::nullopt : std::optional(std::move(line));
  }
  const size_t other = but == std::string_view::npos ? but : text.find(kBegin, but);
  if (other == std::string_view::npos) return std::nullopt;
  line.other = RankBehind(text.substr(but), "but Rank ");
  line.own_call = Read(text.substr(own, but - own));
  // The differences follow, in fields with the same names.
  const size_t diff = text.find("Collectives differ", other);
  line.other_call = Read(text.substr(other, diff == std::string_view::npos ? diff : diff - other));
  if (line.own < 0 || line.other < 0 || line.own_call.op.empty() || line.other_call.op.empty()) return std::nullopt;
  return line;
}

namespace {

// Parses "2, 5"; empty for any other text.
std::vector<int32_t> RanksIn(std::string_view text) {
  std::vector<int32_t> ranks;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    int32_t rank = -1;
    if (!fr::ParseNumber(text.substr(0, comma), &rank) || rank < 0 || rank > fr::kMaxRank) return {};
    ranks.push_back(rank);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return ranks;
}

}  // namespace

std::optional<BarrierLine> ParseBarrier(std::string_view text) {
  constexpr size_t kMostBytes = 4096;
  BarrierLine line;
  const size_t open = text.find('['), close = text.find("] ");
  if (open != std::string_view::npos && close != std::string_view::npos && open < close && close - open < kMostBytes) {
    const std::string_view behind = text.substr(close + 2);
    const bool never = behind.starts_with("are the lagging ranks that caused this timeout");
    const bool missing =
        behind.starts_with("finished collective #") && behind.find("but didn't join collective #") < 64;
    const bool arrived = behind.starts_with("started ") || behind.starts_with("joined but didn't finish collective #");
    line.of_report = never || missing || arrived;
    if (line.of_report) (arrived ? line.arrived : line.missing) = RanksIn(text.substr(open + 1, close - open - 1));
    if (!line.missing.empty() || !line.arrived.empty()) return line;
  }
  const size_t reached = text.find(" successfully reached monitoredBarrier");
  if (reached != std::string_view::npos) {
    const std::string_view before = text.substr(0, reached);
    const size_t rank = before.rfind("Rank ");
    if (rank == std::string_view::npos) return std::nullopt;
    line.arrived = RanksIn(before.substr(rank + 5));
    return line.arrived.empty() ? std::nullopt : std::optional(std::move(line));
  }
  const size_t failed = text.find(" failed to pass monitoredBarrier");
  if (failed == std::string_view::npos) return std::nullopt;
  std::string_view before = text.substr(0, failed);
  const size_t one = before.rfind("Rank "), several = before.rfind("Ranks ");
  if (several != std::string_view::npos) {
    before = before.substr(several + 6);
  } else if (one != std::string_view::npos) {
    before = before.substr(one + 5);
  }
  if (before.size() > kMostBytes) return std::nullopt;
  line.missing = RanksIn(before);
  line.arrived = {0};  // rank 0 queries all other ranks
  return line.missing.empty() ? std::nullopt : std::optional(std::move(line));
}

std::optional<StoreBarrierLine> ParseStoreBarrier(std::string_view text) {
  StoreBarrierLine line;
  const size_t key = text.find("store_based_barrier_key:");
  if (key == std::string_view::npos) return std::nullopt;
  line.key = Printable(Value(text.substr(key), ":", " (,)"), 64);
  line.passed = Holds(text, "Completed store-based barrier");
  line.rank = RankBehind(text, line.passed ? "Rank " : " rank: ");
  line.size = RankBehind(text, "(world_size=");
  line.count = RankBehind(text, " worker_count=");
  const bool waits = Holds(text, " in store based barrier") && line.size > 0 && line.count > 0;
  return line.rank >= 0 && (line.passed || waits) ? std::optional(std::move(line)) : std::nullopt;
}

}  // namespace lockstep::logs
