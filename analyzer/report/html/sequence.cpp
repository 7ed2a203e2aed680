// The progress of each rank: ranks (equal ones as one band) against the sequence numbers around the stall.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/html/parts.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/state.h"

namespace lockstep {
namespace {

constexpr size_t kMaxPanels = 4;
constexpr int64_t kMaxColumns = 36;
constexpr int64_t kBefore = 6;  // columns before the first difference
constexpr size_t kMaxBands = 48;
constexpr size_t kMaxCalls = 12;

// Precedence when merging one rank's records with the same number: the largest wins.
enum class Cell : uint8_t {
  kNothing,
  kDone,
  kCaptured,
  kGone,
  kIssued,
  kQueued,
  kInside,
  kFlight,
  kFailed,
  kNever,
  kNoData,
  kDiffers
};

struct CellStyle {
  const char* style;
  const char* glyph;
  const char* text;
};

constexpr std::array<CellStyle, 12> kCells = {{
    {"x", "", "not recorded"},
    {"d", "", "completed"},
    {"u", "g", "captured into a graph"},
    {"o", "", "record overwritten"},
    {"u", "", "issued, GPU progress not recorded"},
    {"q", "", "queued on the stream, not reached"},
    {"e", "", "CPU thread inside the call"},
    {"f", "", "in flight"},
    {"m", "!", "call failed"},
    {"n", "", "never called"},
    {"x", "?", "no data from the rank"},
    {"m", "\u2260", "differs from its peers"},
}};

Cell CellOf(OpState state) {
  switch (state) {
    case OpState::kUnknown: return Cell::kIssued;
    case OpState::kEntered:
    case OpState::kQueued: return Cell::kInside;
    case OpState::kEnqueued: return Cell::kQueued;
    case OpState::kStarted:
    case OpState::kIncomplete: return Cell::kFlight;
    case OpState::kCompleted: return Cell::kDone;
    case OpState::kFailed: return Cell::kFailed;
    case OpState::kCaptured: return Cell::kCaptured;
  }
  return Cell::kNothing;
}

const char* StateWord(OpState state) { return kCells[static_cast<size_t>(CellOf(state))].text; }

struct Row {
  int32_t rank = -1;        // global rank; -1 if unknown
  int32_t rank_index = -1;  // index into Bundle::ranks
  const Membership* membership = nullptr;
  int64_t seen = kNone;  // largest sequence number among the records
  std::vector<Cell> cells;
};

struct Panel {
  uint32_t comm = kNoIndex;
  int64_t first = 0, last = -1;                 // visible sequence numbers
  int64_t marked = -1;                          // the sequence number of the finding
  std::vector<Row> rows;                        // indexed by member
  absl::flat_hash_map<int32_t, size_t> row_of;  // indexed by rank index
};

// Communicators to show: those of the findings and of the first finding's chain; if there are none, the largest.
std::vector<uint32_t> Choose(const Verdict& verdict, const Bundle& bundle) {
  absl::flat_hash_map<std::string, uint32_t> by_id;
  uint32_t largest = kNoIndex;
  for (uint32_t c = 0; c < bundle.comms.size(); ++c) {
    by_id.emplace(bundle.comms[c].id, c);
    if (largest == kNoIndex || bundle.comms[c].size > bundle.comms[largest].size) largest = c;
  }
  std::vector<uint32_t> chosen;
  const auto add = [&](const CommunicatorRef& ref) {
    auto it = by_id.find(ref.id());
    if (ref.id().empty() || it == by_id.end() || chosen.size() >= kMaxPanels) return;
    if (std::find(chosen.begin(), chosen.end(), it->second) == chosen.end()) chosen.push_back(it->second);
  };
  for (const Finding& finding : verdict.findings()) {
    add(finding.communicator());
    if (&finding != &verdict.findings(0)) continue;
    for (const ChainLink& link : finding.chain()) add(link.communicator());
  }
  if (chosen.empty() && largest != kNoIndex) chosen.push_back(largest);
  return chosen;
}

void FillRows(const Bundle& bundle, std::vector<Panel>* panels) {
  absl::flat_hash_map<uint32_t, size_t> panel_of;
  for (size_t p = 0; p < panels->size(); ++p) {
    Panel& panel = (*panels)[p];
    panel_of[panel.comm] = p;
    const Communicator& comm = bundle.comms[panel.comm];
    panel.rows.resize(comm.members.size());
    for (size_t m = 0; m < comm.members.size(); ++m) panel.rows[m].rank = comm.members[m];
  }
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    std::vector<std::pair<Panel*, size_t>> here(rank.memberships.size(), {nullptr, 0});
    bool any = false;
    for (size_t i = 0; i < rank.memberships.size(); ++i) {
      const Membership& membership = rank.memberships[i];
      auto it = panel_of.find(membership.comm);
      if (it == panel_of.end() || membership.member_rank < 0) continue;
      Panel& panel = (*panels)[it->second];
      if (static_cast<size_t>(membership.member_rank) >= panel.rows.size()) continue;
      Row& row = panel.rows[membership.member_rank];
      if (row.rank_index >= 0) continue;
      row.rank = rank.rank;
      row.rank_index = static_cast<int32_t>(r);
      row.membership = &membership;
      panel.row_of[static_cast<int32_t>(r)] = membership.member_rank;
      here[i] = {&panel, static_cast<size_t>(membership.member_rank)};
      any = true;
    }
    if (!any) continue;
    for (const Op& op : rank.ops) {
      if (op.membership >= here.size() || here[op.membership].first == nullptr || !ring::IsCollective(op.kind))
        continue;
      Row& row = here[op.membership].first->rows[here[op.membership].second];
      row.seen = std::max(row.seen, op.seq);
    }
  }
}

void SetWindow(const Verdict& verdict, const Bundle& bundle, Panel* panel) {
  int64_t lowest = INT64_MAX, highest = kNone;
  for (const Row& row : panel->rows) {
    if (row.membership == nullptr) continue;
    const int64_t issued = std::max({row.membership->issued, row.seen, int64_t{kNone}});
    const int64_t completed = row.membership->completed;
    highest = std::max(highest, issued);
    lowest = std::min(lowest, completed >= 0 ? std::min(issued, completed) : issued);
  }
  for (const Finding& finding : verdict.findings()) {
    if (panel->marked < 0 && finding.sequence() >= 0 && finding.communicator().id() == bundle.comms[panel->comm].id)
      panel->marked = finding.sequence();
  }
  if (highest < 0) return;
  highest = std::max(highest, std::min(panel->marked, highest + 1));
  panel->first = std::max<int64_t>(0, std::min(lowest, panel->marked >= 0 ? panel->marked : lowest) - kBefore);
  panel->last = highest;
  if (panel->last - panel->first + 1 > kMaxColumns) {
    // The ranks are far apart: show where the first one stopped, or the finding's number.
    if (panel->marked >= 0) panel->first = std::max<int64_t>(0, panel->marked - kMaxColumns / 2);
    panel->last = std::min(panel->last, panel->first + kMaxColumns - 1);
  }
  if (panel->first == 0) {
    bool zero = false;  // most sources count from 1
    for (const Row& row : panel->rows) zero |= row.membership != nullptr && row.membership->first_seq == 0;
    if (!zero) panel->first = 1;
  }
}

void FillCells(const Verdict& verdict, const Bundle& bundle, Panel* panel) {
  const size_t columns = static_cast<size_t>(panel->last - panel->first + 1);
  for (Row& row : panel->rows) {
    row.cells.assign(columns, row.rank_index < 0 ? Cell::kNoData : Cell::kNothing);
    if (row.rank_index < 0) continue;
    const Rank& rank = bundle.ranks[row.rank_index];
    const Membership& membership = *row.membership;
    const auto index = static_cast<uint32_t>(row.membership - rank.memberships.data());
    for (const Op& op : rank.ops) {
      if (op.membership != index || !ring::IsCollective(op.kind) || op.seq < panel->first || op.seq > panel->last)
        continue;
      Cell& cell = row.cells[static_cast<size_t>(op.seq - panel->first)];
      Cell here = CellOf(op.state);
      if (membership.completed >= op.seq && here != Cell::kFailed) here = Cell::kDone;
      cell = std::max(cell, here);
    }
    for (size_t i = 0; i < columns; ++i) {
      if (row.cells[i] != Cell::kNothing) continue;
      const int64_t seq = panel->first + static_cast<int64_t>(i);
      if (membership.issued != kUnknown && seq > membership.issued) {
        row.cells[i] = Cell::kNever;
      } else if (membership.completed >= seq) {
        row.cells[i] = Cell::kDone;
      } else if (membership.issued >= seq) {
        row.cells[i] = Cell::kGone;
      }
    }
  }
  for (const Finding& finding : verdict.findings()) {
    if (FindingFactsOf(finding.kind()).differs == nullptr ||
        finding.communicator().id() != bundle.comms[panel->comm].id)
      continue;
    if (finding.sequence() < panel->first || finding.sequence() > panel->last) continue;
    const std::set<int32_t> named(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
    for (Row& row : panel->rows) {
      if (row.rank_index >= 0 && named.contains(row.rank))
        row.cells[static_cast<size_t>(finding.sequence() - panel->first)] = Cell::kDiffers;
    }
  }
}

std::string ReachedText(const std::vector<const Row*>& rows) {
  int64_t issued_low = INT64_MAX, issued_high = kNone, done_low = INT64_MAX, done_high = kNone;
  for (const Row* row : rows) {
    if (row->membership == nullptr) return "no data";
    const int64_t issued = std::max({row->membership->issued, row->seen, int64_t{0}});
    issued_low = std::min(issued_low, issued), issued_high = std::max(issued_high, issued);
    if (row->membership->completed != kUnknown) {
      const int64_t done = std::max<int64_t>(row->membership->completed, 0);
      done_low = std::min(done_low, done), done_high = std::max(done_high, done);
    }
  }
  const auto range = [](int64_t low, int64_t high) {
    return low == high ? absl::StrCat("#", low) : absl::StrCat("#", low, "-", high);
  };
  std::string text = absl::StrCat("issued up to ", range(issued_low, issued_high));
  if (done_high >= 0 && done_low <= done_high) absl::StrAppend(&text, ", completed up to ", range(done_low, done_high));
  return text;
}

void AppendBand(const Panel& panel, const std::vector<const Row*>& rows, bool named, std::string* out) {
  std::vector<int32_t> ranks;
  size_t unknown = 0;
  for (const Row* row : rows) row->rank >= 0 ? ranks.push_back(row->rank) : void(++unknown);
  std::string who = ranks.empty() ? "" : RanksText(ranks, 40);
  if (unknown > 0)
    absl::StrAppend(&who, who.empty() ? "" : ", ", unknown, unknown == 1 ? " member" : " members", " of unknown rank");
  absl::StrAppend(out, "<div class=\"seq", named ? " named" : "", "\"><div class=\"who\">", named ? "\u25b6 " : "", who,
                  rows.size() > 2 ? absl::StrCat(" (", rows.size(), ")") : "", "<small>", ReachedText(rows),
                  "</small></div>", "<div class=\"bar\" style=\"grid-template-columns:repeat(",
                  panel.last - panel.first + 1, ",minmax(0,1fr))\">");
  const std::vector<Cell>& cells = rows[0]->cells;
  for (size_t i = 0; i < cells.size();) {
    size_t end = i;
    while (end + 1 < cells.size() && cells[end + 1] == cells[i]) ++end;
    const CellStyle& style = kCells[static_cast<size_t>(cells[i])];
    const int64_t from = panel.first + static_cast<int64_t>(i), to = panel.first + static_cast<int64_t>(end);
    absl::StrAppend(out, "<i class=\"s s-", style.style, "\" style=\"grid-column:", i + 1, "/", end + 2, "\" title=\"#",
                    from, from == to ? "" : absl::StrCat("-", to), ": ", style.text, "\">", style.glyph, "</i>");
    i = end + 1;
  }
  absl::StrAppend(out, "</div></div>\n");
}

void AppendPanel(const Bundle& bundle, const std::vector<RankRole>& roles, const Panel& panel, bool open,
                 std::string* out) {
  const Communicator& comm = bundle.comms[panel.comm];
  const auto named = [&](const Row& row) {
    return row.rank >= 0 && static_cast<size_t>(row.rank) < roles.size() && roles[row.rank] == RankRole::kCulprit;
  };
  // Bands of equal cells: culprits on top, then by number of ranks.
  std::map<std::pair<bool, std::vector<Cell>>, std::vector<const Row*>> bands;
  std::set<Cell> used;
  for (const Row& row : panel.rows) {
    bands[{!named(row), row.cells}].push_back(&row);
    used.insert(row.cells.begin(), row.cells.end());
  }
  std::vector<std::pair<bool, const std::vector<const Row*>*>> order;
  order.reserve(bands.size());
  for (const auto& [key, rows] : bands) order.emplace_back(!key.first, &rows);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first                     ? a.first
           : a.second->size() != b.second->size() ? a.second->size() > b.second->size()
                                                  : a.second->front()->rank < b.second->front()->rank;
  });
  absl::StrAppend(out, "<details", open ? " open" : "", "><summary><b>",
                  Escaped(comm.name.empty() ? comm.id : comm.name, 100), "</b> <span class=\"soft\">", comm.size,
                  " members", panel.marked >= 0 ? absl::StrCat(", at issue #", panel.marked) : "",
                  "</span></summary>\n<div class=\"key\">");
  for (Cell cell : used) {
    const CellStyle& style = kCells[static_cast<size_t>(cell)];
    absl::StrAppend(out, "<span><i class=\"s s-", style.style, "\">", style.glyph, "</i>", style.text, "</span>");
  }
  absl::StrAppend(out,
                  "</div>\n<div class=\"seq axisrow\"><div class=\"who soft\">rank \\ sequence number</div><div "
                  "class=\"bar axis\" style=\"",
                  "grid-template-columns:repeat(", panel.last - panel.first + 1, ",minmax(0,1fr))\">");
  // The finding's number has a label. So do the ends, if there is room on a phone.
  const int64_t columns = panel.last - panel.first + 1, at = panel.marked - panel.first;
  const bool marked = panel.marked >= panel.first && panel.marked <= panel.last;
  const double room =
      0.03 * static_cast<double>(absl::StrCat("#", panel.last).size() + 1) * static_cast<double>(columns);
  const bool right = marked && static_cast<double>(columns - at) < room;
  const auto label = [&](int64_t from, int64_t to, int64_t number, const char* style) {
    absl::StrAppend(out, "<span class=\"", style, "\" style=\"grid-row:1;grid-column:", from, "/", to,
                    "\"><bdi dir=\"ltr\">#", number, "</bdi></span>");
  };
  if (!marked || static_cast<double>(right ? at + 1 - room : at) >= room) label(1, 2, panel.first, "");
  if (marked) label(right ? 1 : at + 1, at + 2, panel.marked, right ? "at right" : "at");
  if (columns > 1 && (!marked || static_cast<double>(columns - 1 - at) >= 2 * room))
    label(1, columns + 1, panel.last, "right");
  absl::StrAppend(out, "</div></div>\n");
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == kMaxBands) {
      size_t ranks = 0;
      for (size_t j = i; j < order.size(); ++j) ranks += order[j].second->size();
      absl::StrAppend(out, "<p class=\"soft\">", ranks, " more ranks in ", order.size() - i,
                      " bands are not drawn.</p>");
      break;
    }
    AppendBand(panel, *order[i].second, order[i].first, out);
  }
  absl::StrAppend(out, "</details>\n");
}

}  // namespace

