// Makes texts from files safe to show: no control characters, nothing that reorders a line, limited length, and never
// interpreted as markup.
#pragma once

#include <QString>

#include <string_view>

#include "analyzer/model/rank_set.h"
#include "analyzer/util/printable.h"

namespace lockstep::gui {

// For labels, table cells and the clipboard. Line feeds become spaces; `limit` columns.
inline QString Plain(std::string_view text, size_t limit = 400) {
  return QString::fromStdString(Printable(text, limit));
}
inline QString Plain(const QString& text, size_t limit = 400) {
  return Plain(std::string_view(text.toStdString()), limit);
}
// For text inside markup.
inline QString Html(std::string_view text, size_t limit = 400) { return Plain(text, limit).toHtmlEscaped(); }
inline QString Html(const QString& text, size_t limit = 400) { return Plain(text, limit).toHtmlEscaped(); }

// For several lines: makes each line safe, at most `lines` of them.
QString PlainLines(std::string_view text, size_t lines = 5000);

// "12,345"
QString Count(int64_t value);
// "0-3, 6"; truncated to about `columns`, with the total number.
QString RankList(const Ranks& ranks, int columns = 60);
// RankList after "rank " or "ranks ".
QString RanksText(const Ranks& ranks, int columns = 60);
// A duration as text. AxisDuration has one more digit.
QString Duration(int64_t ns);
QString AxisDuration(double ns);

// TsvCell replaces tabs and line breaks by spaces. CsvCell quotes the text if necessary, and puts ' before text that a
// spreadsheet would read as a formula.
QString TsvCell(const QString& text);
QString CsvCell(const QString& text);

}  // namespace lockstep::gui
