#include "gui/model/tables/kinds.h"

#include <algorithm>
#include <utility>

#include "analyzer/viewdata/words.h"
#include "gui/model/safe_text.h"
#include "gui/model/tables/columns.h"

namespace lockstep::gui {
namespace {

constexpr int64_t kNoNumber = INT64_MIN;
constexpr int kListColumns = 60;

QString Seq(int64_t seq) {
  return seq == kUnknown ? QString() : seq == kNone ? QString("none") : QString("#%1").arg(seq);
}
int64_t SeqNumber(int64_t seq) { return seq == kUnknown ? kNoNumber : seq; }
int64_t Known(int64_t number) { return number < 0 ? kNoNumber : number; }
QString Digits(int64_t number) { return number == kNoNumber ? QString() : QString::number(number); }
QString Age(int64_t ns) { return ns < 0 ? QString() : Duration(ns); }

class Rows : public TableRows {
 public:
  Rows(DocumentPtr document, std::shared_ptr<const IncidentColumns> columns)
      : document_(std::move(document)), columns_(std::move(columns)) {}

 protected:
  const Document& document() const { return *document_; }
  const ViewFacts& facts() const { return document_->facts(); }
  const IncidentColumns& columns() const { return *columns_; }

 private:
  DocumentPtr document_;
  std::shared_ptr<const IncidentColumns> columns_;
};

TableColumn Shared(const columns::Column& column, bool number, int characters) {
  return {column.name, column.meaning, number, characters};
}

template <typename T>
TableModel::Make Maker() {
  return [](const DocumentPtr& document, const std::atomic<bool>& cancel) -> std::shared_ptr<const TableRows> {
    std::shared_ptr<const IncidentColumns> columns = IncidentColumns::Of(document, &cancel);
    return columns == nullptr ? nullptr : std::make_shared<T>(document, std::move(columns));
  };
}

class CommRows : public Rows {
 public:
  enum Column { kName, kAge, kSeq, kMissing, kMissingRanks, kMismatch, kMin, kMedian, kMax, kSize, kId };
  using Rows::Rows;

  int count() const override { return document().comm_count(); }
  QString Text(int row, int column) const override {
    const IndexComm& comm = document().CommEntry(row);
    const CommSummary& is = columns().comms()[static_cast<size_t>(row)];
    switch (column) {
      case kName: return Plain(document().CommName(row), 120);
      case kId: return Plain(document().index().text(comm.id), 120);
      case kSeq: return is.in_flight_seq < 0 ? QString() : Seq(is.in_flight_seq);
      case kMin: return Seq(is.min_completed);
      case kMedian: return Seq(is.median_completed);
      case kMax: return Seq(is.max_completed);
      case kMissingRanks: {
        QString text =
            is.missing == 0 ? QString() : RankList(columns().Missing(document(), row, is.in_flight_seq), kListColumns);
        if (comm.size > is.with_data)
          text += QString("%1%2 without data").arg(text.isEmpty() ? "" : "; ").arg(comm.size - is.with_data);
        return text;
      }
      case kMismatch: return is.mismatch < 0 ? QString() : Plain(facts().mismatches(is.mismatch).field(), 40);
      case kAge: return Age(is.age_ns);
      default: return Digits(Number(row, column));
    }
  }
  int64_t Number(int row, int column) const override {
    const CommSummary& is = columns().comms()[static_cast<size_t>(row)];
    switch (column) {
      case kSize: return document().CommEntry(row).size;
      case kSeq: return Known(is.in_flight_seq);
      case kMin: return SeqNumber(is.min_completed);
      case kMedian: return SeqNumber(is.median_completed);
      case kMax: return SeqNumber(is.max_completed);
      case kMissing: return is.in_flight_seq < 0 ? kNoNumber : is.missing;
      case kAge: return Known(is.age_ns);
      default: return kNoNumber;
    }
  }
  ViewState Mark(int row) const override { return columns().MarkOfComm(row); }
  // Most waits have about the same age, or an unknown age, so rows that the verdict names come first.
  int Priority(int row) const override {
    const bool named = facts().anomalies_size() > 0 && facts().anomalies(0).comm() == row;
    return named ? static_cast<int>(ViewState::kCount) : static_cast<int>(Mark(row));
  }
  Selection Select(std::span<const int> rows) const override {
    if (rows.empty()) return {};
    return Selection::Of({}, rows.front(), columns().comms()[static_cast<size_t>(rows.front())].in_flight_seq);
  }
  bool Shows(int row, const Selection& selection) const override { return selection.comm == row; }
  bool Concerns(int row, const Ranks& ranks) const override {
    const auto members = columns().Members(row);
    return std::any_of(members.begin(), members.end(),
                       [&](const CommMember& member) { return ranks.Contains(document().RankAt(member.row)); });
  }
};

class RankRows : public Rows {
 public:
  enum Column { kRank, kHost, kGpu, kClass, kState, kLag, kInFlight, kStage, kPid, kLost, kClock, kFile };
  RankRows(DocumentPtr document, std::shared_ptr<const IncidentColumns> columns)
      : Rows(std::move(document), std::move(columns)) {
    const Ranks missing = Rows::document().MissingRanks();
    missing_ = missing.List(kMostMissing);
    left_out_ = missing.size() - static_cast<int64_t>(missing_.size());
  }

