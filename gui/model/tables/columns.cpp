#include "gui/model/tables/columns.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "gui/model/latest_job.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

ViewState MarkOfClass(const Document& document, const Ranks& culprits, int row) {
  const RankFacts& rank = document.FactsAt(row);
  if (rank.host_state() == RankFacts::DEAD) return ViewState::kFailed;
  if (rank.host_state() == RankFacts::NO_DATA) return ViewState::kNoData;
  if (culprits.Contains(document.RankAt(row))) return ViewState::kMissing;
  const WaitClass* wait = document.WaitOf(row);
  switch (wait == nullptr ? WaitClass::HEALTHY : wait->kind()) {
    case WaitClass::CAUSE:
    case WaitClass::IN_CYCLE: return ViewState::kMissing;
    case WaitClass::VICTIM: return ViewState::kWaiting;
    case WaitClass::NO_DATA: return ViewState::kNoData;
    default: return ViewState::kCompleted;
  }
}

}  // namespace

std::shared_ptr<const IncidentColumns> IncidentColumns::Of(const DocumentPtr& document,
                                                           const std::atomic<bool>* cancel) {
  if (document == nullptr) return nullptr;
  static std::mutex mutex;
  static auto& kept =
      *new std::vector<std::pair<std::weak_ptr<const Document>, std::shared_ptr<const IncidentColumns>>>();
  // Held during the computation, so that a second request at the same time waits for the same columns.
  std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    if (Cancelled(cancel)) return nullptr;
    lock.try_lock();
    if (!lock.owns_lock()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::erase_if(kept, [](const auto& entry) { return entry.first.expired(); });
  for (const auto& [there, columns] : kept) {
    if (there.lock() == document) return columns;
  }
  auto made = std::make_shared<IncidentColumns>();
  if (!made->Build(*document, cancel)) return nullptr;
  kept.emplace_back(document, made);
  return made;
}

bool IncidentColumns::Build(const Document& document, const std::atomic<bool>* cancel) {
  Ranks culprits;
  for (const Finding& finding : document.verdict().findings())
    culprits.Unite(Ranks::Of(std::vector<int32_t>(finding.culprit_ranks().begin(), finding.culprit_ranks().end())));
  marks_.resize(static_cast<size_t>(document.rank_count()));
  for (int row = 0; row < document.rank_count(); ++row)
    marks_[static_cast<size_t>(row)] = MarkOfClass(document, culprits, row);
  BuildComms(document);
  if (Cancelled(cancel) || !BuildInFlight(document, cancel)) return false;
  for (size_t c = 0; c < comms_.size(); ++c) {
    CommSummary& comm = comms_[c];
    for (const CommMember& member : Members(static_cast<int32_t>(c)))
      comm.missing += comm.in_flight_seq >= 0 && member.issued != kUnknown && member.issued < comm.in_flight_seq;
  }
  for (int m = 0; m < document.facts().mismatches_size(); ++m) {
    const int32_t comm = document.facts().mismatches(m).comm();
    if (comm >= 0 && comms_[static_cast<size_t>(comm)].mismatch < 0) comms_[static_cast<size_t>(comm)].mismatch = m;
  }
  return true;
}

void IncidentColumns::BuildComms(const Document& document) {
  const IndexReader& index = document.index();
  comms_.resize(index.comms().size());
  first_member_.assign(comms_.size() + 1, 0);
  for (const IndexMembership& m : index.memberships()) ++first_member_[m.comm + 1];
  for (size_t c = 1; c < first_member_.size(); ++c) first_member_[c] += first_member_[c - 1];
  members_.resize(index.memberships().size());
  std::vector<uint64_t> next(first_member_.begin(), first_member_.end() - 1);
  for (int row = 0; row < document.rank_count(); ++row) {
    for (const IndexMembership& m : document.MembershipsOf(row))
      members_[next[m.comm]++] = {row, m.issued, m.completed};
  }
  std::vector<int64_t> completed;
  for (size_t c = 0; c < comms_.size(); ++c) {
    CommSummary& comm = comms_[c];
    completed.clear();
    for (const CommMember& member : Members(static_cast<int32_t>(c))) {
      ++comm.with_data;
      if (member.completed != kUnknown) completed.push_back(member.completed);
    }
    if (completed.empty()) continue;
    const auto middle = completed.begin() + static_cast<std::ptrdiff_t>(completed.size() / 2);
    std::nth_element(completed.begin(), middle, completed.end());
    comm.median_completed = *middle;
    const auto [low, high] = std::minmax_element(completed.begin(), completed.end());
    comm.min_completed = *low;
    comm.max_completed = *high;
  }
}

bool IncidentColumns::BuildInFlight(const Document& document, const std::atomic<bool>* cancel) {
  const IndexReader& index = document.index();
  const int ranks = document.rank_count();
  in_flight_of_.assign(static_cast<size_t>(ranks), 0);
  const size_t most = static_cast<size_t>(std::max<int64_t>(4, kMostInFlight / std::max(ranks, 1)));
  std::vector<InFlightOp> found;
  for (int row = 0; row < ranks; ++row) {
    if (row % 64 == 0 && Cancelled(cancel)) return false;
    const IndexRank& rank = document.Entry(row);
    const auto memberships = document.MembershipsOf(row);
    found.clear();
    const std::vector<IndexOpen> open = index.OpenOps(static_cast<size_t>(row));
    for (size_t i = open.size(); i-- > 0;) {
      const IndexOpen& op = open[i];
      const IndexMembership* m = op.membership < memberships.size() ? &memberships[op.membership] : nullptr;
      const auto kind = static_cast<ring::CallKind>(op.kind);
      const int64_t seq = m != nullptr && op.seq != kIndexNoSeq ? m->seq_base + op.seq : -1;
      const int64_t enter_ns = op.enter == kIndexNoTime ? 0 : rank.base_ns + int64_t{op.enter} * 1000;
      if (m != nullptr && ring::IsCollective(kind) && seq >= 0 && m->completed >= kNone && seq <= m->completed)
        continue;
      InFlightOp out;
      out.row = row;
      out.comm = m == nullptr ? -1 : static_cast<int32_t>(m->comm);
      out.record = static_cast<int64_t>(op.op - rank.first_op);
      out.seq = seq;
      out.kind = kind;
      if (op.state <= static_cast<uint8_t>(OpState::kCaptured)) out.state = static_cast<OpState>(op.state);
      if (rank.captured_ns > 0 && enter_ns > 0 && enter_ns <= rank.captured_ns)
        out.age_ns = rank.captured_ns - enter_ns;
      if (out.comm >= 0 && seq >= 0 && ring::IsCollective(kind)) {
        CommSummary& comm = comms_[static_cast<size_t>(out.comm)];
        if (comm.in_flight_seq < 0 || seq < comm.in_flight_seq) comm.in_flight_seq = seq, comm.age_ns = out.age_ns;
        if (seq == comm.in_flight_seq) comm.age_ns = std::max(comm.age_ns, out.age_ns);
      }
      found.push_back(out);
    }
    in_flight_of_[static_cast<size_t>(row)] = static_cast<int32_t>(found.size());
    in_flight_total_ += static_cast<int64_t>(found.size());
    std::reverse(found.begin(), found.end());
    if (!found.empty()) found.front().oldest = true;
    if (found.size() > most) found.resize(most);
    in_flight_.insert(in_flight_.end(), found.begin(), found.end());
  }
  // Missing members, from the sorted counters of each communicator.
  constexpr int64_t kMostVisits = 20'000'000;
  int64_t visits = 0;
  absl::flat_hash_map<int64_t, int32_t> texts;  // for this communicator, by number
  std::vector<int64_t> issued;
  std::vector<uint32_t> order(in_flight_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return in_flight_[a].comm < in_flight_[b].comm; });
  int32_t comm = -1;
  for (const uint32_t i : order) {
    InFlightOp& op = in_flight_[i];
    if (op.comm < 0 || op.seq < 0 || !ring::IsCollective(op.kind)) continue;
    if (op.comm != comm) {
      if (Cancelled(cancel)) return false;
      comm = op.comm;
      issued.clear();
      texts.clear();
      for (const CommMember& member : Members(comm)) {
        if (member.issued != kUnknown) issued.push_back(member.issued);
      }
      std::sort(issued.begin(), issued.end());
    }
    op.missing = static_cast<int32_t>(std::lower_bound(issued.begin(), issued.end(), op.seq) - issued.begin());
    // Most ranks wait for the same ranks, so each text is stored once. Beyond the limit, WaitsFor computes the text on
    // request.
    if (op.missing == 0 || visits > kMostVisits) continue;
    const auto [text, fresh] = texts.try_emplace(op.seq, static_cast<int32_t>(waits_.size()));
    op.waits = text->second;
    if (!fresh) continue;
    visits += static_cast<int64_t>(Members(comm).size());
    waits_.push_back(RanksText(Missing(document, comm, op.seq), 40));
  }
  return true;
}

