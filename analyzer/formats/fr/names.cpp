#include "analyzer/formats/fr/names.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "analyzer/formats/fr/text.h"
#include "analyzer/util/printable.h"

namespace lockstep::fr {
namespace {

using ring::CallKind;

bool IsKnownBackend(std::string_view name) {
  static constexpr std::string_view kWords[] = {"nccl", "gloo", "mpi",      "ucc",    "cncl",
                                                "hpu",  "fake", "threaded", "flagcx", "custom"};
  if (std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords)) return true;
  if (name.starts_with("custom_")) return true;
  return name.find("ccl") != std::string_view::npos &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsWord(c) || c == '_' || c == '-'; });
}

bool IsBackend(std::string_view name) {
  if (name.empty() || name.size() > 32) return false;
  std::string lower = Lower(name);
  std::string_view word = lower;
  while (!word.empty() && IsDigit(word.back())) word.remove_suffix(1);
  return IsKnownBackend(lower) || IsKnownBackend(word);
}

// Returns the name in lower case without underscores, so that all frameworks' spellings are equal.
std::string Squeeze(std::string_view name) {
  std::string out;
  for (char c : name.substr(0, 64)) {
    if (c != '_') out.push_back(ToLower(c));
  }
  return out;
}

CallKind CollectiveKind(std::string_view squeezed) {
  struct Prefix {
    std::string_view text;
    CallKind kind;
  };
  // Longer names precede their own prefixes.
  static constexpr Prefix kPrefixes[] = {
      {"allreducebarrier", CallKind::kBarrier},
      {"barrier", CallKind::kBarrier},
      {"monitoredbarrier", CallKind::kBarrier},
      {"allreduce", CallKind::kAllReduce},
      {"allgather", CallKind::kAllGather},
      {"gather", CallKind::kGather},
      {"reducescatter", CallKind::kReduceScatter},
      {"reduce", CallKind::kReduce},
      {"scatter", CallKind::kScatter},
      {"alltoall", CallKind::kAlltoAll},
      {"broadcast", CallKind::kBroadcast},
      {"coalesced", CallKind::kCoalesced},
  };
  // Suffixes that frameworks append to the operation's name. Any other suffix makes the operation unknown.
  static constexpr std::string_view kSuffixes[] = {"",       "base",       "intotensor", "tensor", "oop",
                                                   "sparse", "coalesced",  "single",     "v",      "barrier",
                                                   "object", "objectlist", "list",       "uneven", "baseuneven"};
  for (const Prefix& prefix : kPrefixes) {
    if (!squeezed.starts_with(prefix.text)) continue;
    std::string_view rest = squeezed.substr(prefix.text.size());
    if (rest.size() > 9 && rest.ends_with("coalesced")) rest.remove_suffix(9);
    if (std::find(std::begin(kSuffixes), std::end(kSuffixes), rest) != std::end(kSuffixes)) return prefix.kind;
    return CallKind::kOtherCollective;
  }
  return CallKind::kOtherCollective;
}

// Parses "0->3" and "3<-0": own rank first, peer second.
void ParsePair(std::string_view text, std::string_view arrow, OpName* name) {
  size_t at = text.find(arrow);
  int32_t own = -1, peer = -1;
  if (at == std::string_view::npos || !ParseNumber(text.substr(0, at), &own) ||
      !ParseNumber(text.substr(at + arrow.size()), &peer) || own < 0 || peer < 0 || own > kMaxRank || peer > kMaxRank) {
    return;
  }
  name->own = own;
  name->peer = peer;
}

}  // namespace

bool IsGarbled(std::string_view text) { return Printable(text, text.size()) != text; }

OpName ParseOpName(std::string_view profiling_name) {
  OpName out;
  std::string_view op = profiling_name;
  if (size_t colon = op.find(':'); colon != std::string_view::npos) {
    std::string_view backend = op.substr(0, colon);
    if (!IsBackend(backend)) return out;
    op.remove_prefix(colon + 1);
  }
  op = Strip(op);
  if (op.empty()) return out;
  out.text = op;
  size_t space = op.find(' ');
  std::string_view word = op.substr(0, space);
  std::string_view rest = space == std::string_view::npos ? std::string_view() : op.substr(space + 1);
  std::string squeezed = Squeeze(word);
  if (squeezed == "send" || squeezed == "isend") {
    out.kind = CallKind::kSend;
    ParsePair(rest, "->", &out);
  } else if (squeezed == "recv" || squeezed == "irecv" || squeezed == "recvanysource") {
    out.kind = CallKind::kRecv;
    ParsePair(rest, "<-", &out);
  } else {
    out.kind = CollectiveKind(squeezed);
    // The record of a batch's end has the batch's operation in capitals; "allreduce_coalesced" is a separate operation.
    out.batch_end = word == "coalesced" || (word.ends_with("_coalesced") && IsUpper(word[0]));
  }
  return out;
}

bool IsTorchFile(std::string_view file) {
  for (size_t at = file.find("torch/"); at != std::string_view::npos; at = file.find("torch/", at + 1)) {
    if (at > 0 && file[at - 1] != '/') continue;
    if (at == 0 || file.substr(0, at).ends_with("-packages/")) return true;
    std::string_view rest = file.substr(at + 6);
    for (std::string_view folder : {"distributed/", "csrc/", "nn/", "autograd/", "optim/", "utils/", "_"}) {
      if (rest.starts_with(folder)) return true;
    }
  }
  return false;
}

bool ParseRankList(std::string_view text, std::vector<int32_t>* ranks) {
  ranks->clear();
  text = Strip(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  const char* at = text.data() + 1;
  const char* end = text.data() + text.size() - 1;
  bool ascending = true;
  auto skip = [&] {
    while (at < end && IsSpace(*at)) at++;
  };
  skip();
  while (at < end) {
    int32_t rank = -1;
    auto [next, failed] = std::from_chars(at, end, rank);
    if (failed != std::errc() || rank < 0 || rank > kMaxRank) return false;
    ascending = ascending && (ranks->empty() || ranks->back() < rank);
    ranks->push_back(rank);
    at = next;
    skip();
    if (at == end) break;
    if (*at != ',') return false;
    at++;
    skip();
    if (at == end) return false;
  }
  if (ascending) return true;
  std::vector<int32_t> sorted = *ranks;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

int32_t ParseLibraryVersion(std::string_view text) {
  int32_t parts[3] = {0, 0, 0};
  int count = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  while (count < 3 && at < end) {
    auto [next, failed] = std::from_chars(at, end, parts[count]);
    if (failed != std::errc() || parts[count] < 0 || parts[count] > 99) return 0;
    count++;
    if (next == end || *next != '.') break;
    at = next + 1;
  }
  if (count < 2) return 0;
  return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

}  // namespace lockstep::fr
