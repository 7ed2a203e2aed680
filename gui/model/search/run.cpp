// The scan behind the search box. Turns terms into tables (by kind, by state, by communicator) once. Checks each rank
// as a whole first, and examines only the operations of the remaining ranks, column by column.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "analyzer/util/parallel.h"
#include "gui/model/latest_job.h"
#include "gui/model/search/query.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {
namespace {

using Key = QueryTerm::Key;
using Compare = QueryTerm::Compare;
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

bool Compares(const QueryTerm& term, int64_t value) {
  switch (term.compare) {
    case Compare::kMatches:
      return value >= 0 && value <= std::numeric_limits<int32_t>::max() &&
             term.numbers.Contains(static_cast<int32_t>(value));
    case Compare::kBelow: return value < term.number;
    case Compare::kAtMost: return value <= term.number;
    case Compare::kAbove: return value > term.number;
    case Compare::kAtLeast: return value >= term.number;
  }
  return false;
}

// Shared by all scanning threads; created once per query.
struct Prepared {
  const Document* document = nullptr;
  const Query* query = nullptr;
  // Indexed by term, then by communicator; empty for a term that cannot match a communicator.
  std::vector<std::vector<bool>> comm_matches;
  std::vector<std::array<bool, 256>> kind_matches;  // indexed by term
  std::vector<std::vector<bool>> row_marked;  // indexed by term, by row: state: and class: words that select ranks
  std::vector<bool> records;                  // indexed by term: selects operations
  std::vector<std::array<bool, 256>> state_matches;  // indexed by term: states of an operation that match a state: word
  std::vector<int64_t> first_missing;  // indexed by communicator: the lowest number that a member has not issued
  std::vector<int64_t> highest;        // indexed by communicator: the highest number that any member has issued
  OddCalls odd;                        // for state:mismatch
  std::vector<Ranks> odd_in;           // indexed by communicator: all ranks of `odd`
  bool any_records = false;
};

void ForRows(const Document& d, const Ranks& ranks, std::vector<bool>* rows) {
  for (int row = 0; row < d.rank_count(); ++row) {
    if (ranks.Contains(d.RankAt(row))) (*rows)[static_cast<size_t>(row)] = true;
  }
}

// Returns whether an operation in state `s` may match the word. Other facts may still exclude the operation.
bool StateMatches(const QString& word, OpState s) {
  if (word == "completed") return s == OpState::kCompleted;
  if (word == "failed") return s == OpState::kFailed;
  if (word == "started") return s == OpState::kStarted;
  if (word == "enqueued") return s == OpState::kEnqueued || s == OpState::kIncomplete;
  if (word == "issued")
    return s == OpState::kUnknown || s == OpState::kEntered || s == OpState::kQueued || s == OpState::kCaptured;
  if (word == "waiting") return s != OpState::kCompleted && s != OpState::kFailed;
  return word == "mismatch";
}

bool RecordState(const QString& word) { return word != "missing" && word != "nodata" && word != "overwritten"; }

Prepared Prepare(const Document& d, const Query& query) {
  Prepared p;
  p.document = &d;
  p.query = &query;
  const size_t comms = static_cast<size_t>(d.comm_count()), rows = static_cast<size_t>(d.rank_count());
  p.comm_matches.resize(query.size());
  p.kind_matches.resize(query.size());
  p.row_marked.resize(query.size());
  p.records.assign(query.size(), false);
  p.state_matches.resize(query.size());
  bool progress = false;
  for (size_t t = 0; t < query.size(); ++t) {
    const QueryTerm& term = query[t];
    const bool any = term.key == Key::kAny;
    if (any || term.key == Key::kComm) {
      p.comm_matches[t].resize(comms);
      for (size_t c = 0; c < comms; ++c) {
        const IndexComm& comm = d.index().comms()[c];
        for (const uint32_t text : {comm.name, comm.id}) {
          if (p.comm_matches[t][c]) break;
          p.comm_matches[t][c] = QueryPatternMatches(term.text, QString::fromUtf8(d.index().text(text)), !any);
        }
      }
    }
    p.kind_matches[t].fill(false);
    if (any || term.key == Key::kOp) {
      bool one = false;
      for (int kind = 1; kind < 256; ++kind) {
        const QString name = QString::fromLatin1(ring::CallName(static_cast<ring::CallKind>(kind)));
        if (name == "unknown call" || !QueryPatternMatches(term.text, name, !any)) continue;
        one = p.kind_matches[t][static_cast<size_t>(kind)] = true;
      }
      p.records[t] = term.key == Key::kOp || one;
    }
    if (term.key == Key::kSeq) p.records[t] = true;
    if (term.key == Key::kState) {
      p.records[t] = RecordState(term.text);
      for (size_t state = 0; state < 256; ++state)
        p.state_matches[t][state] = StateMatches(term.text, static_cast<OpState>(state));
      progress = progress || term.text == "missing" || term.text == "waiting";
      p.row_marked[t].resize(rows);
      for (size_t row = 0; row < rows && term.text == "nodata"; ++row) {
        p.row_marked[t][row] = d.FactsAt(static_cast<int>(row)).host_state() == RankFacts::NO_DATA;
      }
      if (term.text == "mismatch") {
        p.odd = OddCallsOf(d.facts());
        p.odd_in.assign(comms, {});
        for (const auto& [call, ranks] : p.odd) {
          if (call.first >= 0) p.odd_in[static_cast<size_t>(call.first)].Unite(ranks);
        }
      }
    }
    if (term.key == Key::kClass) {
      p.row_marked[t].resize(rows);
      for (const WaitClass& wait : d.facts().classes()) {
        if (QueryClassWords().value(wait.kind()) == term.text) ForRows(d, Ranks::Of(wait.ranks()), &p.row_marked[t]);
      }
    }
    p.any_records = p.any_records || p.records[t];
  }
  if (progress) {
    p.first_missing.assign(comms, kHighest);
    p.highest.assign(comms, -1);
    for (const IndexMembership& m : d.index().memberships()) {
      if (m.issued < kNone) continue;
      p.first_missing[m.comm] = std::min(p.first_missing[m.comm], std::max<int64_t>(m.issued, kNone) + 1);
      p.highest[m.comm] = std::max(p.highest[m.comm], m.issued);
    }
  }
  return p;
}

// Removes entries that do not match, or with `excludes` those that match.
void Keep(const std::array<bool, 256>& matches, bool excludes, std::array<bool, 256>* table) {
  for (size_t i = 0; i < matches.size(); ++i) (*table)[i] = (*table)[i] && matches[i] != excludes;
}

enum class Decided : uint8_t { kNo, kYes, kByRecord };

class Row {
 public:
  Row(const Prepared& p, int row) : p_(p), row_(row), rank_(p.document->Entry(row)) {
    for (size_t t = 0; t < p.query->size() && !out_; ++t) {
      const QueryTerm& term = (*p.query)[t];
      Decided decided = Decide(t, term);
      if (decided == Decided::kByRecord) {
        open_.push_back(t);
      } else if ((decided == Decided::kYes) == term.excludes) {
        out_ = true;
      }
    }
  }