  int count() const override { return document().rank_count() + static_cast<int>(missing_.size()); }
  QString Text(int row, int column) const override {
    if (row >= document().rank_count()) {
      return column == kRank                        ? QString::number(RankOf(row))
             : column == kState || column == kClass ? QString("no data")
                                                    : QString();
    }
    const RankFacts& known = document().FactsAt(row);
    switch (column) {
      case kHost: return Plain(document().HostAt(row), 80);
      case kPid: return document().Entry(row).pid == 0 ? QString() : QString::number(document().Entry(row).pid);
      case kState: return Plain(known.state(), 200);
      case kClass: return WaitClassWord(document(), row);
      case kClock:
        return known.clock_uncertainty_ns() < 0 ? QString("not aligned") : "+- " + Age(known.clock_uncertainty_ns());
      case kFile: return Plain(known.path(), 300);
      default: return Digits(Number(row, column));
    }
  }
  int64_t Number(int row, int column) const override {
    if (row >= document().rank_count()) return column == kRank ? RankOf(row) : kNoNumber;
    const IndexRank& rank = document().Entry(row);
    const RankFacts& known = document().FactsAt(row);
    switch (column) {
      case kRank: return rank.rank;
      case kGpu: return Known(rank.gpu);
      case kPid: return rank.pid;
      case kInFlight: return columns().InFlightOf(row);
      case kLag: return Known(known.lag());
      case kStage: return Known(known.stage());
      case kLost: return static_cast<int64_t>(std::min<uint64_t>(known.records_lost(), INT64_MAX));
      case kClock: return Known(known.clock_uncertainty_ns());
      // Worst first in descending order.
      case kClass: return static_cast<int64_t>(Mark(row));
      default: return kNoNumber;
    }
  }
  ViewState Mark(int row) const override {
    return row >= document().rank_count() ? ViewState::kNoData : columns().MarkOf(row);
  }
  Selection Select(std::span<const int> rows) const override {
    std::vector<int32_t> ranks;
    for (const int row : rows) ranks.push_back(RankOf(row));
    return Selection::Of(Ranks::Of(std::move(ranks)));
  }
  bool Shows(int row, const Selection& selection) const override { return selection.ranks.Contains(RankOf(row)); }
  bool Concerns(int row, const Ranks& ranks) const override { return ranks.Contains(RankOf(row)); }
  QString note() const override {
    return left_out_ > 0 ? QString("%1 more ranks without data").arg(left_out_) : QString();
  }

 private:
  static constexpr size_t kMostMissing = 100'000;
  int32_t RankOf(int row) const {
    return row < document().rank_count() ? document().RankAt(row)
                                         : missing_[static_cast<size_t>(row - document().rank_count())];
  }
  std::vector<int32_t> missing_;
  int64_t left_out_ = 0;
};

class MismatchRows : public Rows {
 public:
  enum Column { kComm, kSeq, kField, kOdd, kGroups };
  using Rows::Rows;

