#include "gui/model/matrix/cells.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "analyzer/util/parallel.h"
#include "gui/model/latest_job.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {
namespace {

using Table = std::array<uint8_t, 256>;

constexpr uint8_t Byte(ViewState state) { return static_cast<uint8_t>(state); }

// `waits` is true if a member is known not to have issued the call.
ViewState StateOf(uint8_t stored, bool waits) {
  return StateOfOp(stored > static_cast<uint8_t>(OpState::kCaptured) ? OpState::kUnknown : static_cast<OpState>(stored),
                   waits);
}

// Returns the table from cell bytes of the index to states; a byte without a stored state becomes `empty`.
Table CellTable(ViewState empty, bool waits) {
  Table table;
  for (size_t raw = 0; raw < table.size(); ++raw) {
    const auto first = static_cast<size_t>(IndexCell::kUnknown);
    table[raw] = Byte(raw < first ? empty : StateOf(static_cast<uint8_t>(raw - first), waits));
  }
  return table;
}

// Returns the table from bytes of the index's state column to states.
const Table& OpTable() {
  static const Table table = [] {
    Table made;
    for (size_t raw = 0; raw < made.size(); ++raw) made[raw] = Byte(StateOf(static_cast<uint8_t>(raw), false));
    return made;
  }();
  return table;
}

bool CanWait(uint8_t stored) {
  switch (static_cast<OpState>(stored)) {
    case OpState::kEntered:
    case OpState::kEnqueued:
    case OpState::kStarted:
    case OpState::kIncomplete: return true;
    default: return false;
  }
}

// The lowest and the highest number that the members of the communicator have issued. If none is known, `least` is the
// maximum and `most` is kNone.
struct Progress {
  int64_t least = std::numeric_limits<int64_t>::max(), most = kNone;
};

void Count(const IndexMembership& m, Progress* progress) {
  if (m.issued < kNone) return;
  progress->least = std::min(progress->least, m.issued);
  progress->most = std::max(progress->most, m.issued);
}

int PartsOf(int rows) { return rows < 512 ? 1 : 2; }

int ColumnsFor(int rows, int64_t wanted) {
  return static_cast<int>(std::min({wanted, int64_t{kMostColumns}, kMostCells / std::max(rows, 1)}));
}

void Raise(uint8_t* cell, ViewState state) { *cell = std::max(*cell, Byte(state)); }

// Selects the call that peers have made and the rank has not: that of the worst anomaly that names the rank, otherwise
// the next call on the communicator where the rank is furthest behind. Returns false if there is none.
bool NextCall(const Document& document, int row, Selection* selection) {
  for (int i = 0; i < document.anomaly_count(); ++i) {
    const Selection anomaly = document.AnomalyAt(i);
    if (anomaly.seq_first < 0 || !anomaly.ranks.Contains(document.RankAt(row))) continue;
    const IndexMembership* m = document.MembershipOf(row, anomaly.comm);
    if (m == nullptr || m->issued < kNone || m->issued >= anomaly.seq_first) continue;
    selection->comm = anomaly.comm;
    selection->seq_first = selection->seq_last = anomaly.seq_first;
    return true;
  }
  const auto mine = document.MembershipsOf(row);
  absl::flat_hash_map<uint32_t, int64_t> most;
  for (const IndexMembership& m : mine) most[m.comm] = kNone;
  for (const IndexMembership& m : document.index().memberships()) {
    if (const auto it = most.find(m.comm); it != most.end()) it->second = std::max(it->second, m.issued);
  }
  int64_t furthest = 0;
  for (const IndexMembership& m : mine) {
    if (m.issued < kNone || most[m.comm] <= m.issued || most[m.comm] - m.issued <= furthest) continue;
    furthest = most[m.comm] - m.issued;
    selection->comm = static_cast<int32_t>(m.comm);
    selection->seq_first = selection->seq_last =
        std::max<int64_t>(m.issued + 1, document.CommEntry(selection->comm).first_seq);
  }
  return furthest > 0;
}

struct Line {
  int32_t rank;
  int row;  // row of the document; -1 if there is no data
};

// *most: the largest number of operations of any rank.
std::vector<Line> JobLines(const Document& document, uint64_t* most) {
  std::vector<Line> lines;
  for (int row = 0; row < std::min(document.rank_count(), kMostRows); ++row) {
    lines.push_back({document.RankAt(row), row});
    *most = std::max(*most, document.Entry(row).ops);
  }
  const Ranks missing = document.MissingRanks();
  for (const auto& [first, last] : missing.runs()) {
    for (int64_t rank = first; rank <= last && lines.size() < static_cast<size_t>(kMostRows); ++rank) {
      if (document.RowOf(static_cast<int32_t>(rank)) < 0) lines.push_back({static_cast<int32_t>(rank), -1});
    }
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.rank < b.rank; });
  return lines;
}

