#include "analyzer/formats/fr/state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/formats/fr/text.h"

namespace lockstep::fr {
namespace {

using ring::CallKind;

int64_t Plain(int64_t value) { return value >= 0 ? value : value == -1 ? kNone : kUnknown; }

// A group's first unfinished, last completed and last recorded numbers: [0] collectives, [1] point-to-point.
struct Reached {
  int64_t first_open[2] = {INT64_MAX, INT64_MAX}, last_done[2] = {kUnknown, kUnknown}, last[2] = {kUnknown, kUnknown};
};

// Facts about one group while its operations are evaluated.
struct GroupView {
  std::optional<GroupStatus> status;        // with numbers converted to those of the entries
  int64_t collective_completed = kUnknown;  // pg_status proves that collectives up to this number are complete
  int64_t p2p_completed = kUnknown, p2p_enqueued = kUnknown;
  bool counts_p2p = false;  // the last enqueued operation is point-to-point
  size_t last_op = SIZE_MAX;
  Reached reached;
  std::vector<uint32_t> run;                // adjacent operations with one number
  std::vector<std::vector<uint32_t>> open;  // point-to-point batches without an end record
};

class StateJudge {
 public:
  StateJudge(const std::vector<RawOp>& raw, bool entries_included, FileData* file)
      : raw_(raw), file_(*file), rank_(file->rank), views_(file->used.size()), entries_included_(entries_included) {}

  void Run() {
    FindMarks();
    for (size_t i = 0; i < rank_.ops.size(); i++) views_[rank_.ops[i].membership].last_op = i;
    ReadStatuses();
    for (size_t i = 0; i < views_.size(); i++) ReadCounters(i);
    if (LacksActive()) {
      rank_.only_active = false;
      rank_.records_lost = static_cast<uint64_t>(std::max<int64_t>(rank_.ops.front().record_id, 0));
    }
    for (size_t i = 0; i < rank_.ops.size(); i++) rank_.ops[i].state = StateOf(rank_.ops[i], raw_[i]);
    FindBatches();
    FindCaptured();
    for (size_t i = 0; i < rank_.ops.size(); i++) Count(rank_.ops[i], raw_[i]);
    DropNoticedStarts();
    for (size_t i = 0; i < views_.size(); i++) file_.used[i].progress = ProgressOf(i);
    FindOldestOpen();
    FindUnnoticed();
    CountUnrecorded();
  }

 private:
  static int64_t NumberOf(const RawOp& raw) { return raw.p2p ? raw.p2p_seq : raw.collective_seq; }

  // PyTorch's nccl2 backend writes op_id into pg_status, other backends the sequence number. The group's newest entry
  // shows which. Converts op_ids to sequence numbers.
  void ReadStatuses() {
    std::vector<GroupStatus> by_op_id(views_.size());  // values as in the file
    std::vector<bool> counts_ops(views_.size());
    for (size_t i = 0; i < views_.size(); i++) {
      const GroupStatus* status = StatusOf(file_, file_.used[i]);
      if (status == nullptr) continue;
      views_[i].status = by_op_id[i] = *status;
      if (views_[i].last_op == SIZE_MAX) continue;
      const RawOp& newest = raw_[views_[i].last_op];
      const int64_t number = NumberOf(newest);
      counts_ops[i] = status->enqueued >= 0 && status->enqueued == newest.op_id && newest.op_id != number;
      if (!counts_ops[i]) continue;
      const bool mixed = file_.used[i].has_p2p && file_.used[i].collectives > 0;
      views_[i].status->enqueued = number;
      for (int64_t* count : {&views_[i].status->started, &views_[i].status->completed}) {
        if (*count >= 0) *count = mixed ? kUnknown : *count + number - newest.op_id;
      }
    }
    for (size_t i = 0; i < raw_.size(); i++) {
      const size_t group = rank_.ops[i].membership;
      if (!counts_ops[group] || raw_[i].op_id < 0) continue;
      if (raw_[i].op_id == by_op_id[group].started) views_[group].status->started = NumberOf(raw_[i]);
      if (raw_[i].op_id == by_op_id[group].completed) views_[group].status->completed = NumberOf(raw_[i]);
    }
  }