ViewState IncidentColumns::MarkOfComm(int32_t comm) const {
  const CommSummary& is = comms_[static_cast<size_t>(comm)];
  if (is.missing > 0) return ViewState::kMissing;
  if (is.mismatch >= 0) return ViewState::kMismatch;
  if (is.in_flight_seq >= 0) return ViewState::kWaiting;
  return is.with_data == 0 ? ViewState::kNoData : ViewState::kCompleted;
}

std::span<const CommMember> IncidentColumns::Members(int32_t comm) const {
  if (comm < 0 || static_cast<size_t>(comm) >= comms_.size()) return {};
  const uint64_t first = first_member_[static_cast<size_t>(comm)], last = first_member_[static_cast<size_t>(comm) + 1];
  return {members_.data() + first, last - first};
}

Ranks IncidentColumns::Missing(const Document& document, int32_t comm, int64_t seq) const {
  std::vector<int32_t> ranks;
  for (const CommMember& member : Members(comm)) {
    if (seq >= 0 && member.issued != kUnknown && member.issued < seq) ranks.push_back(document.RankAt(member.row));
  }
  return Ranks::Of(std::move(ranks));
}

QString IncidentColumns::WaitsFor(const Document& document, size_t in_flight) const {
  const InFlightOp& op = in_flight_[in_flight];
  if (op.waits >= 0) return waits_[static_cast<size_t>(op.waits)];
  if (op.missing > 0) return RanksText(Missing(document, op.comm, op.seq), 40);
  if (!op.oldest && op.state != OpState::kStarted) {
    size_t first = in_flight;
    while (first > 0 && in_flight_[first - 1].row == op.row) --first;
    const InFlightOp& before = in_flight_[first];
    return "behind " + OpWords(document, before.kind, before.seq, before.comm);
  }
  if (op.missing < 0) return {};
  const int32_t silent = document.CommEntry(op.comm).size - comms_[static_cast<size_t>(op.comm)].with_data;
  if (silent > 0) return QString("%1 members without data").arg(silent);
  return "all members have called it";
}

QString WaitClassWord(const Document& document, int row) {
  const WaitClass* wait = document.WaitOf(row);
  return wait == nullptr ? QString() : WaitKindName(wait->kind());
}

QString OpWords(const Document& document, ring::CallKind kind, int64_t seq, int32_t comm) {
  QString text = QString::fromLatin1(ring::CallName(kind));
  if (seq >= 0) text += QString(" #%1").arg(seq);
  if (comm >= 0) text += " on " + Plain(document.CommName(comm), 60);
  return text;
}

QString OpStateWord(OpState state) {
  switch (state) {
    case OpState::kUnknown: return "issued, GPU not recorded";
    case OpState::kEntered: return "in the call";
    case OpState::kQueued: return "in an open group";
    case OpState::kEnqueued: return "enqueued";
    case OpState::kStarted: return "started";
    case OpState::kIncomplete: return "not completed";
    case OpState::kCompleted: return "completed";
    case OpState::kFailed: return "failed";
    case OpState::kCaptured: return "captured in a graph";
  }
  return "unknown";
}

}  // namespace lockstep::gui
