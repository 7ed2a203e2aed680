// Measures transfers: how long communicators take from the arrival of their last member to the end.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "analyzer/engine/slow/slow.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

using ring::CallKind;

constexpr size_t kLeastOperations = 4;
constexpr size_t kMostTransfers = 256;

int64_t DatatypeSize(uint8_t datatype) {
  static constexpr int8_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype < 12 ? kSizes[datatype] : 0;
}

// Returns the size of the first type in a text like "BFloat16 -> BFloat16"; 0 if unknown.
int64_t FrameworkSize(const Bundle& bundle, uint32_t dtypes) {
  if (dtypes >= bundle.strings.size()) return 0;
  std::string_view text = bundle.strings[dtypes];
  text = text.substr(0, text.find_first_of(" ,"));
  static constexpr std::pair<std::string_view, int64_t> kSizes[] = {
      {"Float", 4}, {"BFloat16", 2}, {"Half", 2}, {"Double", 8}, {"Long", 8},          {"Int", 4},
      {"Byte", 1},  {"Char", 1},     {"Bool", 1}, {"Short", 2},  {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};
  for (const auto& [name, size] : kSizes) {
    if (text == name) return size;
  }
  return 0;
}

// Returns the payload as nccl-tests counts it: for AllGather, ReduceScatter and AlltoAll, all data; for other kinds,
// what one rank passes.
int64_t PayloadBytes(const Bundle& bundle, const Op& op, int64_t members) {
  const bool whole = CallFactsOf(op.kind).payload_is_whole;
  int64_t elements = op.count, size = DatatypeSize(op.datatype), bytes = 0;
  if (elements < 0) {
    elements = std::max(op.input_elements, op.output_elements);
    size = FrameworkSize(bundle, op.dtypes);
    if (elements < 0 || __builtin_mul_overflow(elements, size, &bytes)) return 0;
    return bytes;  // the larger side of a framework's record already covers all data
  }
  if (__builtin_mul_overflow(elements, size, &bytes)) return 0;
  if (whole && __builtin_mul_overflow(bytes, members, &bytes)) return 0;
  return bytes;
}

// Returns the number of different hosts of these ranks; 0 if one is unknown.
uint32_t CountHosts(const Bundle& bundle, const std::vector<uint32_t>& ranks) {
  std::set<std::string_view> hosts;
  for (const uint32_t r : ranks) hosts.insert(bundle.ranks[r].host);
  return hosts.contains("") ? 0 : static_cast<uint32_t>(hosts.size());
}

}  // namespace

std::vector<LinkUse> FindLinkUses(const Timing& timing, const std::vector<int64_t>& noise_ns) {
  const Bundle& bundle = timing.model.bundle;
  std::vector<LinkUse> uses;
  std::map<std::tuple<uint32_t, int, int64_t, uint32_t, uint32_t>, size_t> at;
  uint32_t comm = kNoIndex;
  const auto add = [&](uint32_t c, CallKind kind, int64_t bytes, const std::vector<uint32_t>& ranks, int64_t transfer,
                       int64_t seq) {
    if (comm != c) at.clear();  // both lists are sorted by communicator
    comm = c;
    const bool pair = ring::IsPointToPoint(kind);
    const auto [it, fresh] =
        at.try_emplace({c, static_cast<int>(kind), bytes, pair ? ranks[0] : 0, pair ? ranks[1] : 0}, uses.size());
    if (fresh) {
      uses.push_back({c, kind, bytes, ranks, {}, {}, 0, 0, false, CountHosts(bundle, ranks)});
      uses.back().crosses_hosts = uses.back().hosts > 1;
      for (uint32_t r : ranks) uses.back().noise_ns = std::max(uses.back().noise_ns, noise_ns[r]);
    }
    LinkUse& use = uses[it->second];
    if (use.transfers_ns.size() >= kMostTransfers) return;
    use.transfers_ns.push_back(transfer);
    use.seqs.push_back(seq);
  };
  std::vector<uint32_t> ranks;
  for (const Meeting& meeting : timing.meetings) {
    // The last arrival is known only if every member has data.
    const size_t size = timing.model.comms[meeting.comm].members.size();
    if (meeting.count != size || size < 2) continue;
    int64_t least = INT64_MAX;
    bool all = true;
    ranks.clear();
    for (const Attendance& who : timing.Of(meeting)) {
      all &= timing.At(who).start_ns != 0;
      least = std::min(least, timing.At(who).Duration());
      ranks.push_back(who.rank);
    }
    if (!all) continue;
    const Op& op = timing.OpOf(timing.attendance[meeting.first]);
    add(meeting.comm, op.kind, PayloadBytes(bundle, op, static_cast<int64_t>(size)), ranks, least, meeting.seq);
  }
  comm = kNoIndex;
  for (const Handover& h : timing.handovers) {
    const TimedOp &sent = timing.At(h.sender), &received = timing.At(h.receiver);
    ranks = {h.sender.rank, h.receiver.rank};
    add(h.comm, CallKind::kSend, PayloadBytes(bundle, timing.OpOf(h.sender), 2), ranks,
        std::min(sent.Duration(), received.Duration()), h.seq);
  }
  std::erase_if(uses, [](const LinkUse& use) { return use.transfers_ns.size() < kLeastOperations; });
  for (LinkUse& use : uses) use.usual_ns = Median(use.transfers_ns);
  return uses;
}

int32_t MembersOf(const Bundle& bundle, const LinkUse& use) {
  return ring::IsPointToPoint(use.kind) ? 2 : bundle.comms[use.comm].size;
}

double BusBandwidth(const LinkUse& use, int32_t size, int64_t transfer_ns) {
  if (use.bytes <= 0 || transfer_ns <= 0 || size < 2) return 0;
  const double n = size;
  const int passes = CallFactsOf(use.kind).bus_passes;
  const double factor = passes == 0 ? 1 : passes * (n - 1) / n;
  return static_cast<double>(use.bytes) * factor / (static_cast<double>(transfer_ns) * 1e-9);
}

}  // namespace lockstep
