#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/export/export.h"
#include "analyzer/export/time.h"
#include "analyzer/export/trace.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr char kHeader[] =
    "rank,host,gpu,pid,thread,index,operation,communicator,communicator_id,communicator_size,member_rank,sequence,"
    "state,count,datatype,"
    "reduction,root_or_peer,group,stream,enter_ns,return_ns,started_ns,completed_ns,result,call_site\r\n";

void Text(std::string_view text, std::string* line) {
  std::string clean = Printable(text, 400);
  // A spreadsheet would run this as a formula; a leading apostrophe makes it text.
  if (!clean.empty() && std::string_view("=+-@").find(clean[0]) != std::string_view::npos) clean.insert(0, 1, '\'');
  line->push_back(',');
  if (clean.find_first_of(",\"") == std::string::npos) {
    line->append(clean);
    return;
  }
  line->push_back('"');
  for (char c : clean) {
    if (c == '"') line->push_back('"');
    line->push_back(c);
  }
  line->push_back('"');
}

void Number(int64_t number, bool known, std::string* line) {
  line->push_back(',');
  if (known) absl::StrAppend(line, number);
}

}  // namespace

absl::StatusOr<ExportCounts> ExportCsv(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                       const ExportWriter& write) {
  const ExportTime time(bundle, verdict);
  ExportCounts counts;
  if (absl::Status status = write(kHeader); !status.ok()) return status;
  std::string line;
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    if (!Wanted(options, rank.rank)) continue;
    ++counts.ranks;
    for (const Op& op : rank.ops) {
      const int64_t entered = time.ToJob(r, op.enter_ns), returned = time.ToJob(r, op.return_ns);
      const int64_t started = time.ToJob(r, op.started_ns), completed = time.ToJob(r, op.completed_ns);
      const int64_t end = IsInFlight(op.state) ? 0 : std::max({entered, returned, completed});
      if (!time.Near(entered, end, options)) continue;
      ++counts.operations;
      counts.without_time += entered == 0 ? 1 : 0;
      const Membership* membership =
          op.membership < rank.memberships.size() ? &rank.memberships[op.membership] : nullptr;
      const Communicator* comm = membership != nullptr ? &bundle.comms[membership->comm] : nullptr;
      // Other calls have no number, count or root.
      const bool transfer = ring::IsCollective(op.kind) || ring::IsPointToPoint(op.kind);
      line = absl::StrCat(rank.rank);
      Text(rank.host, &line);
      Number(rank.gpu_index, rank.gpu_index >= 0, &line);
      Number(rank.pid, rank.pid != 0, &line);
      Number(op.thread, op.thread != kNoIndex, &line);
      Number(op.index, op.thread != kNoIndex, &line);
      Text(OperationName(bundle, op), &line);
      Text(comm != nullptr ? comm->name : "", &line);
      Text(comm != nullptr ? comm->id : "", &line);
      Number(comm != nullptr ? comm->size : 0, comm != nullptr, &line);
      Number(membership != nullptr ? membership->member_rank : -1,
             membership != nullptr && membership->member_rank >= 0, &line);
      Number(op.seq, transfer && op.seq >= 0, &line);
      Text(StateName(op.state), &line);
      Number(op.count, transfer && op.count >= 0, &line);
      Text(op.datatype != ring::kNoDatatype    ? DatatypeText(op.datatype)
           : op.dtypes < bundle.strings.size() ? bundle.strings[op.dtypes]
                                               : "",
           &line);
      Text(op.reduction != ring::kNoReduction ? ReductionText(op.reduction) : "", &line);
      Number(op.root_or_peer, transfer && op.root_or_peer >= 0, &line);
      Number(static_cast<int64_t>(op.group), op.group != 0, &line);
      Number(op.stream, op.stream != kNoIndex, &line);
      Number(entered, entered != 0, &line);
      Number(returned, returned != 0, &line);
      Number(started, started != 0, &line);
      Number(completed, completed != 0, &line);
      Number(op.result, op.return_ns != 0, &line);
      Text(op.call_site < bundle.strings.size() ? bundle.strings[op.call_site] : "", &line);
      line.append("\r\n");
      if (absl::Status status = write(line); !status.ok()) return status;
    }
  }
  return counts;
}

}  // namespace lockstep