  // Finds calls without an entry. op_id counts every call of a group. If entries are missing, op_id grows by more than
  // one between neighboring collectives. torchcomms numbers the calls of all groups together.
  void CountUnrecorded() {
    if (rank_.only_active) return;
    bool together = views_.size() > 1;
    for (size_t i = 1; i < raw_.size(); i++) together &= raw_[i].op_id > raw_[i - 1].op_id;
    std::vector<size_t> newest(views_.size(), SIZE_MAX);
    for (size_t i = 0; i < raw_.size(); i++) {
      const size_t group = rank_.ops[i].membership;
      const size_t before = together ? i - 1 : newest[group];  // SIZE_MAX for the first operation
      newest[group] = i;
      if (before == SIZE_MAX || raw_[i].p2p || raw_[before].p2p || raw_[before].op_id < 0) continue;
      if (!together && raw_[i].collective_seq != raw_[before].collective_seq + 1) continue;
      file_.used[group].unrecorded += std::max<int64_t>(0, raw_[i].op_id - raw_[before].op_id - 1);
    }
  }

  void FindOldestOpen() {
    for (size_t i = 0; i < rank_.ops.size(); i++) {
      const Op& op = rank_.ops[i];
      if (!IsUnfinished(op.state) || op.enter_ns <= 0 ||
          (file_.oldest_open_ns > 0 && op.enter_ns >= file_.oldest_open_ns))
        continue;
      file_.oldest_open_ns = op.enter_ns;
      constexpr int64_t kMostMs = 1'000'000'000;
      rank_.timeout_ns = std::clamp<int64_t>(raw_[i].timeout_ms, 0, kMostMs) * 1'000'000;
    }
  }

  // Sets ends_unnoticed. PyTorch updates an operation's state when the dump is taken, but the group's counter and the
  // times only when the watchdog checks.
  void FindUnnoticed() {
    for (size_t i = 0; i < rank_.ops.size(); i++) {
      const Op& op = rank_.ops[i];
      const GroupView& view = views_[op.membership];
      file_.ends_unnoticed |= raw_[i].state == RawState::kCompleted && !op.retired && op.completed_ns == 0 &&
                              view.status && !file_.used[op.membership].has_p2p && view.status->completed >= kNone &&
                              view.status->completed < op.seq;
    }
  }

  void Count(const Op& op, const RawOp& raw) {
    // An operation that waits for the end of its batch was not enqueued.
    if (op.seq < 0 || op.state == OpState::kQueued) return;
    Reached& reached = views_[op.membership].reached;
    int side = raw.p2p ? 1 : 0;
    reached.last[side] = std::max(reached.last[side], op.seq);
    if (op.state == OpState::kCompleted) {
      reached.last_done[side] = std::max(reached.last_done[side], op.seq);
    } else {
      reached.first_open[side] = std::min(reached.first_open[side], op.seq);
    }
  }

  // If the dump has durations, an operation without one has only the times at which the watchdog noticed its start and
  // end. These times are often equal, so they give no duration.
  void DropNoticedStarts() {
    if (rank_.time_source != TimeSource::kFrameworkDurations) return;
    for (size_t i = 0; i < rank_.ops.size(); i++) {
      if (!raw_[i].measured && rank_.ops[i].completed_ns > 0) rank_.ops[i].started_ns = 0;
    }
  }