  int count() const override { return facts().mismatches_size(); }
  QString Text(int row, int column) const override {
    const CallMismatch& mismatch = facts().mismatches(row);
    switch (column) {
      case kComm: return Plain(document().CommName(mismatch.comm()), 120);
      case kSeq: return mismatch.sequence() < 0 ? QString() : Seq(mismatch.sequence());
      case kField: return Plain(mismatch.field(), 40);
      case kOdd: return RankList(OddRanks(mismatch), kListColumns);
      case kGroups: {
        QStringList groups;
        for (const CallMismatch::Group& group : mismatch.groups()) {
          if (groups.size() == kMostGroups) {
            groups.append(QString("and %1 more").arg(mismatch.groups_size() - kMostGroups));
            break;
          }
          groups.append(QString("%1 on %2").arg(Plain(group.value(), 60), RanksText(Ranks::Of(group.ranks()), 24)));
        }
        return groups.join("; ");
      }
      default: return {};
    }
  }
  int64_t Number(int row, int column) const override {
    return column == kSeq ? facts().mismatches(row).sequence() : kNoNumber;
  }
  ViewState Mark(int) const override { return ViewState::kMismatch; }
  Selection Select(std::span<const int> rows) const override {
    if (rows.empty()) return {};
    const CallMismatch& mismatch = facts().mismatches(rows.front());
    return Selection::Of(OddRanks(mismatch), mismatch.comm(), mismatch.point_to_point() ? -1 : mismatch.sequence());
  }
  bool Shows(int row, const Selection& selection) const override {
    const CallMismatch& mismatch = facts().mismatches(row);
    return selection.comm >= 0 && selection.comm == mismatch.comm() &&
           (selection.seq_first < 0 || (!mismatch.point_to_point() && selection.seq_first <= mismatch.sequence() &&
                                        mismatch.sequence() <= selection.seq_last));
  }
  bool Concerns(int row, const Ranks& ranks) const override {
    for (const CallMismatch::Group& group : facts().mismatches(row).groups()) {
      if (Ranks::Of(group.ranks()).Intersects(ranks)) return true;
    }
    return false;
  }

 private:
  static constexpr int kMostGroups = 8;
};

class InFlightRows : public Rows {
 public:
  enum Column { kRank, kOperation, kSince, kWaits, kMissing, kState, kHost };
  using Rows::Rows;

  int count() const override { return static_cast<int>(columns().in_flight().size()); }
  QString Text(int row, int column) const override {
    const InFlightOp& op = At(row);
    switch (column) {
      case kOperation: return OpWords(document(), op.kind, op.seq, op.comm);
      case kSince: return Age(op.age_ns);
      case kWaits: return columns().WaitsFor(document(), static_cast<size_t>(row));
      case kState: return OpStateWord(op.state);
      case kHost: return Plain(document().HostAt(op.row), 80);
      default: return Digits(Number(row, column));
    }
  }
  int64_t Number(int row, int column) const override {
    const InFlightOp& op = At(row);
    switch (column) {
      case kRank: return document().RankAt(op.row);
      case kSince: return Known(op.age_ns);
      case kMissing: return Known(op.missing);
      default: return kNoNumber;
    }
  }
  ViewState Mark(int row) const override {
    const InFlightOp& op = At(row);
    if (op.missing > 0) return ViewState::kWaiting;
    return op.state == OpState::kStarted   ? ViewState::kStarted
           : op.state == OpState::kUnknown ? ViewState::kIssued
                                           : ViewState::kEnqueued;
  }
  Selection Select(std::span<const int> rows) const override {
    if (rows.size() == 1) return document().SelectOp(At(rows.front()).row, At(rows.front()).record);
    std::vector<int32_t> ranks;
    for (const int row : rows) ranks.push_back(document().RankAt(At(row).row));
    return Selection::Of(Ranks::Of(std::move(ranks)));
  }
  bool Shows(int row, const Selection& selection) const override {
    const InFlightOp& op = At(row);
    if (selection.record >= 0)
      return selection.record == op.record && selection.record_rank == document().RankAt(op.row);
    if (!selection.ranks.empty() && !selection.ranks.Contains(document().RankAt(op.row))) return false;
    if (selection.comm >= 0 && selection.comm != op.comm) return false;
    if (selection.comm >= 0 && selection.seq_first >= 0 &&
        (op.seq < selection.seq_first || op.seq > selection.seq_last))
      return false;
    return !selection.ranks.empty() || selection.comm >= 0;
  }
  bool Concerns(int row, const Ranks& ranks) const override { return ranks.Contains(document().RankAt(At(row).row)); }
  QString note() const override {
    const int64_t more = columns().in_flight_total() - count();
    return more > 0 ? QString("%1 newer ones of the same ranks are left out").arg(more) : QString();
  }

