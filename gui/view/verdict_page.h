// What the verdict panel says, as markup with links; words and order without any widget.
#ifndef LOCKSTEP_GUI_VIEW_VERDICT_PAGE_H_
#define LOCKSTEP_GUI_VIEW_VERDICT_PAGE_H_

#include <QString>

#include <set>

#include "gui/model/document.h"

namespace lockstep::gui {

// "HUNG"; "READING" while nothing is decided.
QString VerdictWord(const Document& document);
// "8 ranks, 31 s: rank 5 = ..: never entered ..", printable, not escaped.
QString VerdictHeadline(const Document& document);
// "high", "medium", "low"; empty where nothing is claimed.
QString VerdictSureness(const Document& document);

// `unfolded`: sections of facts().report() beyond the first that are open. `columns`: side by side where there is room.
// Links: "finding:F", "evidence:F:E", "chain:F:L", "missing", "fold:S".
QString VerdictPage(const Document& document, const std::set<int>& unfolded, bool columns);

// The target of a link of the page; empty for folds and for links without a target.
Selection VerdictLink(const Document& document, const QString& link);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_VERDICT_PAGE_H_