int JobColumns(int rows, uint64_t most) {
  return ColumnsFor(rows, static_cast<int64_t>(std::min<uint64_t>(most, kMostColumns)) + 1);
}

}  // namespace

MatrixShape ShapeOfMatrix(const Document& document, MatrixMode mode, int32_t comm) {
  MatrixShape shape;
  if (mode == MatrixMode::kJob) {
    uint64_t most = 0;
    shape.rows = static_cast<int>(JobLines(document, &most).size());
    if (shape.rows > 0) shape.columns = JobColumns(shape.rows, most);
  } else if (comm >= 0 && comm < document.comm_count()) {
    const IndexComm& entry = document.CommEntry(comm);
    shape.rows = std::min(entry.size, kMostRows);
    shape.columns = ColumnsFor(shape.rows, entry.columns);
    shape.first_seq = entry.first_seq + static_cast<int64_t>(entry.columns) - shape.columns;
  }
  return shape;
}

std::shared_ptr<const CellMatrix> BuildCommMatrix(const Document& document, int32_t comm,
                                                  const std::atomic<bool>* cancel) {
  auto matrix = std::make_shared<CellMatrix>();
  matrix->mode = MatrixMode::kCommunicator;
  matrix->comm = comm;
  if (comm < 0 || comm >= document.comm_count()) return matrix;
  const IndexReader& index = document.index();
  const IndexComm& entry = document.CommEntry(comm);
  const int rows = std::min(entry.size, kMostRows);
  const int columns = ColumnsFor(rows, entry.columns);
  const size_t skipped = entry.columns - static_cast<size_t>(columns);
  matrix->rows = rows;
  matrix->columns = columns;
  matrix->first_seq = entry.first_seq + static_cast<int64_t>(skipped);

  matrix->rank_of_row.assign(static_cast<size_t>(rows), -1);
  absl::flat_hash_map<int32_t, int> row_of;
  const auto members = index.members(entry);
  for (size_t i = 0; i < members.size() && i < matrix->rank_of_row.size(); ++i) {
    matrix->rank_of_row[i] = members[i];
    row_of.try_emplace(members[i], static_cast<int>(i));
  }
  std::vector<const IndexMembership*> member(static_cast<size_t>(rows), nullptr);
  Progress progress;
  for (int place = 0; place < document.rank_count(); ++place) {
    const IndexMembership* m = document.MembershipOf(place, comm);
    if (m == nullptr) continue;
    const int32_t rank = document.RankAt(place);
    Count(*m, &progress);
    const auto it = row_of.find(rank);
    const int row = m->member_rank >= 0 ? m->member_rank : it != row_of.end() ? it->second : -1;
    if (row < 0 || row >= rows || member[static_cast<size_t>(row)] != nullptr) continue;
    member[static_cast<size_t>(row)] = m;
    int32_t& known = matrix->rank_of_row[static_cast<size_t>(row)];
    if (known < 0) known = rank;
  }
  if (Cancelled(cancel)) return nullptr;

  // Returns the first column after the call with this number.
  auto column_after = [&](int64_t seq) {
    if (seq < matrix->first_seq) return 0;
    return static_cast<int>(std::min<int64_t>(seq - matrix->first_seq + 1, columns));
  };
  const int waits_from = progress.least == std::numeric_limits<int64_t>::max() ? columns : column_after(progress.least);
  Table tables[3][2];
  constexpr ViewState kEmpty[3] = {ViewState::kOverwritten, ViewState::kMissing, ViewState::kNoData};
  for (int e = 0; e < 3; ++e) {
    for (int w = 0; w < 2; ++w) tables[e][w] = CellTable(kEmpty[e], w != 0);
  }
  matrix->cells.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  InParts(rows, PartsOf(rows), [&](int first, int last) {
    for (int row = first; row < last && !Cancelled(cancel); ++row) {
      uint8_t* out = matrix->cells.data() + static_cast<size_t>(row) * static_cast<size_t>(columns);
      const IndexMembership* m = member[static_cast<size_t>(row)];
      if (m == nullptr) {
        std::fill_n(out, columns, Byte(ViewState::kNoData));  // memset must not be called for zero columns
        continue;
      }
      // The counters decide about cells without a stored state: overwritten or missing; no data if there are no
      // counters.
      const uint8_t* in = index.cells(entry, row).data() + skipped;
      const bool counted = m->issued >= kNone;
      const int issued = counted ? column_after(m->issued) : columns;
      const int cuts[4] = {0, std::min(issued, waits_from), std::max(issued, waits_from), columns};
      for (int part = 0; part < 3; ++part) {
        const int begin = cuts[part];
        const Table& table = tables[!counted ? 2 : begin >= issued ? 1 : 0][begin >= waits_from ? 1 : 0];
        for (int c = begin; c < cuts[part + 1]; ++c) out[c] = table[in[c]];
      }
      // A member without data has no counters, but the analysis may have found that this rank waits for it.
      const int place = document.RowOf(matrix->rank_of_row[static_cast<size_t>(row)]);
      const WaitClass* wait = place < 0 ? nullptr : document.WaitOf(place);
      if (wait == nullptr || wait->sequence() < matrix->first_seq ||
          !document.WaitsIn(place, comm, wait->sequence(), true))
        continue;
      const int64_t at = wait->sequence() - matrix->first_seq;
      if (at < columns && in[at] >= static_cast<uint8_t>(IndexCell::kUnknown))
        Raise(&out[at], static_cast<ViewState>(tables[0][1][in[at]]));
    }
  });
  if (Cancelled(cancel)) return nullptr;
  for (const auto& [call, odd] : OddCallsOf(document.facts())) {
    if (call.first != comm || call.second < matrix->first_seq || call.second - matrix->first_seq >= columns) continue;
    if (Cancelled(cancel)) return nullptr;
    const size_t column = static_cast<size_t>(call.second - matrix->first_seq);
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      if (!odd.Contains(matrix->rank_of_row[row])) continue;
      Raise(&matrix->cells[row * static_cast<size_t>(columns) + column], ViewState::kMismatch);
    }
  }
  return matrix;
}

