#include "analyzer/formats/lsd/history.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

using ring::CallKind;

// If two blocks of a lane are further apart than this, the hashes of all earlier blocks are dropped.
constexpr int64_t kMaxGapBlocks = 1024;

constexpr uint64_t kFactor = 0x9e3779b97f4a7c15ull;

uint64_t Combine(uint64_t hash, uint64_t value) { return hash * kFactor + Mixed(value + 0x632be59bd9b4e019ull); }

// Hashes everything that all participants of the operation must agree on.
uint64_t Signature(const Op& op) {
  uint64_t hash = ring::IsPointToPoint(op.kind) ? 0 : static_cast<uint64_t>(op.kind);
  hash = Combine(hash, static_cast<uint64_t>(op.count));
  hash = Combine(hash, op.datatype);
  if (ring::IsPointToPoint(op.kind)) return hash;
  hash = Combine(hash, op.reduction);
  return Combine(hash, CallFactsOf(op.kind).has_root ? static_cast<uint64_t>(op.root_or_peer) : 0);
}

// A hash of 0 means "unknown".
uint64_t Known(uint64_t hash) { return hash == 0 ? 1 : hash; }

// A lane while its hashes are being computed.
struct Growing {
  LaneHistory lane;
  int64_t previous = -1;  // the last seen number
  std::vector<uint64_t> calls, program;
  // Hashes of single calls: `old` has those before the first whole block, `recent` the newest consecutive ones. Both
  // are cut to size at the end.
  std::vector<uint32_t> old, recent;
  bool old_ended = false;
  int64_t run = 0;  // number of consecutive calls from the start of the current block; -1 after a gap
  uint64_t hash = 0;
  // The thread's Track at the last block's first call.
  int64_t mark_seq = -1;
  uint64_t mark_hash = 0;
  size_t mark_calls = 0;
  uint32_t mark_epoch = 0, mark_thread = kNoIndex;

  void PutSingle(int64_t seq, bool follows, uint32_t signature) {
    if (!follows) recent.clear();
    old_ended |= !follows && !old.empty();
    if (!old_ended && (old.empty() || seq % kLsdBlockOps != 0) && !(old.empty() && seq % kLsdBlockOps == 0)) {
      if (old.empty()) lane.old_seq = seq;
      old.push_back(signature);
    } else {
      old_ended = true;
    }
    if (recent.size() >= 2 * kLsdNewestCalls) recent.erase(recent.begin(), recent.begin() + kLsdNewestCalls);
    recent.push_back(signature);
  }

  void Put(int64_t block, std::vector<uint64_t>* list, uint64_t hash_of_block) {
    if (calls.empty() && program.empty()) lane.first_block = block;
    if (block < lane.first_block) return;
    const int64_t at = block - lane.first_block;
    const auto size = static_cast<int64_t>(std::max(calls.size(), program.size()));
    if (at > size + kMaxGapBlocks) {
      calls.clear();
      program.clear();
      lane.first_block = block;
      list->push_back(hash_of_block);
      return;
    }
    if (static_cast<int64_t>(list->size()) <= at) list->resize(static_cast<size_t>(at) + 1, 0);
    (*list)[static_cast<size_t>(at)] = hash_of_block;
  }
};

// The calls of one thread so far.
struct Track {
  uint64_t hash = 0;
  size_t calls = 0;
  uint32_t epoch = 0;  // counts the places where records are missing
};

class Maker {
 public:
  Maker(const Rank& rank, absl::Span<const uint64_t> classes) : rank_(rank), classes_(classes) {}

  History Make() {
    for (const Op& op : rank_.ops) Add(op);
    History out;
    for (Growing& g : lanes_) {
      const size_t blocks = std::max(g.calls.size(), g.program.size());
      g.calls.resize(blocks, 0);
      g.program.resize(blocks, 0);
      g.lane.begin = static_cast<uint32_t>(out.calls.size());
      g.lane.blocks = static_cast<uint32_t>(blocks);
      out.calls.insert(out.calls.end(), g.calls.begin(), g.calls.end());
      out.program.insert(out.program.end(), g.program.begin(), g.program.end());
      if (g.recent.size() > kLsdNewestCalls)
        g.recent.erase(g.recent.begin(), g.recent.end() - static_cast<ptrdiff_t>(kLsdNewestCalls));
      g.lane.new_seq = g.previous - static_cast<int64_t>(g.recent.size()) + 1;
      // Calls that are among the newest are not listed a second time.
      if (g.lane.old_seq + static_cast<int64_t>(g.old.size()) > g.lane.new_seq)
        g.old.resize(static_cast<size_t>(
            std::clamp<int64_t>(g.lane.new_seq - g.lane.old_seq, 0, static_cast<int64_t>(g.old.size()))));
      g.lane.old_begin = static_cast<uint32_t>(out.singles.size());
      g.lane.old_count = static_cast<uint32_t>(g.old.size());
      out.singles.insert(out.singles.end(), g.old.begin(), g.old.end());
      g.lane.new_begin = static_cast<uint32_t>(out.singles.size());
      g.lane.new_count = static_cast<uint32_t>(g.recent.size());
      out.singles.insert(out.singles.end(), g.recent.begin(), g.recent.end());
      out.lanes.push_back(g.lane);
    }
    return out;
  }

