#include "gui/model/timeline/times.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/util/parallel.h"
#include "gui/model/latest_job.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

// Total size of all bins; 24,576 ranks have 2,048 bins each.
constexpr int64_t kBinBytes = 48 << 20;
constexpr int kLane = 64;  // bins are processed this many at a time, so that the compiler can vectorize

int64_t Add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

void Worst(const uint8_t* __restrict from, uint8_t* __restrict into) {
  for (int k = 0; k < kLane; ++k) into[k] = from[k] > into[k] ? from[k] : into[k];
}

// Maps time ranges to pixels of a picture that shows begin..end in `width` pixels. A range covers at least one pixel,
// or none if it is outside of the picture.
struct Scale {
  Scale(double begin, double end, int width)
      : begin_(begin), end_(end), per_ns_(width / std::max(end - begin, 1e-9)), last_(width - 1) {}
  bool Cover(double begin, double end, int* first, int* last) const {
    if (begin >= end_ || end < begin_ || (end == begin_ && begin < end)) return false;
    *first = std::clamp(static_cast<int>((begin - begin_) * per_ns_), 0, last_);
    *last = std::clamp(static_cast<int>(std::min((end - begin_) * per_ns_, last_ + 1.0)), *first, last_);
    // A range that ends exactly at a pixel's edge does not cover that pixel.
    if (*last > *first && (end - begin_) * per_ns_ <= *last) --*last;
    return true;
  }

 private:
  double begin_, end_, per_ns_;
  int last_;
};

void Fill(uint8_t look, int first, int last, uint8_t* out) {
  for (int x = first; x <= last; ++x) out[x] = std::max(out[x], look);
}

}  // namespace

const char* TimelineLookName(TimelineLook look) {
  switch (look) {
    case TimelineLook::kNothing: return "nothing";
    case TimelineLook::kUnmeasured: return "issued, GPU not measured";
    case TimelineLook::kHost: return "CPU in the call";
    case TimelineLook::kQueued: return "queued on its stream";
    case TimelineLook::kRunning: return "running";
    case TimelineLook::kQueuedOpen: return "still queued";
    case TimelineLook::kInFlight: return "in flight, start not measured";
    case TimelineLook::kRunningOpen: return "still running";
    case TimelineLook::kHostOpen: return "CPU still in the call";
    case TimelineLook::kFailed: return "failed";
    case TimelineLook::kCount: break;
  }
  return "unknown";
}

int64_t Timeline::At(int row, int64_t ns) const {
  const int64_t job = Add(ns, document_->FactsAt(row).clock_offset_ns());
  if (job <= origin_) return 0;
  return std::min(Add(job, -origin_), span_);
}

int Timeline::PiecesOf(int row, const IndexOp& op, TimelinePiece out[3]) const {
  int n = 0;
  auto add = [&](int64_t begin, int64_t end, TimelineLook look, bool gpu) {
    out[n++] = {begin, std::max(begin, end), look, gpu};
  };
  const int64_t taken = taken_[static_cast<size_t>(row)];
  const int64_t enter = op.enter_ns != 0 ? At(row, op.enter_ns) : -1;
  const int64_t returned = op.return_ns != 0 ? At(row, op.return_ns) : -1;
  const int64_t started = op.started_ns != 0 ? At(row, op.started_ns) : -1;
  const int64_t completed = op.completed_ns != 0 ? At(row, op.completed_ns) : -1;
  if (enter >= 0) {
    if (op.state == OpState::kFailed) {
      add(enter, std::max(returned, enter), TimelineLook::kFailed, false);
    } else if (op.state == OpState::kEntered) {
      add(enter, taken, TimelineLook::kHostOpen, false);
    } else if (returned >= 0) {
      add(enter, returned, TimelineLook::kHost, false);
    } else {
      add(enter, enter, TimelineLook::kUnmeasured, false);
    }
  }
  const int64_t issued = returned >= 0 ? returned : enter;
  switch (op.state) {
    case OpState::kEnqueued:
    case OpState::kQueued:
      if (issued >= 0) add(issued, taken, TimelineLook::kQueuedOpen, true);
      break;
    case OpState::kStarted:
    case OpState::kIncomplete:
      if (started >= 0) {
        if (issued >= 0 && issued < started) add(issued, started, TimelineLook::kQueued, true);
        add(started, taken, TimelineLook::kRunningOpen, true);
      } else if (issued >= 0) {
        add(issued, taken, TimelineLook::kInFlight, true);
      }
      break;
    default:
      if (started >= 0 && completed >= 0) {
        if (issued >= 0 && issued < started) add(issued, started, TimelineLook::kQueued, true);
        add(started, completed, TimelineLook::kRunning, true);
      } else if (started >= 0) {
        add(started, started, TimelineLook::kUnmeasured, true);
      } else if (completed >= 0) {
        add(issued >= 0 ? std::min(issued, completed) : completed, completed, TimelineLook::kUnmeasured, true);
      }
  }
  return n;
}

