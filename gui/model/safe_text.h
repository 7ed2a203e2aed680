// Texts out of files, made safe to show: no control characters, nothing that reorders a line, cut, and never taken for
// markup.
#ifndef LOCKSTEP_GUI_MODEL_SAFE_TEXT_H_
#define LOCKSTEP_GUI_MODEL_SAFE_TEXT_H_

#include <QString>

#include <string_view>

#include "analyzer/util/printable.h"

namespace lockstep::gui {

// For labels, table cells and the clipboard. Line feeds become spaces; `limit` columns.
inline QString Plain(std::string_view text, size_t limit = 400) {
  return QString::fromStdString(Printable(text, limit));
}
inline QString Plain(const QString& text, size_t limit = 400) {
  return Plain(std::string_view(text.toStdString()), limit);
}
// For text inside of markup.
inline QString Html(std::string_view text, size_t limit = 400) {
  return Plain(text, limit).toHtmlEscaped();
}
inline QString Html(const QString& text, size_t limit = 400) {
  return Plain(text, limit).toHtmlEscaped();
}

// Of several lines: each made safe, at most `lines` of them.
QString PlainLines(std::string_view text, size_t lines = 5000);

// "12,345"
QString Count(int64_t value);
// A length of time; on a time axis, with one digit more.
QString Duration(int64_t ns);
QString AxisDuration(double ns);

// A cell of tab-separated text; of CSV, where what a spreadsheet would take for a formula is made plain text.
QString TsvCell(const QString& text);
QString CsvCell(const QString& text);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_SAFE_TEXT_H_