 private:
  void Add(const Op& op) {
    const std::optional<LaneId> lane = LaneOf(op);
    Growing* g = lane ? Find(*lane) : nullptr;
    if (g == nullptr) return;
    const bool first = g->lane.count++ == 0;
    const bool follows = !first && op.seq == g->previous + 1;
    if (first) {
      g->lane.first_seq = g->lane.last_seq = op.seq;
    } else {
      if (!follows) ++TrackOf(op.thread).epoch;
      g->lane.first_seq = std::min(g->lane.first_seq, op.seq);
      g->lane.last_seq = std::max(g->lane.last_seq, op.seq);
    }
    g->previous = op.seq;
    if (rank_.source == Source::kFlightRecorder) return;

    const uint64_t signature = Signature(op);
    g->PutSingle(op.seq, follows, static_cast<uint32_t>(std::max<uint64_t>(Mixed(signature) >> 32, 1)));
    Track& track = TrackOf(op.thread);
    const int64_t block = op.seq / kLsdBlockOps, place = op.seq % kLsdBlockOps;
    if (place == 0) {
      if (op.kind != CallKind::kSend && op.kind != CallKind::kRecv) MarkProgram(g, op, track);
      g->run = 0;
      g->hash = 0;
    }
    if (g->run == place) {
      g->hash = Combine(g->hash, signature);
      if (++g->run == kLsdBlockOps) g->Put(block, &g->calls, Known(g->hash));
    } else {
      g->run = -1;
    }
    // Everything that ranks with the same role have in common: kind of communicator, neighbor, arguments.
    uint64_t token = op.membership < classes_.size() ? classes_[op.membership] : 0;
    token = Combine(token, static_cast<uint64_t>(op.kind));
    if (ring::IsPointToPoint(op.kind)) {
      token = Combine(token,
                      static_cast<uint64_t>(int64_t{op.root_or_peer} - rank_.memberships[op.membership].member_rank));
    } else {
      token = Combine(token, op.kind == CallKind::kAlltoAll ? 0 : static_cast<uint64_t>(op.count));
      token = Combine(token, op.datatype);
    }
    track.hash = track.hash * kFactor + Mixed(token);
    ++track.calls;
  }

  void MarkProgram(Growing* g, const Op& op, const Track& track) {
    if (g->mark_seq >= 0 && g->mark_seq == op.seq - kLsdBlockOps && g->mark_epoch == track.epoch &&
        g->mark_thread == op.thread) {
      const size_t calls = track.calls - g->mark_calls;
      while (powers_.size() <= calls) powers_.push_back(powers_.back() * kFactor);
      g->Put(op.seq / kLsdBlockOps - 1, &g->program, Known(track.hash - g->mark_hash * powers_[calls]));
    }
    g->mark_seq = op.seq;
    g->mark_hash = track.hash;
    g->mark_calls = track.calls;
    g->mark_epoch = track.epoch;
    g->mark_thread = op.thread;
  }

  Growing* Find(const LaneId& lane) {
    auto it = index_.find(lane);
    if (it != index_.end()) return &lanes_[it->second];
    if (lanes_.size() >= kLsdMaxLanes || lane.membership >= rank_.memberships.size()) return nullptr;
    index_[lane] = lanes_.size();
    lanes_.emplace_back().lane = {lane};
    return &lanes_.back();
  }

  Track& TrackOf(uint32_t thread) { return tracks_[thread]; }

  const Rank& rank_;
  absl::Span<const uint64_t> classes_;
  std::vector<Growing> lanes_;
  absl::flat_hash_map<LaneId, size_t> index_;
  absl::flat_hash_map<uint32_t, Track> tracks_;
  std::vector<uint64_t> powers_ = {1};
};

void EncodeLane(const LaneHistory& lane, LaneRun* out) {
  out->set_communicator(lane.membership);
  out->set_direction(static_cast<uint32_t>(lane.direction));
  out->set_peer(lane.peer);
  out->set_first_seq(lane.first_seq);
  out->set_last_seq(lane.last_seq);
  out->set_count(lane.count);
}

}  // namespace

const LaneHistory* History::Find(const LaneId& lane) const {
  auto it = std::find(lanes.begin(), lanes.end(), lane);
  return it == lanes.end() ? nullptr : &*it;
}

