#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/merge.h"
#include "analyzer/viewdata/facts.h"
#include "analyzer/viewdata/state.h"

namespace lockstep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// An empty message takes two bytes in a file and about a hundred in memory, so messages are counted before they are
// parsed.
constexpr int64_t kMostMessages = 4'000'000;
constexpr int kDeepest = 16;

bool CountMessages(CodedInputStream* in, const Descriptor* type, int depth, int64_t* left) {
  if (--*left < 0 || depth > kDeepest) return false;
  while (const uint32_t tag = in->ReadTag()) {
    const FieldDescriptor* field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED || field == nullptr ||
        (field->type() != FieldDescriptor::TYPE_MESSAGE && field->type() != FieldDescriptor::TYPE_STRING)) {
      if (!WireFormatLite::SkipField(in, tag)) return false;
      continue;
    }
    uint32_t length = 0;
    if (!in->ReadVarint32(&length) || length > INT32_MAX) return false;
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (field->is_repeated() && --*left < 0) return false;
      if (!in->Skip(static_cast<int>(length))) return false;
      continue;
    }
    const CodedInputStream::Limit limit = in->PushLimit(static_cast<int>(length));
    if (!CountMessages(in, field->message_type(), depth + 1, left) || in->BytesUntilLimit() != 0) return false;
    in->PopLimit(limit);
  }
  return in->ConsumedEntireMessage();
}

class Checker {
 public:
  Checker(const ViewFacts& facts, const IndexReader& index) : facts_(facts), index_(index) {}

  // Returns what is wrong; empty if the facts are valid.
  std::string Check() {
    if (static_cast<size_t>(facts_.ranks_size()) != index_.ranks().size()) Wrong("wrong number of ranks");
    for (int i = 0; why_.empty() && i < facts_.ranks_size(); ++i)
      Rank(facts_.ranks(i), index_.ranks()[static_cast<size_t>(i)]);
    for (const WaitClass& c : facts_.classes()) {
      Place("class", c.comm());
      Finding(c.finding());
      Runs(c.ranks());
      if (!WaitClass::Kind_IsValid(c.kind())) Wrong("an unknown kind of wait class");
    }
    for (const WaitEdge& e : facts_.edges()) {
      if (e.from() >= Classes() || e.to() >= Classes()) Wrong("an edge between classes that do not exist");
      Place("edge", e.comm());
    }
    for (const CallMismatch& m : facts_.mismatches()) {
      Place("mismatch", m.comm());
      for (const CallMismatch::Group& g : m.groups()) Runs(g.ranks());
    }
    for (int i = 0; i < facts_.stacks_size(); ++i) {
      const StackNode& n = facts_.stacks(i);
      if (n.parent() < -1 || n.parent() >= i) Wrong("a frame whose parent comes later");
      if (!StackFrame::Kind_IsValid(n.kind())) Wrong("an unknown kind of frame");
      Runs(n.ranks());
    }
    for (const BandwidthSeries& s : facts_.bandwidths()) {
      for (const BandwidthSeries::Point& p : s.points()) Place("measurement", p.comm());
    }
    for (const Anomaly& a : facts_.anomalies()) {
      Place("anomaly", a.comm());
      Finding(a.finding());
      Runs(a.ranks());
    }
    for (const Focus& f : facts_.focuses()) Picture(f);
    for (const RankRuns& r : facts_.missing()) Runs(r);
    for (const ReportSection& s : facts_.report()) Finding(s.finding());
    if (!VerdictKind_IsValid(facts_.verdict().verdict())) Wrong("an unknown verdict");
    for (const lockstep::Finding& f : facts_.verdict().findings()) {
      if (!FindingKind_IsValid(f.kind())) Wrong("an unknown kind of finding");
    }
    return why_;
  }