  // Adds the rank's hits to `result` until it has `room` hits; hit_count counts all.
  void Scan(QueryResult* result, size_t room) {
    if (out_) return;
    if (!p_.any_records) return Hit(-1, result, room);
    const Document& d = *p_.document;
    const IndexColumns columns = d.index().columns(static_cast<size_t>(row_));
    const uint8_t *kinds = columns.kind.data(), *states = columns.state.data();
    const uint16_t* places = columns.membership.data();
    const uint32_t* seqs = columns.seq.data();
    if (!Narrow()) return;
    for (size_t i = 0; i < columns.kind.size(); ++i) {
      // Ordered by the cost of reading a column.
      if (use_states_ && !states_[states[i]]) continue;
      if (use_kinds_ && !kinds_[kinds[i]]) continue;
      if (use_seqs_ || use_members_) {
        const size_t m = std::min<size_t>(places[i], rank_.memberships);
        if (use_members_ && !members_[m]) continue;
        // One unsigned comparison tests both ends of the range; an unknown number is above every range.
        if (use_seqs_ && seqs[i] - low_[m] > span_[m]) continue;
      }
      bool matches = true;
      for (size_t o = 0; o < slow_.size() && matches; ++o) {
        matches = Matches(slow_[o], (*p_.query)[slow_[o]], kinds[i], states[i], places[i], seqs[i]) !=
                  (*p_.query)[slow_[o]].excludes;
      }
      if (matches) Hit(static_cast<int64_t>(i), result, room);
    }
  }