  // A call captured into a CUDA graph is recorded like any other, but nothing is enqueued, so the group's counter does
  // not change. One call beyond the counter may be about to be enqueued, or may block in NCCL; so may several calls
  // with one number, which are launched together. Two or more calls beyond the counter, outside any batch, were
  // captured and never ran as recorded. A counter that has not started proves this only if other counters of the
  // process have started.
  void FindCaptured() {
    const bool counts =
        std::any_of(file_.statuses.begin(), file_.statuses.end(), [](const GroupStatus& s) { return s.enqueued > 0; });
    for (uint32_t v = 0; v < views_.size(); v++) {
      const GroupView& view = views_[v];
      if (!view.status || file_.used[v].has_p2p || file_.used[v].p2ps > 0) continue;
      if (view.status->enqueued < (counts ? -1 : 0)) continue;  // the counter proves nothing
      std::vector<uint32_t> beyond;
      bool plain = true;
      for (uint32_t i = 0; i < rank_.ops.size() && plain; i++) {
        const Op& op = rank_.ops[i];
        if (op.membership != v || op.seq <= std::max<int64_t>(view.status->enqueued, 0)) continue;
        plain = raw_[i].state == RawState::kScheduled && !op.retired && !op.in_batch && !op.batch_end &&
                op.state != OpState::kQueued;
        beyond.push_back(i);
      }
      if (!plain || beyond.size() < 2 || rank_.ops[beyond.front()].seq == rank_.ops[beyond.back()].seq) continue;
      for (uint32_t i : beyond) rank_.ops[i].state = OpState::kCaptured;
    }
  }

  void FindMarks() {
    bool any_ended = false, work_done = false;
    std::array<bool, UINT8_MAX + 1> used = {}, completes = {}, gives_up = {};
    std::vector<bool> retired(views_.size());
    for (size_t i = 0; i < raw_.size(); i++) {
      const uint8_t backend = raw_[i].backend;
      used[backend] = true;
      completes[backend] |= raw_[i].state == RawState::kCompleted;
      if (!rank_.ops[i].retired) continue;
      // A watchdog gives up on the first operation that times out. So if several in one group are retired, they were
      // retired when they completed, or when they were issued.
      gives_up[backend] = !retires_[backend] || (gives_up[backend] && !retired[rank_.ops[i].membership]);
      retires_[backend] = retired[rank_.ops[i].membership] = true;
    }
    for (const GroupStatus& status : file_.statuses) work_done |= status.completed >= 0;
    // gloo and torchcomms never mark an operation as completed. Such an operation has completed once it is retired.
    // With PyTorch's first NCCL backend, an operation that is retired but not completed has timed out.
    for (size_t i = 0; i < used.size(); i++) {
      any_ended |= completes[i] || retires_[i];
      retires_[i] = retires_[i] && !completes[i] && (work_done || file_.statuses.empty() || !gives_up[i]);
    }
    rank_.ends_untold = retires_ == used && !raw_.empty();
    for (size_t i = 0; i < raw_.size(); i++) {
      const Op& op = rank_.ops[i];
      // A start time equal to the completion time was written at completion, so it is not the start. A state that is
      // never updated shows no start either.
      const bool noted = op.started_ns > 0 && (op.completed_ns == 0 || op.started_ns < op.completed_ns);
      if (noted || (raw_[i].state == RawState::kStarted && !retires_[raw_[i].backend])) rank_.start_recorded = true;
    }
    for (const GroupStatus& status : file_.statuses) rank_.start_recorded |= status.started >= 0;
    rank_.only_active = entries_included_ && !any_ended && work_done;
    if (!rank_.only_active && !rank_.ops.empty()) {
      rank_.records_lost = static_cast<uint64_t>(std::max<int64_t>(rank_.ops.front().record_id, 0));
    }
  }

