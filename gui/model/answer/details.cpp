#include "gui/model/answer/details.h"

#include <QLocale>

#include <algorithm>
#include <array>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/wrap.h"
#include "gui/model/answer/answer.h"
#include "gui/model/latest_job.h"
#include "gui/model/safe_text.h"
#include "gui/model/tables/stacks.h"

namespace lockstep::gui {
namespace {

constexpr int kMostFrames = 24;  // per stack
constexpr int kMostStacks = 6;
constexpr int kMostComms = 24;  // per rank
constexpr int kMostValues = 8;  // per difference
constexpr int kMostMismatches = 8;
constexpr int kRankColumns = 48;  // per list of ranks

Selection OfRanks(Ranks ranks) { return Selection::Of(std::move(ranks)); }
Selection OfComm(int32_t comm, int64_t seq, Ranks ranks = {}) { return Selection::Of(std::move(ranks), comm, seq); }

class Maker {
 public:
  Maker(const Document& document, std::shared_ptr<const IncidentColumns> columns)
      : document_(document), columns_(std::move(columns)) {}

  void Operation(int row, int64_t record);
  void Peers(int32_t comm, int64_t seq);
  void Rank(int row);
  void Stacks(int row);
  void RankWithoutData(int32_t rank);
  void Several(const Ranks& ranks, const std::atomic<bool>* cancel);
  void Comm(int32_t comm);
  void Time(const Selection& selection);
  void Nothing();
  Details Take() { return std::move(details_); }

 private:
  void Begin(const QString& title) { details_.sections.push_back({title, {}}); }
  DetailLine& Line(const QString& label, const QString& text) {
    details_.sections.back().lines.push_back({label, text, -1, ViewState::kOutside, false});
    return details_.sections.back().lines.back();
  }
  void LineIfKnown(const QString& label, const QString& text) {
    if (!text.isEmpty()) Line(label, text);
  }
  DetailLine& Linked(const QString& label, const QString& text, Selection selection) {
    DetailLine& line = Line(label, text);
    line.link = static_cast<int>(details_.links.size());
    details_.links.push_back(std::move(selection));
    return line;
  }
  void Frames(const QString& label, const std::vector<std::string>& frames);
  QString Title(int row) const;