namespace {

// Returns the latest time at which a rank's data was captured, at least `last`.
int64_t LastTaken(const Document& d, int64_t last) {
  for (int row = 0; row < d.rank_count(); ++row) {
    const IndexRank& rank = d.Entry(row);
    if (rank.captured_ns != 0 && rank.ops != 0)
      last = std::max(last, Add(rank.captured_ns, d.FactsAt(row).clock_offset_ns()));
  }
  return last;
}

}  // namespace

int64_t TimelineSpanOf(const Document& document) {
  const int64_t first = document.facts().first_ns(), last = document.facts().last_ns();
  return first >= last || first == 0 ? 0 : Add(LastTaken(document, last), -std::max(first, -INT64_MAX));
}

std::shared_ptr<const Timeline> Timeline::Build(DocumentPtr document, const std::atomic<bool>* cancel,
                                                std::atomic<int>* done) {
  std::shared_ptr<Timeline> out(new Timeline);
  out->document_ = std::move(document);
  const Document& d = *out->document_;
  const IndexReader& index = d.index();
  const auto rows = static_cast<size_t>(d.rank_count());

  // The time span of the facts, otherwise that of the ranks' columns.
  int64_t first = d.facts().first_ns(), last = d.facts().last_ns();
  if (first >= last || first == 0) {
    first = INT64_MAX;
    last = INT64_MIN;
    for (size_t row = 0; row < rows; ++row) {
      const IndexRank& rank = index.ranks()[row];
      if (rank.ops == 0) continue;
      first = std::min(first, Add(rank.base_ns, d.FactsAt(static_cast<int>(row)).clock_offset_ns()));
      const IndexColumns columns = index.columns(row);
      uint32_t latest = 0;
      for (const absl::Span<const uint32_t> column : {columns.enter, columns.start, columns.end}) {
        for (const uint32_t us : column) latest = us != kIndexNoTime && us > latest ? us : latest;
      }
      last = std::max(
          last, Add(Add(rank.base_ns, int64_t{latest} * 1000), d.FactsAt(static_cast<int>(row)).clock_offset_ns()));
      if (Cancelled(cancel)) return nullptr;
    }
  }
  last = LastTaken(d, last);
  if (first > last) first = last = 0;
  out->origin_ = std::max(first, -INT64_MAX);
  out->span_ = std::max<int64_t>(1, Add(last, -out->origin_));

  out->bins_ =
      static_cast<int>(std::clamp<int64_t>(kBinBytes / std::max<int64_t>(1, static_cast<int64_t>(rows)), 256, 4096)) /
      kLane * kLane;
  out->looks_.assign(rows * static_cast<size_t>(out->bins_), 0);
  out->first_block_.assign(rows + 1, 0);
  out->taken_.assign(rows, 0);
  for (size_t row = 0; row < rows; ++row) {
    out->first_block_[row + 1] = out->first_block_[row] + (index.ranks()[row].ops + kBlock - 1) / kBlock;
  }
  out->blocks_.resize(out->first_block_[rows]);

  Timeline* t = out.get();
  const double per_ns = static_cast<double>(t->bins_) / static_cast<double>(t->span_);
  auto one = [&](size_t row) {
    const int r = static_cast<int>(row);
    const IndexRank& rank = index.ranks()[row];
    int64_t taken = 0;
    if (rank.captured_ns != 0) {
      taken = t->At(r, rank.captured_ns);
    } else {
      const IndexColumns columns = index.columns(row);
      for (const absl::Span<const uint32_t> column : {columns.enter, columns.start, columns.end}) {
        for (const uint32_t us : column) {
          if (us != kIndexNoTime) taken = std::max(taken, t->At(r, rank.base_ns + int64_t{us} * 1000));
        }
      }
    }
    t->taken_[row] = taken;
    uint8_t* looks = t->looks_.data() + row * static_cast<size_t>(t->bins_);
    const int last_bin = t->bins_ - 1;
    for (uint64_t i = 0; i < rank.ops; ++i) {
      Block& block = t->blocks_[t->first_block_[row] + i / kBlock];
      if (i % kBlock == 0) {
        block.begin = INT64_MAX;
        block.end = INT64_MIN;
        if (Cancelled(cancel)) return;
      }
      TimelinePiece pieces[3];
      const int n = t->PiecesOf(r, index.op(row, rank.first_op + i), pieces);
      for (int k = 0; k < n; ++k) {
        const TimelinePiece& piece = pieces[k];
        block.begin = std::min(block.begin, piece.begin);
        block.end = std::max(block.end, piece.end);
        block.worst = std::max(block.worst, piece.look);
        const int a = std::min(static_cast<int>(static_cast<double>(piece.begin) * per_ns), last_bin);
        const int b = std::min(static_cast<int>(static_cast<double>(piece.end) * per_ns), last_bin);
        Fill(static_cast<uint8_t>(piece.look), a, b, looks);
      }
    }
    if (done != nullptr) done->fetch_add(1, std::memory_order_relaxed);
  };
  constexpr size_t kChunk = 64;
  Parallel((rows + kChunk - 1) / kChunk, [&](size_t chunk, size_t) {
    for (size_t row = chunk * kChunk; row < std::min(rows, (chunk + 1) * kChunk) && !Cancelled(cancel); ++row) one(row);
  });
  if (Cancelled(cancel)) return nullptr;
  return out;
}