  // Returns whether a dump that seems to contain only active operations is missing some: a group's counters show
  // unfinished operations older than its oldest entry. Then the dump is a full one: the buffer overwrote operations in
  // flight, and nothing has completed since. (A counter may be slightly behind the GPU.)
  bool LacksActive() const {
    // Sends and receives to several peers complete in any order, but close to the order of their numbers.
    constexpr int64_t kNotNoticedYet = 3, kOutOfOrder = 4;
    if (!rank_.only_active || rank_.ops.empty()) return false;
    std::vector<int64_t> oldest(views_.size(), INT64_MAX);
    const auto exchanges_in = [&](size_t i) { return file_.used[i].has_p2p || file_.used[i].p2ps > 0; };
    for (size_t i = 0; i < rank_.ops.size(); i++) {
      const Op& op = rank_.ops[i];
      if (op.seq >= 0 && raw_[i].p2p == exchanges_in(op.membership))
        oldest[op.membership] = std::min(oldest[op.membership], op.seq);
    }
    for (size_t i = 0; i < views_.size(); i++) {
      const bool exchanges = exchanges_in(i);
      // The last completed operation may be a collective, unless the number is too high for one.
      if (exchanges && file_.used[i].collectives > 0 && views_[i].p2p_completed <= file_.used[i].collectives) continue;
      const int64_t completed = exchanges ? views_[i].p2p_completed : views_[i].collective_completed;
      if (completed < 0 || oldest[i] == INT64_MAX) continue;
      // An operation that has started and not completed is active.
      const int64_t started = views_[i].status->started;
      if (!exchanges && started > completed && started < oldest[i]) return true;
      if (oldest[i] > completed + 1 + kNotNoticedYet + (exchanges ? kOutOfOrder : 0)) return true;
    }
    return false;
  }

  // Returns how many different numbers of the group's operations are above this one; 0 in a full dump.
  size_t BatchesBeyond(size_t index, int64_t number) const {
    std::set<int64_t> beyond;
    for (const Op& op : rank_.ops) {
      if (op.membership == index && op.seq > number) beyond.insert(op.seq);
    }
    return number == kUnknown || !rank_.only_active ? 0 : beyond.size();
  }

  // Determines which counter the numbers in pg_status belong to.
  void ReadCounters(size_t index) {
    GroupView& view = views_[index];
    const UsedGroup& group = file_.used[index];
    if (!view.status) return;
    int64_t enqueued = Plain(view.status->enqueued), completed = Plain(view.status->completed);
    bool has_p2p = group.has_p2p || group.p2ps > 0;
    if (!has_p2p) {
      view.collective_completed = completed;
      return;
    }
    if (group.collectives <= 0 && BatchesBeyond(index, enqueued) > 1) {
      // Only one batch can be open. So these numbers are those of later collectives, which had completed and were not
      // dumped.
      view.collective_completed = completed;
      return;
    }
    if (group.collectives <= 0) {
      view.counts_p2p = true;
      view.p2p_enqueued = enqueued;
      view.p2p_completed = completed;
      return;
    }
    if (view.last_op == SIZE_MAX) return;
    const RawOp& last = raw_[view.last_op];
    int counter = 0;
    if (last.p2p && enqueued == last.p2p_seq) {
      counter = 2;
    } else if (!last.p2p && enqueued == last.collective_seq) {
      counter = 1;
    } else {
      counter = NearerCounter(enqueued, group.collectives, group.p2ps);
    }
    view.counts_p2p = counter == 2;
    if (counter == 2) view.p2p_enqueued = enqueued;
    // The last completed operation may be of a different kind than the last enqueued one, even if both have the same
    // number. They are the same operation only if the other counter is lower, or if the last enqueued operation is
    // itself marked complete.
    const int64_t other = counter == 2 ? group.collectives : group.p2ps;
    const bool same = enqueued == completed && (other < completed || last.state == RawState::kCompleted);
    int done = same ? counter : NearerCounter(completed, group.collectives, group.p2ps);
    // The completed number of a counter cannot exceed that of its newest entry.
    const int64_t collectives = counter == 1 ? std::max(enqueued, group.collectives) : group.collectives;
    if (completed > collectives && completed <= group.p2ps) done = 2;
    if (completed > group.p2ps && completed <= collectives) done = 1;
    if (done == 1) view.collective_completed = completed;
    if (done == 2) view.p2p_completed = completed;
  }

