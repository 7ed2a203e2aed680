// The picture that a viewer opens on: for each finding, the last calls around the fault on its communicator.
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/util/printable.h"
#include "analyzer/viewdata/parts.h"
#include "analyzer/viewdata/state.h"

namespace lockstep {
namespace {

constexpr int kMostFocuses = 8;
constexpr int kColumns = 30, kFault = 26;  // calls in the picture, and the column of the fault
constexpr size_t kMostCulprits = 4, kMostPeers = 8;
constexpr size_t kMostSearched = 8192;  // records of a rank to search for its sends and receives

struct Call {
  ViewState state = ViewState::kOutside;
  int32_t rank = -1;  // index into the model's ranks
  const Op* op = nullptr;
};
using Line = std::array<Call, kColumns>;

// Returns a label for a narrow cell: the capitals of a call's name (AllReduce: "AR"), or three letters of a name with
// one capital.
std::string ShortName(ring::CallKind kind) {
  const std::string name = ring::CallName(kind);
  std::string capitals;
  std::copy_if(name.begin(), name.end(), std::back_inserter(capitals), absl::ascii_isupper);
  return capitals.size() > 1 ? capitals : name.substr(0, 3);
}

// Facts about ranks that all pictures share.
class Rows {
 public:
  explicit Rows(const ViewInput& in) : in_(in), state_(in.bundle.ranks.size(), -1) {
    row_of_.reserve(in.bundle.ranks.size());
    for (size_t row = 0; row < in.bundle.ranks.size(); ++row) row_of_[in.bundle.ranks[row].rank] = row;
  }
  // Returns the rank's row; -1 if it left no data.
  int32_t Of(int32_t rank) const {
    const auto at = row_of_.find(rank);
    return at == row_of_.end() ? -1 : static_cast<int32_t>(at->second);
  }
  // Returns a rank's state as an index into States(). The text fits all ranks in the same state.
  size_t State(int32_t row) {
    int32_t& state = state_[static_cast<size_t>(row)];
    if (state >= 0) return static_cast<size_t>(state);
    const size_t key = KeyOf(static_cast<size_t>(row));
    if (const auto known = state_of_key_.find(key); key != 0 && known != state_of_key_.end()) {
      state = known->second;
    } else {
      std::string text = CleanUtf8(StateText(in_, static_cast<size_t>(row), /*of_class=*/true), 400);
      const auto [at, fresh] = place_of_.try_emplace(std::move(text), static_cast<int32_t>(states_.size()));
      if (fresh) states_.push_back(at->first);
      state = at->second;
      if (key != 0) state_of_key_[key] = state;
    }
    return static_cast<size_t>(state);
  }
  const std::vector<std::string>& States() const { return states_; }

 private:
  // Ranks with an equal key share a text: their GPUs are in one operation of one class of communicators. Returns 0 if
  // the rank needs its own text.
  size_t KeyOf(size_t row) const {
    const Model& model = in_.analysis.model;
    if (in_.model_of_row[row] < 0) return 0;
    const auto m = static_cast<size_t>(in_.model_of_row[row]);
    const HostState host = model.ranks[m].host;
    const RankFront front = FrontOf(in_.analysis, m);
    if (host == HostState::kDead || host == HostState::kStopped || host == HostState::kElsewhere ||
        front.front == Front::kIdle || front.comm == kNoIndex || front.op == nullptr)
      return 0;
    const bool named = !model.comms[front.comm].names.empty();
    return absl::HashOf(static_cast<int>(front.front), front.creation, named ? model.comms[front.comm].klass : "",
                        named ? kNoIndex : front.comm, static_cast<int>(front.op->kind), front.op->name, front.op->seq);
  }

  const ViewInput& in_;
  absl::flat_hash_map<int32_t, size_t> row_of_;
  absl::flat_hash_map<size_t, int32_t> state_of_key_;
  std::vector<int32_t> state_;  // state of each row; -1 if not yet known
  absl::flat_hash_map<std::string, int32_t> place_of_;
  std::vector<std::string> states_;
};

class Picture {
 public:
  // `finding` is the index of the finding; -1 stands for the newest calls.
  Picture(const ViewInput& in, const ViewFacts& facts, const OddCalls& odd, int finding, Rows* rows)
      : model_(in.analysis.model), in_(in), facts_(facts), odd_(odd), number_(finding), rows_(*rows) {
    if (finding >= 0) finding_ = &in.verdict.findings(finding);
    if (finding_ != nullptr) culprits_.insert(finding_->culprit_ranks().begin(), finding_->culprit_ranks().end());
    FindComm();
    if (comm_ < 0) return;
    const auto& members = model_.comms[static_cast<size_t>(comm_)].members;
    for (const Member& member : members) {
      if (member.global_rank >= 0) member_of_.try_emplace(member.global_rank, &member);
      if (const Membership* m = MembershipOf(member); m != nullptr) seq_ = std::max(seq_, m->issued);
    }
    if (finding_ != nullptr && finding_->sequence() >= 0) seq_ = finding_->sequence();
    collective_ = finding_ == nullptr || !in.IsSend(finding_->operation());
  }

