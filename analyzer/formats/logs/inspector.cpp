#include "analyzer/formats/logs/inspector.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostInspected = 1u << 16, kMostOps = 1u << 21, kMostOpsOfComm = 4096;

// Returns the text after the first occurrence of a key and its colon; empty if there is none. `key` includes its
// quotes. Inside a string, a backslash precedes every quote, so no string contains a key.
std::string_view ValueOf(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + key.size());
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (!rest.starts_with(':')) return {};
  rest.remove_prefix(1);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest;
}

std::string TextOf(std::string_view text, std::string_view key) {
  std::string_view value = ValueOf(text, key);
  if (!value.starts_with('"')) return "";
  value.remove_prefix(1);
  return Printable(value.substr(0, value.find('"')), fr::kMostNameColumns);
}

int64_t NumberOf(std::string_view text, std::string_view key) {
  const int64_t number = LeadingNumber(ValueOf(text, key)).value_or(-1);
  return number >= 0 && number <= fr::kMaxCounter ? number : -1;
}

int64_t Nanoseconds(int64_t microseconds) {
  return microseconds > 0 && microseconds < std::numeric_limits<int64_t>::max() / 1000 ? microseconds * 1000 : 0;
}

// Reads the first start and the last end among all channels of the GPU kernel.
void ReadTimes(std::string_view text, InspectorOp* op) {
  op->called_ns = Nanoseconds(NumberOf(text, "\"coll_start_ts\""));
  constexpr std::string_view kStart = "\"kernel_start_ts\"", kStop = "\"kernel_stop_ts\"";
  for (size_t at = 0; (at = text.find(kStart, at)) != std::string_view::npos; at += kStart.size()) {
    const int64_t start = Nanoseconds(NumberOf(text.substr(at), kStart));
    const int64_t stop = Nanoseconds(NumberOf(text.substr(at), kStop));
    if (start > 0 && (op->started_ns == 0 || start < op->started_ns)) op->started_ns = start;
    op->completed_ns = std::max(op->completed_ns, stop);
  }
  if (op->started_ns == 0 || op->completed_ns < op->started_ns) op->started_ns = op->completed_ns = 0;
}

}  // namespace

bool IsInspectorJson(std::string_view head) {
  head = fr::Strip(head);
  return head.starts_with('{') && head.substr(0, 16).find("\"header\"") != std::string_view::npos &&
         head.find("\"inspector_output_format_version\"") != std::string_view::npos;
}

// Parses
// {"header":{"id":"0x7f8c..","comm_name":"..","rank":2,"n_ranks":8,..},"metadata":{..,"hostname":"..","pid":163},..}
bool InspectorReader::TakeHeader(std::string_view text, int64_t number) {
  if (text.find("\"inspector_output_format_version\"") == std::string_view::npos) return false;
  InspectorComm comm;
  comm.id = TextOf(text, "\"id\"");
  comm.name = TextOf(text, "\"comm_name\"");
  if (comm.name == "unknown") comm.name.clear();
  comm.host = TextOf(text, "\"hostname\"");
  comm.pid = std::clamp<int64_t>(NumberOf(text, "\"pid\""), 0, INT32_MAX);
  comm.rank = RankBehind(ValueOf(text, "\"rank\""), "");
  comm.size = std::max(RankBehind(ValueOf(text, "\"n_ranks\""), ""), 0);
  comm.number = number;
  current_ = SIZE_MAX;
  if (comm.id.empty() || comm.rank < 0 || comm.rank >= comm.size) return true;
  const auto [at, fresh] = known_.try_emplace({comm.id, comm.host, comm.pid, comm.rank}, comms_.size());
  if (fresh && comms_.size() >= kMostInspected) {
    known_.erase(at);
    return true;
  }
  current_ = at->second;
  if (fresh) comms_.push_back(std::move(comm));
  return true;
}

void InspectorReader::Take(std::string_view text, int64_t number) {
  text = fr::Strip(text);
  if (!text.starts_with('{') || !text.ends_with('}')) return;  // the line is incomplete
  const bool coll = text.find("\"coll_perf\"") != std::string_view::npos;
  const bool transfer = text.find("\"p2p_perf\"") != std::string_view::npos;
  const bool header = TakeHeader(text, number);
  if ((!coll && !transfer && !header) || current_ == SIZE_MAX) return;
  InspectorComm& comm = comms_[current_];
  comm.transfers += transfer;
  if (!coll) return;
  InspectorOp op;
  op.kind = fr::ParseOpName(TextOf(text, "\"coll\"")).kind;
  op.number = NumberOf(text, "\"coll_sn\"");
  op.bytes = NumberOf(text, "\"coll_msg_size_bytes\"");
  if (!ring::IsCollective(op.kind) || op.number < 0) return;
  ReadTimes(text, &op);
  const int64_t before = comm.ops++;
  if (comm.newest.size() < kMostOpsOfComm && kept_ < kMostOps) {
    comm.newest.push_back(op);
    ++kept_;
  } else if (!comm.newest.empty()) {
    comm.newest[static_cast<size_t>(before) % comm.newest.size()] = op;
  }
}

std::vector<InspectorComm> InspectorReader::Finish() {
  known_.clear();
  return std::move(comms_);
}

}  // namespace lockstep::logs
