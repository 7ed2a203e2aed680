// Bus bandwidth by message size and by host, compared with the possible speed: Verdict::speeds, validated, as text.
#pragma once

#include <QString>
#include <QStringList>

#include <cstdint>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep::gui {

// Bytes per second: the 10th percentile of the calls, the median and the 90th percentile.
struct SpeedRange {
  double low = 0, median = 0, high = 0;
  int64_t operations = 0;
};

struct HostSpeedRow {
  QString host;
  SpeedRange rate;
};

struct SpeedRow {
  QString name;    // "AllReduce of 64 MiB, 64 ranks on 8 hosts"
  QString series;  // "AllReduce, 64 ranks on 8 hosts": rows that differ only in size
  QString roofline;
  double possible = 0;  // bytes per second; 0 if unknown
  int64_t bytes = 0;
  SpeedRange rate;
  std::vector<HostSpeedRow> hosts;  // slowest first
  int hosts_measured = 0;
};

struct Speeds {
  std::vector<SpeedRow> rows;
  std::vector<QString> series;  // series of the rows, without duplicates
  bool shares = false;          // the possible speed of at least one row is known
  QString note;                 // what 100 % means, or why there is no 100 %
};

// NaN and negative values count as 0.
Speeds SpeedsOf(const Verdict& verdict);

// Returns two lines: the median and the range, then "46 % of 50.0 GB/s (<roofline>)" or "the possible speed is
// unknown".
QString SpeedText(const SpeedRow& row, const SpeedRange& rate);

}  // namespace lockstep::gui