  void Make(Focus* out) {
    out->set_finding(number_);
    out->set_comm(comm_);
    out->set_first_sequence(-1);
    if (finding_ != nullptr)
      out->set_fault(CleanUtf8(absl::StrCat(finding_->operation().empty() ? "call" : finding_->operation(),
                                            finding_->sequence() >= 0 ? absl::StrCat(" #", finding_->sequence()) : ""),
                               100));
    if (comm_ >= 0) {
      const Communicator& comm = in_.bundle.comms[static_cast<size_t>(comm_)];
      out->set_title(CleanUtf8(absl::StrCat(CommLabel(comm), ", ", Number(comm.size, " member"))));
    }
    AddMembers(out);
    AddOthers(out);
    Write(out);
  }

 private:
  static std::string Number(int64_t count, const char* of) {
    return absl::StrCat(CountText(count), of, count == 1 ? "" : "s");
  }
  const Rank& RankOf(const Member& member) const { return model_.bundle.ranks[static_cast<size_t>(member.rank_index)]; }
  const Membership* MembershipOf(const Member& member) const {
    if (!member.recorded()) return nullptr;
    return &RankOf(member).memberships[member.membership];
  }

  // Chooses the finding's communicator, otherwise one in its chain, otherwise the one that its first culprit used last.
  void FindComm() {
    if (finding_ != nullptr) {
      comm_ = in_.CommOf(finding_->communicator());
      for (const ChainLink& link : finding_->chain()) {
        if (comm_ < 0) comm_ = in_.CommOf(link.communicator());
      }
    }
    int32_t row = in_.bundle.ranks.empty() ? -1 : 0;
    if (finding_ != nullptr && finding_->culprit_ranks_size() > 0) row = rows_.Of(finding_->culprit_ranks(0));
    if (comm_ >= 0 || row < 0) return;
    const Rank& rank = in_.bundle.ranks[static_cast<size_t>(row)];
    for (auto op = rank.ops.rbegin(); op != rank.ops.rend() && comm_ < 0; ++op) {
      if (op->membership < rank.memberships.size()) comm_ = static_cast<int32_t>(rank.memberships[op->membership].comm);
    }
  }

  ViewState StateOf(int32_t rank_index, const Op& op) const {
    const Rank& rank = model_.bundle.ranks[static_cast<size_t>(rank_index)];
    const auto odd = odd_.find({comm_, op.seq});
    if (collective_ && odd != odd_.end() && odd->second.Contains(rank.rank)) return ViewState::kMismatch;
    const Membership& m = rank.memberships[op.membership];
    if (!IsInFlight(op.state) && op.state != OpState::kFailed && collective_ && m.completed >= op.seq)
      return ViewState::kCompleted;
    const WaitClass::Kind kind = KindOf(rank.rank);
    return StateOfOp(op.state, kind == WaitClass::VICTIM || kind == WaitClass::IN_CYCLE ||
                                   (collective_ && model_.comms[static_cast<size_t>(comm_)].least_arrived < op.seq));
  }

  Line CallsOf(const Member& member, bool culprit) const {
    Line line;
    const Membership* m = MembershipOf(member);
    if (m == nullptr) {
      line.fill({ViewState::kNoData, -1, nullptr});
      return line;
    }
    return collective_ ? Collectives(member, *m) : SendsAndReceives(member, culprit);
  }

  Line Collectives(const Member& member, const Membership& m) const {
    Line line;
    for (int column = 0; column < kColumns; ++column) {
      const int64_t seq = seq_ - kFault + column;
      if (seq < 0) continue;
      Call& call = line[static_cast<size_t>(column)];
      call.rank = member.rank_index;
      call.op = model_.FindCollective(member, seq);
      if (call.op != nullptr) {
        call.state = StateOf(member.rank_index, *call.op);
      } else if (seq >= m.first_seq && (column <= kFault || seq <= m.issued)) {
        call.state = m.issued == kUnknown ? ViewState::kNoData
                     : seq <= m.issued    ? ViewState::kOverwritten
                                          : ViewState::kMissing;
      }
    }
    return line;
  }

