#include "gui/model/safe_text.h"

#include <algorithm>
#include <cmath>

#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"

namespace lockstep::gui {

QString PlainLines(std::string_view text, size_t lines) {
  QString out;
  while (!text.empty() && lines-- > 0) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += Plain(text.substr(0, end), 2000) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

QString Count(int64_t value) { return QString::fromStdString(CountText(value)); }

QString RankList(const Ranks& ranks, int columns) {
  QString out;
  for (const auto& [first, last] : ranks.runs()) {
    const QString next = first == last ? QString::number(first) : QString("%1-%2").arg(first).arg(last);
    if (out.size() + next.size() > columns) return QString("%1, .. (%2 ranks)").arg(out).arg(ranks.size());
    out += (out.isEmpty() ? "" : ", ") + next;
  }
  return out;
}

QString RanksText(const Ranks& ranks, int columns) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + RankList(ranks, columns);
}

QString Duration(int64_t ns) { return QString::fromStdString(DurationText(ns)); }

QString AxisDuration(double ns) {
  constexpr double kMost = 9.2e18;
  return QString::fromStdString(DurationText(std::llround(std::clamp(ns, -kMost, kMost)), DurationDigits::kMore));
}

QString TsvCell(const QString& text) {
  QString out = text;
  return out.replace('\t', ' ').replace('\n', ' ').replace('\r', ' ');
}

QString CsvCell(const QString& text) {
  QString out = text;
  bool number = false;
  text.toDouble(&number);
  if (!number && !out.isEmpty() && QString("=+-@\t\r").contains(out.front())) out.prepend('\'');
  if (!out.contains(',') && !out.contains('"') && !out.contains('\n') && !out.contains('\r')) return out;
  return '"' + out.replace('"', "\"\"") + '"';
}

}  // namespace lockstep::gui