void Timeline::Coarse(const int32_t* rows, size_t count, double begin, double end, int width, uint8_t* out) const {
  const double per_ns = static_cast<double>(bins_) / static_cast<double>(span_);
  const int first = static_cast<int>(std::clamp(std::floor(begin * per_ns), 0.0, bins_ - 1.0));
  const int last = static_cast<int>(std::clamp(std::ceil(end * per_ns) - 1, static_cast<double>(first), bins_ - 1.0));
  if (end <= 0 || begin >= static_cast<double>(span_) || width <= 0) return;
  const int from = first / kLane * kLane;
  alignas(64) uint8_t worst[4096] = {};
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* looks = looks_.data() + static_cast<size_t>(rows[i]) * static_cast<size_t>(bins_);
    for (int bin = from; bin <= last; bin += kLane) Worst(looks + bin, worst + bin);
  }
  const double bins_per_pixel = (end - begin) / width * per_ns, zero = begin * per_ns;
  int x = 0;
  if (bins_per_pixel < bins_ && std::abs(zero) < 4.0 * 4096 * 4096) {
    // Fixed point, because this runs for every pixel. Each pixel's range grows by kHair on both sides, so that rounding
    // loses no bin.
    constexpr int kBits = 32;
    constexpr int64_t kHair = 1 << 12;
    if (zero < 0) x = std::min(width, static_cast<int>(std::max(0.0, -zero / bins_per_pixel - 1)));
    const auto step = static_cast<int64_t>(bins_per_pixel * (int64_t{1} << kBits));
    const auto start = static_cast<int64_t>(zero * (int64_t{1} << kBits));
    for (; x < width; ++x) {
      const int64_t at = start + step * x;
      const int64_t a = std::max<int64_t>((at - kHair) >> kBits, first),
                    b = std::min<int64_t>((at + step + kHair) >> kBits, last);
      if (a > last) break;
      uint8_t look = out[x];
      for (int64_t bin = a; bin <= b; ++bin) look = std::max(look, worst[bin]);
      out[x] = look;
    }
    return;
  }
  for (; x < width; ++x) {
    const double at = zero + x * bins_per_pixel;
    if (at + bins_per_pixel <= 0) continue;
    if (at >= bins_) break;
    const int a = std::max(static_cast<int>(at), first);
    const int b = static_cast<int>(std::clamp<double>(std::ceil(at + bins_per_pixel) - 1, a, last));
    uint8_t look = out[x];
    for (int bin = a; bin <= b; ++bin) look = std::max(look, worst[bin]);
    out[x] = look;
  }
}

bool Timeline::Exact(int row, LaneFilter filter, double begin, double end, int width, int64_t* budget,
                     uint8_t* out) const {
  const auto r = static_cast<size_t>(row);
  const IndexRank& rank = document_->index().ranks()[r];
  const Scale scale(begin, end, width);
  const uint64_t first = first_block_[r];
  for (uint64_t b = first; b < first_block_[r + 1]; ++b) {
    const Block& block = blocks_[b];
    if (static_cast<double>(block.begin) >= end || static_cast<double>(block.end) < begin) continue;
    int x0 = 0, x1 = 0;
    if (filter.part == LaneFilter::Part::kAll &&
        scale.Cover(static_cast<double>(block.begin), static_cast<double>(block.end), &x0, &x1) && x0 == x1) {
      Fill(static_cast<uint8_t>(block.worst), x0, x1, out);
      continue;
    }
    const uint64_t from = (b - first) * kBlock, to = std::min(from + kBlock, rank.ops);
    if ((*budget -= static_cast<int64_t>(to - from)) < 0) return false;
    for (uint64_t i = from; i < to; ++i) {
      const IndexOp op = document_->index().op(r, rank.first_op + i);
      TimelinePiece pieces[3];
      const int n = PiecesOf(row, op, pieces);
      for (int k = 0; k < n; ++k) {
        if (!filter.Shows(pieces[k], op.stream)) continue;
        if (scale.Cover(static_cast<double>(pieces[k].begin), static_cast<double>(pieces[k].end), &x0, &x1)) {
          Fill(static_cast<uint8_t>(pieces[k].look), x0, x1, out);
        }
      }
    }
  }
  return true;
}