  // Returns the member's sends and receives in its own order, because they are numbered for each pair of ranks. The
  // oldest unfinished call is in the column of the fault. If a culprit has none, the call that it did not make is
  // there.
  Line SendsAndReceives(const Member& member, bool culprit) const {
    const Rank& rank = RankOf(member);
    std::vector<const Op*> own;  // newest first
    const size_t stop = rank.ops.size() - std::min(rank.ops.size(), kMostSearched);
    for (size_t i = rank.ops.size(); i > stop && own.size() < size_t{4} * kColumns; --i) {
      const Op& op = rank.ops[i - 1];
      if (op.membership == member.membership && ring::IsPointToPoint(op.kind)) own.push_back(&op);
    }
    int open = -1;
    for (size_t i = 0; i < own.size(); ++i) {
      if (IsInFlight(own[i]->state) || own[i]->state == OpState::kFailed) open = static_cast<int>(i);
    }
    const bool missing = open < 0 && culprit;
    Line line;
    for (size_t i = 0; i < own.size(); ++i) {
      const int column = kFault + (open >= 0 ? open : missing ? -1 : 0) - static_cast<int>(i);
      if (column < 0 || column >= kColumns) continue;
      line[static_cast<size_t>(column)] = {StateOf(member.rank_index, *own[i]), member.rank_index, own[i]};
    }
    if (missing) line[kFault] = {ViewState::kMissing, member.rank_index, nullptr};
    return line;
  }

  WaitClass::Kind KindOf(int32_t rank) const {
    const int32_t row = rows_.Of(rank);
    if (row < 0) return WaitClass::NO_DATA;
    const int32_t wait = facts_.ranks(row).wait_class();
    return wait >= 0 ? facts_.classes(wait).kind() : WaitClass::HEALTHY;
  }

  void AddRow(const std::string& label, const std::vector<int32_t>& ranks, bool culprit, Focus* out) {
    if (ranks.empty()) return;
    Focus::Row* row = out->add_rows();
    row->set_label(label);
    SetRuns(ranks, row->mutable_ranks());
    row->set_culprit(culprit);
    row->set_kind(KindOf(ranks[0]));
    std::vector<int64_t> states(1);  // number of ranks in each state; the first entry counts ranks without data
    Line line;
    bool member = false;
    for (const int32_t rank : ranks) {
      const int32_t at = rows_.Of(rank);
      const size_t state = at < 0 || ranks.size() == 1 ? 0 : rows_.State(at) + 1;
      if (state >= states.size()) states.resize(state + 1);
      ++states[state];
      const auto own = member_of_.find(rank);
      if (own == member_of_.end()) continue;
      member = true;
      const Line calls = CallsOf(*own->second, culprit);
      for (size_t c = 0; c < line.size(); ++c) {
        if (calls[c].state > line[c].state) line[c] = calls[c];
      }
    }
    const auto most = std::max_element(states.begin(), states.end());
    const std::string text =
        most == states.begin() ? "no data" : rows_.States()[static_cast<size_t>(most - states.begin()) - 1];
    row->set_state(*most == static_cast<int64_t>(ranks.size()) ? text
                                                               : absl::StrCat(CountText(*most), " of them: ", text));
    if (const int32_t at = rows_.Of(ranks[0]); ranks.size() == 1 && at >= 0) {
      const Rank& rank = in_.bundle.ranks[static_cast<size_t>(at)];
      row->set_state(facts_.ranks(at).state());
      const Op* op = line[kFault].op;
      const bool recorded = op != nullptr && op->call_site < in_.bundle.strings.size();
      row->set_site(CleanUtf8(recorded ? in_.bundle.strings[op->call_site] : PlaceText(rank.process), 200));
      row->set_place(CleanUtf8(absl::StrCat(
          Printable(rank.host, 64),
          rank.gpu_index >= 0 ? absl::StrCat(rank.host.empty() ? "" : ", ", "GPU ", rank.gpu_index) : "")));
    }
    lines_.push_back(member ? line : Line());
    in_comm_.push_back(member);
  }

  // Adds rows for the culprits and their nearest peers in rank order, then one row for more culprits and one for the
  // other members.
  void AddMembers(Focus* out) {
    std::vector<int32_t> culprits(culprits_.begin(), culprits_.end()), others, rest;
    std::sort(culprits.begin(), culprits.end());
    const std::vector<int32_t> more(culprits.begin() + static_cast<ptrdiff_t>(std::min(culprits.size(), kMostCulprits)),
                                    culprits.end());
    culprits.resize(culprits.size() - more.size());
    for (const auto& [rank, member] : member_of_) {
      if (!culprits_.contains(rank)) others.push_back(rank);
    }
    std::sort(others.begin(), others.end());
    const auto behind =
        culprits.empty() ? others.begin() : std::lower_bound(others.begin(), others.end(), culprits.front());
    // Half of the peers are before the first culprit, if both sides have enough.
    const auto count = static_cast<ptrdiff_t>(others.size()), most = std::min<ptrdiff_t>(count, kMostPeers);
    const auto first = others.begin() + std::clamp<ptrdiff_t>(behind - others.begin() - most / 2, 0, count - most);
    const auto end = first + most;
    std::vector<int32_t> shown(first, end);
    rest.assign(others.begin(), first);
    rest.insert(rest.end(), end, others.end());
    shown.insert(shown.end(), culprits.begin(), culprits.end());
    std::sort(shown.begin(), shown.end());
    for (const int32_t rank : shown) AddRow(absl::StrCat("rank ", rank), {rank}, culprits_.contains(rank), out);
    AddRow(Number(static_cast<int64_t>(more.size()), " more culprit"), more, true, out);
    AddRow(Number(static_cast<int64_t>(rest.size()), " more member"), rest, false, out);
  }

