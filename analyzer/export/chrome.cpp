// Chrome's trace JSON only has processes and threads. A rank becomes a process with the rank's number, and its rows
// become threads.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/export/export.h"
#include "analyzer/export/time.h"
#include "analyzer/export/trace.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

// Returns the printable characters of a text as a JSON string.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : Printable(text, 1000)) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

class ChromeSink : public TraceSink {
 public:
  ChromeSink(const Bundle& bundle, const ExportTime& time, const ExportWriter& write)
      : TraceSink(write), bundle_(bundle), zero_(time.first_ns()) {}

  void Row(const TraceRow& row) override {
    if (row.kind == TraceRow::Kind::kHost) {
      host_ = row.name;
      return;
    }
    if (row.kind == TraceRow::Kind::kRank) {
      thread_ = 0;
      Meta(row, "process_name", absl::StrCat("\"name\":", Quoted(absl::StrCat(row.name, " on ", host_))));
      Meta(row, "process_labels", absl::StrCat("\"labels\":", Quoted(host_)));
      Meta(row, "process_sort_index", absl::StrCat("\"sort_index\":", row.order));
      Meta(row, "thread_name", "\"name\":\"verdict\"");
      return Meta(row, "thread_sort_index", "\"sort_index\":-1");
    }
    ++thread_;
    Meta(row, "thread_name", absl::StrCat("\"name\":", Quoted(row.name)));
    Meta(row, "thread_sort_index", absl::StrCat("\"sort_index\":", row.order));
  }

  void Begin(const TraceRow& row, const TraceSlice& slice) override {
    std::string args;
    for (const TraceFact& fact : FactsOf(bundle_, slice)) {
      absl::StrAppend(&args, args.empty() ? "" : ",", Quoted(fact.key), ":",
                      fact.text.empty() ? absl::StrCat(fact.number) : Quoted(fact.text));
    }
    Put(absl::StrCat("{\"ph\":\"X\",\"name\":", Quoted(slice.name), ",\"cat\":", Quoted(slice.category),
                     Where(row, slice.begin), ",\"dur\":", Micros(slice.end - slice.begin), ",\"args\":{", args, "}}"));
  }

  void End(const TraceRow&, const TraceSlice&) override {}

  void Mark(const TraceRow& row, const TraceMark& mark) override {
    Put(absl::StrCat("{\"ph\":\"i\",\"s\":\"t\",\"name\":", Quoted(mark.name), ",\"cat\":", Quoted(mark.category),
                     Where(row, mark.at), "}"));
    // A viewer binds an arrow to the slice that contains its end, here the verdict's slice around that point.
    for (uint64_t arrow : mark.arrows_from) {
      Flow(row, mark.at, "s", arrow);
    }
    for (uint64_t arrow : mark.arrows_to) {
      Flow(row, mark.at, "f", arrow);
    }
  }

  void Finish() {
    Write(absl::StrCat(empty_ ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" : "",
                       "\n],\"otherData\":{\"wall_clock_of_zero_ns\":\"", zero_, "\"}}\n"));
  }

 private:
  static std::string Micros(int64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

  std::string Where(const TraceRow& row, int64_t at) const {
    return absl::StrCat(",\"pid\":", row.rank, ",\"tid\":", row.kind == TraceRow::Kind::kRank ? 0 : thread_,
                        ",\"ts\":", Micros(std::max<int64_t>(0, at - zero_)));
  }

  void Meta(const TraceRow& row, const char* name, const std::string& args) {
    Put(absl::StrCat("{\"ph\":\"M\",\"name\":\"", name, "\",\"pid\":", row.rank,
                     ",\"tid\":", row.kind == TraceRow::Kind::kRank ? 0 : thread_, ",\"args\":{", args, "}}"));
  }

  void Flow(const TraceRow& row, int64_t at, const char* phase, uint64_t id) {
    Put(absl::StrCat("{\"ph\":\"", phase, "\",\"name\":\"waits for\",\"cat\":\"verdict\",\"id\":", id,
                     phase[0] == 'f' ? ",\"bp\":\"e\"" : "", Where(row, at), "}"));
  }

  void Put(const std::string& event) {
    const bool first = std::exchange(empty_, false);
    Write(absl::StrCat(first ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : ",\n", event));
  }

  const Bundle& bundle_;
  const int64_t zero_;
  std::string host_;
  int thread_ = 0;
  bool empty_ = true;
};

}  // namespace

absl::StatusOr<ExportCounts> ExportChrome(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                          const ExportWriter& write) {
  const ExportTime time(bundle, verdict);
  ChromeSink sink(bundle, time, write);
  absl::StatusOr<ExportCounts> counts = WalkTrace(bundle, verdict, options, time, &sink);
  sink.Finish();
  if (!sink.status().ok()) return sink.status();
  return counts;
}

}  // namespace lockstep