  OpState StateOf(const Op& op, const RawOp& raw) const {
    const GroupView& view = views_[op.membership];
    if (raw.state == RawState::kCompleted) return OpState::kCompleted;
    if (retires_[raw.backend]) return op.retired ? OpState::kCompleted : OpState::kIncomplete;
    int64_t proven = raw.p2p ? view.p2p_completed : view.collective_completed;
    // Collectives of a group complete in order. Sends and receives to different peers do not. The count proves the
    // completion of a send or receive only if the watchdog has also retired it.
    if (op.seq >= 0 && op.seq <= proven && (!raw.p2p || op.retired)) return OpState::kCompleted;
    if (op.retired) return OpState::kIncomplete;
    // Members of a batch are never marked completed themselves, so they remain in a dump of active operations.
    if (raw.p2p && rank_.only_active && op.seq >= 0 && op.seq <= proven) return OpState::kUnknown;
    switch (raw.state) {
      case RawState::kStarted: return OpState::kStarted;
      case RawState::kScheduled: return rank_.start_recorded ? OpState::kEnqueued : OpState::kIncomplete;
      default: return proven == kUnknown ? OpState::kUnknown : OpState::kIncomplete;
    }
  }

  void FindBatches() {
    for (uint32_t i = 0; i < rank_.ops.size(); i++) {
      Op& op = rank_.ops[i];
      GroupView& view = views_[op.membership];
      if (op.batch_end) {
        EndBatch(i, &view);
        continue;
      }
      if (!view.run.empty() && !SameRun(view.run.back(), i)) CloseRun(&view);
      view.run.push_back(i);
    }
    for (size_t i = 0; i < views_.size(); i++) {
      CloseRun(&views_[i]);
      for (const std::vector<uint32_t>& run : views_[i].open) JudgeOpenBatch(i, run);
    }
    // An open NCCL group launches nothing on any communicator. It may have begun before its first batch, if calls
    // before the batch are also missing from the counters.
    for (uint32_t i = first_queued_; i-- > 0 && first_queued_ < rank_.ops.size();) {
      Op& op = rank_.ops[i];
      const GroupView& view = views_[op.membership];
      const bool counted = view.status && !raw_[i].p2p && !view.counts_p2p && view.status->enqueued >= 0;
      const bool launched = op.state == OpState::kCompleted || op.state == OpState::kStarted || op.retired;
      if (launched || !counted || op.seq <= view.status->enqueued) break;
      op.state = OpState::kQueued;
    }
    for (uint32_t i = first_queued_; i < rank_.ops.size(); i++) {
      Op& op = rank_.ops[i];
      const bool launched = op.state == OpState::kCompleted || op.state == OpState::kStarted || op.retired;
      // A call of another thread is recorded just before it is enqueued. If its process group's counter does not
      // include the call although later calls were recorded, the call is in the open NCCL group, too.
      const GroupView& view = views_[op.membership];
      const bool counted = view.status && !raw_[i].p2p && !view.counts_p2p;
      const bool not_enqueued = counted && op.seq > Plain(view.status->enqueued) && i + 1 < rank_.ops.size();
      if (!launched && (op.thread == rank_.ops[first_queued_].thread || not_enqueued)) op.state = OpState::kQueued;
    }
  }

  bool SameRun(uint32_t a, uint32_t b) const {
    return raw_[a].p2p == raw_[b].p2p && rank_.ops[a].seq == rank_.ops[b].seq && rank_.ops[a].seq != kUnknown;
  }

  // Returns whether a batch with this end can contain the member. An end named after an operation closes only members
  // that this operation created.
  static bool MayContain(std::string_view end_name, CallKind member) {
    std::string name = Lower(end_name);
    if (name.starts_with("allgather") || name.starts_with("all_gather")) {
      return member == CallKind::kBroadcast || member == CallKind::kAllGather;
    }
    if (name.starts_with("reduce_scatter") || name.starts_with("reducescatter")) {
      return member == CallKind::kReduce || member == CallKind::kReduceScatter;
    }
    return true;
  }

  void EndBatch(uint32_t end, GroupView* view) {
    Op& last = rank_.ops[end];
    uint64_t batch = ++batches_;
    last.group = batch;
    std::string_view name = last.name == kNoIndex ? std::string_view() : file_.strings[last.name];
    while (!view->run.empty()) {
      uint32_t at = view->run.back();
      Op& member = rank_.ops[at];
      int64_t number = raw_[at].p2p ? raw_[end].p2p_seq : raw_[end].collective_seq;
      if (member.seq != number || member.seq == kUnknown || !MayContain(name, member.kind)) break;
      member.in_batch = true;
      member.group = batch;
      member.state = last.state;
      member.retired = last.retired;
      if (raw_[at].p2p) file_.used[member.membership].has_batches = true;
      view->run.pop_back();
    }
    CloseRun(view);
  }