  void AddOthers(Focus* out) {
    std::vector<int32_t> waiting, moving, silent;
    const auto outside = [&](int32_t rank) { return !member_of_.contains(rank) && !culprits_.contains(rank); };
    for (const Rank& rank : in_.bundle.ranks) {
      if (!outside(rank.rank)) continue;
      const WaitClass::Kind kind = KindOf(rank.rank);
      (kind == WaitClass::HEALTHY ? moving : kind == WaitClass::NO_DATA ? silent : waiting).push_back(rank.rank);
    }
    for (const int32_t rank : in_.missing) {
      if (outside(rank)) silent.push_back(rank);
    }
    const auto label = [](const std::vector<int32_t>& ranks, const char* what) {
      return absl::StrCat(CountText(static_cast<int64_t>(ranks.size())), " more: ", what);
    };
    AddRow(label(waiting, "waiting"), waiting, false, out);
    AddRow(label(moving, "not waiting"), moving, false, out);
    AddRow(label(silent, "no data"), silent, false, out);
  }

  std::string TextOf(const Call& call, bool culprit, const Focus& focus) const {
    std::string what = focus.fault(), site;
    if (call.op != nullptr) {
      const Rank& rank = model_.bundle.ranks[static_cast<size_t>(call.rank)];
      what = OpText(in_.bundle, rank, *call.op);
      if (call.op->call_site < in_.bundle.strings.size())
        site = absl::StrCat(", ", Printable(in_.bundle.strings[call.op->call_site], 200));
    }
    const char* state = call.state == ViewState::kMissing && !culprit ? kNotCalledYet : ViewStateName(call.state);
    const bool named = call.op != nullptr || call.state == ViewState::kMissing;
    return CleanUtf8(absl::StrCat(named && !what.empty() ? absl::StrCat(what, ": ") : "", state, site), 400);
  }

  // Omits columns at the edges that contain no call.
  void Write(Focus* out) const {
    int first = kFault, last = kFault;
    for (const Line& line : lines_) {
      for (int c = 0; c < kColumns; ++c) {
        if (line[static_cast<size_t>(c)].state == ViewState::kOutside ||
            line[static_cast<size_t>(c)].state == ViewState::kNoData)
          continue;
        first = std::min(first, c);
        last = std::max(last, c);
      }
    }
    out->set_columns(last - first + 1);
    out->set_fault_column(kFault - first);
    if (comm_ >= 0 && collective_) out->set_first_sequence(seq_ - kFault + first);
    for (int row = 0; row < out->rows_size(); ++row) {
      if (!in_comm_[static_cast<size_t>(row)]) continue;
      Focus::Row* to = out->mutable_rows(row);
      for (int c = first; c <= last; ++c) {
        const Call& call = lines_[static_cast<size_t>(row)][static_cast<size_t>(c)];
        Focus::Cell* cell = to->add_cells();
        cell->set_state(static_cast<uint32_t>(call.state));
        if (call.op != nullptr) cell->set_call(ShortName(call.op->kind));
        if (call.state != ViewState::kOutside) cell->set_text(TextOf(call, to->culprit(), *out));
      }
    }
  }

  const Model& model_;
  const ViewInput& in_;
  const ViewFacts& facts_;
  const OddCalls& odd_;
  const int number_;
  const Finding* finding_ = nullptr;
  int32_t comm_ = -1;
  int64_t seq_ = 0;
  bool collective_ = true;
  Rows& rows_;
  absl::flat_hash_map<int32_t, const Member*> member_of_;
  absl::flat_hash_set<int32_t> culprits_;
  std::vector<Line> lines_;  // one line for each row
  std::vector<bool> in_comm_;
};

}  // namespace

void SetFocuses(const ViewInput& in, ViewFacts* facts) {
  const int findings = std::min(in.verdict.findings_size(), kMostFocuses);
  Rows rows(in);
  const OddCalls odd = OddCallsOf(*facts);
  for (int finding = findings > 0 ? 0 : -1; finding < findings; ++finding)
    Picture(in, *facts, odd, finding, &rows).Make(facts->add_focuses());
}

}  // namespace lockstep