std::shared_ptr<const CellMatrix> BuildJobMatrix(const Document& document, const std::atomic<bool>* cancel) {
  auto matrix = std::make_shared<CellMatrix>();
  const IndexReader& index = document.index();
  uint64_t most = 0;
  const std::vector<Line> lines = JobLines(document, &most);
  if (lines.empty()) return matrix;
  const int rows = static_cast<int>(lines.size());
  const int columns = JobColumns(rows, most);
  matrix->rows = rows;
  matrix->columns = columns;
  matrix->rank_of_row.reserve(lines.size());
  for (const Line& line : lines) matrix->rank_of_row.push_back(line.rank);

  std::vector<Progress> progress(index.comms().size());
  for (const IndexMembership& m : index.memberships()) Count(m, &progress[m.comm]);
  if (Cancelled(cancel)) return nullptr;
  const OddCalls odd_calls = OddCallsOf(document.facts());
  Ranks odd_ranks;
  for (const auto& [call, odd] : odd_calls) odd_ranks.Unite(odd);
  matrix->cells.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  const Table& table = OpTable();
  auto one_row = [&](const Line& line, uint8_t* out) {
    const size_t r = static_cast<size_t>(line.row);
    const IndexRank& rank = document.Entry(line.row);
    const auto memberships = document.MembershipsOf(line.row);
    const IndexColumns stored = index.columns(r);
    const auto states = stored.state;
    const auto of = stored.membership;
    const auto seqs = stored.seq;
    const auto kinds = stored.kind;
    const size_t calls = static_cast<size_t>(columns) - 1, shown = std::min(states.size(), calls),
                 first = states.size() - shown;
    const uint64_t lost = document.FactsAt(line.row).records_lost();
    const WaitClass* wait = document.WaitOf(line.row);
    bool behind = false;
    uint64_t lost_of_comms = 0;
    for (const IndexMembership& m : memberships) {
      lost_of_comms += std::min<uint64_t>(m.lost_records, kMostColumns);
      behind |= m.issued >= kNone && m.issued < progress[m.comm].most;
    }
    const size_t gone = static_cast<size_t>(std::min<uint64_t>(std::max(lost, lost_of_comms), calls - shown));
    std::fill_n(out, calls - shown - gone, Byte(ViewState::kOutside));
    std::fill_n(out + (calls - shown - gone), gone, Byte(ViewState::kOverwritten));
    uint8_t* cells = out + (calls - shown);
    for (size_t i = 0; i < shown; ++i) cells[i] = table[states[first + i]];
    // Reads the other columns only for operations in flight.
    for (const IndexOpen& open : index.OpenOps(r)) {
      const uint64_t op = open.op - rank.first_op;
      if (op < first || op >= rank.ops || !CanWait(open.state) || open.membership >= memberships.size() ||
          open.seq == kIndexNoSeq)
        continue;
      const IndexMembership& m = memberships[open.membership];
      const int64_t seq = m.seq_base + open.seq;
      // Only the analysis shows whether the peer of a send, or a member without data, has arrived.
      const bool collective = ring::IsCollective(static_cast<ring::CallKind>(open.kind));
      if (document.WaitsIn(line.row, static_cast<int32_t>(m.comm), seq, collective) ||
          (collective && progress[m.comm].least < seq))
        cells[op - first] = Byte(StateOf(open.state, true));
    }
    const bool odd = odd_ranks.Contains(line.rank);
    for (size_t i = 0; i < shown && odd; ++i) {
      const size_t op = first + i;
      if (of[op] >= memberships.size() || seqs[op] == kIndexNoSeq ||
          !ring::IsCollective(static_cast<ring::CallKind>(kinds[op])))
        continue;
      const IndexMembership& m = memberships[of[op]];
      const auto it = odd_calls.find({static_cast<int32_t>(m.comm), m.seq_base + seqs[op]});
      if (it != odd_calls.end() && it->second.Contains(line.rank)) Raise(&cells[i], ViewState::kMismatch);
    }
    out[calls] = Byte(behind && (wait == nullptr || wait->kind() != WaitClass::VICTIM) ? ViewState::kMissing
                                                                                       : ViewState::kOutside);
  };
  InParts(rows, PartsOf(rows), [&](int first, int last) {
    for (int row = first; row < last && !Cancelled(cancel); ++row) {
      uint8_t* out = matrix->cells.data() + static_cast<size_t>(row) * static_cast<size_t>(columns);
      const Line& line = lines[static_cast<size_t>(row)];
      if (line.row < 0) {
        std::fill_n(out, columns, Byte(ViewState::kNoData));
      } else {
        one_row(line, out);
      }
    }
  });
  return Cancelled(cancel) ? nullptr : matrix;
}