  const Document& document_;
  std::shared_ptr<const IncidentColumns> columns_;
  Details details_;
};

QString Maker::Title(int row) const {
  QString title = QString("rank %1").arg(document_.RankAt(row));
  const QString host = Plain(document_.HostAt(row), 60);
  if (!host.isEmpty()) title += " on " + host;
  if (const int32_t gpu = document_.Entry(row).gpu; gpu >= 0) title += QString(", GPU %1").arg(gpu);
  return title;
}

void Maker::Operation(int row, int64_t record) {
  const IndexOp op = document_.OpAt(row, record);
  const int32_t comm = document_.CommOf(op);
  const IndexRank& rank = document_.Entry(row);
  const int32_t global = document_.RankAt(row);
  Begin(OpWords(document_, op.kind, op.seq, comm) + QString(", rank %1").arg(global));
  details_.record_rank = global;
  details_.record = record;
  Line("state", OpStateWord(op.state));
  if (comm >= 0)
    Linked("communicator", Plain(document_.CommName(comm), 120),
           OfComm(comm, ring::IsCollective(op.kind) ? op.seq : -1));
  if (op.peer >= 0 && comm >= 0) {
    const auto members = document_.MembersOf(comm);
    const int32_t peer = static_cast<size_t>(op.peer) < members.size() ? members[static_cast<size_t>(op.peer)] : -1;
    const QString label = op.kind == ring::CallKind::kSend   ? "to"
                          : op.kind == ring::CallKind::kRecv ? "from"
                          : ring::IsCollective(op.kind)      ? "root"
                                                             : "peer";
    if (peer >= 0) {
      Linked(label, QString("rank %1").arg(peer), OfRanks(Ranks::Between(peer, peer)));
    } else {
      Line(label, QString("member %1, rank unknown").arg(op.peer));
    }
  }
  if (op.bytes_at_least > 0)
    Line("size", "at least " + QString::fromStdString(
                                   BytesText(static_cast<int64_t>(std::min<uint64_t>(op.bytes_at_least, INT64_MAX)))));
  if (op.stream != kIndexNoStream) {
    const RankFacts& facts = document_.FactsAt(row);
    Line("stream", QString::number(op.stream < facts.streams_size() ? facts.streams(op.stream) : op.stream));
  }
  if (op.enter_ns > 0 && rank.captured_ns > 0)
    Line("called", Duration(Minus(rank.captured_ns, op.enter_ns)) + " before the data was taken");
  if (op.enter_ns > 0)
    Line("in the call", op.return_ns > 0 ? Duration(Minus(op.return_ns, op.enter_ns))
                                         : QString("has not returned, or its return was not recorded"));
  if (op.started_ns > 0) Line("started", Duration(Minus(op.started_ns, op.enter_ns)) + " after the call");
  if (op.completed_ns > 0) {
    Line("completed", Duration(Minus(op.completed_ns, op.enter_ns)) + " after the call");
    if (op.started_ns > 0) Line("took", Duration(Minus(op.completed_ns, op.started_ns)));
  }
  Line("place", QString("%1 of %2 records of the rank").arg(Count(record + 1), Count(document_.OpCount(row))));
  for (size_t i = 0; i < columns_->in_flight().size(); ++i) {
    const InFlightOp& there = columns_->in_flight()[i];
    if (there.row != row || there.record != record) continue;
    LineIfKnown("waits for", columns_->WaitsFor(document_, i));
    break;
  }
}

void Maker::Peers(int32_t comm, int64_t seq) {
  const auto groups = MembersAt(document_, *columns_, comm, seq);
  if (groups.empty()) return;
  Begin(QString("Members at #%1 on %2").arg(seq).arg(Plain(document_.CommName(comm), 60)));
  for (const auto& [state, ranks] : groups) {
    Linked(QString::fromLatin1(ViewStateName(state)),
           QString("%1: %2").arg(Count(ranks.size()), RankList(ranks, kRankColumns)), OfComm(comm, seq, ranks))
        .mark = state;
  }
  int shown = 0;
  for (const CallMismatch& mismatch : document_.facts().mismatches()) {
    if (mismatch.point_to_point() || mismatch.comm() != comm || mismatch.sequence() != seq) continue;
    for (const CallMismatch::Group& group : mismatch.groups()) {
      if (shown++ >= kMostMismatches) break;
      const Ranks ranks = Ranks::Of(group.ranks());
      Linked(Plain(mismatch.field(), 24), Plain(group.value(), 80) + ": " + RanksText(ranks, kRankColumns),
             OfComm(comm, seq, ranks));
    }
  }
}

void Maker::Frames(const QString& label, const std::vector<std::string>& frames) {
  QString first = label;
  int shown = 0;
  for (const std::string& frame : frames) {
    if (shown++ == kMostFrames) {
      Line("", QString("and %1 more frames").arg(frames.size() - kMostFrames));
      break;
    }
    Line(first, Plain(frame, 200)).mono = true;
    first.clear();
  }
}

// Adds the stacks from the process's own evidence, otherwise the merged stacks that contain the rank. Innermost frame
// first.
void Maker::Stacks(int row) {
  Begin("Stacks");
  int shown = 0;
  const ProcessEvidence& evidence = document_.FactsAt(row).evidence();
  for (const ThreadStack& thread : evidence.threads()) {
    if (shown++ == kMostStacks) {
      Line("", QString("and %1 more threads").arg(evidence.threads_size() - kMostStacks));
      break;
    }
    QString name = QString("thread %1").arg(thread.tid());
    if (!thread.name().empty()) name += " " + Plain(thread.name(), 24);
    if (!thread.state().empty()) name += " (" + Plain(thread.state(), 4) + ")";
    Line(name, thread.wchan().empty() ? QString() : "in the kernel: " + Plain(thread.wchan(), 60));
    const std::vector<std::string> python = StackTexts(thread, evidence, true);
    Frames("Python", python);
    Frames(python.empty() ? "stack" : "native", StackTexts(thread, evidence));
    if (!thread.refused().empty()) Line("", Plain(thread.refused(), 300));
  }
  if (!evidence.stacks_refused().empty()) Line("refused", Plain(evidence.stacks_refused(), 300));
  if (!evidence.python_refused().empty()) Line("no Python", Plain(evidence.python_refused(), 300));
  if (evidence.threads_size() == 0) {
    for (const std::vector<const StackNode*>& stack : StacksOf(document_.facts(), document_.RankAt(row))) {
      if (shown++ == kMostStacks) break;
      std::vector<std::string> frames;
      frames.reserve(stack.size());
      for (const StackNode* node : stack) frames.push_back(node->frame());
      Frames(FrameKindName(stack.front()->kind()), frames);
    }
  }
  if (details_.sections.back().lines.empty()) Line("", "none were taken");
}

void Maker::Rank(int row) {
  const IndexRank& rank = document_.Entry(row);
  const RankFacts& facts = document_.FactsAt(row);
  Begin(Title(row));
  LineIfKnown("state", Plain(facts.state(), 300));
  if (!details_.sections.back().lines.empty()) details_.sections.back().lines.back().mark = columns_->MarkOf(row);
  if (const WaitClass* wait = document_.WaitOf(row); wait != nullptr) {
    Linked("class", WaitClassWord(document_, row) + ": " + Plain(wait->label(), 160),
           OfRanks(Ranks::Of(wait->ranks())));
    for (const WaitEdge& edge : document_.facts().edges()) {
      if (static_cast<int>(edge.from()) != facts.wait_class()) continue;
      const Ranks ranks = Ranks::Of(document_.facts().classes(static_cast<int>(edge.to())).ranks());
      Linked("waits for",
             RanksText(ranks, kRankColumns) + (edge.why().empty() ? QString() : ": " + Plain(edge.why(), 80)),
             OfRanks(ranks));
    }
  }
  if (facts.lag() > 0)
    Line("lag", QString(facts.lag() == 1 ? "%1 collective behind" : "%1 collectives behind").arg(Count(facts.lag())));
  for (const InFlightOp& op : columns_->in_flight()) {
    if (op.row != row || !op.oldest) continue;
    QString text = OpWords(document_, op.kind, op.seq, op.comm);
    if (op.age_ns >= 0) text += ", for " + Duration(op.age_ns);
    const int32_t more = columns_->InFlightOf(row) - 1;
    Linked("in flight", text + (more > 0 ? QString(" and %1 more").arg(more) : QString()),
           document_.SelectOp(row, op.record));
    break;
  }
  if (facts.stage() >= 0) Line("stage", QString::number(facts.stage()));
  const QString host = Plain(document_.HostAt(row), 80);
  if (!host.isEmpty()) {
    std::vector<int32_t> there;
    for (int r = 0; r < document_.rank_count(); ++r) {
      if (document_.Entry(r).host == rank.host) there.push_back(document_.RankAt(r));
    }
    const Ranks ranks = Ranks::Of(std::move(there));
    Linked("host", host + " (" + RanksText(ranks, kRankColumns) + ")", OfRanks(ranks));
  }
  if (const QString pci = Plain(facts.gpu_pci(), 32); rank.gpu >= 0 || !pci.isEmpty()) {
    Line("GPU", (rank.gpu >= 0 ? QString::number(rank.gpu) : QString()) +
                    (pci.isEmpty() ? "" : (rank.gpu >= 0 ? " at " : "") + pci));
  }
  if (rank.pid != 0) Line("process", QString::number(rank.pid));
  LineIfKnown("recorder", Plain(facts.recorder(), 160));
  Line("GPU recorded", facts.gpu_recorded() ? "yes" : "no: GPU activity is unknown");
  if (facts.records_lost() > 0)
    Line("lost", Count(static_cast<int64_t>(std::min<uint64_t>(facts.records_lost(), INT64_MAX))) + " records");
  if (facts.damaged()) Line("damaged", "part of its data could not be read");
  Line("clock", facts.clock_uncertainty_ns() < 0
                    ? QString("not aligned with other hosts")
                    : QString("aligned within %1").arg(Duration(facts.clock_uncertainty_ns())));
  for (const std::string& line : HardwareTrouble(facts.evidence(), 5)) Line("hardware", Plain(line, 300));
  if (facts.has_evidence()) LineIfKnown("hardware events", Plain(HardwareSeen(facts.evidence()), 300));
  LineIfKnown("memory", Plain(MemoryTrouble(facts.evidence()), 300));
  LineIfKnown("file", Plain(facts.path(), 400));
  Stacks(row);
  const auto memberships = document_.MembershipsOf(row);
  Begin("Its communicators");
  int shown = 0;
  for (const IndexMembership& m : memberships) {
    if (shown++ == kMostComms) {
      Line("", QString("and %1 more").arg(memberships.size() - kMostComms));
      break;
    }
    QString text;
    if (m.issued == kUnknown) {
      text = "counters not recorded";
    } else {
      text = m.issued < 0 ? QString("nothing issued") : QString("issued #%1").arg(m.issued);
      if (m.issued >= 0)
        text += m.completed == kUnknown ? QString(", GPU not recorded")
                : m.completed < 0       ? QString(", none completed")
                                        : QString(", completed #%1").arg(m.completed);
    }
    Linked(Plain(document_.CommName(static_cast<int32_t>(m.comm)), 40), text,
           OfComm(static_cast<int32_t>(m.comm), m.issued, Ranks::Between(rank.rank, rank.rank)));
  }
  if (memberships.empty()) details_.sections.pop_back();
}

void Maker::RankWithoutData(int32_t rank) {
  Begin(QString("rank %1").arg(rank));
  Line("state", "no data: nothing is known about it").mark = ViewState::kNoData;
  int32_t comms = 0;
  for (int32_t c = 0; c < document_.comm_count() && comms < kMostComms; ++c) {
    const auto members = document_.MembersOf(c);
    if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
    ++comms;
    Linked("member of", Plain(document_.CommName(c), 80), OfComm(c, -1));
  }
}

// Adds shared and different values: each value with its ranks, rarest first.
void Maker::Several(const Ranks& ranks, const std::atomic<bool>* cancel) {
  std::vector<int> rows;
  for (int row = 0; row < document_.rank_count(); ++row) {
    if (ranks.Contains(document_.RankAt(row))) rows.push_back(row);
  }
  const int64_t without = ranks.size() - static_cast<int64_t>(rows.size());
  Begin(QString("%1 ranks").arg(Count(ranks.size())));
  Linked("ranks", RankList(ranks, kRankColumns * 2), OfRanks(ranks));
  if (without > 0) Line("without data", Count(without)).mark = ViewState::kNoData;
  if (rows.empty()) return;
  const auto number = [](int64_t value) { return value < 0 ? QString() : QString::number(value); };
  const Document& d = document_;
  const std::pair<const char*, std::function<QString(int)>> aspects[] = {
      {"state", [&](int row) { return Plain(d.FactsAt(row).state(), 120); }},
      {"class", [&](int row) { return WaitClassWord(d, row); }},
      {"host", [&](int row) { return Plain(d.HostAt(row), 60); }},
      {"GPU", [&](int row) { return number(d.Entry(row).gpu); }},
      {"stage", [&](int row) { return number(d.FactsAt(row).stage()); }},
      {"lag", [&](int row) { return number(d.FactsAt(row).lag()); }},
      {"in flight", [&](int row) { return QString::number(columns_->InFlightOf(row)); }},
      {"recorder", [&](int row) { return Plain(d.FactsAt(row).recorder(), 60); }},
  };
  Begin("Same for all");
  const size_t same = details_.sections.size() - 1;
  std::vector<std::pair<const char*, std::vector<std::pair<QString, std::vector<int32_t>>>>> differing;
  for (const auto& [name, value_of] : aspects) {
    if (Cancelled(cancel)) return;
    absl::flat_hash_map<std::string, std::pair<QString, std::vector<int32_t>>> values;
    for (const int row : rows) {
      QString value = value_of(row);
      auto& [text, who] = values[value.toStdString()];
      text = std::move(value);
      who.push_back(document_.RankAt(row));
    }
    if (values.size() == 1) {
      LineIfKnown(name, values.begin()->second.first);
      continue;
    }
    differing.emplace_back(name, std::vector<std::pair<QString, std::vector<int32_t>>>());
    for (auto& [key, value] : values) differing.back().second.push_back(std::move(value));
    std::sort(differing.back().second.begin(), differing.back().second.end(), [](const auto& a, const auto& b) {
      return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                                : a.second.front() < b.second.front();
    });
  }
  // The communicators that contain all of these ranks.
  absl::flat_hash_map<uint32_t, size_t> common;
  for (const int row : rows) {
    for (const IndexMembership& m : document_.MembershipsOf(row)) ++common[m.comm];
  }
  std::vector<int32_t> shared;
  for (const auto& [comm, count] : common) {
    if (count >= rows.size()) shared.push_back(static_cast<int32_t>(comm));
  }
  std::sort(shared.begin(), shared.end());
  if (shared.size() > kMostValues) shared.resize(kMostValues);
  for (const int32_t comm : shared)
    Linked("communicator", Plain(document_.CommName(comm), 80),
           OfComm(comm, columns_->comms()[static_cast<size_t>(comm)].in_flight_seq));
  if (details_.sections[same].lines.empty()) details_.sections.pop_back();
  if (differing.empty()) return;
  Begin("Different");
  for (const auto& [label, values] : differing) {
    int shown = 0;
    for (const auto& [text, who] : values) {
      if (shown == kMostValues) {
        Line("", QString("and %1 more values").arg(values.size() - kMostValues));
        break;
      }
      const Ranks these = Ranks::Of(who);
      Linked(shown++ == 0 ? label : "",
             (text.isEmpty() ? QString("not known") : text) + ": " + RanksText(these, kRankColumns), OfRanks(these));
    }
  }
}

void Maker::Comm(int32_t comm) {
  const IndexComm& entry = document_.CommEntry(comm);
  const CommSummary& is = columns_->comms()[static_cast<size_t>(comm)];
  Begin("Communicator " + Plain(document_.CommName(comm), 80));
  Line("identity", Plain(document_.index().text(entry.id), 80));
  const auto known = document_.index().members(entry);
  std::vector<int32_t> members, silent;
  for (const int32_t rank : known) {
    if (rank >= 0) members.push_back(rank);
    if (rank >= 0 && document_.RowOf(rank) < 0) silent.push_back(rank);
  }
  if (known.empty()) {
    for (const CommMember& member : columns_->Members(comm)) members.push_back(document_.RankAt(member.row));
  }
  const Ranks all = Ranks::Of(std::move(members));
  Linked("members", QString("%1: %2").arg(entry.size).arg(RankList(all, kRankColumns)), OfRanks(all));
  if (entry.size > is.with_data) {
    const Ranks who = Ranks::Of(std::move(silent));
    const QString text =
        Count(entry.size - is.with_data) + (who.empty() ? QString() : ": " + RankList(who, kRankColumns));
    Line("without data", text).mark = ViewState::kNoData;
  }
  if (is.min_completed != kUnknown) {
    Line("completed", is.min_completed == is.max_completed ? QString("#%1 by all").arg(is.min_completed)
                                                           : QString("#%1 to #%2, the median member #%3")
                                                                 .arg(is.min_completed)
                                                                 .arg(is.max_completed)
                                                                 .arg(is.median_completed));
  } else {
    Line("completed", "not recorded");
  }
  if (is.in_flight_seq >= 0) {
    Linked("in flight",
           QString("#%1").arg(is.in_flight_seq) + (is.age_ns < 0 ? QString() : ", for " + Duration(is.age_ns)),
           OfComm(comm, is.in_flight_seq));
    const Ranks missing = columns_->Missing(document_, comm, is.in_flight_seq);
    if (!missing.empty())
      Linked("missing", RanksText(missing, kRankColumns), OfComm(comm, is.in_flight_seq, missing)).mark =
          ViewState::kMissing;
  } else {
    Line("in flight", "nothing");
  }
  int shown = 0;
  for (const CallMismatch& mismatch : document_.facts().mismatches()) {
    if (mismatch.comm() != comm || shown++ >= kMostMismatches) continue;
    Linked("mismatch", QString("#%1: %2").arg(mismatch.sequence()).arg(Plain(mismatch.field(), 40)),
           OfComm(comm, mismatch.point_to_point() ? -1 : mismatch.sequence()))
        .mark = ViewState::kMismatch;
  }
}

void Maker::Time(const Selection& selection) {
  if (selection.time_end < selection.time_begin) return;
  Begin("Time");
  Line("length", Duration(Minus(selection.time_end, selection.time_begin)));
  const ViewFacts& facts = document_.facts();
  if (facts.last_ns() > facts.first_ns())
    Line("begins", Duration(Minus(selection.time_begin, facts.first_ns())) + " after the first record of the job");
}

void Maker::Nothing() {
  Begin("Nothing is selected");
  Line("", "Click a cell, a line of evidence or a row.");
  Line("ranks", Count(document_.rank_count()));
  Line("communicators", Count(document_.comm_count()));
  Line("records", Count(static_cast<int64_t>(document_.index().operations())));
  const ViewFacts& facts = document_.facts();
  if (facts.last_ns() > facts.first_ns()) Line("recorded time", Duration(Minus(facts.last_ns(), facts.first_ns())));
  if (document_.anomaly_count() > 0)
    Linked("first anomaly", Plain(facts.anomalies(0).text(), 200), document_.AnomalyAt(0));
}

}  // namespace

std::vector<std::pair<ViewState, Ranks>> MembersAt(const Document& document, const IncidentColumns& columns,
                                                   int32_t comm, int64_t seq) {
  if (comm < 0 || comm >= document.comm_count() || seq < 0) return {};
  const IndexReader& index = document.index();
  const IndexComm& entry = document.CommEntry(comm);
  const auto known = index.members(entry);
  int64_t least = INT64_MAX;
  absl::flat_hash_map<int32_t, int> row_of_member;
  for (const CommMember& member : columns.Members(comm)) {
    if (member.issued >= kNone) least = std::min(least, member.issued);
    if (const IndexMembership* m = document.MembershipOf(member.row, comm); m != nullptr && m->member_rank >= 0)
      row_of_member[m->member_rank] = member.row;
  }
  const Ranks odd = OddCallsOf(document.facts())[{comm, seq}];
  std::array<std::vector<int32_t>, static_cast<size_t>(ViewState::kCount)> ranks;
  const int members = std::min(entry.size, 1 << 20);
  for (int32_t member = 0; member < members; ++member) {
    const auto there = row_of_member.find(member);
    const IndexMembership* m = there == row_of_member.end() ? nullptr : document.MembershipOf(there->second, comm);
    const int32_t rank = there != row_of_member.end()                 ? document.RankAt(there->second)
                         : static_cast<size_t>(member) < known.size() ? known[static_cast<size_t>(member)]
                                                                      : -1;
    if (rank < 0) continue;
    ViewState state = ViewState::kIssued;
    const IndexCell cell = index.CellAt(entry, member, seq, m);
    const bool waits = least < seq || (m != nullptr && document.WaitsIn(there->second, comm, seq, true));
    switch (cell) {
      case IndexCell::kEmpty: state = ViewState::kOutside; break;
      case IndexCell::kNoData: state = ViewState::kNoData; break;
      case IndexCell::kOverwritten: state = ViewState::kOverwritten; break;
      case IndexCell::kNotEnqueued: state = ViewState::kMissing; break;
      default:
        state = StateOfOp(static_cast<OpState>(static_cast<int>(cell) - static_cast<int>(IndexCell::kUnknown)), waits);
    }
    if (odd.Contains(rank)) state = std::max(state, ViewState::kMismatch);
    ranks[static_cast<size_t>(state)].push_back(rank);
  }
  std::vector<std::pair<ViewState, Ranks>> out;
  for (size_t s = ranks.size(); s-- > 0;) {
    if (!ranks[s].empty()) out.emplace_back(static_cast<ViewState>(s), Ranks::Of(std::move(ranks[s])));
  }
  return out;
}

Details DetailsOf(const DocumentPtr& document, const Selection& selection, const std::atomic<bool>* cancel) {
  std::shared_ptr<const IncidentColumns> columns = IncidentColumns::Of(document, cancel);
  if (columns == nullptr) return {};
  const Document& d = *document;
  Maker maker(d, columns);
  const bool one_seq = selection.seq_first >= 0 && selection.seq_first == selection.seq_last;
  const int32_t comm = selection.comm < d.comm_count() ? selection.comm : -1;
  int row = selection.ranks.size() == 1 ? d.RowOf(selection.ranks.front()) : -1;
  int64_t record = -1;
  if (selection.record >= 0 && d.RowOf(selection.record_rank) >= 0) {
    row = d.RowOf(selection.record_rank);
    record = selection.record < d.OpCount(row) ? selection.record : -1;
  } else if (row >= 0 && comm >= 0 && one_seq) {
    record = d.FindCollective(row, comm, selection.seq_first);
  }
  if (record >= 0) {
    maker.Operation(row, record);
    const IndexOp op = d.OpAt(row, record);
    if (ring::IsCollective(op.kind)) maker.Peers(d.CommOf(op), op.seq);
  } else if (comm >= 0) {
    if (one_seq && row >= 0) maker.Peers(comm, selection.seq_first);
  }
  if (Cancelled(cancel)) return {};
  if (row >= 0) {
    maker.Rank(row);
  } else if (selection.ranks.size() == 1) {
    maker.RankWithoutData(selection.ranks.front());
  } else if (selection.ranks.size() > 1) {
    maker.Several(selection.ranks, cancel);
  }
  if (comm >= 0 && row < 0) {
    maker.Comm(comm);
    if (one_seq) maker.Peers(comm, selection.seq_first);
  }
  maker.Time(selection);
  if (selection.empty()) maker.Nothing();
  return maker.Take();
}

QString DetailsText(const Details& details) {
  QString out;
  for (const DetailSection& section : details.sections) {
    out += TsvCell(section.title) + '\n';
    for (const DetailLine& line : section.lines) out += TsvCell(line.label) + '\t' + TsvCell(line.text) + '\n';
  }
  return out;
}

}  // namespace lockstep::gui