 private:
  Decided Decide(size_t t, const QueryTerm& term) const {
    auto yes = [](bool value) { return value ? Decided::kYes : Decided::kNo; };
    const RankFacts& facts = p_.document->FactsAt(row_);
    switch (term.key) {
      case Key::kRank: return yes(Compares(term, rank_.rank));
      case Key::kHost: return yes(QueryPatternMatches(term.text, p_.document->HostAt(row_), true));
      // An unknown value never matches a comparison.
      case Key::kStage: return yes(facts.stage() >= 0 && Compares(term, facts.stage()));
      case Key::kLag: return yes(facts.lag() >= 0 && Compares(term, facts.lag()));
      case Key::kClass: return yes(p_.row_marked[t][static_cast<size_t>(row_)]);
      case Key::kState:
        if (term.text == "nodata") return yes(p_.row_marked[t][static_cast<size_t>(row_)]);
        if (term.text == "missing") {
          for (size_t m = 0; m < rank_.memberships; ++m) {
            const IndexMembership& membership = Membership(m);
            if (membership.issued >= kNone && membership.issued < p_.highest[membership.comm]) return Decided::kYes;
          }
          return Decided::kNo;
        }
        if (term.text == "overwritten") {
          bool lost = facts.records_lost() > 0;
          for (size_t m = 0; m < rank_.memberships; ++m) lost = lost || Membership(m).lost_records > 0;
          return yes(lost);
        }
        return Decided::kByRecord;
      case Key::kComm:
        if (p_.any_records) return Decided::kByRecord;
        return yes(AnyComm(t));
      case Key::kAny: {
        bool number = false;
        const int rank = term.text.toInt(&number);
        if ((number && rank == rank_.rank) || QueryPatternMatches(term.text, p_.document->HostAt(row_), false))
          return Decided::kYes;
        if (p_.any_records) return Decided::kByRecord;
        return yes(AnyComm(t));
      }
      case Key::kOp:
      case Key::kSeq: return Decided::kByRecord;
    }
    return Decided::kNo;
  }

  bool AnyComm(size_t t) const {
    for (size_t m = 0; m < rank_.memberships; ++m) {
      if (p_.comm_matches[t][Membership(m).comm]) return true;
    }
    return false;
  }

  const IndexMembership& Membership(size_t m) const {
    return p_.document->index().memberships()[rank_.first_membership + m];
  }

  // Converts terms to tables by kind, state and membership if possible; the other terms are checked for each record.
  // Returns false if nothing can match.
  bool Narrow() {
    kinds_.fill(true);
    states_.fill(true);
    const size_t n = rank_.memberships;
    members_.assign(n + 1, true);  // the last entry is for calls without a communicator
    std::vector<int64_t> low(n + 1, 0), high(n + 1, kHighest);
    for (const size_t t : open_) {
      const QueryTerm& term = (*p_.query)[t];
      // If no communicator matches a plain word, only the kind can.
      if (term.key == Key::kOp || (term.key == Key::kAny && !AnyComm(t))) {
        use_kinds_ = true;
        Keep(p_.kind_matches[t], term.excludes, &kinds_);
      } else if (term.key == Key::kState && term.text == "mismatch" && !term.excludes) {
        // Only members in a mismatch can match.
        use_members_ = true;
        for (size_t m = 0; m < n; ++m) members_[m] = members_[m] && p_.odd_in[Membership(m).comm].Contains(rank_.rank);
        members_[n] = false;
        slow_.push_back(t);
      } else if (term.key == Key::kState && term.text == "waiting" && !term.excludes) {
        use_states_ = use_seqs_ = true;
        Keep(p_.state_matches[t], false, &states_);
        for (size_t m = 0; m < n; ++m) low[m] = std::max(low[m], p_.first_missing[Membership(m).comm]);
        slow_.push_back(t);  // the remaining operations must also be collectives
      } else if (term.key == Key::kState && term.text != "waiting" && term.text != "mismatch") {
        use_states_ = true;
        Keep(p_.state_matches[t], term.excludes, &states_);
      } else if (term.key == Key::kComm) {
        use_members_ = true;
        for (size_t m = 0; m <= n; ++m)
          members_[m] = members_[m] && (m < n && p_.comm_matches[t][Membership(m).comm]) != term.excludes;
      } else if (term.key == Key::kSeq && !term.excludes &&
                 (term.compare != Compare::kMatches || term.numbers.runs().size() == 1)) {
        use_seqs_ = true;
        const int64_t number = term.number;
        int64_t a = 0, b = kHighest;
        switch (term.compare) {
          case Compare::kMatches: a = term.numbers.runs()[0].first, b = term.numbers.runs()[0].last; break;
          case Compare::kBelow: b = number == std::numeric_limits<int64_t>::min() ? number : number - 1; break;
          case Compare::kAtMost: b = number; break;
          case Compare::kAbove: a = number == kHighest ? number : number + 1; break;
          case Compare::kAtLeast: a = number; break;
        }
        for (size_t m = 0; m <= n; ++m) low[m] = std::max(low[m], a), high[m] = std::min(high[m], b);
      } else {
        slow_.push_back(t);
      }
    }
    low_.assign(n + 1, 0);
    span_.assign(n + 1, 0);
    bool possible = !use_seqs_ && !use_members_;
    for (size_t m = 0; m <= n && (use_seqs_ || use_members_); ++m) {
      if (use_seqs_) {
        if (m == n) {
          members_[m] = false;
        } else {
          const int64_t base = Membership(m).seq_base;
          const int64_t a = std::max(low[m], base) - base,
                        b = high[m] < base ? -1 : std::min<int64_t>(high[m] - base, kIndexNoSeq - 1);
          if (a > b) {
            members_[m] = false;
          } else {
            low_[m] = static_cast<uint32_t>(a);
            span_[m] = static_cast<uint32_t>(b - a);
          }
        }
        use_members_ = true;
      }
      possible = possible || members_[m];
    }
    return possible;
  }