 private:
  const InFlightOp& At(int row) const { return columns().in_flight()[static_cast<size_t>(row)]; }
};

}  // namespace

TableKind CommTable() {
  return {"Communicators",
          "Progress of every communicator: what is in flight, who is missing",
          {Shared(columns::kComm, false, 26),
           {"Oldest in flight", "How long the first member has been in the oldest collective that is not completed",
            true, 13},
           {"In flight", "Sequence number of the oldest collective that a member is in", true, 9},
           {"Missing", "Members with data that have not enqueued it", true, 8},
           {"Missing ranks", "Which members are missing, and how many members have no data", false, 24},
           {"Mismatch", "How its members' calls differ", false, 10},
           {"Min", "Completed collectives: the member that is furthest behind", true, 8},
           {"Median", "Completed collectives: the median member", true, 8},
           {"Max", "Completed collectives: the member that is furthest ahead", true, 8},
           Shared(columns::kSize, true, 6),
           {"Identity", "The job-wide identity", false, 18}},
          Maker<CommRows>(),
          CommRows::kAge,
          Qt::DescendingOrder,
          true};
}

TableKind RankTable() {
  return {"Ranks",
          "Every rank with its host, its activity and how far behind it is",
          {Shared(columns::kRank, true, 7),
           Shared(columns::kHost, false, 12),
           Shared(columns::kGpu, true, 5),
           Shared(columns::kClass, true, 10),
           Shared(columns::kState, false, 34),
           Shared(columns::kLag, true, 6),
           {"In flight", "Operations that it issued and has not completed", true, 8},
           Shared(columns::kStage, true, 6),
           Shared(columns::kPid, true, 9),
           Shared(columns::kLost, true, 7),
           {"Clock", "How far its times may differ from those of other hosts", true, 11},
           {"File", "The file that its data came from", false, 30}},
          Maker<RankRows>(),
          RankRows::kClass,
          Qt::DescendingOrder,
          false};
}

TableKind MismatchTable() {
  return {"Mismatches",
          "Collectives whose members made different calls",
          {{"Communicator", "The communicator whose members differ", false, 16},
           {"Sequence", "Number of the collective", true, 9},
           {"Field", "The argument in which the calls differ", false, 10},
           {"Odd ranks", "Ranks that differ from the reference or from most ranks", false, 20},
           {"Groups", "Each value and the ranks that passed it, most ranks first", false, 60}},
          Maker<MismatchRows>(),
          MismatchRows::kComm,
          Qt::AscendingOrder,
          true};
}

TableKind InFlightTable() {
  return {"In flight",
          "Operations that were issued but have not completed",
          {Shared(columns::kRank, true, 7),
           {"Operation", "Kind, sequence number and communicator", false, 28},
           {"Since", "How long ago it was called", true, 9},
           {"Waits for", "Members that have not enqueued it, or the operation that it is queued behind", false, 30},
           {"Missing", "Members with data that have not enqueued it", true, 8},
           {"State", "How far it got", false, 14},
           Shared(columns::kHost, false, 12)},
          Maker<InFlightRows>(),
          InFlightRows::kSince,
          Qt::DescendingOrder,
          false};
}

}  // namespace lockstep::gui
