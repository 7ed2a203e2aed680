#include "gui/model/bandwidth/speeds.h"

#include <algorithm>

#include "analyzer/report/phrases.h"
#include "gui/model/bandwidth/bandwidth.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr int kRooflinesShown = 3;

template <typename Measured>
SpeedRange RangeOf(const Measured& of) {
  SpeedRange range{KnownRate(of.low_bus_bytes_per_s()), KnownRate(of.bus_bytes_per_s()),
                   KnownRate(of.high_bus_bytes_per_s()), std::max<int64_t>(of.operations(), 0)};
  range.low = std::min(range.low, range.median);
  range.high = std::max(range.high, range.median);
  return range;
}

}  // namespace

Speeds SpeedsOf(const Verdict& verdict) {
  Speeds out;
  QStringList rooflines;
  int unknown = 0;
  for (const Speed& speed : verdict.speeds()) {
    SpeedRow row;
    const QString on = speed.hosts() <= 0   ? QString()
                       : speed.hosts() == 1 ? QString(" on one host")
                                            : QString(" on %L1 hosts").arg(speed.hosts());
    const QString operation = Plain(speed.operation(), 40);
    row.bytes = std::max<int64_t>(speed.bytes(), 1);
    row.series = QString("%1, %L2 ranks%3").arg(operation).arg(speed.ranks()).arg(on);
    row.name = QString("%1 of %2, %L3 ranks%4")
                   .arg(operation, QString::fromStdString(BytesText(row.bytes)))
                   .arg(speed.ranks())
                   .arg(on);
    row.roofline = Plain(speed.roofline(), 120);
    row.possible = KnownRate(speed.roofline_bus_bytes_per_s());
    row.rate = RangeOf(speed);
    for (const HostSpeed& host : speed.by_host()) row.hosts.push_back({Plain(host.host(), 120), RangeOf(host)});
    row.hosts_measured = std::max(speed.hosts_measured(), speed.by_host_size());
    out.shares |= row.possible > 0;
    unknown += row.possible <= 0;
    if (row.possible > 0 && !rooflines.contains(row.roofline)) rooflines << row.roofline;
    if (std::find(out.series.begin(), out.series.end(), row.series) == out.series.end())
      out.series.push_back(row.series);
    out.rows.push_back(std::move(row));
  }
  if (out.rows.empty()) return out;
  if (!out.shares) {
    out.note =
        "The possible speed is unknown here, so there is no 100 %. To see shares, use lockstep analyze --line-rate "
        "GBITS or --nccl-tests FILE.";
    return out;
  }
  out.note = "100 % is the possible speed: " + rooflines.mid(0, kRooflinesShown).join("; ") +
             (rooflines.size() > kRooflinesShown ? "; .." : "") + ". Line: from 10 to 90 % of the calls.";
  if (unknown > 0)
    out.note +=
        QString(" It is unknown for %L1 of %L2; choose one to see its hosts.").arg(unknown).arg(out.rows.size());
  return out;
}

QString SpeedText(const SpeedRow& row, const SpeedRange& rate) {
  const QString range = QString("%1, 10 to 90 % of %L2 calls: %3 to %4")
                            .arg(RateText(rate.median))
                            .arg(rate.operations)
                            .arg(RateText(rate.low), RateText(rate.high));
  if (row.possible <= 0) return range + "\nthe possible speed is unknown";
  return range + QString("\n%1 % of %2 (%3)")
                     .arg(100 * rate.median / row.possible, 0, 'f', 0)
                     .arg(RateText(row.possible), row.roofline);
}

}  // namespace lockstep::gui