  void CloseRun(GroupView* view) {
    if (!view->run.empty() && raw_[view->run.front()].p2p) view->open.push_back(view->run);
    view->run.clear();
  }

  // Returns whether the entry is next to missing records in a damaged file, unless it is marked as started. These
  // records may contain the rest of a batch and its end.
  bool BesideLost(uint32_t at) const {
    if (!rank_.damaged || rank_.ops[at].state == OpState::kStarted) return false;
    const auto follows = [&](size_t i) {
      return rank_.ops[i].record_id < 0 || rank_.ops[i].record_id == rank_.ops[i - 1].record_id + 1;
    };
    return (at > 0 && !follows(at)) || (at + 1 < rank_.ops.size() && !follows(at + 1));
  }

  // Point-to-point operations with the same number belong to a batch without an end record. Members of a batch are
  // never marked complete, so their own state proves nothing.
  void JudgeOpenBatch(size_t index, const std::vector<uint32_t>& run) {
    const GroupView& view = views_[index];
    bool batch = run.size() > 1;
    if (!batch && !file_.used[index].has_batches && !BesideLost(run[0])) return;
    // A single operation that was enqueued without an end record was not in a batch, so its own state counts.
    if (!batch && !rank_.only_active && !rank_.damaged && view.p2p_enqueued >= rank_.ops[run[0]].seq) return;
    uint64_t number = batch ? ++batches_ : 0;
    for (uint32_t at : run) {
      Op& op = rank_.ops[at];
      if (op.state == OpState::kCompleted) continue;
      op.state = OpState::kUnknown;
      const bool open = view.p2p_enqueued != kUnknown && view.p2p_enqueued < op.seq;
      // This batch is the group's newest work and is incomplete: its end record is missing in a damaged file.
      if (rank_.damaged && op.seq >= 0 && view.p2p_enqueued == op.seq && view.p2p_completed != kUnknown &&
          view.p2p_completed < op.seq) {
        op.state = OpState::kIncomplete;
      }
      if (open) {
        op.state = OpState::kQueued;
        first_queued_ = std::min(first_queued_, at);
      }
      if (!batch) continue;
      op.in_batch = true;
      op.group = number;
      if (open) {
        continue;
      } else if (rank_.only_active && !rank_.damaged && (view.p2p_enqueued >= op.seq || view.last_op > run.back())) {
        // The end was enqueued, and a dump of active operations does not contain completed ones.
        op.state = OpState::kCompleted;
      }
    }
  }