Selection SelectionOfCell(const Document& document, const CellMatrix& matrix, int row, int column) {
  Selection selection;
  if (row < 0 || row >= matrix.rows || column < 0 || column >= matrix.columns) return selection;
  const int32_t rank = matrix.rank_of_row[static_cast<size_t>(row)];
  const int place = document.RowOf(rank);
  if (place >= 0) document.index().WillNeed(static_cast<size_t>(place));
  if (rank >= 0) selection.ranks = Ranks::Between(rank, rank);
  if (matrix.mode == MatrixMode::kCommunicator) {
    selection.comm = matrix.comm;
    selection.seq_first = selection.seq_last = matrix.first_seq + column;
    selection.record = document.FindCollective(place, matrix.comm, selection.seq_first);
    if (selection.record >= 0) selection.record_rank = rank;
    return selection;
  }
  if (place < 0) return selection;
  const int64_t calls = document.OpCount(place), record = calls - (matrix.columns - 1 - column);
  if (column == matrix.columns - 1) {
    if (matrix.At(row, column) == ViewState::kMissing) NextCall(document, place, &selection);
    return selection;
  }
  if (record < 0 || record >= calls) return selection;
  return document.SelectOp(place, record);
}

CellRange CellsOfSelection(const Document& document, const CellMatrix& matrix, const Selection& selection) {
  CellRange range;
  const bool seqs = selection.comm >= 0 && selection.seq_first >= 0 && selection.seq_last >= selection.seq_first;
  if (matrix.columns == 0) return range;
  for (int row = 0; row < matrix.rows; ++row) {
    if (selection.ranks.Contains(matrix.rank_of_row[static_cast<size_t>(row)])) range.rows.push_back(row);
  }
  if (matrix.mode == MatrixMode::kCommunicator) {
    if (!seqs || selection.comm != matrix.comm) return range;
    const int64_t last = matrix.first_seq + matrix.columns - 1;
    if (selection.seq_last < matrix.first_seq || selection.seq_first > last) return range;
    range.column_first = static_cast<int>(std::max(selection.seq_first, matrix.first_seq) - matrix.first_seq);
    range.column_last = static_cast<int>(std::min(selection.seq_last, last) - matrix.first_seq);
    if (selection.ranks.empty()) {
      for (int row = 0; row < matrix.rows; ++row) range.rows.push_back(row);
    }
    return range;
  }
  // Each rank has the same collective in a different column, so the search covers only a few rows.
  constexpr size_t kMostFound = 256;
  auto column_of = [&](int place, int64_t record) {
    const int64_t column = matrix.columns - 1 - (document.OpCount(place) - record);
    return record >= 0 && column >= 0 && column < matrix.columns - 1 ? static_cast<int>(column) : -1;
  };
  if (range.rows.size() > kMostFound || (!seqs && selection.record < 0)) return range;
  for (const int row : range.rows) {
    const int32_t rank = matrix.rank_of_row[static_cast<size_t>(row)];
    const int place = document.RowOf(rank);
    int column = -1;
    if (place >= 0 && rank == selection.record_rank && selection.record >= 0 &&
        selection.record < document.OpCount(place)) {
      column = column_of(place, selection.record);
    } else if (place >= 0 && seqs) {
      column = column_of(place, document.FindCollective(place, selection.comm, selection.seq_first));
      const IndexMembership* m = document.MembershipOf(place, selection.comm);
      if (column < 0 && m != nullptr && m->issued >= kNone && m->issued < selection.seq_first)
        column = matrix.columns - 1;
    }
    range.columns.push_back(column);
  }
  if (range.rows.size() == 1) range.column_first = range.column_last = range.columns.front();
  return range;
}

}  // namespace lockstep::gui