 private:
  void Wrong(const std::string& why) {
    if (why_.empty()) why_ = why;
  }
  uint32_t Classes() const { return static_cast<uint32_t>(facts_.classes_size()); }
  void Place(const char* whose, int32_t comm) {
    if (comm < -1 || comm >= static_cast<int64_t>(index_.comms().size()))
      Wrong(absl::StrCat("a communicator of a ", whose, " that does not exist"));
  }
  void Finding(int32_t finding) {
    if (finding < -1 || finding >= facts_.verdict().findings_size()) Wrong("a finding that does not exist");
  }
  void Runs(const RankRuns& runs) {
    int64_t before = -1;
    bool sound = runs.bounds_size() % 2 == 0;
    for (int i = 0; sound && i < runs.bounds_size(); i += 2) {
      sound = runs.bounds(i) > before && runs.bounds(i) <= runs.bounds(i + 1) && runs.bounds(i + 1) < kMaxRanks;
      before = runs.bounds(i + 1);
    }
    if (!sound) Wrong("runs of ranks are out of order");
  }
  void Picture(const Focus& focus) {
    Finding(focus.finding());
    Place("picture", focus.comm());
    if (focus.columns() < 1 || focus.columns() > 64 || focus.fault_column() < 0 ||
        focus.fault_column() >= focus.columns() || focus.rows_size() > 64)
      Wrong("a picture with a wrong size");
    for (const Focus::Row& row : focus.rows()) {
      Runs(row.ranks());
      if (!row.cells().empty() && row.cells_size() != focus.columns()) Wrong("a picture with uneven rows");
      if (!WaitClass::Kind_IsValid(row.kind())) Wrong("an unknown kind of wait class");
      for (const Focus::Cell& cell : row.cells()) {
        if (cell.state() >= static_cast<uint32_t>(ViewState::kCount)) Wrong("an unknown state of a call");
      }
    }
  }
  void Rank(const RankFacts& rank, const IndexRank& row) {
    if (rank.rank() != row.rank) Wrong("facts about other ranks");
    if (!RankFacts::Host_IsValid(rank.host_state())) Wrong("an unknown host state");
    if (rank.stage() < -1 || rank.stage() >= kMaxRanks) Wrong("a pipeline stage is out of range");
    if (rank.wait_class() < -1 || rank.wait_class() >= facts_.classes_size())
      Wrong("a rank's class that does not exist");
    if (rank.streams_size() > kIndexNoStream) Wrong("more streams than the column can represent");
    const int modules = rank.evidence().modules_size();
    for (const ThreadStack& thread : rank.evidence().threads()) {
      for (const StackFrame& frame : thread.frames()) {
        if (frame.module() > static_cast<uint32_t>(modules)) Wrong("a frame in a file that does not exist");
        if (!StackFrame::Kind_IsValid(frame.kind())) Wrong("an unknown kind of frame");
      }
    }
  }

  const ViewFacts& facts_;
  const IndexReader& index_;
  std::string why_;
};

}  // namespace

absl::StatusOr<ViewFacts> ReadViewFacts(const IndexReader& index) {
  const absl::Span<const char> bytes = index.facts();
  if (bytes.empty())
    return absl::FailedPreconditionError(
        "this index contains no facts; delete it, and Lockstep re-creates it from the dumps");
  const auto size = static_cast<int>(bytes.size());
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  in.PushLimit(size);  // so that the end of the buffer is the end of the message
  int64_t left = kMostMessages;
  ViewFacts facts;
  if (!CountMessages(&in, ViewFacts::descriptor(), 0, &left) || !facts.ParseFromArray(bytes.data(), size)) {
    return absl::DataLossError(
        "the facts of this index are unreadable; delete the index, and Lockstep re-creates it from the dumps");
  }
  if (const std::string why = Checker(facts, index).Check(); !why.empty()) {
    return absl::DataLossError(absl::StrCat(why, "; delete the index, and Lockstep re-creates it from the dumps"));
  }
  return facts;
}

}  // namespace lockstep