  Progress ProgressOf(size_t index) const {
    const GroupView& view = views_[index];
    const UsedGroup& group = file_.used[index];
    const auto& [first_open, last_done, last] = view.reached;
    Progress out;
    if (view.status && !group.has_p2p && group.p2ps <= 0) {
      out = FromStatus(*view.status, false, rank_.start_recorded);
      out.p2p_issued = out.p2p_started = out.p2p_completed = group.p2ps == 0 ? kNone : kUnknown;
    } else if (view.status) {
      // Entries have both counters, so the newest entry also shows the other counter, unless newer operations completed
      // and were not dumped.
      const RawOp* newest = view.last_op == SIZE_MAX ? nullptr : &raw_[view.last_op];
      int64_t enqueued = Plain(view.status->enqueued);
      bool exact = newest != nullptr && enqueued == (newest->p2p ? newest->p2p_seq : newest->collective_seq);
      if (view.counts_p2p) {
        out = FromStatus(*view.status, true, rank_.start_recorded);
        if (exact) out.issued = newest->collective_seq > 0 || group.collective_zero ? newest->collective_seq : kNone;
      } else if (exact) {
        out = FromStatus(*view.status, false, rank_.start_recorded);
        out.p2p_issued = newest->p2p_seq > 0 ? newest->p2p_seq : kNone;
      }
      // The status has one number for both counters. A number above what one counter has issued belongs to the other
      // counter.
      if (out.issued != kUnknown && out.started > out.issued) {
        out.p2p_started = std::exchange(out.started, kUnknown);
      } else if (out.p2p_issued != kUnknown && out.p2p_started > out.p2p_issued) {
        out.started = std::exchange(out.p2p_started, kUnknown);
      }
      out.completed = view.collective_completed;
      out.p2p_completed = view.p2p_completed;
      if (out.completed == kUnknown && out.issued != kUnknown) {
        out.completed = first_open[0] == INT64_MAX ? out.issued : std::max(first_open[0] - 1, kNone);
        if (first_open[0] == 1 && !group.collective_zero) out.completed = kNone;
      }
    } else if (!rank_.only_active) {
      // Without pg_status, the entries themselves count; the newest are always there.
      out.issued = last[0];
      out.p2p_issued = last[1];
      out.completed = last_done[0];
      if (out.completed == kUnknown && group.first_collective >= 0 && group.first_collective <= 1)
        out.completed = kNone;
    }
    // Entries and pg_status are not written at the same instant, so a fact that either one proves is true.
    if (last[0] >= 0 && out.issued != kUnknown) out.issued = std::max(out.issued, last[0]);
    if (last_done[0] >= 0 && out.completed != kUnknown) out.completed = std::max(out.completed, last_done[0]);
    // Operations of a group may complete out of order, so this counts only those before the first unfinished one.
    if (view.last_op != SIZE_MAX && retires_[raw_[view.last_op].backend] && first_open[0] != INT64_MAX)
      out.completed = std::min(out.completed, std::max(first_open[0] - 1, kNone));
    if (last[1] >= 0 && out.p2p_issued != kUnknown) out.p2p_issued = std::max(out.p2p_issued, last[1]);
    return out;
  }

  const std::vector<RawOp>& raw_;
  FileData& file_;
  Rank& rank_;
  std::vector<GroupView> views_;
  bool entries_included_;
  std::array<bool, UINT8_MAX + 1> retires_ = {};  // for each backend: operations are complete once retired
  uint64_t batches_ = 0;
  uint32_t first_queued_ = UINT32_MAX;  // first operation of a batch that the process did not end
};

}  // namespace

void DecideStates(const std::vector<RawOp>& raw, bool entries_included, FileData* file) {
  StateJudge(raw, entries_included, file).Run();
}

const GroupStatus* StatusOf(const FileData& file, const UsedGroup& group) {
  if (group.pg_ids.size() != 1) return nullptr;
  for (const UsedGroup& other : file.used) {
    if (&other == &group) continue;
    if (std::find(other.pg_ids.begin(), other.pg_ids.end(), group.pg_ids[0]) != other.pg_ids.end()) return nullptr;
  }
  for (const GroupStatus& status : file.statuses) {
    if (status.pg_id == group.pg_ids[0]) return &status;
  }
  return nullptr;
}

Progress FromStatus(const GroupStatus& status, bool p2p, bool start_recorded) {
  Progress out;
  int64_t started = status.started >= 0 ? status.started : start_recorded ? Plain(status.started) : kUnknown;
  (p2p ? out.p2p_issued : out.issued) = Plain(status.enqueued);
  (p2p ? out.p2p_started : out.started) = started;
  (p2p ? out.p2p_completed : out.completed) = Plain(status.completed);
  return out;
}

int NearerCounter(int64_t number, int64_t collectives, int64_t p2ps) {
  if (number < 0) return 0;
  if (p2ps <= 0) return 1;
  if (collectives <= 0) return 2;
  int64_t from_collectives = std::abs(number - collectives), from_p2ps = std::abs(number - p2ps);
  // The number must be clearly nearer, or the result is undecided.
  if (from_p2ps < from_collectives / 4 - 1) return 2;
  if (from_collectives < from_p2ps / 4 - 1) return 1;
  return 0;
}

}  // namespace lockstep::fr