  bool Matches(size_t t, const QueryTerm& term, uint8_t kind, uint8_t state, uint16_t place, uint32_t seq) const {
    const bool member = place < rank_.memberships;
    const int64_t number = member && seq != kIndexNoSeq ? Membership(place).seq_base + seq : -1;
    if (term.key == Key::kSeq) return number >= 0 && Compares(term, number);
    if (term.key == Key::kAny)
      return p_.kind_matches[t][kind] || (member && p_.comm_matches[t][Membership(place).comm]);
    if (term.key != Key::kState) return false;
    if (!p_.state_matches[t][state]) return false;
    if (term.text != "waiting" && term.text != "mismatch") return true;
    const bool collective = ring::IsCollective(static_cast<ring::CallKind>(kind));
    if (!member || number < 0 || !collective) return false;
    const size_t comm = Membership(place).comm;
    if (term.text == "waiting") return number >= p_.first_missing[comm];
    const auto odd = p_.odd.find({static_cast<int32_t>(comm), number});
    return odd != p_.odd.end() && odd->second.Contains(rank_.rank);
  }

  void Hit(int64_t record, QueryResult* result, size_t room) const {
    ++result->hit_count;
    if (result->hits.size() < room) result->hits.push_back({rank_.rank, record});
  }

  const Prepared& p_;
  const int row_;
  const IndexRank& rank_;
  bool out_ = false;
  std::vector<size_t> open_, slow_;
  bool use_kinds_ = false, use_states_ = false, use_members_ = false, use_seqs_ = false;
  std::array<bool, 256> kinds_{}, states_{};
  std::vector<uint8_t> members_;
  std::vector<uint32_t> low_, span_;
};

void ScanRows(const Prepared& p, int begin, int end, const std::atomic<bool>* cancel, QueryResult* result) {
  std::vector<int32_t> ranks;
  for (int row = begin; row < end && !Cancelled(cancel); ++row) {
    const int64_t before = result->hit_count;
    Row(p, row).Scan(result, static_cast<size_t>(kMostHits));
    if (result->hit_count > before) ranks.push_back(p.document->RankAt(row));
  }
  result->ranks = Ranks::Of(std::move(ranks));
}

}  // namespace

QueryResult RunQuery(const Document& document, const Query& query, const std::atomic<bool>* cancel) {
  QueryResult result;
  if (query.empty()) return result;
  const Prepared prepared = Prepare(document, query);
  const auto rows = static_cast<size_t>(document.rank_count());
  // Not on the pool: RunQuery may itself run there, and would wait for a thread that its caller occupies.
  const size_t parts = WorkerCount(document.index().operations() < 200'000 ? 1 : 8);
  std::vector<QueryResult> found(parts);
  Parallel(parts, [&](size_t part, size_t) {
    ScanRows(prepared, static_cast<int>(rows * part / parts), static_cast<int>(rows * (part + 1) / parts), cancel,
             &found[part]);
  });
  for (QueryResult& part : found) {
    result.ranks.Unite(part.ranks);
    result.hit_count += part.hit_count;
    const size_t room = static_cast<size_t>(kMostHits) - result.hits.size();
    result.hits.insert(result.hits.end(), part.hits.begin(),
                       part.hits.begin() + static_cast<std::ptrdiff_t>(std::min(room, part.hits.size())));
  }
  for (int32_t comm = 0; comm < document.comm_count(); ++comm) {
    bool named = false, matches = true;
    for (size_t t = 0; t < query.size(); ++t) {
      if (prepared.comm_matches[t].empty()) continue;
      named |= !query[t].excludes;
      matches &= prepared.comm_matches[t][static_cast<size_t>(comm)] != query[t].excludes;
    }
    if (named && matches) result.comms.push_back(comm);
  }
  result.records = prepared.any_records;
  return result;
}

}  // namespace lockstep::gui
