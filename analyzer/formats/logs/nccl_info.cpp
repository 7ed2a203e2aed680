#include "analyzer/formats/logs/nccl_info.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_format.h"
#include "analyzer/evidence/pci_address.h"
#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"

namespace lockstep::logs {
namespace {

std::optional<uint64_t> HexBehind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text = text.substr(at + key.size());
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value, 16).ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<NcclPlace> ParseNcclPlace(std::string_view line) {
  constexpr std::string_view kInfo = "] NCCL INFO ", kWarning = " NCCL WARN ";
  NcclPlace out;
  size_t mark = line.find(kInfo);
  out.warning = mark == std::string_view::npos;
  if (out.warning) mark = line.find(kWarning);
  if (mark == std::string_view::npos) return std::nullopt;
  out.text = line.substr(mark + (out.warning ? kWarning : kInfo).size());
  std::string_view before = line.substr(0, mark);
  const size_t open = before.rfind('[');
  if (open == std::string_view::npos) return std::nullopt;
  const std::string_view gpu = before.substr(open + 1);
  if (!fr::ParseNumber(gpu.substr(0, gpu.find(']')), &out.gpu)) return std::nullopt;
  // Parses host:pid:tid, perhaps with a prefix.
  before = fr::Strip(before.substr(0, open));
  const size_t blank = before.find_last_of(" \t");
  if (blank != std::string_view::npos) before = before.substr(blank + 1);
  const size_t tid = before.rfind(':');
  const size_t pid = tid == std::string_view::npos || tid == 0 ? std::string_view::npos : before.rfind(':', tid - 1);
  if (pid == std::string_view::npos) return std::nullopt;
  if (!fr::ParseNumber(before.substr(pid + 1, tid - pid - 1), &out.pid) || out.pid < 0 || out.pid > INT32_MAX)
    return std::nullopt;
  out.host = before.substr(0, pid);
  return out;
}

std::optional<NcclCall> ParseNcclCall(std::string_view text) {
  const size_t colon = text.find(": opCount ");
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const fr::OpName name = fr::ParseOpName(text.substr(0, colon));
  NcclCall out;
  out.kind = name.kind;
  text = text.substr(colon);
  const std::optional<uint64_t> op_count = HexBehind(text, "opCount "), comm = HexBehind(text, " comm ");
  const std::optional<int64_t> count = NumberBehind(text, " count ");
  out.size = std::max(RankBehind(text, "nranks="), 0);
  const bool known = ring::IsCollective(out.kind) || ring::IsPointToPoint(out.kind);
  if (!known || !op_count || !comm || !count || *count < 0 || out.size <= 0) return std::nullopt;
  out.op_count = *op_count;
  out.comm = *comm;
  out.count = std::min(*count, fr::kMaxCounter);
  out.datatype = RankBehind(text, " datatype ");
  out.reduction = RankBehind(text, " op ");
  out.root = RankBehind(text, " root ");
  out.global_rank = RankBehind(text, " globalrank ");
  return out;
}

std::optional<NcclInit> ParseNcclInit(std::string_view text) {
  const size_t at = text.find("comm 0x");
  if (at == std::string_view::npos || text.find(" nranks ", at) == std::string_view::npos) return std::nullopt;
  NcclInit out;
  constexpr std::pair<std::string_view, ring::CallKind> kCalls[] = {
      {"ncclCommInitRankConfig ", ring::CallKind::kCommInitRankConfig},
      {"ncclCommInitRankScalable ", ring::CallKind::kCommInitRankScalable},
      {"ncclCommInitRank ", ring::CallKind::kCommInitRank},
      {"ncclCommInitAll ", ring::CallKind::kCommInitAll},
      {"ncclCommSplit ", ring::CallKind::kCommSplit},
      {"ncclCommShrink ", ring::CallKind::kCommShrink},
      {"ncclCommGrow ", ring::CallKind::kCommGrow}};
  for (const auto& [name, call] : kCalls) {
    if (text.substr(0, at).ends_with(name)) out.call = call;
  }
  text = text.substr(at);
  const std::optional<uint64_t> comm = HexBehind(text, "comm ");
  out.rank = RankBehind(text, " rank ");
  out.size = RankBehind(text, " nranks ");
  if (!comm || out.rank < 0 || out.size <= 0 || out.rank >= out.size) return std::nullopt;
  out.comm = *comm;
  out.id = HexBehind(text, " commId ").value_or(0);
  // The domain has 16 bits, the bus 8, the device 8 and the function 4.
  if (const std::optional<uint64_t> bus = HexBehind(text, " busId "))
    out.pci = PciAddress(
        absl::StrFormat("%x:%x:%x.%x", *bus >> 20 & 0xffff, *bus >> 12 & 0xff, *bus >> 4 & 0xff, *bus & 0xf));
  out.parent = HexBehind(text, " parent ").value_or(0);
  out.ordinal = std::max(RankBehind(text, " splitCount "), RankBehind(text, " childCount "));
  out.ordinal = std::max<int64_t>(out.ordinal, 0);
  out.color = NumberBehind(text, " color ").value_or(0);
  if (text.find("Init START") != std::string_view::npos) out.what = NcclInit::What::kBegun;
  if (text.find("Destroy ") != std::string_view::npos || text.find("Abort ") != std::string_view::npos)
    out.what = NcclInit::What::kGone;
  return out;
}

}  // namespace lockstep::logs