std::vector<TimelineHit> Timeline::Pieces(int row, LaneFilter filter, double begin, double end, double shortest,
                                          size_t most, int64_t* budget) const {
  std::vector<TimelineHit> out;
  const auto r = static_cast<size_t>(row);
  const IndexRank& rank = document_->index().ranks()[r];
  const uint64_t first = first_block_[r];
  for (uint64_t b = first; b < first_block_[r + 1] && out.size() < most; ++b) {
    const Block& block = blocks_[b];
    if (static_cast<double>(block.begin) >= end || static_cast<double>(block.end) < begin) continue;
    if (static_cast<double>(block.end - block.begin) < shortest) continue;
    const uint64_t from = (b - first) * kBlock, to = std::min(from + kBlock, rank.ops);
    if ((*budget -= static_cast<int64_t>(to - from)) < 0) return out;
    for (uint64_t i = from; i < to; ++i) {
      const IndexOp op = document_->index().op(r, rank.first_op + i);
      TimelinePiece pieces[3];
      const int n = PiecesOf(row, op, pieces);
      for (int k = 0; k < n && out.size() < most; ++k) {
        const TimelinePiece& piece = pieces[k];
        if (!filter.Shows(piece, op.stream) || static_cast<double>(piece.begin) >= end ||
            static_cast<double>(piece.end) < begin)
          continue;
        if (static_cast<double>(piece.end - piece.begin) < shortest) continue;
        out.push_back({row, static_cast<int64_t>(i), op.stream, piece});
      }
    }
  }
  return out;
}

TimelineHit Timeline::HitAt(int row, LaneFilter filter, double at, double near) const {
  int64_t budget = 200'000;
  TimelineHit best;
  double nearest = 0;
  for (const TimelineHit& hit : Pieces(row, filter, at - near, at + near + 1, 0, 100'000, &budget)) {
    const double distance =
        std::max({0.0, static_cast<double>(hit.piece.begin) - at, at - static_cast<double>(hit.piece.end)});
    // Prefers pieces under the cursor, then worse ones, then later ones.
    const bool before = best.row < 0 || (distance == 0) > (nearest == 0) ||
                        ((distance == 0) == (nearest == 0) &&
                         (hit.piece.look > best.piece.look ||
                          (hit.piece.look == best.piece.look && hit.piece.begin >= best.piece.begin)));
    if (!before) continue;
    best = hit;
    nearest = distance;
  }
  return best;
}

namespace {

// Uses as many decimals as are needed to tell neighboring ticks apart.
QString TickText(double at, double step, double end) {
  if (step < 60e9 && step >= 1e9 && at >= 7200e9) {
    const int64_t seconds = std::llround(at / 1e9);
    return QString("%1 h %2 min %3 s").arg(seconds / 3600).arg(seconds % 3600 / 60).arg(seconds % 60);
  }
  if (step >= 1e9 || at == 0) return AxisDuration(at);
  const auto [unit, name] = end >= 1e9   ? std::pair(1e9, "s")
                            : end >= 1e6 ? std::pair(1e6, "ms")
                            : end >= 1e3 ? std::pair(1e3, "us")
                                         : std::pair(1.0, "ns");
  const int decimals = std::clamp(static_cast<int>(std::ceil(std::log10(unit / step) - 1e-9)), 0, 9);
  return QString("%1 %2").arg(at / unit, 0, 'f', decimals).arg(QString::fromUtf8(name));
}

}  // namespace

std::vector<TimelineTick> TimelineTicks(double begin, double end, int width, int apart) {
  std::vector<TimelineTick> out;
  if (!(end > begin) || width <= 0) return out;
  const double wanted = (end - begin) / width * std::max(apart, 1);
  double step = 0;
  for (const double unit : {1.0, 1e3, 1e6}) {
    for (const double s : {1, 2, 5, 10, 20, 50, 100, 200, 500}) {
      if (step < wanted) step = s * unit;
    }
  }
  for (const double s : {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400}) {
    if (step < wanted) step = s * 1e9;
  }
  while (step < wanted) step *= 2;
  const double minor = step / 5;
  for (double k = std::ceil(begin / minor); k * minor <= end; ++k) {
    const double at = k * minor;
    const bool major = std::abs(k / 5 - std::round(k / 5)) < 1e-6;
    out.push_back({at, major ? TickText(at, step, end) : QString()});
    if (out.size() > 4096) break;
  }
  return out;
}

}  // namespace lockstep::gui