std::optional<LaneId> LaneOf(const Op& op) {
  if (op.membership == kNoIndex || op.seq < 0 || op.state == OpState::kFailed || op.recent_only) return std::nullopt;
  if (ring::IsPointToPoint(op.kind))
    return LaneId{op.membership, op.kind == CallKind::kSend ? Direction::kSend : Direction::kRecv, op.root_or_peer};
  if (!ring::IsCollective(op.kind)) return std::nullopt;
  return LaneId{op.membership, Direction::kCollective, 0};
}

uint64_t CommClassHash(std::string_view name, int32_t size, bool has_parent, uint32_t ordinal) {
  uint64_t hash = Combine(0, static_cast<uint64_t>(size));
  bool digits = false, letters = false;
  uint64_t text = 0;
  for (char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || !digits) text = Combine(text, digit ? '#' : static_cast<unsigned char>(c));
    digits = digit;
    letters |= !digit;
  }
  if (letters) return Combine(hash, text);
  return Combine(Combine(hash, has_parent ? 2 : 1), ordinal);
}

History MakeHistory(const Rank& rank, absl::Span<const uint64_t> classes) { return Maker(rank, classes).Make(); }

RankHistory EncodeHistory(const History& history, int32_t rank) {
  RankHistory out;
  out.set_rank(rank);
  for (const LaneHistory& lane : history.lanes) {
    RankHistory::Lane* to = out.add_lanes();
    EncodeLane(lane, to->mutable_all());
    to->set_first_block(lane.first_block);
    const auto from = history.calls.begin() + lane.begin;
    to->mutable_calls()->Add(from, from + lane.blocks);
    const auto singles = history.singles.begin();
    to->set_old_seq(lane.old_seq);
    to->mutable_old()->Add(singles + lane.old_begin, singles + lane.old_begin + lane.old_count);
    to->set_new_seq(lane.new_seq);
    to->mutable_new_()->Add(singles + lane.new_begin, singles + lane.new_begin + lane.new_count);
    if (lane.direction != Direction::kCollective) continue;
    const auto program = history.program.begin() + lane.begin;
    to->mutable_program()->Add(program, program + lane.blocks);
  }
  return out;
}

History DecodeHistory(const RankHistory& message) {
  History out;
  for (const RankHistory::Lane& from : message.lanes()) {
    if (out.lanes.size() >= kLsdMaxLanes) break;
    const LaneRun& all = from.all();
    if (all.direction() > 2 || (from.program_size() != 0 && from.program_size() != from.calls_size()) ||
        from.first_block() < 0 || from.first_block() > INT64_MAX / kLsdBlockOps - from.calls_size() ||
        from.old_seq() < 0 || from.old_seq() > INT64_MAX - from.old_size() || from.new_seq() < 0 ||
        from.new_seq() > INT64_MAX - from.new__size())
      continue;
    LaneHistory lane{{all.communicator(), static_cast<Direction>(all.direction()), all.peer()}};
    lane.first_seq = all.first_seq();
    lane.last_seq = all.last_seq();
    lane.count = all.count();
    lane.first_block = from.first_block();
    lane.begin = static_cast<uint32_t>(out.calls.size());
    lane.blocks = static_cast<uint32_t>(from.calls_size());
    out.calls.insert(out.calls.end(), from.calls().begin(), from.calls().end());
    out.program.insert(out.program.end(), from.program().begin(), from.program().end());
    out.program.resize(out.calls.size(), 0);
    lane.old_seq = from.old_seq();
    lane.old_begin = static_cast<uint32_t>(out.singles.size());
    lane.old_count = static_cast<uint32_t>(from.old_size());
    out.singles.insert(out.singles.end(), from.old().begin(), from.old().end());
    lane.new_seq = from.new_seq();
    lane.new_begin = static_cast<uint32_t>(out.singles.size());
    lane.new_count = static_cast<uint32_t>(from.new__size());
    out.singles.insert(out.singles.end(), from.new_().begin(), from.new_().end());
    out.lanes.push_back(lane);
  }
  return out;
}

void Describe(absl::Span<const Op> ops, OpChunk* chunk) {
  std::vector<LaneHistory> lanes;
  chunk->set_described(true);
  for (const Op& op : ops) {
    chunk->set_newest_ns(std::max(chunk->newest_ns(), op.enter_ns));
    if (IsInFlight(op.state) || op.recent_only) chunk->set_keep(true);
    const std::optional<LaneId> lane = LaneOf(op);
    if (!lane) continue;
    auto it = std::find(lanes.begin(), lanes.end(), *lane);
    if (it == lanes.end()) {
      it = lanes.insert(lanes.end(), LaneHistory{*lane});
      it->first_seq = it->last_seq = op.seq;
    }
    it->first_seq = std::min(it->first_seq, op.seq);
    it->last_seq = std::max(it->last_seq, op.seq);
    ++it->count;
  }
  for (const LaneHistory& lane : lanes) EncodeLane(lane, chunk->add_lanes());
}

}  // namespace lockstep