void AppendSequences(const Verdict& verdict, const Bundle& bundle, const std::vector<RankRole>& roles,
                     std::string* out) {
  std::vector<Panel> panels;
  for (uint32_t comm : Choose(verdict, bundle)) panels.emplace_back().comm = comm;
  FillRows(bundle, &panels);
  std::string body;
  bool open = true;
  for (Panel& panel : panels) {
    SetWindow(verdict, bundle, &panel);
    if (panel.last < panel.first) continue;  // only sends and receives
    FillCells(verdict, bundle, &panel);
    AppendPanel(bundle, roles, panel, open, &body);
    open = false;
  }
  if (body.empty()) return;
  OpenSection("sequences", "What each rank reached", out);
  absl::StrAppend(out, body, "</section>\n");
}

void AppendLastCalls(const Verdict& verdict, const Bundle& bundle, const std::vector<RankRole>& roles,
                     std::string* out) {
  if (verdict.findings().empty()) return;
  std::vector<const Rank*> shown;
  for (int32_t rank : verdict.findings(0).culprit_ranks()) {
    const Rank* found = FindRank(bundle, rank);
    if (found != nullptr && shown.size() < 2) shown.push_back(found);
  }
  for (const ChainLink& link : verdict.findings(0).chain()) {
    for (int32_t rank : link.ranks()) {
      const Rank* found = FindRank(bundle, rank);
      if (found == nullptr || shown.empty() || shown.size() == 3 || roles[rank] == RankRole::kCulprit) continue;
      shown.push_back(found);
    }
    if (shown.size() == 3) break;
  }
  std::string body;
  for (const Rank* rank : shown) {
    if (rank->ops.empty()) continue;
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < rank->ops.size(); ++i) {
      if (!rank->ops[i].recent_only) order.push_back(i);
    }
    const auto later = [&](uint32_t a, uint32_t b) {
      const Op &x = rank->ops[a], &y = rank->ops[b];
      return x.enter_ns != y.enter_ns ? x.enter_ns > y.enter_ns : a > b;
    };
    const size_t count = std::min(order.size(), kMaxCalls);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), later);
    const bool named = roles[rank->rank] == RankRole::kCulprit;
    absl::StrAppend(&body, "<details", named ? " open" : "", "><summary>rank ", rank->rank,
                    named ? " (named)" : " (waits)", ", newest first</summary><ul class=\"plain small\">");
    for (size_t i = 0; i < count; ++i) {
      const Op& op = rank->ops[order[i]];
      std::string text =
          Escaped(op.name < bundle.strings.size() ? bundle.strings[op.name] : ring::CallName(op.kind), 80);
      if (ring::IsPointToPoint(op.kind) && op.root_or_peer >= 0)
        absl::StrAppend(&text, op.kind == ring::CallKind::kSend ? " to" : " from", " member ", op.root_or_peer);
      if (op.seq > 0 || (op.seq == 0 && (ring::IsCollective(op.kind) || ring::IsPointToPoint(op.kind))))
        absl::StrAppend(&text, " #", op.seq);
      if (op.membership < rank->memberships.size()) {
        const Communicator& comm = bundle.comms[rank->memberships[op.membership].comm];
        absl::StrAppend(&text, " on ", Escaped(comm.name.empty() ? comm.id : comm.name, 64));
      }
      absl::StrAppend(&body, "<li>", text, " <span class=\"soft\">", StateWord(op.state));
      if (rank->captured_ns > op.enter_ns && op.enter_ns > 0)
        absl::StrAppend(&body, ", called ", DurationText(rank->captured_ns - op.enter_ns), " before the end");
      absl::StrAppend(&body, "</span>");
      if (op.call_site < bundle.strings.size())
        absl::StrAppend(&body, " <code>", Escaped(bundle.strings[op.call_site], 160), "</code>");
      absl::StrAppend(&body, "</li>");
    }
    absl::StrAppend(&body, "</ul></details>\n");
  }
  if (body.empty()) return;
  OpenSection("calls", "Last calls", out);
  absl::StrAppend(out, body, "</section>\n");
}

}  // namespace lockstep
